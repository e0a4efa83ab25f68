"""JSON Schemas told from example values, for sources that show values and no types."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolloom.schemas.base import JsonObject

_DEPTH = 5
_WIDTH = 60  # keys of an object, items of a list, that are looked at
_KEY = re.compile(r"[A-Za-z_$@][\w$@.-]{0,63}")


def schema_of(values: Iterable[Any], depth: int = 0) -> JsonObject:
    """A schema that all values fit, as narrow as can be said without guessing.

    Objects whose keys look like data (`10032`, `2023-04-12`) get no properties.
    """
    seen = list(values)
    kinds = {_kind(value) for value in seen}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if not kinds or depth >= _DEPTH:
        return {}
    made: JsonObject = {"type": kinds.pop() if len(kinds) == 1 else sorted(kinds)}
    if made["type"] == "object":
        made |= _properties(seen, depth)
    elif made["type"] == "array":
        items = schema_of([item for value in seen for item in value[:_WIDTH]], depth + 1)
        made |= {"items": items} if items else {}
    return made


def _kind(value: Any) -> str:
    for kind, name in _KINDS:
        if isinstance(value, kind):
            return name
    return "null" if value is None else "string"


_KINDS = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
)


def _properties(objects: list[dict[str, Any]], depth: int) -> JsonObject:
    keys = {key: None for value in objects for key in list(value)[:_WIDTH]}
    if not keys or not all(_KEY.fullmatch(str(key)) for key in keys):
        return {}
    found = {
        str(key): schema_of([value[key] for value in objects if key in value], depth + 1)
        for key in keys
    }
    return {"properties": found}
