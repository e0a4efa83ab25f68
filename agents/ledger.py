"""What a record's questions have cost so far, also when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from toolloom.llm import Answer, Misfit, Unusable, Usage

T = TypeVar("T")


@dataclass
class Ledger:
    """Books every answer, so that a rejected record keeps all of its raw responses."""

    usage: Usage = field(default_factory=Usage)
    raw: list[str] = field(default_factory=list)

    def book(self, spent: Answer[T] | Unusable) -> None:
        self.usage += spent.usage
        self.raw += spent.raw

    def answer(self, value: T) -> Answer[T]:
        """`value`, made of all that is booked."""
        return Answer(value, self.usage, tuple(self.raw))

    def fault(self, why: Misfit | Unusable) -> Unusable:
        """`why`, with all that is booked."""
        return Unusable(why.reason, why.detail, tuple(self.raw), self.usage)

    async def take(self, asked: Awaitable[Answer[T]]) -> T:
        """The value of one answer. Raises Unusable with all that is booked."""
        return (await self.take_all([asked]))[0]

    async def take_all(
        self, asked: Iterable[Awaitable[Answer[T]]], enough: int | None = None
    ) -> list[T]:
        """The values of questions asked at the same time, in order.

        Waits for all of them: which one fails first must not show in what is kept. Raises
        Unusable if fewer than `enough` succeed; without it, all must.
        """
        done = await asyncio.gather(*asked, return_exceptions=True)
        for one in done:
            if isinstance(one, BaseException) and not isinstance(one, Unusable):
                raise one  # the endpoint's errors stop the run
        spent = [one for one in done if isinstance(one, Answer | Unusable)]
        for one in spent:
            self.book(one)
        lost = [one for one in spent if isinstance(one, Unusable)]
        kept = [one.value for one in spent if isinstance(one, Answer)]
        if lost and len(kept) < (len(done) if enough is None else enough):
            raise self.fault(lost[0]) from lost[0]
        return kept
