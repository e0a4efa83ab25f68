"""The simulator as the execution, with a small model: a response, one scalar at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from toolloom.agents.ask import Answer, BadAnswer, Costs, ask, one
from toolloom.llm import Model
from toolloom.prompts import render
from toolloom.schemas import Api, FunctionCall, JsonObject, Reason, seed_for

Path: TypeAlias = tuple[str | int, ...]

MOST = 6  # optional scalars asked for; required ones are asked for in any case
DEEPEST = 4
UNKNOWN: JsonObject = {
    "type": "object",
    "properties": {"result": {"type": "string", "description": "what came of it, in a few words"}},
    "required": ["result"],
}
"""The response of an API that promises none."""


async def observe(api: Api, call: FunctionCall, model: Model, seed: int) -> Answer[Any]:
    """A response of the API's return schema, each scalar a question and held to its schema."""
    wanted = api.returns if api.returns and sketch(api.returns) else UNKNOWN
    places, costs = sketch(wanted), Costs()
    values = await costs.take_all(
        _scalar(api, call, path, schema, model, seed_for(seed, api.function, *path))
        for path, schema in places
    )
    found = dict(zip((path for path, _ in places), values, strict=True))
    return costs.answer(_built(wanted, (), found))


def sketch(schema: JsonObject) -> list[tuple[Path, JsonObject]]:
    """The scalars of a response to ask for, with their schemas: the required ones, and of the
    others the first few. A list has one item."""
    known = list(_scalars(schema, (), required=True))
    must = [(path, part) for path, part, required in known if required]
    may = [(path, part) for path, part, required in known if not required]
    chosen = {path for path, _ in [*must, *may[: max(0, MOST - len(must))]]}
    return [(path, part) for path, part, _ in known if path in chosen]


def _scalars(
    schema: JsonObject, path: Path, *, required: bool
) -> Iterator[tuple[Path, JsonObject, bool]]:
    schema = _plain(schema)
    if "properties" in schema and len(path) < DEEPEST:
        needed = schema.get("required", ())
        for name, part in schema["properties"].items():
            yield from _scalars(part, (*path, name), required=required and name in needed)
    elif schema.get("type") == "array" and len(path) < DEEPEST:
        yield from _scalars(schema.get("items", {}), (*path, 0), required=required)
    elif schema.get("type") not in ("object", "array"):
        yield path, schema, required


def _plain(schema: Any) -> JsonObject:
    """The first alternative that is not null, and the first of several types."""
    if not isinstance(schema, dict):
        return {}
    for key in ("anyOf", "oneOf"):
        options = [o for o in schema.get(key, ()) if isinstance(o, dict)]
        real = [o for o in options if o.get("type") != "null"]
        if real:
            return _plain({**{k: v for k, v in schema.items() if k != key}, **real[0]})
    kind = schema.get("type")
    if isinstance(kind, list):
        return {**schema, "type": next((k for k in kind if k != "null"), "null")}
    return schema


def _built(schema: JsonObject, path: Path, found: dict[Path, Any]) -> Any:
    """The response that holds the found scalars. Required parts without any are empty."""
    schema = _plain(schema)
    if path in found:
        return found[path]
    if "properties" in schema:
        needed = schema.get("required", ())
        return {
            name: _built(part, (*path, name), found)
            for name, part in schema["properties"].items()
            if name in needed or _holds(found, (*path, name))
        }
    if schema.get("type") == "array":
        item = (*path, 0)
        return [_built(schema.get("items", {}), item, found)] if _holds(found, item) else []
    return {}


def _holds(found: dict[Path, Any], path: Path) -> bool:
    return any(known[: len(path)] == path for known in found)


async def _scalar(
    api: Api, call: FunctionCall, path: Path, schema: JsonObject, model: Model, seed: int
) -> Answer[Any]:
    name = "_".join(str(part) for part in path if isinstance(part, str)) or "result"
    variables = {
        "description": api.description,
        "arguments": call.arguments,
        "name": name.replace("_", " "),
        "about": schema.get("description", ""),
    }
    prompt, shape = render("simulator_field", variables), one("value", narrowed(name, schema))
    return await ask(model, prompt, read_field, schema=shape, seed=seed, max_tokens=32)


BY_NAME = (
    (("date", "at", "day", "expires", "start", "end"), {"format": "date"}),
    (("id", "code", "number", "reference"), {"pattern": "^[A-Z][A-Z]-[0-9][0-9][0-9]$"}),
    (("price", "total", "amount", "cost", "value"), {"pattern": "^[0-9]+\\.[0-9][0-9]$"}),
    (("time", "airtime"), {"pattern": "^(1[0-9]|2[0-3]):[0-5][0-9]$"}),
    (("url", "link"), {"pattern": "^https://[a-z]+\\.example/[a-z]+$"}),
)
"""Shapes of text fields, by the last word of their name."""


def narrowed(name: str, schema: JsonObject) -> JsonObject:
    """A scalar's schema, tight enough that a small model comes to an end."""
    kind = schema.get("type")
    last = name.lower().split("_")[-1]
    for names, form in BY_NAME if kind == "string" else ():
        if last in names and not {"enum", "format", "pattern"} & set(schema):
            return {"type": "string", **form}
    if schema.get("enum") or schema.get("format") or kind == "boolean":
        return schema
    if kind in ("string", None):
        return {"type": "string", "pattern": "^[A-Z0-9][A-Za-z0-9 ,.:'/-]*$", "maxLength": 40}
    if kind == "integer":
        bounds = {k: schema.get(k, most) for k, most in (("minimum", 1), ("maximum", 999))}
        return {"type": "integer", **bounds}
    return schema


def read_field(answer: Any) -> Any:
    """A field's value. Raises BadAnswer for a rambling text or a number beyond reason."""
    value = answer["value"]
    if isinstance(value, str):
        parts = value.lower().split()
        if not parts or len(parts) > 5 or len(set(parts)) < len(parts):
            raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"«{value[:60]}» is no short value.")
    if isinstance(value, float):
        value = round(value, 2)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > 10**6:
        raise BadAnswer(Reason.UNUSABLE_RESPONSE, f"{value} is beyond reason.")
    return value
