"""JSON Schemas of answers."""

from __future__ import annotations

from toolloom.schemas import JsonObject


def shape(properties: JsonObject) -> JsonObject:
    """Shape of an answer with these fields, all of them given, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def one(name: str, schema: JsonObject) -> JsonObject:
    """Shape of an answer with one field."""
    return shape({name: schema})
