"""Batches: each request answered once, whatever becomes of batches, processes and budgets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.batch_server import QUICK, Batching, BatchServer, ask_all, echo, opened, rows
from support.waiting import until

from toolloom import FakeServer, Gateway
from toolloom.llm.batch import outcomes
from toolloom.llm.scripted import ScriptedFailure
from toolloom.schemas import (
    Budget,
    BudgetReached,
    EndpointDown,
    EndpointError,
    Price,
    RequestRefused,
)


@pytest.mark.parametrize(
    ("plan", "most", "gather", "count", "sizes"),
    [
        (Batching(), 16, 0.05, 10, [10]),
        (Batching(), 4, 30, 8, [4, 4]),
        (Batching(expiring=1), 16, 0.05, 10, [10, 5]),
        (Batching(room=4, seconds=0.02), 4, 0.05, 10, None),
        (Batching(lost=3), 2, 0.05, 6, [2, 2, 2]),
    ],
    ids=[
        "requests made together share a batch",
        "a full batch leaves at once",
        "what an expired batch did is kept",
        "too much at once waits for room",
        "a lost answer makes no second batch",
    ],
)
@pytest.mark.timeout(120)
async def test_each_request_gets_its_own_answer_once(
    cache, batched, plain, plan, most, gather, count, sizes
):
    """`concurrency` is the number of requests in a batch; several may be under way. Whatever
    becomes of batches, nothing is answered twice, and none is left behind."""
    async with BatchServer(echo, plan) as server:
        async with opened(
            cache, batched(server, concurrency=most), pace=replace(QUICK, gather=gather)
        ) as model:
            replies = await ask_all(model, plain, count)
        assert (server.answered, server.repeats) == (count, 0)
        totals = [b["request_counts"]["total"] for b in server.batches.values()]
        assert sizes in (None, totals)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(count)]
    assert rows(cache, "batches") == rows(cache, "batch_requests") == []


async def test_what_fails_harms_no_other(cache, batched, plain, monkeypatch):
    """What the endpoint refuses is told to who asked, and so is what fails in all its tries, while
    others are answered. A key that it repeats in answers or errors is not spread."""
    key = "sk-a-key-that-nobody-may-see"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    failures = {
        "question 0": ScriptedFailure(400, body=f"bad key {key}"),
        "question 1": ScriptedFailure(),
    }

    def tells(body):
        return failures.get(body["messages"][-1]["content"], f"your key is {key}")

    async with BatchServer(tells, key=key) as server, opened(cache, batched(server)) as model:
        refused, failed, reply = await ask_all(model, plain, 3, return_exceptions=True)
        assert server.received == 4
    assert isinstance(refused, RequestRefused) and "bad key [key]" in str(refused)
    assert isinstance(failed, RequestRefused) and "tried 2 times" in str(failed)
    assert reply.text == "your key is [key]"
    assert key not in refused.raw + reply.raw
    assert all(key.encode() not in file.read_bytes() for file in cache.parent.iterdir())


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"failures": {"500": 1}}, EndpointDown, "HTTP 500: scripted failure .tried"),
        ({"models": ["another"]}, EndpointError, "The model `fake` does not exist"),
        ({"plan": Batching(purpose="o")}, EndpointError, "No batch can be made: .* 'purpose'"),
    ],
    ids=["nothing is answered", "a batch is not begun", "no file is taken"],
)
async def test_an_endpoint_that_takes_no_batches_stops_the_run(
    cache, batched, plain, options, kind, words
):
    """It does so with its own words, and rejects no request."""
    async with BatchServer(echo, **options) as server, opened(cache, batched(server)) as model:
        with pytest.raises(kind, match=words):
            await ask_all(model, plain, 3)
    assert rows(cache, "batches") == []


async def test_a_reply_keeps_its_price(cache, batched, plain, city):
    """What was answered in a batch costs that, what was answered at once costs more: whoever
    asks again is told the same, whatever the endpoint's mode is by then."""
    prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
    costs = []
    async with BatchServer() as server:
        for mode in ("batch", "batch", "direct"):
            endpoint = batched(server, mode=mode)
            async with opened(cache, endpoint, prices=prices) as model:
                first = await model.complete(plain(schema=city))
                second = await model.complete(plain("in a batch", schema=city))
                costs.append([model.usage(first).cost, model.usage(second).cost])
        assert server.received == 2
    rates = zip((first, second), (10e-6, 5e-6), strict=True)
    told = [(reply.prompt_tokens + reply.completion_tokens) * rate for reply, rate in rates]
    assert costs == [pytest.approx(told)] * 3
    assert [row["cost"] for row in rows(cache, "responses")] == pytest.approx(told)


async def test_models_of_one_name_share_batches(cache, batched, plain):
    """Two agents with settings of their own for one model go into one batch."""
    async with BatchServer(echo) as server, Gateway(cache, pace=QUICK) as gateway:
        models = [gateway.model(batched(server, concurrency=most)) for most in (8, 2)]
        asked = (model.complete(plain(str(n))) for n in range(3) for model in models)
        await asyncio.gather(*asked)
        assert [b["request_counts"]["total"] for b in server.batches.values()] == [3]


