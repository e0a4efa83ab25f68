from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import growing_dataset, toys
from support.growing_dataset import published as of

from toolloom.pipeline.growth import is_expanded, plan_extension, plan_regeneration
from toolloom.pipeline.run import Made, make_dataset, run
from toolloom.pipeline.stage import Stage, StageInput
from toolloom.pipeline.store.version import Version
from toolloom.schemas import (
    ExpansionPlan,
    NothingFound,
    PublishError,
    Recipe,
    RecipeError,
    Record,
    RewritePlan,
    Seed,
    Split,
    Step,
)

STAGES = (*toys.SPLIT_STAGES, *growing_dataset.BESIDE)
ROWS, LEVELS = ExpansionPlan(rows=5), RewritePlan(votes=0)


def recipe(**changes: Any) -> Recipe:
    fields = {"queries": {"count": 40, "distractors": 1}, "splits": {"unseen": ["c1"]}}
    return toys.recipe(**{**fields, **changes})


async def make(outputs: Path, of: Recipe, stages: tuple[Stage, ...] = STAGES) -> Made:
    return await make_dataset(of, outputs=outputs, stages=stages)


# What an extension may do: no stage before `templates` asks anything.
ADDING = (*(dataclasses.replace(s, work=None) for s in toys.SPLIT_STAGES), *growing_dataset.BESIDE)


def rows(version: Version, config: str = "samples") -> dict[str, dict[str, Any]]:
    return {row["id"]: row for s in version.splits(config) for row in version.rows(config, s)}


async def test_rows_and_instructions_are_added_as_versions(tmp_path: Path) -> None:
    """Nothing that is published is asked again or changed, and each addition is a version."""
    first = of(await make(tmp_path, recipe()))
    expanded = of(await make(tmp_path, plan_extension(tmp_path, "toy", expand=ROWS), ADDING))
    rewritten = of(await make(tmp_path, plan_extension(tmp_path, "toy", rewrite=LEVELS), ADDING))
    assert [v.number for v in (first, expanded, rewritten)] == ["1.0.0", "1.1.0", "1.2.0"]
    before, after = rows(first), rows(rewritten)
    assert {name: after[name] for name in before} == before
    new = [after[name] for name in after if name not in before]
    assert len(new) == 5
    assert all(is_expanded(rewritten, row) for row in new)
    assert not any(is_expanded(rewritten, row) for row in before.values())
    assert {row["sample"] for row in rows(rewritten, "instructions").values()} == set(before)


async def test_requests_that_have_instructions_are_left_alone(tmp_path: Path) -> None:
    """A second rewrite adds nothing, and rows of templates are not rewritten."""
    await make(tmp_path, recipe())
    await make(tmp_path, plan_extension(tmp_path, "toy", rewrite=LEVELS))
    other = LEVELS.model_copy(update={"coarse": 1.0})
    made = await make(tmp_path, plan_extension(tmp_path, "toy", rewrite=other))
    assert (made.published, made.summary.counts.made) == (None, 0)
    await make(tmp_path, plan_extension(tmp_path, "toy", expand=ROWS))
    made = await make(tmp_path, plan_extension(tmp_path, "toy", rewrite=LEVELS))
    assert (made.published, made.summary.counts.made) == (None, 0)


async def test_a_dataset_may_begin_with_nothing(tmp_path: Path) -> None:
    """Seeds of its own are enough for instructions; without them the dataset must be there."""

    def gather(given: StageInput) -> Iterator[Record]:
        step = Step(category="Travel", tool="Rail", api="Find", function="rail_find")
        for number in range(3):
            yield Seed(id=f"t{number}", split=Split.TRAIN, hybrid=f"Find {number}.", steps=(step,))

    stages = (*STAGES[:-1], dataclasses.replace(STAGES[-1], feed=gather, check=None))
    plan = RewritePlan(seeds=("trees",), votes=0)
    version = of(await make(tmp_path, plan_extension(tmp_path, "trees", rewrite=plan), stages))
    assert (version.label, version.splits("samples")) == ("trees/1.0.0", [])
    assert len(rows(version, "instructions")) == 4
    with pytest.raises(NothingFound, match="trees/1.0.0"):
        plan_extension(tmp_path, "nope", rewrite=LEVELS)
    with pytest.raises(RecipeError, match="name"):
        plan_extension(tmp_path, "No Name", rewrite=plan)


async def test_a_split_of_an_extended_dataset_is_made_anew(tmp_path: Path) -> None:
    """By the run that made the split, and not by one that added to it; with its part of rows."""
    await make(tmp_path, recipe(expand={"rows": 5}))
    await make(tmp_path, plan_extension(tmp_path, "toy", expand=ExpansionPlan(rows=7)))
    train = plan_regeneration(tmp_path, "toy", "train")
    assert (train.extend, train.expand) == (None, ExpansionPlan(rows=5))
    assert plan_regeneration(tmp_path, "toy", "test_category").expand is None
    version = of(await make(tmp_path, train))
    assert sum(1 for name in rows(version) if "-x" in name) == 5
    both = recipe(expand={"rows": 70, "splits": ["train", "validation"]}, rewrite={"seeds": ["s"]})
    part = plan_regeneration(tmp_path, "toy", "validation", recipe=both)
    assert part.expand == ExpansionPlan(rows=10, splits=(Split.VALIDATION,))
    assert part.rewrite == RewritePlan()


async def test_what_an_extension_begins_with_is_there_and_unchanged(tmp_path: Path) -> None:
    """A version that was replaced, and a recipe that adds nothing."""
    version = of(await make(tmp_path, recipe()))
    planned = plan_extension(tmp_path, "toy", expand=ROWS)
    with pytest.raises(RecipeError, match="nothing to add"):
        await run(planned.model_copy(update={"expand": None}), outputs=tmp_path, stages=STAGES[:-1])
    manifest = json.loads((version.path / "manifest.json").read_text())
    (version.path / "manifest.json").write_text(json.dumps({**manifest, "content": "f" * 64}))
    with pytest.raises(PublishError, match="is not the version that this run"):
        await run(planned, outputs=tmp_path, stages=STAGES)
