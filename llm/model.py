"""One model at one endpoint: what was answered once is never asked again."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from toolloom.llm.batch import Batcher
from toolloom.llm.batch_jobs import BatchPurse, NoBatches, Pace
from toolloom.llm.budget import FREE, Try, usage_of
from toolloom.llm.cache import Cache, Entry
from toolloom.llm.client import Client
from toolloom.llm.connection import OutgoingRequest
from toolloom.llm.faults import FormatRefused, Garbled
from toolloom.llm.local import guided
from toolloom.llm.log import WORK, note
from toolloom.llm.wire import Mode, NotACompletion, Reply, Request, decode, encode, fingerprint
from toolloom.schemas import Endpoint, Price, Usage
from toolloom.schemas.endpoint import public

MODE = "mode"
TOKENS_IN_A_BYTE = 0.3  # of a request, at first; then as the endpoint counts
Opening: TypeAlias = Callable[[], Awaitable[Client]]


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

    def book(self, used: Usage) -> None:
        self.prompt_tokens += used.prompt_tokens
        self.cached_tokens += used.cached_tokens
        self.completion_tokens += used.completion_tokens
        self.cost += used.cost


@dataclass
class Shared:
    """Made by a Gateway, which hands it to each model that it opens.

    `flights` are requests under way by their key, `embeddings` batches of texts; `wire` are the
    tasks among them that have sent something, so that somebody has to pay for an answer.
    """

    cache: Cache
    prices: Mapping[str, Price]
    run: str
    pace: Pace  # of batches
    batch_purse: BatchPurse
    stats: Stats = field(default_factory=Stats)
    batchers: dict[tuple[str, str], Batcher] = field(default_factory=dict)
    unmetered: set[tuple[str, str, str]] = field(default_factory=set)  # who tells no tokens
    flights: dict[str, asyncio.Task[Reply]] = field(default_factory=dict)
    embeddings: set[asyncio.Task[Any]] = field(default_factory=set)
    wire: set[asyncio.Task[Any] | None] = field(default_factory=set)

    def price(self, endpoint: Endpoint) -> Price:
        return self.prices.get(endpoint.model, FREE)

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
        if model not in self.unmetered:
            self.unmetered.add(model)
            message = f"{address} does not say how many tokens {endpoint.model!r} {words}"
            note(logging.WARNING, "no_usage", message, model=endpoint.model)


def looked_at(flight: asyncio.Task[Any]) -> None:
    """Whoever asked may have given up: nobody else looks at how a task ended."""
    if not flight.cancelled():
        flight.exception()


class Model:
    """A model as agents ask it. Made by Gateway.model."""

    def __init__(self, endpoint: Endpoint, shared: Shared, opening: Opening) -> None:
        self.endpoint = endpoint
        self._shared = shared
        self._open = opening
        self._name = public(endpoint.base_url)
        self._price = shared.price(endpoint)
        self._mode: Mode | None = None
        self._finding = asyncio.Lock()
        self._rate = TOKENS_IN_A_BYTE
        self._batcher: Batcher | None = None

    def cost(self, reply: Reply) -> float:
        """What a reply costs, in US dollars; 0 where no price is known."""
        sent, received = reply.prompt_tokens, reply.completion_tokens
        return self._price.cost(sent, received, reply.cached_tokens, batch=reply.batched)

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
                    known = self._shared.cache.traits(self._name, self.endpoint.model).get(MODE)
                    if known not in set(Mode):
                        reply, self._mode = await self._complete_in(list(Mode), request)
                        self._shared.cache.learn(self._name, self.endpoint.model, MODE, self._mode)
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
        flights = self._shared.flights
        flight = flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._answer(request, mode, key))
            flights[key] = flight
            flight.add_done_callback(lambda _: flights.pop(key))
            flight.add_done_callback(looked_at)
        else:
            self._shared.stats.cached += 1
        return await asyncio.shield(flight)

    async def _answer(self, request: Request, mode: Mode, key: str) -> Reply:
        body = await self._shared.cache.read(key)
        if body is not None:
            self._shared.stats.cached += 1
            return decode(body, cached=True)
        return await self._ask(request, mode, key)

    async def _ask(self, request: Request, mode: Mode, key: str) -> Reply:
        """Send the request; its answer is committed before anyone sees it."""
        self._shared.stats.asked += 1
        body = encode(self.endpoint.model, request, mode)
        content = json.dumps(guided(body) if self.endpoint.local else body).encode()
        # A token is at least a byte.
        first = Try(1, WORK.get().run or self._shared.run, len(content), request.max_tokens)
        lines = await self._open()
        # Which mode the endpoint takes is found out at once, not within a day.
        finding = request.schema is not None and self._mode is None
        if self.endpoint.batched and not finding:
            try:
                shared = self._shared
                if self._batcher is None:  # agents that ask the same model share its batches
                    batcher = Batcher(
                        self.endpoint,
                        lines,
                        shared.cache,
                        self._commit,
                        shared.batch_purse,
                        shared.pace,
                        shared.stats.retried,
                    )
                    self._batcher = shared.batchers.setdefault(
                        (self._name, self.endpoint.model), batcher
                    )
                    self._batcher.allow(self.endpoint.concurrency)
                return await self._batcher.ask(key, body, first)
            except NoBatches:
                self.endpoint = self.endpoint.model_copy(update={"mode": "direct"})
        replies: list[Reply] = []

        async def accept(raw: str, tries: int) -> Usage:
            reply, sent = await self._commit(key, raw, replace(first, number=tries))
            replies.append(reply)
            self._rate = max(self._rate, reply.prompt_tokens / len(content))
            return sent

        await lines.send(
            OutgoingRequest(
                content=content,
                key=key,
                guess=int(first.sent * self._rate) + first.received,
                bound=usage_of(self._price, first.sent, first.received),
                accept=accept,
                formatted="response_format" in body,
            )
        )
        return replies[0]

    async def _commit(self, key: str, raw: str, last: Try) -> tuple[Reply, Usage]:
        """Keep a response; the reply that stands, and what is booked for it. Raises Garbled."""
        try:
            reply = decode(raw, cached=False)
        except NotACompletion as error:
            raise Garbled(str(error), raw) from error
        sent, received, cached = reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens
        counted = usage_of(self._price, sent, received, cached, batch=reply.batched)
        if not reply.metered:
            self._shared.warn_of_no_usage(
                self.endpoint,
                "takes: they are shown as 0, and count against the budget as the most they can be.",
            )
            sent, received = max(sent, last.sent), max(received, last.received)
        used = usage_of(self._price, sent, received, cached, batch=reply.batched)
        entry = self._shared.entry(self.endpoint, "chat", key, raw, last.run, last.number, used)
        stands = await self._shared.cache.write(entry)
        self._shared.stats.book(counted)  # not of what could not be kept
        if stands == raw:
            return reply, used
        # Another process was faster. This one's answer is paid for as well.
        await self._shared.cache.lose(last.run, used)
        return decode(stands, cached=False), used
