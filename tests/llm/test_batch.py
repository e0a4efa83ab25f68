from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager

import openai
import pytest
import sqlalchemy as sa

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.batch import Pace
from toolloom.llm.batch_lines import outcomes
from toolloom.llm.cache import BATCHED, BATCHES, RESPONSES
from toolloom.llm.database import address_of
from toolloom.llm.fake import Failure
from toolloom.llm.fake_batches import Batching
from toolloom.schemas import (
    Budget,
    BudgetReached,
    EndpointDown,
    EndpointError,
    Price,
    RequestRefused,
)

QUICK = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=0.3)


def echo(body):
    """The script of a server that says which request it answers."""
    return f"answer to {body['messages'][-1]['content']}"


@pytest.fixture
def batched(at):
    """Makes an endpoint that is asked in batches."""
    return lambda server, **changes: at(server, **{"mode": "batch", **changes})


@asynccontextmanager
async def opened(cache, endpoint, **options):
    """A model behind a gateway that does not wait long."""
    async with Gateway(cache, **{"pace": QUICK, **options}) as gateway:
        yield gateway.model(endpoint)


async def ask_all(model, plain, count, start=0):
    asked = (model.complete(plain(f"question {n}")) for n in range(start, start + count))
    return await asyncio.gather(*asked)


async def until(reached):
    async with asyncio.timeout(10):
        while not reached():  # noqa: ASYNC110 - of a server, which sets no events
            await asyncio.sleep(0.01)


def rows(cache, table):
    engine = sa.create_engine(address_of(cache))
    with engine.connect() as connection:
        found = connection.execute(sa.select(table)).all()
    engine.dispose()
    return found


async def test_requests_share_a_batch(cache, batched, plain):
    """Requests made together go in one file, and each gets its own answer by its id."""
    async with FakeServer(echo) as server, opened(cache, batched(server)) as model:
        replies = await ask_all(model, plain, 10)
        assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(10)]
        assert len(server.batches.batches) == 1
        assert server.answered == 10
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []


async def test_a_full_batch_leaves_at_once(cache, batched, plain):
    """`concurrency` is the number of requests in a batch; several may be under way."""
    slow = Pace(gather=30, first_poll=0.02, longest_poll=0.05)
    async with FakeServer(echo) as server:
        endpoint = batched(server, concurrency=4)
        async with opened(cache, endpoint, pace=slow) as model:
            await ask_all(model, plain, 8)
        sizes = [b["request_counts"]["total"] for b in server.batches.batches.values()]
    assert sizes == [4, 4]


async def test_batches_cost_what_batches_cost(cache, batched, plain):
    """Answers are booked in the cache at the batch prices."""
    prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
    async with FakeServer(echo) as server:
        async with opened(cache, batched(server), prices=prices) as model:
            replies = await ask_all(model, plain, 3)
        tokens = sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
    assert sum(row.cost for row in rows(cache, RESPONSES)) == pytest.approx(tokens * 5e-6)


async def test_a_reply_keeps_its_price(cache, batched, plain, city):
    """What was answered in a batch costs that, what was answered at once costs more: whoever
    asks again is told the same, whatever the endpoint's mode is by then."""
    prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
    costs = []
    async with FakeServer() as server:
        for mode in ("batch", "batch", "direct"):
            endpoint = batched(server, mode=mode)
            async with opened(cache, endpoint, prices=prices) as model:
                first = await model.complete(plain(schema=city))
                second = await model.complete(plain("in a batch", schema=city))
                costs.append([model.cost(first), model.cost(second)])
        assert server.received == 2
    rates = zip((first, second), (10e-6, 5e-6), strict=True)
    told = [(reply.prompt_tokens + reply.completion_tokens) * rate for reply, rate in rates]
    assert costs == [pytest.approx(told)] * 3
    assert [row.cost for row in rows(cache, RESPONSES)] == pytest.approx(told)


