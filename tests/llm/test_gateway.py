from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest

from toolloom import FakeServer, Gateway
from toolloom.llm.messages import WORK, Work
from toolloom.llm.scripted import ScriptedFailure, embed
from toolloom.schemas import Budget, EndpointDenied, Price, RequestRefused

PRICES = {"fake": Price(prompt=1.0, completion=2.0)}


async def test_answered_requests_are_not_sent_again(gateway, at, plain):
    """A request that was answered is answered from the cache, word for word. Tokens and dollars
    count what was really sent, at the endpoint's prices."""
    async with FakeServer() as server:
        model = gateway.model(at(server))
        first = await model.complete(plain())
        second = await model.complete(plain())
    assert (first.text, first.raw) == (second.text, second.raw)
    stats = gateway.stats
    assert (stats.asked, stats.cached, server.received) == (1, 1, 1)
    assert stats.used.prompt_tokens == first.prompt_tokens > 0
    assert stats.used.cost == (first.prompt_tokens + 2 * first.completion_tokens) / 1e6


async def test_equal_requests_in_flight_are_sent_once(gateway, at, plain):
    """Of equal requests made at once one is sent, and all get its answer, also where who asked
    first gives up."""
    async with FakeServer(latency=0.1) as server:
        model = gateway.model(at(server))
        asked = [asyncio.create_task(model.complete(plain())) for _ in range(8)]
        await asyncio.sleep(0.05)
        asked[0].cancel()
        replies = await asyncio.gather(*asked[1:])
    assert server.received == 1
    assert len({reply.text for reply in replies}) == 1


async def test_one_address_has_one_limit(gateway, at, plain):
    """Whatever is asked of an address, of two models or as embeddings, shares its limit."""
    async with FakeServer(latency=0.05) as server:
        models = [gateway.model(at(server, model=name, concurrency=2)) for name in ("a", "b")]
        embedder = gateway.embedder(at(server, concurrency=2))
        requests = [model.complete(plain(seed=n)) for model in models for n in range(4)]
        await asyncio.gather(*requests, *(embedder.embed([str(n)]) for n in range(3)))
    assert server.peak == 2


@pytest.mark.parametrize(
    ("modes", "probes"), [(("json_schema",), 1), (("json_object",), 2), ((), 3)]
)
async def test_modes_are_found_once(cache, at, plain, city, modes, probes):
    """The best mode an endpoint takes is found by its first request and never probed again. In each
    the server without a script answers with what fits the schema."""
    async with FakeServer(modes=modes) as server:
        for seeds, received in ((range(5), probes + 4), ((4, 5, 6), probes + 6)):
            async with Gateway(cache) as gateway:
                model = gateway.model(at(server))
                asked = (model.complete(plain(schema=city, seed=n)) for n in seeds)
                for reply in await asyncio.gather(*asked):
                    jsonschema.validate(json.loads(reply.text), city)
            assert server.received == received
    sent = server.bodies[-1].get("response_format", {"type": None})["type"]
    assert sent == (modes or (None,))[0]


async def test_a_refused_schema_is_no_refused_mode(gateway, at, plain, city):
    """A complaint about this schema alone refuses the record and leaves the mode open."""
    said = '{"error": {"message": "Invalid schema for response_format \'answer\'"}}'
    script = iter([ScriptedFailure(400, body=said), '{"city": "Rome"}'])
    async with FakeServer(lambda body: next(script)) as server:
        model = gateway.model(at(server))
        with pytest.raises(RequestRefused) as refused:
            await model.complete(plain(schema=city))
        await model.complete(plain(schema=city))
    assert refused.value.raw == said
    assert server.bodies[-1]["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("budget", "usage", "embeds"),
    [
        ({"max_tokens": 1000}, None, False),
        ({"max_cost": 1e-3}, {"prompt_tokens": 10**20}, False),
        ({"max_tokens": 250}, {}, True),
    ],
    ids=["tokens", "cost", "embeddings"],
)
async def test_tokens_that_are_not_told_count_as_all_they_can_be(
    cache, at, plain, caplog, budget, usage, embeds
):
    """An endpoint without `usage` keeps to the budget, over restarts too; replies still say 0."""
    raw = json.dumps({"choices": [{"message": {"content": "hi"}}], "usage": usage})
    WORK.set(Work(run="a"))
    scripts = {
        "script": lambda _: ScriptedFailure(200, body=raw),
        "embeddings": lambda body: {**embed(body), "usage": usage},
    }
    async with FakeServer(**scripts) as server:
        for _ in range(2):
            limits = Budget.model_validate(budget)
            async with Gateway(cache, prices=PRICES, budget=limits, run="a") as gateway:
                model, embedder = gateway.model(at(server)), gateway.embedder(at(server))
                chats = (model.complete(plain(seed=n)) for n in range(20))
                texts = (embedder.embed([f"text {n}"]) for n in range(20))
                asked = texts if embeds else chats
                replies = await asyncio.gather(*asked, return_exceptions=True)
            answered = [reply for reply in replies if not isinstance(reply, BaseException)]
            assert 3 < len(answered) == server.received < 10
            assert embeds or {reply.prompt_tokens for reply in answered} == {0}
    assert sum("does not say how many tokens" in r.message for r in caplog.records) == 1


async def test_a_wrong_key_is_told_by_its_variable(gateway, at, plain, monkeypatch):
    """Whatever is asked; the key itself is not told, though the server repeats it. Where there is
    none, nothing is sent to an endpoint elsewhere."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(EndpointDenied, match="SOME_KEY"):
        await gateway.model(at("https://llm.invalid/v1", key_env="SOME_KEY")).complete(plain())
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("SOME_KEY", key)
    async with FakeServer(key="another") as server:
        endpoint = at(server, key_env="SOME_KEY")
        asked = gateway.model(endpoint).complete(plain()), gateway.embedder(endpoint).embed(["a"])
        for told in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(told, EndpointDenied) and "SOME_KEY" in str(told)
            assert key not in str(told)
