"""How many requests may be under way to one address with one key, and when."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque

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
        if refused >= FEW and refused > SOME * len(self._refused):
            self._narrow(sent)
        if refused >= FEW and refused > MANY * len(self._refused):
            self.rest(pause)

    def rest(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._opens = max(self._opens, time.monotonic() + seconds)

    def _narrow(self, sent: float) -> None:
        """Send less at once. One burst narrows once: what was sent before tells nothing new."""
        if sent < self._narrowed:
            return
        self._narrowed = time.monotonic()
        before, self._width = self.places, max(1.0, self._width * NARROW)
        if self.places < before:
            message = f"{self._name}: {self.places} requests at once"
            note(logging.INFO, "narrowed", message, places=self.places)

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
