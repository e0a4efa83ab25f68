"""Dispatcher, workers and drivers on a real PostgreSQL and the scripted endpoint; the cluster is this
process, which hands orders over as bytes."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support import toys
from support.local_cluster import Here, files, recipe
from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.cache import Cache
from toolloom.llm.database import Hold, end_orders
from toolloom.pipeline.cluster import (
    ShardJob,
    ShardResult,
    WorkerLost,
    WorkerShare,
    most_shares,
    share_of,
    work_shard,
)
from toolloom.pipeline.dataset.report import Summary
from toolloom.pipeline.run import run
from toolloom.pipeline.stage import Context
from toolloom.pipeline.stages import STAGES
from toolloom.schemas import (
    BudgetReached,
    Busy,
    ClusterError,
    EndpointDenied,
    EndpointDown,
    Outcome,
    Query,
    Reason,
    Recipe,
    RecipeError,
    Sample,
    StoreError,
)

OnCluster = Callable[..., Awaitable[Summary]]


@pytest.fixture
def on_cluster(tmp_path: Path, postgres_url: str) -> OnCluster:
    """Makes a run on a cluster, in a folder of this name, with the database as its cache."""

    async def made(wanted: Recipe, there: Any = None, name: str = "two", **more: Any) -> Summary:
        engine = (there or Here()).engine
        return await run(wanted, outputs=tmp_path / name, cache=postgres_url, engine=engine, **more)

    return made


async def test_the_bytes_are_those_of_one_process(
    on_cluster: OnCluster, tmp_path: Path, postgres_url: str
) -> None:
    """Every file of the run is the same, and as many requests were sent and booked; orders, which
    engines write into logs and pages, show no secrets."""
    async with FakeServer() as server:
        wanted, there = recipe(server), Here()
        one = await run(wanted, outputs=tmp_path / "one")
        two = await on_cluster(wanted, there)
        assert server.repeats == server.received / 2 == one.asked
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert (one.asked, one.tokens, one.counts) == (two.asked, two.tokens, two.counts)
    worked = {order.stage.name for order in there.orders}
    assert worked == {"domains", "apis", "queries", "dialogues", "tested"}
    password, shown = postgres_url.split("@")[0].rpartition(":")[2], repr(there.orders)
    assert password.encode() in there.sent[0]
    assert password not in shown and "http" not in shown


@pytest.mark.slow
async def test_worlds_that_the_run_made_are_known_to_its_workers(
    on_cluster: OnCluster, tmp_path: Path
) -> None:
    """They are in no file that a worker could read."""
    document = Path(__file__).parents[1] / "support" / "shelter.yaml"
    async with FakeServer() as server:
        changes = {
            "apis": {"domains": 0, "sources": [{"path": str(document)}]},
            "worlds": {"infer": True, "rows": 4},
            "model": {"base_url": server.base_url, "model": "large"},
        }
        wanted = recipe(server, **changes)
        await run(wanted, outputs=tmp_path / "one")
        two = await on_cluster(wanted)
    assert two.counts.made
    assert files(tmp_path / "one") == files(tmp_path / "two")


async def test_a_lost_worker_costs_nothing_that_was_answered(
    on_cluster: OnCluster, tmp_path: Path
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
        await on_cluster(wanted, there)
        assert server.repeats == server.received / 2
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(lost) == 2


@pytest.mark.slow
async def test_a_shard_that_kills_its_workers_ends_the_run(on_cluster: OnCluster) -> None:
    """After some workers the run stops and names the shard."""

    async def fail(order: ShardJob) -> None:
        raise WorkerLost("killed")

    async with FakeServer() as server:
        with pytest.raises(ClusterError, match="domains, shard 0: its worker died 5 times"):
            await on_cluster(recipe(server), Here(before=fail))


@pytest.mark.parametrize("limit", [{"max_requests": 40}, {"max_tokens": 20_000}])
async def test_no_budget_is_passed(on_cluster: OnCluster, postgres_url: str, limit: Any) -> None:
    """Workers together use what the run may, and not more; a higher budget goes on."""
    name, most = next(iter(limit.items()))
    async with FakeServer(latency=0.01) as server:
        for _ in range(2):  # the second start has nothing left
            there = Here(slots=3)
            with pytest.raises(BudgetReached, match=f"{name} {most:,}, and the next"):
                await on_cluster(recipe(server, budget=limit), there)
        cache = Cache(postgres_url)
        spent = await cache.spent(recipe(server).run_id)
        await cache.close()
        used = spent.requests if name == "max_requests" else spent.tokens
        assert 0.5 * most < used <= most  # a request holds back the most it can take
        assert server.received == spent.requests
        await on_cluster(recipe(server), there)
        assert server.repeats == 0


async def test_what_a_lost_worker_held_is_counted_when_the_budget_ends(
    on_cluster: OnCluster, tmp_path: Path
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
        await on_cluster(exact, Here(before=fail))
        assert server.received == 2 * one.asked
    assert lost


async def test_limits_hold_for_all_workers_together(on_cluster: OnCluster) -> None:
    """No more requests are under way than one process may have, whatever the slots."""
    async with FakeServer(latency=0.1) as server:
        await on_cluster(recipe(server, model={"concurrency": 3}), Here(slots=8))
        assert server.peak == 3


async def test_a_workers_error_comes_back_as_itself(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its kind, and says where it happened and which key is missing."""
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    away = {"base_url": "https://models.invalid/v1", "key_env": "NO_SUCH_KEY"}
    with pytest.raises(EndpointDenied, match=r"On the worker .* process \d+: .*NO_SUCH_KEY"):
        await on_cluster(recipe(model=away))


