from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from support import toys
from support.curation_rows import fallen, in_split, kept, row, sift

from toolloom.pipeline.curation.balance import balance
from toolloom.schemas import (
    Ability,
    Reason,
    RecipeError,
    Sample,
    Split,
)


def kinds(**counts: int) -> list[Sample]:
    """Rows of train by ability."""
    return [
        row(f"{ability}-{n}", f"Wish {n} of {ability}", ability=Ability(ability))
        for ability, count in counts.items()
        for n in range(count)
    ]


def test_a_value_has_at_most_some_times_the_median(tmp_path: Path) -> None:
    """What is over goes, with the counts; rarer values lose nothing. Whatever the order of rows, the
    same ones stay."""
    rows = kinds(call=20, retrieve_call=5, plan_retrieve_call=2)
    mixed = random.Random(1).sample(rows, len(rows))
    plan, splits = {"balance": {"ability": 2}}, toys.ALL_IN_TRAIN
    found, again = (
        sift(balance, each, tmp_path, curation=plan, splits=splits) for each in (rows, mixed)
    )
    assert sorted(kept(again)) == sorted(kept(found))
    left = Counter(name.partition("-")[0] for name in kept(found))
    assert left == {"call": 10, "retrieve_call": 5, "plan_retrieve_call": 2}
    finding = next(iter(fallen(found).values()))
    assert finding.reason is Reason.OVERREPRESENTED
    assert finding.detail == (
        "train has 20 rows of ability «call», and 5 of the median one: 10 stay."
    )


def test_each_split_is_balanced_on_its_own(tmp_path: Path) -> None:
    """A value that is rare in a test and frequent in train goes in train only."""
    rows = [in_split(Split.TRAIN, f"t{n}", f"Wish {n}") for n in range(4)]
    rows += [in_split(Split.VALIDATION, f"v{n}", f"Other wish {n}") for n in range(2)]
    found = sift(balance, rows, tmp_path, curation={"balance": {"scenario": 1}})
    assert len(kept(found)) == 6


def test_several_dimensions_take_one_after_the_other(tmp_path: Path) -> None:
    """A row that has gone for one is not counted for the next."""
    rows = kinds(call=8, retrieve_call=2)
    plan = {"balance": {"scenario": 1, "ability": 1}}
    found = sift(balance, rows, tmp_path, curation=plan, splits=toys.ALL_IN_TRAIN)
    assert Counter(name.partition("-")[0] for name in kept(found)) == {
        "call": 5,
        "retrieve_call": 2,
    }


@pytest.mark.parametrize("factor", [0.5, float("nan"), float("inf")])
def test_a_factor_leaves_the_median(factor: float) -> None:
    """Less than the median would drop what is not frequent."""
    with pytest.raises(RecipeError, match="1 or more"):
        toys.recipe(curation={"balance": {"ability": factor}})
