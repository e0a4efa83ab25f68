"""The client of one endpoint: one try over HTTP, its turn, and the loop that tries again; and what
all clients of a run share, above all what may be sent and when: within the run's budget, the
requests that may be under way to one address with one key, and the requests and tokens of a minute.

Requests go through the HTTP client that the OpenAI SDK brings (httpx2 over aiohttp). The SDK's own
`post` of the same bytes takes twice the CPU (docs/dependencies.md) and half a second to import, so
it is there for what only it knows: files and batches.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import os
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import tenacity

from toolloom.llm.cache import Cache, Entry
from toolloom.llm.local import LocalServer
from toolloom.llm.messages import CHAT, EMBEDDINGS, WORK, Caller, Garbled, Trouble, fault, note
from toolloom.schemas import (
    Budget,
    BudgetReached,
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
from toolloom.schemas.recipe import public

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
    used: Usage = NOTHING

    def add(self, other: Stats) -> None:
        """Count what another process asked and paid for."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


@dataclass(frozen=True)
class Try:
    """The `number`th try of a request, for a run, with the most that it takes."""

    number: int
    run: str
    most: Usage


def usage_of(
    price: Price, sent: int, received: int = 0, cached: int = 0, *, batch: bool = False
) -> Usage:
    """What one request takes that sends and receives so many tokens."""
    return Usage(
        requests=1,
        prompt_tokens=sent,
        cached_tokens=cached,
        completion_tokens=received,
        cost=price.cost(sent, received, cached, batch=batch),
    )


