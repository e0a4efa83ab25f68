"""Shards on other machines: what goes to a worker, what comes back, and who may use what.

The driver is the process that makes a run. It gives out a shard of a stage as a `ShardJob`, with a
share of the run's limits and an allowance of its budget, and writes what comes back. Workers share
nothing with it but the response cache, which is a PostgreSQL database then. There a run has one
driver at a time, which holds the run's name for as long as its connection lives; and an order is
good for one worker once: engines run an order again when they think that its first worker died,
and what that one used is known to nobody but the database. Workers end what they do as soon as
their driver is gone, or their run has another.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import uuid4

from toolloom.llm import Gateway
from toolloom.llm.budget import Spending
from toolloom.llm.cache import Cache
from toolloom.llm.database import (
    POSTGRESQL,
    Hold,
    address_of,
    begin_order,
    driver_name,
    end_orders,
    is_wanted,
)
from toolloom.llm.gateway import GRACE, Pasts
from toolloom.llm.limits import WINDOW, Past
from toolloom.llm.model import Stats
from toolloom.pipeline.stage import Context, ShardPart, Stage, work_on
from toolloom.pipeline.stage import check as check_stages
from toolloom.schemas import (
    Budget,
    BudgetReached,
    Busy,
    ClusterError,
    Endpoint,
    JsonObject,
    Recipe,
    RecipeError,
    Record,
    StoreError,
    ToolloomError,
    Usage,
)

T = TypeVar("T")

NOTHING = Usage()
POLL = 0.5  # seconds between two looks of a worker whether its work is still wanted
BEAT = 1.0  # seconds between two looks of a driver whether it still holds its run
ABSENT = 10.0  # seconds in which a driver that lost its connection has another
ENDING = 2 * POLL + 2 * GRACE  # seconds in which a dead driver's workers end
LOSSES = 5  # workers that one shard may lose
# A minute, for a share. More than a share is sent when nothing else was within the minute, and
# then by each worker; a request is guessed at its prompt and all it may be answered.
LEAST_TOKENS = 32_768
TAKEN = (
    "{} is being made on a cluster already, by another process with the same response cache. Wait "
    "until it is finished, or end it: its answers are used."
)


def check(recipe: Recipe, cache: object) -> None:
    """Raises StoreError or RecipeError if a run cannot be on a cluster."""
    if address_of(str(cache)).get_backend_name() != POSTGRESQL:
        raise StoreError(
            "On a cluster the response cache must be a PostgreSQL database, which all workers "
            "share: --cache postgresql://user:password@host:5432/database, or the same in the "
            "environment variable TOOLLOOM_CACHE. `toolloom cache export URL` brings over what a "
            "file holds."
        )
    if any(endpoint.batched for endpoint in recipe.endpoints):
        raise RecipeError(
            "mode: batch has no use for a cluster, as one process can wait for all batches. Leave "
            "out --engine, or set `mode: direct`."
        )


class WorkerLost(Exception):
    """The worker that had an order is no more, and so is what it made."""


@dataclass(frozen=True, eq=False)
class ShardJob:
    """A shard of a stage, for one worker. What may hold a secret, or is long, is not shown."""

    id: str
    driver: str
    run: str
    shard: int
    stage: Stage = field(repr=False)
    records: Sequence[Any] = field(repr=False)
    reads: type[Record] | None = field(repr=False)  # what the records are, if they are lines
    recipe: Recipe = field(repr=False)  # with the limits of this worker's share
    cache: str = field(repr=False)
    budget: Budget = field(repr=False)
    pasts: Pasts = field(repr=False)
    code: str = field(repr=False)
    worlds: Sequence[JsonObject] = field(default=(), repr=False)  # those that no file holds

    def entering(self) -> list[Record]:
        """The records, as if off the disk where they are lines."""
        if self.reads is None:
            return list(self.records)
        return [self.reads.model_validate(json.loads(line)) for line in self.records]

    def __dask_tokenize__(self) -> str:
        """Its name, so that Dask does not read all of it for one."""
        return self.id


@dataclass(frozen=True)
class ShardResult:
    """What became of an order. No `part`: its worker died, it was begun before, or
    `short` found no room."""

    part: ShardPart | None = None
    stats: Stats = field(default_factory=Stats)
    used: Usage = NOTHING
    pasts: Pasts = field(default_factory=dict)
    short: Usage | None = None  # a request that did not fit into what was allotted
    lost: str = ""  # how the worker died, in the engine's words


class Cluster(Protocol):
    """Machines that work on orders, one in each slot at a time."""

    def slots(self) -> int:
        """How many orders can be worked on at once."""

    async def work(self, order: ShardJob) -> ShardResult:
        """Have it done. Raises what the worker raised, WorkerLost, and ClusterError."""


KnownWorlds: TypeAlias = Callable[[], Iterable[JsonObject]]
Engine: TypeAlias = Callable[[], AbstractAsyncContextManager[Cluster]]
"""Starts a cluster, or finds one."""


@cache
def code() -> str:
    """What decides a dataset's bytes: the code, as its manifest names it, and the Python."""
    from toolloom.pipeline.dataset.publish import code_hash

    return f"{code_hash()} on Python {sys.version_info.major}.{sys.version_info.minor}"


