"""The client of one endpoint: one try over HTTP, its turn, and the loop that tries again; and what
all clients of a run share.

Requests go through the HTTP client that the OpenAI SDK brings (httpx2 over aiohttp). The SDK's own
`post` of the same bytes takes twice the CPU (docs/dependencies.md) and half a second to import, so
it is there for what only it knows: files and batches.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import tenacity

from toolloom.llm.cache import Cache, Entry
from toolloom.llm.limits import FREE, ConcurrencyLimit, Quota, Spending, usage_of
from toolloom.llm.local import LocalServer
from toolloom.llm.messages import CHAT, EMBEDDINGS, WORK, Caller, Garbled, Trouble, fault, note
from toolloom.schemas import (
    Budget,
    Endpoint,
    EndpointDenied,
    EndpointDown,
    EndpointError,
    JsonObject,
    ModelMissing,
    Price,
    RequestRefused,
    Usage,
)
from toolloom.schemas.endpoint import public

if TYPE_CHECKING:
    import httpx2
    import openai

T = TypeVar("T")

CONNECT_SECONDS = 10.0
MODELS_SECONDS = 3.0
CONNECTIONS = 2048
FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0  # seconds between two tries: twice as long each time
FIRST_CONTACT = 5  # tries of an address that never answered anything
CANARIES, CANARY_SECONDS = 3, 20.0  # small requests sent before a run is stopped, for all of them
OFFERED = 20  # names of models that an error lists
ACCOUNT = {"OpenAI-Organization": "OPENAI_ORG_ID", "OpenAI-Project": "OPENAI_PROJECT_ID"}
"""Headers that say who pays, by the variables from which the SDK takes them."""
BESIDE_BATCHES = 32  # requests at once that cannot wait for a batch
NOTHING, ONE_REQUEST = Usage(), Usage(requests=1)
ABSENT = frozenset({404, 405, 410, 501})


class Absent(Exception):
    """The endpoint has no such file or batch, or no such address at all."""


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


class Shared:
    """What all models of a run share: its cache, budget, limits and connections.

    `in_flight` are requests under way by their key, and batches of texts by the keys of those.
    """

    def __init__(
        self, cache: str | Path, prices: Mapping[str, Price], budget: Budget, run: str
    ) -> None:
        """Raises StoreError."""
        self.cache = Cache(cache)
        self.budget = Spending(budget)
        self.run = run
        self.stats = Stats()
        self.in_flight: dict[str, asyncio.Task[Any]] = {}
        self.sending: set[asyncio.Task[Any] | None] = set()  # somebody has to pay for an answer
        self._opened = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._prices = dict(prices)
        self._places: dict[tuple[str, str], ConcurrencyLimit] = {}  # by address and key
        self._quotas: dict[tuple[str, str, str], Quota] = {}  # and by model
        self._clients: dict[tuple[Endpoint, str], Client] = {}
        self._served: dict[tuple[str, str], str] = {}  # addresses of servers of our own
        self._unmetered: set[tuple[str, str, str]] = set()  # who tells no tokens

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


class Client:
    """Sends to one path of an endpoint, within the limits and the budget that it shares."""

    def __init__(self, endpoint: Endpoint, base_url: str, path: str, shared: Shared) -> None:
        """Raises EndpointDenied if there is no key; sends nothing yet."""
        self.caller = Caller(
            address=public(endpoint.base_url if endpoint.named else base_url),
            model=endpoint.model,
            key_env=endpoint.key_env,
            key="none" if endpoint.named else _key(base_url, endpoint.key_env),
            path=path,
        )
        self._retry = endpoint.retry
        self._timeout = endpoint.timeout
        self._base_url = base_url
        self._shared, self._budget = shared, shared.budget
        self._places, self._quota = shared.limits(endpoint)
        self._price = shared.price(endpoint)
        self._reached = False  # whether the address ever answered anything
        self._failures = 0  # in a row, since the last answer
        self._http, self._request = self._open()

    def _open(self) -> tuple[httpx2.AsyncClient, partial[httpx2.Request]]:
        """What sends, and what makes its requests, all but their `content`."""
        import httpx2  # 0.3 s with aiohttp: only once there is something to ask
        from httpx_aiohttp.httpx2 import Httpx2AiohttpClient

        timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS))
        http = Httpx2AiohttpClient(
            timeout=timeout,
            limits=httpx2.Limits(max_connections=CONNECTIONS, keepalive_expiry=30),
            trust_env=not is_loopback(self._base_url),  # a proxy would look for 127.0.0.1 at home
            follow_redirects=True,
        )
        headers = {
            "Authorization": f"Bearer {self.caller.key}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "toolloom",
            **{h: os.environ[name] for h, name in ACCOUNT.items() if os.environ.get(name)},
        }
        request = partial(
            httpx2.Request,
            "POST",
            httpx2.URL(self._base_url.rstrip("/") + self.caller.path),
            headers=httpx2.Headers(headers),
            extensions={"timeout": timeout.as_dict()},
        )
        return http, request

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(
        self,
        content: bytes,
        most: Usage,
        tokens: int,
        keep: Callable[[str, int], Awaitable[tuple[T, Usage]]],
        key: str = "",
        formatted: bool = False,
    ) -> T:
        """Send a request of about so many tokens, each try within the budget for the most that it
        can use, until it is answered.

        `keep(raw, number)` commits the answer to the try of that number, and says what it used; it
        raises Garbled if it is none. `formatted`: whether there is a response_format in it, which
        may be refused. Raises what `tried` raises, and BudgetReached.
        """

        async def once(number: int) -> T:
            await self._budget.reserve(most)
            used = NOTHING
            try:
                share = await self._quota.enter(tokens, self._places)
                began, task, used = time.monotonic(), asyncio.current_task(), ONE_REQUEST
                took = 0
                self._shared.sending.add(task)
                try:
                    result, used = await keep(await self._post(content, formatted), number)
                    took = used.tokens
                    self._places.answered()
                    self._failures = 0
                    return result
                except (Trouble, RequestRefused) as error:
                    if isinstance(error, Trouble):
                        error.seconds = time.monotonic() - began
                        if error.kind in (429, 503, "timeout"):
                            self._places.refused(began, error.pause or 0.0)
                        self._failures += error.kind != 429
                        if not isinstance(error.kind, int):  # nobody knows: it may be answered
                            used = most
                    await self._shared.lose(used)
                    raise
                finally:
                    self._shared.sending.discard(task)
                    self._quota.used(share, took)
                    self._places.leave()
            finally:
                self._budget.settle(most, used)

        return await self.tried(once, key)

    async def _post(self, content: bytes, formatted: bool = False) -> str:
        """The body of a success, sent once. Raises what anything else amounts to."""
        response = await self._answered(self._http.send(self._request(content=content)))
        if response.status_code >= 400:
            raise self._refusal(response, formatted)
        return self.caller.clean(bytes(response.content).decode("utf-8", "replace"))

    async def call(
        self, act: Callable[[openai.AsyncOpenAI], Awaitable[T]], seconds: float = 0.0
    ) -> T:
        """The result of any call of the SDK, tried as often as a request, outside their limits.

        `seconds`: what one try may take, if it is more than the endpoint's timeout.
        """
        import openai

        async def acted() -> T:
            try:
                return await act(self._sdk)
            except openai.APIStatusError as error:
                if error.status_code in ABSENT:
                    raise Absent(f"HTTP {error.status_code}") from error
                raise self._refusal(error.response) from error
            except openai.APIError as error:
                raise self._no_answer(error) from error

        return await self.tried(lambda number: self._answered(acted(), seconds))

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

    async def tried(self, once: Callable[[int], Awaitable[T]], key: str = "") -> T:
        """What `once` gives, which is told the number of the try, by the endpoint's policy.

        Raises EndpointDown; RequestRefused where the endpoint answers other requests.
        """
        seconds, failed, made = 0.0, 0, 0

        def enough(state: tenacity.RetryCallState) -> bool:
            """Whether its tries or its patience are used up; waiting for a place costs none."""
            nonlocal seconds, failed
            error, most = _error(state), self._retry.tries
            failed += error.kind != 429  # that is no failure: it shall come later
            if error.kind == "connection" and not self._reached:
                most = min(most, FIRST_CONTACT)
            seconds += error.seconds
            return failed >= most or seconds + (error.pause or 0) > self._retry.patience

        def wait(state: tenacity.RetryCallState) -> float:
            """The endpoint's own wish, or twice as long each time; not all come at once.

            While it answers others, its failures are chance, and a long wait would be for nothing.
            """
            if (pause := _error(state).pause) is not None:
                return pause + random.uniform(0, 0.1)
            doublings = min(made - 1, self._failures, 30)
            return min(LONGEST_WAIT, FIRST_WAIT * 2.0**doublings) * random.uniform(0.75, 1.25)

        def before_sleep(state: tenacity.RetryCallState) -> None:
            nonlocal seconds
            self._shared.stats.retries += 1
            seconds += state.upcoming_sleep
            pause = round(state.upcoming_sleep, 3)
            message = f"{_error(state)}; again in {pause:g} s"
            note(logging.INFO, "retry", message, request=key[:12], tries=made, wait=pause)

        async def counted() -> T:
            nonlocal made
            made += 1
            return await once(made)

        try:
            return await tenacity.AsyncRetrying(
                retry=tenacity.retry_if_exception_type(Trouble),
                stop=enough,
                wait=wait,
                before_sleep=before_sleep,
                sleep=asyncio.sleep,
                reraise=True,
            )(counted)
        except Trouble as error:
            raise self.given_up(error, made, await self._answers_others()) from error
        except ModelMissing as error:
            raise ModelMissing(f"{error} {await self._offered()}") from error

    def given_up(self, error: Trouble, made: int, others: bool) -> Exception:
        """What all tries of a request amount to; `others`: whether others are answered."""
        at = self.caller.address
        tried = f"{error} (tried {'once' if made == 1 else f'{made} times'})"
        raw = error.raw if isinstance(error, Garbled) else None
        if others:
            words = f"{at} fails on this request, while it answers another: {tried}."
            return RequestRefused(words, raw or "")
        wrong = "does not answer as an OpenAI-compatible endpoint"
        what = f"does not serve {self.caller.model!r}" if raw is None else wrong
        return EndpointDown(
            f"{at} {what}: {tried}. Check that the server runs; what it answered so far is kept: "
            "run the same command again to go on."
        )

    async def _answers_others(self) -> bool:
        """Whether an endpoint that failed on one request answers others.

        If it does, only that request is lost. Without this a prompt on which it always fails
        would stop the run, and every later start of it.
        """
        if not (self._reached and self._failures):
            return self._reached
        chat = self.caller.path == CHAT
        hello: JsonObject = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        body = {"model": self.caller.model, **(hello if chat else {"input": ["Hello"]})}
        content = json.dumps(body).encode()
        most = usage_of(self._price, len(content), 1)
        with suppress(TimeoutError):
            async with asyncio.timeout(CANARY_SECONDS):
                for _ in range(CANARIES):  # each waits for no limit but the budget
                    await self._budget.reserve(most)
                    try:
                        if ('"choices"' if chat else '"data"') in await self._post(content):
                            return True
                    except (Trouble, EndpointError, RequestRefused):
                        continue
                    finally:
                        self._budget.settle(most, most)
                        await self._shared.lose(most)
        return False

    async def _offered(self) -> str:
        """Which models GET /models lists, in a sentence; it is only a hint."""
        import httpx2

        names: list[str] = []
        with suppress(httpx2.HTTPError, TimeoutError, ValueError, LookupError, TypeError):
            async with asyncio.timeout(MODELS_SECONDS):
                address = self._base_url.rstrip("/") + "/models"
                response = await self._http.get(address, headers=self._request.keywords["headers"])
            names = sorted(self.caller.scrub(str(e["id"])) for e in response.json()["data"])
        if not names:
            return "Set `model` to one it serves."
        more = f" and {len(names) - OFFERED} more" if len(names) > OFFERED else ""
        return f"It offers: {', '.join(names[:OFFERED])}{more}."

    async def _answered(self, asked: Awaitable[T], seconds: float = 0.0) -> T:
        """What is answered in time. Raises what anything but an answer amounts to."""
        import httpx2

        try:
            async with asyncio.timeout(max(self._timeout, seconds)):
                answer = await asked
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._no_answer(error) from error
        self._reached = True
        return answer

    def _no_answer(self, error: BaseException) -> Trouble:
        # The transport calls every failure to connect a timeout; its first cause knows better.
        while error.__cause__ is not None and not isinstance(error, TimeoutError):
            error = error.__cause__
        if isinstance(error, TimeoutError):
            return Trouble(f"no answer within {self._timeout:g} s", "timeout")
        why = self.caller.scrub(str(error) or type(error).__name__)
        return Trouble(f"no connection ({why})", "connection")

    def _refusal(self, response: httpx2.Response, formatted: bool = False) -> Exception:
        self._reached = True
        body = response.content.decode("utf-8", "replace")
        return fault(response.status_code, response.headers, body, self.caller, formatted)


def _error(state: tenacity.RetryCallState) -> Trouble:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, Trouble)
    return error


def _key(base_url: str, key_env: str) -> str:
    """The key from the environment; a server on this machine needs none."""
    key = os.environ.get(key_env, "").strip()
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
