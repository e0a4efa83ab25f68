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
from collections.abc import Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn, TypeVar

from toolloom.cli.console import tell

T = TypeVar("T")

GRACE = 1.3  # seconds for an orderly end
STOPPED = "Stopped. Run the same command again to go on from here."


class Stop:
    """Which signal has come, and the work that it is to end."""

    by = 0  # the first signal's number; later ones change nothing
    task: asyncio.Task[Any] | None = None


def listen() -> None:
    """Take the signals that this process does not ignore; also after a library has taken them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)


def run(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` of a command's work. What stops it raises KeyboardInterrupt in the end."""

    async def main() -> T:
        Stop.task = asyncio.current_task()
        try:
            return await work
        finally:
            Stop.task = None

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if Stop.by:
            raise KeyboardInterrupt from None
        raise


def end() -> NoReturn:
    """End the process now: what Python and Prefect do at their end takes seconds."""
    tell(STOPPED, "stopped")
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(128 + (Stop.by or signal.SIGINT))  # as shells report an end by a signal


def _on_signal(number: int, frame: FrameType | None) -> None:
    if Stop.by:
        return
    Stop.by = number
    in_time = threading.Timer(GRACE, end)
    in_time.daemon = True
    in_time.start()
    if Stop.task:
        Stop.task.get_loop().call_soon_threadsafe(Stop.task.cancel)
    else:
        raise KeyboardInterrupt
