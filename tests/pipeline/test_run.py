import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.toys import files

from toolloom.pipeline.dataset.figures import Tally
from toolloom.pipeline.run import (
    preview_recipe,
    run,
    run_recipe,
    shards_in_flight,
)
from toolloom.pipeline.stage import Context, Stage
from toolloom.schemas import Outcome, Query, Record


def change(stage: Stage, **changes: Any) -> Stage:
    return dataclasses.replace(stage, **changes)


async def test_every_record_ends_in_one_of_two_files(tmp_path: Path) -> None:
    """What is drawn is accepted or rejected with a reason, and the counts say so: also of abilities,
    scenarios, categories, APIs and what the models were asked."""
    counts = (await run(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)).counts
    assert [(s.accepted, s.rejected) for s in counts.stages] == [(5, 1), (19, 2), (17, 2)]
    assert counts.reasons == {
        "ungrounded_argument": 2,
        "value_not_mentioned": 2,
        "near_duplicate": 1,
    }
    assert counts.abilities["call"] == Tally(accepted=5, rejected=2)
    assert counts.scenarios == {"single": Tally(accepted=17, rejected=4)}
    assert (counts.apis, set(counts.categories)) == (5, {"c1", "c2", "c3", "c4", "c5"})
    assert counts.several_turns == 0
    assert counts.use.requests == counts.use.prompt_tokens // 5 > 0


async def test_order_of_arrival_does_not_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast and slow runs of a recipe write the same bytes."""
    await run(toys.recipe(), outputs=tmp_path / "fast", stages=toys.STAGES)
    monkeypatch.setattr(toys, "DELAY", 0.02)
    await run(toys.recipe(), outputs=tmp_path / "slow", stages=toys.STAGES)
    assert files(tmp_path / "fast") == files(tmp_path / "slow")


async def test_a_finished_run_works_on_nothing(tmp_path: Path) -> None:
    """Running it again calls no stage and opens no cache."""
    first = await run(toys.recipe(), outputs=tmp_path, stages=toys.STAGES)
    (tmp_path / "cache.sqlite").unlink(missing_ok=True)
    idle = [
        change(stage, work=None, feed=stage.feed and (lambda *_: 1 / 0)) for stage in toys.STAGES
    ]
    again = await run(toys.recipe(), outputs=tmp_path, stages=idle)
    assert again.counts == first.counts
    assert not (tmp_path / "cache.sqlite").exists()


async def test_a_shard_goes_on_without_the_others(tmp_path: Path) -> None:
    """Records stream: a later stage works on a shard while the first stage has others to do."""
    seen: list[tuple[str, int]] = []

    async def note(stage: str, shard: int, work: Any) -> Any:
        seen.append((stage, shard))
        return await work()

    recipe = toys.recipe(model={"concurrency": 1})
    await run(recipe, outputs=tmp_path, stages=toys.STAGES, run_shard=note)
    assert seen.index(("tested", 0)) < seen.index(("queries", 5))
    assert seen.index(("domains", 1)) < seen.index(("queries", 0))
    assert len(seen) == len(set(seen)) == 2 + 6 + 6


async def test_shards_in_memory_are_bounded(tmp_path: Path) -> None:
    """The draw is never far ahead of the work."""
    drawn, done, ahead = 0, 0, []

    def draw(given: Any) -> Any:
        nonlocal drawn
        for number in range(400):
            drawn += 1
            yield toys.query(number)

    async def work(query: Query, context: Context) -> Outcome:
        nonlocal done
        await asyncio.sleep(0)
        done += 1
        ahead.append(drawn - done)
        return Outcome((query,))

    stage = Stage("queries", "query", Query, Query, work, feed=draw)
    recipe = toys.recipe(model={"concurrency": 4})
    await run(recipe, outputs=tmp_path, stages=[stage])
    assert max(ahead) <= shards_in_flight(recipe, [stage]) * recipe.shard_size == 12


async def test_the_loop_goes_on_while_a_stage_is_finished(tmp_path: Path) -> None:
    """A driver of workers has to tell them that it lives, however many rows it joins."""
    loop = asyncio.get_running_loop()

    def settle(records: Sequence[Record]) -> Outcome:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(30)
        return toys.drop_the_first(records)

    stages = (change(toys.DOMAINS, settle=settle), *toys.STAGES[1:])
    made = await run(toys.recipe(), outputs=tmp_path, stages=stages)
    assert made.counts.accepted == 17


@pytest.mark.parametrize("inside", [False, True], ids=["no loop", "a notebook"])
def test_a_recipe_runs_without_await(inside: bool, tmp_path: Path) -> None:
    """Callers that do not await give a recipe or the path of its file, also in a running loop."""
    path = tmp_path / "toy.yaml"
    path.write_text("name: toy\nshard_size: 4\nqueries: {count: 21}\napis: {domains: 6}\n")

    async def called() -> Any:
        return run_recipe(path, tmp_path, stages=toys.STAGES)

    made = asyncio.run(called()) if inside else run_recipe(path, tmp_path, stages=toys.STAGES)
    assert made.published and made.published.label == "toy/1.0.0"
    assert len(preview_recipe(toys.recipe(), 2, stages=toys.STAGES).samples) == 2
