"""Pools of values for the slots of written templates: what is written, and what comes of it."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from toolloom.pipeline.checks.keywords import first_type, fits
from toolloom.pipeline.sampling.values import NoValue, draw_value
from toolloom.pipeline.sampling.vocabulary import LOCALES
from toolloom.schemas import JsonObject, canonical

if TYPE_CHECKING:
    from faker import Faker

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
