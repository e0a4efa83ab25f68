"""The JSON Schemas of a world's operations: what a model, a client or a pool is shown of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolloom.pipeline.checks.schema import as_dict, as_strings
from toolloom.pipeline.checks.world.grammar import MOMENTS, Kind
from toolloom.pipeline.checks.world.interpreter import ITEMS, PATTERNS
from toolloom.schemas import JsonObject

_FORMATS = {"date": "date", "date-time": "datetime", "time": "time"}  # of JSON Schema
_EXAMPLES = {"date": "2026-03-14", "time": "09:30", "datetime": "2026-03-14T09:30"}


def parameters(args: Mapping[str, Kind]) -> JsonObject:
    """The schema of an operation's arguments, as its interpreter takes them."""
    return {
        "type": "object",
        "properties": {name: schema_of(_listed(name, kind)) for name, kind in args.items()},
        "required": [name for name, kind in args.items() if not kind.get("optional")],
        "additionalProperties": False,
    }


def _listed(name: str, kind: Kind) -> Kind:
    """The type of an argument; an item of `option_ids` is an option, whatever its entity is."""
    if kind["type"] != "list" or kind["of"]["type"] != "ref" or not name.endswith("_ids"):
        return kind
    return {**kind, "of": {**kind["of"], "noun": name.removesuffix("_ids")}}


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
        return {"type": form, **{n: limit for n, limit in bounds.items() if limit is not None}}
    if form == "choice":
        return {"type": "string", "enum": list(kind["choices"])}
    if form == "date":
        return {"type": "string", "format": "date"}
    if form in PATTERNS:
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


def unlike(kind: Kind, told: JsonObject, where: str, taken: bool = False) -> Iterator[str]:
    """In what a type is not what a document's schema says, where that says anything; of arguments
    (`taken`) what is optional there is so here."""
    forms = told.get("type", ())
    forms = (forms,) if isinstance(forms, str) else as_strings(forms)
    form, moment = _bare(kind).get("type"), _FORMATS.get(str(told.get("format")), kind["type"])
    if kind["type"] in MOMENTS and kind["type"] != moment:
        yield f"{where} is a {kind['type']}, and in the document a {moment}."
    if form and forms and form not in forms and not (form == "integer" and "number" in forms):
        yield f"{where} is of type {form}, and in the document of type {' or '.join(forms)}."
    elif form == "array":
        yield from unlike(kind["of"], as_dict(told.get("items")), f"{where}[]", taken)
    elif form == "object" and "properties" in told:
        fields, wanted = kind["fields"], as_dict(told["properties"])
        required = as_strings(told.get("required"))
        yield from (f"{where}.{n} is not in the document." for n in fields if n not in wanted)
        for name, inner in wanted.items():
            must, named = name in required, f"{where}.{name}"
            if name not in fields:
                yield from (f"{named} is missing, and the document requires it.",) * must
                continue
            if must and fields[name].get("optional"):
                yield f"{named} is optional, and the document requires it."
            elif taken and not must and not fields[name].get("optional"):
                yield f"{named} is `optional` in the document."
            yield from unlike(fields[name], as_dict(inner), named, taken)
    choices = told.get("enum", ())
    values = kind.get("choices", [kind["constant"]] if "constant" in kind else ())
    if choices and (other := [value for value in values if value not in choices]):
        yield f"{where} can be {', '.join(map(str, other))}, which it cannot in the document."
    if choices and taken and kind["type"] == "text":
        yield f"{where} is one of {', '.join(map(str, choices))} in the document: a `choice(…)`."