@dataclass
class WorkerShare:
    """A share of the limits, and what left under it within the last minute."""

    recipe: Recipe
    pasts: dict[tuple[str, str, str], tuple[float, Any]] = field(default_factory=dict)

    def remember(self, pasts: Pasts) -> None:
        now = time.monotonic()
        self.pasts.update({known: (now, past) for known, past in pasts.items()})

    def recall(self) -> Pasts:
        """What left, with its age by now."""
        now = time.monotonic()
        return {
            known: {
                name: tuple(
                    (ago + now - told, amount) for ago, amount in past if ago + now - told < WINDOW
                )
                for name, past in pasts.items()
            }
            for known, (told, pasts) in self.pasts.items()
        }

    def lose(self) -> None:
        """Nobody knows what left: at most as much as may within a minute."""
        for endpoint in self.recipe.endpoints:
            limits = {
                "requests": endpoint.requests_per_minute,
                "tokens": endpoint.tokens_per_minute,
            }
            full: Past = {name: ((0.0, float(most)),) for name, most in limits.items() if most}
            if full:
                self.remember({(*p, endpoint.model): full for p in endpoint.places})


class Driver:
    """This process's hold of a run, in the cache's database."""

    def __init__(self, cache: str, run: str) -> None:
        self.id = uuid4().hex
        self._hold = Hold(cache, (f"run {run}", driver_name(self.id)))
        self._alone = asyncio.Lock()

    async def drives(self) -> bool:
        """Whether it drives the run: as before, or now if nobody else does. Raises StoreError."""
        async with self._alone:
            if await asyncio.to_thread(self._hold.lives):
                return True
            return await asyncio.to_thread(self._hold.take)

    async def keep(self) -> None:
        """Take hold again wherever the connection is lost; the driver's workers wait that long."""
        while True:
            await asyncio.sleep(BEAT)
            with suppress(StoreError):  # it waited for the database as long as others do
                await self.drives()

    async def end(self) -> None:
        async with self._alone:
            await asyncio.to_thread(self._hold.close)


