"""Contexts that are open in a task of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from toolloom.pipeline.apis.execution.keeping import NotOpened, kept_open


@asynccontextmanager
async def owned(events: list[str], wait: float = 0) -> AsyncIterator[asyncio.Task[None] | None]:
    """A context that must be left by the task that entered it."""
    await asyncio.sleep(wait)
    task = asyncio.current_task()
    try:
        yield task
    finally:
        events.append("left" if asyncio.current_task() is task else "left by another")


async def test_any_task_may_leave() -> None:
    """The context is left by its own task, whoever lets it go."""
    events: list[str] = []
    held = kept_open(lambda: owned(events), seconds=1, grace=1)
    assert await held.__aenter__() is not asyncio.current_task()
    await asyncio.create_task(held.__aexit__(None, None, None))  # type: ignore[arg-type]
    assert events == ["left"]


async def test_what_is_not_entered_in_time_is_an_error() -> None:
    """A context that takes too long is given up."""
    with pytest.raises(NotOpened, match="did not begin within 0.05 seconds"):
        async with kept_open(lambda: owned([], wait=60), seconds=0.05, grace=0.05):
            pass


async def test_what_fails_inside_reaches_the_caller() -> None:
    """An error of the body is the body's own, and the context is left all the same."""
    events: list[str] = []
    with pytest.raises(KeyError):
        async with kept_open(lambda: owned(events), seconds=1, grace=1):
            raise KeyError("body")
    assert events == ["left"]
