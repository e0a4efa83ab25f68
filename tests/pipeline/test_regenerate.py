from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import growing_dataset
from support.growing_dataset import Maker, files, recipe
from support.growing_dataset import published as of

from toolloom.pipeline.growth import plan_regeneration
from toolloom.pipeline.run import Made, run
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.version import Version, find_version
from toolloom.schemas import (
    NothingFound,
    PublishError,
    Recipe,
    Split,
    StoreError,
    ToolloomError,
    parse_recipe,
)


async def make(outputs: Path, of: Recipe | None = None, maker: Maker | None = None) -> Made:
    made: Made = await growing_dataset.make(outputs, of or recipe(), maker)
    return made


def plan(outputs: Path, split: str = "test_tool", **changes: Any) -> Recipe:
    return plan_regeneration(outputs, "toy", split, **changes)


def ids(version: Version, split: str, config: str = "samples") -> list[str]:
    return [row["id"] for row in version.rows(config, split)]


@pytest.mark.parametrize("split", [Split.TRAIN, Split.TEST_TOOL])
async def test_one_split_is_new_and_the_others_keep_their_bytes(begun: Path, split: Split) -> None:
    """And only the split's own queries are worked on: no domain, no API, no other query."""
    first, maker = find_version(begun, "toy"), Maker()
    second = of(await make(begun, plan(begun, split), maker))
    assert maker.asked
    assert all(name.startswith(f"{split}-1-") for name in maker.asked)
    assert files(second, split) == files(first, split)
    old, new = ids(first, split), ids(second, split)
    assert len(new) == len(old) > 0
    assert {name.rpartition("-")[0] for name in new} == {f"{split}-1"}
    assert second.manifest["regenerated"] == split
    assert second.manifest["parent"]["version"] == first.number
    third = of(await make(begun, plan(begun, split), Maker()))
    assert {name.rpartition("-")[0] for name in ids(third, split)} == {f"{split}-2"}


async def test_two_at_once_make_two_versions(begun: Path) -> None:
    """Of different splits; the same one twice is one run, on which one process works."""
    first = find_version(begun, "toy")
    plans = [plan(begun, split) for split in ("test_tool", "validation")]
    made = await asyncio.gather(*(make(begun, each) for each in plans))
    assert len({of(each).number for each in made}) == 2
    for each, split in zip(made, ("test_tool", "validation"), strict=True):
        assert files(of(each), split) == files(first, split)
    held = RunFolder(begun / "runs" / plans[0].run_id).locked()
    with held, pytest.raises(StoreError, match="another process"):
        await make(begun, plans[0])


async def test_what_is_not_there_is_named(begun: Path) -> None:
    """What is no split of rows, a version of another content, one in another folder."""
    first = find_version(begun, "toy")
    with pytest.raises(NothingFound, match="no split 'apis'"):
        plan(begun, "apis")
    made = plan(begun)
    assert made.regenerate
    wrong = made.regenerate.model_copy(update={"content": "0" * 64})
    with pytest.raises(PublishError, match="is not the version that this run"):
        await run(made.model_copy(update={"regenerate": wrong}), outputs=begun)
    with pytest.raises(PublishError, match="Copy it there"):
        plan_regeneration(begun / "elsewhere", str(first.path), "train")


async def test_a_recipe_that_draws_nothing_for_the_split_is_refused(begun: Path) -> None:
    """Three queries leave none to a split with a tenth of the rows."""
    few = plan(begun, "test_instruction", recipe=recipe(queries={"count": 3}))
    with pytest.raises(
        ToolloomError, match=r"draws none for the split test_instruction.*queries.count"
    ):
        await make(begun, few)


async def test_a_published_recipe_is_enough(tmp_path: Path) -> None:
    """Only the login of an address is missing in it, which `recipe` can bring."""
    model = {"base_url": "http://me:secret@127.0.0.1:9/v1", "model": "m"}
    version = of(await make(tmp_path, recipe(model=model)))
    assert plan(tmp_path).model.base_url == "http://127.0.0.1:9/v1"
    whole = parse_recipe({**recipe(model=model).model_dump(mode="json")}, "a recipe")
    assert plan(tmp_path, recipe=whole).model.base_url == model["base_url"]
    assert find_version(tmp_path, "toy").path == version.path
