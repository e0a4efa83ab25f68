from __future__ import annotations

import asyncio
import time

import pytest
from support.waiting import until

from toolloom.llm import FakeServer
from toolloom.llm.fake import ScriptedFailure
from toolloom.schemas import (
    EndpointDenied,
    EndpointDown,
    EndpointError,
    ModelMissing,
    RequestRefused,
)


@pytest.mark.parametrize(
    "failure",
    [
        ScriptedFailure(500),
        ScriptedFailure(503),
        ScriptedFailure(429),
        ScriptedFailure(408),
        ScriptedFailure(disconnect=True),
    ],
)
async def test_passing_failures_are_tried_again(gateway, at, plain, failure):
    """A failure that may pass is tried again, and the answer counts as any other."""
    script = iter([failure, "Hello"])
    async with FakeServer(lambda body: next(script)) as server:
        reply = await gateway.model(at(server)).complete(plain())
    assert reply.text == "Hello"
    assert (gateway.stats.asked, gateway.stats.retries, server.received) == (1, 1, 2)


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_refused_requests_are_not_tried_again(gateway, at, plain, status):
    """A refusal concerns this request: it is raised at once, with the endpoint's own words."""
    async with FakeServer(lambda body: ScriptedFailure(status, body="too long")) as server:
        with pytest.raises(RequestRefused, match="too long") as refused:
            await gateway.model(at(server)).complete(plain())
        assert server.received == 1
    assert refused.value.raw == "too long"


async def test_retry_after_is_honoured(gateway, at, plain):
    """A request waits as long as the endpoint says, and no shorter."""
    script = iter([ScriptedFailure(429, retry_after=1), "Hello"])
    async with FakeServer(lambda body: next(script)) as server:
        began = time.monotonic()
        await gateway.model(at(server)).complete(plain())
    assert time.monotonic() - began >= 1


async def test_a_rate_limit_holds_the_others_back(gateway, at, plain):
    """When many get a 429 with Retry-After, nothing is sent to that address until it is over."""
    async with FakeServer(lambda body: ScriptedFailure(429, retry_after=60)) as server:
        model = gateway.model(at(server))
        asked = [asyncio.create_task(model.complete(plain(seed=n))) for n in range(5)]
        await until(lambda: any(lane.closed for lane in gateway._lanes.values()))
        asked.append(asyncio.create_task(model.complete(plain(seed=9))))
        await asyncio.sleep(0.2)
        assert server.received == 5
        for task in asked:
            task.cancel()


async def test_a_key_that_is_not_accepted_stops_the_run(gateway, at, plain):
    """401 is raised at once and names the variable that holds the key."""
    async with FakeServer(key="right") as server:
        with pytest.raises(EndpointDenied, match=r"OPENAI_API_KEY \(HTTP 401: Incorrect"):
            await gateway.model(at(server)).complete(plain())
        assert server.received == 1


async def test_used_up_quota_is_no_rate_limit(gateway, at, plain):
    """A 429 for lack of money does not pass by waiting."""
    broke = ScriptedFailure(429, body='{"error": {"message": "Pay", "code": "insufficient_quota"}}')
    async with FakeServer(lambda body: broke) as server:
        with pytest.raises(EndpointDenied, match="credit"):
            await gateway.model(at(server)).complete(plain())
        assert server.received == 1


async def test_an_unknown_model_is_named_with_those_on_offer(gateway, at, plain):
    """A model the endpoint does not have stops the run, and the error lists what it has."""
    async with FakeServer(models=("big", "small")) as server:
        with pytest.raises(ModelMissing, match=r"'fake'.*It offers: big, small\."):
            await gateway.model(at(server)).complete(plain())


async def test_a_wrong_path_is_explained(gateway, at, plain):
    """A 404 that is not about the model hints at the end of base_url."""
    async with FakeServer() as server:
        wrong = server.base_url.removesuffix("/v1")
        with pytest.raises(EndpointError, match="up to and with /v1"):
            await gateway.model(at(wrong)).complete(plain())


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


@pytest.mark.parametrize(
    "garbage", ["", "<html>", "[]", '{"choices": []}', '{"error": "overloaded"}', "[" * 100_000]
)
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


async def test_garbage_for_one_request_is_its_own(gateway, at, plain):
    """Where others are answered, a request that gets only garbage is refused, with its body."""

    def script(body):
        return ScriptedFailure(200, body="<html>") if body.get("seed") == 7 else "Hello"

    async with FakeServer(script) as server:
        with pytest.raises(RequestRefused, match="fails on this request") as refused:
            await gateway.model(at(server)).complete(plain(seed=7))
    assert refused.value.raw == "<html>"
