"""A cluster that is the test's own process, which hands orders over as bytes; runs for it."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from support import toys
from toolloom.llm import FakeServer
from toolloom.pipeline.cluster import ShardJob, ShardResult, work_shard
from toolloom.schemas import Recipe, parse_recipe

Open = Callable[[], AbstractAsyncContextManager[Any]]


class Here:
    """A cluster of workers in this process. `before` is awaited with each order."""

    def __init__(self, slots: int = 2, before: Any = None) -> None:
        self.count, self.before = slots, before
        self.orders: list[ShardJob] = []
        self.sent: list[bytes] = []

    def slots(self) -> int:
        return self.count

    async def work(self, order: ShardJob) -> ShardResult:
        body = pickle.dumps(order)
        self.orders.append(order)
        self.sent.append(body)
        if self.before:
            await self.before(order)
        return await work_shard(pickle.loads(body))

    @property
    def engine(self) -> Open:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Here]:
            yield self

        return opened


def recipe(server: FakeServer | None = None, **changes: Any) -> Recipe:
    model = {"model": "fake", "concurrency": 8, "base_url": server.base_url if server else "local"}
    fields = {
        "name": "whole",
        "model": {**model, **changes.pop("model", {})},
        "apis": {"domains": 4, "per_domain": 2, "worlds": False},
        "queries": {"count": 12},
        "shard_size": 4,
        "splits": toys.ALL_IN_TRAIN,
    }
    return parse_recipe({**fields, **changes}, "a recipe")


def files(outputs: Path) -> dict[str, bytes]:
    found = (p for p in (outputs / "runs").rglob("*") if p.is_file())
    return {str(p.relative_to(outputs)): p.read_bytes() for p in found}