class Spending:
    """Reserves, for each try under way, the most it can use; then books what it did use.

    A request that does not fit waits for those under way, which mostly use less than was reserved
    for them. Only when nothing is under way and it still does not fit, the run stops: so no answer
    is lost to a budget.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.endless = budget == Budget()  # nothing is limited, so nothing is added up
        self.spent = Usage()  # used, or reserved, by earlier starts of the run too
        self._under_way = 0
        self._gate = asyncio.Lock()
        self._settled = asyncio.Event()

    async def reserve(self, most: Usage) -> None:
        """Set aside room for a try. Raises BudgetReached."""
        if self.endless:
            return
        async with self._gate:
            while reached := self._reached(most):
                if not self._under_way:
                    raise reached
                self._settled.clear()
                await self._settled.wait()
            self.spent += most
            self._under_way += 1

    def resume(self) -> None:
        """A try of an earlier process, which `spent` had in it, is under way: it is settled too."""
        self._under_way += 1

    def settle(self, most: Usage, used: Usage) -> None:
        """Book what a try used in place of what was reserved for it."""
        if self.endless:
            return
        self._under_way -= 1
        self.spent += used - most
        self._settled.set()

    def _reached(self, most: Usage) -> BudgetReached | None:
        """The error of a try that could pass a limit."""
        for name, used, more, unit, form in (
            ("max_requests", self.spent.requests, 1, "requests", ","),
            ("max_tokens", self.spent.tokens, most.tokens, "tokens", ","),
            ("max_cost", self.spent.cost, most.cost, "US dollars", ".4f"),
        ):
            limit = getattr(self._budget, name)
            if limit is not None and used + more > limit:
                return BudgetReached(
                    f"The run's budget is used up: {used:{form}} {unit} of {name} {limit:,}, "
                    f"and the next request may take {more:{form}} more. What was answered is "
                    f"kept: raise budget.{name} and run the same command again to go on."
                )
        return None


NARROW = 0.75
WIDEN = 0.5
FEW = 3  # refusals that may be chance
SOME, MANY = 0.1, 0.25  # of the last answers
LAST = 20


class ConcurrencyLimit:
    """A limit that narrows when the endpoint has too much to do and widens as it answers.

    Who enters waits for a place, and for the end of any pause the endpoint asked for. Places are
    given in the order in which they were asked for.
    """

    def __init__(self, name: str = "") -> None:
        self.limit = 1
        self.busy = 0
        self._name = name
        self._width = 1.0  # how many may be under way now, rounded down
        self._opens = 0.0
        self._narrowed = 0.0
        self._refused: deque[bool] = deque(maxlen=LAST)
        self._gate = asyncio.Lock()
        self._freed: asyncio.Future[None] | None = None

    def allow(self, limit: int) -> None:
        """Raise the limit: of several endpoints at one address the widest counts."""
        self.limit = max(self.limit, limit)
        self._width = float(self.limit)

    def refused(self, sent: float, pause: float) -> None:
        """A request sent at `sent` (monotonic) was one too many, or not answered in time; who
        sent it waits `pause` seconds.

        Of a few it is theirs alone to wait: some endpoints refuse at random, and would stand
        still. Where more are refused, fewer are sent at once; where many are, all wait.
        """
        self._refused.append(True)
        refused = sum(self._refused)
        # One burst narrows once: what was sent before tells nothing new.
        if refused >= FEW and refused > SOME * len(self._refused) and sent >= self._narrowed:
            self._narrowed = time.monotonic()
            self._width = max(1.0, self._width * NARROW)
            places = int(self._width)
            words = f"{self._name}: {places} requests at once"
            note(logging.INFO, "narrowed", words, places=places)
        if refused >= FEW and refused > MANY * len(self._refused):
            self._opens = max(self._opens, time.monotonic() + pause)

    def answered(self) -> None:
        self._refused.append(False)
        self._width = min(float(self.limit), self._width + WIDEN)

    async def enter(self) -> None:
        async with self._gate:
            while True:
                if (closed := self._opens - time.monotonic()) > 0:
                    await asyncio.sleep(closed)
                elif self.busy >= int(self._width):
                    self._freed = asyncio.get_running_loop().create_future()
                    await self._freed
                else:
                    break
            self.busy += 1

    def leave(self) -> None:
        self.busy -= 1
        if self._freed and not self._freed.done():
            self._freed.set_result(None)


# A little over a minute: requests may reach the endpoint closer together than they left.
WINDOW = 60.5


@dataclass
class QuotaShare:
    """What one request takes of a window; its tokens are corrected once they are known."""

    at: float
    tokens: float


class Quota:
    """One model's requests and tokens a minute. Its tries leave one by one, in order; each share is
    kept until it is a window old."""

    def __init__(self) -> None:
        self._requests = self._tokens = math.inf
        self._shares: deque[QuotaShare] = deque()
        self._used = 0.0  # tokens of all shares
        self._gate = asyncio.Lock()
        self._changed = asyncio.Event()

    def allow(self, requests: int | None, tokens: int | None) -> None:
        """Lower the limits: of several endpoints that share a model the strictest counts."""
        self._requests = min(self._requests, requests or math.inf)
        self._tokens = min(self._tokens, tokens or math.inf)

    async def enter(self, tokens: float, places: ConcurrencyLimit) -> QuotaShare | None:
        """Wait until a request of about so many tokens may leave, and for a place; its share, where
        anything is limited."""
        if self._requests == self._tokens == math.inf:
            await places.enter()
            return None
        async with self._gate:
            while wait := self.wait(tokens):
                self._changed.clear()
                with suppress(TimeoutError):  # an answer may give back much of what was guessed
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
            await places.enter()  # taken before the request leaves, it would count too early
            return self.take(tokens)

    def wait(self, tokens: float) -> float:
        """Seconds until there is room, 0 if there is; more than all of it fits an empty window."""
        until = now = time.monotonic()
        while self._shares and self._shares[0].at + WINDOW <= now:
            self._used -= self._shares.popleft().tokens
        count, used = len(self._shares), self._used + tokens
        for share in self._shares:
            if count < self._requests and used <= self._tokens:
                break
            count, used, until = count - 1, used - share.tokens, share.at + WINDOW
        return until - now

    def take(self, tokens: float) -> QuotaShare:
        share = QuotaShare(time.monotonic(), tokens)
        self._shares.append(share)
        self._used += tokens
        return share

    def used(self, share: QuotaShare | None, tokens: int) -> None:
        """What a try really took, as its answer tells; 0 for one that was refused. Of a share that
        has left the window nothing is counted."""
        if share and share.at + WINDOW > time.monotonic():
            self._used += tokens - share.tokens
            share.tokens = tokens
            self._changed.set()


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
        return self._prices.get(endpoint.model, Price(prompt=0.0))

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
        async with self._opening:
            if client := self._clients.get((endpoint, path)):
                return client
            at = await self._serve(endpoint, path) if endpoint.named else endpoint.base_url
            client = self._clients[endpoint, path] = Client(endpoint, at, path, self)
            self._opened.push_async_callback(client.http.aclose)
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
        self.retry = endpoint.retry
        self._timeout = endpoint.timeout
        self._base_url = base_url
        self._shared, self._budget = shared, shared.budget
        self._places, self._quota = shared.limits(endpoint)
        self._price = shared.price(endpoint)
        self._reached = False  # whether the address ever answered anything
        self._failures = 0  # in a row, since the last answer
        import httpx2  # 0.3 s with aiohttp: only once there is something to ask
        from httpx_aiohttp.httpx2 import Httpx2AiohttpClient

        timeout = httpx2.Timeout(self._timeout, connect=min(self._timeout, CONNECT_SECONDS))
        self.http = Httpx2AiohttpClient(
            timeout=timeout,
            limits=httpx2.Limits(max_connections=CONNECTIONS, keepalive_expiry=30),
            trust_env=not is_loopback(base_url),  # a proxy would look for 127.0.0.1 at home
            follow_redirects=True,
        )
        headers = {
            "Authorization": f"Bearer {self.caller.key}",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": "toolloom",
            **{h: os.environ[name] for h, name in ACCOUNT.items() if os.environ.get(name)},
        }
        self._request = partial(  # all of a request but its `content`
            httpx2.Request,
            "POST",
            httpx2.URL(base_url.rstrip("/") + path),
            headers=httpx2.Headers(headers),
            extensions={"timeout": timeout.as_dict()},
        )

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
        response = await self._answered(self.http.send(self._request(content=content)))
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
            timeout=self.http.timeout,
            http_client=self.http,
        )

    async def tried(self, once: Callable[[int], Awaitable[T]], key: str = "") -> T:
        """What `once` gives, which is told the number of the try, by the endpoint's policy.

        Raises EndpointDown; RequestRefused where the endpoint answers other requests.
        """
        seconds, failed, made = 0.0, 0, 0

        def enough(state: tenacity.RetryCallState) -> bool:
            """Whether its tries or its patience are used up; waiting for a place costs none."""
            nonlocal seconds, failed
            error, most = _error(state), self.retry.tries
            failed += error.kind != 429  # that is no failure: it shall come later
            if error.kind == "connection" and not self._reached:
                most = min(most, FIRST_CONTACT)
            seconds += error.seconds
            return failed >= most or seconds + (error.pause or 0) > self.retry.patience

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
                response = await self.http.get(address, headers=self._request.keywords["headers"])
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
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")
