"""Observations of results, and errors in plain words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.apis.execution.results import (
    Result,
    failed,
    portable,
    read_tool_result,
    says_error,
)
from toolloom.schemas import Failure, Observation, canonical

ERRORS = [
    "Error: the shelf is empty",
    "error",
    "Error 404: no such page",
    "Internal error: try again",
    "ValueError: not a number",
    "requests.exceptions.HTTPError: 500",
    'Traceback (most recent call last):\n  File "x.py", line 1',
]
RESULTS = [
    "Error rates fell by 3 %",
    "No errors found",
    "Errors: 0",
    "Tracebacks are read from the bottom",
    "",
    "Error: " + "a very long report about errors " * 30,
]


@pytest.mark.parametrize(
    ("text", "error"), [*((text, True) for text in ERRORS), *((text, False) for text in RESULTS)]
)
def test_words_tell_of_an_error_where_they_begin_as_errors_do(text: str, error: bool) -> None:
    """A short text that begins so says that the call failed; one that speaks of errors does not."""
    assert says_error(text) is error


def read(text: str, structured: Any = None) -> Result:
    return read_tool_result([{"type": "text", "text": text}], structured, False)


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
    assert portable(result, Path("/tmp/w")).observation.response == {"./a": ["in .", 1]}
    error = portable(failed(Failure.TOOL_ERROR, "no /tmp/w/x" * 900), Path("/tmp/w"))
    assert error.observation.error == ("no ./x" * 900)[:2_000]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters()), inner),
)


@given(VALUES)
def test_every_response_can_be_written(value: Any) -> None:
    """Whatever a server sends is, once portable, JSON in UTF-8."""
    seen = portable(Result(Observation(response=value)), None).observation.response
    assert json.loads(canonical(seen).encode().decode()) == seen


def test_bottomless_responses_are_cut() -> None:
    """A response of a thousand levels does not break what reads it later."""
    deep: Any = "bottom"
    for _ in range(1_000):
        deep = [deep]
    seen = portable(Result(Observation(response=deep)), None).observation
    assert Observation.model_validate_json(seen.model_dump_json()) == seen
