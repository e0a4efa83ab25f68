"""Where values stand in words: every place, none that is a part of something else."""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.text.dates import dated
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import timed
from toolloom.pipeline.checks.text.words import STOP, alone, fold, forms, runs, spaced, stem, words
from toolloom.pipeline.templates.mining.survey import SampleText
from toolloom.pipeline.templates.mining.variables import (
    ROUNDED,
    Variable,
    clock_of,
    day_of,
    distinctive,
    is_number,
    texts,
)

_UNIT = re.compile(r"(?!(?:st|nd|rd|th)\b)[^\W\d_]{1,4}\b")
_POSSESSIVE = re.compile(r"['’]s\Z", re.IGNORECASE)
_FACTORS = (1000, 0.001, 100, 0.01, 60, 1 / 60, 3600, 1 / 3600, 24, 1 / 24)  # of units
_LARGE = 1e15
_MOST = 200  # places of one form in one text


class Span(NamedTuple):
    """A place in a text that a form of a value takes."""

    start: int
    end: int
    form: str


@dataclass(frozen=True)
class TextPlaces:
    """The places of all values in one text."""

    text: SampleText
    spans: tuple[tuple[Span, Variable], ...]

    def of(self, one: Variable) -> list[Span]:
        return [span for span, owner in self.spans if owner is one]


def parted(text: SampleText, found: Sequence[Variable], now: dt.datetime) -> TextPlaces:
    """Give each place to the value that takes most of it.

    Two that claim the same letters are in doubt, unless one stands inside the other.
    """
    claims = [(s, v) for v in found if not v.doubt for s in spans(text, v, now)]
    claims.sort(key=lambda c: (c[0].start - c[0].end, c[0].form in ROUNDED, c[0].start))
    taken: list[tuple[Span, Variable]] = []
    owners: list[int] = [-1] * len(text.text)  # of each letter, by number in `taken`
    for span, one in claims:
        letters = range(span.start, span.end)
        number = next((owners[i] for i in letters if owners[i] >= 0), -1)
        if number < 0:
            for i in letters:
                owners[i] = len(taken)
            taken.append((span, one))
            continue
        other, owner = taken[number]
        smaller = (span.end - span.start, span.form not in ROUNDED) < (
            other.end - other.start,
            other.form not in ROUNDED,
        )
        inside = smaller and other.start <= span.start and span.end <= other.end
        if not (owner is one or inside):
            words_of_it = text.text[span.start : span.end]
            one.refuse(f"«{words_of_it}» might be `{owner.first.name}` as well")
            owner.refuse(f"«{words_of_it}» might be `{one.first.name}` as well")
    return TextPlaces(text, tuple(sorted(taken, key=lambda c: c[0].start)))


def spans(text: SampleText, one: Variable, now: dt.datetime) -> Iterator[Span]:
    """Where any form of a value stands on its own."""
    seen: set[tuple[int, int]] = set()
    for form, said in texts(one.value):
        if form in ROUNDED and text.role != "reply":
            continue
        start = -1
        for _ in range(_MOST):
            start = text.text.find(said, start + 1)
            if start < 0:
                break
            end = start + len(said)
            if (start, end) not in seen and _stands(text.text, start, end, one, form, now):
                seen.add((start, end))
                yield Span(start, end, form)


def _stands(text: str, start: int, end: int, one: Variable, form: str, now: dt.datetime) -> bool:
    """Is this place no part of a word, code, date or longer number? A unit may follow a number."""
    number = is_number(one.value)
    unit = _UNIT.match(text, end) if number else None
    if not alone(text, start, end) and not (unit and alone(text, start, unit.end())):
        return False
    if not number:
        return True
    if re.search(r"(?:[-+−]|\d[,:.])\Z", text[max(0, start - 2) : start]):
        return False
    if re.match(r"[,:.]\d", text[end : end + 2]) or _in_calendar(text, start, now.date()):
        return False
    place = start + text[start:end].startswith("-")
    found = quantities(text)
    at = bisect_right(found, place, key=attrgetter("start")) - 1
    q = found[at] if at >= 0 and place < found[at].end else None
    if q is None or q.scale != 1:
        return False
    return form in ROUNDED or any(close(r, one.value) for r in q.readings())


@lru_cache(maxsize=256)
def _calendar(text: str, today: dt.date) -> tuple[tuple[int, int], ...]:
    days = [(d.start, d.end) for d in dated(text, today)]
    return tuple(days + [(t.start, t.end) for t in timed(text) if t.sure])


