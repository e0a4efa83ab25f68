"""Dispatcher and workers on a real PostgreSQL and the scripted endpoint; the cluster is this process,
which hands orders over as bytes."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.local_cluster import Here, files, recipe
from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.cache import Cache
from toolloom.llm.orders import end_orders
from toolloom.pipeline.cluster import ShardJob, ShardResult, WorkerLost, work_shard
from toolloom.pipeline.run import run
from toolloom.pipeline.stages import STAGES
from toolloom.schemas import (
    BudgetReached,
    ClusterError,
    EndpointDenied,
    EndpointDown,
    RecipeError,
    StoreError,
)


async def test_the_bytes_are_those_of_one_process(tmp_path: Path, postgres_url: str) -> None:
    """Every file of the run is the same, and as many requests were sent and booked."""
    async with FakeServer() as server:
        wanted, there = recipe(server), Here()
        one = await run(wanted, outputs=tmp_path / "one")
        two = await run(wanted, outputs=tmp_path / "two", cache=postgres_url, engine=there.engine)
        assert server.repeats == server.received / 2 == one.asked
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert (one.asked, one.tokens, one.counts) == (two.asked, two.tokens, two.counts)
    worked = {order.stage.name for order in there.orders}
    assert worked == {"domains", "apis", "queries", "dialogues", "tested"}


async def test_a_lost_worker_costs_nothing_that_was_answered(
    tmp_path: Path, postgres_url: str
) -> None:
    """An order whose worker died, or that an engine runs once more, is given out anew."""
    lost: list[str] = []

    async def fail(order: ShardJob) -> None:
        if order.stage.name == "dialogues" and len(lost) < 2:
            lost.append(order.id)
            await work_shard(order)  # all that it asked is answered
            if len(lost) == 1:
                raise WorkerLost("killed")  # and the second time the engine runs it again

    async with FakeServer() as server:
        wanted, there = recipe(server), Here(before=fail)
        await run(wanted, outputs=tmp_path / "one")
        await run(wanted, outputs=tmp_path / "two", cache=postgres_url, engine=there.engine)
        assert server.repeats == server.received / 2
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(lost) == 2


@pytest.mark.slow
async def test_a_shard_that_kills_its_workers_ends_the_run(
    tmp_path: Path, postgres_url: str
) -> None:
    """After some workers the run stops and names the shard."""

    async def fail(order: ShardJob) -> None:
        raise WorkerLost("killed")

    there = Here(before=fail)
    async with FakeServer() as server:
        with pytest.raises(ClusterError, match="domains, shard 0: its worker died 5 times"):
            await run(recipe(server), outputs=tmp_path, cache=postgres_url, engine=there.engine)


@pytest.mark.parametrize("limit", [{"max_requests": 40}, {"max_tokens": 20_000}])
async def test_no_budget_is_passed(tmp_path: Path, postgres_url: str, limit: Any) -> None:
    """Workers together use what the run may, and not more; a higher budget goes on."""
    name, most = next(iter(limit.items()))
    async with FakeServer(latency=0.01) as server:
        for _ in range(2):  # the second start has nothing left
            there = Here(slots=3)
            with pytest.raises(BudgetReached, match=f"{name} {most:,}, and the next"):
                await run(
                    recipe(server, budget=limit),
                    outputs=tmp_path / "two",
                    cache=postgres_url,
                    engine=there.engine,
                )
        cache = Cache(postgres_url)
        spent = await cache.spent(recipe(server).run_id)
        await cache.close()
        used = spent.requests if name == "max_requests" else spent.tokens
        assert 0.5 * most < used <= most  # a request holds back the most it can take
        assert server.received == spent.requests
        await run(recipe(server), outputs=tmp_path / "two", cache=postgres_url, engine=there.engine)
        assert server.repeats == 0


async def test_what_a_lost_worker_held_is_counted_when_the_budget_ends(
    tmp_path: Path, postgres_url: str
) -> None:
    """What was allotted to a dead worker counts as used, until what was used is counted."""
    lost: list[str] = []

    async def fail(order: ShardJob) -> None:
        if order.stage.name == "queries" and not lost:
            lost.append(order.id)
            raise WorkerLost("killed")

    async with FakeServer() as server:
        one = await run(recipe(server), outputs=tmp_path / "one")
        exact = recipe(server, budget={"max_requests": one.asked})
        there = Here(before=fail)
        await run(exact, outputs=tmp_path / "two", cache=postgres_url, engine=there.engine)
        assert server.received == 2 * one.asked
    assert lost


async def test_limits_hold_for_all_workers_together(tmp_path: Path, postgres_url: str) -> None:
    """No more requests are under way than one process may have, whatever the slots."""
    async with FakeServer(latency=0.1) as server:
        wanted = recipe(server, model={"concurrency": 3})
        there = Here(slots=8)
        await run(wanted, outputs=tmp_path, cache=postgres_url, engine=there.engine)
        assert server.peak == 3


async def test_a_workers_error_comes_back_as_itself(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its kind, and says where it happened and which key is missing."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    away = {"base_url": "https://models.invalid/v1", "key_env": "NO_SUCH_KEY"}
    with pytest.raises(EndpointDenied, match=r"On the worker .* process \d+: .*NO_SUCH_KEY"):
        await run(recipe(model=away), outputs=tmp_path, cache=postgres_url, engine=Here().engine)


async def test_workers_with_other_code_are_refused(tmp_path: Path, postgres_url: str) -> None:
    """They would make other bytes."""

    class Old(Here):
        async def work(self, order: ShardJob) -> ShardResult:
            return await super().work(dataclasses.replace(order, code="older"))

    async with FakeServer() as server:
        with pytest.raises(ClusterError, match="Install the same version on every machine"):
            await run(recipe(server), outputs=tmp_path, cache=postgres_url, engine=Old().engine)
        assert server.received == 0


@pytest.mark.slow
async def test_workers_end_when_the_run_has_another_driver(
    tmp_path: Path, postgres_url: str
) -> None:
    """A driver that died leaves workers behind: they stop before the next one counts and begins."""
    ended: list[str] = []

    async def overtake(order: ShardJob) -> None:
        working = asyncio.create_task(work_shard(order))
        await until(lambda: server.busy)
        cache = Cache(postgres_url)
        assert await end_orders(cache, order.run)
        try:
            await working
        except ClusterError as error:
            ended.append(str(error))
        assert not await end_orders(cache, order.run)
        await cache.close()
        raise EndpointDown("overtaken")  # which ends the run

    async with FakeServer(latency=600) as server:
        with pytest.raises(EndpointDown, match="overtaken"):
            there = Here(before=overtake)
            await run(recipe(server), outputs=tmp_path, cache=postgres_url, engine=there.engine)
    assert [words.endswith("the run was ended, or goes on elsewhere.") for words in ended] == [True]


async def test_orders_show_no_secrets(tmp_path: Path, postgres_url: str) -> None:
    """Engines write what they were given into logs and pages."""
    async with FakeServer() as server:
        there = Here()
        await run(recipe(server), outputs=tmp_path, cache=postgres_url, engine=there.engine)
    password = postgres_url.split("@")[0].rpartition(":")[2]
    shown = " ".join(map(repr, there.orders))
    assert password.encode() in there.sent[0]
    assert password not in shown
    assert "http" not in shown


async def test_what_cannot_be_on_a_cluster_is_refused_at_once(
    tmp_path: Path, postgres_url: str
) -> None:
    """A cache of one machine's, and batches, which need one process."""
    with pytest.raises(StoreError, match="--cache postgresql://"):
        await run(recipe(), outputs=tmp_path, engine=Here().engine)
    batched = recipe(model={"base_url": "http://127.0.0.1:9/v1", "mode": "batch"})
    with pytest.raises(RecipeError, match="mode: batch"):
        await run(batched, outputs=tmp_path, cache=postgres_url, engine=Here().engine)


@pytest.mark.parametrize(("kept", "away"), [("domains", {"queries", "tested"}), ("queries", set())])
async def test_records_that_name_files_stay_here(
    tmp_path: Path, postgres_url: str, kept: str, away: set[str]
) -> None:
    """A stage may keep its records from other machines, and with them all before it: what was sent
    from here within a minute is known before others send. That of the APIs does, if the recipe
    names sources."""
    there = Here()
    stages = [
        dataclasses.replace(each, here=lambda _: True) if each.name == kept else each
        for each in toys.STAGES
    ]
    wanted = toys.recipe()
    await run(wanted, outputs=tmp_path, cache=postgres_url, engine=there.engine, stages=stages)
    assert {order.stage.name for order in there.orders} == away
    apis = next(stage for stage in STAGES if stage.name == "apis")
    named = toys.recipe(apis={"sources": [{"path": "api.yaml"}]})
    assert apis.here
    assert (apis.here(wanted), apis.here(named)) == (False, True)
