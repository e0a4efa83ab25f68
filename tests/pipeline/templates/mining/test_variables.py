"""Which values are one: by name, by form, or because they can hardly be equal by chance."""

from __future__ import annotations

from typing import Any

import pytest
from support.mined_dataset import TEXT, WHOLE

from toolloom.pipeline.templates.mining.survey import SampleValue
from toolloom.pipeline.templates.mining.variables import distinctive, is_alike, named_alike


@pytest.mark.parametrize(
    "value", ["00445790", "AB-12", "Lisbon", "chicken curry", "2026-05-03", 48.8566, "a@b.example"]
)
def test_distinctive_values(value: Any) -> None:
    """Names, codes, days and texts of several words are not equal by chance."""
    assert distinctive(value)


@pytest.mark.parametrize("value", [3, 120, "red", "19:30", "Completed", "A1", True, "the", 0.5])
def test_common_values(value: Any) -> None:
    """Small numbers, states, times and single words are."""
    assert not distinctive(value)


def test_choice_of_a_schema_is_common() -> None:
    """One of a few values is often there twice."""
    assert not distinctive("Lisbon", {"enum": ["Lisbon", "Porto"]})


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("type 2 diabetes", "Type 2 Diabetes", True),
        ("NOT_YET", "not yet", True),
        ("2026-05-03", "May 3, 2026", True),
        (5, "5", True),
        (5, 5.0, True),
        ("red", "Red Lion", False),
        (5, 6, False),
    ],
)
def test_alike_but_for_the_form(one: Any, other: Any, alike: bool) -> None:
    """Case, what joins words and how a day is written make no other value."""
    assert is_alike(one, other) is is_alike(other, one) is alike


def leaf(name: str, value: Any, about: str = "") -> SampleValue:
    schema = {**(WHOLE if isinstance(value, int) else TEXT), "description": about}
    return SampleValue("response", (), "a/b/c", (name,), value, schema, 3)


def test_names_that_speak_of_the_same() -> None:
    """By a word of the name; of texts also by the description; never by `id` alone."""
    assert named_alike(leaf("overall_status", "x"), leaf("filter_overall_status", "x"))
    assert named_alike(leaf("first_name", "x"), leaf("search", "x", "part of the first name"))
    assert not named_alike(leaf("first_figure", 3), leaf("search", 3, "first figure"))
    assert not named_alike(leaf("team_id", 3), leaf("player_id", 3))
