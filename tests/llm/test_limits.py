"""How many requests may be under way, and how many may leave within a minute."""

from __future__ import annotations

import asyncio

from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.limits import ConcurrencyLimit, Quota


async def test_cancelled_waiters_leave_no_gap():
    """A place that falls to a cancelled waiter goes to the next one."""
    lane = ConcurrencyLimit()
    lane.allow(1)
    await lane.enter()
    waiters = [asyncio.create_task(lane.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    waiters[0].cancel()
    lane.leave()
    waiters[1].cancel()
    await asyncio.wait_for(waiters[2], 30)


def test_a_share_is_what_was_used():
    """A request larger than the limit waits for an empty window, not for ever; a share that turns
    out smaller makes room, a larger one takes it."""
    quota = Quota()
    quota.allow(None, 100)
    assert quota.wait(500) == 0
    share = quota.take(500)
    assert 0 < quota.wait(10) <= 61
    quota.used(share, 20)
    assert quota.wait(80) == 0
    quota.used(share, 90)
    assert quota.wait(80) > 0


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
