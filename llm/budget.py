"""The purse of a run: nothing is sent that could take it over its budget.

Where several processes work on a run, each has a purse of its own with what it was allotted of the
run's, which holds that back like a try under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from toolloom.llm.cache import Spent
from toolloom.schemas import Budget, BudgetReached


@dataclass(frozen=True)
class Bound:
    """The most that one try can use, or what is allotted to another process."""

    tokens: int
    cost: float
    requests: int = 1


class Purse:
    """Holds back, for each try under way, the most it can use; then books what it did use.

    A request that does not fit waits for those under way, which mostly use less than was held
    back for them. Only when nothing is under way and it still does not fit, the run stops: so no
    answer is lost to a budget.
    """

    def __init__(self, budget: Budget, spent: Spent) -> None:
        """`spent`: what earlier starts of the run used."""
        self._budget = budget
        self._requests = spent.requests
        self._tokens = spent.tokens
        self._cost = spent.cost
        self._under_way = 0
        self.refused: Bound | None = None  # the first try that did not fit
        self._gate = asyncio.Lock()
        self._settled = asyncio.Event()

    async def hold(self, bound: Bound) -> None:
        """Set aside room for a try. Raises BudgetReached."""
        async with self._gate:
            while (reached := self._reached(bound)) and self._under_way:
                self._settled.clear()
                await self._settled.wait()
            if reached:
                self.refused = self.refused or bound
                raise BudgetReached(self._told(reached, bound))
            self._take(bound)

    async def allot(self, parts: int) -> Bound:
        """Hold back one of so many parts of what is free, for another process."""
        async with self._gate:
            return self._take(self._free(parts))

    async def allot_all(self, spent: Callable[[], Awaitable[Spent]]) -> Bound:
        """Hold back all that is left, once nothing is under way.

        `spent` tells what the run really used: more than that is booked for processes that died.
        """
        async with self._gate:
            while self._under_way:
                self._settled.clear()
                await self._settled.wait()
            self.recount(await spent())
            return self._take(self._free(1))

    def recount(self, spent: Spent) -> None:
        """Begin anew with what is really spent; nothing is under way."""
        self._requests, self._tokens, self._cost = spent

    def reached(self, bound: Bound) -> BudgetReached:
        """The error of a try that did not fit into all that was left."""
        limited = (name for name, limit in self._budget if limit is not None)
        return BudgetReached(self._told(self._reached(bound) or next(limited), bound))

    @property
    def spent(self) -> Spent:
        """What is booked: used, or held back."""
        return Spent(self._requests, self._tokens, self._cost)

    def _take(self, bound: Bound) -> Bound:
        self.book(bound.requests, bound.tokens, bound.cost)
        self._under_way += 1
        return bound

    def _free(self, parts: int) -> Bound:
        """A part of what is left; 0 of what has no limit."""
        limits = self._budget
        return Bound(
            max(0, (limits.max_tokens or self._tokens) - self._tokens) // parts,
            max(0.0, (limits.max_cost or self._cost) - self._cost) / parts,
            max(0, (limits.max_requests or self._requests) - self._requests) // parts,
        )

    def book(self, requests: int, tokens: int, cost: float) -> None:
        """Book what was used without being held."""
        self._requests += requests
        self._tokens += tokens
        self._cost += cost

    def resume(self) -> None:
        """A try of an earlier process, booked before, is under way again: it is settled too."""
        self._under_way += 1

    def settle(self, bound: Bound, tokens: int, cost: float, requests: int | None = None) -> None:
        """Book what a held try used; `requests` of what was allotted."""
        self._under_way -= 1
        more = 0 if requests is None else requests - bound.requests
        self.book(more, tokens - bound.tokens, cost - bound.cost)
        self._settled.set()

    def _reached(self, bound: Bound) -> str:
        """The first limit that a try could pass, or nothing."""
        limits = self._budget
        if limits.max_requests is not None and self._requests + 1 > limits.max_requests:
            return "max_requests"
        if limits.max_tokens is not None and self._tokens + bound.tokens > limits.max_tokens:
            return "max_tokens"
        if limits.max_cost is not None and self._cost + bound.cost > limits.max_cost:
            return "max_cost"
        return ""

    def _told(self, limit: str, bound: Bound) -> str:
        used, most = {
            "max_requests": (f"{self._requests:,} requests", "1"),
            "max_tokens": (f"{self._tokens:,} tokens", f"{bound.tokens:,}"),
            "max_cost": (f"{self._cost:.4f} US dollars", f"{bound.cost:.4f}"),
        }[limit]
        return (
            f"The run's budget is used up: {used} of {limit} {getattr(self._budget, limit):,}, "
            f"and the next request may take {most} more. What was answered is kept: raise "
            f"budget.{limit} and run the same command again to go on."
        )
