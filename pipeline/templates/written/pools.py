"""The `{slots}` of written templates, and the pools of values that fill them, drawn or derived.

In a text `{{` and `}}` are braces.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolloom.pipeline.checks.schema import first_type, fits
from toolloom.pipeline.dataset.unfold import text_of
from toolloom.pipeline.sampling.values import NoValue, draw_value
from toolloom.pipeline.sampling.vocabulary import LOCALES
from toolloom.schemas import Choice, JsonObject, canonical, marker

if TYPE_CHECKING:
    from faker import Faker


NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class SlotMistake(ValueError):
    """A text whose braces make no slot."""


def slots_in(value: Any) -> Iterator[str]:
    """The slots of a text, or of all texts in a value, in order; repeated ones too.

    Raises SlotMistake.
    """
    for text in texts_in(value):
        yield from (slot for literal, slot in _pieces(text) if slot)


def texts_in(value: Any) -> Iterator[str]:
    """The texts in a value, at every depth; keys of objects are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from texts_in(part)


def whole_slot(value: Any) -> str | None:
    """The slot that a value is, if it is one and nothing else."""
    found = _PIECE.fullmatch(value) if isinstance(value, str) else None
    return found[1] if found else None


def with_markers(value: Any) -> Any:
    """A value with the slots of its texts as they stand in a skeleton."""
    return _mapped(value, marker)


def with_values(value: Any, values: Mapping[str, Any]) -> Any:
    """A value with its slots with_values: one that is nothing but a slot keeps the type."""
    return _mapped(value, lambda slot: values[slot], whole=True)


def _mapped(value: Any, given: Callable[[str], Any], *, whole: bool = False) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(part, given, whole=whole) for key, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, given, whole=whole) for part in value]
    if not isinstance(value, str):
        return value
    if whole and (slot := whole_slot(value)):
        return given(slot)
    return "".join(text_of(given(slot)) if slot else literal for literal, slot in _pieces(value))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """(literal text, "") and ("", slot), in order. Raises SlotMistake."""
    end = 0
    for found in _PIECE.finditer(text):
        yield text[end : found.start()], ""
        end = found.end()
        if found[0] in ("{{", "}}"):
            yield found[0][0], ""
        elif found[1] is not None and NAME.fullmatch(found[1]):
            yield "", found[1]
        elif found[1] is not None:
            raise SlotMistake(
                f"`{found[0][:60]}` is no slot: its name is lower-case letters, digits and `_`; "
                "a brace of the text itself is written twice"
            )
        else:
            raise SlotMistake(
                f"a lone `{found[0]}`: a slot is `{{name}}`, a brace of the text is written twice"
            )
    yield text[end:], ""


MOST_VALUES = 2_000
DRAWN = 20  # values of a pool that is drawn, unless it says how many
TRIES = 20  # draws for each value that is wanted: many come twice
FAR = 3_660  # days

_FAKERS: Mapping[str, Callable[[Faker], Any]] = MappingProxyType({
    "building_number": lambda f: f.building_number(),
    "city": lambda f: f.city(),
    "color_name": lambda f: f.color_name(),
    "company": lambda f: f.company(),
    "country": lambda f: f.country(),
    "country_code": lambda f: f.country_code(),
    "currency_code": lambda f: f.currency_code(),
    "domain_name": lambda f: f.domain_name(),
    "email": lambda f: f.email(),
    "file_name": lambda f: f.file_name(),
    "first_name": lambda f: f.first_name(),
    "ipv4": lambda f: f.ipv4(),
    "isbn13": lambda f: f.isbn13(separator=""),
    "job": lambda f: f.job(),
    "language_code": lambda f: f.language_code(),
    "language_name": lambda f: f.language_name(),
    "last_name": lambda f: f.last_name(),
    "license_plate": lambda f: f.license_plate(),
    "month_name": lambda f: f.month_name(),
    "name": lambda f: f"{f.first_name()} {f.last_name()}",
    "postcode": lambda f: f.postcode(),
    "street_address": lambda f: f.street_address(),
    "street_name": lambda f: f.street_name(),
    "url": lambda f: f.url(),
    "user_name": lambda f: f.user_name(),
    "uuid4": lambda f: f.uuid4(),
    "year": lambda f: f.year(),
})  # fmt: skip
FAKERS = tuple(_FAKERS)
"""Faker's providers that may be named: public ones that give one word or line."""

