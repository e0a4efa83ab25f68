"""Argument values, drawn before any words are written (DESIGN, «answer first»).

Schemas come from anywhere. What is drawn fits its schema or is not drawn: `NoValue`. Here is also
where every draw has its chance from, `rng_for`, and what names and formats say about values.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from operator import methodcaller
from typing import TYPE_CHECKING, Any, TypeAlias

from toolloom.pipeline.checks.schema import (
    PLAIN_OBJECT,
    as_dict,
    as_list,
    as_strings,
    bound,
    first_type,
    fits,
    is_null,
    merged,
    variants_of,
)
from toolloom.pipeline.checks.text.words import name_words, table
from toolloom.schemas import JsonObject, canonical, digest

if TYPE_CHECKING:
    from faker import Faker

Draw: TypeAlias = Callable[["Faker"], Any]


DEPTH = 4  # objects in objects; deeper ones are not drawn
TRIES = 8  # draws until a value fits
MOST_DRAWN = 2000  # values, tries included, for one API: tries in tries multiply
ITEMS = 3  # of a list, unless its schema asks for more
MOST_ITEMS = 10
LONGEST = 200  # characters of a value that somebody might say
SPOKEN = 2  # optional arguments in a request, on average, where an API has many


def rng_for(*parts: Any) -> random.Random:
    """The generator of (recipe seed, stage, record id): never shared, never in arrival order."""
    return random.Random(digest(list(parts), 32))


def moment(rng: random.Random) -> dt.datetime:
    """The present of a dialogue."""
    start = dt.datetime(2025, 1, 1)
    return start + dt.timedelta(days=rng.randrange(1000), minutes=rng.randrange(7 * 60, 21 * 60))


class NoValue(Exception):
    """Nothing says what a value of this parameter looks like."""


@dataclass(frozen=True)
class _Present:
    """What draws depend on besides the schema."""

    rng: random.Random
    now: dt.datetime
    language: str
    identities: frozenset[str] = frozenset()
    drawn: Iterator[int] = field(default_factory=count)


@cache
def faker_of(locale: str) -> Faker:
    """One for all draws, each of which seeds it."""
    from faker import Faker

    made = Faker(locale)
    if locale == "it_IT":  # made from a set: in another order in each process
        made.provider("faker.providers.address").cities.sort()
    return made


def faker_for(language: str, rng: random.Random) -> Faker:
    """Faker in the words of a language, seeded anew."""
    faker = faker_of(LOCALES.get(language, "en_US"))
    faker.seed_instance(rng.getrandbits(64))
    return faker


def draw_value(
    name: str, schema: Any, rng: random.Random, now: dt.datetime, language: str = "English"
) -> Any:
    """A value of `schema`: const, enum, examples, format, the name, the type, the default.

    Raises NoValue for free text that nothing describes: an invented word would be noise.
    """
    return _value(name, schema, _Present(rng, now, language), 0)


def draw_object(
    schema: JsonObject,
    rng: random.Random,
    now: dt.datetime,
    language: str = "English",
    identities: frozenset[str] = frozenset(),
) -> JsonObject:
    """Values for every required property and some optional ones: half of them, of many fewer.

    `identities`: names of texts that are identifiers, where nothing tells more.
    """
    return _object(schema, _Present(rng, now, language, identities), 0)


def _value(name: str, schema: Any, at: _Present, depth: int) -> Any:
    try:
        return _described(name, schema, at, depth)
    except NoValue:
        default = schema.get("default") if isinstance(schema, dict) else None
        if default is None or not _sayable(default) or not fits(schema, default):
            raise
        return default


def _described(name: str, schema: Any, at: _Present, depth: int) -> Any:
    """A value that more than a default speaks for, checked against the schema."""
    schema = {} if schema is True else schema
    if not isinstance(schema, dict) or depth > DEPTH or next(at.drawn) > MOST_DRAWN:
        raise NoValue(name)
    if "const" in schema or first_type(schema) == "boolean":
        # A user asks for what is wanted; «false» is unsaid.
        value = schema.get("const", True)
        if not fits(schema, value):
            raise NoValue(name)
        return value
    for key in ("enum", "examples"):
        listed = as_list(schema.get(key))[:64]
        # The choices or examples that somebody can say and that fit the rest of the schema.
        usable = [v for v in listed if v is not None and _sayable(v) and fits(schema, v)]
        if usable:
            return at.rng.choice(usable)
    for _ in range(TRIES):
        made = _typed(name, schema, at, depth)
        if fits(schema, made):
            return made
    raise NoValue(name)


def _sayable(value: Any) -> bool:
    text = value if isinstance(value, str) else canonical(value)
    return 0 < len(text) <= LONGEST and text.isprintable()


def _typed(name: str, schema: JsonObject, at: _Present, depth: int) -> Any:
    kind = first_type(schema)
    if kind is None and (variants := list(variants_of(schema))):
        for variant in variants[:8]:
            if not is_null(variant):
                with suppress(NoValue):
                    return _value(name, variant, at, depth + 1)
        raise NoValue(name)
    if kind is None and isinstance(schema.get("allOf"), list):
        return _described(name, merged(schema), at, depth + 1)
    if kind == "object" or (kind is None and "properties" in schema):
        for _ in range(TRIES):
            with suppress(NoValue):
                if drawn := _object(schema, at, depth + 1):
                    return drawn
        raise NoValue(name)
    if kind == "array" or (kind is None and "items" in schema):
        low, high = bound(schema, "minItems", 1), bound(schema, "maxItems", MOST_ITEMS)
        low, high = max(1, int(low)), int(min(high, max(low, ITEMS)))
        if not low <= high <= MOST_ITEMS:
            raise NoValue(name)
        wanted = at.rng.randint(low, high)
        found: list[Any] = []
        for _ in range(TRIES + wanted):
            made = _value(name, schema.get("items", {}), at, depth + 1)
            if len(found) < wanted and made not in found:
                found.append(made)
        return found
    if kind in ("integer", "number"):
        return _number(name, schema, at, whole=kind == "integer")
    if kind in ("string", None):
        return _text(name, schema, at)
    raise NoValue(name)


def _object(schema: JsonObject, at: _Present, depth: int) -> JsonObject:
    required = set(as_strings(schema.get("required")))
    properties = as_dict(schema.get("properties"))
    optional = len(properties.keys() - required)
    chance = min(0.5, SPOKEN / optional) if optional else 0.0
    drawn: JsonObject = {}
    for name, part in properties.items():
        if name in required:
            drawn[name] = _value(name, part, at, depth)
        elif at.rng.random() < chance:
            with suppress(NoValue):
                drawn[name] = _described(name, part, at, depth)
    lacking = required - drawn.keys()
    if lacking or not (schema.keys() <= PLAIN_OBJECT or fits(schema, drawn)):
        raise NoValue(", ".join(sorted(lacking)))
    return drawn


def _text(name: str, schema: JsonObject, at: _Present) -> str:
    form = schema.get("format")
    if not isinstance(form, str) or not form:
        kinds = ((DAYS, "date"), (MOMENTS, "date-time"), (CLOCKS, "time"))
        telling = (kind for end in endings(name) for names, kind in kinds if end in names)
        form = next(telling, "")
    if form in ("date", "date-time"):
        day = at.now.date() + dt.timedelta(days=at.rng.randint(1, 60))
        clock = dt.time(at.rng.randint(7, 20), at.rng.choice((0, 15, 30, 45)))
        return day.isoformat() if form == "date" else f"{day.isoformat()}T{clock.isoformat()}Z"
    draw = BY_FORMAT.get(form) or by_name(name)
    if draw is None and name in at.identities:
        draw = BY_NAME["id"]
    if draw is None or form in UNSAYABLE:
        raise NoValue(name)
    return str(draw(faker_for(at.language, at.rng)))


def _number(name: str, schema: JsonObject, at: _Present, *, whole: bool) -> int | float:
    draw = by_name(name, plural=False)
    made = draw(faker_for(at.language, at.rng)) if draw else None
    if isinstance(made, int | float) and fits(schema, int(made) if whole else made):
        return int(made) if whole else made
    low, high = _limits(schema, many=isinstance(made, str))
    step = bound(schema, "multipleOf", 0)
    if step > 0:
        low, high = math.ceil(low / step), math.floor(high / step)
    if whole or step > 0:
        low, high = math.ceil(low), math.floor(high)
        low += low * (step or 1) == schema.get("exclusiveMinimum")
        high -= high * (step or 1) == schema.get("exclusiveMaximum")
        if low > high:
            raise NoValue(name)
        drawn = at.rng.randint(int(low), int(high)) * (step or 1)
        return int(drawn) if whole or drawn == int(drawn) else round(drawn, 9)
    for digits in (1, 2, 4, 9):
        if fits(schema, shown := round(at.rng.uniform(low, high), digits)):
            return shown
    raise NoValue(name)


def _limits(schema: JsonObject, many: bool) -> tuple[float, float]:
    """From where to where. Numbers that stand for an identity are drawn from `many`."""
    low = bound(schema, "minimum", bound(schema, "exclusiveMinimum", math.nan))
    high = bound(schema, "maximum", bound(schema, "exclusiveMaximum", math.nan))
    usual = (1000, 99_999) if many else (1, 50)
    if math.isnan(low):
        low = usual[0] if math.isnan(high) or high >= usual[0] else high - 50
    if math.isnan(high):
        high = max(usual[1], 50 * abs(low))
    return low, high


# --- what names and formats say about values ---------------------------------------------------

LOCALES = dict(table("locales"))

TOPICS: Mapping[str, Sequence[str]] = {locale: said for locale, *said in table("topics")}
"""What people search for and give titles to."""

REMARKS: Mapping[str, Sequence[str]] = {locale: said for locale, *said in table("remarks")}
"""What people write in a note, a message or a description."""


def _phrase(phrases: Mapping[str, Sequence[str]]) -> Draw:
    return lambda f: f.random_element(phrases.get(f.locales[0], phrases["en_US"]))


def _whole(low: int, high: int, step: int = 1) -> Draw:
    return lambda f: f.random_int(low, high, step)


_GROUPS: Mapping[str, Draw] = {
    **{
        names: methodcaller("random_element", words.split())
        for names, words in table("words by name")
    },
    **{names: methodcaller(provider) for names, provider in table("providers by name")},
    **{names: _whole(*map(int, ends)) for names, *ends in table("ranges by name")},
    "phone phone_number mobile telephone": lambda f: f.numerify("+1-555-01##"),
    "state province": lambda f: f.state() if hasattr(f, "state") else f.city(),
    "tracking_number": lambda f: f.bothify("??######").upper(),
    "id identifier ids": lambda f: f.bothify("?#####").upper(),
    "code": lambda f: f.bothify("??-###").upper(),
    "number num": lambda f: f.bothify("??####").upper(),
    "sha commit commit_sha": lambda f: f.sha1()[:10],
    "version": lambda f: f"{f.random_int(1, 9)}.{f.random_int(0, 12)}.{f.random_int(0, 9)}",
    "query q search search_query search_term keyword keywords term": _phrase(TOPICS),
    "title name topic subject heading headline theme phrase": _phrase(TOPICS),
    "description message comment note notes remarks summary body": _phrase(REMARKS),
    "text content reason caption feedback": _phrase(REMARKS),
    "latitude lat": lambda f: round(f.random.uniform(-66, 66), 3),
    "longitude lon lng": lambda f: round(f.random.uniform(-179, 179), 3),
}

BY_NAME: Mapping[str, Draw] = {n: draw for names, draw in _GROUPS.items() for n in names.split()}
"""What a parameter's name says about its values. The longest entry that ends the name counts."""

