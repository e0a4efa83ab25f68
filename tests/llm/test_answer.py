from __future__ import annotations

import json

import pytest

from toolloom.llm import FakeServer, Misfit, Unusable, Usage, ask
from toolloom.llm.fake import Failure, Said
from toolloom.prompts import source_hash
from toolloom.schemas import Reason


def keep(value):
    """A read that takes every answer."""
    return value


def scripted(*outcomes):
    """A server that says these things, one after the other."""
    script = iter(outcomes)
    return FakeServer(lambda body: next(script))


def said(raw):
    """The text in a response's body."""
    return json.loads(raw)["choices"][0]["message"]["content"]


async def test_structured_answers_are_values(gateway, at, prompt, city):
    """With a schema `read` is given the JSON value, and the usage tells what it took."""
    async with scripted({"city": "Rome"}) as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=city)
    assert answer.value == {"city": "Rome"}
    assert (answer.usage.requests, answer.usage.prompts) == (1, ("hash-of-asking",))
    assert [said(raw) for raw in answer.raw] == ['{"city":"Rome"}']


async def test_plain_answers_are_stripped_text(gateway, at, prompt):
    """Without a schema `read` is given the stripped text."""
    async with scripted("  Rome\n") as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1)
    assert answer.value == "Rome"


async def test_candidates_are_tried_until_one_does(gateway, at, prompt, city):
    """Candidates differ in their seed; the first that is taken ends the asking."""
    async with scripted({"town": "Rome"}, {"city": "Rome"}, {"city": "Oslo"}) as server:
        model = gateway.model(at(server, candidates=3))
        answer = await ask(model, prompt, keep, seed=1, schema=city)
    assert (answer.value, answer.usage.requests, server.received) == ({"city": "Rome"}, 2, 2)
    first, second = server.bodies
    assert first.pop("seed") != second.pop("seed")
    assert first == second


async def test_the_last_misfit_is_shown_to_the_model(gateway, at, prompt, city):
    """When no candidate does, the model sees its last answer and what is wrong with it."""
    async with scripted({"town": "Rome"}, {"city": "Rome"}) as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=city)
    assert answer.value == {"city": "Rome"}
    _, before, mend = server.bodies[-1]["messages"]
    assert before == {"role": "assistant", "content": '{"town":"Rome"}'}
    assert "'city' is a required property" in mend["content"]
    assert answer.usage.prompts == ("hash-of-asking", source_hash("mend"))


async def test_nothing_usable_keeps_everything_said(gateway, at, prompt, city):
    """Unusable holds the last reason, the usage and every response in order."""
    async with scripted("one", {"two": 2}, {"city": 3}) as server:
        model = gateway.model(at(server, candidates=2))
        with pytest.raises(Unusable) as unusable:
            await ask(model, prompt, keep, seed=1, schema=city)
    assert unusable.value.reason is Reason.UNUSABLE_RESPONSE
    assert "$.city: 3 is not of type 'string'" in unusable.value.detail
    assert [said(raw) for raw in unusable.value.raw] == ["one", '{"two":2}', '{"city":3}']
    assert unusable.value.usage.requests == 3


async def test_reads_may_reject(gateway, at, prompt):
    """What `read` finds wrong is the reason, and is what the model is told."""

    def read(text: str) -> str:
        raise Misfit(Reason.VALUE_NOT_MENTIONED, f"{text!r} does not mention Rome")

    async with scripted("Oslo", "Paris") as server:
        with pytest.raises(Unusable, match="'Paris' does not mention Rome") as unusable:
            await ask(gateway.model(at(server)), prompt, read, seed=1)
    assert unusable.value.reason is Reason.VALUE_NOT_MENTIONED
    assert "'Oslo' does not mention Rome" in server.bodies[-1]["messages"][-1]["content"]


async def test_empty_answers_are_misfits(gateway, at, prompt):
    """An empty answer does not reach `read`, and is not sent back as an empty turn."""
    async with scripted("  ", "Rome") as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1)
    assert answer.value == "Rome"
    assert server.bodies[-1]["messages"][1]["content"] == "(no answer)"


async def test_repairs_are_recorded(gateway, at, prompt, city):
    """Broken JSON is mended where possible, and the usage says so."""
    async with scripted('{"city": "Rome",') as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=city)
    assert (answer.value, answer.usage.repairs) == ({"city": "Rome"}, ("json_repair",))


async def test_answers_that_were_cut_off_are_not_repaired(gateway, at, prompt, city):
    """Half an answer would be half a value: it is a misfit that names the token limit."""
    async with scripted(Said('{"city": "Ro'), Said('{"city": "Ro')) as server:
        model = gateway.model(at(server))
        with pytest.raises(Unusable, match="cut off after 7 tokens"):
            await ask(model, prompt, keep, seed=1, schema=city, max_tokens=7)


async def test_endpoints_that_ignore_the_format_still_serve(gateway, at, prompt, city):
    """An endpoint that takes response_format and answers in prose is read all the same."""
    async with scripted('Sure! Here it is:\n```json\n{"city": "Rome"}\n```') as server:
        answer = await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=city)
    assert (answer.value, answer.usage.repairs) == ({"city": "Rome"}, ())


async def test_refused_requests_are_unusable(gateway, at, prompt):
    """A refusal rejects the record, with the endpoint's words as the raw response."""
    async with scripted(Failure(400, body="too long")) as server:
        with pytest.raises(Unusable, match="too long") as unusable:
            await ask(gateway.model(at(server)), prompt, keep, seed=1)
    assert (unusable.value.reason, unusable.value.raw) == (Reason.REQUEST_REFUSED, ("too long",))


@pytest.mark.parametrize("schema", [{"type": "city"}, {"pattern": "("}])
async def test_illegal_schemas_cost_nothing(gateway, at, prompt, schema):
    """A schema that cannot be used is found before anything is sent."""
    async with scripted() as server:
        with pytest.raises(Unusable) as unusable:
            await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=schema)
        assert (unusable.value.reason, server.received) == (Reason.ILLEGAL_SCHEMA, 0)


async def test_remote_references_are_not_fetched(gateway, at, prompt):
    """A reference to another document is reported, not followed."""
    async with scripted({"city": "Rome"}) as server:
        schema = {"$ref": f"{server.base_url}/models"}
        with pytest.raises(Unusable) as unusable:
            await ask(gateway.model(at(server)), prompt, keep, seed=1, schema=schema)
        assert (unusable.value.reason, server.received) == (Reason.ILLEGAL_SCHEMA, 1)


async def test_a_resumed_run_reports_the_same(gateway, at, prompt, city):
    """The answer from the cache equals the first one, in usage and raw texts too."""
    async with scripted("nonsense", {"city": "Rome"}) as server:
        model = gateway.model(at(server))
        first = await ask(model, prompt, keep, seed=1, schema=city)
        again = await ask(model, prompt, keep, seed=1, schema=city)
    assert (first, server.received) == (again, 2)
    assert first.usage.cost > 0


def test_usages_add_up():
    """Sums add numbers, keep each repair and name each template once, in order."""
    one = Usage(1, 2, 3, 0.5, ("json_repair",), ("a", "b"))
    two = Usage(1, 1, 1, 0.25, ("json_repair",), ("b", "c"))
    assert one + two == Usage(2, 3, 4, 0.75, ("json_repair",) * 2, ("a", "b", "c"))
