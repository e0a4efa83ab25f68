"""The `{slots}` of written templates, and the pools of values that fill them, drawn or derived.

In a text `{{` and `}}` are braces.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import methodcaller
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolloom.pipeline.checks.schema import first_type, fits
from toolloom.pipeline.sampling.values import NoValue, draw_value, faker_for
from toolloom.pipeline.templates.filling import text_of
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
    """A value with its slots filled: one that is nothing but a slot keeps the type."""
    return _mapped(value, values.__getitem__)


def _mapped(value: Any, fill: Callable[[str], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _mapped(part, fill) for key, part in value.items()}
    if isinstance(value, list):
        return [_mapped(part, fill) for part in value]
    if not isinstance(value, str):
        return value
    if slot := whole_slot(value):
        return fill(slot)
    return "".join(text_of(fill(slot)) if slot else literal for literal, slot in _pieces(value))


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


POOL_VALUES = 2_000
DRAWN = 20  # values of a pool that is drawn, unless it says how many
TRIES = 20  # draws for each value that is wanted: many come twice
FAR = 3_660  # days

FAKERS = (
    "building_number", "city", "color_name", "company", "country", "country_code", "currency_code",
    "domain_name", "email", "file_name", "first_name", "ipv4", "isbn13", "job", "language_code",
    "language_name", "last_name", "license_plate", "month_name", "name", "postcode",
    "street_address", "street_name", "url", "user_name", "uuid4", "year",
)  # fmt: skip
"""Faker's providers that may be named: public ones that give one word or line."""
_FAKERS: Mapping[str, Callable[[Faker], Any]] = MappingProxyType({
    **{name: methodcaller(name) for name in FAKERS},
    "isbn13": methodcaller("isbn13", separator=""),
    "name": lambda f: f"{f.first_name()} {f.last_name()}",  # without a title
})  # fmt: skip

Number: TypeAlias = int | float
Count: TypeAlias = Annotated[int, Field(ge=1, le=POOL_VALUES)]
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
        if (high - low) / step >= POOL_VALUES:
            raise PoolMistake(f"a range has at most {POOL_VALUES:,} values; take a longer step")
        found = (low + step * i for i in range(int((high - low) / step) + 1))
        return Pool(tuple(int(n) if n == int(n) else float(n) for n in found), "range")


class FakerPool(ValueForm):
    """`{faker: city}` or `{faker: city, n: 50}`."""

    faker: str
    n: Count = DRAWN

    def values(self, setting: WrittenSetting) -> Pool:
        draw, faker = _FAKERS[self.faker], faker_for(setting.language, setting.rng)
        try:
            drawn = (draw(faker) for _ in range(self.n * TRIES))
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
        if low > high or high - low >= POOL_VALUES:
            raise PoolMistake(f"days are [first, last], upwards, at most {POOL_VALUES:,} of them")
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


def from_schema(argument: Argument, count: int, setting: WrittenSetting) -> Pool:
    """Values of the enum, else the examples, else drawn. Raises PoolMistake."""
    schema = argument.schema if isinstance(argument.schema, dict) else {}
    for key in ("enum", "examples"):
        listed = schema.get(key)
        usable = [v for v in listed if fits(schema, v)] if isinstance(listed, list) else []
        if usable := [v for v in usable if v is not None and v != ""]:
            return Pool(_distinct(usable, count), key)
    tries = 1 if first_type(schema) == "boolean" else count * TRIES
    drawn = (
        draw_value(argument.name, argument.schema, setting.rng, setting.now, setting.language)
        for _ in range(tries)
    )
    try:
        return Pool(_distinct(drawn, count), "schema")
    except NoValue as error:
        raise PoolMistake(
            f"the schema of {argument.about} gives no values; write some under `pools`"
        ) from error


def _distinct(values: Iterable[Any], count: int) -> tuple[Any, ...]:
    """The first values that differ, no more than are wanted."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(canonical(value), value)
        if len(found) == count:
            break
    return tuple(found.values())


LONGEST_FORMAT = 40


def _joined(text: str, sign: str) -> str:
    """The words without accents, as addresses are written: `zurich-old-town`."""
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return sign.join(re.findall(r"[^\W_]+", "".join(letters).lower()))


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

_SIGNS = ("%d", "%-d", "%m", "%-m", "%B", "%b", "%Y", "%y", "%A", "%a", "%%")
# What a date may be written with; `%-d` is a day without its zero, on any system.
_PARTS: Mapping[str, Callable[[dt.date], str]] = MappingProxyType({
    **{part: methodcaller("strftime", part) for part in _SIGNS},
    "%-d": lambda day: str(day.day),
    "%-m": lambda day: str(day.month),
    "%Y": lambda day: f"{day.year:04d}",
})  # fmt: skip
_PART = re.compile(r"%-?.?", re.DOTALL)


def derive(form: DerivedPool, value: Any) -> Any:
    """The value that follows from another. Raises PoolMistake."""
    if form.map is not None:
        key = value if isinstance(value, str) else canonical(value)  # as it stands in YAML
        if key not in form.map:
            raise PoolMistake(f"`map` has no entry for {canonical(value)}")
        return form.map[key]
    if form.later is not None:
        day = _day(value, "later")
        try:
            return (day + dt.timedelta(days=form.later)).isoformat()
        except OverflowError as error:
            raise PoolMistake(f"no calendar has the day {form.later:,} days after {day}") from error
    if form.format is not None:
        day = _day(value, "format")
        if len(form.format) > LONGEST_FORMAT:
            raise PoolMistake(f"`format` is longer than {LONGEST_FORMAT} letters")
        for part in _PART.findall(form.format):
            if part not in _PARTS:
                raise PoolMistake(f"`format` does not know `{part}`; it knows {' '.join(_PARTS)}")
        return _PART.sub(lambda part: _PARTS[part[0]](day), form.format)
    made = _WAYS[form.way or "text"](str(value))
    if made == "":
        raise PoolMistake(f"`as: {form.way}` leaves nothing of {canonical(value)}")
    return made


def _day(value: Any, way: str) -> dt.date:
    """A date such as 2026-03-02."""
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise PoolMistake(
            f"`{way}` takes dates, and {canonical(value)} is none such as 2026-03-02"
        ) from error


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