class Dispatcher:
    """Has shards done on a cluster. Made by `dispatcher`."""

    def __init__(
        self, cluster: Cluster, recipe: Recipe, cache: str, gateway: Gateway, known: KnownWorlds
    ) -> None:
        self._cluster = cluster
        self._recipe = recipe
        self._cache = cache
        self._gateway = gateway
        self._known = known
        self.driver = Driver(cache, recipe.run_id)
        shares = min(cluster.slots(), most_shares(recipe) or cluster.slots())
        self.slots = max(1, shares)
        sent_here = {  # a part for each, of what this process sent itself
            place: {
                name: tuple((ago, n / self.slots) for ago, n in some) for name, some in p.items()
            }
            for place, p in gateway.pasts.items()
        }
        self._free: asyncio.LifoQueue[WorkerShare] = asyncio.LifoQueue()
        for share in range(self.slots):
            slot = WorkerShare(share_of(recipe, share, self.slots))
            slot.remember(sent_here)
            self._free.put_nowait(slot)
        self._numbers = count()

    async def work(
        self, stage: Stage, shard: int, records: Sequence[Any], reads: type[Record] | None
    ) -> ShardPart:
        """What becomes of a shard's records, or of their lines, which are of the type `reads`.

        Raises BudgetReached, ClusterError, and what else a worker raises.
        """
        if not records:
            return ShardPart(0, [], [], [])
        parts, losses, lost = self.slots, 0, ""
        purse, run = self._gateway.purse, self._recipe.run_id
        while losses < LOSSES:
            slot = await self._free.get()
            try:
                if parts > 1:
                    allotted = await purse.allot(parts)
                else:
                    allotted = await purse.allot_all(lambda: self._gateway.cache.spent(run))
                done = await self._send(stage, shard, records, reads, slot, allotted)
            finally:
                self._free.put_nowait(slot)
            if done.part is not None:
                return done.part
            if done.short is None:
                losses += 1
                lost = done.lost or lost
            elif parts == 1:
                raise purse.reached(done.short)
            else:
                parts = 1
        raise ClusterError(
            f"{stage.name}, shard {shard}: its worker died {LOSSES} times"
            f"{lost and f' ({lost})'}. Give workers more memory, or make `shard_size` smaller; "
            "what was answered is kept."
        )

    async def _send(
        self,
        stage: Stage,
        shard: int,
        records: Sequence[Any],
        reads: type[Record] | None,
        slot: WorkerShare,
        allotted: Usage,
    ) -> ShardResult:
        """Have it tried once; book what that took."""
        order = ShardJob(
            id=f"{self.driver.id}-{next(self._numbers)}",
            driver=self.driver.id,
            run=self._recipe.run_id,
            shard=shard,
            stage=stage,
            records=records,
            reads=reads,
            recipe=slot.recipe,
            cache=self._cache,
            budget=self._limited(allotted),
            pasts=slot.recall(),
            code=code(),
            worlds=tuple(self._known()),
        )
        used: Usage | None = None
        try:
            if not await self.driver.drives():  # it may have lost its connection, and another began
                raise Busy(TAKEN.format(self._recipe.run_id))
            done = await self._cluster.work(order)
            if done.part or done.short:
                used = done.used
        except WorkerLost as error:
            done = ShardResult(lost=" ".join(str(error).split()))
        finally:
            # All of it counts as used where nobody knows.
            self._gateway.purse.settle(allotted, allotted if used is None else used)
        self._gateway.stats.add(done.stats)
        if used is None:
            slot.lose()
        slot.remember(done.pasts)
        return done

    def _limited(self, allotted: Usage) -> Budget:
        """What was allotted, of that which has a limit: a budget that may be nothing."""
        whole = self._recipe.budget
        return Budget.model_construct(
            max_cost=None if whole.max_cost is None else allotted.cost,
            max_tokens=None if whole.max_tokens is None else allotted.tokens,
            max_requests=None if whole.max_requests is None else allotted.requests,
        )


@asynccontextmanager
async def dispatcher(
    cluster: Cluster,
    recipe: Recipe,
    cache: str,
    gateway: Gateway,
    known: KnownWorlds = tuple,
) -> AsyncIterator[Dispatcher]:
    """A run's dispatcher; when the block ends, workers that are still at work stop. `known`: the
    worlds of the run, which workers cannot read.

    Raises Busy if another process drives the run.
    """
    made, run = Dispatcher(cluster, recipe, cache, gateway, known), recipe.run_id
    if not await made.driver.drives():
        raise Busy(TAKEN.format(run))
    keeping = asyncio.create_task(made.driver.keep())
    try:
        # Were there any, a driver died: its workers are ending.
        if await gateway.cache.within(end_orders(run)):
            await asyncio.sleep(ENDING)
            gateway.purse.spent = await gateway.cache.spent(run)
        yield made
    finally:
        keeping.cancel()
        with suppress(StoreError):  # what ended the run is told; workers end by themselves
            if await made.driver.drives():
                await gateway.cache.within(end_orders(run))
        await made.driver.end()


