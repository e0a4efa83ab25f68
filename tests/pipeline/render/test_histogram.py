from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.render.histogram import BINS, binned, quantile

NUMBERS = st.dictionaries(st.integers(0, 10**7), st.integers(1, 1000), min_size=1)


def test_few_numbers_have_a_bin_each() -> None:
    """Also those between that nobody has."""
    assert binned({1: 5, 4: 2}) == {"1": 5, "2": 0, "3": 0, "4": 2}


def test_many_numbers_share_round_bins() -> None:
    """From 0 to 99 bins are ten wide, from 0 to 119 twenty: ten would be too many."""
    for count, width in ((100, 10), (120, 20)):
        counts = dict.fromkeys(range(count), 1)
        bins = {f"{n}–{n + width - 1}": width for n in range(0, count, width)}
        assert binned(counts) == bins


def test_what_lies_far_off_is_in_the_last_bin() -> None:
    """One number among a thousand does not squeeze all others into one bin."""
    counts = Counter(dict.fromkeys(range(10), 100)) + Counter({90_000: 1})
    assert binned(counts) == {**{str(n): 100 for n in range(10)}, "10 and more": 1}


@pytest.mark.parametrize(("share", "number"), [(0.0, 1), (0.5, 2), (0.51, 3), (1.0, 9)])
def test_a_quantile_is_a_number_that_is_there(share: float, number: int) -> None:
    """Of 1, 2, 3 and 9 half have at most 2."""
    assert quantile({9: 1, 1: 1, 3: 1, 2: 1}, share) == number


@given(NUMBERS)
def test_nothing_is_lost_in_bins(counts: dict[int, int]) -> None:
    """All are in some bin, and a person can take in the bins."""
    bins = binned(counts)
    assert sum(bins.values()) == sum(counts.values())
    assert len(bins) <= BINS + 2
