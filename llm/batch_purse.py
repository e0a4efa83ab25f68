"""What a run's budget holds back for requests that are in batches, also in earlier processes'."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolloom.llm.batch_book import Try, unanswered
from toolloom.llm.budget import Spending
from toolloom.llm.cache import Cache
from toolloom.schemas import Price, Usage

UNSENT = Usage()


class BatchPurse:
    """The purse, by the keys of requests: each try is held once and settled once.

    What earlier processes left in batches is booked from the start, as the most it can be; it is
    under way as soon as somebody waits for those batches.
    """

    def __init__(self, purse: Spending | None, prices: Mapping[str, Price]) -> None:
        self._purse = purse
        self._prices = prices
        self._left: dict[str, Usage] = {}
        self._held: dict[str, Usage] = {}

    async def begin(self, cache: Cache, run: str) -> None:
        """Book what earlier processes of the run left in batches."""
        if self._purse is None:
            return
        for key, model, made in await unanswered(cache, run):
            self._left[key] = bound = self.most(model, made)
            self._purse.book(bound)

    def most(self, model: str, made: Try) -> Usage:
        """The most that a try can use in a batch."""
        price = self._prices.get(model)
        cost = price.cost(made.sent, made.received, batch=True) if price else 0.0
        return Usage(
            requests=1, prompt_tokens=made.sent, completion_tokens=made.received, cost=cost
        )

    def follow(self, keys: Iterable[str]) -> None:
        """Somebody waits for an earlier process's batch with these requests."""
        for key in keys:
            if self._purse and (bound := self._left.pop(key, None)):
                self._purse.resume()
                self._held[key] = bound

    async def hold(self, key: str, model: str, made: Try) -> None:
        """Set aside room for a try that is to go into a batch. Raises BudgetReached."""
        if self._purse and key not in self._held:
            bound = self.most(model, made)
            await self._purse.hold(bound)
            self._held[key] = bound

    def settle(self, key: str, used: Usage | None = None) -> None:
        """Book what a try used: all it can have used, unless that is known."""
        bound = self._held.pop(key, None)
        if self._purse is None or bound is None:
            return
        self._purse.settle(bound, bound if used is None else used)
