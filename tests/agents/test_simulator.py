from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support import toys

from toolloom.agents import simulator
from toolloom.pipeline.environments.environment import Executor
from toolloom.schemas import (
    Ability,
    Dialogue,
    Intention,
    PlannedFault,
    Query,
    Reason,
    Scenario,
)

NOW, NEXT = toys.api().function, toys.api(name="forecast").function
ANSWER = {"calls": [], "reply": "It is 7 °C."}
SEEN = {"response": {"celsius": 7}}


def ask(scenario: Scenario = Scenario.SINGLE, **changes: Any) -> Query:
    return toys.query(0, scenario=scenario, **changes)


def calls(*names: str, city: str = "Zürich") -> dict[str, Any]:
    return {"calls": [{"name": n, "arguments": {"city": city}} for n in names], "reply": ""}


async def play(
    working: Any, query: Query, *script: Any, executors: Sequence[Executor] = (), limit: int = 1024
) -> tuple[Any, Any]:
    """The dialogue, or its rejection, and the server that played the parts."""
    async with working(script, "simulator") as (job, server):
        outcome = await simulator.run(query, job, executors, toys.SEARCH, limit)
        (record,) = outcome.accepted or outcome.rejected
        return record, server


def executions(dialogue: Dialogue) -> list[Any]:
    return [m.execution for m in dialogue.messages if m.role == "tool"]


def roles(dialogue: Dialogue) -> str:
    return " ".join(m.role for m in dialogue.messages)


def observations(dialogue: Dialogue) -> list[Any]:
    return [m.observation() for m in dialogue.messages if m.role == "tool"]


async def test_a_dialogue_is_played_to_its_answer(working: Any) -> None:
    """Call, observation in its envelope, answer; all usage is booked on the dialogue."""
    dialogue, server = await play(working, ask(), calls(NOW), SEEN, ANSWER)
    assert roles(dialogue) == "system user assistant tool assistant"
    assert json.loads(dialogue.messages[3].content or "") == {**SEEN, "error": None}
    assert dialogue.messages[2].tool_calls[0].id == dialogue.messages[3].tool_call_id
    assert dialogue.provenance[0].requests == server.answered == 3


async def test_only_what_was_found_can_be_called(working: Any) -> None:
    """In the retrieve abilities a call without a search does not fit the schema of the act."""
    searching = {"calls": [{"name": "api_search", "arguments": {"keywords": "current weather"}}]}
    script = [calls(NOW), {**searching, "reply": ""}, calls(NOW), SEEN, ANSWER]
    dialogue, server = await play(working, ask(ability=Ability.RETRIEVE_CALL), *script)
    assert [c.function.name for _, c in dialogue.calls()] == ["api_search", NOW]
    assert observations(dialogue)[0].response[0] == toys.api().document()
    assert "$.calls[0]" in server.bodies[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("transient", "script", "errors"),
    [
        pytest.param(True, [calls(NOW), calls(NOW), SEEN, ANSWER], ["503", None], id="passing"),
        pytest.param(False, [calls(NOW), calls(NOW), ANSWER], ["503", "503"], id="lasting"),
    ],
)
async def test_a_planned_fault_shows_once_if_it_passes(
    working: Any, transient: bool, script: list[Any], errors: list[Any]
) -> None:
    """The model is not asked for it; where it lasts, every try of the call fails the same way."""
    fault = PlannedFault(call=0, error="503", transient=transient)
    dialogue, _ = await play(working, ask(Scenario.ERROR_RECOVERY, fault=fault), *script)
    assert [o.error for o in observations(dialogue)] == errors


async def test_the_user_goes_on_in_a_later_turn(working: Any) -> None:
    """After the answer the user says the values of the next turn; without them the ask is repeated."""
    later = Intention(api=toys.api(name="forecast").id, turn=1, arguments={"city": "Basel"})
    query = ask(Scenario.MULTI_TURN, intent=(*toys.query().intent, later))
    said = ["And later?", "And later in Basel?"]
    script = [calls(NOW), SEEN, ANSWER, *said, calls(NEXT, city="Basel"), SEEN, ANSWER]
    dialogue, server = await play(working, query, *script)
    assert [m.content for m in dialogue.messages if m.role == "user"][1:] == said[1:]
    assert "does not say city = Basel" in server.bodies[4]["messages"][-1]["content"]


async def test_the_user_tells_what_was_withheld_when_asked(working: Any) -> None:
    """A clarifying question is answered with the withheld value, once."""
    query = ask(Scenario.CLARIFICATION, withheld=("city",), text="Is it raining?")
    question = {"calls": [], "reply": "In which city?"}
    dialogue, server = await play(working, query, question, "In Zürich.", calls(NOW), SEEN, ANSWER)
    assert roles(dialogue) == "system user assistant user assistant tool assistant"
    assert "answers the question with:" in server.bodies[1]["messages"][-1]["content"]


async def test_an_assistant_that_never_ends_is_given_up(working: Any) -> None:
    """After a bounded number of acts the dialogue is rejected, as far as it came."""

    def script(body: Any) -> Any:
        acting = body["messages"][0]["content"].startswith("You play the assistant")
        return calls(NOW) if acting else SEEN

    async with working(script, "simulator") as (job, _):
        (rejected,) = (await simulator.run(ask(), job, [], toys.SEARCH)).rejected
    assert rejected.reason is Reason.MALFORMED_DIALOGUE
    assert len(rejected.record["messages"]) == 2 + 2 * simulator.STEPS
    assert len(rejected.raw) == rejected.provenance[0].requests == 2 * simulator.STEPS


async def test_a_response_off_its_schema_is_asked_for_again(working: Any) -> None:
    """The execution is held to the API's return schema; in the end the dialogue is rejected."""
    schema = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    returns = {**schema, "required": ["celsius"]}
    api = toys.api().model_copy(update={"returns": returns})
    warm = {"response": {"celsius": "warm"}}
    rejected, server = await play(working, ask(pool=(api,)), calls(NOW), warm, warm)
    assert rejected.reason is Reason.UNUSABLE_RESPONSE
    assert "'warm' is not of type 'number'" in server.bodies[2]["messages"][-1]["content"]
    assert len(rejected.raw) == 3


async def test_an_executed_call_asks_no_model(working: Any) -> None:
    """An API that an executor runs is executed; each observation says how it came about."""
    station = toys.Station(current={"celsius": 7})
    script = [calls(NOW, NEXT), SEEN, ANSWER]
    dialogue, server = await play(working, ask(), *script, executors=[station])
    assert [e.kind for e in executions(dialogue)] == ["executed", "simulated"]
    assert (executions(dialogue)[0].by, executions(dialogue)[1].by) == ("toy", "fake")
    assert station.ran == [("current", {"city": "Zürich"})]
    assert server.answered == 3


async def test_a_long_observation_is_compressed_and_says_so(working: Any) -> None:
    """What is over the token limit is shortened; the record tells how long it was."""
    station = toys.Station(current={"celsius": 7, "report": "rain and " * 200})
    dialogue, _ = await play(working, ask(), calls(NOW), ANSWER, executors=[station], limit=32)
    assert executions(dialogue)[0].whole_tokens > 400
    assert len(dialogue.messages[3].content or "") < 200
    assert observations(dialogue)[0].response["celsius"] == 7