async def test_workers_with_other_code_are_refused(on_cluster: OnCluster) -> None:
    """They would make other bytes."""

    class Old(Here):
        async def work(self, order: ShardJob) -> ShardResult:
            return await super().work(dataclasses.replace(order, code="older"))

    async with FakeServer() as server:
        with pytest.raises(ClusterError, match="Install the same version on every machine"):
            await on_cluster(recipe(server), Old())
        assert server.received == 0


@pytest.mark.slow
async def test_workers_end_when_the_run_has_another_driver(
    on_cluster: OnCluster, postgres_url: str
) -> None:
    """A driver that died leaves workers behind: they stop before the next one counts and begins."""
    ended: list[str] = []

    async def overtake(order: ShardJob) -> None:
        working = asyncio.create_task(work_shard(order))
        await until(lambda: server.busy)
        cache = Cache(postgres_url)
        assert await cache.within(end_orders(order.run))
        try:
            await working
        except ClusterError as error:
            ended.append(str(error))
        assert not await cache.within(end_orders(order.run))
        await cache.close()
        raise EndpointDown("overtaken")  # which ends the run

    async with FakeServer(latency=600) as server:
        with pytest.raises(EndpointDown, match="overtaken"):
            await on_cluster(recipe(server), Here(before=overtake))
    assert [words.endswith("the run was ended, or goes on elsewhere.") for words in ended] == [True]


async def test_what_cannot_be_on_a_cluster_is_refused_at_once(
    on_cluster: OnCluster, tmp_path: Path
) -> None:
    """A cache of one machine's, and batches, which need one process."""
    with pytest.raises(StoreError, match="--cache postgresql://"):
        await run(recipe(), outputs=tmp_path, engine=Here().engine)
    batched = recipe(model={"base_url": "http://127.0.0.1:9/v1", "mode": "batch"})
    with pytest.raises(RecipeError, match="mode: batch"):
        await on_cluster(batched)


