from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.agents.wording import twin


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("bike rental", "rental of bikes", True),
        ("getTideLevel", "get_tide_levels", True),
        ("booking of hotels", "hotel bookings service", True),
        ("bike rental", "car rental", False),
        ("tides", "winds", False),
    ],
)
def test_the_same_words_are_twins(name: str, other: str, same: bool) -> None:
    """Order, number, case and empty words make no difference; one word of two is another thing."""
    assert twin(name, ["tide tables", other]) == (other if same else None)


@given(st.text(alphabet="abcdefgh ", min_size=1).filter(lambda t: bool(t.strip())))
def test_everything_is_its_own_twin(name: str) -> None:
    """A name is found among names that hold it."""
    assert twin(name, [name]) == name
