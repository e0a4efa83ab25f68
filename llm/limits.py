"""How many requests may be under way to one address with one key, and when."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from toolloom.llm.log import note

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
            self.rest(pause)

    def rest(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._opens = max(self._opens, time.monotonic() + seconds)

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
PARTS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_RESET = 3600.0

Past: TypeAlias = dict[str, tuple[tuple[float, float], ...]]
"""What left within the last minute, for each window by its name: seconds ago and amounts, the
oldest first."""


@dataclass
class QuotaShare:
    """What one request takes of a window; corrected once it is known."""

    at: float
    amount: float


class QuotaWindow:
    """At most `limit` within any `seconds`: every share is kept until it is that old."""

    def __init__(
        self, limit: float, seconds: float = WINDOW, past: tuple[tuple[float, float], ...] = ()
    ) -> None:
        self.limit = limit
        self.seconds = seconds
        now = time.monotonic()
        self.shares = deque(QuotaShare(now - ago, amount) for ago, amount in past)
        self.used = sum(share.amount for share in self.shares)

    @property
    def past(self) -> tuple[tuple[float, float], ...]:
        """What is in it, second by second."""
        now = time.monotonic()
        live = [(now - s.at, s.amount) for s in self.shares if s.at + self.seconds > now]
        seconds = groupby(live, lambda share: int(share[0]))
        return tuple((float(ago), sum(amount for _, amount in some)) for ago, some in seconds)

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


class Allowance:
    """What an endpoint's headers say is left of one thing until it is filled up again."""

    def __init__(self) -> None:
        self.sent = 0.0  # all that ever left here
        self._left: float | None = None
        self._until = 0.0

    def wait(self, amount: float) -> float:
        """Seconds until so much may be sent, 0 if it may."""
        now = time.monotonic()
        if self._left is None or now >= self._until:
            self._left = None
            return 0.0
        return self._until - now if self._left < amount else 0.0

    def take(self, amount: float) -> None:
        self.sent += amount
        if self._left is not None:
            self._left -= amount

    def heed(self, sent: float, left: str | None, reset: str | None) -> None:
        """`left` was true when all of `sent` had arrived; what left since then is taken off."""
        seconds = duration(reset or "")
        with suppress(TypeError, ValueError):
            number = float(left or "")
            if seconds is not None and number >= 0:
                self._left = number - (self.sent - sent)
                self._until = time.monotonic() + seconds


@dataclass
class Ticket:
    """One try: how much had left with it, and what it took of the windows."""

    sent: dict[str, float]
    shares: dict[str, QuotaShare]


class Quota:
    """One model's limits at one address with one key. Its tries leave one by one, in order."""

    def __init__(self, past: Past | None = None) -> None:
        """`past`: what left elsewhere under the same limits."""
        self._past = past or {}
        self._windows: dict[str, QuotaWindow] = {}
        self._allowances = {"requests": Allowance(), "tokens": Allowance()}
        self._gate = asyncio.Lock()
        self._changed = asyncio.Event()

    def allow(self, requests: int | None, tokens: int | None) -> None:
        """Lower the limits: of several endpoints that share a model the strictest counts."""
        for name, limit in (("requests", requests), ("tokens", tokens)):
            window = self._windows.get(name)
            if limit is not None and (window is None or limit < window.limit):
                self._windows[name] = QuotaWindow(limit, past=self._past.get(name, ()))

    @property
    def past(self) -> Past:
        """What left within the last minute, here and before."""
        return {name: window.past for name, window in self._windows.items()}

    async def enter(self, tokens: float, lane: ConcurrencyLimit) -> Ticket:
        """Wait until a request of about so many tokens may leave, and for a place in the lane."""
        amounts = {"requests": 1.0, "tokens": tokens}
        async with self._gate:
            while wait := max(
                *(one.wait(amounts[name]) for name, one in self._allowances.items()),
                *(one.wait(amounts[name]) for name, one in self._windows.items()),
            ):
                self._changed.clear()
                with suppress(TimeoutError):  # an answer may give back much of what was guessed
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
            await lane.enter()  # taken before the request leaves, it would count too early
            for name, allowance in self._allowances.items():
                allowance.take(amounts[name])
            shares = {name: window.take(amounts[name]) for name, window in self._windows.items()}
        return Ticket({name: one.sent for name, one in self._allowances.items()}, shares)

    def used(self, ticket: Ticket, tokens: int) -> None:
        """What a try really took, as its answer tells; 0 for one that was refused."""
        if share := ticket.shares.get("tokens"):
            self._windows["tokens"].correct(share, tokens)
            self._changed.set()

    def heed(self, ticket: Ticket, headers: Mapping[str, str]) -> None:
        """Take note of a response's rate-limit headers, named as OpenAI names them."""
        for name, allowance in self._allowances.items():
            left = headers.get(f"x-ratelimit-remaining-{name}")
            if left is not None:
                reset = headers.get(f"x-ratelimit-reset-{name}")
                allowance.heed(ticket.sent[name], left, reset)
                self._changed.set()


def duration(text: str) -> float | None:
    """Seconds of `1s`, `6m0s`, `20ms` or `1.5`, an hour at most; None if it is nothing of these."""
    parts = PARTS.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return min(LONGEST_RESET, sum(float(number) * SECONDS[unit] for number, unit in parts))
    try:
        seconds = float(text)
    except ValueError:
        return None
    return min(LONGEST_RESET, seconds) if seconds >= 0 else None
