from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace

import pytest
from support.batches import QUICK, ask_all, echo, opened, rows
from support.waiting import until

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.batch import outcomes
from toolloom.llm.database import BATCHED, BATCHES, RESPONSES
from toolloom.llm.fake import ScriptedFailure
from toolloom.llm.fake.batches import Batching
from toolloom.schemas import EndpointDown, EndpointError, Price, RequestRefused


@pytest.mark.parametrize(
    ("plan", "most", "gather", "count", "sizes"),
    [
        (Batching(), 16, 0.05, 10, [10]),
        (Batching(), 4, 30, 8, [4, 4]),
        (Batching(expiring=1), 16, 0.05, 10, [10, 5]),
        (Batching(room=4, seconds=0.02), 16, 0.05, 10, None),
        (Batching(largest=1000), 16, 0.05, 8, [2, 2, 2, 2]),
        (Batching(lost=3, metadata=False, per_page=1), 2, 0.05, 6, [2, 2, 2]),
    ],
    ids=[
        "requests made together share a batch",
        "a full batch leaves at once",
        "what an expired batch did is kept",
        "too much at once waits for room",
        "a file that is too large is halved",
        "a lost answer makes no second batch",
    ],
)
@pytest.mark.timeout(120)
async def test_each_request_gets_its_own_answer_once(
    cache, batched, plain, plan, most, gather, count, sizes
):
    """`concurrency` is the number of requests in a batch; several may be under way. Whatever
    becomes of batches, nothing is answered twice, and none is left behind."""
    async with FakeServer(echo, batches=plan) as server:
        async with opened(
            cache, batched(server, concurrency=most), pace=replace(QUICK, gather=gather)
        ) as model:
            replies = await ask_all(model, plain, count)
        assert (server.answered, server.repeats) == (count, 0)
        totals = [b["request_counts"]["total"] for b in server.batches.batches.values()]
        assert sizes in (None, totals)
    assert [reply.text for reply in replies] == [f"answer to question {n}" for n in range(count)]
    assert rows(cache, BATCHES) == rows(cache, BATCHED) == []


async def test_a_request_that_fails_harms_no_other(cache, batched, plain):
    """What fails in all its tries is refused to who asked, while the endpoint answers others."""

    def script(body):
        return ScriptedFailure() if body["messages"][-1]["content"] == "question 1" else "yes"

    async with FakeServer(script) as server, opened(cache, batched(server)) as model:
        replies = await ask_all(model, plain, 3, return_exceptions=True)
        assert server.received == 4
    assert isinstance(replies[1], RequestRefused)
    assert "tried 2x" in str(replies[1])
    assert replies[0].text == replies[2].text == "yes"


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"batches": Batching(failure_rate=1)}, EndpointDown, "HTTP 500: scripted failure .tried"),
        ({"models": ["another"]}, EndpointError, "The model `fake` does not exist"),
        ({"batches": Batching(purpose="o")}, EndpointError, "No batch can be made: .* 'purpose'"),
    ],
    ids=["nothing is answered", "a batch is not begun", "no file is taken"],
)
async def test_an_endpoint_that_takes_no_batches_stops_the_run(
    cache, batched, plain, options, kind, words
):
    """It does so with its own words, and rejects no request."""
    async with FakeServer(echo, **options) as server, opened(cache, batched(server)) as model:
        with pytest.raises(kind, match=words):
            await ask_all(model, plain, 3)
    assert rows(cache, BATCHES) == []


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


async def test_a_key_in_results_is_struck_out(cache, batched, plain, monkeypatch):
    """An endpoint that repeats the key in a batch's answers or errors does not spread it. What it
    refuses is told to who asked, and not tried again."""
    key = "sk-a-key-that-nobody-may-see"
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def tells(body):
        if body["messages"][-1]["content"] == "question 0":
            return ScriptedFailure(400, body=f"bad key {key}")
        return f"your key is {key}"

    async with FakeServer(tells, key=key) as server, opened(cache, batched(server)) as model:
        refused, reply = await ask_all(model, plain, 2, return_exceptions=True)
        assert server.received == 2
    assert isinstance(refused, RequestRefused)
    assert "bad key [key]" in str(refused)
    assert reply.text == "your key is [key]"
    assert key not in refused.raw + reply.raw
    assert all(key.encode() not in file.read_bytes() for file in cache.parent.iterdir())


async def test_a_schema_falls_back_within_batches(cache, batched, plain, city):
    """The endpoint's mode is found with one direct request, and holds for the batches."""
    async with FakeServer(modes=("json_object",)) as server:
        async with opened(cache, batched(server)) as model:
            asked = [model.complete(plain(f"question {n}", schema=city)) for n in range(4)]
            replies = await asyncio.gather(*asked)
        assert len(server.batches.batches) == 1
        assert server.answered == 4
    assert all("city" in json.loads(reply.text) for reply in replies)


@pytest.mark.parametrize("vanishes", [True, False], ids=["it is forgotten", "it is cancelled"])
async def test_a_batch_that_is_lost_is_sent_again(cache, batched, plain, vanishes):
    """What an endpoint forgets, or somebody cancels there, goes into another batch."""
    import openai

    async with (
        FakeServer(echo, batches=Batching(seconds=1)) as server,
        opened(cache, batched(server)) as model,
    ):
        asked = asyncio.create_task(ask_all(model, plain, 3))
        await until(lambda: server.batches.batches)
        if vanishes:
            batch = server.batches.batches.pop("batch_1")
            server.batches.batches["other"] = batch | {"id": "other", "metadata": None}
        else:
            async with openai.AsyncOpenAI(api_key="none", base_url=server.base_url) as client:
                await client.batches.cancel("batch_1")
        assert len(await asked) == 3
        assert vanishes or (server.answered, server.repeats) == (3, 0)


async def test_an_endpoint_without_batches_is_asked_directly(cache, batched, plain, caplog):
    """One warning, and then each request by itself, at the prices of single requests."""
    async with FakeServer(echo, batches=None) as server:
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
