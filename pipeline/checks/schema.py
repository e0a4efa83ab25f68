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
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import count, islice
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend
from referencing import Registry

from toolloom.pipeline.checks.transcript import shown
from toolloom.schemas import JsonObject, canonical

_DEPTH = 24
_NODES = 20_000
_LETTERS = 100_000
_HALF = re.compile(r"[\ud800-\udfff]")  # of a surrogate pair
_DIGITS = 300  # more make no float; from 4,300 Python refuses to print an integer


def oddity(value: Any) -> str | None:
    """What makes a value no plain JSON of bearable depth and size, or None. Never recurses."""
    if type(value) is str and value.isascii() and len(value) <= _LETTERS:
        return None
    level, nodes, letters = [value], 1, 0
    for _ in range(_DEPTH + 1):  # a level at a time: nearly all values are plain, so it is quick
        below: list[Any] = []
        for item in level:
            if isinstance(item, str):
                pass
            elif isinstance(item, dict):
                nodes += len(item)
                below += item.values()
                try:
                    item = "".join(item)  # its keys, as one text
                except TypeError:
                    return "a key that is no string"
            elif isinstance(item, list):
                below += item
                continue
            else:
                if item is not None and (fault := _odd_leaf(item)) is not None:
                    return fault
                continue
            letters += len(item)
            if not item.isascii() and _HALF.search(item):
                return "half a surrogate pair"
        nodes += len(below)
        if nodes > _NODES or letters > _LETTERS:
            return f"larger than {_NODES} parts or {_LETTERS} letters"
        if not below:
            return None
        level = below
    return f"nested deeper than {_DEPTH} levels"


def _odd_leaf(item: Any) -> str | None:
    if item is None or isinstance(item, bool):
        return None
    if isinstance(item, float):
        return None if math.isfinite(item) else f"{item} is no number of JSON"
    if isinstance(item, int):
        return None if item.bit_length() < _DIGITS * 3.32 else f"more than {_DIGITS} digits"
    return f"a {type(item).__name__}, which JSON does not have"


_MOST = 8  # violations reported for one value
_STEPS = 2_000  # references followed in one validation
_PATTERN, _SUBJECT, _REPEATS = 200, 400, 3
_OPEN = re.compile(r"[*+]|\{\d*,\d*\}|\{\d{3,}\}")
_AMBIGUOUS = re.compile(rf"{_OPEN.pattern}|\||(?<!\()\?")  # in a group that is repeated
_FORMATS = FormatChecker(("date", "email", "uri", "ipv4", "ipv6", "uuid", "hostname", "duration"))
_CHEAP_FORMATS = frozenset(["date", "time", "date-time", "email"])


class UncheckableSchema(Exception):
    """A schema that is invalid, refers elsewhere or cannot be checked in bounded time."""


