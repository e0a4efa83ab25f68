"""What a text says in numbers, times of day, spans of time and dates, in all their readings.

Own patterns, because a check needs every reading of a phrase: «next Friday» is the coming one
or the one after, 03/04 is in March or in April. dateparser, parsedatetime and recurrent give one
reading each, and dateparser.search also reads «seven, and a» as a date.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from calendar import monthrange
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from toolloom.pipeline.checks.text.words import Word, plain, words

# --- numbers: digits, words, scales, percent, fractions and ordinals ---------------------------

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
_TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh
twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
SMALL = {name: number for number, name in enumerate(_SMALL.split())}
_TENS = {name: 10 * number for number, name in enumerate(_TENS_NAMES.split(), start=2)}
ORDINALS = {name: n for n, name in enumerate(_ORDINALS.split(), start=1)} | {"thirtieth": 30}
_SCALES = {
    "hundred": 100, "thousand": 1000, "k": 1000, "grand": 1000, "million": 10**6, "mio": 10**6,
    "mn": 10**6, "m": 10**6, "billion": 10**9, "bn": 10**9, "b": 10**9, "trillion": 10**12,
    "dozen": 12,
}  # fmt: skip
_BARE_SCALES = frozenset({"hundred", "thousand", "million", "billion", "trillion", "dozen"})
_CARDINALS = frozenset([*SMALL, *_TENS])
_FRACTIONS = {
    "three quarters": 0.75, "a quarter": 0.25, "one quarter": 0.25, "a half": 0.5, "one half": 0.5,
}  # fmt: skip
# Words that imply a number without stating one; a reply may use them freely.
_IMPLIED = {
    "single": 1, "once": 1, "alone": 1, "solo": 1, "myself": 1, "double": 2, "twice": 2,
    "both": 2, "couple": 2, "pair": 2, "triple": 3, "thrice": 3,
}  # fmt: skip

_DIGITS = re.compile(
    r"(?=[-+$€£¥₹₩#~\d.])(?<![\w.,])(?<![^\W\d_]-)(?P<sign>(?<![\d)])[-+])?(?:[$€£¥₹₩#~]\s?)?"
    r"(?P<num>\d{1,3}(?:[,' \u00a0\u202f]\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2}"
    r"|\d+(?:\.\d+)?|\.\d+)(?!\d)"
    r"(?:\s?(?P<percent>%|percent\b|per cent\b)|(?:st|nd|rd|th)\b(?P<ordinal>)"
    r"|(?P<letter>[kmb])\b|\s?(?P<scale>mn|mio|bn|hundred|thousand|million|billion|trillion|dozen)\b"
    r"|/(?P<under>\d{1,3})(?![\d/])|(?=\s?[^\W\d_]{1,4}\b)|(?![\w]))",
    re.IGNORECASE,
)
_HUNDREDTHS = frozenset(["p", "pence", "penny", "cent", "cents"])
_STARTS = frozenset([*SMALL, *_TENS, *ORDINALS, *_IMPLIED, "half", "a", "an"])
_HALF = re.compile(r"\s(?:and|&)\sa\shalf\b", re.IGNORECASE)
_LONGEST = 40  # digits of a number worth reading; longer ones are codes or bombs


class Quantity(NamedTuple):
    """A number in a text. `scale` is what its mantissa was multiplied by, for rounding."""

    value: float
    start: int
    end: int
    decimals: int = 0
    scale: float = 1
    percent: bool = False
    stated: bool = True
    unit: str = ""

    def readings(self) -> tuple[float, ...]:
        """The values it may stand for: «25%» is 25 and 0.25, «5m» five metres or millions, «80p»
        0.80 of a pound."""
        found = [self.value]
        if self.percent or self.unit in _HUNDREDTHS:
            found.append(self.value / 100)
        if self.scale == 10**6 and self.unit == "m":
            found.append(self.value / self.scale)
        return tuple(found)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Every number a text says, in order of place."""
    flat = plain(text)
    digits = list(_from_digits(flat))
    taken = {i for q in digits for i in range(q.start, q.end)}
    spelled = [q for q in _from_words(flat) if q.start not in taken]
    return tuple(sorted([*digits, *spelled], key=lambda q: q.start))


