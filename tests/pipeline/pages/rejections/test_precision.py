from fractions import Fraction
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolloom.pipeline.pages.rejections.judgements import Judgement, Marks
from toolloom.pipeline.pages.rejections.precision import API_BANK, Z, precision, wilson
from toolloom.pipeline.pages.rejections.table import Row


def row(key: str, reason: str = "r", agent: str = "tester") -> Row:
    fields = dict.fromkeys(("version", "id", "stage", "model", "check"), "x")
    return Row(key=key, reason=reason, agent=agent, split="train", place=0, **fields)


def marks(**agrees: bool) -> Marks:
    """By record, one curator's mark."""
    fields = dict.fromkeys(("id", "stage", "agent", "reason", "version"), "x")
    made = {
        key: {
            "anna": Judgement(
                key=key, agrees=told, curator="anna", time="2026-03-02T09:30:00Z", **fields
            )
        }
        for key, told in agrees.items()
    }
    return Marks(made)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 10, 0.0, 0.2775), (3, 3, 0.4385, 1.0), (78, 100, 0.6893, 0.8500), (0, 0, 0.0, 1.0)],
)
def test_the_interval_is_wilsons(hits: int, of: int, low: float, high: float) -> None:
    """Known values of the score interval at 95 %."""
    assert wilson(hits, of) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 2_000), st.data())
def test_an_end_is_where_the_score_test_turns(of: int, data: st.DataObject) -> None:
    """Each end is a share from which what was seen is Z standard errors away, and between them
    is the share."""
    hits = data.draw(st.integers(0, of))
    low, high = wilson(hits, of)
    share = float(Fraction(hits, of))
    assert 0 <= low <= share <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            assert abs(share - end) == pytest.approx(Z * sqrt(end * (1 - end) / of), rel=1e-6)


def test_precision_is_told_by_reason() -> None:
    """Of each reason's judged records the share that is right; others are only counted."""
    rows = [row("a"), row("b"), row("c"), row("d", "s"), row("e", "s")]
    found = precision(rows, marks(a=True, b=True, c=False), "reason")
    assert [(p.group, p.rejected, p.judged, p.agreed) for p in found] == [
        ("r", 3, 3, 2),
        ("s", 2, 0, 0),
    ]
    assert found[1].share is None
    assert found[0].interval[0] < API_BANK < found[0].interval[1]


def test_equal_records_are_judged_once() -> None:
    """Two rows of one content are one judgement, though both are counted as rejected."""
    (found,) = precision([row("a"), row("a")], marks(a=True))
    assert (found.rejected, found.judged, found.agreed) == (2, 1, 1)


def test_nothing_rejected_has_no_precision() -> None:
    """Without rows there is no group."""
    assert precision([], Marks(), "reason") == precision([], Marks()) == []
