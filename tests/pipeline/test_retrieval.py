from __future__ import annotations

import toys
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.retrieval import FOUND, Index, search, words

POOL = [
    toys.api(),
    toys.api("boats", "rent").model_copy(update={"description": "Rent a sailing boat."}),
    toys.api("boats", "sell").model_copy(update={"description": "Sell a motor boat."}),
    toys.api("boats", "repair").model_copy(update={"description": "Repair a boat's sail."}),
]


def test_words_are_stems_of_parted_names() -> None:
    """Names in any writing fall apart into the same stems."""
    assert words("getBoatRentals") == words("get_boat_rental") == ["get", "boat", "rental"]


def test_the_best_fit_comes_first() -> None:
    """Documentation is what is found, at most two, best first."""
    found = search(POOL, "rent a boat for sailing")
    assert found[0] == POOL[1].document()
    assert len(found) == FOUND


def test_nothing_fits_gives_nothing() -> None:
    """Documents that share no word with the search are not found; an empty pool is none."""
    assert search(POOL, "quantum chess") == []
    assert search(POOL, "") == []
    assert search([], "boat") == []


def test_ties_keep_the_pools_order() -> None:
    """Equal texts are found in the order they stand in."""
    assert Index(["red boat", "red boat", "sky"]).top("boat", 3) == [0, 1]


@given(st.text(max_size=60))
def test_any_keywords_can_be_searched_for(keywords: str) -> None:
    """Whatever a model searches for, it gets documents or none."""
    assert all(d in [a.document() for a in POOL] for d in search(POOL, keywords))
