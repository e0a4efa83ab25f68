"""The gateway to all models of a run, and a model: what was answered once is never asked again.

A request's way is `Model._answer`, from top to bottom: cache, budget, limits, send, commit.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, TypeVar

from toolloom.llm.batch import Batcher, NoBatches, Pace
from toolloom.llm.cache import Cache, Entry
from toolloom.llm.client import CONNECTIONS, Client
from toolloom.llm.embeddings import Embedder
from toolloom.llm.limits import FREE, ConcurrencyLimit, Quota, Spending, Try, usage_of
from toolloom.llm.local import LocalServer, guided
from toolloom.llm.messages import (
    CHAT,
    EMBEDDINGS,
    WORK,
    FormatRefused,
    Mode,
    Reply,
    Request,
    decode,
    encode,
    fingerprint,
    note,
)
from toolloom.schemas import Budget, Endpoint, Price, Usage
from toolloom.schemas.endpoint import public

T = TypeVar("T")

MODE = "mode"
TOKENS_IN_A_BYTE = 0.3  # of a request, at first; then as the endpoint counts
GRACE = 1.0  # seconds for answers that are under way when a run ends early
BESIDE_BATCHES = 32  # requests at once that cannot wait for a batch


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

    def add(self, other: Stats) -> None:
        """Count what another process asked and paid for."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def book(self, used: Usage) -> None:
        self.prompt_tokens += used.prompt_tokens
        self.cached_tokens += used.cached_tokens
        self.completion_tokens += used.completion_tokens
        self.cost += used.cost


