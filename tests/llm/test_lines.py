from __future__ import annotations

import asyncio
import gc
import logging
import time
from types import SimpleNamespace

import pytest
from support.waiting import until

from toolloom.llm import FakeServer, Gateway
from toolloom.llm.fake import ScriptedFailure
from toolloom.schemas import EndpointDenied, EndpointDown, RequestRefused

SIX = ("429", "500", "reset", "truncated", "hang", "html")


async def test_replicas_share_the_load(gateway, at, plain):
    """Several addresses serve one model: each takes its part, and the cache knows one model."""
    async with FakeServer(latency=0.2) as one, FakeServer(latency=0.2) as two:
        model = gateway.model(at(one, concurrency=4, replicas=[{"base_url": two.base_url}]))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(40)))
        assert one.received + two.received == 40
        assert min(one.received, two.received) >= 15
        assert (one.peak, two.peak) == (4, 4)
        await gateway.model(at(one)).complete(plain(seed=0))
        assert one.received + two.received == 40


async def test_keys_share_the_load(gateway, at, plain, monkeypatch):
    """Two keys at one address have limits of their own."""
    monkeypatch.setenv("FIRST", "a" * 20)
    monkeypatch.setenv("SECOND", "b" * 20)
    async with FakeServer(latency=0.2) as server:
        endpoint = at(server, concurrency=2, key_env="FIRST", replicas=[{"key_env": "SECOND"}])
        model = gateway.model(endpoint)
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(12)))
        assert server.peak == 4


async def test_a_replica_that_cannot_serve_is_left_out(gateway, at, plain, caplog):
    """A wrong key at one of two addresses stops nothing: the other does the work, and it is told."""
    async with FakeServer(key="secret") as shut, FakeServer() as open_:
        model = gateway.model(at(shut, replicas=[{"base_url": open_.base_url}]))
        with caplog.at_level(logging.WARNING):
            await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(8)))
    assert open_.answered == 8
    assert "does not accept the key" in caplog.text


@pytest.mark.parametrize("failure", [None, ScriptedFailure(500)])
@pytest.mark.parametrize("order", [1, -1])
async def test_a_dead_replica_costs_no_record(gateway, at, plain, failure, order):
    """Of two addresses one is dead or answers errors alone: the other does all the work, soon."""
    async with FakeServer() as dead:
        address = dead.base_url
    async with FakeServer(lambda body: failure) as sick, FakeServer(latency=0.02) as well:
        first, second = [address if failure is None else sick.base_url, well.base_url][::order]
        endpoint = at(first, replicas=[{"base_url": second}], tries=4, concurrency=8)
        model = gateway.model(endpoint)
        asked = asyncio.gather(*(model.complete(plain(seed=n)) for n in range(100)))
        await asyncio.wait_for(asked, 60)
        assert well.answered == 100


async def test_asking_on_after_the_last_line_is_out(gateway, at, plain):
    """Whoever asks later is told what the first was told."""
    async with FakeServer(key="secret") as server:
        model = gateway.model(at(server))
        for seed in (1, 2):
            with pytest.raises(EndpointDenied):
                await model.complete(plain(seed=seed))


async def test_the_last_replica_stops_the_run(gateway, at, plain):
    """When no address is left, the error is that of the last one."""
    async with FakeServer(key="secret") as one, FakeServer(key="secret") as two:
        model = gateway.model(at(one, replicas=[{"base_url": two.base_url}]))
        with pytest.raises(EndpointDenied):
            await model.complete(plain())


async def test_the_policy_is_the_recipes(gateway, at, plain):
    """Only failures that the recipe names are tried again; another one ends the run at once."""
    async with FakeServer(lambda body: ScriptedFailure(503)) as server:
        policy = {"tries": 5, "errors": [429, "timeout"]}
        with pytest.raises(EndpointDown, match=r"`retry\.errors`"):
            await gateway.model(at(server, retry=policy)).complete(plain())
        assert server.received == 1


async def test_a_status_may_be_added_to_the_policy(gateway, at, plain):
    """What usually ends a run may be called a passing failure, as of a proxy that restarts."""
    script = iter([ScriptedFailure(404), ScriptedFailure(404), "Hello"])
    async with FakeServer(lambda body: next(script)) as server:
        policy = {"errors": [404], "first_wait": 0.01}
        reply = await gateway.model(at(server, retry=policy)).complete(plain())
        assert (reply.text, server.received) == ("Hello", 3)


async def test_patience_ends(gateway, at, plain):
    """However many tries are left, after `patience` seconds a request is given up."""
    async with FakeServer(lambda body: ScriptedFailure(500)) as server:
        policy = {"tries": 100, "patience": 0.6, "first_wait": 0.1, "longest_wait": 0.1}
        began = time.monotonic()
        with pytest.raises(EndpointDown):
            await gateway.model(at(server, retry=policy)).complete(plain())
        assert time.monotonic() - began > 0.5
        assert 2 <= server.received <= 13  # the last three ask whether it serves others