class Violation(NamedTuple):
    """Where a value leaves its schema: the path of names, the keyword, what was expected."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"`{self.path}`: {self.message}" if self.path else self.message


# A dialogue has one local present, so its times need no offset, which RFC 3339 asks for.
@_FORMATS.checks("date-time", raises=ValueError)
def _is_date_time(value: object) -> bool:
    if isinstance(value, str):
        dt.datetime.fromisoformat(value)
        return len(value) > 10
    return True


@_FORMATS.checks("time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(dt.time.fromisoformat(value)) or ":" in value


def violations(schema: JsonObject, value: Any) -> list[Violation]:
    """The first few faults of a value. Raises UncheckableSchema; never fetches a reference."""
    if of_content(_is_simple, schema) and fits_simple(schema, value, _is_format):
        return []
    text = canonical(schema)
    try:
        checker = _counting(schema) if "Ref" in text or "$ref" in text else _checker(text)
        return [
            Violation(".".join(map(str, e.absolute_path)), str(e.validator), e.message[:200])
            for e in islice(checker.iter_errors(value), _MOST)
        ]
    except UncheckableSchema:
        raise
    # A hostile schema breaks jsonschema in ways no list covers: unresolvable, endless, ill-typed.
    except Exception as error:
        told = error.message[:200] if isinstance(error, SchemaError) else type(error).__name__
        raise UncheckableSchema(told) from error


def _is_format(value: Any, name: str) -> bool | None:
    """Whether a value has a format that is cheap to tell, or that nobody checks."""
    if name not in _FORMATS.checkers:
        return True
    return _FORMATS.conforms(value, name) if name in _CHEAP_FORMATS else None


@lru_cache(maxsize=512)
def _checker(text: str) -> Draft202012Validator:
    return _build(json.loads(text), {})


def _counting(schema: JsonObject) -> Draft202012Validator:
    """A validator that gives up on schemas whose references multiply without end."""
    steps = count()

    def follow(validator: Any, ref: Any, instance: Any, within: Any) -> Iterator[ValidationError]:
        if next(steps) > _STEPS:
            raise UncheckableSchema(f"follows more than {_STEPS} references")
        yield from Draft202012Validator.VALIDATORS["$ref"](validator, ref, instance, within)

    return _build(schema, {"$ref": follow, "$dynamicRef": follow})


def _build(schema: JsonObject, keywords: dict[str, Any]) -> Draft202012Validator:
    for part in parts_of(schema):
        patterns = part.get("patternProperties") if isinstance(part, dict) else None
        # jsonschema tries them for `additionalProperties`.
        if isinstance(patterns, dict) and not all(_is_cheap(p, "") for p in patterns):
            raise UncheckableSchema("a pattern for property names that may take forever")
    Draft202012Validator.check_schema(schema, format_checker=FormatChecker(()))
    bounded = {
        "pattern": _pattern,
        "patternProperties": _pass,  # arguments are held to `properties`; see calls.py
        "unevaluatedProperties": _pass,  # exponential in the depth of the schema
        "unevaluatedItems": _pass,
    }
    kind: type[Draft202012Validator] = extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {**bounded, **keywords}
    )
    return kind(schema, registry=Registry(), format_checker=_FORMATS)


def parts_of(value: Any) -> Iterator[Any]:
    """A JSON value and all that it holds, at any depth; never recurses."""
    stack = [value]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, dict):
            stack.extend(part.values())
        elif isinstance(part, list):
            stack.extend(part)


def _pass(validator: Any, keyword: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    yield from ()


def _pattern(validator: Any, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """`pattern`, but for expressions that may take forever or that Python cannot compile."""
    if isinstance(value, str) and isinstance(pattern, str) and _is_cheap(pattern, value):
        try:
            fits = re.search(pattern, value)
        except (re.error, OverflowError, RecursionError):
            return
        if not fits:
            yield ValidationError(f"{shown(value)} does not match {shown(pattern)}")


def _matches(pattern: str, value: str) -> bool:
    """Whether a value certainly has a pattern."""
    try:
        return _is_cheap(pattern, value) and re.search(pattern, value) is not None
    except (re.error, OverflowError, RecursionError):
        return False


def _is_cheap(pattern: str, value: str) -> bool:
    return len(value) <= _SUBJECT and _is_bounded(pattern)


@lru_cache(maxsize=512)
def _is_bounded(pattern: str) -> bool:
    """Few open repeats and none on a group, so that backtracking stays polynomial and small."""
    nested = re.search(r"\)(?:[*+]|\{\d*,?\d*\})", pattern)
    inner = nested and _AMBIGUOUS.search(pattern[: nested.start()])
    few = len(_OPEN.findall(pattern)) <= _REPEATS
    return few and not inner and len(pattern) <= _PATTERN


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


@lru_cache(maxsize=1024)
def _is_simple(content: bytes) -> bool:
    return is_simple(marshal.loads(content))


def of_content(judge: Callable[[bytes], bool], value: Any) -> bool:
    """What is judged of a value that comes again in hundreds of rows, such as the schemas of an
    API: once for each content. No is also said of what is nested too deep or no JSON."""
    try:
        return judge(marshal.dumps(value, 2))  # 2: by value and exact type
    except ValueError:
        return False


def _is_legal(key: str, value: Any, depth: int) -> bool:
    if key == "type":
        return type(value) is str and value in _TYPES
    if key in _TEXT or key in {"format", "pattern"}:
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


def fits_simple(
    schema: JsonObject, value: Any, is_format: Callable[[Any, str], bool | None]
) -> bool:
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
    if "pattern" in schema and type(value) is str and not _matches(schema["pattern"], value):
        return False
    if type(value) is dict and not _has_fields(schema, value, is_format):
        return False
    if type(value) is list and "items" in schema:
        each = schema["items"]
        if not all(fits_simple(each, item, is_format) for item in value):
            return False
    if _LIMITS.keys().isdisjoint(schema):
        return True
    limits = [(*_LIMITS[key], schema[key]) for key in _LIMITS.keys() & schema]
    return all(not _TYPES[kind](value) or holds(value, most) for kind, holds, most in limits)


def _has_fields(
    schema: JsonObject, value: JsonObject, is_format: Callable[[Any, str], bool | None]
) -> bool:
    known = schema.get("properties", {})
    if not all(name in value for name in schema.get("required", ())):
        return False
    if schema.get("additionalProperties") is False and not all(name in known for name in value):
        return False
    return all(
        fits_simple(part, value[name], is_format) for name, part in known.items() if name in value
    )


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
