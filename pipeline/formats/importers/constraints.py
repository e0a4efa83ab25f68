"""Keywords about the value itself: choices, limits, formats, examples, each checked."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from toolloom.pipeline.formats.importers.keywords import COUNTS, NUMBERS, Complain, is_nullable
from toolloom.pipeline.formats.importers.ledger import Why
from toolloom.pipeline.formats.importers.prose import legible

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
