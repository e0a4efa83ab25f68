from __future__ import annotations

from pathlib import Path

import pytest
from support import growing_dataset, toys

from toolloom.pipeline.estimate import estimate
from toolloom.pipeline.run import preview, run
from toolloom.pipeline.stage import check
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.schemas import Reason, RecipeError

BOTH = {"expand": {"rows": 5}, "rewrite": {"votes": 0}}
WITH_BESIDE = (*toys.STAGES, *growing_dataset.BESIDE)


BESIDE = tuple(stage for stage in STAGES if stage.beside)


def test_files_that_are_not_there_are_told_at_the_start(tmp_path: Path) -> None:
    """Before anything is asked: templates, solution trees and the rows' benchmarks."""
    gone = str(tmp_path / "gone")
    capable = {"base_url": "http://127.0.0.1:9/v1", "model": "large"}
    for field, fields in (
        (r"expand\.templates", {"expand": {"templates": [gone]}}),
        (r"rewrite\.seeds", {"model": capable, "rewrite": {"seeds": [gone]}}),
        (r"curation\.against", {"expand": {}, "curation": {"against": [gone]}}),
    ):
        with pytest.raises(RecipeError, match=field):
            check(BESIDE, toys.recipe(**fields))
    check(BESIDE, toys.recipe(model=capable, **BOTH))


async def test_shards_do_not_matter(tmp_path: Path) -> None:
    """Templates, rows and instructions are the same to the byte, in whatever shards."""
    made = []
    for size in (1, 4, 64):
        recipe, outputs = toys.recipe(**BOTH, shard_size=size), tmp_path / str(size)
        summary = await run(recipe, outputs=outputs, stages=WITH_BESIDE)
        stages = (RunFolder(Path(summary.path)).stage(s.name).path for s in growing_dataset.BESIDE)
        made.append([(path / "accepted.jsonl").read_bytes() for path in stages])
    assert made[0] == made[1] == made[2]


async def test_previews_show_some_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few samples, rows of templates and instructions, all that was rejected; no file is left."""
    monkeypatch.chdir(tmp_path)
    seen = await preview(toys.recipe(**BOTH), 2, stages=WITH_BESIDE)
    assert [("-x" in sample.id) for sample in seen.samples] == [False, False, True, True]
    assert 0 < len(seen.instructions) <= 10
    assert {r.reason for r in seen.rejected} >= {Reason.NEAR_DUPLICATE, Reason.VALUE_NOT_MENTIONED}
    assert list(tmp_path.iterdir()) == []


async def test_a_forecast_counts_what_stands_beside(tmp_path: Path) -> None:
    """Requests of the rewriter for all rows of the run, and the rows that are wanted."""
    told = await estimate(
        toys.recipe(expand={"rows": 500}, rewrite={"votes": 0}),
        7,
        outputs=tmp_path,
        stages=WITH_BESIDE,
    )
    found = {stage.name: stage for stage in told.stages}
    assert found["expanded"].accepted == 500
    rows = found["tested"].accepted
    assert told.expected.accepted == rows + 500
    assert found["rewritten"].records == rows
    assert found["rewritten"].use.requests == 4 * rows
    assert told.unseen == ()
