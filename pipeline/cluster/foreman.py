"""The driver's side: gives out the shards of a run as orders, within the run's limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from toolloom.llm import Gateway
from toolloom.llm.database import POSTGRESQL, address_of
from toolloom.llm.gateway import GRACE, Pasts
from toolloom.llm.lease import Lease
from toolloom.llm.quota import WINDOW, Past
from toolloom.pipeline.cluster.order import Cluster, Done, Order, WorkerLost, code
from toolloom.pipeline.cluster.shares import most_shares, share_of
from toolloom.pipeline.cluster.worker import POLL
from toolloom.pipeline.shard import Part
from toolloom.pipeline.stage import Stage
from toolloom.schemas import (
    Budget,
    Busy,
    ClusterError,
    Recipe,
    RecipeError,
    Record,
    StoreError,
    Usage,
)

BEAT = 5.0  # seconds between two signs of life
LATE = 1.0  # seconds that one may be late
ENDING = 2 * POLL + 2 * GRACE  # seconds in which a dead driver's workers end
LOSSES = 5  # workers that one shard may lose
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


@dataclass
class Slot:
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


class Foreman:
    """Has shards done on a cluster. Made by `foreman`."""

    def __init__(self, cluster: Cluster, recipe: Recipe, cache: str, gateway: Gateway) -> None:
        self._cluster = cluster
        self._recipe = recipe
        self._cache = cache
        self._gateway = gateway
        self.lease = Lease(gateway.cache, recipe.run_id, uuid4().hex)
        shares = min(cluster.slots(), most_shares(recipe) or cluster.slots())
        self.slots = max(1, shares)
        self._free: asyncio.LifoQueue[Slot] = asyncio.LifoQueue()
        for share in range(self.slots):
            slot = Slot(share_of(recipe, share, self.slots))
            slot.remember(_parted(gateway.pasts, self.slots))
            self._free.put_nowait(slot)
        self._numbers = iter(range(10**12))

    async def work(
        self, stage: Stage, shard: int, records: Sequence[Any], reads: type[Record] | None
    ) -> Part:
        """What becomes of a shard's records, or of their lines, which are of the type `reads`.

        Raises BudgetReached, ClusterError, and what else a worker raises.
        """
        if not records:
            return Part(0, [], [], [])
        parts, losses, lost = self.slots, 0, ""
        while losses < LOSSES:
            slot = await self._free.get()
            try:
                allotted = await self._allot(parts)
                done = await self._send(stage, shard, records, reads, slot, allotted)
            finally:
                self._free.put_nowait(slot)
            if done.part is not None:
                return done.part
            if done.short is None:
                losses += 1
                lost = done.lost or lost
            elif parts == 1 and self._gateway.purse:
                raise self._gateway.purse.reached(done.short)
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
        slot: Slot,
        allotted: Usage,
    ) -> Done:
        """Have it tried once; book what that took."""
        order = Order(
            id=f"{self.lease.driver}-{next(self._numbers)}",
            driver=self.lease.driver,
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
        )
        used: Usage | None = None
        try:
            if not await self.lease.beat():  # it may have stood still for longer than others wait
                raise Busy(TAKEN.format(self._recipe.run_id))
            done = await self._cluster.work(order)
            if done.part or done.short:
                used = done.used
        except WorkerLost as error:
            done = Done(lost=" ".join(str(error).split()))
        finally:
            self._settle(allotted, used)
        self._gateway.stats.add(done.stats)
        if used is None:
            slot.lose()
        slot.remember(done.pasts)
        return done

    async def _allot(self, parts: int) -> Usage:
        purse = self._gateway.purse
        if purse is None:
            return Usage()
        if parts > 1:
            return await purse.allot(parts)
        run = self._recipe.run_id
        return await purse.allot_all(lambda: self._gateway.cache.spent(run))

    def _settle(self, allotted: Usage, used: Usage | None) -> None:
        """All that was allotted counts as used where nobody knows."""
        if purse := self._gateway.purse:
            purse.settle(allotted, allotted if used is None else used)

    def _limited(self, allotted: Usage) -> Budget:
        """What was allotted, of that which has a limit: a budget that may be nothing."""
        whole = self._recipe.budget
        return Budget.model_construct(
            max_cost=None if whole.max_cost is None else allotted.cost,
            max_tokens=None if whole.max_tokens is None else allotted.tokens,
            max_requests=None if whole.max_requests is None else allotted.requests,
        )


def _parted(pasts: Pasts, parts: int) -> Pasts:
    """A part of what this process sent itself."""
    return {
        known: {name: tuple((ago, n / parts) for ago, n in some) for name, some in past.items()}
        for known, past in pasts.items()
    }


@asynccontextmanager
async def foreman(
    cluster: Cluster, recipe: Recipe, cache: str, gateway: Gateway
) -> AsyncIterator[Foreman]:
    """A run's foreman; when the block ends, workers that are still at work stop.

    Raises Busy if another process drives the run.
    """
    made = Foreman(cluster, recipe, cache, gateway)
    if before := await made.lease.other():
        await asyncio.sleep(BEAT + LATE)
        if await made.lease.other() not in (None, before):
            raise Busy(TAKEN.format(recipe.run_id))
    if await made.lease.take():
        await asyncio.sleep(ENDING)
        if purse := gateway.purse:
            purse.recount(await gateway.cache.spent(recipe.run_id))
    beating = asyncio.create_task(_beat(made.lease))
    try:
        yield made
    finally:
        beating.cancel()
        with suppress(StoreError):  # what ended the run is told; workers end by themselves
            await made.lease.drop()


async def _beat(lease: Lease) -> None:
    while True:
        await asyncio.sleep(BEAT)
        with suppress(StoreError):  # it waited for the database as long as others do
            await lease.beat()
