"""Lines that say how far a piece of work is, where no run's progress is shown."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from rich.console import Console

from toolloom.pipeline.render.terminal import text

SECONDS_BETWEEN_LINES = 3.0


class Ticking:
    """Prints a line now and then, from a thread, while its block is worked on.

    `line` is told how many seconds have passed.
    """

    def __init__(self, console: Console, line: Callable[[float], str]) -> None:
        self._console = console
        self._line = line
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_LINES):
            line = self._line(time.monotonic() - self._began)
            self._console.print(text(line), soft_wrap=True)
