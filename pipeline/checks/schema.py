"""JSON Schema (2020-12) of hostile documents against hostile values, in bounded time.

Model output and API documents may hold anything under any keyword. `oddity` tells what is no plain
JSON of a size worth checking, `violations` what leaves its schema, and the rest reads keywords.
"""

from __future__ import annotations

import datetime as dt
import json
import marshal
import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import Any, NamedTuple, TypeGuard

from jsonschema_rs import Draft202012Validator, FancyRegexOptions

from toolloom.schemas import JsonObject

_DEPTH = 24
_NODES = 20_000
_LETTERS = 100_000
_HALF = re.compile(r"[\ud800-\udfff]")  # of a surrogate pair
_DIGITS = 300  # more make no float; from 4,300 Python refuses to print an integer


def oddity(value: Any) -> str | None:
    """What makes a value no plain JSON of bearable depth and size, or None. Never recurses."""
    level, nodes, letters = [value], 1, 0
    for _ in range(_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)  # a subclass is not what a parser of JSON gives
            if kind is str:
                letters += len(item)
                if not item.isascii() and _HALF.search(item):
                    return "half a surrogate pair"
            elif kind is dict:
                if not {*map(type, item)} <= {str}:
                    return "a key that is no string"
                below += item
                below += item.values()
            elif kind is list:
                below += item
            elif kind is float:
                if not math.isfinite(item):
                    return f"{item} is no number of JSON"
            elif kind is int:
                if item.bit_length() >= _DIGITS * 3.32:
                    return f"more than {_DIGITS} digits"
            elif kind is not bool and item is not None:
                return f"a {kind.__name__}, which JSON does not have"
        nodes += len(below)
        if nodes > _NODES or letters > _LETTERS:
            return f"larger than {_NODES} parts or {_LETTERS} letters"
        if not below:
            return None
        level = below
    return f"nested deeper than {_DEPTH} levels"


def schema_oddity(schema: Any) -> str | None:
    """The same of an API's schema, or that it is none."""
    try:
        return _schema_oddity(marshal.dumps(schema, 2))
    except ValueError:  # deeper than this goes, or nothing of JSON
        return oddity(schema)


@lru_cache(maxsize=4096)
def _schema_oddity(content: bytes) -> str | None:
    """Dialogue after dialogue has the same APIs; equal objects may differ in types, not these."""
    if (schema := marshal.loads(content)) is None:
        return None
    shapeless = not isinstance(schema, dict) or misshapen(schema)
    return oddity(schema) or ("not an object schema" if shapeless else None)


def misshapen(schema: JsonObject) -> str:
    """The part of an object schema that all who use it would stumble on; empty if none."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not all(
        isinstance(part, dict | bool) for part in properties.values()
    ):
        return "properties: Input should be an object of schemas"
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return "required: Input should be a list of names"
    return ""


_MOST = 8  # violations reported for one value
_STEPS = 2_000  # references that one validation may follow
_BACKTRACKS = 20_000  # of a pattern
_UNBOUNDED = ("unevaluatedProperties", "unevaluatedItems")  # exponential in the schema's depth


class UncheckableSchema(Exception):
    """A schema that is invalid, refers elsewhere or cannot be checked in bounded time."""


class Violation(NamedTuple):
    """Where a value leaves its schema: the path of names, the keyword, what was expected."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"`{self.path}`: {self.message}" if self.path else self.message


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        return bool(parse(text))
    except ValueError:
        return False


_FORMATS: dict[str, Callable[[str], bool]] = {
    # A dialogue has one local present, so its times need no offset, which RFC 3339 asks for.
    "time": partial(_parses, dt.time.fromisoformat),
    "date-time": lambda text: len(text) > 10 and _parses(dt.datetime.fromisoformat, text),
    # Formats that are not checked: nobody writes them by hand in a dialogue.
    **dict.fromkeys(
        ("idn-email", "idn-hostname", "iri", "iri-reference", "uri-reference", "uri-template",
         "json-pointer", "relative-json-pointer", "regex"),
        lambda text: True,
    ),
}  # fmt: skip


def violations(schema: JsonObject, value: Any) -> list[Violation]:
    """The first few faults of a value. Raises UncheckableSchema; never fetches a reference."""
    try:
        checker = _checker(marshal.dumps(schema, 2))  # 2: by value and exact type
        if checker.is_valid(value):
            return []
        return [
            Violation(".".join(map(str, e.instance_path)), str(e.schema_path[-1]), e.message[:200])
            for e in islice(checker.iter_errors(value), _MOST)
        ]
    # A hostile schema or value breaks a validator in ways that no list covers.
    except Exception as error:
        raise UncheckableSchema(str(error).partition("\n")[0][:200]) from error