Number: TypeAlias = int | float
Count: TypeAlias = Annotated[int, Field(ge=1, le=MOST_VALUES)]
Day: TypeAlias = Annotated[int, Field(ge=-FAR, le=FAR)]
Size: TypeAlias = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]


class PoolMistake(ValueError):
    """A pool that gives no values, in words for the person who wrote it."""


class ValueForm(BaseModel):
    """What people write: closed, so that a slip of the pen is told."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=False)


@dataclass(frozen=True)
class WrittenSetting:
    """What values depend on besides what is written."""

    rng: random.Random
    now: dt.datetime
    language: str


@dataclass(frozen=True)
class Pool:
    """Values, and where they come from."""

    values: tuple[Any, ...]
    source: str


@dataclass(frozen=True)
class Argument:
    """An argument, or a field of a response, with its schema."""

    name: str
    schema: JsonObject | bool
    about: str


class RangePool(ValueForm):
    """`{range: [1, 9]}` or `{range: [0.5, 5, 0.5]}`: the last number is the step."""

    range: Annotated[tuple[Size, ...], Field(min_length=2, max_length=3)]

    def values(self, setting: WrittenSetting) -> Pool:
        # Decimals, as 0.1 + 0.2 is not what anybody means.
        low, high, *rest = (Decimal(str(number)) for number in self.range)
        step = rest[0] if rest else Decimal(1)
        if step <= 0 or low > high:
            raise PoolMistake("a range is [from, to] or [from, to, step], upwards")
        if (high - low) / step >= MOST_VALUES:
            raise PoolMistake(f"a range has at most {MOST_VALUES:,} values; take a longer step")
        found = (low + step * i for i in range(int((high - low) / step) + 1))
        return Pool(tuple(int(n) if n == int(n) else float(n) for n in found), "range")


class FakerPool(ValueForm):
    """`{faker: city}` or `{faker: city, n: 50}`."""

    faker: str
    n: Count = DRAWN

    def values(self, setting: WrittenSetting) -> Pool:
        made = _faker(LOCALES.get(setting.language, "en_US"))
        made.seed_instance(setting.rng.getrandbits(64))
        draw = _FAKERS[self.faker]
        try:
            drawn = (draw(made) for _ in range(self.n * TRIES))
            return Pool(_distinct(drawn, self.n), "faker")
        except AttributeError as error:
            raise PoolMistake(
                f"Faker has no `{self.faker}` for {setting.language}; write the values"
            ) from error


class DaysPool(ValueForm):
    """`{days: [1, 30]}`: dates so many days after the dialogue's present."""

    days: tuple[Day, Day]

    def values(self, setting: WrittenSetting) -> Pool:
        low, high = self.days
        if low > high or high - low >= MOST_VALUES:
            raise PoolMistake(f"days are [first, last], upwards, at most {MOST_VALUES:,} of them")
        today = setting.now.date()
        days = ((today + dt.timedelta(days=n)).isoformat() for n in range(low, high + 1))
        return Pool(tuple(days), "days")


class SchemaPool(ValueForm):
    """`schema`, or `{schema: 30}`: up to so many values that the API's schema gives."""

    count: Count = Field(default=DRAWN, alias="schema")


