"""JSON found in what a model wrote, and held to its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, NoReturn

import json_repair
import jsonschema
import referencing
from jsonschema.exceptions import SchemaError, best_match
from referencing.exceptions import Unresolvable

from toolloom.schemas import JsonObject, canonical

THOUGHT_ENDS = "</think>"  # where reasoning models begin to answer
FENCE = re.compile(r"```[a-zA-Z]*\s*\n?(.*?)```", re.DOTALL)
OPENING = re.compile(r"[{\[]")
REPAIR = "json_repair"
MOST_OPENINGS = 200  # brackets tried; bounds the time a hostile answer can take
LONGEST_REPAIR = 20_000  # repairing takes time that grows with the square of what is nested
MOST_ERRORS = 3
LONGEST_ERROR = 200


class IllegalSchema(ValueError):
    """A schema that nothing can be validated against."""


def readings(text: str, cut_off: bool = False) -> Iterator[tuple[Any, str]]:
    """JSON values `text` may mean, likeliest first, each with the repair it took ("" for none).

    Of an answer that was cut off only what is complete counts: a repaired one would hold half a
    value, and a part of it is not the answer.
    """
    text = text.rpartition(THOUGHT_ENDS)[2].strip()
    parts = (text, *FENCE.findall(text))
    values = [value for part in parts if (value := _strict(part)) is not None]
    if not values and not cut_off:
        values = list(_embedded(text))
    yield from ((value, "") for value in values)
    if values or cut_off or not (start := OPENING.search(text)):
        return
    repaired: Any = None
    with suppress(ValueError, RecursionError):
        repaired = _legal(json_repair.loads(text[start.start() :][:LONGEST_REPAIR]))
    if isinstance(repaired, dict | list) and repaired:
        yield repaired, REPAIR


def _strict(text: str) -> Any:
    """The value of a text that is JSON throughout, or None."""
    try:
        return _legal(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None


def _embedded(text: str) -> Iterator[Any]:
    """Objects and arrays in prose, from left to right, none inside another."""
    position = 0
    for _ in range(MOST_OPENINGS):
        start = OPENING.search(text, position)
        if start is None:
            break
        position = start.end()
        try:
            value, position = DECODER.raw_decode(text, start.start())
            yield _legal(value)
        except ValueError:
            continue
        except RecursionError:
            break


def _legal(value: Any) -> Any:
    """The value, if it can be written as UTF-8: a lone surrogate cannot (UnicodeEncodeError)."""
    canonical(value).encode()
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_refuse)


def violation(value: Any, schema: JsonObject) -> str | None:
    """What is wrong with a value, in words a model can act on; None if it fits.

    Raises IllegalSchema. References to other documents count as illegal: none is fetched.
    """
    try:
        errors = list(_validator(canonical(schema)).iter_errors(value))
    except (Unresolvable, RecursionError, re.error) as problem:
        raise IllegalSchema(f"the schema cannot be used: {problem}") from problem
    # Of an error in alternatives (anyOf) the one in the alternative that was nearly right.
    nearest = [best_match([error]) or error for error in errors[:MOST_ERRORS]]
    shown = [f"at {error.json_path}: {error.message}" for error in nearest]
    return "; ".join(text[:LONGEST_ERROR] for text in shown) or None


def check_schema(schema: JsonObject) -> None:
    """Raises IllegalSchema before anything is asked."""
    _validator(canonical(schema))


def _check_parts(schema: Any) -> None:
    """Raises SchemaError. Part by part: the schemas of a run share most of their parts, and
    checking one against its metaschema takes milliseconds."""
    own = schema
    if isinstance(schema, dict):
        own = dict(schema)
        if isinstance(own.get("properties"), dict):
            for part in own["properties"].values():
                _check_parts(part)
            own["properties"] = dict.fromkeys(own["properties"], True)
        if isinstance(own.get("anyOf"), list) and own["anyOf"]:
            for part in own["anyOf"]:
                _check_parts(part)
            own["anyOf"] = [True]
        if isinstance(own.get("items"), dict):
            _check_parts(own["items"])
            own["items"] = True
    _check_part(canonical(own))


@lru_cache(maxsize=4096)
def _check_part(text: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


@lru_cache(maxsize=512)
def _validator(schema_text: str) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text)
    dialect = jsonschema.Draft202012Validator
    try:
        _check_parts(schema)
    except (SchemaError, RecursionError) as error:
        reason = getattr(error, "message", "it is nested too deeply")
        raise IllegalSchema(f"the schema is not a legal JSON Schema: {reason}") from error
    nothing: referencing.Registry[Any] = referencing.Registry()
    return dialect(schema, registry=nothing, format_checker=dialect.FORMAT_CHECKER)