async def test_only_what_failed_is_tried_again(cache, batched, plain):
    """Items that fail go into the next batch; the others are neither sent nor paid again."""
    seen = Counter()

    def fails_twice(body):
        seen[text := body["messages"][-1]["content"]] += 1
        return Failure(503) if text in ("question 1", "question 3") and seen[text] < 3 else "yes"

    async with FakeServer(fails_twice) as server, opened(cache, batched(server, tries=3)) as model:
        await ask_all(model, plain, 5)
        sizes = [b["request_counts"]["total"] for b in server.batches.batches.values()]
    assert sizes == [5, 2, 2]
    assert server.repeats == 0
    assert sorted(row.requests for row in rows(cache, RESPONSES)) == [1, 1, 1, 3, 3]


async def test_a_request_that_always_fails_harms_no_other(cache, batched, plain):
    """A request that fails all its tries is refused, while the endpoint answers others."""

    def one_fails(body):
        return Failure(500) if body["messages"][-1]["content"] == "question 0" else "yes"

    async with FakeServer(one_fails) as server, opened(cache, batched(server)) as model:
        replies = await asyncio.gather(
            *(model.complete(plain(f"question {n}")) for n in range(3)), return_exceptions=True
        )
    assert isinstance(replies[0], RequestRefused)
    assert "tried 2x" in str(replies[0])
    assert [reply.text for reply in replies[1:]] == ["yes", "yes"]


async def test_an_endpoint_that_answers_nothing_stops_the_run(cache, batched, plain):
    """Where all requests of batches fail, in all tries, the endpoint is down."""
    plan = Batching(failure_rate=1)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        with pytest.raises(EndpointDown, match="HTTP 500: scripted failure .tried 2x"):
            await ask_all(model, plain, 3)
        assert len(server.batches.batches) == 2


async def test_models_of_one_name_share_batches(cache, batched, plain):
    """Two agents with settings of their own for one model go into one batch."""
    async with FakeServer(echo) as server, Gateway(cache, pace=QUICK) as gateway:
        small = gateway.model(batched(server, concurrency=2))
        large = gateway.model(batched(server, concurrency=8))
        asked = [model.complete(plain(str(n))) for n in range(3) for model in (large, small)]
        await asyncio.gather(*asked)
        asked = [large.complete(plain(f"more {n}")) for n in range(8)]
        await asyncio.gather(*asked)
        sizes = [b["request_counts"]["total"] for b in server.batches.batches.values()]
    assert sizes == [3, 8]


async def test_processes_share_a_cache_and_its_batches(cache, batched, plain):
    """Who finds a batch of another process waits for it too, and pays for nothing of it."""
    async with FakeServer(echo, batches=Batching(seconds=0.3)) as server:
        endpoint = batched(server)
        async with Gateway(cache, pace=QUICK) as one, Gateway(cache, pace=QUICK) as other:
            first = asyncio.create_task(ask_all(one.model(endpoint), plain, 5))
            await until(lambda: [row.state for row in rows(cache, BATCHES)] == ["open"])
            replies = await ask_all(other.model(endpoint), plain, 7)
            assert [r.text for r in await first] == [r.text for r in replies[:5]]
        assert (server.answered, server.repeats) == (7, 0)
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []


async def test_a_refusal_is_told_to_who_asked(cache, batched, plain):
    """An item that the endpoint refuses is not tried again and harms no other."""

    def refuses_one(body):
        if body["messages"][-1]["content"] == "question 1":
            return Failure(400, body='{"error": {"message": "this is too rude"}}')
        return "yes"

    async with FakeServer(refuses_one) as server, opened(cache, batched(server)) as model:
        replies = await asyncio.gather(
            *(model.complete(plain(f"question {n}")) for n in range(3)), return_exceptions=True
        )
        assert server.received == 3
    assert isinstance(replies[1], RequestRefused)
    assert "too rude" in str(replies[1])
    assert replies[0].text == replies[2].text == "yes"


