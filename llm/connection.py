"""A connection: one address with one key, its limits, and the client that sends.

Requests go through the HTTP client that the OpenAI SDK brings (httpx2 over aiohttp). The SDK itself
takes 0.5 s to import and twice as long for the same request, so it is there for what only it knows:
files and batches.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from toolloom.llm.budget import Spending
from toolloom.llm.faults import Caller, Trouble, fault
from toolloom.llm.limits import ConcurrencyLimit, Quota, Ticket
from toolloom.llm.log import note
from toolloom.schemas import Endpoint, EndpointDenied, JsonObject, RequestRefused, Usage
from toolloom.schemas.endpoint import public

if TYPE_CHECKING:
    import httpx2
    import openai


T = TypeVar("T")

CONNECT_SECONDS = 10.0
MODELS_SECONDS = 3.0
LONGEST_REST = 30.0  # seconds for which a line that failed is passed by
CONNECTIONS = 2048
ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers that say who pays, by the variables from which the SDK takes them."""


@dataclass(frozen=True)
class OutgoingRequest:
    """A request as it is sent, and what its sender wants to know of it."""

    content: bytes
    key: str  # for the log
    guess: int  # tokens it takes, about
    bound: Usage  # the most it takes
    accept: Callable[[str, int], Awaitable[Usage]]
    """Called with the body of a success and the number of tries as soon as it is read; raises
    Garbled if it is no answer."""

    formatted: bool = False  # whether it has a response_format that may be refused


@dataclass(frozen=True)
class Route:
    """How a line goes: the address that is asked, the variable of its key, and its limits."""

    base_url: str
    key_env: str
    lane: ConcurrencyLimit
    quota: Quota


class Connection:
    """Sends to one path of an endpoint, once, and says what became of it."""

    def __init__(
        self,
        endpoint: Endpoint,
        way: Route,
        path: str,
        purse: Spending,
        wire: set[asyncio.Task[Any] | None],
        lose: Callable[[Usage], Awaitable[None]],
    ) -> None:
        """Raises EndpointDenied if there is no key; sends nothing yet.

        `wire`: is told which tasks have sent something and wait until its answer is kept.
        `lose`: books what a failed try used.
        """
        self._purse = purse
        self._wire = wire
        self._lose = lose
        self._lane = way.lane
        self._pending = 0
        self.reached = False  # whether the address ever answered anything
        self.out = False  # whether it can no longer serve the run
        self._quota = way.quota
        self._timeout = endpoint.timeout
        self.caller = Caller(
            address=public(way.base_url),
            model=endpoint.model,
            key_env=way.key_env,
            key=_key(endpoint.local, way.base_url, way.key_env),
            path=path,
            passes=endpoint.retry.passes,
        )
        self.failures = 0  # in a row, since the last answer
        self._rests = 0.0  # until when others are asked first
        self._base_url = way.base_url
        self._http, self._request = _opened(way.base_url, path, self.caller.key, endpoint.timeout)

    async def close(self) -> None:
        await self._http.aclose()

    @cached_property
    def _sdk(self) -> openai.AsyncOpenAI:
        import openai

        return openai.AsyncOpenAI(
            api_key=self.caller.key,
            base_url=self._base_url,
            max_retries=0,
            timeout=self._http.timeout,
            http_client=self._http,
        )

    @property
    def load(self) -> tuple[bool, float]:
        """How little there is to be said for it: whether it failed just now, and how busy it is
        (1 if all places are taken, more while others wait or nothing may go)."""
        resting = time.monotonic() < self._rests
        return resting, self._pending / self._lane.places + self._lane.closed

    async def post(self, parcel: OutgoingRequest, tries: int) -> None:
        """One try, the `tries`th, as soon as the budget and the limits let it go.

        Raises Trouble, what fault() makes of a refusal, and BudgetReached.
        """
        self._pending += 1
        try:
            await self._pay(parcel, partial(self._limited, parcel, tries))
        finally:
            self._pending -= 1

    async def probe(self, parcel: OutgoingRequest) -> None:
        """One try that waits for no limit but the budget, and tells the others nothing."""
        await self._pay(parcel, partial(self._send, parcel, 1))
        await self._lose(parcel.bound)  # no response is kept

    async def _pay(self, parcel: OutgoingRequest, send: Callable[[], Awaitable[Usage]]) -> None:
        """Send, within the budget, and book what that took.

        What a success takes is booked with its response; here it is what fails.
        """
        sent = Usage(requests=1)
        await self._purse.hold(parcel.bound)
        try:
            sent = await send()
        except (Trouble, RequestRefused) as error:
            if isinstance(error, Trouble) and not isinstance(error.kind, int):
                sent = parcel.bound  # nobody knows: it may have been answered
            await self._lose(sent)
            raise
        finally:
            self._purse.settle(parcel.bound, sent)

    async def _limited(self, parcel: OutgoingRequest, tries: int) -> Usage:
        ticket, sent = await self._quota.enter(parcel.guess, self._lane), Usage()
        began = time.monotonic()
        try:
            sent = await self._send(parcel, tries, ticket)
        except Trouble as trouble:  # less at once, and others first for a while
            trouble.seconds = time.monotonic() - began
            self._quota.heed(ticket, trouble.headers)
            if trouble.kind in (429, 503, "timeout"):
                self._lane.refused(began, trouble.pause or 0.0)
            if trouble.kind != 429:
                self.failures += 1
                rest = 0.25 * 2.0 ** min(self.failures, 10)
                self._rests = time.monotonic() + min(LONGEST_REST, rest)
            raise
        finally:
            self._quota.used(ticket, sent.tokens)
            self._lane.leave()
        self._lane.answered()
        self.failures, self._rests = 0, 0.0
        seconds = round(time.monotonic() - began, 3)
        facts: JsonObject = {"request": parcel.key[:12], "tries": tries, "seconds": seconds}
        note(logging.DEBUG, "answered", **facts, tokens=sent.tokens)
        return sent

    async def _send(
        self, parcel: OutgoingRequest, tries: int, ticket: Ticket | None = None
    ) -> Usage:
        """Send and hand the answer on; meanwhile the task is on the wire."""
        task = asyncio.current_task()
        self._wire.add(task)
        try:
            response = await self._answered(self._fetch(parcel))
            if ticket:
                self._quota.heed(ticket, response.headers)
            raw = bytes(response.content).decode("utf-8", "replace")
            return await parcel.accept(self.caller.clean(raw), tries)
        finally:
            self._wire.discard(task)

    async def _fetch(self, parcel: OutgoingRequest) -> httpx2.Response:
        response = await self._http.send(self._request(content=parcel.content))
        if response.status_code >= 400:
            raise self._refusal(response, parcel.formatted)
        return response

    async def call(
        self, act: Callable[[openai.AsyncOpenAI], Awaitable[T]], seconds: float | None = None
    ) -> T:
        """One try of any call of the SDK, outside the limits of requests."""
        import openai

        async def asked() -> T:
            try:
                return await act(self._sdk)
            except openai.APIStatusError as error:
                raise self._refusal(error.response, formatted=False) from error
            except openai.APIError as error:
                raise self._no_answer(error) from error

        return await self._answered(asked(), seconds)

    async def models(self) -> list[str]:
        """What GET /models lists; nothing if that fails, for it is only a hint."""
        import httpx2

        with suppress(httpx2.HTTPError, TimeoutError, ValueError, LookupError, TypeError):
            async with asyncio.timeout(MODELS_SECONDS):
                address = self._base_url.rstrip("/") + "/models"
                response = await self._http.get(address, headers=self._request.keywords["headers"])
            return sorted(self.caller.scrub(str(e["id"])) for e in response.json()["data"])
        return []

    async def _answered(self, asked: Awaitable[T], seconds: float | None = None) -> T:
        """What is answered in time. Raises what anything but a success amounts to."""
        import httpx2

        try:
            async with asyncio.timeout(max(self._timeout, seconds or 0.0)):
                answer = await asked
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._no_answer(error) from error
        self.reached = True
        return answer

    def _no_answer(self, error: BaseException) -> Trouble:
        # The transport calls every failure to connect a timeout; its first cause knows better.
        while error.__cause__ is not None and not isinstance(error, TimeoutError):
            error = error.__cause__
        if isinstance(error, TimeoutError):
            return Trouble(f"no answer within {self._timeout:g} s", "timeout")
        why = self.caller.scrub(str(error) or type(error).__name__)
        return Trouble(f"no connection ({why})", "connection")

    def _refusal(self, response: httpx2.Response, formatted: bool) -> Exception:
        self.reached = True
        body = response.content.decode("utf-8", "replace")
        headers = response.headers
        return fault(response.status_code, headers, body, self.caller, formatted)


