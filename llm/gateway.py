"""The gateway: every model of a run, behind one cache and one set of limits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from toolloom.llm.batch import Batcher, Pace
from toolloom.llm.batch_purse import BatchPurse
from toolloom.llm.budget import Purse
from toolloom.llm.cache import Cache
from toolloom.llm.embeddings import Embedder
from toolloom.llm.faults import CHAT, EMBEDDINGS
from toolloom.llm.lane import Lane
from toolloom.llm.line import CONNECTIONS, Line, Way
from toolloom.llm.lines import Lines
from toolloom.llm.local import LocalServer
from toolloom.llm.log import WORK
from toolloom.llm.model import Model
from toolloom.llm.quota import Past, Quota
from toolloom.llm.wire import Reply
from toolloom.schemas import Budget, Endpoint, Price, Usage
from toolloom.schemas.endpoint import public

BESIDE_BATCHES = 32
GRACE = 1.0  # seconds for answers that are under way when a run ends early

Pasts: TypeAlias = dict[tuple[str, str, str], Past]
"""What left within the last minute, by address, variable of the key, and model."""


@dataclass
class Stats:
    """What this process really asked and paid for.

    Answers from the cache count as `cached`, among them each text whose embedding was there;
    `embedded` are the texts whose embedding was not.
    """

    asked: int = 0
    cached: int = 0
    embedded: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    def retried(self) -> None:
        self.retries += 1

    def add(self, other: Stats) -> None:
        """Count what another process asked and paid for."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


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
        purse: Purse | None = None,
        pasts: Pasts | None = None,
    ) -> None:
        """`cache`: the path of a SQLite file, a SQLAlchemy URL, or an open cache.

        `budget` is for all that `run` ever used, in this process or before; `pace` is that of
        batches. One of several processes is given its part of the budget as `purse`, and what
        left elsewhere under its limits as `pasts`. Raises StoreError.
        """
        self.stats = Stats()
        self.cache = cache if isinstance(cache, Cache) else Cache(cache)
        self.prices = dict(prices or {})
        self._budget, self._run = budget or Budget(), run
        self._pace = pace
        self.purse = purse
        self._batch_purse = BatchPurse(None, {})
        self._batchers: dict[tuple[str, str], Batcher] = {}
        self._unmetered: set[tuple[str, str]] = set()  # models that tell no tokens
        self._models: dict[Endpoint, Model] = {}
        self._embedders: dict[Endpoint, Embedder] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._pasts = dict(pasts or {})
        self._quotas: dict[tuple[str, str, str], Quota] = {}
        self._local: dict[str, LocalServer] = {}  # by path: one server does not do both well
        self._starting = asyncio.Lock()
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._embeddings: set[asyncio.Task[Any]] = set()  # flights too
        self._wire: set[asyncio.Task[Any] | None] = set()

    async def __aenter__(self) -> Self:
        if self._budget != Budget():
            self.purse = Purse(self._budget, await self.cache.spent(self._run))
            self._batch_purse = BatchPurse(self.purse, self.prices)
            await self._batch_purse.begin(self.cache, self._run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self._land()
        finally:  # also of those who are stopped once more and do not wait for what is under way
            await self._close()

    async def _close(self) -> None:
        users: list[Model | Embedder] = [*self._models.values(), *self._embedders.values()]
        for opened in (*self._batchers.values(), *users):
            await opened.close()
        for server in self._local.values():
            await asyncio.to_thread(server.stop)
        await self.cache.close()

    async def _land(self) -> None:
        """End what is under way. What was sent has a moment for its answer: it is paid for."""
        flights: set[asyncio.Task[Any]] = {*self._flights.values(), *self._embeddings}
        for flight in flights - self._wire:
            flight.cancel()
        try:
            if flights & self._wire:
                await asyncio.wait(flights & self._wire, timeout=GRACE)
        finally:
            for flight in flights:
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    def model(self, endpoint: Endpoint) -> Model:
        """The model behind an endpoint, always the same one; nothing is sent yet."""
        if endpoint not in self._models:
            self._models[endpoint] = Model(endpoint, self, self._connection(endpoint, CHAT))
        return self._models[endpoint]

    def embedder(self, endpoint: Endpoint) -> Embedder:
        """The embeddings of an endpoint, always the same ones; nothing is sent yet."""
        if endpoint not in self._embedders:
            connection = self._connection(endpoint, EMBEDDINGS)
            self._embedders[endpoint] = Embedder(endpoint, self, connection)
        return self._embedders[endpoint]

    @property
    def pasts(self) -> Pasts:
        """What left within the last minute, of what is limited."""
        now = {known: quota.past for known, quota in self._quotas.items()}
        return {known: past for known, past in now.items() if past}

    def cost(
        self,
        endpoint: Endpoint,
        prompt: int,
        completion: int,
        cached: int = 0,
        *,
        batch: bool = False,
    ) -> float:
        """US dollars of so many tokens; 0 where no price is known."""
        price = self.prices.get(endpoint.model)
        return price.cost(prompt, completion, cached, batch=batch) if price else 0.0

    async def _lose(self, lost: Usage) -> None:
        """Book a try without an answer on the run that made it."""
        run = WORK.get().run or self._run
        await self.cache.lose(run, lost)

    def limit(self, endpoint: Endpoint) -> None:
        """Heed an endpoint's limits, which hold for all that share its address or model."""
        # In batch mode `concurrency` is for batches; what has to be asked at once keeps to this.
        at_once = min(endpoint.concurrency, BESIDE_BATCHES if endpoint.batched else CONNECTIONS)
        for way in self._ways(endpoint, endpoint.base_url):
            way.lane.allow(at_once)
            way.quota.allow(endpoint.requests_per_minute, endpoint.tokens_per_minute)

    def _connection(self, endpoint: Endpoint, path: str) -> Connection:
        self.limit(endpoint)
        return Connection(endpoint, self, path)

    def _ways(self, endpoint: Endpoint, base_url: str) -> list[Way]:
        """Where the endpoint can be asked: its own address, which is `base_url`, and replicas."""
        ways = []
        for address, key_env in endpoint.places:
            lane = self._lanes.setdefault((address, key_env), Lane(public(address)))
            known = (address, key_env, endpoint.model)
            quota = self._quotas.setdefault(known, Quota(self._pasts.get(known)))
            where = base_url if address == endpoint.base_url else address
            ways.append(Way(where, key_env, lane, quota))
        return ways

    async def _address(self, endpoint: Endpoint, path: str) -> str:
        """Where the endpoint is; the embedded model's server is started when first needed."""
        if not endpoint.local:
            return endpoint.base_url
        async with self._starting:
            if path not in self._local:
                server = LocalServer(embeddings=path == EMBEDDINGS)
                await asyncio.to_thread(server.start)
                self._local[path] = server
        return self._local[path].base_url


class Connection:
    """The lines to one path of an endpoint, opened when they are first needed."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway, path: str) -> None:
        self._endpoint = endpoint
        self._gateway = gateway
        self._path = path
        self._lines: Lines | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Lines:
        if self._lines is None:
            async with self._opening:
                self._lines = self._lines or await self._open()
        return self._lines

    async def _open(self) -> Lines:
        gateway, endpoint = self._gateway, self._endpoint
        address = await gateway._address(endpoint, self._path)
        lines = [
            Line(
                endpoint,
                way,
                self._path,
                purse=gateway.purse,
                wire=gateway._wire,
                lose=gateway._lose,
            )
            for way in gateway._ways(endpoint, address)
        ]
        return Lines(endpoint, lines, gateway.stats.retried, partial(gateway.cost, endpoint))

    async def close(self) -> None:
        if self._lines is not None:
            await self._lines.close()