async def test_a_key_in_results_is_struck_out(cache, batched, plain, monkeypatch):
    """An endpoint that repeats the key in a batch's answers or errors does not spread it."""
    key = "sk-a-key-that-nobody-may-see"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def tells(body):
        if body["messages"][-1]["content"] == "question 0":
            return Failure(400, body=json.dumps({"error": {"message": f"bad key {key}"}}))
        return f"your key is {key}"

    async with FakeServer(tells, key=key) as server, opened(cache, batched(server)) as model:
        asked = (model.complete(plain(f"question {n}")) for n in range(2))
        refused, reply = await asyncio.gather(*asked, return_exceptions=True)
    assert "bad key [key]" in str(refused)
    assert reply.text == "your key is [key]"
    assert key not in refused.raw + reply.raw
    assert all(key.encode() not in file.read_bytes() for file in cache.parent.iterdir())


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
        return Failure(500) if seen[text] <= times else "yes"

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


async def leave_a_batch(cache, endpoint, plain, count, **options):
    """A process that ends while a batch is open."""
    async with opened(cache, endpoint, **options) as model:
        asked = asyncio.create_task(ask_all(model, plain, count))
        await until(lambda: [row.state for row in rows(cache, BATCHES)] == ["open"])
        asked.cancel()


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
    async with FakeServer(lambda _: Failure(200, body=body)) as server:
        options = {"budget": Budget(max_tokens=1000), "run": "a"}
        for _ in range(2):
            async with opened(cache, batched(server), **options) as model:
                asked = (model.complete(plain(f"question {n}")) for n in range(20))
                replies = await asyncio.gather(*asked, return_exceptions=True)
            assert 3 < sum(not isinstance(reply, BudgetReached) for reply in replies) < 10
        assert 3 < server.received < 10


async def test_a_schema_falls_back_within_batches(cache, batched, plain, city):
    """The endpoint's mode is found with one direct request, and holds for the batches."""
    async with FakeServer(modes=("json_object",)) as server:
        async with opened(cache, batched(server)) as model:
            asked = [model.complete(plain(f"question {n}", schema=city)) for n in range(4)]
            replies = await asyncio.gather(*asked)
        assert len(server.batches.batches) == 1
        assert server.answered == 4
    assert all("city" in json.loads(reply.text) for reply in replies)


async def test_an_expired_batch_keeps_what_it_did(cache, batched, plain):
    """What was answered before the window closed is used; the rest is asked in another batch."""
    plan = Batching(expiring=1)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        replies = await ask_all(model, plain, 10)
        batches = server.batches.batches.values()
        assert [batch["status"] for batch in batches] == ["expired", "completed"]
        assert [batch["request_counts"]["total"] for batch in batches] == [10, 5]
        assert (server.answered, server.repeats) == (10, 0)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(10)]


async def test_a_cancelled_batch_is_sent_again(cache, batched, plain):
    """A batch that somebody cancels at the endpoint goes into another one."""
    plan = Batching(seconds=0.2)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        asked = asyncio.create_task(ask_all(model, plain, 3))
        await until(lambda: server.batches.batches)
        async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url) as client:
            await client.batches.cancel("batch_1")
        assert len(await asked) == 3
        states = [batch["status"] for batch in server.batches.batches.values()]
    assert states == ["cancelled", "completed"]
    assert (server.answered, server.repeats) == (3, 0)


async def test_a_batch_that_vanishes_is_sent_again(cache, batched, plain):
    """An endpoint that forgets a batch is asked again."""
    plan = Batching(seconds=0.3)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        asked = asyncio.create_task(ask_all(model, plain, 3))
        await until(lambda: server.batches.batches)
        gone = server.batches.batches.pop("batch_1")
        server.batches.batches["other"] = gone | {"id": "other", "metadata": None}
        assert len(await asked) == 3


async def test_a_batch_that_fails_says_why(cache, batched, plain):
    """An endpoint that does not begin a batch stops the run with its own words."""
    server = FakeServer(echo, models=["another"])
    async with server, opened(cache, batched(server)) as model:
        with pytest.raises(EndpointError, match="The model `fake` does not exist"):
            await model.complete(plain())


@pytest.mark.timeout(20)
async def test_too_much_at_once_waits_for_room(cache, batched, plain):
    """Where requests in batches are limited, they go in smaller batches, one after the other."""
    plan = Batching(room=4, seconds=0.02)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        replies = await ask_all(model, plain, 10)
        assert (server.answered, server.repeats) == (10, 0)
    assert len(replies) == 10


