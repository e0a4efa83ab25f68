"""A dataset that grows: new queries of a split, beside all that it has."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support import growing_dataset, toys
from support.growing_dataset import Maker, faults, files, grow, make, recipe, rows

from toolloom.pipeline.dataset.diff import compare
from toolloom.pipeline.growth import plan_extension, plan_growth, plan_regeneration
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.version import find_version, versions
from toolloom.schemas import (
    Need,
    NothingFound,
    Reason,
    RecipeError,
    Regeneration,
    RewritePlan,
    Split,
    StoreError,
)

TABLES = ("samples", "sft", "instructions", "planning", "rejected")
BOTH: dict[str, Any] = {"expand": {"rows": 5}, "rewrite": {"votes": 0}}


async def test_a_dataset_grows_by_versions(tmp_path: Path) -> None:
    """Each has the rows of the one before in their places and new ones after them, tests keep
    their bytes, and each holds by itself and against its parent."""
    made = [await grow(tmp_path, **BOTH) for _ in range(3)]
    assert [version.number for version in made] == ["1.0.0", "1.1.0", "1.2.0"]
    for before, after in pairwise(made):
        for config in TABLES:
            old, new = rows(before, config), rows(after, config)
            assert new[: len(old)] == old
            assert len(new) > len(old)
        assert files(after, "train") == files(before, "train")
        assert after.manifest["parent"]["version"] == before.number
        assert after.manifest["extended"]["rows"]["samples"].keys() == {"train"}
        [train] = [d for d in compare(before, after).rows if d.split == "train"]
        assert (train.same, train.removed, train.changed) == (train.before, 0, 0)
        assert faults(after) == []
    last = made[-1]
    ids = [row["id"] for row in rows(last, "samples")]
    assert len(set(ids)) == len(ids)
    assert {i.split("-")[1] for i in ids} == {"0", "1", "2"}
    assert len(last.manifest["splits"]["train"]["runs"]) == 3
    card = (last.path / "README.md").read_text()
    assert "the split `train` was grown by new queries" in card
    added = {*ids} - {row["id"] for row in rows(made[0], "samples")}
    assert sum("-x" in name for name in added) == 10
    samples = {name for name in ids if "-x" not in name}
    assert {row["sample"] for row in rows(last, "instructions")} == samples


async def test_what_is_published_is_not_repeated(tmp_path: Path) -> None:
    """A row that says what one of the version says is rejected, also in the split that grows."""

    def says(need: Need) -> str:
        return need.id[-6:] if need.id.startswith("train") else need.id

    await grow(tmp_path, Maker(says=says))
    made = await make(tmp_path, plan_growth(tmp_path, recipe()), Maker(says=says))
    assert made.published is None
    told = [row["detail"] for row in RunFolder(Path(made.summary.path)).rejected()]
    assert "The user says the same as in train-0-000000 in toy/1.0.0." in told


async def test_a_growth_asks_only_for_its_own_queries(begun: Path) -> None:
    """As many as the recipe draws for the split, with the next seed; no other, no domain, no API."""
    first, more, again = find_version(begun, "toy"), Maker(), Maker()
    second = await grow(begun, more)
    assert all(name.startswith("train-1-") for name in more.asked)
    third = await grow(begun, again, queries={"count": 120, "distractors": 1})
    assert len(again.asked) == 2 * len(more.asked)
    assert first.manifest["apis"] == second.manifest["apis"] == third.manifest["apis"]


async def test_a_growth_that_was_not_published_is_published(begun: Path) -> None:
    """Killed after its last stage it is planned once more; published, the next one follows."""
    planned = plan_growth(begun, recipe())
    made = await make(begun, planned)
    assert made.published
    made.published.path.rename(begun / "away")
    assert plan_growth(begun, recipe()) == planned
    maker = Maker()
    assert (await grow(begun, maker)).number == "1.1.0"
    assert maker.asked == []
    assert plan_growth(begun, recipe()).seed == planned.seed + 1


async def test_nothing_accepted_makes_no_version(tmp_path: Path) -> None:
    """And the next plan takes the next seed, also at the very first run; a recipe of one's own
    seed begins there."""
    for seed in (4, 5):
        planned = plan_growth(tmp_path, recipe(seed=4))
        assert (planned.seed, planned.regenerate) == (seed, None)
        assert (await make(tmp_path, planned, Maker(accepts_nothing=True))).published is None
    await grow(tmp_path, seed=4)
    for seed in (7, 8):
        planned = plan_growth(tmp_path, recipe(seed=4))
        assert planned.seed == seed
        assert (await make(tmp_path, planned, Maker(accepts_nothing=True))).published is None
    assert plan_growth(tmp_path, recipe(seed=4)).seed == 9
    assert [v.number for v in versions(tmp_path / "datasets" / "toy")] == ["1.0.0"]


async def test_a_recipe_may_change_between_growths(begun: Path) -> None:
    """Its queries and models count; the APIs and the plan of splits stay those of the version."""
    first = find_version(begun, "toy")
    changed = recipe(
        splits={"train": 1},
        apis={"domains": 9},
        model={"base_url": "http://127.0.0.1:9/v1", "model": "other"},
        seed=70,
        extend={"version": "toy/0.1.0", "content": "x"},
        expand={"rows": 80, "splits": ["train", "validation"]},
    )
    planned = plan_growth(begun, changed)
    assert planned.regenerate == Regeneration(
        version=first.label, content=first.manifest["content"], split=Split.TRAIN, keep=True
    )
    assert (planned.seed, planned.extend, planned.model.model) == (1, None, "other")
    assert planned.splits == recipe().splits
    assert planned.expand and planned.expand.rows == 69  # 0.6 of 0.7 parts, by the version's plan
    second = (await make(begun, planned)).published
    assert second and second.number == "1.1.0"
    assert second.manifest["plan"] == first.manifest["plan"]
    assert second.manifest["apis"] == first.manifest["apis"]


async def test_a_seed_is_used_once_for_a_split(begun: Path) -> None:
    """The next one is after the highest; one that was used is refused."""
    made = await make(begun, plan_regeneration(begun, "toy", "train", keep=True, seed=6))
    assert plan_growth(begun, recipe()).seed == 7
    assert made.published and made.published.number == "1.1.0"
    with pytest.raises(RecipeError, match=r"seed 0: .* toy/1.1.0 were drawn with it already"):
        plan_regeneration(begun, "toy", "train", keep=True, seed=0)


async def test_a_test_that_grows_is_a_new_major_version(begun: Path) -> None:
    """Figures of it can no longer be compared; then the first way is open again."""
    made = (await make(begun, plan_growth(begun, recipe(), "test_tool"))).published
    assert made and made.number == "2.0.0"
    assert faults(made) == []
    assert (await grow(begun)).number == "2.1.0"


async def test_a_grown_split_can_be_made_anew(tmp_path: Path) -> None:
    """None of its rows is left, and the recipe makes its rows of templates again."""
    for _ in range(2):
        await grow(tmp_path, **BOTH)
    planned = plan_regeneration(tmp_path, "toy", "train")
    assert planned.expand and planned.expand.rows == 5
    anew = (await make(tmp_path, planned)).published
    assert anew
    names = {row["id"].partition("-x")[0] for row in rows(anew, "samples")}
    assert {name.split("-")[1] for name in names} == {"2"}
    assert faults(anew) == []
    assert faults(await grow(tmp_path)) == []


async def test_what_cannot_be_grown_is_named(tmp_path: Path) -> None:
    """A split that is none or not there, a damaged manifest."""
    with pytest.raises(NothingFound, match="There is no split 'trian'"):
        plan_growth(tmp_path, recipe(), "trian")
    first = await grow(tmp_path, splits={**toys.ALL_IN_TRAIN})
    with pytest.raises(NothingFound, match="has no split 'test_tool'"):
        plan_growth(tmp_path, recipe(), "test_tool")
    path = first.path / "manifest.json"
    sound = json.loads(path.read_text())
    for damage in (
        {"splits": []},
        {"splits": {"train": {}}},
        {"runs": []},
        {"plan": 3},
        {"content": 3},
        {"extended": {}},
    ):
        path.write_text(json.dumps({**sound, **damage}))
        with pytest.raises(StoreError, match="is damaged"):
            plan_growth(tmp_path, recipe())
        if damage.keys() & {"runs", "plan"}:
            with pytest.raises(StoreError, match=f"is damaged .{min(damage)}: "):
                plan_extension(tmp_path, "toy", rewrite=RewritePlan())
    path.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        plan_growth(tmp_path, recipe())


async def test_what_fell_without_a_split_is_added_to(tmp_path: Path) -> None:
    """An API of which no template can be asked is no row of the split that is drawn for, whether
    that grows or is made anew."""

    def gather(given: StageInput) -> Iterator[Sifted]:
        yield from growing_dataset.gather_templates(given)
        undrawn = toys.api().model_copy(update={"name": f"of-seed-{given.recipe.seed}"})
        yield toys.rejected(undrawn, "templates", Reason.NOTHING_TO_DRAW)

    maker = Maker()
    templates = dataclasses.replace(growing_dataset.TEMPLATES, sift=gather)
    maker.stages = tuple(templates if s is growing_dataset.TEMPLATES else s for s in maker.stages)
    planned = recipe(expand={"rows": 3})
    fallen = []
    for anew in (False, False, True):
        after = plan_regeneration(tmp_path, "toy", "train") if anew else None
        made = await make(tmp_path, after or plan_growth(tmp_path, planned), maker)
        assert made.published
        fallen.append([row["id"] for row in rows(made.published, "rejected", "apis")])
        assert faults(made.published) == []
    assert [len(ids) for ids in fallen] == [2, 3, 4]
    assert (fallen[1][:2], fallen[2][:3]) == (fallen[0], fallen[1])
