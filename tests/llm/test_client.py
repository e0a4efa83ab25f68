"""Requests that fail: what is tried again, where else, and what is told in the end."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest
from support.waiting import until

from toolloom import FakeServer, Gateway
from toolloom.llm.scripted import ScriptedFailure
from toolloom.schemas import EndpointDenied, EndpointDown, ModelMissing, RequestRefused

NOBODY = "http://127.0.0.1:9/v1"


def saying(status, body):
    """Options of a server that always says this."""
    return {"script": lambda _: ScriptedFailure(status, body=body)}


@pytest.mark.parametrize(
    ("failure", "policy", "tries"),
    [
        *((ScriptedFailure(status), {"tries": 2}, 2) for status in (500, 503, 429, 408)),
        (ScriptedFailure(reset=True), {"tries": 2}, 2),
        (ScriptedFailure(429, retry_after=0.1), {"tries": 2}, 5),  # being told to wait is none
    ],
    ids=["500", "503", "429", "408", "disconnected", "told to wait"],
)
async def test_passing_failures_are_tried_again(gateway, at, plain, failure, policy, tries):
    """A failure that may pass is tried again, no sooner than the endpoint says, and the answer
    counts as any other."""
    script = iter([failure] * (tries - 1))
    async with FakeServer(lambda body: next(script, "Hello")) as server:
        began = time.monotonic()
        reply = await gateway.model(at(server, retry=policy)).complete(plain())
    assert time.monotonic() - began >= (tries - 1) * (failure.retry_after or 0)
    assert reply.text == "Hello"
    stats = gateway.stats
    assert (stats.asked, stats.retries, server.received) == (1, tries - 1, tries)


@pytest.mark.parametrize(
    ("server", "kind", "words"),
    [
        ({"models": ("big", "small")}, ModelMissing, r"'fake'.*It offers: big, small\."),
        (saying(422, "too long"), RequestRefused, "too long"),
        *(
            (saying(status, code), RequestRefused, hint)
            for status in (400, 500)
            for code, hint in (
                ("context_length_exceeded", "longer one"),
                ("content_filter", "endpoint's content filter"),
            )
        ),
        (saying(429, "Request too large for fake: Limit 3"), RequestRefused, "within a minute"),
        (saying(429, '{"error": {"code": "insufficient_quota"}}'), EndpointDenied, "Add credit"),
    ],
)
async def test_what_no_try_helps_fails_at_once(gateway, at, plain, server, kind, words):
    """A refusal of this request, for want of money or of the model, is told after one try, with the
    endpoint's own words and ours that help; who asks later is told the same."""
    async with FakeServer(**server) as serving:
        model = gateway.model(at(serving, tries=5))
        for _ in range(2):
            with pytest.raises(kind, match=words):
                await model.complete(plain())
        assert serving.received <= 2


@pytest.mark.parametrize(
    ("server", "changes", "words"),
    [
        ({}, {"base_url": NOBODY, "tries": 4}, r"no connection.*tried 4 times.*same command again"),
        ({"latency": 5}, {"timeout": 0.2}, r"no answer within 0\.2 s \(tried 2 times\)"),
        (saying(200, "<html>"), {}, "as an OpenAI-compatible.*tried 2 times"),
        (saying(200, '{"error": "overloaded"}'), {}, "as an OpenAI-compatible.*tried 2 times"),
        (saying(500, None), {"retry": {"tries": 100, "patience": 0.6}}, "HTTP 500"),
    ],
    ids=["nobody listens", "slow", "a page", "an error as an answer", "patience ends"],
)
async def test_an_endpoint_that_does_not_answer_stops_the_run(
    gateway, at, plain, monkeypatch, server, changes, words
):
    """Soon, and with what was seen of it. A 200 that is no completion is not cached, `timeout` is for
    the whole response, and `patience` for all tries."""
    monkeypatch.setattr("toolloom.llm.client.LONGEST_WAIT", 0.1)
    async with FakeServer(**server) as serving:
        model = gateway.model(at(serving, **changes))
        for _ in range(2):
            before = serving.received
            with pytest.raises(EndpointDown, match=words):
                await asyncio.wait_for(model.complete(plain()), 30)
            assert serving.received <= before + 13
            assert changes or serving.received > before


