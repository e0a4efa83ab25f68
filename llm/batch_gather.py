"""Requests on the way into a batch, which leaves when it is full or nobody comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from toolloom.llm.batch_lines import BatchRequest

MOST_LINES = 50_000
MOST_BYTES = 200_000_000


class Gathering:
    """What is not in a batch yet."""

    def __init__(self, seconds: float, leave: Callable[[Sequence[BatchRequest]], None]) -> None:
        """`leave` is called with the requests of one batch, `seconds` after the last one came."""
        self._seconds = seconds
        self._leave = leave
        self._items: dict[str, BatchRequest] = {}
        self._bytes = 0
        self._most = 1
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def allow(self, most: int) -> None:
        """Let batches be as large as that: of several endpoints the widest counts."""
        self._most = max(self._most, min(most, MOST_LINES))

    def limit(self, most: int) -> None:
        """Let no batch be larger from now on."""
        self._most = max(1, most)

    def join(self, item: BatchRequest) -> None:
        if self._bytes + len(item.line) > MOST_BYTES:
            self._go()
        self._items[item.key] = item
        self._bytes += len(item.line)
        if len(self._items) >= self._most:
            self._go()
            return
        self.close()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._go)

    def drop(self, key: str) -> None:
        self._items.pop(key, None)

    def _go(self) -> None:
        self.close()
        items, self._items, self._bytes = self._items, {}, 0
        if items:
            self._leave(list(items.values()))
