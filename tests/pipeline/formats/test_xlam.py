"""Rows of xlam-function-calling-60k as dialogues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import foreign_rows
from support.foreign_rows import XLAM, changed


def parameters(folder: Path, **types: Any) -> Any:
    """The schema of a function whose flat parameters have these types."""
    flat = {name: {"type": kind, "description": ""} for name, kind in types.items()}
    tools = [{"name": "f", "description": "", "parameters": flat}]
    answers = [{"name": "f", "arguments": {}}]
    found = foreign_rows.reading(folder, "xlam", {"query": "x", "tools": tools, "answers": answers})
    assert found.dialogue
    return found.dialogue.query.pool[0].parameters


@pytest.mark.parametrize(
    ("written", "schema"),
    [
        ("str", {"type": "string"}),
        ("List[int]", {"type": "array", "items": {"type": "integer"}}),
        ("Union[int, float]", {"type": "number"}),
        ("int or str", {"type": ["integer", "string"]}),
        ("set", {"type": "array", "uniqueItems": True}),
        ("any", {}),
    ],
)
def test_types_of_python_are_schemas(tmp_path: Path, written: str, schema: Any) -> None:
    """The types of xLAM's tools are Python's, as its data shows."""
    assert parameters(tmp_path, a=written)["properties"]["a"] == schema


def test_optional_parameters_and_those_with_a_default_may_be_left_out(tmp_path: Path) -> None:
    """`str, optional` and a default both say that a value need not be given."""
    found = parameters(tmp_path, a="str", b="str, optional", c="List[int], optional")
    assert found["required"] == ["a"]
    found = foreign_rows.reading(tmp_path, "xlam", XLAM)
    assert found.dialogue and found.dialogue.query.pool[0].required == ()


def test_digits_in_a_text_are_no_integer(tmp_path: Path) -> None:
    """A value of the wrong type is found, however near it comes."""
    answers = [{"name": "get_weather", "arguments": {"city": "Bern", "days": "3"}}]
    found = foreign_rows.reading(tmp_path, "xlam", changed(XLAM, answers=answers))
    assert foreign_rows.reasons(found) == ["invalid_input_parameters"]


def test_no_answers_are_a_row_where_no_call_is_right(tmp_path: Path) -> None:
    """An empty list is an irrelevant request, and no fault; the row is called what it says."""
    found = foreign_rows.reading(tmp_path, "xlam", changed(XLAM, answers="[]"))
    assert found.dialogue and found.dialogue.query.scenario == "irrelevance"
    assert found.dialogue.id == "7"
    assert foreign_rows.calls(found) == [] and foreign_rows.findings(found) == []


@pytest.mark.parametrize("answers", ["get_weather()", '["get_weather"]', '[{"name": 1}]', "{}", 3])
def test_answers_that_are_no_calls_are_a_fault(tmp_path: Path, answers: object) -> None:
    """The row is kept, and says what is wrong with it."""
    found = foreign_rows.reading(tmp_path, "xlam", changed(XLAM, answers=answers))
    assert foreign_rows.reasons(found) == ["false_api_call_format"]


def test_tools_with_a_json_schema_are_taken_as_they_are(tmp_path: Path) -> None:
    """Later data of the same form has schemas in place of flat parameters."""
    tools = [foreign_rows.FUNCTION]
    found = foreign_rows.reading(tmp_path, "xlam", changed(XLAM, tools=tools))
    assert found.dialogue and found.dialogue.query.pool[0].parameters == foreign_rows.SCHEMA


@pytest.mark.parametrize("missing", ["query", "answers"])
def test_a_row_without_query_or_answers_is_refused(tmp_path: Path, missing: str) -> None:
    """The reason names the column."""
    row = {key: value for key, value in XLAM.items() if key != missing}
    found = foreign_rows.reading(tmp_path, "xlam", row)
    assert found.dialogue is None and missing in found.faults[0].detail
