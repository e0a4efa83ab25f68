"""A context that is open in a task of its own, so that any task may use and close it.

The MCP library's contexts must be left by the task that entered them; a session of ours is used
by whichever task makes a call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeVar

from pydantic import ValidationError

Held = TypeVar("Held")


class NotOpened(Exception):
    """A context that could not be entered, or not in time."""


@asynccontextmanager
async def kept_open(
    make: Callable[[], AbstractAsyncContextManager[Held]], *, seconds: float, grace: float
) -> AsyncIterator[Held]:
    """What `make` gives, entered. `seconds`: for entering; `grace`: for leaving.

    Raises NotOpened. What it complains of once it was entered is dropped: whoever used it knows.
    """
    entered: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def keep() -> None:
        async with make() as held:
            entered.set_result(held)
            await leave.wait()

    keeper = asyncio.create_task(keep())
    try:
        either: set[asyncio.Future[Any]] = {keeper, entered}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            raise NotOpened(_why_not(keeper, seconds))
        yield entered.result()
    finally:
        leave.set()
        await asyncio.wait({keeper}, timeout=grace)
        keeper.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await keeper


def _why_not(keeper: asyncio.Task[None], seconds: float) -> str:
    error = keeper.exception() if keeper.done() and not keeper.cancelled() else None
    if error is None:
        return f"did not begin within {seconds:g} seconds"
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        return f"begins in no known way: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"cannot be used: {error or type(error).__name__}"