def _in_calendar(text: str, start: int, today: dt.date) -> bool:
    return any(a <= start < b for a, b in _calendar(text, today))


def left_over(places: TextPlaces, one: Variable, now: dt.datetime, common: frozenset[str]) -> str:
    """Words that say a value, or a part of it, in a way that no slot takes; empty if none do.

    `common`: stems of words that belong to the APIs, whatever the values.
    """
    text = places.text.text
    told = _tellings(text, one, now, common)
    nearly = _nearly(text, one.value, now) if places.text.role == "reply" else ()
    for start, end in (*told, *nearly):
        if not _covered(text, start, end, places):
            return text[start:end]
    return ""


def _covered(text: str, start: int, end: int, places: TextPlaces) -> bool:
    """Do slots take all of it but for small words?"""
    rest = list(_POSSESSIVE.sub("", text[start:end]))
    for span, owner in places.spans:
        if not owner.doubt:
            for i in range(max(span.start, start), min(span.end, start + len(rest))):
                rest[i - start] = " "
    left = "".join(rest)
    return all(w.folded in STOP for w in words(left)) and (
        bool(words(text[start:end])) or not left.strip()
    )


def _tellings(
    text: str, one: Variable, now: dt.datetime, common: frozenset[str]
) -> Iterator[tuple[int, int]]:
    value = one.value
    if is_number(value):
        yield from (
            (q.start, q.end)
            for q in quantities(text)
            if any(close(abs(r), abs(value)) for r in q.readings())
            and not _in_calendar(text, q.start, now.date())
        )
    elif day := day_of(value):
        yield from ((d.start, d.end) for d in dated(text, now.date()) if day in d.days)
    elif time := clock_of(value):
        yield from ((t.start, t.end) for t in timed(text) if time in t.times)
    else:
        yield from runs(value, text)
        inside = [w for w in words(spaced(value)) if w.folded not in STOP and len(w.folded) > 2]
        wanted = {stem(w.folded) for w in inside} - common
        single = len(words(value)) == 1
        for word in words(text) if wanted else ():
            if stem(word.folded) in wanted and (single or len(word.folded) > 3):
                yield word.start, word.end
        for alias in forms(value) - {fold(value)}:
            if any(c.isalnum() for c in alias):
                yield from runs(alias, text) if len(alias) > 2 else ()
            elif (start := text.find(alias)) >= 0:
                yield start, start + len(alias)


def _nearly(text: str, value: object, now: dt.datetime) -> Iterator[tuple[int, int]]:
    """What a reply may have worked out: a number rounded or in another unit, another day or time.

    The end of a stay follows from its start.
    """
    if isinstance(value, int | float) and value:
        for q in quantities(text) if abs(value) < _LARGE else ():
            told = abs(q.value)
            near = isinstance(value, float) and close(told, round(abs(value), q.decimals))
            if q.stated and (near or any(close(told, abs(value) * f) for f in _FACTORS)):
                yield q.start, q.end
    elif day_of(value):
        yield from ((d.start, d.end) for d in dated(text, now.date()) if d.absolute)
    elif clock_of(value):
        yield from ((t.start, t.end) for t in timed(text) if t.sure)


_NEXT = re.compile(r",? [A-Z]\w")
_BEFORE = re.compile(r"[^.!?:]\s[A-Z]\w*\s\Z")


def in_longer_name(places: TextPlaces, one: Variable) -> str:
    """A longer name that a capitalised value is a part of: «Boston Consulting»; else empty."""
    text, role = places.text.text, places.text.role
    for span in places.of(one) if str(one.value)[:1].isupper() else ():
        after = _NEXT.match(text, span.end)
        comma = after and after.group().startswith(",")
        before = _BEFORE.search(text[max(0, span.start - 40) : span.start])
        if role == "user" and ((after and not comma) or before):
            return text[max(0, span.start - 20) : span.end + 20].strip()
        if role == "observed" and comma:
            return text[span.start : span.end + 20].strip()
    return ""


def is_common(one: Variable, common: Iterable[str]) -> str:
    """Why a value may stand in words without being meant; empty if it hardly can."""
    value = one.value
    if is_number(value) or distinctive(value):
        return ""
    found = [w.folded for w in words(spaced(value))]
    if not found or fold(value) in STOP or len(value) < 2:
        return f"«{value}» may stand for anything"
    if all(stem(w) in common or w in STOP for w in found):
        return f"«{value}» is a word of the API's own description"
    return ""