@lru_cache(maxsize=512)
def _checker(content: bytes) -> Draft202012Validator:
    """The validator of a schema, once for each content: APIs come again in hundreds of rows."""
    schema = marshal.loads(content)
    if fault := oddity(schema):
        raise UncheckableSchema(fault)
    if _paths(schema) > _STEPS:
        raise UncheckableSchema(f"follows more than {_STEPS} references")
    return Draft202012Validator(
        json.loads(json.dumps(schema), object_hook=_bounded),
        formats=_FORMATS,
        validate_formats=True,
        retriever=_refuse,
        pattern_options=FancyRegexOptions(backtrack_limit=_BACKTRACKS),
    )


def _refuse(address: str) -> Any:
    raise ValueError(f"{address[:100]} is not fetched")


def _bounded(schema: JsonObject) -> JsonObject:
    """Without keywords that take exponential time."""
    return {key: part for key, part in schema.items() if key not in _UNBOUNDED}


def _paths(schema: JsonObject) -> float:
    """How many references may be followed for one part of a value: a schema of a few lines may
    multiply them. Those of different properties are for different parts."""
    known: dict[tuple[str, int], float] = {}

    def follow(part: Any, depth: int) -> float:
        if isinstance(part, list):
            return sum(follow(inner, depth) for inner in part)
        if not isinstance(part, dict) or not depth:
            return 0
        total = 0.0
        for key, inner in part.items():
            if key in ("$ref", "$dynamicRef") and isinstance(inner, str):
                if (inner, depth) not in known:
                    known[inner, depth] = 0  # a circle within one depth
                    known[inner, depth] = follow(_at(schema, inner), depth - 1)
                total += 1 + known[inner, depth]
            elif key == "properties" and isinstance(inner, dict):
                total += max((follow(each, depth) for each in inner.values()), default=0)
            elif key not in ("$defs", "definitions"):
                total += follow(inner, depth)
        return total

    return follow(schema, _DEPTH)


def _at(schema: JsonObject, pointer: str) -> Any:
    """What a reference within the schema points at; nothing for any other."""
    found: Any = schema if pointer[:1] == "#" else None
    for key in pointer[1:].split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found


def parts_of(value: Any) -> Iterator[Any]:
    """A JSON value and all that it holds, at any depth, in order; never recurses."""
    stack = [value]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, dict):
            stack.extend(reversed(part.values()))
        elif isinstance(part, list | tuple):
            stack.extend(reversed(part))


def leaves(value: Any) -> Iterator[Any]:
    """Every string, number, boolean and null in a JSON value, in order."""
    return (part for part in parts_of(value) if not isinstance(part, dict | list | tuple))


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, str))


def fits(schema: Any, value: Any) -> bool:
    """Whether a value satisfies its schema. A schema that cannot be checked fits nothing."""
    if schema is True or schema == {}:
        return True
    try:
        return isinstance(schema, dict) and not violations(schema, value)
    except UncheckableSchema:
        return False


_ANNOTATIONS = frozenset({
    "type", "description", "title", "examples", "example", "default", "deprecated", "readOnly",
    "writeOnly", "$comment", "$schema", "$id",
})  # fmt: skip
PLAIN_OBJECT = _ANNOTATIONS | {"properties", "required", "additionalProperties"}


def _kinds(schema: JsonObject) -> list[str]:
    kind = schema.get("type")
    return [k for k in as_strings(kind if isinstance(kind, list) else [kind]) if k != "null"]


def kind_of(schema: Any) -> str | None:
    """The type of a schema's values but null; None where it says none or several."""
    if not isinstance(schema, dict):
        return None
    parts = [v for v in variants_of(schema) if isinstance(v, dict) and not is_null(v)]
    kinds = _kinds(schema) or list({first_type(part) or "" for part in parts})
    return kinds[0] or None if len(kinds) == 1 else None


def first_type(schema: JsonObject) -> str | None:
    return next(iter(_kinds(schema)), None)


def variants_of(schema: JsonObject) -> Iterator[Any]:
    for key in ("anyOf", "oneOf"):
        yield from as_list(schema.get(key))


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


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_strings(value: Any) -> list[str]:
    return [v for v in value if isinstance(v, str)] if isinstance(value, list | tuple) else []


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def bound(schema: JsonObject, key: str, otherwise: float) -> float:
    """A number's keyword, kept to what a float holds exactly."""
    found = schema.get(key)
    if is_number(found) and abs(found) < math.inf:
        return max(-1e15, min(1e15, found))
    return otherwise
