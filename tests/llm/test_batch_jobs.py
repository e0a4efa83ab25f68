"""What batches use of a budget, and what a process that ends leaves of them to the next."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter

import pytest
import sqlalchemy as sa
from support.batches import QUICK, ask_all, echo, opened, rows
from support.waiting import until

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.batch_jobs import Pace
from toolloom.llm.database import BATCHED, BATCHES, RESPONSES, address_of
from toolloom.llm.fake import ScriptedFailure
from toolloom.llm.fake.batches import Batching
from toolloom.schemas import Budget, BudgetReached, EndpointDown, Price


async def leave_a_batch(cache, endpoint, plain, count, state="open", **options):
    """A process that ends while a batch is in that state, and what comes next is under way."""
    async with opened(cache, endpoint, **options) as model:
        asked = asyncio.create_task(ask_all(model, plain, count))
        await until(lambda: [row.state for row in rows(cache, BATCHES)] == [state])
        await asyncio.sleep(0.05)
        asked.cancel()


async def test_each_try_in_a_batch_is_a_request(cache, batched, plain):
    """Only what failed goes into the next batch. Its tries count against the budget, in this process
    and in the next."""
    seen = Counter()

    def fails_thrice(body):
        text = body["messages"][-1]["content"]
        seen[text] += text in ("question 1", "question 3")
        return ScriptedFailure(503) if 0 < seen[text] <= 3 else "yes"

    async with FakeServer(fails_thrice) as server:
        for most, refused in ((7, 2), (7, 2), (11, 0)):
            options = {"budget": Budget(max_requests=most), "run": "a"}
            async with opened(cache, batched(server, tries=9), **options) as model:
                replies = await ask_all(model, plain, 5, return_exceptions=True)
            assert (server.received, server.repeats) == (most, 0)
            assert sum(isinstance(reply, BudgetReached) for reply in replies) == refused
        sizes = [b["request_counts"]["total"] for b in server.batches.batches.values()]
    assert sizes == [5, 2, 2, 2]
    assert sorted(row.requests for row in rows(cache, RESPONSES)) == [1, 1, 1, 2, 2]
    async with Gateway(cache) as gateway:
        assert (await gateway.cache.spent("a")).requests == 11


async def test_an_open_batch_counts_from_the_start(where, at, batched, plain):
    """A run that stops while it waits goes on with the same batch when it is started again, and what
    it left in there is part of what it used, and once."""
    options = {"budget": Budget(max_requests=6), "run": "a"}
    async with FakeServer(echo, batches=Batching(seconds=0.4)) as server:
        await leave_a_batch(where, batched(server), plain, 5, **options)
        async with Gateway(where, pace=QUICK, **options) as gateway:
            direct, model = gateway.model(at(server)), gateway.model(batched(server))
            await direct.complete(plain("first"))
            with pytest.raises(BudgetReached):
                await direct.complete(plain("second"))
            replies = await ask_all(model, plain, 5)
            with pytest.raises(BudgetReached, match="6 requests of max_requests 6"):
                await model.complete(plain("third"))
            assert (await gateway.cache.spent("a")).requests == server.received == 6
        assert (server.answered, server.repeats, len(server.batches.batches)) == (6, 0, 1)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(5)]


async def test_a_batch_that_was_never_made_is_held_anew(cache, batched, plain):
    """What an earlier process did not send is as much as any other request."""
    options = {"budget": Budget(max_requests=3), "run": "a"}
    async with FakeServer(echo, batches=Batching(uploading=1)) as server:
        await leave_a_batch(cache, batched(server), plain, 3, "gathered", **options)
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
        prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
        async with Gateway(cache, pace=QUICK, run="a", prices=prices) as gateway:
            with pytest.raises(EndpointDown, match="the batch is gone"):
                await gateway.model(endpoint).complete(plain("question 0"))
            spent = await gateway.cache.spent("a")
    assert spent.requests == 2
    assert spent.tokens > 2 * plain().max_tokens
    assert spent.cost == pytest.approx(spent.tokens * 5e-6)


async def test_tokens_that_are_not_told_count_in_batches_too(cache, batched, plain):
    """Without `usage` in a batch's answers the budget counts the most they can have used."""
    body = json.dumps({"choices": [{"message": {"content": "yes"}}]})
    async with FakeServer(lambda _: ScriptedFailure(200, body=body)) as server:
        options = {"budget": Budget(max_tokens=1000), "run": "a"}
        for _ in range(2):
            async with opened(cache, batched(server), **options) as model:
                replies = await ask_all(model, plain, 20, return_exceptions=True)
            assert 3 < sum(not isinstance(reply, BudgetReached) for reply in replies) < 10
        assert 3 < server.received < 10


