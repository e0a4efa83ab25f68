"""Shards on workers, which here are this process and are given them as bytes; the real engines are
in tests/test_clusters.py."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.toys import files
from support.toys import whole as recipe

from toolloom import FakeServer
from toolloom.pipeline.run import run
from toolloom.pipeline.stage import (
    Context,
    ShardResult,
    ShardTask,
    check_engine,
    part_of,
    run_shard,
)
from toolloom.schemas import (
    Brief,
    BudgetReached,
    ClusterError,
    EndpointDenied,
    Outcome,
    RecipeError,
)

KEY = "a-key-of-a-worker-0123456789"


class Here:
    """Workers in this process; `code` in place of theirs."""

    def __init__(self, slots: int = 2, code: str = "") -> None:
        self.slots, self.code = slots, code
        self.tasks: list[ShardTask] = []

    async def run(self, task: ShardTask) -> ShardResult:
        self.tasks.append(task)
        if self.code:
            task = dataclasses.replace(task, code=self.code)
        done = await run_shard(pickle.loads(pickle.dumps(task)))
        result: ShardResult = pickle.loads(pickle.dumps(done))
        return result

    @property
    def engine(self) -> Callable[[], AbstractAsyncContextManager[Any]]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Here]:
            yield self

        return opened


async def test_workers_make_the_bytes_of_one_process(tmp_path: Path) -> None:
    """Every file of the run is the same, and the run's cache has every response: with it the same
    run asks nothing. Tasks, which engines write into logs and pages, do not show the recipe."""
    async with FakeServer() as server:
        wanted, there = recipe(server), Here()
        one = await run(wanted, outputs=tmp_path / "one")
        two = await run(wanted, outputs=tmp_path / "two", engine=there.engine)
        assert server.received == 2 * one.asked
        cache = str(tmp_path / "two" / "cache.sqlite")
        await run(wanted, outputs=tmp_path / "three", cache=cache)
        assert server.received == 2 * one.asked
    assert files(tmp_path / "one") == files(tmp_path / "two") == files(tmp_path / "three")
    assert (one.asked, one.tokens, one.counts) == (two.asked, two.tokens, two.counts)
    worked = {task.stage.name for task in there.tasks}
    assert worked == {"domains", "apis", "queries", "dialogues", "tested"}
    assert "http" not in repr(there.tasks)


async def test_what_was_answered_before_an_error_is_kept(tmp_path: Path) -> None:
    """A budget ends the run, and is not passed; its responses are in the cache, so that a run in
    one process with a higher budget asks none of them again."""
    async with FakeServer(latency=0.01) as server:
        there = Here(slots=3)
        with pytest.raises(BudgetReached, match="On the worker .*max_requests"):
            await run(
                recipe(server, budget={"max_requests": 40}), outputs=tmp_path, engine=there.engine
            )
        assert 10 < server.received <= 40
        await run(recipe(server), outputs=tmp_path)
        assert server.repeats == 0


async def test_limits_hold_for_all_workers_together(tmp_path: Path) -> None:
    """No more requests are under way than one process may have, whatever the slots."""
    async with FakeServer(latency=0.03) as server:
        wanted = recipe(server, model={"concurrency": 3})
        await run(wanted, outputs=tmp_path, engine=Here(slots=8).engine)
        assert server.peak == 3


async def test_a_workers_error_comes_back_as_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its kind, and says where it happened and which key is missing."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    away = recipe(model={"base_url": "https://models.invalid/v1", "key_env": "NO_SUCH_KEY"})
    with pytest.raises(EndpointDenied, match=r"On the worker .* process \d+: .*NO_SUCH_KEY"):
        await run(away, outputs=tmp_path, engine=Here().engine)


async def show_a_key(brief: Brief, context: Context) -> Outcome:
    raise ValueError(f"the key is {KEY}")


async def test_what_fails_on_a_worker_holds_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key that the recipe names is struck out before anything travels or becomes a state."""
    monkeypatch.setenv("THE_WORKERS_OWN", KEY)
    wanted = toys.recipe(
        model={"base_url": "http://127.0.0.1:9/v1", "model": "m", "key_env": "THE_WORKERS_OWN"}
    )
    domains, *others = toys.STAGES
    stages = [dataclasses.replace(domains, work=show_a_key), *others]
    with pytest.raises(RuntimeError, match=r"the key is \[key\]") as told:
        await run(wanted, outputs=tmp_path, stages=stages, engine=Here().engine)
    assert KEY not in str(told.value)


async def test_workers_with_other_code_are_refused(tmp_path: Path) -> None:
    """They would make other bytes."""
    async with FakeServer() as server:
        with pytest.raises(ClusterError, match="Install the same version on every machine"):
            await run(recipe(server), outputs=tmp_path, engine=Here(code="older").engine)
        assert server.received == 0


def test_what_cannot_be_on_a_cluster_is_refused() -> None:
    """Batches, which need one process, and an address without a cluster."""
    with pytest.raises(ClusterError, match="it needs --engine dask or ray"):
        check_engine(recipe(), "local", "127.0.0.1:9")
    batched = recipe(model={"base_url": "http://127.0.0.1:9/v1", "mode": "batch"})
    with pytest.raises(RecipeError, match="mode: batch"):
        check_engine(batched, "dask", None)


@pytest.mark.parametrize("name", ["concurrency", "requests_per_minute", "tokens_per_minute"])
def test_parts_add_up(name: str) -> None:
    """All parts of a limit are the limit, whatever the number of workers: the model's, an agent's
    own and that of search."""
    model = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    wanted = toys.recipe(
        model={**model, name: 40_003},
        agents={"tester": {name: 16, "model": "judge"}},
        search={"embeddings": {**model, name: 9}},
    )
    limits = [(endpoint.model, getattr(endpoint, name)) for endpoint in wanted.endpoints]
    for workers in (1, 2, 7):
        parts = [part_of(wanted, number, workers) for number in range(workers)]
        each = zip(*(part.endpoints for part in parts), strict=True)
        assert [(some[0].model, sum(getattr(e, name) for e in some)) for some in each] == limits
