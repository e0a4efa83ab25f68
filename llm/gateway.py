"""The gateway: every model of a run, behind one cache and one set of limits."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias

from toolloom.llm.batch_jobs import BatchPurse, Pace
from toolloom.llm.budget import Spending
from toolloom.llm.cache import Cache
from toolloom.llm.client import Client
from toolloom.llm.connection import CONNECTIONS, Connection, Route
from toolloom.llm.embeddings import Embedder
from toolloom.llm.faults import CHAT, EMBEDDINGS
from toolloom.llm.limits import ConcurrencyLimit, Past, Quota
from toolloom.llm.local import LocalServer
from toolloom.llm.log import WORK
from toolloom.llm.model import Model, Shared
from toolloom.schemas import Budget, Endpoint, Price, Usage
from toolloom.schemas.endpoint import public

BESIDE_BATCHES = 32
GRACE = 1.0  # seconds for answers that are under way when a run ends early

Pasts: TypeAlias = dict[tuple[str, str, str], Past]
"""What left within the last minute, by address, variable of the key, and model."""


class Gateway:
    """Opens models. `async with` it: it holds connections, a database and perhaps a server."""

    def __init__(
        self,
        cache: str | Path | Cache,
        *,
        prices: Mapping[str, Price] | None = None,
        budget: Budget | None = None,
        run: str = "",
        pace: Pace = Pace(),  # noqa: B008 - it is frozen
        purse: Spending | None = None,
        pasts: Pasts | None = None,
    ) -> None:
        """`cache`: the path of a SQLite file, a SQLAlchemy URL, or an open cache.

        `budget` is for all that `run` ever used, in this process or before; `pace` is that of
        batches. One of several processes is given its part of the budget as `purse`, and what
        left elsewhere under its limits as `pasts`. Raises StoreError.
        """
        self.cache = cache if isinstance(cache, Cache) else Cache(cache)
        self._budget = budget or Budget()
        self.purse = purse or Spending(self._budget, Usage())
        prices = dict(prices or {})
        batch_purse = BatchPurse(self.purse, prices)
        self._shared = Shared(self.cache, prices, run, pace, batch_purse)
        self.stats = self._shared.stats
        self._models: dict[Endpoint, Model] = {}
        self._embedders: dict[Endpoint, Embedder] = {}
        self._lanes: dict[tuple[str, str], ConcurrencyLimit] = {}
        self._pasts = dict(pasts or {})
        self._quotas: dict[tuple[str, str, str], Quota] = {}
        self._local: dict[str, LocalServer] = {}  # by path: one server does not do both well
        self._clients: dict[tuple[Endpoint, str], Client] = {}
        self._opening: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def __aenter__(self) -> Self:
        if self._budget != Budget():
            shared = self._shared
            self.purse.spent = await self.cache.spent(shared.run)
            await shared.batch_purse.begin(self.cache, shared.run)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            wire = self._shared.wire
            flights: set[asyncio.Task[Any]] = {
                *self._shared.flights.values(),
                *self._shared.embeddings,
            }
            for flight in flights - wire:
                flight.cancel()
            try:  # what was sent has a moment for its answer: it is paid for
                if flights & wire:
                    await asyncio.wait(flights & wire, timeout=GRACE)
            finally:
                for flight in flights:
                    flight.cancel()
                await asyncio.gather(*flights, return_exceptions=True)
        finally:  # also of those who are stopped once more and do not wait for what is under way
            for batcher in self._shared.batchers.values():
                await batcher.close()
            for client in self._clients.values():
                await client.close()
            for server in self._local.values():
                await asyncio.to_thread(server.stop)
            await self.cache.close()

    def model(self, endpoint: Endpoint) -> Model:
        """The model behind an endpoint, always the same one; nothing is sent yet."""
        if endpoint not in self._models:
            self.limit(endpoint)
            opening = partial(self._open, endpoint, CHAT)
            self._models[endpoint] = Model(endpoint, self._shared, opening)
        return self._models[endpoint]

    def embedder(self, endpoint: Endpoint) -> Embedder:
        """The embeddings of an endpoint, always the same ones; nothing is sent yet."""
        if endpoint not in self._embedders:
            self.limit(endpoint)
            opening = partial(self._open, endpoint, EMBEDDINGS)
            self._embedders[endpoint] = Embedder(endpoint, self._shared, opening)
        return self._embedders[endpoint]

    @property
    def pasts(self) -> Pasts:
        """What left within the last minute, of what is limited."""
        return {limited: past for limited, q in self._quotas.items() if (past := q.past)}

    async def _lose(self, lost: Usage) -> None:
        """Book a try without an answer on the run that made it."""
        run = WORK.get().run or self._shared.run
        await self.cache.lose(run, lost)

    def limit(self, endpoint: Endpoint) -> None:
        """Heed an endpoint's limits, which hold for all that share its address or model."""
        # In batch mode `concurrency` is for batches; what has to be asked at once keeps to this.
        at_once = min(endpoint.concurrency, BESIDE_BATCHES if endpoint.batched else CONNECTIONS)
        for way in self._ways(endpoint, endpoint.base_url):
            way.lane.allow(at_once)
            way.quota.allow(endpoint.requests_per_minute, endpoint.tokens_per_minute)

    async def _open(self, endpoint: Endpoint, path: str) -> Client:
        """The client to one path of an endpoint, opened when it is first needed: so is the
        embedded model's server started."""
        if client := self._clients.get((endpoint, path)):
            return client
        async with self._opening[endpoint.base_url]:
            if (endpoint, path) not in self._clients:
                address = endpoint.base_url
                if endpoint.local:
                    if path not in self._local:
                        server = LocalServer(embeddings=path == EMBEDDINGS)
                        await asyncio.to_thread(server.start)
                        self._local[path] = server
                    address = self._local[path].base_url
                lines = [
                    Connection(endpoint, way, path, self.purse, self._shared.wire, self._lose)
                    for way in self._ways(endpoint, address)
                ]
                self._clients[endpoint, path] = Client(
                    endpoint, lines, self.stats.retried, self._shared.price(endpoint)
                )
        return self._clients[endpoint, path]

    def _ways(self, endpoint: Endpoint, base_url: str) -> list[Route]:
        """Where the endpoint can be asked: its own address, which is `base_url`, and replicas."""
        ways = []
        for address, key_env in endpoint.places:
            lane = self._lanes.setdefault((address, key_env), ConcurrencyLimit(public(address)))
            limited = (address, key_env, endpoint.model)
            quota = self._quotas.setdefault(limited, Quota(self._pasts.get(limited)))
            where = base_url if address == endpoint.base_url else address
            ways.append(Route(where, key_env, lane, quota))
        return ways
