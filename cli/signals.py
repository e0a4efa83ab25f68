"""Ctrl-C and SIGTERM end a command within two seconds, whatever it is doing.

All that was answered is in the response cache by then, so that a hard end loses nothing: what does
not end by itself in time is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from toolloom.cli.console import tell

T = TypeVar("T")

GRACE = 1.3  # seconds for an orderly end
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOPPED = "Stopped. Run the same command again to go on from here."


class Stop:
    """Whether the command was told to end, and how."""

    def __init__(self) -> None:
        self.by = 0  # the first signal's number; later ones change nothing
        self.said = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    @property
    def status(self) -> int:
        """As shells report an end by a signal."""
        return 128 + (self.by or signal.SIGINT)

    def say(self) -> None:
        if not self.said:
            self.said = True
            tell(STOPPED, "stopped")

    def listen(self) -> None:
        """Take the signals, as far as this process does not ignore them."""
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, self._on_signal)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """`asyncio.run`, but what stops it raises KeyboardInterrupt once all is tidied up."""

        async def main() -> T:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            try:
                return await work
            finally:
                self._loop = self._task = None

        try:
            return asyncio.run(main())
        except asyncio.CancelledError:
            if self.by:
                raise KeyboardInterrupt from None
            raise

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.by:
            return
        self.by = number
        threading.Thread(target=self._end_in_time, daemon=True).start()
        if self._loop and self._task:
            self._loop.call_soon_threadsafe(self._task.cancel)
        else:
            raise KeyboardInterrupt

    def _end_in_time(self) -> None:
        time.sleep(GRACE)
        self.end()

    def end(self) -> NoReturn:
        """End the process now: what Python and Prefect do at their end takes seconds."""
        self.say()
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Processes this one has started, with the groups they lead; only where /proc tells them.
        for listed in Path("/proc/self/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, listed.read_text().split()):
                    with suppress(ProcessLookupError, PermissionError):
                        leads = os.getpgid(child) == child
                        (os.killpg if leads else os.kill)(child, signal.SIGKILL)
        os._exit(self.status)


STOP: ContextVar[Stop] = ContextVar("STOP")


@contextmanager
def stoppable() -> Iterator[Stop]:
    """While it lasts, signals end the command in order."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    stop = Stop()
    STOP.set(stop)
    stop.listen()
    try:
        yield stop
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                # Once more Ctrl-C would kill the interpreter at its end: with another status.
                signal.signal(number, signal.SIG_IGN if stop.by else handler)


def listen() -> None:
    """Take the signals back, after a library has taken them."""
    STOP.get().listen()


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` of a command's work."""
    return STOP.get().run(work)