async def test_a_file_that_is_too_large_is_halved(cache, batched, plain):
    """Where files may not be as large, batches get smaller until they fit."""
    plan = Batching(largest=1000)
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        await ask_all(model, plain, 8)
        sizes = [b["request_counts"]["total"] for b in server.batches.batches.values()]
    assert sizes == [2, 2, 2, 2]


async def test_a_refused_upload_rejects_no_request(cache, batched, plain):
    """That an endpoint takes no file of ours stops the run; it is no fault of a request."""
    plan = Batching(purpose="other")
    async with FakeServer(echo, batches=plan) as server, opened(cache, batched(server)) as model:
        with pytest.raises(EndpointError, match="No batch can be made: .* 'purpose'"):
            await model.complete(plain())
    assert rows(cache, BATCHES) == []


async def test_an_endpoint_without_batches_is_asked_directly(cache, batched, plain, caplog):
    """One warning, and then each request by itself, at the prices of single requests."""
    prices = {"fake": Price(prompt=10, completion=10, batch_prompt=5, batch_completion=5)}
    async with FakeServer(echo, batches=None) as server:
        with caplog.at_level(logging.WARNING):
            async with opened(cache, batched(server), prices=prices) as model:
                replies = await ask_all(model, plain, 5)
                tokens = sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
                assert sum(model.cost(reply) for reply in replies) == pytest.approx(tokens * 1e-5)
        async with opened(cache, batched(server), prices=prices) as model:
            again = await ask_all(model, plain, 5)
            assert sum(model.cost(reply) for reply in again) == pytest.approx(tokens * 1e-5)
        assert server.answered == 5
    assert [record.message for record in caplog.records if "no Batch API" in record.message] == [
        f"{server.base_url} has no Batch API (HTTP 404): requests are sent one by one."
    ]


async def test_a_lost_answer_makes_no_second_batch(cache, batched, plain):
    """If the endpoint's answer to making a batch is lost, the batch that was made is found."""
    plan = Batching(lost=3, metadata=False, per_page=1)
    async with FakeServer(echo, batches=plan) as server:
        async with opened(cache, batched(server, concurrency=2)) as model:
            await ask_all(model, plain, 6)
        assert len(server.batches.batches) == 3
        assert (server.answered, server.repeats) == (6, 0)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_a_closed_gateway_leaves_its_batch_to_the_next(request, database, batched, plain):
    """A run that stops while it waits goes on with the same batch when it is started again."""
    cache = request.getfixturevalue("cache" if database == "sqlite" else "postgres_url")
    plan = Batching(seconds=0.5)
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
            await asyncio.sleep(QUICK.settle + 0.2)
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []


async def test_a_batch_that_comes_late_is_found(cache, batched, plain):
    """However long its file took: a batch that was asked for just before has time to appear."""
    pace = Pace(gather=0.05, first_poll=0.02, longest_poll=0.05, settle=1.0)
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


def test_result_lines_are_read_as_servers_write_them():
    """Bodies, errors without a response, errors beside the status; no line ends the reading."""
    lines = [
        {"custom_id": "a", "response": {"status_code": 200, "body": {"x": "\ud800"}}},
        {"custom_id": "b", "response": None, "error": {"code": "batch_expired", "message": "late"}},
        {"custom_id": "c", "response": {"status_code": 500, "message": "broken"}, "error": None},
        {"response": {}},
        {"custom_id": 3},
        [],
    ]
    told = [json.dumps(line).encode() for line in lines] + [b"", b"\xff", b'{"custom_id": "d"}']
    found = {outcome.key: outcome for outcome in outcomes(told)}
    assert list(found) == ["a", "b", "c", "d"]
    assert found["a"].good
    assert found["a"].body == '{"x": "\\ud800", "toolloom_batch": true}'
    assert (found["b"].status, found["b"].body) == (None, "batch_expired: late")
    assert (found["c"].status, "broken" in found["c"].body) == (500, True)
    assert found["d"].body == "no response"


REQUESTS = 60
RUN = """
import asyncio, sys
from toolloom.llm import Gateway, ask
from toolloom.llm.batch import Pace
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


@pytest.mark.parametrize("moment", ["uploaded", "made", "answered"])
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