@pytest.mark.parametrize(("kept", "away"), [("domains", {"queries", "tested"}), ("queries", set())])
async def test_records_that_name_files_stay_here(
    on_cluster: OnCluster, kept: str, away: set[str]
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
    await on_cluster(wanted, there, stages=stages)
    assert {order.stage.name for order in there.orders} == away
    apis = next(stage for stage in STAGES if stage.name == "apis")
    named = toys.recipe(apis={"sources": [{"path": "api.yaml"}]})
    assert apis.here
    assert (apis.here(wanted), apis.here(named)) == (False, True)


async def test_a_run_has_one_driver(
    on_cluster: OnCluster, tmp_path: Path, postgres_url: str
) -> None:
    """Another process that makes the same run elsewhere, with the same cache, is refused as long as
    the first one lives, which goes on; the table is empty afterwards."""
    refused: list[str] = []

    async def begin_again(order: Any) -> None:
        if not refused:
            refused.append("")
            with pytest.raises(Busy) as busy:
                await on_cluster(wanted, stages=toys.STAGES)
            refused[0] = str(busy.value)

    wanted = toys.recipe()
    await run(wanted, outputs=tmp_path / "alone", stages=toys.STAGES)
    await on_cluster(wanted, Here(before=begin_again), name="one", stages=toys.STAGES)
    assert refused[0].startswith(f"{wanted.run_id} is being made on a cluster already")
    assert files(tmp_path / "one") == files(tmp_path / "alone")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT * FROM run_orders").fetchall() == []


def end_connections(url: str) -> int:
    """The database ends every connection; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        asked = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        (ended,) = connection.execute(asked).fetchone() or (0,)
    return int(ended)


@pytest.mark.slow
async def test_lost_connections_lose_nothing(
    on_cluster: OnCluster, tmp_path: Path, postgres_url: str
) -> None:
    """The database ends every connection while shards are under way: it is connected to again, and
    no answer that it has is asked for twice."""
    ended: list[int] = []

    async def end_all() -> None:
        await asyncio.sleep(0.3)
        ended.append(end_connections(postgres_url))

    async def begin(order: Any) -> None:
        if order.stage.name == "dialogues" and not ending:
            ending.append(asyncio.create_task(end_all()))

    ending: list[asyncio.Task[None]] = []
    async with FakeServer(latency=0.05) as server:
        there, wanted = Here(before=begin), recipe(server)
        await run(wanted, outputs=tmp_path / "one")
        await on_cluster(wanted, there)
        assert server.repeats == server.received / 2
    await asyncio.gather(*ending)
    assert ended[0] > 1
    assert files(tmp_path / "one") == files(tmp_path / "two")


@dataclass(frozen=True)
class Replaced:
    """Settles domains while the driver loses its connection and another process begins."""

    database: str
    run: str

    def __call__(self, records: Sequence[Any]) -> Outcome:
        end_connections(self.database)
        until = time.monotonic() + 60
        while not (other := Hold(self.database, (f"run {self.run}",))).take():
            end_connections(self.database)  # the driver was quicker
            assert time.monotonic() < until
        OTHERS.append(other)
        return toys.drop_the_first(records)


OTHERS: list[Hold] = []


async def test_a_driver_that_was_replaced_says_so(on_cluster: OnCluster, postgres_url: str) -> None:
    """It was cut off for so long that another process has begun: its own run ends, with the
    reason."""
    wanted = toys.recipe()
    domains, *others = toys.STAGES
    replaced = Replaced(postgres_url, wanted.run_id)
    stages = [dataclasses.replace(domains, settle=replaced), *others]
    try:
        with pytest.raises(Busy, match=f"{wanted.run_id} is being made on a cluster already"):
            await on_cluster(wanted, stages=stages)
    finally:
        OTHERS.pop().close()


def limited(**changes: Any) -> Recipe:
    return toys.recipe(model={"base_url": "http://127.0.0.1:9/v1", "model": "m", **changes})


@pytest.mark.parametrize("name", ["concurrency", "requests_per_minute", "tokens_per_minute"])
def test_shares_add_up(name: str) -> None:
    """All shares of a limit are the limit, whatever the number of workers: the model's, an agent's
    own and that of search."""
    model = {"base_url": "http://127.0.0.1:9/v1", "model": "m"}
    recipe = toys.recipe(
        model={**model, name: 40_003},
        agents={"tester": {name: 16, "model": "judge"}},
        search={"embeddings": {**model, name: 9}},
    )
    limits = [(endpoint.model, getattr(endpoint, name)) for endpoint in recipe.endpoints]
    for shares in (1, 2, 7):
        parts = [share_of(recipe, share, shares) for share in range(shares)]
        each = zip(*(part.endpoints for part in parts), strict=True)
        assert [(some[0].model, sum(getattr(e, name) for e in some)) for some in each] == limits
        assert {part.run_id for part in parts} == {recipe.run_id}


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"concurrency": 5}, 5),
        ({"requests_per_minute": 3}, 3),
        ({"tokens_per_minute": 80_000}, 2),
        ({"tokens_per_minute": 100}, 1),
        ({"base_url": "local", "concurrency": 5}, None),
    ],
)
def test_no_share_is_too_small_for_a_request(limits: dict[str, Any], most: int | None) -> None:
    """There are no more workers than each limit has parts; an embedded model is not shared, as each
    worker starts one of its own."""
    recipe = limited(**limits)
    assert most_shares(recipe) == most
    if most is None:
        assert share_of(recipe, 1, 4).endpoint("query") == recipe.endpoint("query")


def test_a_slot_remembers_what_left_within_the_minute() -> None:
    """The next worker of a share begins with what the last one sent; after a lost one, with all
    that may have been sent."""
    slot = WorkerShare(limited(requests_per_minute=60))
    key = ("http://127.0.0.1:9/v1", "OPENAI_API_KEY", "m")
    slot.remember({key: {"requests": ((50.0, 2.0), (3.0, 1.0))}})
    (old, new) = slot.recall()[key]["requests"]
    assert (round(old[0]), old[1], round(new[0]), new[1]) == (50, 2.0, 3, 1.0)
    slot.lose()
    ((ago, amount),) = slot.recall()[key]["requests"]
    assert (round(ago), amount) == (0, 60.0)


COSTS = (0.1, 0.7, 0.2, 0.0003, 0.019)  # their sums depend on how they are grouped


async def ask_thrice(query: Query, context: Context) -> Outcome:
    """Some queries become three, others none."""
    number = int(query.id[1:])
    if number in range(4, 8):  # a whole shard
        return Outcome((), (toys.rejected(query, "queries", Reason.VALUE_NOT_MENTIONED),))
    copies = (query.model_copy(update={"id": f"q{number}{n}"}) for n in range(number % 4))
    return Outcome(tuple(copies))


async def verdict_dearly(query: Query, context: Context) -> Outcome:
    cost = COSTS[int(query.id[1:]) % len(COSTS)]
    paid = toys.share("tested", query.id).model_copy(update={"cost": cost})
    sample: Sample = toys.sample(query).model_copy(update={"provenance": (paid,)})
    return Outcome((sample,))


async def test_costs_are_the_same_wherever_they_are_added_up(
    tmp_path: Path, postgres_url: str
) -> None:
    """A record may become several, whose costs are no round numbers, and a shard may come to
    nothing: markers are the same on a cluster, and where a run went on."""
    domains, queries, tested = toys.STAGES
    stages = (
        domains,
        dataclasses.replace(queries, work=ask_thrice),
        dataclasses.replace(tested, work=verdict_dearly),
    )

    async def made(name: str, **more: Any) -> dict[str, bytes]:
        await run(toys.recipe(), outputs=tmp_path / name, stages=stages, **more)
        return files(tmp_path / name)

    here = await made("here")
    assert await made("there", cache=postgres_url, engine=Here().engine) == here
    (folder,) = (tmp_path / "here" / "runs").iterdir()
    for path in (folder / "tested").iterdir():
        path.unlink()
    assert await made("here") == here
