from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.agents.ask import BadAnswer
from toolloom.agents.drafts import LEGAL, object_schema, snake
from toolloom.schemas import Reason

FIELD: dict[str, Any] = {"name": "day", "type": "string", "description": "The day"}


def test_empty_parts_of_a_draft_mean_none() -> None:
    """Models fill what they do not need with empty lists; only what must be given is required."""
    empty = {**FIELD, "enum": [], "examples": [], "format": ""}
    schema = object_schema([empty, {**FIELD, "name": "hour", "required": False}], "get")
    assert schema["properties"]["day"] == {"type": "string", "description": "The day"}
    assert schema["required"] == ["day"]


@pytest.mark.parametrize(
    "field",
    [
        {**FIELD, "type": "integer", "examples": ["many"]},
        {**FIELD, "type": "text"},
        {**FIELD, "colour": "red"},
    ],
)
def test_illegal_fields_are_misfits(field: dict[str, Any]) -> None:
    """Values off their type, unknown types and keys make a draft illegal."""
    with pytest.raises(BadAnswer) as caught:
        object_schema([field], "get")
    assert caught.value.reason is Reason.ILLEGAL_SCHEMA


@given(st.text())
def test_snake_makes_legal_names_or_nothing(text: str) -> None:
    """Whatever a model writes, the name is legal or empty."""
    assert snake(text) == "" or LEGAL.fullmatch(snake(text))