class Gateway:
    """Opens models, and has what they share: cache, budget, limits, connections. `async with` it.

    `in_flight` are requests under way by their key, and batches of texts by the keys of those.
    """

    def __init__(
        self,
        cache: str | Path,
        *,
        prices: Mapping[str, Price] | None = None,
        budget: Budget | None = None,
        run: str = "",
        pace: Pace = Pace(),  # noqa: B008 - it is frozen
    ) -> None:
        """`cache`: the path of a SQLite file.

        `budget` is for all that `run` ever used, in this process or before; `pace` is that of
        batches. Raises StoreError.
        """
        self.cache = Cache(cache)
        self.budget = Spending(budget or Budget())
        self.run = run
        self.stats = Stats()
        self.in_flight: dict[str, asyncio.Task[Any]] = {}
        self.sending: set[asyncio.Task[Any] | None] = set()  # somebody has to pay for an answer
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._prices = dict(prices or {})
        self._pace = pace
        self._places: dict[tuple[str, str], ConcurrencyLimit] = {}  # by address and key
        self._quotas: dict[tuple[str, str, str], Quota] = {}  # and by model
        self._models: dict[Endpoint, Model] = {}
        self._embedders: dict[Endpoint, Embedder] = {}
        self._clients: dict[tuple[Endpoint, str], Client] = {}
        self._batchers: dict[tuple[str, str], Batcher] = {}
        self._served: dict[tuple[str, str], str] = {}  # addresses of servers of our own
        self._unmetered: set[tuple[str, str, str]] = set()  # who tells no tokens

    async def __aenter__(self) -> Self:
        if not self.budget.endless:
            self.budget.spent = await self.cache.spent(self.run)
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            tasks = set(self.in_flight.values())
            self.drop(tasks)
            try:  # what was sent has a moment for its answer: it is paid for
                if tasks & self.sending:
                    await asyncio.wait(tasks & self.sending, timeout=GRACE)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:  # also of those who are stopped once more and do not wait for what is under way
            for batcher in self._batchers.values():
                await batcher.close()
            await self._opened.aclose()
            await self.cache.close()

    def model(self, endpoint: Endpoint) -> Model:
        """The model behind an endpoint, always the same one; nothing is sent yet."""
        if endpoint not in self._models:
            self.limits(endpoint)
            self._models[endpoint] = Model(endpoint, self)
        return self._models[endpoint]

    def embedder(self, endpoint: Endpoint) -> Embedder:
        """The embeddings of an endpoint, always the same ones; nothing is sent yet."""
        if endpoint not in self._embedders:
            self.limits(endpoint)
            self._embedders[endpoint] = Embedder(endpoint, self)
        return self._embedders[endpoint]

    def batcher(self, model: Model, client: Client) -> Batcher:
        """The batches of a model, which agents that ask the same one share."""
        endpoint = model.endpoint
        name = public(endpoint.base_url), endpoint.model
        if name not in self._batchers:
            tries = endpoint.retry.tries
            self._batchers[name] = Batcher(client, self, model.commit, tries, self._pace)
        self._batchers[name].allow(endpoint.concurrency)
        return self._batchers[name]

    def price(self, endpoint: Endpoint) -> Price:
        return self._prices.get(endpoint.model, FREE)

    def limits(self, endpoint: Endpoint) -> tuple[ConcurrencyLimit, Quota]:
        """An endpoint's limits, which hold for all that share its address or model."""
        at = endpoint.base_url, endpoint.key_env
        places = self._places.setdefault(at, ConcurrencyLimit(public(endpoint.base_url)))
        quota = self._quotas.setdefault((*at, endpoint.model), Quota())
        # In batch mode `concurrency` is for batches; what has to be asked at once keeps to this.
        most = BESIDE_BATCHES if endpoint.batched else CONNECTIONS
        places.allow(min(endpoint.concurrency, most))
        quota.allow(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        return places, quota

    async def client(self, endpoint: Endpoint, path: str) -> Client:
        """The client of one path of an endpoint, opened when it is first needed: so is a server of
        our own started."""
        if client := self._clients.get((endpoint, path)):
            return client
        async with self._opening:
            if client := self._clients.get((endpoint, path)):
                return client
            at = await self._serve(endpoint, path) if endpoint.named else endpoint.base_url
            client = self._clients[endpoint, path] = Client(endpoint, at, path, self)
            self._opened.push_async_callback(client.close)
        return client

    async def _serve(self, endpoint: Endpoint, path: str) -> str:
        """The address of a server that is started in this process."""
        at = endpoint.base_url, path if endpoint.local else ""  # one model does not both well
        if at not in self._served:
            if endpoint.local:
                server: Any = LocalServer(embeddings=path == EMBEDDINGS)
            else:
                from toolloom.llm.scripted import FakeServer

                server = FakeServer()
            self._served[at] = (await self._opened.enter_async_context(server)).base_url
        return self._served[at]

    def fly(self, keys: Iterable[str], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do it in a task of its own; whoever asks for one of the keys too waits for it."""
        task, keys = asyncio.create_task(work), tuple(keys)

        def landed(task: asyncio.Task[T]) -> None:
            for key in keys:
                del self.in_flight[key]
            if not task.cancelled():
                task.exception()  # whoever asked may have given up, and nobody else looks

        self.in_flight.update(dict.fromkeys(keys, task))
        task.add_done_callback(landed)
        return task

    def drop(self, tasks: set[asyncio.Task[T]]) -> None:
        """End tasks, but those that have sent something: it is paid for."""
        for task in tasks - self.sending:
            task.cancel()

    async def lose(self, lost: Usage) -> None:
        """Book a try without an answer on the run that made it."""
        await self.cache.lose(WORK.get().run or self.run, lost)

    def entry(
        self, endpoint: Endpoint, kind: str, key: str, body: str, run: str, tries: int, used: Usage
    ) -> Entry:
        """A response as the cache keeps it, with who asked for it."""
        work = WORK.get()
        asked = (public(endpoint.base_url), endpoint.model, run, work.stage, work.agent)
        took = (used.prompt_tokens, used.cached_tokens, used.completion_tokens, used.cost)
        return Entry(key, body, kind, *asked, tries, *took)

    def warn_of_no_usage(self, endpoint: Endpoint, words: str) -> None:
        """Say once of a model that it does not tell what it takes."""
        address = public(endpoint.base_url)
        model = (address, endpoint.model, words)
        if model not in self._unmetered:
            self._unmetered.add(model)
            message = f"{address} does not say how many tokens {endpoint.model!r} {words}"
            note(logging.WARNING, "no_usage", message, model=endpoint.model)


class Model:
    """A model as agents ask it. Made by Gateway.model."""

    def __init__(self, endpoint: Endpoint, gateway: Gateway) -> None:
        self.endpoint = endpoint
        self.price = gateway.price(endpoint)
        self._gateway = gateway
        self._name = public(endpoint.base_url)
        self._mode: Mode | None = None
        self._finding = asyncio.Lock()
        self._rate = TOKENS_IN_A_BYTE

    def cost(self, reply: Reply) -> float:
        """What a reply costs, in US dollars; 0 where no price is known."""
        sent, received = reply.prompt_tokens, reply.completion_tokens
        return self.price.cost(sent, received, reply.cached_tokens, batch=reply.batched)

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
                    cache, asked = self._gateway.cache, (self._name, self.endpoint.model)
                    known = (await cache.traits(*asked)).get(MODE)
                    if known not in set(Mode):
                        reply, self._mode = await self._complete_in(list(Mode), request)
                        await cache.learn(*asked, MODE, self._mode)
                        return reply
                    self._mode = Mode(known)
        # A mode that is refused is refused of this schema alone: the endpoint's mode stays.
        reply, _ = await self._complete_in(list(Mode)[list(Mode).index(self._mode) :], request)
        return reply

    async def _complete_in(self, modes: Sequence[Mode], request: Request) -> tuple[Reply, Mode]:
        """The answer in the first of the modes, best first, that is not refused."""
        for mode in modes:
            with suppress(FormatRefused):
                return await self._complete(request, mode), mode
        raise AssertionError("plain text has no response_format to refuse")

    async def _complete(self, request: Request, mode: Mode) -> Reply:
        """The answer to one body. Of equal ones at the same time one is looked up and sent.

        It is sent in a task of its own: whoever asked may give up, what is paid for is kept.
        """
        key = fingerprint(self._name, self.endpoint.model, request, mode)
        task = self._gateway.in_flight.get(key)
        if task is None:
            task = self._gateway.fly((key,), self._answer(request, mode, key))
        else:
            self._gateway.stats.cached += 1
        reply: Reply = await asyncio.shield(task)
        return reply

    async def _answer(self, request: Request, mode: Mode, key: str) -> Reply:
        """The way of a request: cache, budget, limits, send, commit; again while that may help."""
        gateway, endpoint = self._gateway, self.endpoint
        if (known := await gateway.cache.read(key)) is not None:
            gateway.stats.cached += 1
            return decode(known, cached=True)
        gateway.stats.asked += 1
        body = encode(endpoint.model, request, mode)
        content = json.dumps(guided(body) if endpoint.local else body).encode()
        run = WORK.get().run or gateway.run
        client = await gateway.client(endpoint, CHAT)
        # Which mode the endpoint takes is found out at once, not within a day.
        if endpoint.batched and (request.schema is None or self._mode is not None):
            try:
                most = usage_of(self.price, len(content), request.max_tokens, batch=True)
                return await gateway.batcher(self, client).ask(key, body, Try(1, run, most))
            except NoBatches:
                self.endpoint = endpoint.model_copy(update={"mode": "direct"})
        most = usage_of(self.price, len(content), request.max_tokens)  # a token is at least a byte
        tokens = int(len(content) * self._rate) + request.max_tokens

        async def keep(raw: str, number: int) -> tuple[Reply, Usage]:
            return await self.commit(key, raw, Try(number, run, most))

        reply = await client.ask(content, most, tokens, keep, key, "response_format" in body)
        self._rate = max(self._rate, reply.prompt_tokens / len(content))
        return reply

    async def commit(self, key: str, raw: str, last: Try) -> tuple[Reply, Usage]:
        """Keep a response; the reply that stands, and what is booked for it. Raises Garbled."""
        reply = decode(raw, cached=False)
        sent, received, cached = reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens
        counted = used = usage_of(self.price, sent, received, cached, batch=reply.batched)
        if not reply.metered:
            self._gateway.warn_of_no_usage(
                self.endpoint,
                "takes: they are shown as 0, and count against the budget as the most they can be.",
            )
            most = last.most
            sent, received = max(sent, most.prompt_tokens), max(received, most.completion_tokens)
            used = usage_of(self.price, sent, received, cached, batch=reply.batched)
        entry = self._gateway.entry(self.endpoint, "chat", key, raw, last.run, last.number, used)
        stands = await self._gateway.cache.write(entry)
        self._gateway.stats.book(counted)  # not of what could not be kept
        if stands == raw:
            return reply, used
        # Another process was faster. This one's answer is paid for as well.
        await self._gateway.cache.lose(last.run, used)
        return decode(stands, cached=False), used
