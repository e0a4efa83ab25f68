"""JSON Schema (2020-12) of hostile documents against hostile values, in bounded time."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import count, islice
from typing import Any, NamedTuple

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import extend
from referencing import Registry

from toolloom.pipeline.checks.simple import fits, is_simple
from toolloom.pipeline.checks.transcript import shown
from toolloom.schemas import JsonObject, canonical

_MOST = 8  # violations reported for one value
_STEPS = 2_000  # references followed in one validation
_PATTERN, _SUBJECT, _REPEATS = 200, 400, 3
_OPEN = re.compile(r"[*+]|\{\d*,\d*\}|\{\d{3,}\}")
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
    if is_simple(schema) and fits(schema, value, _is_format):
        return []
    text = canonical(schema)
    try:
        checker = _counting(schema) if "Ref" in text or "$ref" in text else _checker(text)
        return [_told(error) for error in islice(checker.iter_errors(value), _MOST)]
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
    if any(not _is_cheap(p, "") for p in _property_patterns(schema)):
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


def _property_patterns(schema: JsonObject) -> Iterator[str]:
    """`patternProperties` at any depth: jsonschema tries them for `additionalProperties`."""
    stack: list[Any] = [schema]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack.extend(part.values())
            found = part.get("patternProperties")
            yield from found if isinstance(found, dict) else ()
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


def _is_cheap(pattern: str, value: str) -> bool:
    """Few open repeats and none on a group, so that backtracking stays polynomial and small."""
    nested = re.search(r"\)(?:[*+]|\{\d*,?\d*\})", pattern)
    inner = nested and _OPEN.search(pattern[: nested.start()])
    few = len(_OPEN.findall(pattern)) <= _REPEATS
    return few and not inner and len(pattern) <= _PATTERN and len(value) <= _SUBJECT


def _told(error: ValidationError) -> Violation:
    path = ".".join(str(part) for part in error.absolute_path)
    return Violation(path, str(error.validator), error.message[:200])
