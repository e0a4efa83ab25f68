"""Which values are one: by name, by form, or because they can hardly be equal by chance."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mined_dataset import TEXT, WHOLE

from toolloom.pipeline.templates.mining.survey import SampleValue
from toolloom.pipeline.templates.mining.variables import (
    ITSELF,
    distinctive,
    form_of,
    is_alike,
    named_alike,
    said_as,
    texts,
)

RARE = ["00445790", "AB-12", "Lisbon", "chicken curry", "2026-05-03", 48.8566, "a@b.example"]
COMMON = [3, 120, "red", "19:30", "Completed", "A1", True, "the", 0.5]


def test_what_can_hardly_be_equal_by_chance_is_distinctive() -> None:
    """Names, codes, days and texts of several words, but no small numbers, states, times, single
    words and choices of a schema."""
    assert [value for value in (*RARE, *COMMON) if distinctive(value)] == RARE
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


@pytest.mark.parametrize(
    ("value", "forms", "others"),
    [
        ("2026-05-03", ["May 3, 2026", "3 May 2026", "3rd of May", "Sunday, May 3"], ["May 4"]),
        ("2026-05-11", ["11th of May 2026"], []),
        ("19:30", ["7:30 pm"], ["7:30 am"]),
        ("19:00", ["7 PM"], []),
        ("09:15:00", ["9:15 a.m."], []),
        ("us_gaap", ["us gaap"], []),
        ("round_trip", ["round-trip"], []),
        ("AccountsPayableCurrent", ["accounts payable current"], []),
        ("NOT_YET_RECRUITING", ["not yet recruiting"], []),
        ("chicken curry", ["Chicken Curry"], ["chickencurry"]),
        (45, ["forty-five"], []),
        (3, ["Three"], ["four"]),
        (12950, ["12,950"], []),
        (77.1, ["77.10"], []),
        (15.0, ["15"], []),
        (1450.5, ["1,450.50"], []),
    ],
)
def test_known_forms(value: Any, forms: list[str], others: list[str]) -> None:
    """Dates, times, words and numbers as people write them; what says something else is none."""
    assert [said for said in (*forms, *others) if form_of(value, said) is not None] == forms


@given(st.one_of(st.text(max_size=40), st.integers(), st.floats(allow_nan=False)))
def test_forms_are_told_by_name(value: Any) -> None:
    """A form's name gives the text that it was told with; the plainest is first, none is twice."""
    found = list(texts(value))
    assert [said_as(value, name) for name, _ in found] == [text for _, text in found]
    assert len({text for _, text in found}) == len(found)
    assert value == "" or not isinstance(value, str) or form_of(value, value) == ITSELF
