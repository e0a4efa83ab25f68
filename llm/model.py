"""One model at one endpoint: what was answered once is never asked again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from toolloom.llm.batch import Batcher, NoBatches
from toolloom.llm.budget import Bound
from toolloom.llm.cache import Entry
from toolloom.llm.faults import FormatRefused, Garbled
from toolloom.llm.line import Parcel, Sent, public
from toolloom.llm.lines import Lines
from toolloom.llm.local import guided
from toolloom.llm.log import WORK
from toolloom.llm.wire import Mode, NotACompletion, Reply, Request, decode, encode, fingerprint
from toolloom.schemas import Endpoint, JsonObject

if TYPE_CHECKING:
    from toolloom.llm.gateway import Connection, Gateway

Accept: TypeAlias = Callable[[str, int], Awaitable[Sent]]

MODE = "mode"
TOKENS_IN_A_BYTE = 0.3  # of a request, at first; then as the endpoint counts


class Model:
    """A model as agents ask it. Made by Gateway.model."""

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
