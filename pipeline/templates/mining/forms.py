"""The forms a value is said in: other letters, number words, dates as people write them.

A form is a function of the value alone, so that it can be told for every other value too.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

Form: TypeAlias = Callable[[Any], str | None]
"""The text of a value in this form; None for a value that has none."""

ITSELF = ""
"""The form of a string that stands as it is, or of a number in plain figures."""

TEXT = "text"
"""The form of a number that stands alone where only text may."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::00)?")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MOST = 1e15
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()  # noqa: SIM905 - a table of words
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()  # noqa: SIM905 - likewise


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def day_of(value: Any) -> dt.date | None:
    """The day that a text in ISO 8601 is."""
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        return None


def clock_of(value: Any) -> dt.time | None:
    """The time of day that a text such as `19:30` is."""
    found = _CLOCK.fullmatch(value) if isinstance(value, str) else None
    return dt.time(int(found[1]), int(found[2])) if found else None


def texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every form of a value with its text, the plainest first; none is told twice."""
    seen: set[str] = set()
    for name, form in _forms_of(value).items():
        text = form(value)
        if text and text not in seen:
            seen.add(text)
            yield name, text


def said_as(value: Any, form: str) -> str | None:
    """The text of a value in a form; None if it has none."""
    if form == TEXT:
        return plain_number(value) if is_number(value) else str(value)
    known = _forms_of(value).get(form)
    return known(value) if known else None


def form_of(value: Any, text: str) -> str | None:
    """The form in which a value is this text."""
    return next((name for name, said in texts(value) if said == text), None)


def plain_number(value: float) -> str:
    """A number as JSON writes it."""
    return repr(value) if isinstance(value, float) else str(value)


def _forms_of(value: Any) -> Mapping[str, Form]:
    if is_number(value):
        return _NUMBERS if abs(value) < _MOST else {}
    if day_of(value):
        return _DAYS
    if clock_of(value):
        return _CLOCKS
    return _STRINGS if isinstance(value, str) else {}


def _on_day(write: Callable[[dt.date], str]) -> Form:
    def form(value: Any) -> str | None:
        day = day_of(value)
        return write(day) if day else None

    return form


def _ordinal(day: dt.date) -> str:
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return f"{day.day}{ending}"


def _day_forms() -> Iterator[tuple[str, Form]]:
    yield ITSELF, str
    for called, month in (("", "%B"), ("short_", "%b")):
        for with_year, year in (("_year", " %Y"), ("", "")):
            for name, write in _orders(month, year):
                yield f"{called}{name}{with_year}", _on_day(write)


def _orders(month: str, year: str) -> Iterator[tuple[str, Callable[[dt.date], str]]]:
    """Month first and day first. `year` with the space before it, or nothing."""
    after = f",{year}" if year else ""

    def first(day: dt.date) -> str:
        return f"{day.strftime(month)} {day.day}{day.strftime(after)}"

    yield "weekday_month_day", lambda day: f"{day:%A}, {first(day)}"
    yield "month_day", first
    yield "day_month", lambda day: f"{day.day} {day.strftime(month + year)}"
    yield (
        "month_day_th",
        lambda day: f"{day.strftime(month)} {_ordinal(day)}{day.strftime(after)}",
    )
    yield "day_th_month", lambda day: f"{_ordinal(day)} of {day.strftime(month + year)}"


def _on_clock(write: Callable[[dt.time], str]) -> Form:
    def form(value: Any) -> str | None:
        time = clock_of(value)
        return write(time) if time else None

    return form


def _twelve(time: dt.time, whole: bool = True) -> str:
    hour = time.hour % 12 or 12
    return f"{hour}" if whole and not time.minute else f"{hour}:{time.minute:02}"


def _half(time: dt.time) -> str:
    return "am" if time.hour < 12 else "pm"


_CLOCKS: Mapping[str, Form] = {
    ITSELF: str,
    "24h": _on_clock(lambda t: f"{t:%H:%M}"),
    "24h_short": _on_clock(lambda t: f"{t.hour}:{t.minute:02}"),
    "12h": _on_clock(lambda t: f"{_twelve(t)} {_half(t)}"),
    "12h_capital": _on_clock(lambda t: f"{_twelve(t)} {_half(t).upper()}"),
    "12h_close": _on_clock(lambda t: f"{_twelve(t)}{_half(t)}"),
    "12h_close_capital": _on_clock(lambda t: f"{_twelve(t)}{_half(t).upper()}"),
    "12h_dots": _on_clock(lambda t: f"{_twelve(t)} {_half(t)[0]}.m."),
    "12h_long": _on_clock(lambda t: f"{_twelve(t, whole=False)} {_half(t)}"),
    "12h_long_capital": _on_clock(lambda t: f"{_twelve(t, whole=False)} {_half(t).upper()}"),
}


def _words(value: Any) -> str | None:
    if not isinstance(value, int) or not 0 <= value < 100:
        return None
    if value < 20:
        return _ONES[value]
    tens, ones = divmod(value, 10)
    return _TENS[tens - 2] + (f"-{_ONES[ones]}" if ones else "")


def _capital(text: str | None) -> str | None:
    return text[:1].upper() + text[1:] if text else None


def _decimals(places: int, separator: str = "") -> Form:
    return lambda v: f"{v:{separator}.{places}f}" if isinstance(v, float) else None


def _padded(value: Any) -> str | None:
    """A whole number with cents."""
    return f"{value:.2f}" if isinstance(value, int) else None


_NUMBERS: Mapping[str, Form] = {
    ITSELF: plain_number,
    "short": lambda v: str(int(v)) if float(v).is_integer() else repr(float(v)),
    "words": _words,
    "words_capital": lambda v: _capital(_words(v)),
    "thousands": lambda v: f"{v:,}",
    "short_thousands": lambda v: f"{int(v):,}" if float(v).is_integer() else None,
    "cents": _padded,
    "decimals_2": _decimals(2),
    "thousands_2": _decimals(2, ","),
    "decimals_1": _decimals(1),
    "whole": _decimals(0),
}
ROUNDED = frozenset({"decimals_1", "decimals_2", "thousands_2", "whole"})
"""Forms that tell less than the value, as replies do."""


def _spaced(text: str) -> str:
    return " ".join(_HUMP.sub(" ", text.replace("_", " ")).split())


def _names(text: str) -> str:
    return " ".join(w[:1].upper() + w[1:].lower() for w in text.split(" "))


def _titled(text: str) -> str:
    return " ".join(w[:1].upper() + w[1:] for w in text.split(" "))


def _as_it_is(text: str) -> str:
    return text


_CASES: Mapping[str, Callable[[str], str]] = {
    ITSELF: _as_it_is,
    "lower": str.lower,
    "capital": lambda text: text[:1].upper() + text[1:],
    "sentence": lambda text: text[:1].upper() + text[1:].lower(),
    "title": _titled,
    "names": _names,
    "upper": str.upper,
}
_SPACES: Mapping[str, Callable[[str], str]] = {
    ITSELF: _as_it_is,
    "spaced": _spaced,
    "open": lambda text: _spaced(text).replace("-", " "),
    "hyphens": lambda text: _spaced(text).replace(" ", "-"),
}


def _string_form(part: Callable[[str], str], write: Callable[[str], str]) -> Form:
    return lambda value: write(part(value)) if isinstance(value, str) else None


def _string_forms() -> Iterator[tuple[str, Form]]:
    for spacing, part in _SPACES.items():
        for case, write in _CASES.items():
            yield "_".join(filter(None, (spacing, case))), _string_form(part, write)


_DAYS: Mapping[str, Form] = dict(_day_forms())
_STRINGS: Mapping[str, Form] = dict(_string_forms())
