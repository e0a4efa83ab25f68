"""The keywords of one schema: read from any dialect, and merged with those of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from toolloom.schemas import JsonObject

Wrap: TypeAlias = Callable[[Any], Any]  # a schema within a schema, with where it stands
Complain: TypeAlias = Callable[[str], None]  # called with a keyword that cannot be kept

_GROUPS = 4  # `anyOf` and `oneOf` that hold at the same time
_JSON_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
_OTHER_NAMES = {
    "string": "str text char character varchar file binary byte bytes password date datetime "
    "date-time timestamp time uuid email uri url enum",
    "integer": "int int32 int64 long short bigint timestamp-ms",
    "number": "float double decimal real num numeric float32 float64 complex",
    "boolean": "bool",
    "array": "list tuple set sequence iterable",
    "object": "dict dictionary map hash hashmap hashtable struct json mapping",
    "null": "none nil void undefined",
}
_TYPES = {name: name for name in _JSON_TYPES} | {
    other: name for name, others in _OTHER_NAMES.items() for other in others.split()
}
_ANY = {"any", "mixed", "unknown", "", "anything", "*"}
NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
DROPPED = (
    "not",
    "if",
    "contains",
    "propertyNames",
    "patternProperties",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "unevaluatedProperties",
    "$dynamicRef",
)
"""Rules that models seldom keep and few endpoints accept; leaving one out allows more values."""
_AS_THEY_ARE = (
    *("type", "title", "description", "nullable", "x-nullable", "readOnly", "writeOnly"),
    *("enum", "const", "default", "example", "examples", "format", "pattern", "multipleOf"),
    *(*NUMBERS, *COUNTS, "uniqueItems", "deprecated", *DROPPED),
)


def own(schema: dict[Any, Any], wrap: Wrap) -> dict[str, Any]:
    """The keywords that are known, each schema in them wrapped. `groups`: anyOf and oneOf."""
    found: dict[str, Any] = {k: schema[k] for k in _AS_THEY_ARE if k in schema}
    named = schema.get("properties")
    if isinstance(named, dict):
        found["properties"] = {name: wrap(each) for name, each in named.items()}
    required = schema.get("required")
    if isinstance(required, list):
        found["required"] = [n for n in dict.fromkeys(filter(_is_text, required)) if n]
    extra = schema.get("additionalProperties")
    if isinstance(extra, bool):
        found["additionalProperties"] = extra
    elif isinstance(extra, dict) and extra:
        found["additionalProperties"] = wrap(extra)
    items, first = schema.get("items"), schema.get("prefixItems")
    if isinstance(items, dict) and items:
        found["items"] = wrap(items)
    if isinstance(items, list) and items:
        first = items
    if isinstance(first, list) and first:
        found["prefixItems"] = [wrap(each) for each in first]
    groups = [schema.get("anyOf"), schema.get("oneOf")]
    if any(groups):
        found["groups"] = [[wrap(e) for e in g] for g in groups if isinstance(g, list) and g]
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Keywords that hold together. Where only one can stay it is the first's."""
    if not first:
        return second
    both = {**second, **first}
    for name in ("properties", "required", "groups", "type", "enum"):
        if name in first and name in second:
            both[name] = _JOIN[name](first[name], second[name])
    return both


def _properties(first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
    together = {**second, **first}
    for name in first.keys() & second.keys():
        if first[name] is not second[name]:
            together[name] = first[name]._replace(schema={"allOf": [first[name], second[name]]})
    return together


def _types(first: Any, second: Any) -> Any:
    one, other = _type_names(first), _type_names(second)
    both = [t for t in one if t in other]
    if "integer" in one + other and "number" in one + other:
        both.append("integer")
    return list(dict.fromkeys(both)) or first


def _enum(first: Any, second: Any) -> Any:
    """Choices that both have. Objects are not compared: aliases of YAML may make that endless."""
    if not isinstance(first, list) or not isinstance(second, list):
        return first
    others = {value for value in second if isinstance(value, str | int | float)}
    return [v for v in first if isinstance(v, str | int | float) and v in others] or first


_JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "properties": _properties,
    "required": lambda first, second: list(dict.fromkeys([*second, *first])),
    "groups": lambda first, second: [*first, *second][:_GROUPS],
    "type": _types,
    "enum": _enum,
}


def outline(schema: Any) -> dict[str, Any]:
    """What can be said of a schema without looking into it."""
    if not isinstance(schema, dict):
        return {}
    found = {k: schema[k] for k in ("type", "description", "title") if k in schema}
    if "type" not in found and ("properties" in schema or "allOf" in schema):
        found["type"] = "object"
    return found


def _type_names(given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    texts = [n.strip().lower() for n in names if isinstance(n, str) and len(n) < 40]
    return list(dict.fromkeys(_TYPES[t] for t in texts if t in _TYPES))


def types(found: dict[str, Any], complain: Complain) -> list[str]:
    """JSON's names of the types, by their other names too; inferred where none is given."""
    given = found.get("type")
    names = _type_names(given)
    if given is not None and not names and not _is_any(given):
        complain("type")
    if isinstance(given, list) and any(map(_is_any, given)):
        return []
    if not names and given is None:
        names = _inferred(found)
    if names and is_nullable(found) and "null" not in names:
        names.append("null")
    if "number" in names and "integer" in names:
        names.remove("integer")
    return names


def _is_any(given: Any) -> bool:
    return isinstance(given, str) and given.strip().lower() in _ANY


def is_nullable(found: dict[str, Any]) -> bool:
    return found.get("nullable") is True or found.get("x-nullable") is True


def _inferred(found: dict[str, Any]) -> list[str]:
    if found.get("properties") or "additionalProperties" in found:
        return ["object"]
    if "items" in found or "prefixItems" in found:
        return ["array"]
    given = found.get("enum")
    if isinstance(given, list) and given and all(map(_is_text, given)):
        return ["string"]
    return []


def same_words(title: str, name: str) -> bool:
    """`Start Date` says no more than `start_date`."""
    return _letters(title) == _letters(name)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def widened(variants: list[JsonObject]) -> list[str]:
    """The types of alternatives; none if one of them may be anything."""
    names: dict[str, None] = {}
    for variant in variants:
        found = types(variant, lambda _: None)
        if not found:
            return []
        names.update(dict.fromkeys(found))
    return list(names)
