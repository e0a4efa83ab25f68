from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.dataset.figures import contamination
from toolloom.pipeline.run import run
from toolloom.pipeline.stage import Sifted, Stage, StageInput
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.schemas import Recipe, RecipeError, Rejected, Sample

SIFTS = tuple(stage for stage in STAGES if stage.sift and not stage.beside)
# The toys' words differ in a number only, and each makes one of five calls.
CURATED = (*toys.STAGES, *SIFTS)
PLAN = {"near": 1, "same_calls": 1}


def folder_of(outputs: Path, recipe: Recipe) -> RunFolder:
    return RunFolder(outputs / "runs" / recipe.run_id)


async def test_a_run_curates_its_rows(tmp_path: Path) -> None:
    """What is tested ends whole in one of two files of a stage, what stays with its bytes; the
    marker holds counts and hashes. Stages that the recipe does not want are not planned."""
    recipe, told = toys.recipe(curation=PLAN), list[tuple[str, int]]()

    async def note(stage: str, shard: int, work: Any) -> Any:
        told.append((stage, shard))
        return await work()

    counts = (await run(recipe, outputs=tmp_path, stages=CURATED, run_shard=note)).counts
    assert [s.name for s in counts.stages] == ["domains", "queries", "tested", "deduplicated"]
    assert counts.stages[2].accepted == counts.stages[3].accepted + counts.stages[3].rejected
    assert counts.accepted == counts.stages[3].accepted < 17
    assert set(counts.stages[3].reasons) == {"exact_duplicate"}
    assert [shard for shard in told if shard[0] == "deduplicated"] == [("deduplicated", 0)]
    stage = folder_of(tmp_path, recipe).stage("deduplicated")
    assert stage.mark and stage.mark.shards == ()
    assert not (stage.path / "shards").exists()
    tested = folder_of(tmp_path, recipe).stage("tested").path / "accepted.jsonl"
    kept = set((stage.path / "accepted.jsonl").read_bytes().splitlines(keepends=True))
    gone = [Rejected.model_validate(row) for row in stage.objects("rejected")]
    assert {(row.agent, row.stage) for row in gone} == {("", "deduplicated")}
    lost = {record_line(Sample.model_validate(row.record)) for row in gone}
    assert kept | lost == set(tested.read_bytes().splitlines(keepends=True))


async def test_a_missing_benchmark_is_told_at_the_start(tmp_path: Path) -> None:
    """Before anything is drawn; a run that is finished does not look for it."""
    bench = tmp_path / "bench.jsonl"
    bench.write_text('{"text": "Nothing that anybody says"}\n')
    recipe = toys.recipe(curation={**PLAN, "against": [str(bench)]})
    gone = toys.recipe(curation={"against": [str(tmp_path / "gone")]})
    with pytest.raises(RecipeError, match=r"curation\.against"):
        await run(gone, outputs=tmp_path, stages=CURATED)
    assert not (folder_of(tmp_path, gone).path / "plan.json").exists()
    done = await run(recipe, outputs=tmp_path, stages=CURATED)
    bench.unlink()
    assert (await run(recipe, outputs=tmp_path, stages=CURATED)).counts == done.counts


async def test_a_run_tells_its_contamination(tmp_path: Path) -> None:
    """Dropped rows with the benchmark's; a run without the stage tells nothing."""
    bench = tmp_path / "bench.jsonl"
    bench.write_text('{"id": "b1", "text": "what is the weather in Zurich (7)"}\n')
    recipe = toys.recipe(curation={"near": 1, "same_calls": 9, "against": [str(bench)]})
    counts = (await run(recipe, outputs=tmp_path, stages=CURATED)).counts
    assert counts.stages[-1].reasons == {"contaminated": 1}
    (pair,) = contamination(folder_of(tmp_path, recipe))
    assert (pair["id"], pair["check"], pair["place"]) == ("q7", "text", "bench.jsonl:1 b1")
    plain = toys.recipe(curation=PLAN)
    await run(plain, outputs=tmp_path, stages=CURATED)
    assert list(contamination(folder_of(tmp_path, plain))) == []


async def test_a_cancelled_run_ends_its_thread(tmp_path: Path) -> None:
    """Who stops a run waits for one row at most, and nothing half written stays."""
    begun, seen = asyncio.Event(), list[int]()
    loop = asyncio.get_running_loop()

    def slow(given: StageInput) -> Iterator[Sifted]:
        for number, line in enumerate(given.rows):
            loop.call_soon_threadsafe(begun.set)
            seen.append(number)
            time.sleep(0.3)
            yield line

    stages = (toys.DOMAINS, toys.QUERIES, toys.TESTED, Stage("s", "", Sample, Sample, sift=slow))
    work = asyncio.create_task(run(toys.recipe(), outputs=tmp_path, stages=stages))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert len(seen) < 10
    assert list(folder_of(tmp_path, toys.recipe()).stage("s").path.iterdir()) == []