BY_FORMAT: Mapping[str, Draw] = {
    **{form: methodcaller(provider) for form, provider in table("providers by format")},
    "time": lambda f: f"{f.random_int(7, 21):02}:{f.random_element((0, 15, 30, 45)):02}",
    "int32": lambda f: f.numerify("%#####"),
    "int64": lambda f: f.numerify("%#######"),
    "phone": BY_NAME["phone"],
}

DAYS = ("date", "day", "birthday", "deadline", "checkin", "checkout", "check_in", "check_out")
MOMENTS = ("datetime", "date_time", "timestamp", "created_at", "updated_at", "due_at")
CLOCKS = ("time", "start_time", "end_time")
"""Names of texts that are a day, a moment or a time of day where no format says so."""

UNSAYABLE = frozenset({"password", "byte", "binary", "base64", "regex"})
"""Formats of texts that nobody says in a conversation."""


def endings(name: str) -> list[str]:
    """What ends a name, the longest first, then with its plural taken off."""
    parts = name_words(name)
    whole = ["_".join(parts[i:]) for i in range(len(parts))]
    single = [f"{e[:-3]}y" if e.endswith("ies") else e[:-1] for e in whole if e.endswith("s")]
    return whole + single


def by_name(name: str, *, plural: bool = True) -> Draw | None:
    """How values of this name are drawn, where its words tell.

    `plural`: `cities` are like a city; but a number of `years` is no year.
    """
    found = endings(name) if plural else endings(name)[: len(name_words(name))]
    return next((BY_NAME[e] for e in found if e in BY_NAME), None)