class DerivedPool(ValueForm):
    """`{of: city, as: plus}`, `{of: language, map: {English: en}}`, `{of: day, format: "%A"}`,
    `{of: day, later: 14}`."""

    of: str
    way: (
        Literal[
            "plus", "slug", "snake", "lower", "upper", "title", "compact", "digits", "text",
            "initial", "length",
        ]
        | None
    ) = Field(default=None, alias="as")  # fmt: skip
    map: dict[str, Any] | None = None
    format: str | None = None
    later: Day | None = None

    @model_validator(mode="after")
    def _one_way(self) -> DerivedPool:
        ways = (self.way, self.map, self.format, self.later)
        if sum(one is not None for one in ways) != 1:
            raise ValueError("give one of `as`, `map`, `format` and `later`")
        return self


Drawn: TypeAlias = RangePool | FakerPool | DaysPool
Written: TypeAlias = list[Any] | Drawn | SchemaPool | DerivedPool
FORMS: Mapping[str, type[ValueForm]] = MappingProxyType({
    "range": RangePool, "faker": FakerPool, "days": DaysPool, "schema": SchemaPool,
    "of": DerivedPool,
})  # fmt: skip


def listed(values: list[Any]) -> Pool:
    """A literal list, or what is wrong with it."""
    if not values:
        raise PoolMistake("is empty; a slot needs at least one value")
    if len(values) > MOST_VALUES:
        raise PoolMistake(f"has {len(values):,} values; at most {MOST_VALUES:,} are taken")
    return Pool(tuple(values), "literal")


def from_schema(argument: Argument, count: int, setting: WrittenSetting) -> Pool:
    """Values of the enum, else the examples, else drawn. Raises PoolMistake."""
    schema = argument.schema if isinstance(argument.schema, dict) else {}
    for key, source in (("enum", "enum"), ("examples", "examples")):
        given = schema.get(key)
        usable = [v for v in given if fits(schema, v)] if isinstance(given, list) else []
        usable = [v for v in usable if v is not None and v != ""]
        if usable:
            return Pool(_distinct(iter(usable), count), source)
    try:
        return Pool(_distinct(_draws(argument, count, setting), count), "schema")
    except NoValue as error:
        raise PoolMistake(
            f"the schema of {argument.about} gives no values; write some under `pools`"
        ) from error


def _draws(argument: Argument, count: int, setting: WrittenSetting) -> Iterator[Any]:
    single = isinstance(argument.schema, dict) and first_type(argument.schema) == "boolean"
    for _ in range(1 if single else count * TRIES):
        yield draw_value(argument.name, argument.schema, setting.rng, setting.now, setting.language)


def _distinct(values: Iterator[Any], count: int) -> tuple[Any, ...]:
    """The first values that differ, no more than are wanted."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
        if len(found) == count:
            break
    return tuple(found.values())


@cache
def _faker(locale: str) -> Faker:
    from faker import Faker

    return Faker(locale)


LONGEST_FORMAT = 40


def _plain(text: str) -> str:
    """Without accents, as addresses are written: `zurich`."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _joined(text: str, sign: str) -> str:
    return sign.join(re.findall(r"[^\W_]+", _plain(text).lower()))


_WAYS: Mapping[str, Callable[[str], Any]] = MappingProxyType({
    "plus": lambda text: "+".join(text.lower().split()),
    "slug": lambda text: _joined(text, "-"),
    "snake": lambda text: _joined(text, "_"),
    "lower": str.lower,
    "upper": str.upper,
    "title": lambda text: " ".join(w[:1].upper() + w[1:] for w in text.split()),
    "compact": lambda text: "".join(text.split()),
    "digits": lambda text: "".join(c for c in text if c in "0123456789"),
    "text": lambda text: text,
    "initial": lambda text: text[:1].upper(),
    "length": len,
})  # fmt: skip

