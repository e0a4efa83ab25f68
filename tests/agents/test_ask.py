from __future__ import annotations

import json
from typing import Any

import pytest

from toolloom.agents.ask import Answer, NoUsableAnswer, ask, settled
from toolloom.llm.scripted import ScriptedFailure, ScriptedReply
from toolloom.prompts import Prompt, source_hash
from toolloom.schemas import EndpointDown, JsonObject, Reason

PROMPT = Prompt("hash-of-asking", ({"role": "user", "content": "Name a city."},))
CITY: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def keep(value: Any) -> Any:
    """A read that takes every answer."""
    return value


def text_of(raw: str) -> Any:
    """The text in a response's body."""
    return json.loads(raw)["choices"][0]["message"]["content"]


async def asked(
    working: Any, *script: Any, read: Any = keep, candidates: int = 1, **options: Any
) -> tuple[Any, Any]:
    """The answer, or why there is none, and the server that was asked."""
    async with working(script, candidates=candidates) as (job, server):
        return await settled(ask(job.model, PROMPT, read, seed=1, **options)), server


@pytest.mark.parametrize(
    ("said", "repairs"),
    [
        pytest.param('{"city": "Rome"}', (), id="as asked for"),
        pytest.param('{"city": "Rome",', ("json_repair",), id="mended, and the costs say so"),
        pytest.param('Sure! Here:\n```json\n{"city": "Rome"}\n```', (), id="format is ignored"),
    ],
)
async def test_structured_answers_are_values(working: Any, said: str, repairs: Any) -> None:
    """With a schema `read` is given the JSON value, and the costs tell what it took."""
    answer, _ = await asked(working, said, schema=CITY)
    assert (answer.value, answer.costs.repairs) == ({"city": "Rome"}, repairs)
    assert (answer.costs.usage.requests, answer.costs.prompts) == (1, ("hash-of-asking",))
    assert [text_of(raw) for raw in answer.costs.raw] == [said]


async def test_candidates_are_tried_until_one_does(working: Any) -> None:
    """Candidates differ in their seed; the first that is taken ends the asking."""
    script = [{"town": "Rome"}, {"city": "Rome"}, {"city": "Oslo"}]
    answer, server = await asked(working, *script, schema=CITY, candidates=3)
    assert (answer.value, answer.costs.usage.requests, server.received) == ({"city": "Rome"}, 2, 2)
    first, second = server.bodies
    assert first.pop("seed") != second.pop("seed")
    assert first == second


async def test_the_last_misfit_is_shown_to_the_model(working: Any) -> None:
    """When no candidate does, the model sees its last answer and what is wrong with it."""
    answer, server = await asked(working, {"town": "Rome"}, {"city": "Rome"}, schema=CITY)
    assert answer.value == {"city": "Rome"}
    _, before, mend = server.bodies[-1]["messages"]
    assert before == {"role": "assistant", "content": '{"town":"Rome"}'}
    assert "'city' is a required property" in mend["content"]
    assert answer.costs.prompts == ("hash-of-asking", source_hash("mend"))


async def test_nothing_usable_keeps_everything_said(working: Any) -> None:
    """NoUsableAnswer holds the last reason, the usage and every response in order."""
    script = ["one", {"two": 2}, {"city": 3}]
    unusable, _ = await asked(working, *script, schema=CITY, candidates=2)
    assert unusable.reason is Reason.UNUSABLE_RESPONSE
    assert "$.city: 3 is not of type 'string'" in unusable.detail
    assert [text_of(raw) for raw in unusable.costs.raw] == ["one", '{"two":2}', '{"city":3}']
    assert unusable.costs.usage.requests == 3


async def test_empty_answers_are_misfits(working: Any) -> None:
    """An empty answer does not reach `read`, nor goes back as an empty turn; a text is stripped."""
    answer, server = await asked(working, "  ", "  Rome\n")
    assert answer.value == "Rome"
    assert server.bodies[-1]["messages"][1]["content"] == "(no answer)"


async def test_answers_that_were_cut_off_are_not_repaired(working: Any) -> None:
    """Half an answer would be half a value: it is a misfit that names the token limit."""
    script = [ScriptedReply('{"city": "Ro')] * 2
    unusable, _ = await asked(working, *script, schema=CITY, max_tokens=7)
    assert "cut off after 7 tokens" in unusable.detail


async def test_refused_requests_are_unusable(working: Any) -> None:
    """A refusal rejects the record, with the endpoint's words as the raw response."""
    unusable, _ = await asked(working, ScriptedFailure(400, body="too long"))
    assert (unusable.reason, unusable.costs.raw) == (Reason.REQUEST_REFUSED, ("too long",))
    assert "too long" in unusable.detail


@pytest.mark.parametrize("schema", [{"type": "city"}, {"pattern": "("}])
async def test_illegal_schemas_cost_nothing(working: Any, schema: Any) -> None:
    """A schema that cannot be used is found before anything is sent."""
    unusable, server = await asked(working, schema=schema)
    assert (unusable.reason, server.received) == (Reason.ILLEGAL_SCHEMA, 0)


async def test_remote_references_are_not_fetched(working: Any) -> None:
    """A reference to another document is reported, not followed."""
    async with working([{"city": "Rome"}]) as (job, server):
        schema = {"$ref": f"{server.base_url}/models"}
        with pytest.raises(NoUsableAnswer) as unusable:
            await ask(job.model, PROMPT, keep, seed=1, schema=schema)
        assert (unusable.value.reason, server.received) == (Reason.ILLEGAL_SCHEMA, 1)


async def test_an_endpoint_that_is_down_stops_the_run() -> None:
    """It never passes for an unusable answer."""

    async def down() -> Answer[str]:
        raise EndpointDown("nobody answers")

    with pytest.raises(EndpointDown):
        await settled(down())
