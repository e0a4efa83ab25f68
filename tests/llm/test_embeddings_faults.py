"""Endpoints that fail, refuse texts or answer with no embeddings: what is told, and sent again."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.embeddings import BATCH, decode
from toolloom.llm.fake import ScriptedFailure, embed
from toolloom.llm.faults import Garbled
from toolloom.schemas import (
    EndpointDenied,
    EndpointDown,
    EndpointError,
    ModelMissing,
    RequestRefused,
)

TEXTS = ["rent a boat", "sell a car", "a boat to rent"]  # two of them are alike


async def test_passing_failures_are_tried_again(gateway, at):
    """A rate limit is waited for and tried again in the one place that retries."""
    script = iter([ScriptedFailure(429, retry_after=0.2), ScriptedFailure(503), None])
    async with FakeServer(embeddings=lambda body: next(script) or embed(body)) as server:
        began = time.monotonic()
        rows = await gateway.embedder(at(server, tries=3)).embed(TEXTS)
    assert len(rows) == 3
    assert (gateway.stats.asked, gateway.stats.retries, server.received) == (1, 2, 3)
    assert time.monotonic() - began >= 0.2


async def test_a_wrong_key_stops_the_run_and_shows_nowhere(gateway, at, monkeypatch):
    """401 is raised at once; it names the variable, and not the key that the server repeats."""
    key = "sk-very-secret-0123456789"
    monkeypatch.setenv("SOME_KEY", key)
    async with FakeServer(key="another") as server:
        with pytest.raises(EndpointDenied, match="SOME_KEY") as denied:
            await gateway.embedder(at(server, key_env="SOME_KEY")).embed(TEXTS)
        assert server.received == 1
    assert key not in str(denied.value)


async def test_an_unknown_model_stops_the_run(gateway, at):
    """A model the endpoint does not have is named, with those it has."""
    async with FakeServer(models=("big",)) as server:
        with pytest.raises(ModelMissing, match=r"It offers: big\."):
            await gateway.embedder(at(server)).embed(TEXTS)


async def test_a_dead_endpoint_stops_the_run(gateway, at):
    """Where nobody listens the error says so after all tries."""
    async with FakeServer() as server:
        address = server.base_url
    with pytest.raises(EndpointDown, match=r"no connection.*tried 2 times"):
        await gateway.embedder(at(address)).embed([f"text {n}" for n in range(300)])


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (ScriptedFailure(501, body="This server does not support embeddings"), "embedding model"),
        (ScriptedFailure(400, body="The model does not support Embeddings API"), "embedding model"),
        (ScriptedFailure(404, body="Not Found"), "has no /embeddings"),
    ],
)
async def test_endpoints_without_embeddings_stop_the_run(gateway, at, failure, words):
    """An endpoint that does not embed is an error that says what to set, at the first try."""
    async with FakeServer(embeddings=lambda body: failure) as server:
        with pytest.raises(EndpointError, match=words):
            await gateway.embedder(at(server)).embed(TEXTS)
        assert server.received == 1


async def test_too_many_texts_are_halved(gateway, at):
    """An endpoint that takes fewer texts gets fewer, and every text is embedded."""
    refusal = ScriptedFailure(422, body="batch size 64 > maximum allowed batch size 16")
    texts = [f"text {number}" for number in range(64)]
    async with FakeServer(
        embeddings=lambda body: refusal if len(body["input"]) > 16 else embed(body)
    ) as server:
        rows = await gateway.embedder(at(server)).embed(texts)
    assert (len(rows), server.answered, gateway.stats.retries) == (64, 4, 0)


async def test_a_text_too_long_is_embedded_by_its_beginning(gateway, at):
    """A text the endpoint calls too long is cut by halves; its neighbours stay whole."""
    refusal = ScriptedFailure(500, body="input (3001 tokens) is too large to process")

    def script(body):
        return refusal if any(len(text) > 600 for text in body["input"]) else embed(body)

    texts = ["boat " * 200, *TEXTS]
    async with FakeServer(embeddings=script) as server:
        rows = await gateway.embedder(at(server)).embed(texts)
        again = await gateway.embedder(at(server)).embed(texts)
        sent = {text for body in server.bodies for text in body["input"]}
    assert (rows == again).all()
    assert {*TEXTS, "boat " * 100} <= sent


async def test_an_endpoint_that_takes_no_size_refuses(gateway, at):
    """Halving comes to an end: what is refused at every size is refused."""
    refusal = ScriptedFailure(413, body="no")
    async with FakeServer(embeddings=lambda body: refusal) as server:
        with pytest.raises(RequestRefused, match="refuses texts of this size"):
            await gateway.embedder(at(server)).embed(["boat " * 200])
        assert server.received == 3


@pytest.mark.usefixtures("patient")
async def test_a_refused_text_loses_no_answer_under_way(cache, at):
    """What was sent when a text is refused is kept, though the run ends, and not sent again."""

    async def script(body):
        if "bad" in body["input"]:
            return ScriptedFailure(400, body="no")
        await asyncio.sleep(0.3)
        return embed(body)

    texts = [*(f"text {n}" for n in range(2 * BATCH)), "bad"]
    async with FakeServer(embeddings=script) as server:
        for received in (3, 4):
            async with Gateway(cache) as gateway:
                with pytest.raises(RequestRefused):
                    await gateway.embedder(at(server)).embed(texts)
            assert server.received == received


async def test_after_a_refusal_nothing_more_is_sent(gateway, at):
    """Texts that wait for a place when another is refused are not sent."""
    texts = [f"text {n}" for n in range(9 * BATCH)]
    refusal = ScriptedFailure(400, body="no")
    async with FakeServer(embeddings=lambda body: refusal) as server:
        with pytest.raises(RequestRefused):
            await gateway.embedder(at(server, concurrency=1)).embed(texts)
        await asyncio.sleep(0.05)
        assert server.received <= 2


@pytest.mark.parametrize("count", [None, 0, -5, 2**31, 5.0, True, "5"])
def test_tokens_nobody_can_have_sent_do_not_count(count):
    """A number of tokens is above 0 and below 2**31; anything else says nothing."""
    assert decode(body_of([1.0], usage={"prompt_tokens": count}), 1)[1] == 0


def body_of(*vectors, **more):
    """An answer with these vectors."""
    entries = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
    return json.dumps({"data": entries, **more})


GARBAGE = [
    "",
    "<html>",
    "[]",
    '{"data": []}',
    '{"error": "overloaded"}',
    body_of([1.0, 2.0]),
    body_of([1.0, 2.0], [1.0]),
    body_of([1.0], []),
    body_of([1.0], [float("nan")]),
    body_of([1.0], [1e39]),
    body_of([1.0], [10**400]),
    body_of([1.0], ["2.0"]),
    body_of([1.0], [True]),
    body_of([1.0], [None]),
    body_of([1.0], [[1.0]]),
    body_of([1.0], "AACAPw=="),
    body_of([1.0], [2.0]).replace('"index": 1', '"index": 0'),
    body_of([1.0], [2.0]).replace('"index": 1', '"index": 7'),
    body_of([1.0], [2.0]).replace('"index": 1', '"index": null'),
    "[" * 100_000,
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_what_is_no_embeddings_is_told(garbage):
    """A body with other than one finite vector of one size for each text is garbled."""
    with pytest.raises(Garbled) as garbled:
        decode(garbage, 2)
    assert garbled.value.raw == garbage


async def test_garbage_is_never_cached(gateway, at):
    """A 200 without embeddings is tried again, then refused with its body, and asked anew."""
    garbage = body_of([1.0])
    async with FakeServer(embeddings=lambda body: ScriptedFailure(200, body=garbage)) as server:
        for received in (3, 6):  # two tries, and one to see whether it answers anything
            with pytest.raises(RequestRefused, match="1 embeddings for 3 texts") as refused:
                await gateway.embedder(at(server)).embed(TEXTS)
            assert server.received == received
    assert refused.value.raw == garbage


async def test_a_model_that_changed_its_size_is_told(gateway, at):
    """Vectors of two sizes under one model's name cannot be compared: the run stops."""
    sizes = iter([2, 3])

    def script(body):
        size = next(sizes)
        return json.loads(body_of(*([1.0] * size for _ in body["input"])))

    async with FakeServer(embeddings=script) as server:
        await gateway.embedder(at(server)).embed(TEXTS[:1])
        with pytest.raises(EndpointError, match=r"different sizes \(\[2, 3\]\)"):
            await gateway.embedder(at(server)).embed(TEXTS)
