"""Requests that fail: what is tried again, where else, and what is told in the end."""

from __future__ import annotations

import asyncio
import gc
import time
from types import SimpleNamespace

import pytest
from support.waiting import until

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.scripted import ScriptedFailure
from toolloom.schemas import EndpointDenied, EndpointDown, ModelMissing, RequestRefused

SIX = ("429", "500", "reset", "truncated", "hang", "html")
HINTS = (("context_length_exceeded", "longer one"), ("content_filter", "endpoint's content filter"))


def in_turn(*answers):
    """A script that says one thing after the other."""
    script = iter(answers)
    return lambda body: next(script)


@pytest.mark.parametrize(
    ("failure", "policy", "tries"),
    [
        *((ScriptedFailure(status), {"tries": 2}, 2) for status in (500, 503, 429, 408)),
        (ScriptedFailure(reset=True), {"tries": 2}, 2),
        (ScriptedFailure(429, retry_after=0.2), {"tries": 2}, 7),  # being told to wait is none
    ],
    ids=["500", "503", "429", "408", "disconnected", "told to wait"],
)
async def test_passing_failures_are_tried_again(gateway, at, plain, failure, policy, tries):
    """A failure that may pass is tried again, no sooner than the endpoint says, and the answer
    counts as any other."""
    async with FakeServer(in_turn(*[failure] * (tries - 1), "Hello")) as server:
        began = time.monotonic()
        reply = await gateway.model(at(server, retry=policy)).complete(plain())
    assert time.monotonic() - began >= (tries - 1) * (failure.retry_after or 0)
    assert reply.text == "Hello"
    stats = gateway.stats
    assert (stats.asked, stats.retries, server.received) == (1, tries - 1, tries)


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (422, "too long", RequestRefused, "too long"),
        *((s, code, RequestRefused, hint) for s in (400, 403, 500) for code, hint in HINTS),
        (429, "Request too large for fake: Limit 3", RequestRefused, "within a minute"),
        (429, '{"error": {"code": "insufficient_quota"}}', EndpointDenied, "Add credit"),
    ],
)
async def test_what_no_try_helps_fails_at_once(gateway, at, plain, status, body, kind, words):
    """A refusal of this request, or for want of money, is told after one try, with the endpoint's
    own words and ours that help."""
    async with FakeServer(lambda request: ScriptedFailure(status, body=body)) as server:
        with pytest.raises(kind, match=words) as refused:
            await gateway.model(at(server, tries=5)).complete(plain())
        assert server.received == 1
    assert kind is not RequestRefused or refused.value.raw == body


@pytest.mark.parametrize(
    ("server", "kind", "words"),
    [
        ({"key": "right"}, EndpointDenied, r"OPENAI_API_KEY \(HTTP 401: Incorrect"),
        ({"models": ("big", "small")}, ModelMissing, r"'fake'.*It offers: big, small\."),
    ],
    ids=["wrong key", "unknown model"],
)
async def test_an_endpoint_that_cannot_serve_stops_the_run(gateway, at, plain, server, kind, words):
    """It is told at once what is wrong and what to set; who asks later is told the same."""
    async with FakeServer(**server) as serving:
        model = gateway.model(at(serving, tries=5))
        for _ in range(2):
            with pytest.raises(kind, match=words):
                await model.complete(plain())
        assert serving.received <= 2


async def test_a_dead_endpoint_is_reported_soon(gateway, at, plain):
    """Where nobody listens five tries take seconds, not minutes, and the error says so."""
    async with FakeServer() as server:
        address = server.base_url
    with pytest.raises(EndpointDown, match=r"no connection.*tried 5 times.*same command again"):
        await asyncio.wait_for(gateway.model(at(address, tries=5)).complete(plain()), 30)


async def test_slow_answers_are_given_up(gateway, at, plain):
    """`timeout` is for the whole response, and a late one is tried again."""
    async with FakeServer(latency=5) as server:
        with pytest.raises(EndpointDown, match=r"no answer within 0\.2 s \(tried 2 times\)"):
            await gateway.model(at(server, timeout=0.2)).complete(plain())
        assert server.received <= 2  # less if the machine stood still


async def test_a_rate_limit_holds_the_others_back(gateway, at, plain):
    """When many get a 429 with Retry-After, nothing is sent to that address until it is over."""
    async with FakeServer(lambda body: ScriptedFailure(429, retry_after=60)) as server:
        model = gateway.model(at(server))
        asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(5)]
        await until(lambda: any(places.closed for places in gateway._places.values()))
        asked.append(asyncio.create_task(model.complete(plain(seed=9))))
        await asyncio.sleep(0.2)
        assert server.received == 5
        for task in asked:
            task.cancel()


