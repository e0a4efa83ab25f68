"""What may be sent, and when: within the run's budget, the requests that may be under way to one
address with one key, and the requests and tokens of a minute.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from toolloom.llm.messages import note
from toolloom.schemas import Budget, BudgetReached, Price, Usage

FREE = Price(prompt=0.0)  # of models whose price is not known


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

    def __init__(self, budget: Budget, spent: Usage = Usage()) -> None:  # noqa: B008 - it is frozen
        """`spent`: what earlier starts of the run used, or still have under way."""
        self._budget = budget
        self.endless = budget == Budget()  # nothing is limited, so nothing is added up
        self.spent = spent  # used, or reserved
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

    @property
    def closed(self) -> float:
        """Seconds until anything may be sent."""
        return max(0.0, self._opens - time.monotonic())

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
            note(
                logging.INFO, "narrowed", f"{self._name}: {places} requests at once", places=places
            )
        if refused >= FEW and refused > MANY * len(self._refused):
            self._opens = max(self._opens, time.monotonic() + pause)

    def answered(self) -> None:
        self._refused.append(False)
        self._width = min(float(self.limit), self._width + WIDEN)

    async def enter(self) -> None:
        async with self._gate:
            while True:
                if closed := self.closed:
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
