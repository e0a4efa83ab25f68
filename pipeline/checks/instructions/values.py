"""Argument values in an instruction: which of them a text says, and which may be a situation."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.instructions.names import places
from toolloom.pipeline.checks.text.dates import dates, only_date
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import only_time, times
from toolloom.pipeline.checks.text.words import STOP, exact, fold, words
from toolloom.schemas import Api, JsonObject, Seed

LONGEST = 300  # letters of a value that is looked for
MOST = 60  # values of a seed
# Any day: a value that is a date counts as said by whatever tells a day, as no present is known.
_DAY = dt.date(2024, 1, 1)
_NATURAL = re.compile(r"[^\W\d_]+(?:[ '’.-]+[^\W\d_]+|,? \d{1,2}(?!\w))*\.?")
_CODED = re.compile(r"[A-Z]{2,}|[a-z]{1,3}|.*[a-z][A-Z].*|[^A-Z -]*-[^A-Z]*")
_NUMBER = re.compile(r"[-+]?[$€£]?\d+(?:[.,]\d+)*%?")
_HARD_PIECE = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).{5,}")  # of an address: «12 Main Street»
_ISO_DAY = re.compile(r"(?:1\d|20)\d\d-(?:0\d|1[0-2])(?:-\d\d)?(?:[T ].*)?")


def texts_of(arguments: JsonObject) -> Iterator[str]:
    """The leaves of arguments as text; flags and nulls, which no one says, are left out."""
    for leaf in leaves(arguments):
        if isinstance(leaf, str) and leaf.strip():
            yield leaf[:LONGEST]
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            yield str(leaf)


def values_of(calls: Iterable[Any]) -> tuple[str, ...]:
    """The values in the arguments of calls, as text, each once, in order."""
    found = (v for given in calls if isinstance(given, dict) for v in texts_of(given))
    return tuple(dict.fromkeys(islice(found, 10 * MOST)))[:MOST]


def choices(apis: tuple[Api, ...]) -> frozenset[str]:
    """The values that schemas of arguments enumerate, folded."""
    found = (v for api in apis for schema in api.properties.values() for v in _enum(schema))
    return frozenset(fold(v) for v in found if isinstance(v, str))


def _enum(schema: object) -> list[object]:
    if not isinstance(schema, dict):
        return []
    items = schema.get("items")
    known = [schema.get("enum"), items.get("enum") if isinstance(items, dict) else None]
    return [value for listed in known if isinstance(listed, list) for value in listed]


@lru_cache(maxsize=8192)
def natural(value: str) -> bool:
    """Is a value made of words, as a place or a person is: no number, date, code or address?"""
    text = value.strip()
    if not _NATURAL.fullmatch(text) or only_date(text, _DAY) or only_time(text):
        return False
    return " " in text or not _CODED.fullmatch(text)


def said_values(seed: Seed, text: str) -> list[str]:
    """The argument values of a seed that a text says."""
    return [value for value in seed.values[:MOST] if says(text, value)]


def hard_values(seed: Seed, text: str) -> list[str]:
    """Those that belong to no situation: anything but words, and choices of a schema."""
    path = {step.function for step in seed.steps}
    chosen = choices(tuple(api for api in seed.pool if api.function in path))
    return [v for v in said_values(seed, text) if not natural(v) or fold(v) in chosen]


@lru_cache(maxsize=8192)
def says(text: str, value: str) -> bool:
    """Does a text say a value: word for word, or as another form of the number or the date?"""
    known = value.strip()[:LONGEST]
    if not known or all(word.folded in STOP for word in words(known)):
        return bool(known) and not words(known) and known in text
    if _NUMBER.fullmatch(known):
        wanted = {q.value for q in quantities(known)} - {0, 1}  # «one of my friends»
        return any(q.value in wanted for q in quantities(text)) or exact(known, text)
    if _ISO_DAY.fullmatch(known) or only_date(known, _DAY):
        return bool(dates(text, _DAY)) or exact(known, text)
    if only_time(known):
        return bool(times(text)) or exact(known, text)
    if natural(known):
        return any(True for _ in places(text, known))
    if len(known) <= 3:
        return re.search(rf"(?<!\w){re.escape(known)}(?!\w)", text) is not None
    pieces = (known, *(p for p in known.split(",") if _HARD_PIECE.fullmatch(p.strip())))
    return any(exact(piece, text) for piece in pieces)
