from __future__ import annotations

import datetime as dt
import random
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values

from toolloom.pipeline.checks.schema import fits
from toolloom.pipeline.sampling.values import NoValue, draw_object, draw_value

NOW = dt.datetime(2026, 3, 2, 9, 30)


def drawn(name: str, schema: dict[str, Any], seed: int = 0, language: str = "English") -> Any:
    return draw_value(name, schema, random.Random(seed), NOW, language)


@pytest.mark.parametrize(
    "schema",
    [
        {"const": 3},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "date-time"},
        {"type": "string", "format": "email"},
        {"type": "string", "format": "uuid"},
        {"type": ["null", "integer"]},
        {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
        {"type": "integer", "minimum": 7, "multipleOf": 5},
        {"type": "number", "multipleOf": 0.25, "maximum": 2},
        {"type": "number", "minimum": 0.001, "maximum": 0.002},
        {"enum": [None, "a"]},
        {"type": "string", "enum": ["a", 3, None]},
        {"type": "string", "examples": [3, "", "x" * 900, "a\u0007", "fine"]},
        {"type": "string", "format": "int64"},
        {"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]},
        {"oneOf": [{"type": "string", "format": "date"}, {"type": "integer"}]},
        {"allOf": [{"type": "integer", "minimum": 5}, {"maximum": 6}]},
        {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 5},
        {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "minItems": 4, "uniqueItems": True},
        {"properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"type": "object", "properties": {"a": {"default": 1}, "city": {}}, "minProperties": 1},
    ],
)
def test_values_fit_their_schema(schema: dict[str, Any]) -> None:
    """Enums, examples, formats, bounds, lists and objects are kept to."""
    for seed in range(20):
        jsonschema.validate(drawn("x", schema, seed), schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 0},
        {"type": "string", "format": "password"},
        {"type": "boolean", "enum": [False]},
        {"type": "integer", "minimum": 6, "maximum": 9, "multipleOf": 5},
        {"type": "array", "items": {"type": "integer"}, "minItems": 10**9},
        {"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": True},
        {"type": "array", "items": False},
        {"type": "object"},
        # Without enum, example, format or a telling name: noise helps nobody.
        {"type": "object", "properties": {"blob": {"type": "string"}}, "required": ["blob"]},
        {"type": "string", "pattern": "^[A-Z]{3}$"},
        {"anyOf": [{"type": "null"}]},
        {"const": 3, "type": "string"},
        {"type": "null"},
        {"$ref": "#/nowhere"},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"not": {}},
        {"type": "integer", "maximum": "many", "format": [], "enum": 3, "not": {}},
        False,
        "hostile",
        None,
    ],
)
def test_what_cannot_be_satisfied_has_no_value(schema: Any) -> None:
    """Whatever the schema holds; nothing else is raised, and it takes no time."""
    with pytest.raises(NoValue):
        drawn("city" if isinstance(schema, dict) else "x", schema)


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("phoneNumber", r"\+1-555-01\d\d"),
        ("HTTPUrl", "https?://.*"),
        ("X-Customer.ID", r"[A-Z]\d{5}"),
        ("account_ids", r"[A-Z]\d{5}"),
        ("startDate", r"\d{4}-\d\d-\d\d"),
        ("departureTime", r"\d\d:\d\d"),
        ("target_timezone", r"[A-Z]\w+/\w+"),
        ("searchQuery", r"[a-z]+ [a-z]+"),
    ],
)
def test_names_are_read_however_they_join_their_words(name: str, like: str) -> None:
    """The longest ending that is known counts, in the singular too."""
    assert re.fullmatch(like, drawn(name, {"type": "string"}))


def test_a_default_is_for_what_must_be_there() -> None:
    """Where nothing else tells; an option that stays as it is needs no words."""
    part = {"type": "string", "default": "xml"}
    schema = {"type": "object", "properties": {"blob": part}, "required": ["blob"]}
    assert draw_object(schema, random.Random(0), NOW) == {"blob": "xml"}
    for seed in range(20):
        assert draw_object({**schema, "required": []}, random.Random(seed), NOW) == {}


def test_many_options_are_not_all_asked_for() -> None:
    """Real APIs have dozens; nobody names half of them in one request."""
    schema = {"type": "object", "properties": {f"city_{n}_city": {} for n in range(60)}}
    sizes = [len(draw_object(schema, random.Random(seed), NOW)) for seed in range(50)]
    assert 1 < sum(sizes) / 50 < 3


@pytest.mark.timeout(60)
def test_tries_in_tries_do_not_multiply() -> None:
    """A schema that refuses everything, at each of its levels, is soon given up."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(4):
        items = {"type": "array", "items": schema, "minItems": 9, "not": {}}
        schema = {"properties": {"city": items, "town": items}, "required": ["city"], "not": {}}
    with pytest.raises(NoValue):
        drawn("x", schema)


KEYS = (
    "type", "properties", "required", "items", "anyOf", "allOf", "enum", "const", "examples",
    "default", "format", "minimum", "multipleOf", "minItems", "pattern", "minLength", "city", "x",
)  # fmt: skip
jsons = json_values(
    SCALARS | st.floats() | st.sampled_from(["string", "a", "("]), st.sampled_from(KEYS), 5, 25
)


@settings(deadline=None)
@given(jsons, st.integers(0, 99))
def test_hostile_schemas_draw_what_fits_or_nothing(schema: Any, seed: int) -> None:
    """A value that its schema refuses never gets out, and nothing but NoValue is raised."""
    try:
        value = drawn("city", schema, seed)
    except NoValue:
        return
    assert fits(schema, value)


def test_values_suit_the_dialogue() -> None:
    """Days are to come, counted from its own present, and cities of a German one are German."""
    for seed in range(20):
        assert drawn("day", {"type": "string", "format": "date"}, seed) > "2026-03-02"
    schema = {"type": "string"}
    assert drawn("city", schema, 1, "German") != drawn("city", schema, 1, "English")
