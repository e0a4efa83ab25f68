"""Times of day and spans of time that a text says."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from toolloom.pipeline.checks.text.numbers import SMALL, quantities
from toolloom.pipeline.checks.text.words import plain

_HOURS = {name: number for name, number in SMALL.items() if 1 <= number <= 12}
_MINUTES = {
    "half": 30, "quarter": 15, "a quarter": 15, "five": 5, "ten": 10, "twenty": 20,
    "twenty-five": 25, "twenty five": 25, "fifteen": 15, "thirty": 30, "forty-five": 45,
    "forty five": 45, "forty": 40, "fifty": 50, "5": 5, "10": 10, "15": 15, "20": 20, "25": 25,
}  # fmt: skip
_HOUR = rf"(?P<hour>\d{{1,2}}|{'|'.join(_HOURS)})"
_PART = (
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?"
    r"|\s(?:in the|at|this|tomorrow|tonight)?\s?(?P<part>morning|afternoon|evening|night)\b)?"
)
_MINUTE = "|".join(sorted(_MINUTES, key=len, reverse=True))
_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\w:.])(?P<hour>\d{{1,2}})[:h](?P<minute>\d{{2}})(?::\d{{2}}(?:\.\d+)?)?(?!\d){_PART}",
        r"(?<=[Tt])(?P<hour>\d{2}):(?P<minute>\d{2})(?P<half>)(?P<part>)",
        r"(?<![\w:.])(?P<hour>\d{1,2})\.(?P<minute>\d{2})\s?(?P<half>[ap])\.?m\b(?P<part>)",
        rf"\b(?P<past>{_MINUTE})(?:\sminutes)?\s(?P<way>past|after|to|before|til|till)\s{_HOUR}\b{_PART}",
        rf"(?=[\dotfsen])\b{_HOUR}\s(?P<spoken>fifteen|thirty|forty-five|forty five|twenty|ten|forty|fifty)\b{_PART}",
        rf"(?=[\dotfsen])(?<![\w:.$€£-]){_HOUR}(?:\s?o'?clock\b){_PART}",
        rf"(?=[\dotfsen])(?<![\w:.$€£-]){_HOUR}\s?(?P<half>[ap])\.?\s?m\b\.?(?P<part>)",
        rf"(?=[\dotfsen])(?<![\w:.$€£-]){_HOUR}\s(?:in the|at|this)\s(?P<part>morning|afternoon|evening|night)\b(?P<half>)",
        (
            rf"(?=[abftu])\b(?:at|around|by|before|after|from|until|till|to|about|between|and)\s{_HOUR}"
            r"(?![\w%])(?![.:,/]\d)(?P<half>)(?P<part>)"
        ),
        r"(?<![\w:.-])(?P<hour>\d{1,2})\s?(?:-|to|and|until)\s?\d{1,2}(?::\d\d)?\s?(?P<half>[ap])\.?m\b(?P<part>)",
    )
)
_NAMED = {"noon": 12, "midday": 12, "midnight": 0, "lunchtime": 12}
_NAMED_PATTERN = re.compile(rf"\b(?:{'|'.join(_NAMED)})\b", re.IGNORECASE)
_ANY_HINT = re.compile("|".join([r"\d", *_HOURS, *_NAMED]))
_LOOSE = {_PATTERNS[4], _PATTERNS[-2]}
_SECONDS = {
    "second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600,
    "day": 86400, "week": 604800, "night": 86400,
}  # fmt: skip
_RELATIVE = re.compile(
    (
        r"\b(?:in|within)\s(?P<text>[\w .-]{1,30}?(?:minutes?|mins?|hours?|hrs?)"
        r"(?: and a half|(?:,? and|,)? [\w-]{1,12} (?:minutes?|mins?))?)\b"
        r"|\b(?P<text2>(?:[\w.-]{1,12} ){1,6}?(?:minutes?|hours?)(?: and a half)?) from now\b"
    ),
    re.IGNORECASE,
)


class Timed(NamedTuple):
    """A place in a text that says a time of day, with every time it may mean.

    `sure` is false for a bare number after a preposition and for two in a row, such as «seven
    thirty», which may be something else.
    """

    start: int
    end: int
    times: frozenset[dt.time]
    sure: bool


@lru_cache(maxsize=4096)
def timed(text: str) -> tuple[Timed, ...]:
    """Every place in the text that says a time of day, in order."""
    flat = plain(text)
    if not _ANY_HINT.search(flat.lower()):
        return ()
    found = [
        Timed(m.start(), m.end(), frozenset(times), pattern not in _LOOSE)
        for pattern in _PATTERNS
        for m in pattern.finditer(flat)
        if (times := list(_read(m)))
    ]
    found += [
        Timed(m.start(), m.end(), frozenset([dt.time(_NAMED[m.group().lower()])]), True)
        for m in _NAMED_PATTERN.finditer(flat)
    ]
    return tuple(sorted(found, key=lambda t: (t.start, -t.end)))


def _read(found: re.Match[str]) -> Iterator[dt.time]:
    """With am or pm one time; without, both, as «at seven» may be either."""
    parts = found.groupdict()
    hour = _HOURS.get(parts["hour"].lower()) or int(parts["hour"])
    minute = int(parts.get("minute") or 0) or _MINUTES.get((parts.get("spoken") or "").lower(), 0)
    if hour > 23 or minute > 59:
        return
    if parts.get("past"):
        minute = _MINUTES[parts["past"].lower()]
        if parts["way"].lower() in {"to", "before", "til", "till"}:
            hour, minute = (hour - 1) % 12 or 12, 60 - minute
    part, half = (parts["part"] or "").lower(), (parts["half"] or "").lower()
    half = half or {"morning": "a", "afternoon": "p", "evening": "p"}.get(part, "")
    if half and hour <= 12:
        yield dt.time(hour % 12 + (12 if half == "p" else 0), minute)
        return
    yield dt.time(hour, minute)
    if 0 < hour < 13 and not parts["hour"].startswith("0"):
        yield dt.time((hour + 12) % 24, minute)


@lru_cache(maxsize=4096)
def times(text: str) -> frozenset[dt.time]:
    """Every time of day the text may mean."""
    return frozenset(t for place in timed(text) for t in place.times)


def only_time(value: str) -> frozenset[dt.time]:
    """The times a value means that is nothing but a time; empty if it is something else."""
    whole = re.sub(r"(?:Z|[+-]\d{2}:?\d{2})$", "", value.strip())
    if clock := re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)(?::\d{2}(?:\.\d+)?)?", whole):
        return frozenset([dt.time(int(clock[1]), int(clock[2]))])
    return frozenset(
        t
        for place in timed(whole)
        if place.sure and place.start == 0 and place.end >= len(whole.rstrip("."))
        for t in place.times
    )


def moments(text: str, now: dt.datetime) -> frozenset[dt.datetime]:
    """Moments told by their distance: «in two hours», «20 minutes from now», «now»."""
    found = {now.replace(tzinfo=None)} if re.search(r"(?<!from )\bnow\b", text.lower()) else set()
    for match in _RELATIVE.finditer(plain(text)):
        spans = spans_of_time(match["text"] or match["text2"])
        # The longest has the others in it: an hour and a half is also an hour.
        with suppress(OverflowError, ValueError):  # none, or beyond the calendar
            found.add(now.replace(tzinfo=None) + dt.timedelta(seconds=max(spans)))
    return frozenset(found)


def seconds_in(unit: str) -> int:
    """How many seconds a unit of time has; 0 if the word is no unit of time."""
    return _SECONDS.get(unit.rstrip("s") or unit, 0)


@lru_cache(maxsize=4096)
def spans_of_time(text: str) -> tuple[float, ...]:
    """Lengths of time in seconds: of each number with a unit, and of «2 hours 30 minutes»."""
    found = [(q, seconds_in(q.unit)) for q in quantities(text)]
    single = [q.value * unit for q, unit in found if unit]
    joined = [
        a.value * unit_a + b.value * unit_b
        for (a, unit_a), (b, unit_b) in pairwise(found)
        if unit_a > unit_b > 0 and b.start - a.end < 14
    ]
    half = [1800.0] if re.search(r"\bhalf(?: an|-)?.?hour\b", text.lower()) else []
    more = [5400.0] if re.search(r"\b(?:an hour|one hour) and a half\b", text.lower()) else []
    one = [3600.0] if re.search(r"(?<!\bhalf )\ban hour\b", text.lower()) else []
    return (*single, *joined, *half, *more, *one)