@pytest.mark.parametrize(
    ("status", "body", "others"), [(500, "", 0), (500, "", 50), (200, "<html>", 0)]
)
async def test_a_request_that_always_fails_is_refused_alone(
    gateway, at, plain, status, body, others
):
    """One prompt on which the endpoint fails for ever costs its record, not the run, even when
    it is all that is left of it; and that is found out without waiting behind all others."""

    def script(request):
        return ScriptedFailure(status, body=body) if request.get("seed") == 13 else "Hello"

    async with FakeServer(script, latency=0.02) as server:
        model = gateway.model(at(server, tries=2, concurrency=2))
        asked = [model.complete(plain(seed=n)) for n in (13, *range(100, 100 + others))]
        done = await asyncio.gather(*asked, return_exceptions=True)
    (odd,) = [one for one in done if isinstance(one, Exception)]
    assert isinstance(odd, RequestRefused)
    assert ("fails on this request" in str(odd), odd.raw) == (True, body)


async def test_a_rate_limit_holds_the_others_back(gateway, at, plain):
    """When many get a 429 with Retry-After, nothing is sent to that address until it is over."""
    async with FakeServer(lambda body: ScriptedFailure(429, retry_after=60)) as server:
        model = gateway.model(at(server))
        asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(5)]
        await until(lambda: any(places._opens for places in gateway._places.values()))
        asked.append(asyncio.create_task(model.complete(plain(seed=9))))
        await asyncio.sleep(0.2)
        assert server.received == 5
        for task in asked:
            task.cancel()


async def test_every_kind_of_failure_at_once(gateway, at, plain):
    """With 7 % each of four failures every request is answered, and the tries are counted."""
    kinds = ("429", "500", "reset", "truncated")
    failures = dict.fromkeys(kinds, 0.07)
    async with FakeServer(failures=failures, retry_after=0.1) as server:
        model = gateway.model(at(server, tries=12, concurrency=64))
        replies = await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(100)))
        assert len(replies) == server.answered == 100
        assert set(server.failed) == set(kinds)
        assert gateway.stats.retries == server.failed.total() == server.received - 100
    spent = await gateway.cache.spent("")
    assert spent.requests == server.received


async def test_concurrency_follows_the_endpoint(gateway, at, plain):
    """An endpoint with fewer places than asked for is found out: soon few are refused."""
    async with FakeServer(places=4, latency=0.05, retry_after=0.05) as server:
        model = gateway.model(at(server, tries=50, concurrency=32))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(100)))
        first = server.failed.total()
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(100, 200)))
        assert server.answered == 200
        # With 32 at once all the time, seven of eight would be refused: 700.
        assert server.failed.total() - first < 125


@pytest.mark.usefixtures("patient")
async def test_answers_under_way_are_kept_when_a_run_ends_early(cache, at, plain):
    """What was sent is paid for, and its answer kept when its asker gives up; requests that still
    wait for a place are not sent once their run is over."""
    go = asyncio.Event()

    async def held(body):
        await go.wait()
        return "Hello"

    async with FakeServer(held) as server:
        async with Gateway(cache) as gateway:
            model = gateway.model(at(server, concurrency=2))
            asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(10)]
            await until(lambda: server.received == 2)
            for task in asked:
                task.cancel()
            go.set()
        assert server.received == server.answered == 2
        async with Gateway(cache) as gateway:
            for seed in (0, 1):
                await gateway.model(at(server)).complete(plain(seed=seed))
        assert server.received == 2


@pytest.mark.usefixtures("patient")
async def test_a_run_that_is_stopped_twice_leaves_nothing_open(cache, at, plain):
    """Who does not want to wait for the answers under way gets his connections closed all the
    same."""

    async def work():
        async with Gateway(cache) as gateway:
            await gateway.model(at(server)).complete(plain())

    async with FakeServer(latency=300) as server:
        working = asyncio.create_task(work())
        await until(lambda: server.busy)
        working.cancel()
        await asyncio.sleep(0.1)
        working.cancel()
        await asyncio.wait([working], timeout=30)
        assert working.cancelled()
    del working
    gc.collect()  # a connection that is left open warns, and a warning is an error