async def test_patience_is_for_tries_not_for_the_queue(gateway, at, plain, monkeypatch):
    """A request that had to wait long for its place has all its tries left."""
    failures, now = iter([ScriptedFailure(500)]), [0.0]
    monkeypatch.setattr("toolloom.llm.connection.time", SimpleNamespace(monotonic=lambda: now[0]))

    def script(body):
        if body["seed"] == 9:
            return next(failures, "Hello")
        now[0] += 100  # seconds
        return "Hello"

    async with FakeServer(script) as server:
        model = gateway.model(at(server, concurrency=1, retry={"patience": 350}))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(10)))
        assert server.answered == 10


async def test_a_busy_endpoint_is_not_called_dead(gateway, at, plain):
    """Whether an endpoint serves others is found out without waiting behind all others."""

    def script(body):
        return ScriptedFailure(500) if body.get("seed") == 0 else "Hello"

    async with FakeServer(script, latency=0.05) as server:
        model = gateway.model(at(server, concurrency=2, tries=2))
        asked = [model.complete(plain(seed=n)) for n in range(60)]
        done = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(one) for one in done if isinstance(one, Exception)] == [RequestRefused]


async def test_being_told_to_wait_is_no_failed_try(gateway, at, plain):
    """Requests that are refused for their number come later, however often."""
    script = iter([*[ScriptedFailure(429, retry_after=0.01)] * 6, "Hello"])
    async with FakeServer(lambda body: next(script)) as server:
        assert (await gateway.model(at(server, tries=2)).complete(plain())).text == "Hello"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error": {"code": "context_length_exceeded", "message": "too long"}}', "longer one"),
        ('{"error": {"code": "content_filter", "message": "no"}}', "content filter"),
    ],
)
@pytest.mark.parametrize("status", [400, 403, 500])
async def test_what_no_try_helps_fails_at_once(gateway, at, plain, body, words, status):
    """A prompt that is too long or filtered is refused with words that help, after one try."""
    async with FakeServer(lambda request: ScriptedFailure(status, body=body)) as server:
        with pytest.raises(RequestRefused, match=words):
            await gateway.model(at(server, tries=5)).complete(plain())
        assert server.received == 1


async def test_every_kind_of_failure_at_once(gateway, at, plain):
    """With 5 % each of six failures every request is answered, and the tries are counted."""
    failures = dict.fromkeys(SIX, 0.05)
    async with FakeServer(failures=failures, retry_after=0.1, latency=0.005) as server:
        policy = {"tries": 12, "first_wait": 0.05, "longest_wait": 0.5}
        model = gateway.model(at(server, retry=policy, timeout=3, concurrency=32))
        replies = await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(200)))
        assert len(replies) == server.answered == 200
        assert set(server.failures) == set(SIX)
        assert gateway.stats.retries == server.failed == server.received - 200
    spent = await gateway.cache.spent("")
    assert spent.requests == server.received


@pytest.mark.parametrize("others", [0, 50])
async def test_a_request_that_always_fails_is_refused_alone(gateway, at, plain, others):
    """One prompt on which the endpoint fails for ever costs its record, not the run, even when
    it is all that is left of it."""

    def script(body):
        return ScriptedFailure(500) if body.get("seed") == 13 else "Hello"

    async with FakeServer(script) as server:
        model = gateway.model(at(server, tries=3))
        asked = [model.complete(plain(seed=n)) for n in (13, *range(100, 100 + others))]
        done = await asyncio.gather(*asked, return_exceptions=True)
    (odd,) = [one for one in done if isinstance(one, Exception)]
    assert isinstance(odd, RequestRefused)
    assert "fails on this request" in str(odd)


async def test_concurrency_follows_the_endpoint(gateway, at, plain):
    """An endpoint with fewer places than asked for is found out: soon few are refused."""
    async with FakeServer(places=8, latency=0.05, retry_after=0.05) as server:
        model = gateway.model(at(server, tries=50, concurrency=64))
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(200)))
        first = server.failed
        await asyncio.gather(*(model.complete(plain(seed=n)) for n in range(200, 600)))
        assert server.answered == 600
        # With 64 at once all the time, seven of eight would be refused: 2,800.
        assert server.failed - first < 400


def held(go):
    """A script that answers once it is told to."""

    async def script(body):
        await go.wait()
        return "Hello"

    return script


@pytest.mark.usefixtures("patient")
async def test_answers_under_way_are_kept_when_a_run_ends_early(cache, at, plain):
    """What was sent is paid for: when its asker gives up, the answer is still kept."""
    go = asyncio.Event()
    async with FakeServer(held(go)) as server:
        async with Gateway(cache) as gateway:
            asked = asyncio.create_task(gateway.model(at(server)).complete(plain()))
            await until(lambda: server.received == 1)
            asked.cancel()
            go.set()
        async with Gateway(cache) as gateway:
            await gateway.model(at(server)).complete(plain())
        assert server.received == 1


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


@pytest.mark.usefixtures("patient")
async def test_nothing_is_sent_any_more_when_a_run_ends_early(cache, at, plain):
    """Requests that still wait for a place are not sent once their run is over."""
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
