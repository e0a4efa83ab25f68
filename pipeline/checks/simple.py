"""Values that fit simple schemas, told without jsonschema: nearly all are, a hundred times faster.

Yes is certain. No only means: ask jsonschema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolloom.schemas import JsonObject

_DEPTH = 24


def _is_integer(value: Any) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: type(v) is str,
    "integer": _is_integer,
    "number": lambda v: type(v) is int or type(v) is float,
    "boolean": lambda v: v is True or v is False,
    "null": lambda v: v is None,
    "array": lambda v: type(v) is list,
    "object": lambda v: type(v) is dict,
}
_TEXT, _FLAG = frozenset(["title", "description"]), frozenset(["deprecated", "readOnly"])
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda v, limit: v >= limit),
    "maximum": ("number", lambda v, limit: v <= limit),
    "exclusiveMinimum": ("number", lambda v, limit: v > limit),
    "exclusiveMaximum": ("number", lambda v, limit: v < limit),
    "minLength": ("string", lambda v, limit: len(v) >= limit),
    "maxLength": ("string", lambda v, limit: len(v) <= limit),
    "minItems": ("array", lambda v, limit: len(v) >= limit),
    "maxItems": ("array", lambda v, limit: len(v) <= limit),
}


def is_simple(schema: Any, depth: int = 0) -> bool:
    """A legal schema of the common keywords alone, at every depth."""
    if type(schema) is not dict or depth > _DEPTH:
        return False
    return all(_is_legal(key, value, depth) for key, value in schema.items())


def _is_legal(key: str, value: Any, depth: int) -> bool:
    if key == "type":
        return type(value) is str and value in _TYPES
    if key in _TEXT or key == "format":
        return type(value) is str
    if key == "properties":
        # jsonschema's guard against costly patterns looks for that name at every depth.
        if type(value) is not dict or "patternProperties" in value:
            return False
        return all(is_simple(part, depth + 1) for part in value.values())
    if key == "required":
        return _are_scalars(value, str) and len(set(value)) == len(value)
    if key in {"enum", "examples"}:
        return _are_scalars(value)
    if key == "items":
        return is_simple(value, depth + 1)
    if key == "additionalProperties" or key in _FLAG:
        return type(value) is bool
    if key == "default":
        return _are_scalars([value])
    if key in _LIMITS:
        whole = _LIMITS[key][0] != "number"
        return type(value) is int and (value >= 0 or not whole)
    return False


def _are_scalars(values: Any, *kinds: type) -> bool:
    allowed = kinds or (str, int, float, bool, type(None))
    return type(values) is list and all(type(value) in allowed for value in values)


def fits(schema: JsonObject, value: Any, is_format: Callable[[Any, str], bool | None]) -> bool:
    """Does the value certainly fit a simple schema?

    `is_format`: whether a value has a format; None where that takes jsonschema to tell.
    """
    kind = schema.get("type")
    if kind is not None and not _TYPES[kind](value):
        return False
    if "enum" in schema and not (type(value) is str and value in schema["enum"]):
        return False
    if "format" in schema and not is_format(value, schema["format"]):
        return False
    if type(value) is dict and not _has_fields(schema, value, is_format):
        return False
    if type(value) is list and "items" in schema:
        each = schema["items"]
        if not all(fits(each, item, is_format) for item in value):
            return False
    return all(_is_within(key, schema[key], value) for key in _LIMITS if key in schema)


def _has_fields(
    schema: JsonObject, value: JsonObject, is_format: Callable[[Any, str], bool | None]
) -> bool:
    known = schema.get("properties", {})
    if not all(name in value for name in schema.get("required", ())):
        return False
    if schema.get("additionalProperties") is False and not all(name in known for name in value):
        return False
    return all(fits(part, value[name], is_format) for name, part in known.items() if name in value)


def _is_within(key: str, limit: Any, value: Any) -> bool:
    kind, holds = _LIMITS[key]
    return not _TYPES[kind](value) or holds(value, limit)
