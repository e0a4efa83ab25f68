"""JSON Schema's keywords, read from documents that may hold anything under any of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from toolloom.pipeline.checks.schema import UncheckableSchema, violations
from toolloom.schemas import JsonObject

_ANNOTATIONS = frozenset({
    "type", "description", "title", "examples", "example", "default", "deprecated", "readOnly",
    "writeOnly", "$comment", "$schema", "$id",
})  # fmt: skip
PLAIN_OBJECT = _ANNOTATIONS | {"properties", "required", "additionalProperties"}
_SIMPLE = _ANNOTATIONS | {"enum", "minLength", "maxLength"}
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def fits(schema: Any, value: Any) -> bool:
    """Whether a value satisfies its schema. A schema that cannot be checked fits nothing."""
    if schema is True or schema == {}:
        return True
    if not isinstance(schema, dict):
        return False
    plain = _plainly_fits(schema, value)
    if plain is not None:
        return plain
    try:
        return not violations(schema, value)
    except UncheckableSchema:
        return False


def _plainly_fits(schema: JsonObject, value: Any) -> bool | None:
    """The same for the scalars of most schemas, without a validator; None where it takes one."""
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _SCALARS or not schema.keys() <= _SIMPLE:
        return None
    if not isinstance(value, _SCALARS[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return None if kind == "integer" else False  # 2.0 is an integer too
    if "enum" in schema:
        choices = schema["enum"]
        same = [v for v in choices if v == value] if isinstance(choices, list) else []
        if not any(isinstance(v, bool) == isinstance(value, bool) for v in same):
            return False
    if not isinstance(value, str):
        return True
    return bound(schema, "minLength", 0) <= len(value) <= bound(schema, "maxLength", math.inf)


def kind_of(schema: Any) -> str | None:
    """The type of a schema's values but null; None where it says none or several."""
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k != "null"]
    if kinds and isinstance(kinds[0], str):
        return kinds[0] if len(kinds) == 1 else None
    parts = [v for v in variants_of(schema) if isinstance(v, dict) and not is_null(v)]
    variants = {first_type(part) for part in parts}
    return variants.pop() if len(variants) == 1 else None


def first_type(schema: JsonObject) -> str | None:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return next((k for k in kinds if isinstance(k, str) and k != "null"), None)


def variants_of(schema: JsonObject) -> Iterator[Any]:
    for key in ("anyOf", "oneOf"):
        found = schema.get(key)
        yield from found if isinstance(found, list) else ()


def is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def merged(schema: JsonObject) -> JsonObject:
    """All parts of an `allOf` in one; the whole is checked afterwards."""
    parts = [p for p in schema["allOf"][:8] if isinstance(p, dict)]
    made: JsonObject = {}
    for part in [*parts, {k: v for k, v in schema.items() if k != "allOf"}]:
        properties = {**made.get("properties", {}), **as_dict(part.get("properties"))}
        required = [*made.get("required", ()), *as_strings(part.get("required"))]
        made |= part
        made |= {"properties": properties} if properties else {}
        made |= {"required": required} if required else {}
    return made


def as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_strings(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list | tuple) else []


def bound(schema: JsonObject, key: str, otherwise: float) -> float:
    """A number's keyword, kept to what a float holds exactly."""
    found = schema.get(key)
    if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < math.inf:
        return max(-1e15, min(1e15, found))
    return otherwise
