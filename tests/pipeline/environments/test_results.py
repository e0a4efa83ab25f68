"""Observations of results, and errors in plain words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.json_values import SCALARS, json_values

from toolloom.pipeline.checks.schema import fits
from toolloom.pipeline.environments.environment import (
    CUT,
    Result,
    beginning,
    compress,
    failed,
    tokens,
)
from toolloom.pipeline.environments.mcp import portable, read_tool_result
from toolloom.pipeline.formats.json_schema import schema_of
from toolloom.schemas import Failure, JsonObject, Observation, canonical


def read(text: str, structured: Any = None) -> Result:
    return read_tool_result([{"type": "text", "text": text}], structured, False)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("Error: the shelf is empty", True),
        ("Error 404: no such page", True),
        ("requests.exceptions.HTTPError: 500", True),
        ('Traceback (most recent call last):\n  File "x.py", line 1', True),
        ("Error rates fell by 3 %", False),
        ("Errors: 0", False),
        ("Error: " + "a very long report about errors " * 30, False),
    ],
)
def test_words_tell_of_an_error_where_they_begin_as_errors_do(text: str, error: bool) -> None:
    """A short text that begins so says that the call failed; one that speaks of errors does not."""
    assert (read(text).failure is Failure.ERROR_TEXT) is error


def test_an_error_as_an_object_is_an_error() -> None:
    """An object that holds an error and nothing of use failed; one with results did not."""
    error = Observation(error="no such city")
    assert read('{"error": "no such city", "code": 404}') == Result(error, Failure.ERROR_TEXT)
    for text in ('{"error": "one skipped", "cities": ["Bern"]}', '{"error": null, "status": "ok"}'):
        assert read(text) == Result(Observation(response=json.loads(text)))


def test_structured_content_is_never_an_error_in_words() -> None:
    """What follows an output schema is a result, whatever its text says."""
    assert read("Error: 3", {"error": "3"}) == Result(Observation(response={"error": "3"}))


@pytest.mark.parametrize("text", ["42", "true", '"Bern"', "{half", "[1, NaN]", "[" * 100_000])
def test_only_objects_and_lists_are_read_as_json(text: str) -> None:
    """A number or a broken object stays the text that it is."""
    assert read(text).observation.response == text


def test_the_working_folder_is_a_dot() -> None:
    """Results name no temporary folder, in whatever value, key or error it stands; an error has at
    most 2,000 characters."""
    result = Result(Observation(response={"/tmp/w/a": ["in /tmp/w", 1]}))
    assert portable(result, {"/tmp/w": "."}).observation.response == {"./a": ["in .", 1]}
    error = portable(failed(Failure.TOOL_ERROR, "no /tmp/w/x" * 900), {"/tmp/w": "."})
    assert error.observation.error == ("no ./x" * 900)[:2_000]


@given(json_values(SCALARS | st.floats() | st.text(st.characters()), st.text(st.characters())))
def test_every_response_can_be_written(value: Any) -> None:
    """Whatever a server sends is, once portable, JSON in UTF-8."""
    seen = portable(Result(Observation(response=value)), {}).observation.response
    assert json.loads(canonical(seen).encode().decode()) == seen


# -- Shortening


TEXT: JsonObject = {"type": "string"}
LONG = "a sentence that goes on for a while " * 20


def of(required: tuple[str, ...] = (), **fields: JsonObject) -> JsonObject:
    return {"type": "object", "properties": fields, "required": [*required]}


values = json_values(st.none() | st.booleans() | st.integers() | st.text(), size=8, most=30)


@settings(deadline=None)
@given(values, st.none() | st.dictionaries(st.text(max_size=9), values), st.integers(1, 60))
@example({"a": [[[LONG]]]}, {"properties": 3, "required": {"a": 1}, "allOf": [[]]}, 5)
@example("\ud800" * 50, None, 1)  # which JSON writes as several characters
@example('"' * 200, None, 30)
@example([LONG], {"items": [1], "anyOf": {"a": 2}, "minItems": "many"}, 3)
def test_what_is_kept_is_never_too_long(value: Any, schema: JsonObject | None, limit: int) -> None:
    """Whatever the value and the schema, and nothing is raised or changed in place."""
    before = repr(value)
    kept, whole = compress(value, schema, limit)
    assert tokens(kept) <= limit
    assert repr(value) == before
    assert (kept == value and whole is None) or whole == tokens(value) > limit


@settings(deadline=None)
@given(st.lists(values, max_size=9), st.integers(4, 80))
def test_what_is_kept_fits_its_schema(value: Any, limit: int) -> None:
    """Unless it is the beginning of the JSON, as text, because nothing else was short enough."""
    schema = schema_of([value])
    kept, whole = compress(value, schema, limit)
    assert whole is None or isinstance(kept, str) or fits(schema, kept)
    assert compress(value, schema, limit) == (kept, whole)


def test_required_fields_stay() -> None:
    """They are shortened where that is allowed."""
    schema = of(("text", "code"), text=TEXT, code={"enum": ["x" * 90]})
    kept, _ = compress({"text": LONG, "code": "x" * 90}, schema, 60)
    assert set(kept) == {"text", "code"}
    assert kept["code"] == "x" * 90
    assert kept["text"].endswith(CUT)
    assert LONG.startswith(kept["text"][:-1])


def test_lists_keep_their_first_items() -> None:
    """But as many as the schema asks for."""
    kept, _ = compress({"rows": list(range(1000))}, None, 20)
    assert kept == {"rows": list(range(20))}
    schema = of(("rows",), rows={"type": "array", "items": {}, "minItems": 30})
    assert len(compress({"rows": list(range(1000))}, schema, 60)[0]["rows"]) == 50
    assert isinstance(compress({"rows": list(range(1000))}, schema, 20)[0], str)


def test_at_the_very_end_the_beginning_is_kept() -> None:
    """As in the paper: what cannot be shortened by its schema is cut as text."""
    kept, whole = compress([1000000 + n for n in range(5)] * 9, {"minItems": 45}, 10)
    assert whole == 91
    assert isinstance(kept, str)
    assert kept.startswith("[1000000,1000001")
    assert compress("no\n" * 900, None, 10)[0].startswith("no\nno")
    assert beginning("short", 30) == "short"


def test_endless_depth_is_no_trouble() -> None:
    """A response of many levels breaks neither what shortens it nor what reads it later; nor does
    what is no JSON at all."""
    deep: Any = "end"
    for _ in range(100_000):
        deep = [deep]
    seen = portable(Result(Observation(response=deep)), {}).observation
    assert Observation.model_validate_json(seen.model_dump_json()) == seen
    for value in (deep, {"a": {1, 2}, "b": LONG}):
        assert tokens(compress(value, None, 8)[0]) <= 8
