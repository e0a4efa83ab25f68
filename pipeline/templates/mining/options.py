"""Other values for a value that may vary: from its schema, from other samples, and drawn.

What is drawn is like the value that stands there.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from toolloom.pipeline.checks.evidence import Evidence, is_status
from toolloom.pipeline.checks.grounding import named, says
from toolloom.pipeline.checks.replies import unfounded
from toolloom.pipeline.checks.schema import fits
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import words
from toolloom.pipeline.sampling.values import NoValue, draw_value
from toolloom.pipeline.sampling.vocabulary import LOCALES, REMARKS, TOPICS, endings
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.pipeline.templates.mining.variables import (
    Variable,
    clock_of,
    day_of,
    folded,
    is_number,
    may_vary,
    said_as,
)
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
        digits = len(value.partition(".")[2])
        yield lambda: f"{_spread(float(value), rng):.{digits}f}", "range"
    elif _GROUPED.fullmatch(value) or _has_shape(value):
        yield lambda: _of_shape(value, rng), "range"
    elif "examples" not in leaf.schema or set(endings(leaf.name)) & _PLAIN:
        for name in filter(None, (re.sub(r"(?i)_?name$", "", leaf.name), leaf.name)):
            yield partial(_named, name, value, schema, now, language, rng), "faker"


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


_DECIMAL = re.compile(r"\d{1,9}\.\d{1,6}")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3}){1,3}")


def _has_shape(value: str) -> bool:
    """An id or a long number, whose other values differ in their figures."""
    digits = sum(c.isdigit() for c in value)
    return digits > 1 and bool(re.fullmatch(r"[\w#-]{3,40}", value)) and is_code(value)


def _of_shape(value: str, rng: random.Random) -> str:
    """The same letters and leading zeros, other figures."""
    lead = len(value) - len(value.lstrip("0"))
    rest = (str(rng.randrange(1, 10)) if c.isdigit() else c for c in value[lead:])
    return value[:lead] + "".join(rest)


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


MOST = 64  # values of a choice
_CANDIDATES = 160
_TRIES = 240
_VOWEL = re.compile(r"[aeiou8]|1[18]\b", re.IGNORECASE)


@dataclass(frozen=True)
class FormUse:
    """A form that a value takes, and what stands around it."""

    form: str
    role: str = ""  # of the text it stands in; empty where it stands alone
    before: str = ""
    after: str = ""


@dataclass
class ValueOptions:
    """A value that varies: its uses, and what else it may be."""

    one: Variable
    uses: list[FormUse]
    values: list[tuple[Any, str]] = field(default_factory=list)  # with where each comes from

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(use.form for use in self.uses))


@dataclass(frozen=True)
class SampleSetting:
    """What the values of a sample depend on."""

    now: dt.datetime
    language: str
    known: SeenValues
    constant: str  # the words that stay, as `in_words` gives them


def in_words(text: str) -> str:
    """The words of a text, folded, to look for words in a row."""
    return f" {' '.join(w.folded for w in words(text))} "


def fill(pools: Sequence[ValueOptions], setting: SampleSetting, rng: random.Random) -> None:
    """Give each pool at most 64 values, the original first; no value is in two pools."""
    taken = {folded(pool.one.value) for pool in pools}
    waiting = []
    for pool in pools:
        pool.values.append((pool.one.value, "sample"))
        chance = random.Random(rng.getrandbits(64))
        waiting.append((pool, _fitting(pool, setting, chance)))
    while waiting:
        for pool, candidates in list(waiting):
            found = next((c for c in candidates if folded(c[0]) not in taken), None)
            if found is None or len(pool.values) >= MOST:
                waiting.remove((pool, candidates))
            else:
                taken.add(folded(found[0]))
                pool.values.append(found)


def _fitting(
    pool: ValueOptions, setting: SampleSetting, rng: random.Random
) -> Iterator[tuple[Any, str]]:
    seen = {folded(pool.one.value)}
    for value, source in _candidates(pool.one, setting, rng):
        if len(seen) > _CANDIDATES:
            return
        if _is_kin(value, pool.one.value) and folded(value) not in seen:
            seen.add(folded(value))
            if _suits(value, pool, setting):
                yield value, source


def _is_kin(value: Any, original: Any) -> bool:
    """Of the same type, so that it takes the same places."""
    if type(value) is not type(original) or not may_vary(value):
        return False
    return all((read(value) is None) == (read(original) is None) for read in (day_of, clock_of))


def _suits(value: Any, pool: ValueOptions, setting: SampleSetting) -> bool:
    one = pool.one
    schemas = [leaf.schema for leaf, _ in one.leaves]
    if any(schema and not fits(schema, value) for schema in schemas):
        return False
    if isinstance(value, str) and not _is_worded_alike(value, one.value):
        return False
    if is_number(value):
        # Never nothing in place of something; and what is observed keeps its sign.
        signs = (value < 0) == (one.value < 0) or one.is_argument
        if bool(value) != bool(one.value) or not signs:
            return False
    elif in_words(value) in setting.constant:
        return False
    if day := day_of(value):
        today = setting.now.date()
        same_side = (day >= today) == ((day_of(one.value) or today) >= today)
        if not same_side or abs((day - today).days) > FURTHEST:
            return False
    return all(_says(value, use, one, setting) for use in pool.uses)


def _is_worded_alike(value: str, original: str) -> bool:
    """One sentence in place of one, with its end or without; no capitals where there were none."""
    if any((mark in value) != (mark in original) for mark in (". ", "\n", "? ", "; ")):
        return False
    if (value[-1:] in ".!?") != (original[-1:] in ".!?"):
        return False
    prose = len(original.split()) > 3 or len(value.split()) > 3
    return not prose or value[:1].isupper() == original[:1].isupper()


def _says(value: Any, use: FormUse, one: Variable, setting: SampleSetting) -> bool:
    said = said_as(value, use.form)
    if not said:
        return False
    if use.before and bool(_VOWEL.match(said)) != use.before.lower().endswith("an"):
        return False
    if use.after and is_number(value) and 1 in (abs(value), abs(one.value)):
        return False  # one person, two people
    if use.role == "user":
        schema = named(one.first.name, one.first.schema)
        return says(f"It is {said}.", value, schema, setting.now)
    if use.role == "reply":
        texts, numbers = ((value,), ()) if isinstance(value, str) else ((), (value,))
        evidence = Evidence(texts, numbers, (), setting.now)
        return not any(unfounded(f"{said} is it.", evidence))
    return True


def _candidates(
    one: Variable, setting: SampleSetting, rng: random.Random
) -> Iterator[tuple[Any, str]]:
    leaf, schema = one.first, one.first.schema
    for key in ("enum", "examples"):
        listed = schema.get(key)
        for value in listed[:MOST] if isinstance(listed, list) else ():
            if one.is_argument or not is_status(value):
                yield value, key
    if isinstance(schema.get("enum"), list):
        return
    for value in setting.known.values(leaf):
        yield value, "samples"
    for draw, source in draws(one, setting.now, setting.language, rng):
        for _ in range(_TRIES):
            try:
                yield draw(), source
            except NoValue:
                break