def sums(text: str) -> Iterator[float]:
    """What numbers come to that a text adds up: «two mugs, a lamp and one more mug» are three."""
    flat, found = plain(text), quantities(text)
    for place, more in enumerate(found):
        if more.unit == "more" and re.search(r"\b(?:and|plus)\s$", flat[: more.start]):
            yield from (one.value + more.value for one in found[max(0, place - 3) : place])


def _from_digits(text: str) -> Iterator[Quantity]:
    for found in _DIGITS.finditer(text):
        digits = _canonical(found["num"])
        if len(digits) > _LONGEST:
            continue
        number = float(digits) if "." in digits else int(digits)
        suffix = (found["letter"] or found["scale"] or "").lower()
        scale = _SCALES.get(suffix, 1)
        if found["under"] and int(found["under"]):
            number = number / int(found["under"])
        half = _HALF.match(text, found.end())
        number = (number + (0.5 if half else 0)) * scale
        negated = found["sign"] == "-" or _negated(text[: found.start()])
        after = words(text[found.end() : found.end() + 24])
        yield Quantity(
            value=_whole(-number if negated else number),
            start=found.start("num"),
            end=found.end() + (half.end() if half else 0),
            decimals=len(digits.partition(".")[2]),
            scale=scale,
            percent=bool(found["percent"]),
            stated=found["ordinal"] is None,
            unit=suffix or (after[0].folded if after else ""),
        )


def _canonical(digits: str) -> str:
    """Digits with a point, whatever separators they came with."""
    if digits.replace(".", "").isdecimal():
        return digits
    if re.fullmatch(r"\d+,\d{1,2}|\d{1,3}(?:\.\d{3})+,\d+", digits):
        return digits.replace(".", "").replace(",", ".")
    return re.sub(r"[,' \u00a0\u202f]", "", digits)


def _negated(before: str) -> bool:
    return bool(re.search(r"\b(?:minus|negative)\s$", before[-12:], re.IGNORECASE))


def _whole(number: float) -> float:
    return int(number) if math.isfinite(number) and number == int(number) else number


def _from_words(text: str) -> Iterator[Quantity]:
    found = words(text)
    place = 0
    while place < len(found):
        starts = found[place].folded in _STARTS
        value, used = _spelled(found[place : place + 12]) if starts else (0.0, 0)
        if not used:
            place += 1
            continue
        last = found[place + used - 1]
        after = found[place + used : place + used + 1]
        yield Quantity(
            value=_whole(-value if _negated(text[: found[place].start]) else value),
            start=found[place].start,
            end=last.end,
            decimals=1 if value != int(value) else 0,
            percent=bool(after) and after[0].folded in {"percent", "per"},
            stated=value != 1 and last.folded not in ORDINALS and last.folded not in _IMPLIED,
            unit=after[0].folded if after else "",
        )
        place += used


def _spelled(found: tuple[Word, ...]) -> tuple[float, int]:
    """The number at the start of these words, and how many of them it takes (0: none)."""
    names = [w.folded for w in found]
    beginning = " ".join(names[:2])
    if beginning in _FRACTIONS:
        return _FRACTIONS[beginning], 2
    if beginning in {"half a", "half an", "half the"}:
        return (6, 3) if names[2:3] == ["dozen"] else (0.5, 1)
    total, current, used, last = 0, 0, 0, ""
    for place, name in enumerate(names):
        if name in {"a", "an"} and not used and names[1:2] and names[1] in _BARE_SCALES:
            current = 1
        elif name in SMALL and (
            last in {"", "scale"} or (last == "tens" and current % 10 == 0 and 0 < SMALL[name] < 10)
        ):
            current, last = current + SMALL[name], "small"
        elif name in _TENS and last in {"", "scale"}:
            current, last = current + _TENS[name], "tens"
        elif name in ORDINALS and last in {"", "tens", "scale"}:
            return total + current + ORDINALS[name], place + 1
        elif name in _BARE_SCALES and (used or name != "dozen") and current:
            current, last = current * _SCALES[name], "scale"
            if name not in {"hundred", "dozen"}:
                current, total = 0, total + current
        elif name == "and" and last == "scale" and _CARDINALS & {*names[place + 1 : place + 2]}:
            continue
        else:
            break
        used = place + 1
    if not used:
        return (_IMPLIED[names[0]], 1) if names and names[0] in _IMPLIED else (0, 0)
    if names[used : used + 3] == ["and", "a", "half"]:
        return total + current + 0.5, used + 3
    return total + current, used