async def test_a_batch_that_was_never_made_is_forgotten(cache, batched, plain):
    """A file that a killed process uploaded without making a batch of it is asked for anew."""
    async with FakeServer(echo) as server:
        async with opened(cache, batched(server)):
            pass
        engine = sa.create_engine(address_of(cache))
        owner = {"endpoint": server.base_url, "model": "fake", "at": time.time()}
        with engine.begin() as connection:
            made = [("a", "gathered", None), ("b", "uploaded", "file-9")]
            for name, state, remote in made:
                row = {**owner, "id": name, "state": state, "remote": remote}
                connection.execute(sa.insert(BATCHES), row)
                connection.execute(sa.insert(BATCHED), {"key": name, "batch": name, "tries": 1})
        engine.dispose()
        async with opened(cache, batched(server)) as model:
            await ask_all(model, plain, 2)
            await until(lambda: rows(cache, BATCHES) == [])
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []


async def test_a_batch_that_comes_late_is_found(cache, batched, plain):
    """However long its file took: a batch that was asked for just before has time to appear."""
    pace = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=5.0)
    plan = Batching(uploading=1.2, making=0.3)
    async with FakeServer(echo, batches=plan) as server:
        await leave_a_batch(cache, batched(server), plain, 3, "uploaded", pace=pace)
        async with opened(cache, batched(server), pace=pace) as model:
            await ask_all(model, plain, 3)
        assert (server.answered, server.repeats) == (3, 0)


async def test_a_cache_of_an_earlier_version_has_batches_too(cache, batched, plain):
    """Batches of a version that wrote down less are waited for."""
    async with FakeServer(echo, batches=Batching(seconds=0.3)) as server:
        await leave_a_batch(cache, batched(server), plain, 3)
        engine = sa.create_engine(address_of(cache))
        with engine.begin() as connection:
            for column in ("run", "sent", "received"):
                connection.exec_driver_sql(f"ALTER TABLE batched DROP COLUMN {column}")
        engine.dispose()
        async with opened(cache, batched(server)) as model:
            await ask_all(model, plain, 3)
        assert (server.answered, server.repeats) == (3, 0)


REQUESTS = 60
RUN = """
import asyncio, sys
from toolloom.llm import Gateway, Request
from toolloom.llm.batch_jobs import Pace
from toolloom.schemas import Endpoint

async def main():
    hello = ({"role": "user", "content": "Hello"},)
    pace = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=0.5)
    async with Gateway(sys.argv[1], pace=pace) as gateway:
        endpoint = Endpoint(base_url=sys.argv[2], model="fake", mode="batch", concurrency=20)
        model = gateway.model(endpoint)
        asked = (Request(hello, None, 16, 0.5, seed) for seed in range(int(sys.argv[3])))
        await asyncio.gather(*map(model.complete, asked))

asyncio.run(main())
"""


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "moment", ["made", *(pytest.param(m, marks=SLOW) for m in ("uploaded", "answered"))]
)
def test_a_killed_run_sends_nothing_twice(cache, moment):
    """After kill -9 at any step of a batch the next run finds it, and no request is paid twice."""
    with FakeServer(batches=Batching(seconds=0.3)).serve_in_thread() as server:
        reached = {
            "uploaded": lambda: server.batches.files,
            "made": lambda: len(server.batches.batches) == 3,
            "answered": lambda: server.answered > REQUESTS // 2,
        }[moment]
        command = [sys.executable, "-c", RUN, str(cache), server.base_url, str(REQUESTS)]
        with subprocess.Popen(command) as process:
            while not reached() and process.poll() is None:
                time.sleep(0.002)
            process.kill()
        assert subprocess.run(command, check=False).returncode == 0
        assert (server.answered, server.repeats) == (REQUESTS, 0)
    assert len(rows(cache, RESPONSES)) == REQUESTS
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []
