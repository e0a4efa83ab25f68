"""The gateway: every model of a run, behind one cache and one set of limits."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias

from toolloom.llm.batch import Batcher, NoBatches, Pace
from toolloom.llm.budget import Bound, Purse
from toolloom.llm.cache import Cache, Entry
from toolloom.llm.embeddings import Embedder
from toolloom.llm.faults import CHAT, EMBEDDINGS, FormatRefused, Garbled
from toolloom.llm.lane import Lane
from toolloom.llm.line import CONNECTIONS, Line, Parcel, Sent, Way, public
from toolloom.llm.lines import Lines
from toolloom.llm.local import LocalServer, guided
from toolloom.llm.log import WORK
from toolloom.llm.quota import Quota
from toolloom.llm.wire import Mode, NotACompletion, Reply, Request, decode, encode, fingerprint
from toolloom.schemas import Budget, Endpoint, JsonObject, Price

Accept: TypeAlias = Callable[[str, int], Awaitable[Sent]]

MODE = "mode"
GRACE = 1.0  # seconds for answers that are under way when a run ends early
TOKENS_IN_A_BYTE = 0.3  # of a request, at first; then as the endpoint counts


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
    ) -> None:
        """`cache`: the path of a SQLite file, a SQLAlchemy URL, or an open cache.

        `budget` is for all that `run` ever used, in this process or before; `pace` is that of
        batches. Raises StoreError.
        """
        self.stats = Stats()
        self.cache = cache if isinstance(cache, Cache) else Cache(cache)
        self.prices = dict(prices or {})
        self._budget, self._run = budget or Budget(), run
        self._pace = pace
        self._purse: Purse | None = None
        self._batchers: dict[tuple[str, str], Batcher] = {}
        self._models: dict[Endpoint, Model] = {}
        self._embedders: dict[Endpoint, Embedder] = {}
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._quotas: defaultdict[tuple[str, str, str], Quota] = defaultdict(Quota)
        self._local: dict[str, LocalServer] = {}  # by path: one server does not do both well
        self._starting = asyncio.Lock()
        self._flights: dict[str, asyncio.Task[Reply]] = {}
        self._wire: set[asyncio.Task[Any] | None] = set()

    async def __aenter__(self) -> Self:
        if self._budget != Budget():
            self._purse = Purse(self._budget, await self.cache.spent(self._run))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._land()
        users: list[Model | Embedder] = [*self._models.values(), *self._embedders.values()]
        for opened in (*self._batchers.values(), *users):
            await opened.close()
        for server in self._local.values():
            await asyncio.to_thread(server.stop)
        await self.cache.close()

    async def _land(self) -> None:
        """End what is under way. What was sent has a moment for its answer: it is paid for."""
        flights = set(self._flights.values())
        for flight in flights - self._wire:
            flight.cancel()
        if flights & self._wire:
            await asyncio.wait(flights & self._wire, timeout=GRACE)
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

    def cost(self, endpoint: Endpoint, prompt: int, completion: int, cached: int = 0) -> float:
        """US dollars of so many tokens; 0 where no price is known."""
        price = self.prices.get(endpoint.model)
        return price.cost(prompt, completion, cached, batch=endpoint.batched) if price else 0.0

    def _connection(self, endpoint: Endpoint, path: str) -> Connection:
        for way in self._ways(endpoint, endpoint.base_url):
            way.lane.allow(min(endpoint.concurrency, CONNECTIONS))
            way.quota.allow(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        return Connection(endpoint, self, path)

    def _ways(self, endpoint: Endpoint, base_url: str) -> list[Way]:
        """Where the endpoint can be asked: its own address, which is `base_url`, and replicas."""
        places = [(endpoint.base_url, endpoint.key_env)]
        for replica in endpoint.replicas:
            places.append(
                (replica.base_url or endpoint.base_url, replica.key_env or endpoint.key_env)
            )
        ways = []
        for address, key_env in places:
            lane = self._lanes.setdefault((address, key_env), Lane(public(address)))
            quota = self._quotas[address, key_env, endpoint.model]
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
            Line(endpoint, way, self._path, purse=gateway._purse, wire=gateway._wire)
            for way in gateway._ways(endpoint, address)
        ]
        return Lines(endpoint, lines, gateway.stats.retried)

    async def close(self) -> None:
        if self._lines is not None:
            await self._lines.close()


class Model:
    """One model at one endpoint. Made by Gateway.model."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway, connection: Connection) -> None:
        self.endpoint = endpoint
        self._gateway = gateway
        self._connection = connection
        self._name = public(endpoint.base_url)
        self._mode: Mode | None = None
        self._finding = asyncio.Lock()
        self._rate = TOKENS_IN_A_BYTE
        self._batcher: Batcher | None = None

    async def close(self) -> None:
        await self._connection.close()

    def cost(self, reply: Reply) -> float:
        """What a reply costs, in US dollars; 0 where no price is known."""
        return self._gateway.cost(
            self.endpoint, reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens
        )

    async def complete(self, request: Request) -> Reply:
        """The answer, from the cache if it was ever given.

        Raises RequestRefused, and what stops a run: EndpointDown, EndpointDenied, ModelMissing,
        BudgetReached, StoreError.
        """
        if request.schema is None:
            return await self._complete(request, Mode.TEXT)
        if self._mode is None:
            async with self._finding:
                if self._mode is None:
                    return await self._find_mode(request)
        for mode in list(Mode)[list(Mode).index(self._mode) :]:
            try:
                return await self._complete(request, mode)
            except FormatRefused:  # of this schema alone: the endpoint's mode stays
                continue
        raise AssertionError("plain text has no response_format to refuse")

    async def _find_mode(self, request: Request) -> Reply:
        """Ask in the best mode the endpoint takes, and remember which it was."""
        known = self._gateway.cache.traits(self._name, self.endpoint.model).get(MODE)
        if known in set(Mode):
            self._mode = Mode(known)
            return await self._complete(request, self._mode)
        for mode in Mode:
            try:
                reply = await self._complete(request, mode)
            except FormatRefused:
                continue
            self._gateway.cache.learn(self._name, self.endpoint.model, MODE, mode)
            self._mode = mode
            return reply
        raise AssertionError("plain text has no response_format to refuse")

    async def _complete(self, request: Request, mode: Mode) -> Reply:
        """The answer to one body. Of equal ones at the same time one is looked up and sent.

        It is sent in a task of its own: whoever asked may give up, what is paid for is kept.
        """
        key = fingerprint(self._name, self.endpoint.model, request, mode)
        flights = self._gateway._flights
        flight = flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._answer(request, mode, key))
            flights[key] = flight
            flight.add_done_callback(lambda done: _landed(flights, key, done))
        else:
            self._gateway.stats.cached += 1
        return await asyncio.shield(flight)

    async def _answer(self, request: Request, mode: Mode, key: str) -> Reply:
        body = await self._gateway.cache.read(key)
        if body is not None:
            self._gateway.stats.cached += 1
            return decode(body, cached=True)
        return await self._ask(request, mode, key)

    async def _ask(self, request: Request, mode: Mode, key: str) -> Reply:
        """Send the request; its answer is committed before anyone sees it."""
        self._gateway.stats.asked += 1
        body = encode(self.endpoint.model, request, mode)
        content = json.dumps(guided(body) if self.endpoint.local else body).encode()
        replies: list[Reply] = []

        async def accept(raw: str, tries: int) -> Sent:
            reply = await self._commit(key, raw, tries)
            replies.append(reply)
            self._rate = max(self._rate, reply.prompt_tokens / len(content))
            return Sent(reply.prompt_tokens + reply.completion_tokens, self.cost(reply))

        lines = await self._connection.open()
        parcel = self._parcel(content, key, request, accept, "response_format" in body)
        # Which mode the endpoint takes is found out at once, not within a day.
        finding = request.schema is not None and self._mode is None
        if self.endpoint.batched and not finding:
            try:
                return await self._ask_in_batch(lines, parcel, body)
            except NoBatches:  # it costs what single requests cost from now on
                self.endpoint = self.endpoint.model_copy(update={"mode": "direct"})
        await lines.send(parcel)
        return replies[0]

    async def _ask_in_batch(self, lines: Lines, parcel: Parcel, body: JsonObject) -> Reply:
        """The answer to a request that shares a batch with others. Raises NoBatches."""
        gateway = self._gateway
        if self._batcher is None:
            made = Batcher(
                self.endpoint,
                lines,
                gateway.cache,
                self._commit,
                gateway._pace,
                gateway.stats.retried,
            )
            # Agents that ask the same model share its batches.
            self._batcher = gateway._batchers.setdefault((self._name, self.endpoint.model), made)
            self._batcher.allow(self.endpoint.concurrency)
        if gateway._purse is None:
            return await self._batcher.ask(parcel.key, body)
        await gateway._purse.hold(parcel.bound)
        tokens, cost = 0, 0.0
        try:
            reply = await self._batcher.ask(parcel.key, body)
            if not reply.cached:
                tokens, cost = reply.prompt_tokens + reply.completion_tokens, self.cost(reply)
            return reply
        finally:
            gateway._purse.settle(parcel.bound, tokens, cost)

    def _parcel(
        self, content: bytes, key: str, request: Request, accept: Accept, formatted: bool
    ) -> Parcel:
        # A token is at least a byte.
        sent, received = len(content), request.max_tokens
        return Parcel(
            content=content,
            key=key,
            guess=int(sent * self._rate) + received,
            bound=Bound(sent + received, self._gateway.cost(self.endpoint, sent, received)),
            accept=accept,
            formatted=formatted,
        )

    async def _commit(self, key: str, raw: str, tries: int) -> Reply:
        """Keep a response, with what it cost; the reply that stands. Raises Garbled."""
        try:
            reply = decode(raw, cached=False)
        except NotACompletion as error:
            raise Garbled(str(error), raw) from error
        work = WORK.get()
        cost = self.cost(reply)
        stands = await self._gateway.cache.write(
            Entry(
                key,
                raw,
                endpoint=self._name,
                model=self.endpoint.model,
                run=work.run,
                stage=work.stage,
                agent=work.agent,
                requests=tries,
                prompt_tokens=reply.prompt_tokens,
                cached_tokens=reply.cached_tokens,
                completion_tokens=reply.completion_tokens,
                cost=cost,
            )
        )
        self._count(reply, cost)
        return reply if stands == raw else decode(stands, cached=False)

    def _count(self, reply: Reply, cost: float) -> None:
        stats = self._gateway.stats
        stats.prompt_tokens += reply.prompt_tokens
        stats.cached_tokens += reply.cached_tokens
        stats.completion_tokens += reply.completion_tokens
        stats.cost += cost


def _landed(flights: dict[str, asyncio.Task[Reply]], key: str, flight: asyncio.Task[Reply]) -> None:
    del flights[key]
    if not flight.cancelled():
        flight.exception()  # whoever asked may have given up: nobody else looks at it