@pytest.mark.parametrize("garbage", ["<html>", '{"error": "overloaded"}'])
async def test_garbage_is_no_answer(gateway, at, plain, garbage):
    """A 200 that is no completion is tried again, never cached, and where nothing else comes the
    run stops: no record is lost to an address that is none."""
    async with FakeServer(lambda body: ScriptedFailure(200, body=garbage)) as server:
        model = gateway.model(at(server))
        for _ in range(2):
            before = server.received
            with pytest.raises(EndpointDown, match=r"as an OpenAI-compatible.*tried 2 times"):
                await model.complete(plain())
            assert server.received >= before + 2


@pytest.mark.parametrize(
    ("failure", "raw"),
    [(ScriptedFailure(500), ""), (ScriptedFailure(200, body="<html>"), "<html>")],
    ids=["failure", "garbage"],
)
@pytest.mark.parametrize("others", [0, 50])
async def test_a_request_that_always_fails_is_refused_alone(
    gateway, at, plain, others, failure, raw
):
    """One prompt on which the endpoint fails for ever costs its record, not the run, even when
    it is all that is left of it; and that is found out without waiting behind all others."""

    def script(body):
        return failure if body.get("seed") == 13 else "Hello"

    async with FakeServer(script, latency=0.02) as server:
        model = gateway.model(at(server, tries=2, concurrency=2))
        asked = [model.complete(plain(seed=n)) for n in (13, *range(100, 100 + others))]
        done = await asyncio.gather(*asked, return_exceptions=True)
    (odd,) = [one for one in done if isinstance(one, Exception)]
    assert isinstance(odd, RequestRefused)
    assert ("fails on this request" in str(odd), odd.raw) == (True, raw)


async def test_patience_ends(gateway, at, plain, monkeypatch):
    """However many tries are left, after `patience` seconds a request is given up."""
    monkeypatch.setattr("toolloom.llm.client.LONGEST_WAIT", 0.1)
    async with FakeServer(lambda body: ScriptedFailure(500)) as server:
        policy = {"tries": 100, "patience": 0.6}
        began = time.monotonic()
        with pytest.raises(EndpointDown):
            await gateway.model(at(server, retry=policy)).complete(plain())
        assert time.monotonic() - began > 0.5
        assert 2 <= server.received <= 13  # the last three ask whether it serves others


async def test_patience_is_for_tries_not_for_the_queue(gateway, at, plain, monkeypatch):
    """A request that had to wait long for its place has all its tries left."""
    failures, now = iter([ScriptedFailure(500)]), [0.0]
    monkeypatch.setattr("toolloom.llm.client.time", SimpleNamespace(monotonic=lambda: now[0]))

    def script(body):
        if body["seed"] == 9:
            return next(failures, "Hello")
        now[0] += 100  # seconds
        return "Hello"

    async with FakeServer(script) as server:
        model = gateway.model(at(server, concurrency=1, retry={"patience": 350}))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(10)))
        assert server.answered == 10


async def test_every_kind_of_failure_at_once(gateway, at, plain):
    """With 5 % each of six failures every request is answered, and the tries are counted."""
    failures = dict.fromkeys(SIX, 0.05)
    async with FakeServer(failures=failures, retry_after=0.1, latency=0.005) as server:
        model = gateway.model(at(server, tries=12, timeout=2, concurrency=64))
        replies = await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(150)))
        assert len(replies) == server.answered == 150
        assert set(server.failures) == set(SIX)
        assert gateway.stats.retries == server.failed == server.received - 150
    spent = await gateway.cache.spent("")
    assert spent.requests == server.received


async def test_concurrency_follows_the_endpoint(gateway, at, plain):
    """An endpoint with fewer places than asked for is found out: soon few are refused."""
    async with FakeServer(places=8, latency=0.05, retry_after=0.05) as server:
        model = gateway.model(at(server, tries=50, concurrency=64))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(200)))
        first = server.failed
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(200, 400)))
        assert server.answered == 400
        # With 64 at once all the time, seven of eight would be refused: 1,400.
        assert server.failed - first < 250


def held(go):
    """A script that answers once it is told to."""

    async def script(body):
        await go.wait()
        return "Hello"

    return script


@pytest.mark.usefixtures("patient")
async def test_answers_under_way_are_kept_when_a_run_ends_early(cache, at, plain):
    """What was sent is paid for, and its answer kept when its asker gives up; requests that still
    wait for a place are not sent once their run is over."""
    go = asyncio.Event()
    async with FakeServer(held(go)) as server:
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

    async with FakeServer(held(asyncio.Event())) as server:
        working = asyncio.create_task(work())
        await until(lambda: server.busy)
        working.cancel()
        await asyncio.sleep(0.1)
        working.cancel()
        await asyncio.wait([working], timeout=30)
        assert working.cancelled()
    del working
    gc.collect()  # a connection that is left open warns, and a warning is an error
