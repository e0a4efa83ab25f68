"""All connections that serve one endpoint, and the only place that retries."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import tenacity

from toolloom.llm.budget import usage_of
from toolloom.llm.connection import Connection, OutgoingRequest
from toolloom.llm.faults import CHAT, Caller, Garbled, Trouble
from toolloom.llm.log import note
from toolloom.schemas import (
    Endpoint,
    EndpointDown,
    EndpointError,
    JsonObject,
    ModelMissing,
    Price,
    RequestRefused,
    Usage,
)

if TYPE_CHECKING:
    import openai


T = TypeVar("T")

CANARIES = 3  # small requests sent before a run is stopped
CANARY_SECONDS = 20.0  # for all of them
FIRST_CONTACT = 5  # tries of an address that never answered anything
OFFERED = 20  # names of models that an error lists


@dataclass
class Tries:
    """How one request fares."""

    line: Connection
    seconds: float = 0.0  # of tries and the waits after them, without those for a place
    made: int = 0
    failed: int = 0  # without those the endpoint only wants to have later

    def __str__(self) -> str:
        return "(tried once)" if self.made == 1 else f"(tried {self.made} times)"


class Client:
    """Sends a request on the line with most room, and again while that may help."""

    def __init__(
        self,
        endpoint: Endpoint,
        lines: Sequence[Connection],
        on_retry: Callable[[], None],
        price: Price,
    ) -> None:
        self._retry = endpoint.retry
        self._lines = lines
        self._on_retry = on_retry
        self._price = price
        self._ended: EndpointError | None = None  # what took the last line out

    async def close(self) -> None:
        for line in self._lines:
            await line.close()

    async def send(self, parcel: OutgoingRequest) -> None:
        """Send until `parcel.accept` takes the answer's body.

        Raises EndpointDown, EndpointDenied, ModelMissing, EndpointError, RequestRefused,
        BudgetReached.
        """
        await self._insist(partial(self._try, parcel), parcel.key)

    @property
    def caller(self) -> Caller:
        """Who `call` calls as."""
        return self._lines[0].caller

    async def call(
        self, act: Callable[[openai.AsyncOpenAI], Awaitable[T]], seconds: float | None = None
    ) -> T:
        """The result of any call of the client, on the first line. Raises as `send` does.

        `seconds`: what one try may take, if it is more than the endpoint's timeout.
        """
        return await self._insist(lambda _: self._lines[0].call(act, seconds), "")

    async def _insist(self, once: Callable[[Tries], Awaitable[T]], key: str) -> T:
        """Do it until it is done, by the endpoint's policy."""
        tries = Tries(self._lines[0])
        try:
            try:
                return await once(tries)
            except Trouble as error:
                return await self._again(once, tries, key, error)
        except Trouble as error:
            caller = tries.line.caller
            what, raw = f"does not serve {caller.model!r}", ""
            if isinstance(error, Garbled):
                what, raw = "does not answer as an OpenAI-compatible endpoint", error.raw
            if await self._serves():
                odd = "fails on this request, while it answers another"
                raise RequestRefused(f"{caller.address} {odd}: {error} {tries}.", raw) from error
            raise EndpointDown(
                f"{caller.address} {what}: {error} {tries}. Check that the server runs; what it "
                "answered so far is kept: run the same command again to go on."
            ) from error
        except ModelMissing as error:
            raise ModelMissing(f"{error} {_offered(await tries.line.models())}") from error

    async def _again(
        self, once: Callable[[Tries], Awaitable[T]], tries: Tries, key: str, error: Trouble
    ) -> T:
        """Most requests take one try, and tenacity as long as everything else of ours: what it
        is for begins with the first failure, which it is handed as that of its first try."""
        first = [error]

        async def act() -> T:
            if first:
                raise first.pop()
            return await once(tries)

        return await tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(self._may_pass),
            stop=lambda state: self._enough(state, tries),
            wait=lambda state: self._wait(state, tries),
            before_sleep=lambda state: self._before_sleep(state, tries, key),
            reraise=True,
        )(act)

    async def _serves(self) -> bool:
        """Whether an endpoint that failed on one request answers others.

        If it does, only that request is lost. Without this a prompt on which it always fails
        would stop the run, and every later start of it.
        """
        for line in self._lines:
            if line.out or not line.reached:
                continue
            if not line.failures:
                return True
            with suppress(TimeoutError):
                async with asyncio.timeout(CANARY_SECONDS):
                    for _ in range(CANARIES):
                        with suppress(Trouble, EndpointError, RequestRefused):
                            await line.probe(_canary(line.caller, self._price))
                            return True
        return False

    async def _try(self, parcel: OutgoingRequest, tries: Tries) -> None:
        left = [line for line in self._lines if not line.out]
        if not left and self._ended:
            raise self._ended
        tries.line = min(left, key=lambda line: line.load)
        tries.made += 1
        try:
            await tries.line.post(parcel, tries.made)
        except EndpointError as error:
            tries.line.out = True  # it cannot serve: on without it, while there is another
            rest = sum(not line.out for line in self._lines)
            if not rest:
                self._ended = error
                raise
            note(logging.WARNING, "line_out", f"{error} Going on without it.", left=rest)
            raise Trouble(str(error), "connection", pause=0.0) from error

    def _may_pass(self, error: BaseException) -> bool:
        if not isinstance(error, Trouble):
            return False
        return isinstance(error.kind, int) or error.kind in self._retry.errors

    def _enough(self, state: tenacity.RetryCallState, tries: Tries) -> bool:
        error = state.outcome.exception() if state.outcome else None
        assert isinstance(error, Trouble)
        if error.kind != 429:  # that is no failure: it shall come later
            tries.failed += 1
        most = self._retry.tries
        if error.kind == "connection" and not tries.line.reached and len(self._lines) == 1:
            most = min(most, FIRST_CONTACT)
        tries.seconds += error.seconds
        late = tries.seconds + (error.pause or 0) > self._retry.patience
        return late or tries.failed >= most

    def _wait(self, state: tenacity.RetryCallState, tries: Tries) -> float:
        """The endpoint's own wish, or twice as long each time; not all come at once.

        While it answers others, its failures are chance, and a long wait would be for nothing.
        """
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, Trouble) and error.pause is not None:
            return error.pause + random.uniform(0, 0.1)
        doublings = min(state.attempt_number - 1, tries.line.failures, 30)
        wait = self._retry.first_wait * 2.0**doublings
        return min(self._retry.longest_wait, wait) * random.uniform(0.75, 1.25)

    def _before_sleep(self, state: tenacity.RetryCallState, tries: Tries, key: str) -> None:
        self._on_retry()
        tries.seconds += state.upcoming_sleep
        error = state.outcome.exception() if state.outcome else None
        wait = round(state.upcoming_sleep, 3)
        note(
            logging.INFO,
            "retry",
            f"{error}; again in {wait:g} s",
            request=key[:12],
            tries=state.attempt_number,
            wait=wait,
        )


def _canary(caller: Caller, price: Price) -> OutgoingRequest:
    hello: JsonObject = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
    body = hello if caller.path == CHAT else {"input": ["Hello"]}
    content = json.dumps({"model": caller.model, **body}).encode()
    sent = len(content)
    bound = usage_of(price, sent, 1)

    async def accept(raw: str, _tries: int) -> Usage:
        try:
            answer = json.loads(raw)
            _ = answer["choices"][0]["message"] if caller.path == CHAT else answer["data"][0]
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise Garbled("no answer", raw) from error
        return bound

    return OutgoingRequest(content, "canary", sent, bound, accept)


def _offered(names: Sequence[str]) -> str:
    if not names:
        return "Set `model` to one it serves."
    more = f" and {len(names) - OFFERED} more" if len(names) > OFFERED else ""
    return f"It offers: {', '.join(names[:OFFERED])}{more}."
