"""Dates a text says: written out, in figures, or relative to the dialogue's present.

Own patterns, because a check needs every reading of a phrase: «next Friday» is the coming one
or the one after, 03/04 is in March or in April. dateparser, parsedatetime and recurrent give one
reading each, and dateparser.search also reads «seven, and a» as a date.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from toolloom.pipeline.checks.text.numbers import ORDINALS, SMALL, Quantity, quantities
from toolloom.pipeline.checks.text.times import timed
from toolloom.pipeline.checks.text.words import plain

_MONTHS = """january jan|february feb|march mar|april apr|may|june jun|july jul|august aug
|september sept sep|october oct|november nov|december dec"""
_WEEKDAYS = """monday mon|tuesday tues tue|wednesday wed|thursday thurs thur thu|friday fri
|saturday|sunday"""
MONTHS = {n: i for i, names in enumerate(_MONTHS.split("|"), start=1) for n in names.split()}
WEEKDAYS = {n: i for i, names in enumerate(_WEEKDAYS.split("|")) for n in names.split()}
_HOLIDAYS = {
    "christmas eve": (12, 24), "christmas day": (12, 25), "christmas": (12, 25),
    "new year's eve": (12, 31), "new year's day": (1, 1), "new year's": (1, 1),
    "valentine's day": (2, 14), "halloween": (10, 31), "independence day": (7, 4),
}  # fmt: skip

_ORDINAL_DAYS = ORDINALS | {
    f"{tens}{gap}{name}": base + number
    for tens, base in (("twenty", 20), ("thirty", 30))
    for gap in (" ", "-")
    for name, number in ORDINALS.items()
    if number < 10 and base + number <= 31
}
_NAMES = "|".join(sorted(MONTHS, key=len, reverse=True))
_DAYS = "|".join(sorted(WEEKDAYS, key=len, reverse=True))
_ORD = "|".join(sorted(_ORDINAL_DAYS, key=len, reverse=True))
_AFTER_DAY = (
    r"(?:of|at|in|and|or|to|until|till|for|from|through|if|by|on|as|but|please|when|then|with|is|"
    r"was|would|will|instead)\b"
)
_DAY = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|(?:{_ORD}))(?!\d)"
_TO = r"\s?(?:to|and|through|thru|until|till|or|-|,|&)\s?(?:the\s)?"
_YEAR = r"(?:,?\s(?:of\s|in\s)?(?P<year>\d{4})\b)?"
_COUNT = r"(?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen)"
_UNIT = r"(?P<unit>day|night|week|fortnight|month|year)s?"
_COUNTS = {"a": 1, "an": 1, **SMALL}
_OFFSETS = {"day after tomorrow": 2, "tomorrow": 1, "day before yesterday": -2, "yesterday": -1,
            "last night": -1}  # fmt: skip


class Dated(NamedTuple):
    """A place in a text that says a date, with every day it may mean.

    `absolute` is true where the words or figures are a calendar date of their own.
    """

    start: int
    end: int
    days: frozenset[dt.date]
    absolute: bool


def day_of(year: int, month: int, day: int) -> Iterator[dt.date]:
    """That day, if the calendar has it."""
    try:
        yield dt.date(year, month, day)
    except ValueError:
        return


def shift(day: dt.date, unit: str, count: int) -> Iterator[dt.date]:
    """The day `count` units on, if the calendar reaches so far."""
    try:
        if unit in {"month", "year"}:
            months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
            last = dt.date(months // 12 + (months % 12) // 11, (months % 12 + 1) % 12 + 1, 1)
            last -= dt.timedelta(days=1)
            yield last.replace(day=min(day.day, last.day))
        else:
            yield day + dt.timedelta(days=count * {"week": 7, "fortnight": 14}.get(unit, 1))
    except (OverflowError, ValueError):
        return


def _near(month: int, day: int, year: str | None, now: dt.date) -> Iterator[dt.date]:
    """That day of the given year, or without one its last and its next occurrence."""
    if year:
        yield from day_of(int(year) + (2000 if len(year) == 2 else 0), month, day)
        return
    for candidate in (now.year - 1, now.year, now.year + 1):
        yield from (d for d in day_of(candidate, month, day) if abs((d - now).days) <= 366)


def _number(day: str) -> int:
    digits = re.match(r"\d+", day)
    return int(digits.group()) if digits else _ORDINAL_DAYS[day.lower()]


def _written(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    month = MONTHS[found["month"].lower().rstrip(".")]
    yield from _near(month, _number(found["day"]), found["year"], now)


def _iso(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    yield from day_of(int(found["year"]), int(found["a"]), int(found["b"]))


def _figures(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    a, b = int(found["a"]), int(found["b"])
    yield from _near(a, b, found["year"], now)
    yield from _near(b, a, found["year"], now)


def _weekday(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    """`Friday` is the coming or the last one; `next Friday` also the one of the week after."""
    ahead = (WEEKDAYS[found["name"].lower()] - now.weekday()) % 7
    which = (found["which"] or "").lower()
    offsets = {"next": (ahead or 7, ahead + 7), "last": (ahead - 7,), "past": (ahead - 7,)}
    week = (found["week"] or "").lower()
    if week:
        monday = -now.weekday() + (7 if week == "next" else 0)
        yield from shift(now, "day", monday + WEEKDAYS[found["name"].lower()])
        return
    otherwise = (ahead, ahead or 7) if which else (ahead, ahead or 7, ahead - 7)
    for offset in offsets.get(which, otherwise):
        yield from shift(now, "day", offset)


def _named(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    yield from shift(now, "day", _OFFSETS.get(found.group().lower(), 0))


def _relative(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    count = _COUNTS.get(found["count"].lower()) or int(found["count"])
    ago = found.group().lower().endswith(("ago", "earlier"))
    start = next(shift(now, "day", 1 if found.group().lower().endswith("tomorrow") else 0), now)
    yield from shift(start, found["unit"].lower(), -count if ago else count)


def _period(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    """`next week` is its Monday to Sunday, or this day a week on; months and years begin."""
    unit = found["unit"].lower()
    step = {"next": 1, "this": 0, "last": -1}.get(found["which"].lower(), 0)
    for day in shift(now, unit if unit != "weekend" else "week", step):
        yield day
        if unit == "month":
            yield day.replace(day=1)
        elif unit == "year":
            yield day.replace(month=1, day=1)
        else:
            for offset in (5, 6) if unit == "weekend" else range(7):
                yield from shift(day, "day", offset - day.weekday())


def _of_month(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    for step in (-1, 0, 1):
        for day in shift(now.replace(day=1), "month", step):
            yield from day_of(day.year, day.month, _number(found["day"]))


def _holiday(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    month, day = _HOLIDAYS[found["name"].lower()]
    yield from _near(month, day, found["year"], now)


_Read = Callable[[re.Match[str], dt.date], Iterable[dt.date]]
_PATTERNS: tuple[tuple[re.Pattern[str], _Read, bool], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), read, absolute)
    for pattern, read, absolute in (
        (r"(?<![\w-])(?P<year>\d{4})[-/.](?P<a>\d{1,2})[-/.](?P<b>\d{1,2})(?![\d-])", _iso, True),
        (
            (
                r"(?<![\w/.-])(?P<a>\d{1,2})(?P<sep>[-/.])(?P<b>\d{1,2})(?P=sep)"
                r"(?P<year>\d{4}|\d{2})(?![\w/-])"
            ),
            _figures,
            True,
        ),
        (r"(?<![\w/.-])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\w/])(?P<year>)", _figures, False),
        (rf"\b(?P<month>{_NAMES})\b\.?\s(?:the\s)?(?P<day>{_DAY}){_YEAR}", _written, True),
        (
            rf"\b(?P<month>{_NAMES})\b\.?\s(?:the\s)?{_DAY}{_TO}(?P<day>{_DAY}){_YEAR}",
            _written,
            True,
        ),
        (rf"\b(?P<day>{_DAY})(?:\sof)?\s(?P<month>{_NAMES})\b\.?{_YEAR}", _written, True),
        (
            rf"\b(?P<day>{_DAY}){_TO}{_DAY}(?:\sof)?\s(?P<month>{_NAMES})\b\.?{_YEAR}",
            _written,
            True,
        ),
        (
            (
                rf"\b(?:(?P<which>next|this|last|past|coming|on)\s)?(?P<name>{_DAYS})\b"
                r"(?:(?:\sof)?\s(?P<week>next|this)\sweek)?"
            ),
            _weekday,
            False,
        ),
        (
            (
                r"(?=[dltyr])\b(?:day after tomorrow|day before yesterday|last night|tomorrow"
                r"|yesterday|today|tonight|right now|this (?:morning|afternoon|evening))\b"
            ),
            _named,
            False,
        ),
        (rf"\b(?:in|within)\s{_COUNT}\s{_UNIT}(?:'s? time)?\b", _relative, False),
        (
            rf"(?=[\daotfsen])\b{_COUNT}\s{_UNIT}\s"
            r"(?:from (?:now|today|tomorrow)|ago|earlier|later|ahead)\b",
            _relative,
            False,
        ),
        (
            r"\b(?P<which>next|this|last|coming|the|current)\s(?P<unit>week|weekend|month|year)\b",
            _period,
            False,
        ),
        (
            # An ordinal in words before a noun counts things: «the first name» is no day.
            (
                r"\b(?:the|on|to|until)\s(?P<day>\d{1,2}(?:st|nd|rd|th)|"
                rf"(?:{_ORD})(?!\s(?!{_AFTER_DAY})[a-z]))\b"
            ),
            _of_month,
            False,
        ),
        (rf"\b(?P<name>{'|'.join(_HOLIDAYS)})\b{_YEAR}", _holiday, True),
    )
)
_ANY_HINT = re.compile(
    r"\d[-/.]\d|\d(?:st|nd|rd|th)|day|morrow|night|right now|this |week|month|year|"
    + "|".join(sorted({name[:3] for name in (*MONTHS, *WEEKDAYS, *ORDINALS, *_HOLIDAYS)}))
)
"""One of these is in every text that says a date, in small letters: most values hold none."""
_SAID = {
    "<month>": {name[:3] for name in MONTHS},
    "<name>": {*(name[:3] for name in WEEKDAYS), *(name[:8] for name in _HOLIDAYS)},
}
"""And of these, in every text in which a pattern with this group matches; such ones are slow."""
_GROUPED = [(one, [group for group in _SAID if group in one[0].pattern]) for one in _PATTERNS]
_STAY = re.compile(rf"\b{_COUNT}(?:\s|-){_UNIT}\b", re.IGNORECASE)


@lru_cache(maxsize=4096)
def dated(text: str, today: dt.date) -> tuple[Dated, ...]:
    """Every place in the text that says a date, in order; longer ones before their parts."""
    flat, small = plain(text), text.lower()
    if not _ANY_HINT.search(small):
        return ()
    unsaid = {group for group, names in _SAID.items() if not any(n in small for n in names)}
    found = [
        Dated(m.start(), m.end(), frozenset(days), absolute)
        for (pattern, read, absolute), groups in _GROUPED
        if unsaid.isdisjoint(groups)
        for m in pattern.finditer(flat)
        if not _is_common(m, flat) and (days := list(read(m, today)))
    ]
    return tuple(sorted(found, key=lambda d: (d.start, -d.end)))


def _is_common(found: re.Match[str], flat: str) -> bool:
    """An abbreviated weekday in small letters is a common word («wed», «fri» are not dates)."""
    name = found.groupdict().get("name") or ""
    return name.lower() in WEEKDAYS and len(name) < 6 and not flat[found.start("name")].isupper()


@lru_cache(maxsize=4096)
def dates(text: str, today: dt.date) -> frozenset[dt.date]:
    """Every day the text may mean, and the end of a stay whose start and length it tells."""
    said = frozenset(day for place in dated(text, today) for day in place.days)
    if not said:
        return said
    ends = {
        end
        for stay in _STAY.finditer(plain(text))
        for day in said
        for end in shift(
            day, stay["unit"].lower(), _COUNTS.get(stay["count"].lower()) or int(stay["count"])
        )
    }
    return said | ends


def only_date(value: str, today: dt.date) -> frozenset[dt.date]:
    """The days a value means that is nothing but a date; empty if it is something else."""
    whole = value.strip()
    return frozenset(
        day
        for place in dated(whole, today)
        if place.start == 0 and place.end == len(whole)
        for day in place.days
    )


@lru_cache(maxsize=4096)
def numbers_outside(text: str, today: dt.date) -> tuple[Quantity, ...]:
    """The numbers that are not a part of a calendar date or of a clock time."""
    found = quantities(text)
    if not found:
        return ()
    taken = [(d.start, d.end) for d in dated(text, today) if d.absolute]
    taken += [(t.start, t.end) for t in timed(text) if t.sure]
    return tuple([q for q in found if not any(a <= q.start < b for a, b in taken)])
