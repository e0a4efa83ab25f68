"""How many requests may be under way to one address, and when."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType

# Under a real rate limit of 16 at once about a tenth of the requests is refused; one refusal in
# twenty by chance still leaves about 40 places.
NARROW = 0.75
WIDEN = 0.5


class Lane:
    """A limit that narrows when the endpoint says "too many" and widens again as it answers.

    `async with lane:` waits for a place, and for the end of any pause the endpoint asked for.
    """

    def __init__(self) -> None:
        self.limit = 1
        self._width = 1.0
        self._busy = 0
        self._opens = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def allow(self, limit: int) -> None:
        """Raise the limit: of several endpoints at one address the widest counts."""
        self.limit = max(self.limit, limit)
        self._width = float(self.limit)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, then less at once. One burst of refusals narrows once."""
        now = time.monotonic()
        if now >= self._opens:
            self._width = max(1.0, self._width * NARROW)
        self._opens = max(self._opens, now + seconds)

    def answered(self) -> None:
        self._width = min(float(self.limit), self._width + WIDEN)

    async def __aenter__(self) -> None:
        while True:
            if (closed := self._opens - time.monotonic()) > 0:
                await asyncio.sleep(closed)
            elif self._busy >= int(self._width):
                await self._wait()
            else:
                self._busy += 1
                return

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._busy -= 1
        self._wake()

    async def _wait(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._wake()  # it was this one's turn: pass it on
            raise

    def _wake(self) -> None:
        free = int(self._width) - self._busy
        while free > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                free -= 1
