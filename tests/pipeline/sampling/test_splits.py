from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import toys

from toolloom.pipeline.sampling.draw import draw_needs
from toolloom.schemas import (
    Api,
    JsonObject,
    Need,
    Recipe,
    Scenario,
    Split,
    SplitPlan,
    ToolloomError,
)
from toolloom.schemas.splits import signature as signature_of
from toolloom.schemas.splits import split_of_need, stray, zone

TEXT: JsonObject = {"type": "string"}
SEATS: JsonObject = {"type": "integer", "minimum": 2, "maximum": 900}


def of(**fields: JsonObject) -> JsonObject:
    return {"type": "object", "properties": fields, "required": [*fields]}


def tool(category: str, name: str) -> list[Api]:
    """An API that finds an offer and one that books it."""
    one, two = (
        toys.api(category, verb).model_copy(
            update={"tool": name, "function": f"{category}_{name}_{verb}", "collections": ("all",)}
        )
        for verb in ("find", "book")
    )
    found = {"parameters": of(city=TEXT, seats=SEATS), "returns": of(offer_id=TEXT)}
    booked = {"parameters": of(offer_id=TEXT, seats=SEATS), "returns": of(name=TEXT)}
    return [one.model_copy(update=found), two.model_copy(update=booked)]


def pool(categories: int, tools: int = 3) -> list[Api]:
    return [
        api
        for category in range(categories)
        for number in range(tools)
        for api in tool(f"c{category}", f"t{number}")
    ]


def recipe(count: int = 120, seed: int = 0, **changes: Any) -> Recipe:
    fields = {"queries": {"count": count, "distractors": 3}, "seed": seed, "splits": {}}
    return toys.recipe(**{**fields, **changes})


def draw(apis: list[Api], **changes: Any) -> list[Need]:
    return list(draw_needs(recipe(**changes), apis))


def wanted(need: Need) -> Split:
    """The split a need was drawn for, which its id names."""
    return Split(need.id.rsplit("-", 2)[0])


plans = st.fixed_dictionaries(
    {
        "validation": st.sampled_from([0, 0.1, 1]),
        "test_instruction": st.sampled_from([0, 0.1, 1]),
        "test_tool": st.sampled_from([0, 0.3, 1]),
        "test_category": st.sampled_from([0, 0.2, 1]),
        "seen": st.sampled_from([["c0"], ["c0", "c1/t0"]]),
        "unseen": st.sampled_from([[], ["c1"], ["c0/t1", "c2"]]),
    }
)


# So few examples, as the least of pools may have too few calls for a split to find 40.
@settings(max_examples=12)
@given(plans, st.integers(2, 8), st.integers(0, 9))
def test_every_need_is_in_the_split_it_was_drawn_for(
    plan: JsonObject, categories: int, seed: int
) -> None:
    """By its calls alone; and it shows no API that the split must not show."""
    needs = draw(pool(categories), splits=plan, seed=seed, count=40)
    assert len(needs) == 40
    assert len({need.id for need in needs}) == 40
    for need in needs:
        assert split_of_need(SplitPlan(**plan), need) is wanted(need)
        dumped = need.model_dump(mode="json")
        assert stray(SplitPlan(**plan), dumped, wanted(need)) is None
        zones = {zone(SplitPlan(**plan), api.category, api.tool) for api in need.needed}
        assert len(zones) == 1


def test_splits_have_their_shares() -> None:
    """To the one, and each has all scenarios in their proportions."""
    needs = draw(pool(20), count=420, splits={"unseen": ["c1", "c3"]})
    assert Counter(map(wanted, needs)) == dict(zip(Split, (252, 42, 42, 42, 42), strict=True))
    for split in Split:
        found = Counter(n.scenario for n in needs if wanted(n) is split)
        assert set(found) == {s for s in Scenario if not s.of_worlds}
    calls = Counter(n.scenario for n in needs if wanted(n) is Split.TRAIN and n.ability == "call")
    assert calls == {s: 12 for s in Scenario if not s.of_worlds}


def test_a_larger_run_keeps_every_row_in_its_split() -> None:
    """More queries, more APIs, another seed: equal calls are in one split."""
    few = [api.model_copy(update={"parameters": of(day={"enum": [*range(20)]})}) for api in pool(8)]
    small, more = draw(few[:30], count=100), [*draw(few, count=900), *draw(few, seed=1, count=300)]
    found = {signature(need): wanted(need) for need in small}
    both = [need for need in more if signature(need) in found]
    assert len(both) > 20
    assert all(wanted(need) is found[signature(need)] for need in both)


def signature(need: Need) -> str:
    return signature_of(i.model_dump(mode="json") for i in need.intent)


def test_one_split_alone_is_drawn_as_with_all_others() -> None:
    """A regeneration's needs depend on nothing in other splits; nor does the order of APIs."""
    plan = {"splits": {"unseen": ["c1", "c2/t0"], "seen": ["c2"]}}
    whole = draw(pool(8), **plan)
    for split in Split:
        again = {"version": "toy/1.0.0", "content": "0", "split": split}
        alone = draw([*reversed(pool(8))], regenerate=again, **plan)
        assert alone == [need for need in whole if wanted(need) is split]
        assert alone
        other = draw(pool(8), regenerate=again, seed=1, **plan)
        assert len(other) == len(alone)
        assert {n.id for n in other}.isdisjoint(n.id for n in alone)


def test_nothing_to_train_on_is_told_with_what_to_do() -> None:
    """The error names the categories; one of them under `seen` helps."""
    held = {"unseen": ["c0", "c1"]}
    with pytest.raises(ToolloomError, match=r"splits.seen.*c0, c1"):
        draw(pool(2), splits=held)
    needs = draw(pool(2), splits={"unseen": ["c0"], "seen": ["c1"]})
    assert set(map(wanted, needs)) == set(Split) - {Split.TEST_TOOL}
