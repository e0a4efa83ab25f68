"""Texts as vectors, each paid for once; and endpoints that fail, refuse or answer with none."""

from __future__ import annotations

import asyncio
import itertools
import json

import numpy as np
import pytest
from support.waiting import until

from toolloom import FakeServer, Gateway
from toolloom.llm.messages import Garbled
from toolloom.llm.model import BATCH, decode_vectors
from toolloom.llm.scripted import ScriptedFailure, embed
from toolloom.schemas import EndpointError, Price, RequestRefused

TEXTS = ["rent a boat", "sell a car", "a boat to rent"]  # two of them are alike
PRICES = {"fake": Price(prompt=1.0, completion=2.0)}


async def test_texts_become_rows_in_their_order(gateway, at):
    """Each text has its row of length 1, as it was answered to the last bit; alike texts have alike
    rows. Many are sent in requests of bounded size, each text once; no texts are no request."""
    texts = [*TEXTS, "RENT_a boat!", *(f"text {number % 150}" for number in range(400))]
    async with FakeServer() as server:
        rows = await gateway.embedder(at(server)).embed(texts)
        assert len(await gateway.embedder(at(server)).embed([])) == 0
        sent = [text for body in server.bodies for text in body["input"]]
    assert (server.received, len(sent), len(set(sent))) == (3, 154, 154)
    assert max(len(body["input"]) for body in server.bodies) == BATCH
    told = [
        embed({"input": text})["data"][0]["embedding"] for text in (*TEXTS, *TEXTS[:1], *texts[4:])
    ]
    assert (rows == np.asarray(told, np.float32)).all()
    assert rows.dtype == np.float32
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)
    assert rows[0] @ rows[2] > rows[0] @ rows[1]


async def test_embedded_texts_are_not_sent_again(cache, at):
    """What was embedded comes from the cache, in this process and the next, and is counted, its
    tokens at the endpoint's price; another model's vectors are its own."""
    async with FakeServer() as server:
        async with Gateway(cache, prices=PRICES) as gateway:
            first = await gateway.embedder(at(server)).embed(TEXTS)
            again = await gateway.embedder(at(server)).embed(TEXTS[::-1])
            stats = gateway.stats
            assert (stats.asked, stats.cached) == (1, 3)
            assert stats.used.cost == stats.used.prompt_tokens / 1e6 > 0
        async with Gateway(cache) as gateway:
            more = await gateway.embedder(at(server)).embed([*TEXTS, "fly a kite"])
            assert server.bodies[-1]["input"] == ["fly a kite"]
            await gateway.embedder(at(server, model="other")).embed(TEXTS)
        assert server.received == 3
    assert (first == again[::-1]).all()
    assert (first == more[:3]).all()


async def test_equal_texts_in_flight_are_sent_once(gateway, at):
    """Of calls that share texts in any order each text is sent once, and nobody waits forever."""
    async with FakeServer(latency=0.05) as server:
        embedder = gateway.embedder(at(server))
        texts = [f"text {number}" for number in range(20)]
        calls = [texts[n:] + texts[:n] if n % 2 else texts[n::-1] for n in range(20)]
        await asyncio.gather(*map(embedder.embed, calls))
        sent = [text for body in server.bodies for text in body["input"]]
    assert sorted(sent) == sorted(texts)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("ends", ["the run ends", "somebody asks again", "another text is refused"])
async def test_answers_under_way_are_kept(cache, at, ends):
    """An embedding that was sent is kept when its asker gives up, or another text of his is refused:
    nobody sends it again."""
    go = asyncio.Event()

    async def script(body):
        if "bad" in body["input"]:
            return ScriptedFailure(400, body="no")
        await go.wait()
        return embed(body)

    texts = [f"text {n}" for n in range(BATCH)]
    async with FakeServer(embeddings=script) as server:
        async with Gateway(cache) as gateway:
            more = ["bad"] if ends == "another text is refused" else []
            asking = asyncio.create_task(gateway.embedder(at(server)).embed([*texts, *more]))
            await until(lambda: server.received == 1 + len(more))
            asking.cancel()
            again = texts if ends == "somebody asks again" else []
            asked = asyncio.create_task(gateway.embedder(at(server)).embed(again))
            await asyncio.sleep(0.1)
            go.set()
            await asked
        async with Gateway(cache) as gateway:
            await gateway.embedder(at(server)).embed(texts)
        assert server.received == 1 + len(more)


