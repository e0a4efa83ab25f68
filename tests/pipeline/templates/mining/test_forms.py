"""Forms of values: how they are said, and that each form is found again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.templates.mining.variables import ITSELF, form_of, said_as, texts


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2026-05-03", "May 3, 2026"),
        ("2026-05-03", "3 May 2026"),
        ("2026-05-03", "3rd of May"),
        ("2026-05-03", "Sunday, May 3"),
        ("2026-05-11", "11th of May, 2026".replace(",", "")),
        ("19:30", "7:30 pm"),
        ("19:00", "7 PM"),
        ("09:15:00", "9:15 a.m."),
        ("us_gaap", "us gaap"),
        ("round_trip", "round-trip"),
        ("AccountsPayableCurrent", "accounts payable current"),
        ("NOT_YET_RECRUITING", "not yet recruiting"),
        ("chicken curry", "Chicken Curry"),
        (45, "forty-five"),
        (3, "Three"),
        (12950, "12,950"),
        (77.1, "77.10"),
        (15.0, "15"),
        (1450.5, "1,450.50"),
    ],
)
def test_known_forms(value: Any, said: str) -> None:
    """Dates, times, words and numbers as people write them."""
    assert form_of(value, said) is not None


@pytest.mark.parametrize(
    ("value", "said"), [("2026-05-03", "May 4"), ("19:30", "7:30 am"), (3, "four"), ("a b", "ab")]
)
def test_other_values_are_no_form(value: Any, said: str) -> None:
    """What says something else is no form of a value."""
    assert form_of(value, said) is None


def test_plainest_form_comes_first() -> None:
    """Of forms with the same text the first is told, and none twice."""
    found = list(texts("Boston"))
    assert found[0] == (ITSELF, "Boston")
    assert len({text for _, text in found}) == len(found)


@given(st.text(max_size=40))
def test_any_text_is_its_own_form(value: str) -> None:
    """Every text that is not empty has at least the form that it has."""
    assert not value or form_of(value, value) == ITSELF


@given(st.one_of(st.text(max_size=30), st.integers(), st.floats(allow_nan=False)))
def test_forms_are_told_by_name(value: Any) -> None:
    """A form's name gives the text that it was told with."""
    assert all(said_as(value, name) == text for name, text in texts(value))
