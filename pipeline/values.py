"""Argument values, drawn before any words are written (DESIGN, «answer first»)."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias

from faker import Faker

from toolloom.schemas import JsonObject

Draw: TypeAlias = Callable[[Faker], Any]

LOCALES = {
    "English": "en_US",
    "German": "de_DE",
    "French": "fr_FR",
    "Spanish": "es_ES",
    "Italian": "it_IT",
    "Portuguese": "pt_BR",
    "Dutch": "nl_NL",
}

# What a parameter's name says about its values. The first entry that ends the name wins.
BY_NAME: Mapping[str, Draw] = {
    "email": lambda f: f.email(),
    "phone": lambda f: f.numerify("+1-555-01##"),
    "phone_number": lambda f: f.numerify("+1-555-01##"),
    "first_name": lambda f: f.first_name(),
    "last_name": lambda f: f.last_name(),
    "username": lambda f: f.user_name(),
    "full_name": lambda f: f.name(),
    "person": lambda f: f.name(),
    "recipient": lambda f: f.name(),
    "patient": lambda f: f.name(),
    "customer": lambda f: f.name(),
    "author": lambda f: f.name(),
    "artist": lambda f: f.name(),
    "city": lambda f: f.city(),
    "location": lambda f: f.city(),
    "place": lambda f: f.city(),
    "origin": lambda f: f.city(),
    "destination": lambda f: f.city(),
    "country": lambda f: f.country(),
    "country_code": lambda f: f.country_code(),
    "state": lambda f: f.state() if hasattr(f, "state") else f.city(),
    "address": lambda f: f.street_address(),
    "street": lambda f: f.street_name(),
    "postcode": lambda f: f.postcode(),
    "postal_code": lambda f: f.postcode(),
    "zip": lambda f: f.postcode(),
    "zip_code": lambda f: f.postcode(),
    "company": lambda f: f.company(),
    "employer": lambda f: f.company(),
    "job_title": lambda f: f.job(),
    "currency": lambda f: f.currency_code(),
    "language": lambda f: f.language_name(),
    "color": lambda f: f.color_name(),
    "colour": lambda f: f.color_name(),
    "domain": lambda f: f.domain_name(),
    "hostname": lambda f: f.domain_name(),
    "url": lambda f: f.url(),
    "ip": lambda f: f.ipv4_public(),
    "ip_address": lambda f: f.ipv4_public(),
    "isbn": lambda f: f.isbn13(),
    "iban": lambda f: f.iban(),
    "vin": lambda f: f.vin(),
    "license_plate": lambda f: f.license_plate(),
    "tracking_number": lambda f: f.bothify("??######").upper(),
    "id": lambda f: f.bothify("?#####").upper(),
    "code": lambda f: f.bothify("??-###").upper(),
    "number": lambda f: f.bothify("??####").upper(),
    "year": lambda f: f.random_int(1990, 2030),
    "age": lambda f: f.random_int(18, 80),
    "latitude": lambda f: round(f.random.uniform(-66, 66), 3),
    "longitude": lambda f: round(f.random.uniform(-179, 179), 3),
}

BY_FORMAT: Mapping[str, Draw] = {
    "email": lambda f: f.email(),
    "uri": lambda f: f.url(),
    "url": lambda f: f.url(),
    "uuid": lambda f: str(f.uuid4()),
    "ipv4": lambda f: f.ipv4_public(),
    "ipv6": lambda f: f.ipv6(),
    "hostname": lambda f: f.domain_name(),
    "time": lambda f: f"{f.random_int(7, 21):02}:{f.random_element((0, 15, 30, 45)):02}",
}


class NoValue(Exception):
    """Nothing says what a value of this parameter looks like."""


@cache
def _faker(locale: str) -> Faker:
    return Faker(locale)


def draw_value(
    name: str, schema: JsonObject, rng: random.Random, now: dt.datetime, language: str = "English"
) -> Any:
    """A value of `schema`: const, enum, examples, format, the name, the type, in this order.

    Raises NoValue for free text that nothing describes: an invented word would be noise.
    """
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "boolean":
        return True  # a user asks for what is wanted; «false» is what stays unsaid
    for key in ("enum", "examples"):
        if schema.get(key):
            return rng.choice(schema[key])
    faker = _faker(LOCALES.get(language, "en_US"))
    faker.seed_instance(rng.getrandbits(64))
    if kind == "array":
        items = schema.get("items", {})
        drawn = [draw_value(name, items, rng, now, language) for _ in range(rng.randint(1, 3))]
        return [v for i, v in enumerate(drawn) if v not in drawn[:i]]
    if kind == "object":
        return draw_object(schema, rng, now, language)
    if kind in ("integer", "number"):
        return _number(name, schema, rng, faker, whole=kind == "integer")
    return _text(name, schema, rng, faker, now)


def draw_object(
    schema: JsonObject, rng: random.Random, now: dt.datetime, language: str = "English"
) -> JsonObject:
    """Values for every required property and about half of the optional ones."""
    drawn: JsonObject = {}
    required = schema.get("required", ())
    for name, part in schema.get("properties", {}).items():
        if name not in required and rng.random() < 0.5:
            continue
        try:
            drawn[name] = draw_value(name, part, rng, now, language)
        except NoValue:
            if name in required:
                raise
    return drawn


def _text(name: str, schema: JsonObject, rng: random.Random, faker: Faker, now: dt.datetime) -> str:
    form = schema.get("format", "")
    if form in ("date", "date-time"):
        day = now.date() + dt.timedelta(days=rng.randint(1, 60))
        clock = dt.time(rng.randint(7, 20), rng.choice((0, 15, 30, 45)))
        return day.isoformat() if form == "date" else f"{day.isoformat()}T{clock.isoformat()}Z"
    if form in BY_FORMAT:
        return str(BY_FORMAT[form](faker))
    made = _by_name(name, faker)
    if made is None or schema.get("pattern"):
        raise NoValue(name)
    return str(made)


def _number(
    name: str, schema: JsonObject, rng: random.Random, faker: Faker, *, whole: bool
) -> int | float:
    made = _by_name(name, faker)
    low, high = schema.get("minimum"), schema.get("maximum")
    if isinstance(made, int | float) and low is None and high is None:
        return int(made) if whole else made
    low = 1 if low is None else low
    high = max(low, 50 * max(1, abs(low))) if high is None else high
    return rng.randint(int(low), int(high)) if whole else round(rng.uniform(low, high), 1)


def _by_name(name: str, faker: Faker) -> Any:
    lowered = name.lower()
    for ending, draw in BY_NAME.items():
        if lowered == ending or lowered.endswith(f"_{ending}"):
            return draw(faker)
    return None
