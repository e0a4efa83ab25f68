from __future__ import annotations

import asyncio
import time

from toolloom.llm.limits import ConcurrencyLimit


async def most_at_once(lane: ConcurrencyLimit, count: int) -> int:
    """Drive through a lane and see how many were in it at once."""
    inside = most = 0

    async def drive() -> None:
        nonlocal inside, most
        await lane.enter()
        try:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.01)
            inside -= 1
        finally:
            lane.leave()

    await asyncio.gather(*(drive() for _ in range(count)))
    return most


async def test_the_limit_holds():
    """No more than the limit are in a lane at once, and all get through."""
    lane = ConcurrencyLimit()
    lane.allow(3)
    assert await most_at_once(lane, 20) == 3


async def test_refusals_narrow_and_answers_widen():
    """After a burst of refusals fewer go at once; answers bring the limit back, and no further."""
    lane = ConcurrencyLimit()
    lane.allow(8)
    sent = time.monotonic()
    for _ in range(5):
        lane.refused(sent, 0.05)
    assert await most_at_once(lane, 20) == 6
    assert time.monotonic() - sent >= 0.05
    for _ in range(10):
        lane.answered()
    assert await most_at_once(lane, 20) == 8


async def test_a_refusal_among_many_answers_stops_nobody_else():
    """Where one request in many is refused, it waits alone."""
    lane = ConcurrencyLimit()
    lane.allow(8)
    for _ in range(20):
        lane.answered()
    lane.refused(time.monotonic(), 60)
    assert lane.closed == 0


async def test_cancelled_waiters_leave_no_gap():
    """A place that falls to a cancelled waiter goes to the next one."""
    lane = ConcurrencyLimit()
    lane.allow(1)
    await lane.enter()
    waiters = [asyncio.create_task(most_at_once(lane, 1)) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    lane.leave()
    waiters[1].cancel()
    assert await asyncio.wait_for(waiters[2], 30) == 1