# --- times of day and spans of time -------------------------------------------------------------

_HOURS = {name: number for name, number in SMALL.items() if 1 <= number <= 12}
_MINUTES = {
    "half": 30, "quarter": 15, "a quarter": 15, "five": 5, "ten": 10, "twenty": 20,
    "twenty-five": 25, "twenty five": 25, "fifteen": 15, "thirty": 30, "forty-five": 45,
    "forty five": 45, "forty": 40, "fifty": 50, "5": 5, "10": 10, "15": 15, "20": 20, "25": 25,
}  # fmt: skip
_NAMED = {"noon": 12, "midday": 12, "midnight": 0, "lunchtime": 12}
_HOUR = rf"(?P<hour>\d{{1,2}}|{'|'.join(_HOURS)})"
_PART = (
    r"(?:\s?(?P<half>[ap])\.?\s?m\b\.?"
    r"|\s(?:in the|at|this|tomorrow|tonight)?\s?(?P<part>morning|afternoon|evening|night)\b)?"
)
_MINUTE = "|".join(sorted(_MINUTES, key=len, reverse=True))
_CLOCKS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?P<past>half)\s{_HOUR}\b(?![.:,/]\d){_PART}",  # «half three» is half past, in Britain
        rf"(?<![\w:.])(?P<hour>\d{{1,2}})[:h](?P<minute>\d{{2}})(?::\d{{2}}(?:\.\d+)?)?(?!\d){_PART}",
        r"(?<=[Tt])(?P<hour>\d{2}):(?P<minute>\d{2})(?P<half>)(?P<part>)",
        r"(?<![\w:.])(?P<hour>\d{1,2})\.(?P<minute>\d{2})\s?(?P<half>[ap])\.?m\b(?P<part>)",
        rf"(?<!from )\b(?P<past>{_MINUTE})(?:\sminutes)?\s(?P<way>past|after|to|before|til|till)\s{_HOUR}\b{_PART}",
        rf"(?=[\dotfsen])\b{_HOUR}\s(?P<spoken>fifteen|thirty|forty-five|forty five|twenty|ten|forty|fifty)\b{_PART}",
        rf"(?=[\dotfsen])(?<![\w:.$€£-]){_HOUR}(?:\s?o'?clock\b){_PART}",
        rf"(?=[\dotfsen])(?<![\w:.$€£-]){_HOUR}\s?(?P<half>[ap])\.?\s?m\b\.?(?P<part>)",
        rf"(?=[\dotfsen])(?<![\w:.$€£-])(?<!past )(?<!quarter to ){_HOUR}\s(?:in the|at|this)\s(?P<part>morning|afternoon|evening|night)\b(?P<half>)",
        rf"(?=[abftu])\b(?:at|around|by|before|after|from|until|till|to|about|between|and)\s{_HOUR}(?![\w%])(?![.:,/]\d)(?P<half>)(?P<part>)",
        r"(?<![\w:.-])(?P<hour>\d{1,2})\s?(?:-|to|and|until)\s?\d{1,2}(?:[:.]\d\d)?"
        r"\s?(?:(?P<half>[ap])\.?m|in the (?P<part>morning|afternoon|evening))\b",
        rf"\b(?P<named>{'|'.join(_NAMED)})\b",
        r"(?<![\w:.$€£-])(?P<hour>\d{1,2})(?=\s(?:until|till?)\s\d)(?P<half>)(?P<part>)",
        r"(?<![\w:.$€£-])(?P<hour>\d{1,2})\.(?P<minute>[0-5][05])(?![.\d]|\s?%)(?P<half>)(?P<part>)",
    )
)
_CLOCK_HINT = re.compile(rf"\d|{'|'.join((*_HOURS, *_NAMED))}")  # most values hold none
_LOOSE = {_CLOCKS[0], _CLOCKS[5], _CLOCKS[9], *_CLOCKS[-2:]}
_SECONDS = {
    "second": 1, "sec": 1, "s": 1, "minute": 60, "min": 60, "hour": 3600, "hr": 3600, "h": 3600,
    "day": 86400, "week": 604800, "night": 86400,
}  # fmt: skip
_RELATIVE = re.compile(
    r"\b(?:in|within)\s(?P<text>[\w .-]{1,30}?(?:minutes?|mins?|hours?|hrs?)"
    r"(?: and a half|(?:,? and|,)? [\w-]{1,12} (?:minutes?|mins?))?)\b"
    r"|\b(?P<text2>(?:[\w.-]{1,12} ){1,6}?(?:minutes?|hours?)(?: and a half)?) from now\b",
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
    if not _CLOCK_HINT.search(text.lower()):
        return ()
    flat = plain(text)
    found = [
        Timed(m.start(), m.end(), frozenset(times), pattern not in _LOOSE)
        for pattern in _CLOCKS
        for m in pattern.finditer(flat)
        if (times := list(_hours_of(m)))
    ]
    return tuple(sorted(found, key=lambda t: (t.start, -t.end)))


def _hours_of(found: re.Match[str]) -> Iterator[dt.time]:
    """With am or pm one time; without, both, as «at seven» may be either."""
    parts = found.groupdict()
    if "named" in parts:
        yield dt.time(_NAMED[parts["named"].lower()])
        return
    hour = _HOURS.get(parts["hour"].lower()) or int(parts["hour"])
    minute = int(parts.get("minute") or 0) or _MINUTES.get((parts.get("spoken") or "").lower(), 0)
    if hour > 23 or minute > 59:
        return
    if parts.get("past"):
        minute = _MINUTES[parts["past"].lower()]
        if (parts.get("way") or "").lower() in {"to", "before", "til", "till"}:
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


# --- dates: written out, in figures, or relative to the dialogue's present ----------------------

_MONTHS = """january jan|february feb|march mar|april apr|may|june jun|july jul|august aug
|september sept sep|october oct|november nov|december dec"""
_WEEKDAYS = """monday mon|tuesday tues tue|wednesday wed|thursday thurs thur thu|friday fri
|saturday|sunday"""
MONTHS = {n: i for i, names in enumerate(_MONTHS.split("|"), start=1) for n in names.split()}
WEEKDAYS = {n: i for i, names in enumerate(_WEEKDAYS.split("|")) for n in names.split()}
_HOLIDAYS = {
    "christmas eve": (12, 24), "christmas day": (12, 25), "christmas": (12, 25),
    "boxing day": (12, 26),
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
_TO = (
    r"\s?(?:to|and|through|thru|until|till|or|-|,|&)\s?"
    rf"(?:(?:{_DAYS}),?\s)?(?:the\s)?"
)
_YEAR = r"(?:,?\s(?:of\s|in\s)?(?P<year>\d{4})\b)?"
_COUNT = r"(?P<count>\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fourteen)"
_UNIT = r"(?P<unit>day|night|week|fortnight|month|year)s?"
_COUNTS = {"a": 1, "an": 1, **SMALL}
_OFFSETS = {"day after tomorrow": 2, "tomorrow": 1, "day before yesterday": -2, "yesterday": -1,
            "last night": -1}  # fmt: skip


class Dated(NamedTuple):
    """A place in a text that says a date, with every day it may mean.

    `absolute` is true where the words or figures are a calendar date of their own, which may have
    its year.
    """

    start: int
    end: int
    days: frozenset[dt.date]
    absolute: bool


def day_of(year: int, month: int, day: int) -> Iterator[dt.date]:
    """That day, if the calendar has it."""
    with suppress(ValueError):
        yield dt.date(year, month, day)


def shift(day: dt.date, unit: str, count: int) -> Iterator[dt.date]:
    """The day `count` units on, if the calendar reaches so far."""
    with suppress(OverflowError, ValueError):
        if unit in {"month", "year"}:
            months = day.year * 12 + day.month - 1 + count * (12 if unit == "year" else 1)
            year, month = months // 12, months % 12 + 1
            yield dt.date(year, month, min(day.day, monthrange(year, month)[1]))
        else:
            yield day + dt.timedelta(days=count * {"week": 7, "fortnight": 14}.get(unit, 1))


def _near(month: int, day: int, found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    """That day of the year that is told, or without one its last and its next occurrence."""
    if year := found.groupdict().get("year"):
        yield from day_of(int(year) + (2000 if len(year) == 2 else 0), month, day)
        return
    for candidate in (now.year - 1, now.year, now.year + 1):
        yield from (d for d in day_of(candidate, month, day) if abs((d - now).days) <= 366)


def _day_number(found: re.Match[str]) -> int:
    digits = re.match(r"\d+", found["day"])
    return int(digits.group()) if digits else _ORDINAL_DAYS[found["day"].lower()]


def _written(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    month = MONTHS[found["month"].lower().rstrip(".")]
    yield from _near(month, _day_number(found), found, now)


def _iso(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    yield from day_of(int(found["year"]), int(found["a"]), int(found["b"]))


def _figures(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    a, b = int(found["a"]), int(found["b"])
    yield from _near(a, b, found, now)
    yield from _near(b, a, found, now)


def _weekday(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    """`Friday` is the coming or the last one; `next Friday` also the one of the week after."""
    ahead = (WEEKDAYS[found["name"].lower()] - now.weekday()) % 7
    which = (found["which"] or "").lower()
    offsets = {"next": (ahead or 7, ahead + 7), "last": (ahead - 7,), "past": (ahead - 7,)}
    if found["after"]:  # «Monday week» is the one after the coming one
        yield from shift(now, "day", (ahead or 7) + 7)
        return
    week = (found["week"] or "").lower()
    if week:
        day = -now.weekday() + (7 if week == "next" else 0) + WEEKDAYS[found["name"].lower()]
        # Of some people a week begins on Sunday.
        for offset in (day, day + 7) if now.weekday() == WEEKDAYS["sunday"] else (day,):
            yield from shift(now, "day", offset)
        return
    ways = (ahead, ahead or 7, ahead - 7)
    otherwise = ways if which in ("", "on") else ways[:2]  # «it was due on Wednesday»
    for offset in offsets.get(which, otherwise):
        yield from shift(now, "day", offset)
        if found["night"]:  # after which one leaves
            yield from shift(now, "day", offset + 1)


def _named(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    yield from shift(now, "day", _OFFSETS.get(found.group().lower(), 0))


def _count(found: re.Match[str]) -> int:
    return _COUNTS.get(found["count"].lower()) or int(found["count"])


def _relative(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    ago = found.group().lower().endswith(("ago", "earlier"))
    start = next(shift(now, "day", 1 if found.group().lower().endswith("tomorrow") else 0), now)
    yield from shift(start, found["unit"].lower(), -_count(found) if ago else _count(found))


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
            yield from day_of(day.year, day.month, _day_number(found))


def _holiday(found: re.Match[str], now: dt.date) -> Iterator[dt.date]:
    month, day = _HOLIDAYS[found["name"].lower()]
    yield from _near(month, day, found, now)


_Read = Callable[[re.Match[str], dt.date], Iterable[dt.date]]
_CALENDAR: tuple[tuple[re.Pattern[str], _Read], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), read)
    for read, patterns in {
        _iso: [r"(?<![\w-])(?P<year>\d{4})[-/.](?P<a>\d{1,2})[-/.](?P<b>\d{1,2})(?![\d-])"],
        _figures: [
            r"(?<![\w/.-])(?P<a>\d{1,2})(?P<sep>[-/.])(?P<b>\d{1,2})(?P=sep)(?P<year>\d{4}|\d{2})(?![\w/-])",
            r"(?<![\w/.-])(?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\w/])",
        ],
        _written: [
            rf"\b(?P<month>{_NAMES})\b\.?\s(?:the\s)?(?P<day>{_DAY}){_YEAR}",
            rf"\b(?P<month>{_NAMES})\b\.?\s(?:the\s)?{_DAY}{_TO}(?P<day>{_DAY})(?P<of>){_YEAR}",
            rf"\b(?P<day>{_DAY})(?:\sof)?\s(?P<month>{_NAMES})\b\.?{_YEAR}",
            rf"\b(?P<day>{_DAY})(?P<of>){_TO}{_DAY}(?:\sof)?\s(?P<month>{_NAMES})\b\.?{_YEAR}",
        ],
        _weekday: [
            rf"\b(?:(?P<which>next|this|last|past|coming|on)\s)?(?P<name>{_DAYS})\b"
            r"(?:(?:\sof)?\s(?P<week>next|this)\sweek|\s(?P<after>week)\b"
            r"|(?=\s(?P<night>nights?)\b))?"
        ],
        _named: [
            r"(?=[dltyr])\b(?:day after tomorrow|day before yesterday|last night|tomorrow|yesterday"
            r"|today|tonight|right now|this (?:morning|afternoon|evening))\b"
        ],
        _relative: [
            rf"\b(?:in|within)\s{_COUNT}\s{_UNIT}(?:'s? time)?\b",
            rf"(?=[\daotfsen])\b{_COUNT}\s{_UNIT}\s(?:from (?:now|today|tomorrow)|ago|earlier|later|ahead)\b",
        ],
        _period: [
            r"\b(?P<which>next|this|last|coming|the|current)\s(?P<unit>week|weekend|month|year)\b"
        ],
        _of_month: [  # an ordinal in words before a noun counts things: «the first name» is no day
            r"\b(?:the|on|to|until)\s(?P<day>\d{1,2}(?:st|nd|rd|th)"
            rf"|(?:{_ORD})(?!\s(?!{_AFTER_DAY})[a-z]))\b"
        ],
        _holiday: [rf"\b(?P<name>{'|'.join(_HOLIDAYS)})\b{_YEAR}"],
    }.items()
    for pattern in patterns
)
_DAY_HINT = re.compile(
    r"\d[-/.]\d|\d(?:st|nd|rd|th)|day|morrow|night|right now|this |week|month|year|"
    + "|".join(sorted({name[:3] for name in (*MONTHS, *WEEKDAYS, *ORDINALS, *_HOLIDAYS)}))
)
"""One of these is in every text that says a date, in small letters: most values hold none."""
_NAMED_BY = {
    read: re.compile("|".join(sorted({name[:3] for name in names})))
    for read, names in ((_written, MONTHS), (_weekday, WEEKDAYS), (_holiday, _HOLIDAYS))
}
"""One of these is in every text in which what reads so finds a date: it takes most of the time."""
_STAY = re.compile(rf"(?:\b(?P<how>by|for|in)\s)?\b{_COUNT}(?:\s|-){_UNIT}\b", re.IGNORECASE)

_LEAST = re.compile(  # «at least 3 and at most 28 days»
    rf"\b{_COUNT}(?P<how>)\s(?:to|and(?:\sat\smost)?)\s\w+\s{_UNIT}\b", re.IGNORECASE
)


@lru_cache(maxsize=4096)
def dated(text: str, today: dt.date) -> tuple[Dated, ...]:
    """Every place in the text that says a date, in order; longer ones before their parts."""
    flat = plain(text)
    if not _DAY_HINT.search(low := flat.lower()):
        return ()
    found = [
        # Of a range each end is a date of its own.
        Dated(*m.span("day" if "of" in shape else 0), frozenset(days), "year" in shape)
        for pattern, read in _CALENDAR
        if read not in _NAMED_BY or _NAMED_BY[read].search(low)
        for shape in [pattern.groupindex]
        for m in pattern.finditer(flat)
        # Some weekdays that are cut short are words in small letters.
        if m.groupdict().get("name") not in {"wed", "sat", "sun"}
        if (days := list(read(m, today)))
    ]
    return tuple(sorted(found, key=lambda d: (d.start, -d.end)))


@lru_cache(maxsize=4096)
def dates(text: str, today: dt.date) -> frozenset[dt.date]:
    """Every day the text may mean, and the end of a stay whose start and length it tells."""
    said = frozenset(day for place in dated(text, today) for day in place.days)
    if not said:
        return said
    ends = (shift(day, unit, count) for _, unit, count in lengths(text) for day in said)
    return said.union(*ends)


@lru_cache(maxsize=4096)
def lengths(text: str) -> frozenset[tuple[str, str, int]]:
    """Every number of days, nights, weeks, fortnights, months or years: `by`, `for`, `in` or
    nothing before it, and unit and count as `shift` takes them."""
    found = (f for shape in (_STAY, _LEAST) for f in shape.finditer(plain(text)))
    return frozenset((f["how"] or "", f["unit"].lower(), _count(f)) for f in found)


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
