"""What may be sent, and when: within the run's budget, the requests that may be under way to one
address with one key, and the requests and tokens of a minute.
"""

from __future__ import annotations

import asyncio
import logging
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
        self._width = 1.0
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
    def places(self) -> int:
        """How many may be under way now."""
        return int(self._width)

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
            before, self._width = self.places, max(1.0, self._width * NARROW)
            if self.places < before:
                message = f"{self._name}: {self.places} requests at once"
                note(logging.INFO, "narrowed", message, places=self.places)
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
                elif self.busy >= self.places:
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
    """What one request takes of a window; corrected once it is known."""

    at: float
    amount: float


class QuotaWindow:
    """At most `limit` within any `seconds`: every share is kept until it is that old."""

    def __init__(self, limit: float, seconds: float = WINDOW) -> None:
        self.limit = limit
        self.seconds = seconds
        self.shares: deque[QuotaShare] = deque()
        self.used = 0.0

    def wait(self, amount: float) -> float:
        """Seconds until there is room, 0 if there is; more than all of it fits an empty window."""
        now = time.monotonic()
        while self.shares and self.shares[0].at + self.seconds <= now:
            self.used -= self.shares.popleft().amount
        if not self.shares or self.used + amount <= self.limit:
            return 0.0
        excess = self.used + amount - self.limit
        for share in self.shares:
            excess -= share.amount
            if excess <= 0:
                return share.at + self.seconds - now
        return self.shares[-1].at + self.seconds - now

    def take(self, amount: float) -> QuotaShare:
        share = QuotaShare(time.monotonic(), amount)
        self.shares.append(share)
        self.used += amount
        return share

    def correct(self, share: QuotaShare, amount: float) -> None:
        """What it really was. Of a share that has left the window nothing is counted."""
        if share.at + self.seconds > time.monotonic():
            self.used += amount - share.amount
        share.amount = amount


class Quota:
    """One model's requests and tokens a minute. Its tries leave one by one, in order."""

    def __init__(self) -> None:
        self.windows: dict[str, QuotaWindow] = {}
        self._gate = asyncio.Lock()
        self._changed = asyncio.Event()

    def allow(self, requests: int | None, tokens: int | None) -> None:
        """Lower the limits: of several endpoints that share a model the strictest counts."""
        for name, limit in (("requests", requests), ("tokens", tokens)):
            window = self.windows.get(name)
            if limit is not None and (window is None or limit < window.limit):
                self.windows[name] = QuotaWindow(limit)

    async def enter(self, tokens: float, places: ConcurrencyLimit) -> QuotaShare | None:
        """Wait until a request of about so many tokens may leave, and for a place; its share of the
        tokens, where they are limited."""
        if not self.windows:
            await places.enter()
            return None
        amounts = {"requests": 1.0, "tokens": tokens}
        async with self._gate:
            while wait := max(one.wait(amounts[name]) for name, one in self.windows.items()):
                self._changed.clear()
                with suppress(TimeoutError):  # an answer may give back much of what was guessed
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
            await places.enter()  # taken before the request leaves, it would count too early
            return {name: one.take(amounts[name]) for name, one in self.windows.items()}.get(
                "tokens"
            )

    def used(self, share: QuotaShare | None, tokens: int) -> None:
        """What a try really took, as its answer tells; 0 for one that was refused."""
        if share:
            self.windows["tokens"].correct(share, tokens)
            self._changed.set()
