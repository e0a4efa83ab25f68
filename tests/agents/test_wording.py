from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.agents.wording import twin


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("bike rental", "rental of bikes"),
        ("getTideLevel", "get_tide_levels"),
        ("booking of hotels", "hotel bookings service"),
    ],
)
def test_the_same_words_are_twins(name: str, other: str) -> None:
    """Order, number, case and words that say nothing make no difference."""
    assert twin(name, ["tide tables", other]) == other


@pytest.mark.parametrize(("name", "other"), [("bike rental", "car rental"), ("tides", "winds")])
def test_other_words_are_no_twins(name: str, other: str) -> None:
    """One differing word of two is another thing."""
    assert twin(name, [other]) is None


@given(st.text(alphabet="abcdefgh ", min_size=1).filter(lambda t: bool(t.strip())))
def test_everything_is_its_own_twin(name: str) -> None:
    """A name is found among names that hold it."""
    assert twin(name, [name]) == name
