"""The JSON Schemas of a world's operations: what a model, a client or a pool is shown of them."""

from __future__ import annotations

from collections.abc import Mapping

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import ITEMS, PATTERNS
from toolloom.schemas import JsonObject

_EXAMPLES = {"date": "2026-03-14", "time": "09:30", "datetime": "2026-03-14T09:30"}


def parameters(args: Mapping[str, Kind]) -> JsonObject:
    """The schema of an operation's arguments, as its interpreter takes them."""
    return {
        "type": "object",
        "properties": {name: schema_of(kind) for name, kind in args.items()},
        "required": [name for name, kind in args.items() if not kind.get("optional")],
        "additionalProperties": False,
    }


def schema_of(kind: Kind) -> JsonObject:
    """The schema of a type, with its description."""
    schema: JsonObject = _bare(kind)
    about = kind.get("about")
    if kind["type"] == "ref" and not about:
        about = f"The {str(kind.get('noun', kind['entity'])).replace('_', ' ')}'s id."
    if about:
        schema["description"] = about
    return schema


def _bare(kind: Kind) -> JsonObject:
    form = kind["type"]
    if kind.get("whole"):
        return {"type": "integer"}
    if form in ("integer", "number"):
        bounds = {"minimum": kind.get("low"), "maximum": kind.get("high")}
        return {
            "type": form,
            **{name: limit for name, limit in bounds.items() if limit is not None},
        }
    if form == "choice":
        return {"type": "string", "enum": list(kind["choices"])}
    if form in PATTERNS:
        if form == "date":
            return {"type": "string", "format": "date"}
        pattern = f"^{PATTERNS[form].pattern}$"
        return {"type": "string", "pattern": pattern, "examples": [_EXAMPLES[form]]}
    if form == "list":
        return {"type": "array", "items": schema_of(kind["of"]), "maxItems": ITEMS}
    if form == "object":
        return parameters(kind["fields"])
    if form == "boolean":
        return {"type": "boolean"}
    return {} if form in ("any", "null") else {"type": "string"}


def returns(shape: Kind) -> JsonObject | None:
    """The schema of a response; nothing of an operation that returns nothing."""
    return None if shape["type"] == "null" else _shape(shape)


def _shape(kind: Kind) -> JsonObject:
    """Of a response: what is not there is left out, so nothing is required of an object."""
    schema: JsonObject
    if kind["type"] == "object":
        properties = {name: _shape(inner) for name, inner in kind["fields"].items()}
        schema = {"type": "object", "properties": properties}
        if "of" in kind:
            schema["additionalProperties"] = _shape(kind["of"])
    elif kind["type"] == "list":
        schema = {"type": "array", "items": _shape(kind["of"])}
    else:
        bare = _bare(kind)
        schema = {n: bare[n] for n in ("type", "enum", "format", "pattern") if n in bare}
    return {"anyOf": [schema, {"type": "null"}]} if kind.get("nullable") else schema