# What a date may be written with; `%-d` is a day without its zero, on any system.
_PARTS: Mapping[str, Callable[[dt.date], str]] = MappingProxyType({
    "%d": lambda day: f"{day.day:02d}",
    "%-d": lambda day: str(day.day),
    "%m": lambda day: f"{day.month:02d}",
    "%-m": lambda day: str(day.month),
    "%B": lambda day: day.strftime("%B"),
    "%b": lambda day: day.strftime("%b"),
    "%Y": lambda day: f"{day.year:04d}",
    "%y": lambda day: f"{day.year % 100:02d}",
    "%A": lambda day: day.strftime("%A"),
    "%a": lambda day: day.strftime("%a"),
    "%%": lambda day: "%",
})  # fmt: skip
_PART = re.compile(r"%-?.?", re.DOTALL)


def derive(form: DerivedPool, value: Any) -> Any:
    """The value that follows from another. Raises PoolMistake."""
    if form.map is not None:
        if (key := _as_key(value)) not in form.map:
            raise PoolMistake(f"`map` has no entry for {canonical(value)}")
        return form.map[key]
    if form.later is not None:
        return _later(_day(value, "later"), form.later)
    if form.format is not None:
        return _written(_day(value, "format"), form.format)
    made = _WAYS[form.way or "text"](str(value))
    if made == "":
        raise PoolMistake(f"`as: {form.way}` leaves nothing of {canonical(value)}")
    return made


def _as_key(value: Any) -> str:
    """As the value stands in YAML as a key."""
    return value if isinstance(value, str) else canonical(value)


def _day(value: Any, way: str) -> dt.date:
    """A date such as 2026-03-02."""
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise PoolMistake(
            f"`{way}` takes dates, and {canonical(value)} is none such as 2026-03-02"
        ) from error


def _later(day: dt.date, count: int) -> str:
    try:
        return (day + dt.timedelta(days=count)).isoformat()
    except OverflowError as error:
        raise PoolMistake(f"no calendar has the day {count:,} days after {day}") from error


def _written(day: dt.date, form: str) -> str:
    if len(form) > LONGEST_FORMAT:
        raise PoolMistake(f"`format` is longer than {LONGEST_FORMAT} letters")
    for part in _PART.findall(form):
        if part not in _PARTS:
            raise PoolMistake(f"`format` does not know `{part}`; it knows {' '.join(_PARTS)}")
    return _PART.sub(lambda part: _PARTS[part[0]](day), form)


@dataclass
class Family:
    """Slots that are drawn together, with their values row by row, the original first."""

    slots: list[str]
    rows: list[list[Any]]
    about: str
    source: str

    def column(self, slot: str) -> list[Any]:
        place = self.slots.index(slot)
        return [row[place] for row in self.rows]

    def derive(self, slot: str, form: DerivedPool) -> None:
        """Add a slot whose values follow from another's. Raises PoolMistake."""
        found = [derive(form, value) for value in self.column(form.of)]
        self.slots.append(slot)
        for row, value in zip(self.rows, found, strict=True):
            row.append(value)

    def choice(self, wanted: Sequence[str]) -> Choice:
        """The choice of the slots that stand somewhere; rows that no longer differ are one."""
        places = [i for i, slot in enumerate(self.slots) if slot in wanted]
        rows = {canonical(row): row for row in ([r[i] for i in places] for r in self.rows)}
        return Choice(
            slots=tuple(self.slots[i] for i in places),
            rows=tuple(map(tuple, rows.values())),
            about=self.about,
            sources={self.source: len(rows)},
        )


def in_order(derived: Mapping[str, DerivedPool]) -> Iterator[str]:
    """The derived slots, each after the one it is derived from; none that goes in circles."""
    done: set[str] = set()
    waiting = dict(derived)
    while ready := [s for s, form in waiting.items() if form.of in done or form.of not in derived]:
        for slot in ready:
            done.add(slot)
            del waiting[slot]
            yield slot


def circle(derived: Mapping[str, DerivedPool], slot: str) -> list[str]:
    """The way from a slot back to itself; empty if there is none."""
    way = [slot]
    while way[-1] in derived and len(way) <= len(derived):
        way.append(derived[way[-1]].of)
        if way[-1] == slot:
            return way
    return []
