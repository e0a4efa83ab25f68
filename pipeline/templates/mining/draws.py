"""More values for a place of a sample, drawn: like the one that stands there."""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.sampling.values import NoValue, draw_value
from toolloom.pipeline.sampling.vocabulary import LOCALES, REMARKS, TOPICS, endings
from toolloom.pipeline.templates.mining.forms import clock_of, day_of, is_number
from toolloom.pipeline.templates.mining.variables import Variable
from toolloom.schemas import JsonObject

FURTHEST = 300  # days from the present: words without a year mean a day in this reach
_LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_MEASURES = frozenset(
    """
    latitude lat longitude lon lng rating stars year month hour minute age page page_number
    """.split()  # noqa: SIM905 - a table of words
)
"""Names whose numbers lie in a range that the name tells."""
_PLAIN = frozenset(
    """
    city location place town country email mail phone first_name last_name full_name surname person
    company address street postcode zip symbol ticker currency airport username url date time
    language timezone origin destination recipient patient author artist customer guest passenger
    """.split()  # noqa: SIM905 - a table of words
)
"""Names whose drawn values are of the same kind as any examples."""
_YEARS = range(1900, 2100)


def draws(
    one: Variable, now: dt.datetime, language: str, rng: random.Random
) -> Iterator[tuple[Callable[[], Any], str]]:
    """Ways to draw more values, the better ones first, each with the name of its source.

    They raise NoValue where nothing can be drawn.
    """
    leaf, value = one.first, one.value
    schema = {k: v for k, v in leaf.schema.items() if k not in ("examples", "default")}
    if is_number(value):
        if _LIMITS & schema.keys() or set(endings(leaf.name)) & _MEASURES:
            yield lambda: draw_value(leaf.name, schema, rng, now), "schema"
        else:
            yield lambda: _number_like(value, leaf.name, rng), "range"
    elif day_of(value):
        yield lambda: _day_like(value, now.date(), rng), "days"
    elif clock_of(value):
        yield lambda: _clock_like(value, rng), "range"
    elif _DECIMAL.fullmatch(value):
        yield lambda: _decimal_like(value, rng), "range"
    elif _has_shape(value):
        yield lambda: _of_shape(value, rng), "range"
    elif "examples" not in leaf.schema or set(endings(leaf.name)) & _PLAIN:
        for name in filter(None, (re.sub(r"(?i)_?name$", "", leaf.name), leaf.name)):
            yield lambda name=name: _named(name, value, schema, now, language, rng), "faker"  # type: ignore[misc]


def _named(
    name: str,
    original: str,
    schema: JsonObject,
    now: dt.datetime,
    language: str,
    rng: random.Random,
) -> Any:
    """What the name says. A topic or a remark only in place of another one: such a name tells
    nothing of what else would do."""
    value = draw_value(name, schema, rng, now, language)
    locale = LOCALES.get(language, "en_US")
    for table in (TOPICS.get(locale, ()), REMARKS.get(locale, ())):
        if value in table and original not in table:
            raise NoValue(name)
    return value


_DECIMAL = re.compile(r"\d{1,9}\.\d{1,6}|\d{1,3}(?:,\d{3}){1,3}")


def _has_shape(value: str) -> bool:
    """An id or a long number, whose other values differ in their figures."""
    digits = sum(c.isdigit() for c in value)
    return digits > 1 and bool(re.fullmatch(r"[\w#-]{3,40}", value)) and is_code(value)


def _of_shape(value: str, rng: random.Random) -> str:
    """The same letters and leading zeros, other figures."""
    lead = len(value) - len(value.lstrip("0"))
    rest = (str(rng.randrange(1, 10)) if c.isdigit() else c for c in value[lead:])
    return value[:lead] + "".join(rest)


def _decimal_like(value: str, rng: random.Random) -> str:
    if "," in value:
        return _of_shape(value, rng)
    digits = len(value.partition(".")[2])
    return f"{_spread(float(value), rng):.{digits}f}"


def _number_like(value: float, name: str, rng: random.Random) -> float:
    """A number of the same size, sign and precision."""
    sign = -1 if value < 0 else 1
    if isinstance(value, float):
        digits = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 2
        return sign * round(_spread(value, rng), min(digits, 6))
    if value in _YEARS:
        return rng.randint(max(value - 15, 1950), value + 5)
    size = abs(value)
    if {"id", "ids"} & set(endings(name)):
        return sign * rng.randint(2, max(99, 10 ** len(str(size)) - 1))
    low, high = (2, 12) if size < 10 else (max(4, size // 3), size * 3)
    return sign * rng.randint(low, high)


def _spread(value: float, rng: random.Random) -> float:
    size = max(abs(value), 0.5)
    return rng.uniform(size / 3, size * 3)


def _day_like(value: str, today: dt.date, rng: random.Random) -> str:
    """A day on the same side of the present, about as far."""
    away = ((day_of(value) or today) - today).days
    reach = min(max(60, abs(away) * 2), FURTHEST)
    return (today + dt.timedelta(days=rng.randint(1, reach) * (1 if away >= 0 else -1))).isoformat()


def _clock_like(value: str, rng: random.Random) -> str:
    time = dt.time(rng.randint(7, 21), rng.choice((0, 15, 30, 45)))
    return f"{time:%H:%M:%S}" if value.count(":") > 1 else f"{time:%H:%M}"