def most_shares(recipe: Recipe) -> int | None:
    """How many workers can have a share of every limit; None: any number."""
    limits: list[int | None] = []
    for each in recipe.endpoints:
        if not each.local:
            tokens = each.tokens_per_minute
            limits += [each.concurrency, each.requests_per_minute]
            limits += [tokens and max(1, tokens // LEAST_TOKENS)]
    return min((limit for limit in limits if limit), default=None)


def share_of(recipe: Recipe, share: int, shares: int) -> Recipe:
    """The recipe with the limits of one share, counted from 0. Its run stays the same."""
    model = recipe.model.model_copy(update=_limits(recipe.model, share, shares))
    agents = {
        agent: {**changes, **_limits(recipe.endpoint(agent), share, shares)}
        for agent, changes in recipe.agents.items()
    }
    search = recipe.search
    if embeds := search.embeddings:
        embeds = embeds.model_copy(update=_limits(embeds, share, shares))
        search = search.model_copy(update={"embeddings": embeds})
    return recipe.model_copy(update={"model": model, "agents": agents, "search": search})


def _limits(endpoint: Endpoint, share: int, shares: int) -> dict[str, int]:
    """Nothing of an embedded model's: each worker has one of its own."""
    if endpoint.local:
        return {}
    names = ("concurrency", "requests_per_minute", "tokens_per_minute")
    limits = {name: getattr(endpoint, name) for name in names}
    return {
        name: limit // shares + (share < limit % shares)
        for name, limit in limits.items()
        if limit is not None
    }


async def work_shard(order: ShardJob) -> ShardResult:
    """Do an order. Raises ToolloomError, which names this worker."""
    failed: Exception
    try:
        return await _work_shard(order)
    except ToolloomError as error:
        where = f"{socket.gethostname()}, process {os.getpid()}"
        failed = type(error)(f"On the worker {where}: {error}")
    except Exception as error:  # noqa: BLE001 - it is raised below
        failed = RuntimeError("".join(traceback.format_exception(error)))
    raise failed  # here, so that nothing hangs on it that cannot travel


async def _work_shard(order: ShardJob) -> ShardResult:
    if code() != order.code:
        raise ClusterError(
            "its toolloom or its Python is not that of the run, and would make other bytes. "
            "Install the same version on every machine."
        )
    purse = Spending(order.budget, NOTHING)
    gateway = Gateway(
        order.cache, prices=order.recipe.prices, run=order.run, purse=purse, pasts=order.pasts
    )
    part: ShardPart | None = None
    async with gateway:
        if not await gateway.cache.within(begin_order(order.id, order.run, order.driver)):
            await _check(gateway.cache, order)
            return ShardResult()
        check_stages([order.stage], order.recipe)
        for endpoint in order.recipe.endpoints:  # some share an address, and so its limits
            gateway.limit(endpoint)
        context = Context.of(order.recipe, gateway, lambda: order.worlds)
        work = work_on(order.stage, order.entering(), context, order.run, lambda *_: None)
        with suppress(BudgetReached):  # the driver knows whether there is room elsewhere
            part = await _while_wanted(work, gateway.cache, order)
    short = purse.refused if part is None else None
    return ShardResult(part, gateway.stats, purse.spent, gateway.pasts, short)


async def _while_wanted(work: Coroutine[Any, Any, T], cache: Cache, order: ShardJob) -> T:
    """The result of work, which ends once the driver is gone."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=POLL))[0]:
            await _check(cache, order)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check(cache: Cache, order: ShardJob) -> None:
    """Raises ClusterError if nobody waits for an order, after some time for its driver to have
    another connection."""
    until = time.monotonic() + ABSENT
    while (wanted := await cache.within(is_wanted(order.id, order.driver))) is not True:
        if wanted is False or time.monotonic() > until:
            raise ClusterError("the run was ended, or goes on elsewhere.")
        await asyncio.sleep(POLL)
