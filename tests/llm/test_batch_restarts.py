"""A process that ends in the middle of a batch: the next one goes on, and pays nothing twice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa
from support.batches import ask_all, echo, leave_a_batch, opened, rows
from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.batch_jobs import Pace
from toolloom.llm.cache import BATCHED, BATCHES, RESPONSES
from toolloom.llm.database import address_of
from toolloom.llm.fake.batches import Batching
from toolloom.schemas import Budget, BudgetReached


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_a_closed_gateway_leaves_its_batch_to_the_next(request, database, batched, plain):
    """A run that stops while it waits goes on with the same batch when it is started again."""
    cache = request.getfixturevalue("cache" if database == "sqlite" else "postgres_url")
    plan = Batching(seconds=2)
    async with FakeServer(echo, batches=plan) as server:
        options = {"run": "a", "budget": Budget(max_requests=8)}
        await leave_a_batch(cache, batched(server), plain, 5, **options)
        async with opened(cache, batched(server), **options) as model:
            replies = await ask_all(model, plain, 8)
            with pytest.raises(BudgetReached):
                await model.complete(plain("one more"))
        assert (server.answered, server.repeats, len(server.batches.batches)) == (8, 0, 2)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(8)]


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
        async with opened(cache, batched(server), pace=pace) as model:
            asked = asyncio.create_task(ask_all(model, plain, 3))
            await until(lambda: [row.state for row in rows(cache, BATCHES)] == ["uploaded"])
            await asyncio.sleep(0.05)
            asked.cancel()
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
from toolloom.agents.ask import ask
from toolloom.llm import Gateway
from toolloom.llm.batch_jobs import Pace
from toolloom.prompts import Prompt
from toolloom.schemas import Endpoint

async def main():
    prompt = Prompt("t", "h", ({"role": "user", "content": "Hello"},))
    pace = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=0.5)
    async with Gateway(sys.argv[1], pace=pace) as gateway:
        endpoint = Endpoint(base_url=sys.argv[2], model="fake", mode="batch", concurrency=20)
        model = gateway.model(endpoint)
        asked = (ask(model, prompt, str, seed=n) for n in range(int(sys.argv[3])))
        await asyncio.gather(*asked)

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
