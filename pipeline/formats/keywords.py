"""The keywords of one schema: read from any dialect, merged with others, each value checked."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias

from toolloom.pipeline.formats.import_log import Why, legible
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
    both = {**second, **first}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        match name:
            case "properties":
                both[name] = {**other, **one}
                for key in one.keys() & other.keys():
                    if one[key] is not other[key]:
                        parts = {"allOf": [one[key], other[key]]}
                        both[name][key] = one[key]._replace(schema=parts)
            case "required":
                both[name] = list(dict.fromkeys([*other, *one]))
            case "groups":
                both[name] = [*one, *other][:_GROUPS]
            case "type":
                names, others = _type_names(one), _type_names(other)
                shared = [t for t in names if t in others]
                if {"integer", "number"} <= {*names, *others}:
                    shared.append("integer")
                both[name] = list(dict.fromkeys(shared)) or one
            case "enum" if isinstance(one, list) and isinstance(other, list):
                # Objects are not compared: aliases of YAML may make that endless.
                plain = {value for value in other if isinstance(value, str | int | float)}
                kept = [v for v in one if isinstance(v, str | int | float) and v in plain]
                both[name] = kept or one
    return both


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
    first, second = ("".join(filter(str.isalnum, one.lower())) for one in (title, name))
    return first == second


def widened(variants: list[JsonObject]) -> list[str]:
    """The types of alternatives; none if one of them may be anything."""
    names: dict[str, None] = {}
    for variant in variants:
        found = types(variant, lambda _: None)
        if not found:
            return []
        names.update(dict.fromkeys(found))
    return list(names)


CHOICES = 64
_CHOICE, _EXAMPLE, _PATTERN = 300, 200, 200  # characters
_EXAMPLES = 2
_PARTS = 60  # values within a default or an example
_FORMAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./ -]{0,40}")


def choices(
    found: dict[str, Any], kinds: list[str], response: bool
) -> tuple[list[Any], list[tuple[Why, int]]]:
    """Legal choices of the type, at most 64; of a response all or none. And what was left out."""
    given = [found["const"]] if "const" in found else found.get("enum")
    if not isinstance(given, list) or not given:
        return [], []
    left_out: list[tuple[Why, int]] = []
    kept: dict[str, Any] = {}
    illegal = 0
    for value in given[: CHOICES * 4]:
        text, choice = small(_of_type(value, kinds), _CHOICE)
        if text and _fits(choice, kinds):
            kept[text] = choice
        else:
            illegal += 1
    rest = len(given) - illegal
    if illegal:
        left_out.append(("invalid", 0))
    if len(kept) > CHOICES or len(given) > CHOICES * 4:
        size = sum(map(len, list(kept)[CHOICES:])) + 10 * max(rest - len(kept), 0)
        left_out.append(("enum", 0 if response else size))
    if left_out and response:
        return [], left_out
    legal_ones = list(kept.values())[:CHOICES]
    if legal_ones and is_nullable(found) and None not in legal_ones:
        legal_ones.append(None)
    return legal_ones, left_out


def _of_type(value: Any, kinds: list[str]) -> Any:
    """`1` among the choices of a text is "1", and "1" among those of a number is 1."""
    if "string" in kinds and len(kinds) <= 2 and isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str) and kinds and "string" not in kinds and len(value) < 20:
        try:
            return json.loads(value.lower(), parse_constant=str)
        except ValueError:
            return value
    return value


def _fits(value: Any, kinds: list[str]) -> bool:
    if not kinds:
        return True
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int):
        return "integer" in kinds or "number" in kinds
    if isinstance(value, float):
        return "number" in kinds or ("integer" in kinds and value.is_integer())
    name = {str: "string", list: "array", dict: "object", type(None): "null"}[type(value)]
    return name in kinds


def small(value: Any, limit: int, most: int = _PARTS) -> tuple[str, Any]:
    """A value as JSON text and as that text reads; empty text if it is no JSON or too long.

    What is large is not written out to find that it is: aliases of YAML can multiply.
    """
    if isinstance(value, str):
        return (value, value) if len(value) <= limit and legible(value) == value else ("", None)
    stack, parts = [value], 0
    while stack:
        part = stack.pop()
        parts += 1
        if parts > most or (isinstance(part, str) and len(part) > limit):
            return "", None
        if isinstance(part, dict):
            stack.extend(islice(part.values(), most + 1))
            if len(part) > most or not all(isinstance(key, str) for key in part):
                return "", None
        elif isinstance(part, list):
            stack.extend(part[: most + 1])
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return "", None
    return (text, json.loads(text)) if len(text) <= limit else ("", None)


def limits(
    found: dict[str, Any], kinds: list[str], complain: Complain
) -> Iterator[tuple[str, Any]]:
    """Keywords about the value itself, each legal, in a fixed order."""
    form = found.get("format")
    if isinstance(form, str) and _FORMAT.fullmatch(form):
        yield "format", form
    pattern = found.get("pattern")
    if isinstance(pattern, str) and (not kinds or "string" in kinds):
        if _compiles(pattern):
            yield "pattern", pattern
        else:
            complain("pattern")
    yield from _numbers(found, complain)
    if found.get("uniqueItems") is True and (not kinds or "array" in kinds):
        yield "uniqueItems", True
    if found.get("deprecated") is True:
        yield "deprecated", True
    yield from _examples(found, kinds)


def _numbers(found: dict[str, Any], complain: Complain) -> Iterator[tuple[str, Any]]:
    given = dict(found)
    for open_end, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        strict = given.get(open_end)
        if isinstance(strict, bool):  # until draft 4 it says how the bound is meant
            given.pop(open_end)
            if strict and bound in given:
                given[open_end] = given.pop(bound)
    for name in (*NUMBERS, "multipleOf"):
        if name in given:
            value = given[name]
            if _is_number(value) and (name != "multipleOf" or value > 0):
                yield name, value
            else:
                complain(name)
    for name in COUNTS:
        if name in given:
            value = given[name]
            if _is_number(value) and value >= 0 and value == int(value):
                yield name, int(value)
            elif value is not None:
                complain(name)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 2**63 if isinstance(value, int) else math.isfinite(value)


def _examples(found: dict[str, Any], kinds: list[str]) -> Iterator[tuple[str, Any]]:
    """A default and a few examples, if they are small and of the type."""
    if "default" in found:
        text, value = small(_of_type(found["default"], kinds), _EXAMPLE)
        if text and _fits(value, kinds):
            yield "default", value
    several = found.get("examples")
    given = [found["example"]] if "example" in found else []
    given += several[:_EXAMPLES] if isinstance(several, list) else []
    kept: dict[str, Any] = {}
    for each in given:
        text, value = small(_of_type(each, kinds), _EXAMPLE)
        if text and _fits(value, kinds):
            kept[text] = value
    if kept:
        yield "examples", list(kept.values())[:_EXAMPLES]


@lru_cache(maxsize=4096)
def _compiles(pattern: str) -> bool:
    """A pattern of another dialect of regular expressions may mean something else or nothing."""
    if len(pattern) > _PATTERN or legible(pattern) != pattern:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, Warning):
        return False
    return True
