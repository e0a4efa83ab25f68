import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.pages.diversity import distinct, diversity, nearest

TEXTS = [["a", "b", "a"], ["a", "b"]]


@pytest.mark.parametrize(("n", "share"), [(1, 2 / 5), (2, 2 / 3), (3, 1.0), (4, 0.0)])
def test_distinct_n_is_the_share_of_different_n_grams(n: int, share: float) -> None:
    """Of 5 words 2 are different, of 3 pairs 2; n-grams do not reach from one text into another."""
    assert distinct(TEXTS, n) == pytest.approx(share)


def test_nearest_is_the_likeness_of_the_most_alike_other_text() -> None:
    """One letter of four differs: of eight letters two must go, so 75; never the text itself."""
    assert nearest(["abcd", "abce", "wxyz"]) == (75, 75, 0)
    assert nearest(["same", "same", "other"])[:2] == (100, 100)
    assert nearest(["alone"]) == nearest([]) == ()


def test_requests_are_compared_without_case_and_punctuation() -> None:
    """As near-duplicates are: what differs in nothing else is the same."""
    found = diversity(["Rain in Zürich?", "rain in zurich"], of=7)
    assert found.nearest == (100, 100)
    assert (found.mean, found.near) == (100, 1.0)
    assert (found.of, found.drawn) == (7, 2)
    assert found.distinct == {1: 0.5, 2: 0.5, 3: 0.5}


def test_scripts_without_spaces_have_a_word_for_each_letter() -> None:
    """Otherwise each sentence would be one word, and all of them distinct."""
    assert diversity(["天気天気", "北京 2 days"]).distinct[1] == pytest.approx(6 / 8)


def test_nothing_is_not_diverse() -> None:
    """No requests, no figures, and no division by zero."""
    found = diversity([])
    assert (found.mean, found.near, found.distinct[1]) == (None, 0.0, 0.0)


@given(st.lists(st.text(max_size=20), max_size=8))
def test_figures_do_not_depend_on_the_order(texts: list[str]) -> None:
    """Whatever the texts hold, the order in which they come decides nothing."""
    one, other = diversity(texts), diversity(texts[::-1])
    assert one.distinct == other.distinct
    assert sorted(one.nearest) == sorted(other.nearest)
