"""The purse of a run: nothing is sent that could take it over its budget.

Where several processes work on a run, each has a purse of its own with what it was allotted of the
run's, which holds that back like a try under way. What is held back for a try is a `Usage`: the
most that it can use. Only the sum of tokens counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from toolloom.schemas import Budget, BudgetReached, Price, Usage

FREE = Price(prompt=0.0)  # of models whose price is not known


@dataclass(frozen=True)
class Try:
    """The `number`th try of a request, for a run, with the most tokens that it takes."""

    number: int
    run: str
    sent: int
    received: int


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
    """Holds back, for each try under way, the most it can use; then books what it did use.

    A request that does not fit waits for those under way, which mostly use less than was held
    back for them. Only when nothing is under way and it still does not fit, the run stops: so no
    answer is lost to a budget.
    """

    def __init__(self, budget: Budget, spent: Usage) -> None:
        """`spent`: what earlier starts of the run used."""
        self._budget = budget
        self._endless = budget == Budget()  # nothing is limited, so nothing is added up
        self.spent = spent  # what is booked: used, or held back
        self._under_way = 0
        self.refused: Usage | None = None  # the first try that did not fit
        self._gate = asyncio.Lock()
        self._settled = asyncio.Event()

    async def hold(self, bound: Usage) -> None:
        """Set aside room for a try. Raises BudgetReached."""
        if self._endless:
            return
        async with self._gate:
            while reached := next((error for passed, error in self._errors(bound) if passed), None):
                if not self._under_way:
                    self.refused = self.refused or bound
                    raise reached
                self._settled.clear()
                await self._settled.wait()
            self._take(bound)

    async def allot(self, parts: int) -> Usage:
        """Hold back one of so many parts of what is free, for another process."""
        async with self._gate:
            return self._take(self._free(parts))

    async def allot_all(self, spent: Callable[[], Awaitable[Usage]]) -> Usage:
        """Hold back all that is left, once nothing is under way.

        `spent` tells what the run really used: more than that is booked for processes that died.
        Where nothing is limited nobody waits, and nothing is asked.
        """
        if self._endless:
            return Usage()
        async with self._gate:
            while self._under_way:
                self._settled.clear()
                await self._settled.wait()
            self.spent = await spent()
            return self._take(self._free(1))

    def reached(self, bound: Usage) -> BudgetReached:
        """The error of a try that did not fit into all that was left."""
        errors = list(self._errors(bound))
        return next((error for passed, error in errors if passed), errors[0][1])

    def _take(self, bound: Usage) -> Usage:
        self.book(bound)
        self._under_way += 1
        return bound

    def _free(self, parts: int) -> Usage:
        """A part of what is left; 0 of what has no limit."""
        limits, spent = self._budget, self.spent
        return Usage(
            requests=max(0, (limits.max_requests or spent.requests) - spent.requests) // parts,
            prompt_tokens=max(0, (limits.max_tokens or spent.tokens) - spent.tokens) // parts,
            cost=max(0.0, (limits.max_cost or spent.cost) - spent.cost) / parts,
        )

    def book(self, used: Usage) -> None:
        """Book what was used without being held."""
        self.spent += used

    def resume(self) -> None:
        """A try of an earlier process, booked before, is under way again: it is settled too."""
        self._under_way += 1

    def settle(self, bound: Usage, used: Usage) -> None:
        """Book what a held try used, or another process of what was allotted to it."""
        if self._endless:
            return
        self._under_way -= 1
        self.book(used - bound)
        self._settled.set()

    def _errors(self, bound: Usage) -> Iterator[tuple[bool, BudgetReached]]:
        """Of each limit whether a try could pass it, and the error that it then is."""
        for name, used, more, unit, form in (
            ("max_requests", self.spent.requests, 1, "requests", ","),
            ("max_tokens", self.spent.tokens, bound.tokens, "tokens", ","),
            ("max_cost", self.spent.cost, bound.cost, "US dollars", ".4f"),
        ):
            limit = getattr(self._budget, name)
            if limit is not None:
                yield (
                    used + more > limit,
                    BudgetReached(
                        f"The run's budget is used up: {used:{form}} {unit} of {name} {limit:,}, "
                        f"and the next request may take {more:{form}} more. What was answered is "
                        f"kept: raise budget.{name} and run the same command again to go on."
                    ),
                )