async def test_processes_share_a_cache_and_its_batches(cache, batched, plain):
    """Who finds a batch of another process waits for it too, and pays for nothing of it."""
    async with BatchServer(echo, Batching(seconds=0.3)) as server:
        endpoint = batched(server)
        async with Gateway(cache, pace=QUICK) as one, Gateway(cache, pace=QUICK) as other:
            first = asyncio.create_task(ask_all(one.model(endpoint), plain, 5))
            await until(lambda: [row["state"] for row in rows(cache, "batches")] == ["open"])
            replies = await ask_all(other.model(endpoint), plain, 7)
            assert [r.text for r in await first] == [r.text for r in replies[:5]]
        assert (server.answered, server.repeats) == (7, 0)
    assert rows(cache, "batches") == rows(cache, "batch_requests") == []


async def test_a_schema_falls_back_within_batches(cache, batched, plain, city):
    """The endpoint's mode is found with one direct request, and holds for the batches."""
    async with BatchServer(modes=("json_object",)) as server:
        async with opened(cache, batched(server)) as model:
            asked = [model.complete(plain(f"question {n}", schema=city)) for n in range(4)]
            replies = await asyncio.gather(*asked)
        assert len(server.batches) == 1
        assert server.answered == 4
    assert all("city" in json.loads(reply.text) for reply in replies)


@pytest.mark.parametrize("vanishes", [True, False], ids=["it is forgotten", "it is cancelled"])
async def test_a_batch_that_is_lost_is_sent_again(cache, batched, plain, vanishes):
    """What an endpoint forgets, or somebody cancels there, goes into another batch."""
    plan = Batching(seconds=0.3)
    async with BatchServer(echo, plan) as server, opened(cache, batched(server)) as model:
        asked = asyncio.create_task(ask_all(model, plain, 3))
        await until(lambda: server.batches)
        if vanishes:
            batch = server.batches.pop("batch_1")
            server.batches["other"] = batch | {"id": "other", "metadata": None}
        else:
            server.batches["batch_1"]["status"] = "cancelling"
        assert len(await asked) == 3
        assert vanishes or (server.answered, server.repeats) == (3, 0)


async def test_an_endpoint_without_batches_is_asked_directly(cache, batched, plain, caplog):
    """One warning, and then each request by itself, at the prices of single requests."""
    async with FakeServer(echo) as server:
        for _ in range(2):
            async with opened(cache, batched(server)) as model:
                assert not any(reply.batched for reply in await ask_all(model, plain, 5))
        assert server.answered == 5
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING] == [
        f"{server.base_url} has no Batch API (HTTP 404): requests are sent one by one."
    ]


def test_result_lines_are_read_as_servers_write_them():
    """Bodies, errors without a response, errors beside the status; no line ends the reading."""
    lines = [
        {"custom_id": "a", "response": {"status_code": 200, "body": {"x": "\ud800"}}},
        {"custom_id": "b", "response": None, "error": {"code": "batch_expired", "message": "late"}},
        {"custom_id": "c", "response": {"status_code": 500, "message": "broken"}, "error": None},
        {"response": {}},
        [],
    ]
    told = [json.dumps(line).encode() for line in lines] + [b"", b"\xff", b'{"custom_id": "d"}']
    assert list(outcomes(told)) == [
        ("a", 200, '{"x": "\\ud800", "toolloom_batch": true}'),
        ("b", None, "batch_expired: late"),
        ("c", 500, '{"status_code": 500, "message": "broken"}'),
        ("d", None, "no response"),
    ]


async def leave_a_batch(cache, endpoint, plain, count, state="open", **options):
    """A process that ends while a batch is in that state, and what comes next is under way."""
    async with opened(cache, endpoint, **options) as model:
        asked = asyncio.create_task(ask_all(model, plain, count))
        await until(lambda: [row["state"] for row in rows(cache, "batches")] == [state])
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

    async with BatchServer(fails_thrice) as server:
        for most, refused in ((7, 2), (7, 2), (11, 0)):
            options = {"budget": Budget(max_requests=most), "run": "a"}
            async with opened(cache, batched(server, tries=9), **options) as model:
                replies = await ask_all(model, plain, 5, return_exceptions=True)
            assert (server.received, server.repeats) == (most, 0)
            assert sum(isinstance(reply, BudgetReached) for reply in replies) == refused
        sizes = [b["request_counts"]["total"] for b in server.batches.values()]
    assert sizes == [5, 2, 2, 2]
    assert sorted(row["requests"] for row in rows(cache, "responses")) == [1, 1, 1, 2, 2]
    async with Gateway(cache) as gateway:
        assert (await gateway.cache.spent("a")).requests == 11


