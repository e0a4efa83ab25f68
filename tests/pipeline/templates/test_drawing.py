from __future__ import annotations

import random
from collections import Counter
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from support.expanded_dataset import PLAIN, SINGLE, template

from toolloom.pipeline.curation.parts import instruction
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates.drawing import (
    RowDraw,
    RowOrder,
    RowSplits,
    combination,
    even,
    mark,
)
from toolloom.schemas import Split, SplitPlan
from toolloom.schemas.splits import signature, split_of

SEEN = SplitPlan(test_tool=0, test_category=0)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 2**32), st.data())
def test_an_order_holds_every_row_once(sizes: list[int], seed: int, data: st.DataObject) -> None:
    """However it is cut into draws; the same seed gives the same order."""
    order, again = (RowOrder(sizes, random.Random(seed)) for _ in range(2))
    cut = data.draw(st.integers(0, order.count))
    rows = [tuple(row) for at in (0, cut) for row in order.rows(at, cut or 10**6).tolist()][
        : order.count if cut * 2 < order.count else None
    ]
    whole = [tuple(row) for row in again.rows(0, 10**6).tolist()]
    assert sorted(whole) == sorted(product(*map(range, sizes)))
    assert rows[:cut] == whole[:cut]


def test_orders_of_more_rows_than_anyone_counts() -> None:
    """They are drawn from too, evenly."""
    order = RowOrder([1000] * 30, random.Random(3))
    rows = order.rows(0, 5_000)
    assert order.count == 1000**30
    assert len({tuple(row) for row in rows.tolist()}) == 5_000
    assert all(450 < column.mean() < 550 for column in rows.T)


def test_draws_know_what_rows_call_and_say() -> None:
    """Their splits and marks are those of the samples, and a mined template's own is not drawn.

    The same words and calls come up to four times, with other observations.
    """
    mould = TemplateRenderer(template(SINGLE, **PLAIN))
    places = RowSplits(mould, SEEN)
    drawn = list(RowDraw(mould, places, Split, random.Random(1)).rows(0, 10**6))
    times, rest = divmod(len(drawn), mould.distinct - 1)
    assert (times, rest) == (4, 0)
    assert len({each.mark for each in drawn}) == mould.distinct - 1
    for each in drawn[:40]:
        sample = mould.sample(each.row, "row", 0).model_dump(mode="json")
        query = sample["dialogue"]["query"]
        assert each.split is split_of(SEEN, query)
        assert each.mark == mark(signature(query["intent"]), instruction(sample))
    assert {each.split for each in drawn} == {Split.TRAIN, Split.VALIDATION, Split.TEST_INSTRUCTION}
    train = list(RowDraw(mould, places, [Split.TRAIN], random.Random(1)).rows(0, 10**6))
    assert train == [each for each in drawn if each.split is Split.TRAIN]


def test_rows_of_a_written_template_include_its_first() -> None:
    """It is no sample that is there already."""
    mould = TemplateRenderer(template(SINGLE, **PLAIN, kind="written"))
    drawn = RowDraw(mould, RowSplits(mould, SEEN), Split, random.Random(1)).rows(0, 10**6)
    assert any(not any(each.row[choice] for choice in mould.told) for each in drawn)


def test_a_template_has_rows_in_the_splits_of_its_apis() -> None:
    """Those whose calls go to unseen APIs are all in one."""
    mould = TemplateRenderer(template(SINGLE, **PLAIN))
    seen = {"seen": ("travel",)}
    for plan, fixed, fits in (
        (SplitPlan(**seen), None, [Split.TRAIN, Split.VALIDATION, Split.TEST_INSTRUCTION]),
        (SplitPlan(**seen, validation=0), None, [Split.TRAIN, Split.TEST_INSTRUCTION]),
        (SplitPlan(**seen, validation=0, test_instruction=0), Split.TRAIN, [Split.TRAIN]),
        (SplitPlan(unseen=("travel",)), Split.TEST_CATEGORY, [Split.TEST_CATEGORY]),
        (SplitPlan(unseen=("travel/desk",)), Split.TEST_TOOL, [Split.TEST_TOOL]),
    ):
        places = RowSplits(mould, plan)
        assert (places.fixed, places.among(Split, mould.query)) == (fixed, fits)


@given(st.integers(0, 500), st.lists(st.integers(0, 100), max_size=8))
def test_shares_are_even(wanted: int, most: list[int]) -> None:
    """As many as are wanted and there are; a template has fewer than others only if it is at its
    end."""
    found = even(wanted, most)
    assert sum(found) == min(wanted, sum(most))
    assert all(share <= there for share, there in zip(found, most, strict=True))
    short = [f for f, m in zip(found, most, strict=True) if f < m]
    assert not short or max(found) - min(short) <= 1


def test_a_combination_is_a_multiset() -> None:
    """Whatever the order of the calls; what is never called combines nothing."""
    calls = [{"api": "b"}, {"api": "a"}, {"api": "b"}]
    assert combination({"scenario": "parallel", "intent": calls}) == ("a", "b", "b")
    assert combination({"scenario": "irrelevance", "intent": calls}) == ()
    assert Counter(combination({"intent": calls}))["b"] == 2