def _opened(
    base_url: str, path: str, key: str, timeout: float
) -> tuple[httpx2.AsyncClient, partial[httpx2.Request]]:
    """What sends, and what makes the requests to a path, all but their `content`."""
    import httpx2  # 0.3 s with aiohttp: only once there is something to ask
    from httpx_aiohttp.httpx2 import Httpx2AiohttpClient

    patience = httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS))
    http = Httpx2AiohttpClient(
        timeout=patience,
        limits=httpx2.Limits(max_connections=CONNECTIONS, keepalive_expiry=30),
        trust_env=not is_loopback(base_url),  # a proxy would look for 127.0.0.1 at home
        follow_redirects=True,
    )
    headers = {
        "Authorization": f"Bearer {key}",
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": "toolloom",
    }
    account = {header: os.environ.get(variable) for header, variable in ACCOUNT.items()}
    headers |= {header: name for header, name in account.items() if name}
    request = partial(
        httpx2.Request,
        "POST",
        httpx2.URL(base_url.rstrip("/") + path),
        headers=httpx2.Headers(headers),
        extensions={"timeout": patience.as_dict()},
    )
    return http, request


def _key(local: bool, base_url: str, key_env: str) -> str:
    """The key from the environment; a server on this machine needs none."""
    key = os.environ.get(key_env, "").strip()
    if local:
        return "none"
    if not key.isascii():
        raise EndpointDenied(
            f"The key in the environment variable {key_env} holds characters that no key has. "
            "Copy it again from where it was issued."
        )
    if key or is_loopback(base_url):
        return key or "none"
    raise EndpointDenied(
        f"{public(base_url)} needs a key, and the environment variable {key_env} is not set. "
        f"Set it (export {key_env}=…; any word if the endpoint needs no key), or name another "
        "variable in `key_env`."
    )


def is_loopback(base_url: str) -> bool:
    """Whether the address is this machine's own."""
    host = urlsplit(base_url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
