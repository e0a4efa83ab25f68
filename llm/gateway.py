"""The gateway: every model of a run, behind one cache and one set of limits."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from toolloom.llm.cache import Cache
from toolloom.llm.embeddings import Embedder
from toolloom.llm.faults import CHAT, EMBEDDINGS, FormatRefused, Garbled
from toolloom.llm.lane import Lane
from toolloom.llm.line import Line, public
from toolloom.llm.local import LocalServer, guided
from toolloom.llm.wire import Mode, NotACompletion, Reply, Request, decode, encode, fingerprint
from toolloom.schemas import Endpoint

MODE = "mode"


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
    completion_tokens: int = 0
    cost: float = 0.0

    def retried(self) -> None:
        self.retries += 1


class Gateway:
    """Opens models. `async with` it: it holds connections, a database and perhaps a server."""

    def __init__(self, cache: str | Path) -> None:
        """`cache`: the path of a SQLite file, or a SQLAlchemy URL. Raises StoreError."""
        self.stats = Stats()
        self.cache = Cache(cache)
        self._models: dict[Endpoint, Model] = {}
        self._embedders: dict[Endpoint, Embedder] = {}
        self._lanes: defaultdict[str, Lane] = defaultdict(Lane)
        self._turns = Turns()
        self._local: dict[str, LocalServer] = {}  # by path: one server does not do both well
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        users: list[Model | Embedder] = [*self._models.values(), *self._embedders.values()]
        for opened in users:
            await opened.close()
        for server in self._local.values():
            await asyncio.to_thread(server.stop)
        self.cache.close()

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

    def _connection(self, endpoint: Endpoint, path: str) -> Connection:
        lane = self._lanes[endpoint.base_url]
        lane.allow(endpoint.concurrency)
        return Connection(endpoint, self, lane, path)

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
    """The line to one path of an endpoint, opened when it is first needed."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway, lane: Lane, path: str) -> None:
        self._endpoint = endpoint
        self._gateway = gateway
        self._lane = lane
        self._path = path
        self._line: Line | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Line:
        async with self._opening:
            if self._line is None:
                address = await self._gateway._address(self._endpoint, self._path)
                retried = self._gateway.stats.retried
                self._line = Line(self._endpoint, address, self._lane, retried, self._path)
        return self._line

    async def close(self) -> None:
        if self._line is not None:
            await self._line.close()


class Model:
    """One model at one endpoint. Made by Gateway.model."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway, connection: Connection) -> None:
        self.endpoint = endpoint
        self._gateway = gateway
        self._connection = connection
        self._name = public(endpoint.base_url)
        self._mode: Mode | None = None
        self._finding = asyncio.Lock()

    async def close(self) -> None:
        await self._connection.close()

    async def complete(self, request: Request) -> Reply:
        """The answer, from the cache if it was ever given.

        Raises RequestRefused, and what stops a run: EndpointDown, EndpointDenied, ModelMissing.
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
        key = fingerprint(self._name, self.endpoint.model, request, mode)
        if (reply := self._remembered(key)) is not None:
            return reply
        async with self._gateway._turns.of(key):
            # Whoever asked the same before us may have the answer by now.
            return self._remembered(key) or await self._ask(request, mode, key)

    def _remembered(self, key: str) -> Reply | None:
        body = self._gateway.cache.read(key)
        if body is None:
            return None
        self._gateway.stats.cached += 1
        return decode(body, cached=True)

    async def _ask(self, request: Request, mode: Mode, key: str) -> Reply:
        """Send the request; its answer is committed before anyone sees it."""
        line = await self._connection.open()
        replies: list[Reply] = []

        def accept(raw: str) -> None:
            try:
                reply = decode(raw, cached=False)
            except NotACompletion as error:
                raise Garbled(str(error), raw) from error
            stands = self._gateway.cache.write(key, raw)
            replies.append(reply if stands == raw else decode(stands, cached=False))

        self._gateway.stats.asked += 1
        body = encode(self.endpoint.model, request, mode)
        await line.send(guided(body) if self.endpoint.local else body, accept)
        self._count(replies[0])
        return replies[0]

    def _count(self, reply: Reply) -> None:
        stats = self._gateway.stats
        stats.prompt_tokens += reply.prompt_tokens
        stats.completion_tokens += reply.completion_tokens
        stats.cost += price(self.endpoint, reply)


def price(endpoint: Endpoint, reply: Reply) -> float:
    """What a reply costs, in US dollars."""
    sent = reply.prompt_tokens * endpoint.prompt_price
    received = reply.completion_tokens * endpoint.completion_price
    return (sent + received) / 1_000_000


class Turns:
    """One lock for each key in use: of equal requests one is sent, the others wait for it."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, key: str) -> AsyncIterator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] += 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._locks[key], self._users[key]
