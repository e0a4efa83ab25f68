"""What may be sent: within a run's budget, a number under way, and what a minute has room for."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from support.waiting import until

from toolloom import FakeServer, Gateway
from toolloom.llm.client import ConcurrencyLimit, Quota
from toolloom.llm.messages import WORK, Work
from toolloom.llm.scripted import ScriptedFailure
from toolloom.schemas import Budget, BudgetReached, EndpointDown, Price, RequestRefused

PRICES = {"fake": Price(prompt=1000.0, completion=2000.0)}
GARBLED = ScriptedFailure(200, body="<html>")


async def used(model, plain, count: int) -> int:
    """Ask all at once until the budget is reached; how many were answered."""
    asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(count)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    failed = [one for one in done if isinstance(one, BaseException)]
    assert all(isinstance(one, BudgetReached) for one in failed)
    return count - len(failed)


@pytest.mark.parametrize(("what", "limit"), [("requests", 7), ("tokens", 700), ("cost", 1.0)])
async def test_no_limit_is_passed(cache, at, plain, what, limit):
    """Whatever is limited: what was used is within it, and most of it was used."""
    budget = Budget.model_validate({f"max_{what}": limit})
    async with (
        FakeServer(latency=0.01) as server,
        Gateway(cache, prices=PRICES, budget=budget, run="r") as gateway,
    ):
        answered = await used(gateway.model(at(server, concurrency=16)), plain, 60)
        assert 0.5 * limit < getattr(await gateway.cache.spent("r"), what) <= limit
        assert 0 < answered == server.answered == server.received < 60


async def test_the_budget_is_for_all_starts_of_a_run(cache, at, plain):
    """What earlier processes used counts, answers from the cache cost nothing, and more may be
    allowed later."""
    WORK.set(Work(run="r"))
    async with FakeServer() as server:
        for most, run, answered in ((5, "r", 5), (5, "r", 5), (9, "r", 9), (5, "other", 9)):
            budget = Budget(max_requests=most)
            async with Gateway(cache, budget=budget, run=run) as gateway:
                assert await used(gateway.model(at(server)), plain, 9) == answered
        assert server.received == 9


@pytest.mark.parametrize(
    ("failure", "tokens"),
    [(ScriptedFailure(400), 400), (ScriptedFailure(500), 400), (GARBLED, None)],
    ids=["refused", "failed", "garbled"],
)
async def test_failed_tries_count_after_a_restart(cache, at, plain, failure, tokens):
    """Each try without an answer is a run's request too, also when it goes on; one that was refused
    or failed gives its tokens back."""
    budget = Budget(max_requests=6, max_tokens=tokens)
    async with FakeServer(lambda body: failure) as server:
        for _ in range(3):
            async with Gateway(cache, budget=budget, run="r") as gateway:
                model = gateway.model(at(server, tries=2))
                for seed in range(9):
                    with suppress(RequestRefused, EndpointDown, BudgetReached):
                        await model.complete(plain(seed=seed))
        assert server.received == 6


async def test_what_nobody_knows_counts_as_all_it_could_be(cache, at, plain):
    """A request without an answer may have been paid for: so it is booked with its most."""
    async with FakeServer(latency=5) as server:
        async with Gateway(cache, budget=Budget(max_tokens=300)) as gateway:
            with pytest.raises(BudgetReached, match="max_tokens"):
                await gateway.model(at(server, tries=9, timeout=0.1)).complete(plain())
        assert server.received <= 2


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