async def test_an_open_batch_counts_from_the_start(cache, at, batched, plain):
    """A run that stops while it waits goes on with the same batch when it is started again, and what
    it left in there is part of what it used, and once."""
    options = {"budget": Budget(max_requests=6), "run": "a"}
    async with BatchServer(echo, Batching(seconds=0.4)) as server:
        await leave_a_batch(cache, batched(server), plain, 5, **options)
        async with Gateway(cache, pace=QUICK, **options) as gateway:
            direct, model = gateway.model(at(server)), gateway.model(batched(server))
            await direct.complete(plain("first"))
            with pytest.raises(BudgetReached):
                await direct.complete(plain("second"))
            replies = await ask_all(model, plain, 5)
            with pytest.raises(BudgetReached, match="6 requests of max_requests 6"):
                await model.complete(plain("third"))
            assert (await gateway.cache.spent("a")).requests == server.received == 6
        assert (server.answered, server.repeats, len(server.batches)) == (6, 0, 1)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(5)]


async def test_an_open_batch_gives_back_what_it_did_not_use(cache, batched, plain):
    """Requests wait for a batch that holds room back, also if an earlier process sent it."""
    async with BatchServer(echo, Batching(seconds=0.3)) as server:
        options = {"budget": Budget(max_tokens=700), "run": "a"}
        await leave_a_batch(cache, batched(server), plain, 4, **options)
        async with opened(cache, batched(server), **options) as model:
            assert (await model.complete(plain("another"))).text == "answer to another"
            await ask_all(model, plain, 4)
        assert (server.received, server.repeats) == (5, 0)


async def test_a_vanished_batch_may_have_been_paid(cache, batched, plain):
    """What nobody can tell any more is booked as the most it can be."""
    async with BatchServer(echo, Batching(seconds=9)) as server:
        endpoint = batched(server, tries=1)
        prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
        await leave_a_batch(cache, endpoint, plain, 2, run="a", prices=prices)
        server.batches.clear()
        async with Gateway(cache, pace=QUICK, run="a", prices=prices) as gateway:
            with pytest.raises(EndpointDown, match="the batch is gone"):
                await gateway.model(endpoint).complete(plain("question 0"))
            spent = await gateway.cache.spent("a")
    assert spent.requests == 2
    assert spent.tokens > 2 * plain().max_tokens
    assert spent.cost == pytest.approx(spent.tokens * 5e-6)


async def test_a_batch_that_comes_late_is_found(cache, batched, plain):
    """However long its file took: a batch that was asked for just before has time to appear."""
    pace = replace(QUICK, settle=5.0)
    plan = Batching(uploading=0.6, making=0.3)
    async with BatchServer(echo, plan) as server:
        await leave_a_batch(cache, batched(server), plain, 3, "uploaded", pace=pace)
        async with opened(cache, batched(server), pace=pace) as model:
            await ask_all(model, plain, 3)
        assert (server.answered, server.repeats) == (3, 0)


async def test_a_batch_belongs_to_the_run_that_sent_it(cache, batched, plain):
    """Another run that finds the answers of a batch has not paid for them."""
    async with BatchServer(echo, Batching(seconds=0.3)) as server:
        await leave_a_batch(cache, batched(server), plain, 3, run="a")
        options = {"budget": Budget(max_requests=1), "run": "b"}
        async with opened(cache, batched(server), **options) as model:
            await ask_all(model, plain, 3)
            await model.complete(plain("another"))
    assert sorted(row["run"] for row in rows(cache, "responses")) == ["a", "a", "a", "b"]


RUN = """
import asyncio, sys
from support.batch_server import ask_all, opened
from toolloom.llm import Request
from toolloom.schemas import Endpoint

def plain(words):
    return Request(({"role": "user", "content": words},), None, 16, 0.5, 1)

async def main():
    endpoint = Endpoint(base_url=sys.argv[2], model="fake", mode="batch", concurrency=20)
    async with opened(sys.argv[1], endpoint) as model:
        await ask_all(model, plain, 60)

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "moment",
    ["made", *(pytest.param(m, marks=pytest.mark.slow) for m in ("uploaded", "answered"))],
)
def test_a_killed_run_sends_nothing_twice(cache, moment):
    """After kill -9 at any step of a batch the next run finds it, and no request is paid twice."""
    with BatchServer(plan=Batching(seconds=0.3)).serve_in_thread() as server:
        reached = {
            "uploaded": lambda: server.files,
            "made": lambda: len(server.batches) == 3,
            "answered": lambda: server.answered > 30,
        }[moment]
        command = [sys.executable, "-c", RUN, str(cache), server.base_url]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        with subprocess.Popen(command, env=environment) as process:
            while not reached() and process.poll() is None:
                time.sleep(0.002)
            process.kill()
        assert subprocess.run(command, env=environment, check=False).returncode == 0
        assert (server.answered, server.repeats) == (60, 0)
    assert len(rows(cache, "responses")) == 60
    assert rows(cache, "batches") == rows(cache, "batch_requests") == []
