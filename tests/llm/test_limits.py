"""How many requests may be under way, and how many may leave within a minute."""

from __future__ import annotations

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st
from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.limits import ConcurrencyLimit, Quota, QuotaWindow


def lane_of(limit: int) -> ConcurrencyLimit:
    lane = ConcurrencyLimit()
    lane.allow(limit)
    return lane


async def most_at_once(lane: ConcurrencyLimit, count: int) -> int:
    """Drive through a lane and see how many were in it at once."""
    inside, sizes = set[int](), list[int]()

    async def drive(number: int) -> None:
        await lane.enter()
        inside.add(number)
        sizes.append(len(inside))
        await asyncio.sleep(0.01)
        inside.remove(number)
        lane.leave()

    await asyncio.gather(*map(drive, range(count)))
    return max(sizes)


async def test_refusals_narrow_and_answers_widen():
    """After a burst of refusals fewer go at once; answers bring the limit back, and no further."""
    lane = lane_of(8)
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
    lane = lane_of(8)
    for _ in range(20):
        lane.answered()
    lane.refused(time.monotonic(), 60)
    assert lane.closed == 0


async def test_cancelled_waiters_leave_no_gap():
    """A place that falls to a cancelled waiter goes to the next one."""
    lane = lane_of(1)
    await lane.enter()
    waiters = [asyncio.create_task(most_at_once(lane, 1)) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    lane.leave()
    waiters[1].cancel()
    assert await asyncio.wait_for(waiters[2], 30) == 1


@given(st.lists(st.integers(1, 40), min_size=1, max_size=30), st.integers(40, 100))
def test_no_window_holds_more_than_its_limit(amounts, limit):
    """Whatever is asked for, what one window lets leave at once is within the limit."""
    window = QuotaWindow(limit)
    taken = 0
    for amount in amounts:
        if window.wait(amount) == 0:
            window.take(amount)
            taken += amount
    assert taken <= limit


def test_a_share_is_what_was_used():
    """A request larger than the limit waits for an empty window, not for ever; a share that turns
    out smaller makes room, a larger one takes it."""
    window = QuotaWindow(100)
    assert window.wait(500) == 0
    share = window.take(500)
    assert 0 < window.wait(10) <= 61
    window.correct(share, 20)
    assert window.wait(80) == 0
    window.correct(share, 90)
    assert window.wait(80) > 0


async def test_requests_keep_to_their_window():
    """In any window as many leave as are allowed, and the next ones when those are old enough."""
    left = []

    class Watched(QuotaWindow):
        def take(self, amount):
            share = super().take(amount)
            left.append(share.at)
            return share

    quota, lane = Quota(), lane_of(1000)
    quota.windows["requests"] = Watched(5, seconds=0.3)
    await asyncio.gather(*(quota.enter(1, lane) for _ in range(12)))
    assert len(left) == 12
    assert all(later - sooner >= 0.3 for sooner, later in zip(left, left[5:], strict=False))


async def test_limits_of_the_recipe_reach_the_wire(gateway, at, plain):
    """With requests a minute set, no more reach the endpoint, though there is room for all."""
    async with FakeServer() as server:
        model = gateway.model(at(server, requests_per_minute=5))
        asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(8)]
        await until(lambda: server.answered == 5)
        done, waiting = await asyncio.wait(asked, timeout=0.3)
        assert (len(done), len(waiting), server.received) == (5, 3, 5)
        for task in waiting:
            task.cancel()


async def test_tokens_that_were_not_used_are_soon_for_others(gateway, at, plain):
    """Who waits for tokens goes on as soon as an answer took fewer than were guessed."""
    async with FakeServer() as server:
        model = gateway.model(at(server, tokens_per_minute=3000))
        asked = [model.complete(plain(seed=n, max_tokens=1000)) for n in range(30)]
        await asyncio.wait_for(asyncio.gather(*asked), 30)
