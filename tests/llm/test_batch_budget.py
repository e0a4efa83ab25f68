"""What batches use of a budget, and which run pays for them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from support.batches import QUICK, ask_all, echo, leave_a_batch, opened, rows
from support.waiting import until

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.cache import BATCHES, RESPONSES
from toolloom.llm.fake import ScriptedFailure
from toolloom.llm.fake.batches import Batching
from toolloom.schemas import Budget, BudgetReached, EndpointDown


async def test_a_budget_holds_for_batches(cache, batched, plain):
    """What the budget has no room for does not go into a batch; the others are answered."""
    async with FakeServer(echo) as server:
        endpoint, budget = batched(server), Budget(max_requests=3)
        async with opened(cache, endpoint, budget=budget, run="a") as model:
            asked = (model.complete(plain(f"question {n}")) for n in range(5))
            replies = await asyncio.gather(*asked, return_exceptions=True)
        assert server.received == 3
    assert sum(isinstance(reply, BudgetReached) for reply in replies) == 2


def fails_often(times):
    """The script of a server that fails on each request so often."""
    seen = Counter()

    def script(body):
        seen[text := body["messages"][-1]["content"]] += 1
        return ScriptedFailure(500) if seen[text] <= times else "yes"

    return script


async def test_each_try_in_a_batch_is_a_request(cache, batched, plain):
    """Tries that failed count against the budget, in this process and in the next."""
    async with FakeServer(fails_often(2)) as server:
        for start, most in enumerate((10, 10, 15)):
            options = {"budget": Budget(max_requests=most), "run": "a"}
            async with opened(cache, batched(server, tries=9), **options) as model:
                asked = (model.complete(plain(f"question {n}")) for n in range(5))
                replies = await asyncio.gather(*asked, return_exceptions=True)
            assert server.received == most
            assert sum(isinstance(r, BudgetReached) for r in replies) == (0 if start == 2 else 5)
    async with Gateway(cache) as gateway:
        assert (await gateway.cache.spent("a")).requests == 15


async def test_an_open_batch_counts_from_the_start(cache, at, batched, plain):
    """What an earlier process left in a batch is part of what its run used, and once."""
    options = {"budget": Budget(max_requests=6), "run": "a"}
    async with FakeServer(echo, batches=Batching(seconds=0.4)) as server:
        await leave_a_batch(cache, batched(server), plain, 5, **options)
        async with Gateway(cache, pace=QUICK, **options) as gateway:
            direct, model = gateway.model(at(server)), gateway.model(batched(server))
            await direct.complete(plain("first"))
            with pytest.raises(BudgetReached):
                await direct.complete(plain("second"))
            assert len(await ask_all(model, plain, 5)) == 5
            with pytest.raises(BudgetReached, match="6 requests of max_requests 6"):
                await model.complete(plain("third"))
            assert (await gateway.cache.spent("a")).requests == server.received == 6


async def test_a_batch_that_was_never_made_is_held_anew(cache, batched, plain):
    """What an earlier process did not send is as much as any other request."""
    options = {"budget": Budget(max_requests=3), "run": "a"}
    async with FakeServer(echo, batches=Batching(uploading=1)) as server:
        async with opened(cache, batched(server), **options) as model:
            asked = asyncio.create_task(ask_all(model, plain, 3))
            await until(lambda: [row.state for row in rows(cache, BATCHES)] == ["gathered"])
            asked.cancel()
        async with opened(cache, batched(server), **options) as model:
            asked = (model.complete(plain(f"question {n}")) for n in (0, 1, 8, 9))
            replies = await asyncio.gather(*asked, return_exceptions=True)
        assert server.received == 3
    assert sum(isinstance(reply, BudgetReached) for reply in replies) == 1


async def test_an_open_batch_gives_back_what_it_did_not_use(cache, batched, plain):
    """Requests wait for a batch that holds room back, also if an earlier process sent it."""
    async with FakeServer(echo, batches=Batching(seconds=0.3)) as server:
        options = {"budget": Budget(max_tokens=700), "run": "a"}
        await leave_a_batch(cache, batched(server), plain, 4, **options)
        async with opened(cache, batched(server), **options) as model:
            assert (await model.complete(plain("another"))).text == "answer to another"
            await ask_all(model, plain, 4)
        assert (server.received, server.repeats) == (5, 0)


async def test_a_batch_belongs_to_the_run_that_sent_it(cache, batched, plain):
    """Another run that finds the answers of a batch has not paid for them."""
    async with FakeServer(echo, batches=Batching(seconds=0.3)) as server:
        await leave_a_batch(cache, batched(server), plain, 3, run="a")
        budget = Budget(max_requests=1)
        async with opened(cache, batched(server), run="b", budget=budget) as model:
            await ask_all(model, plain, 3)
            await model.complete(plain("another"))
    assert sorted(row.run for row in rows(cache, RESPONSES)) == ["a", "a", "a", "b"]


async def test_a_vanished_batch_may_have_been_paid(cache, batched, plain):
    """What nobody can tell any more is booked as the most it can be."""
    async with FakeServer(echo, batches=Batching(seconds=9)) as server:
        endpoint = batched(server, tries=1)
        await leave_a_batch(cache, endpoint, plain, 2, run="a")
        server.batches.batches.clear()
        async with Gateway(cache, pace=QUICK, run="a") as gateway:
            with pytest.raises(EndpointDown, match="the batch is gone"):
                await gateway.model(endpoint).complete(plain("question 0"))
            spent = await gateway.cache.spent("a")
    assert spent.requests == 2
    assert spent.tokens > 2 * plain().max_tokens


async def test_tokens_that_are_not_told_count_in_batches_too(cache, batched, plain):
    """Without `usage` in a batch's answers the budget counts the most they can have used."""
    body = json.dumps({"choices": [{"message": {"content": "yes"}}]})
    async with FakeServer(lambda _: ScriptedFailure(200, body=body)) as server:
        options = {"budget": Budget(max_tokens=1000), "run": "a"}
        for _ in range(2):
            async with opened(cache, batched(server), **options) as model:
                asked = (model.complete(plain(f"question {n}")) for n in range(20))
                replies = await asyncio.gather(*asked, return_exceptions=True)
            assert 3 < sum(not isinstance(reply, BudgetReached) for reply in replies) < 10
        assert 3 < server.received < 10