async def test_a_text_too_long_is_embedded_by_its_beginning(gateway, at):
    """Texts that the endpoint calls too much are sent in halves, one too long is cut by halves; its
    neighbours stay whole, and no try counts as failed."""
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
    assert gateway.stats.retries == 0


def body_of(*vectors, **more):
    """An answer with these vectors."""
    entries = [{"index": i, "embedding": v} for i, v in enumerate(vectors)]
    return json.dumps({"data": entries, **more})


@pytest.mark.parametrize(
    ("replies", "kind", "words", "received"),
    [
        (
            [(501, "This server does not support embeddings")],
            EndpointError,
            "`embeddings` to an embedding model",
            1,
        ),
        ([(404, "Not Found")], EndpointError, "has no /embeddings.* up to and with /v1", 1),
        ([(413, "no")], RequestRefused, "refuses texts of this size", 2),
        # Two tries, and one to see whether it answers anything.
        ([(200, body_of([1.0]))], RequestRefused, "1 embeddings for 3 texts", 3),
        (
            [(200, body_of(*[[1.0]] * 3)), (200, body_of([1.0, 2.0]))],
            EndpointError,
            r"different sizes \(\[1, 2\]\)",
            2,
        ),
    ],
    ids=["no embeddings", "no such path", "no size is taken", "garbage", "another size"],
)
async def test_what_cannot_be_embedded_is_told(gateway, at, replies, kind, words, received):
    """An endpoint that cannot embed stops the run at the first try, and so does a model that changed
    its size. Halving comes to an end, and garbage is tried again."""
    answers = itertools.chain(replies, itertools.repeat(replies[-1]))

    def script(_):
        status, body = next(answers)
        return ScriptedFailure(status, body=body) if status != 200 else json.loads(body)

    async with FakeServer(embeddings=script) as server:
        with pytest.raises(kind, match=words):
            for texts in (TEXTS, [*TEXTS, "another"]):
                await gateway.embedder(at(server)).embed(texts)
        assert server.received == received


async def test_after_a_refusal_nothing_more_is_sent(gateway, at):
    """Texts that wait for a place when another is refused are not sent."""
    async with FakeServer(embeddings=lambda _: ScriptedFailure(400, body="no")) as server:
        with pytest.raises(RequestRefused):
            texts = [f"text {n}" for n in range(9 * BATCH)]
            await gateway.embedder(at(server, concurrency=1)).embed(texts)
        await asyncio.sleep(0.05)
        assert server.received <= 2


@pytest.mark.parametrize(
    "usage", [None, *({"prompt_tokens": n} for n in (None, 0, -5, 2**31, 5.0, True, "5"))]
)
def test_indices_decide_the_order(usage):
    """Vectors go to the texts their index names; without indices they come in order. A number of
    tokens that nobody can have sent says nothing."""
    swapped = {"data": [{"index": 1, "embedding": [1]}, {"index": 0, "embedding": [2]}]}
    assert [v.tolist() for v in decode_vectors(json.dumps(swapped), 2)[0]] == [[2.0], [1.0]]
    bare = {"data": [{"embedding": [1]}, {"embedding": [2]}], "usage": usage}
    vectors, tokens = decode_vectors(json.dumps(bare), 2)
    assert ([v.tolist() for v in vectors], tokens) == ([[1.0], [2.0]], 0)


@pytest.mark.parametrize(
    "garbage",
    [
        *("", "<html>", "[]", '{"data": []}', '{"error": "overloaded"}', "[" * 100_000),
        *(body_of([1.0, 2.0]), body_of([1.0, 2.0], [1.0])),
        *(body_of([1.0], v) for v in ([], [float("nan")], [1e39], [10**400], ["2.0"], "AACAPw==")),
        *(body_of([1.0], [v]) for v in (True, None, [1.0])),
        *(
            body_of([1.0], [2.0]).replace('"index": 1', f'"index": {index}')
            for index in ("0", "7", "null", '"1"')
        ),
    ],
)
def test_what_is_no_embeddings_is_told(garbage):
    """A body with other than one finite vector of one size for each text is garbled."""
    with pytest.raises(Garbled) as garbled:
        decode_vectors(garbage, 2)
    assert garbled.value.raw == garbage
