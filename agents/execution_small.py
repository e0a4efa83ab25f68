"""The simulator as the execution, with a small model: a response field by field."""

from __future__ import annotations

from typing import Any

from toolloom.agents.ledger import Ledger
from toolloom.agents.shapes import one
from toolloom.llm import Answer, Misfit, Model, ask
from toolloom.prompts import render
from toolloom.schemas import Api, FunctionCall, JsonObject, Reason, seed_for


async def observe(api: Api, call: FunctionCall, model: Model, seed: int) -> Answer[JsonObject]:
    """A response, field by field, each held to its schema."""
    names, ledger = list(api.fields), Ledger()
    values = await ledger.take_all(
        _field(api, call, n, model, seed_for(seed, api.function, n)) for n in names
    )
    return ledger.answer(dict(zip(names, values, strict=True)))


async def _field(api: Api, call: FunctionCall, name: str, model: Model, seed: int) -> Answer[Any]:
    schema = api.fields[name]
    return await ask(
        model,
        render(
            "simulator_field",
            {
                "description": api.description,
                "arguments": call.arguments,
                "name": name.replace("_", " "),
                "about": schema.get("description", ""),
            },
        ),
        read_field,
        schema=one("value", narrowed(name, schema)),
        seed=seed,
        max_tokens=32,
    )


BY_NAME = (
    (("date", "at", "day", "expires", "start", "end"), {"format": "date"}),
    (("id", "code", "number", "reference"), {"pattern": "^[A-Z][A-Z]-[0-9][0-9][0-9]$"}),
    (("price", "total", "amount", "cost", "value"), {"pattern": "^[0-9]+\\.[0-9][0-9]$"}),
    (("time", "airtime"), {"pattern": "^(1[0-9]|2[0-3]):[0-5][0-9]$"}),
    (("url", "link"), {"pattern": "^https://[a-z]+\\.example/[a-z]+$"}),
)
"""Shapes of text fields, by the last word of their name."""


def narrowed(name: str, schema: JsonObject) -> JsonObject:
    """A field's schema, tight enough that a small model comes to an end."""
    kind = schema.get("type")
    last = name.lower().split("_")[-1]
    for names, form in BY_NAME if kind == "string" else ():
        if last in names and not {"enum", "format", "pattern"} & set(schema):
            return {"type": "string", **form}
    if schema.get("enum") or schema.get("format") or kind == "boolean":
        return schema
    if kind == "string":
        return {"type": "string", "pattern": "^[A-Z0-9][A-Za-z0-9 ,.:'/-]*$", "maxLength": 40}
    if kind == "integer":
        return {"type": "integer", "minimum": 1, "maximum": 999, **_bounds(schema)}
    return schema


def _bounds(schema: JsonObject) -> JsonObject:
    return {k: schema[k] for k in ("minimum", "maximum") if k in schema}


def read_field(answer: Any) -> Any:
    """A field's value. Raises Misfit for a rambling text or a number beyond reason."""
    value = answer["value"]
    if isinstance(value, str):
        parts = value.lower().split()
        if not parts or len(parts) > 5 or len(set(parts)) < len(parts):
            raise Misfit(Reason.UNUSABLE_RESPONSE, f"«{value[:60]}» is no short value.")
    if isinstance(value, float):
        value = round(value, 2)
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) > 10**6:
        raise Misfit(Reason.UNUSABLE_RESPONSE, f"{value} is beyond reason.")
    return value
