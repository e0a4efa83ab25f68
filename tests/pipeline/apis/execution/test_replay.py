"""Whether executed calls can be repeated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from toolloom.pipeline.apis.execution.replay import replay
from toolloom.pipeline.apis.execution.session import Executions
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Dialogue,
    Execution,
    FunctionCall,
    Message,
    Query,
    Reason,
    Scenario,
    ToolCall,
)

MakeTool = Callable[..., Api]
MakeSource = Callable[..., ApiSource]


async def played(workshop: Executions, *calls: tuple[Api, dict[str, Any]]) -> Dialogue:
    """A dialogue of these calls, each executed."""
    pool = tuple({api.function: api for api, _ in calls}.values())
    query = Query(
        id="q1",
        ability=Ability.CALL,
        scenario=Scenario.SINGLE,
        now=dt.datetime(2026, 3, 2, 9, 30),
        pool=pool,
        intent=(),
        text="Look into the shelf.",
    )
    messages = [Message(role="user", content=query.text)]
    async with workshop.session("q1") as session:
        for number, (api, arguments) in enumerate(calls):
            name = f"call_{number}"
            asked = FunctionCall(name=api.function, arguments=arguments)
            messages.append(
                Message(role="assistant", tool_calls=(ToolCall(id=name, function=asked),))
            )
            executed = await session.run(api, arguments)
            messages.append(
                Message(
                    role="tool",
                    content=executed.observation.model_dump_json(),
                    tool_call_id=name,
                    name=api.function,
                    execution=executed.execution,
                )
            )
    return Dialogue(query=query, messages=tuple(messages))


async def test_calls_that_can_be_repeated_give_no_finding(
    shelf: MakeSource, tool: MakeTool
) -> None:
    """State that calls build up is built up again; failures repeat as well."""
    workshop = Executions([shelf()], None, 0)
    calls = [(tool("count"), {}), (tool("count"), {}), (tool("fail"), {})]
    assert await replay(await played(workshop, *calls), workshop) == ()


async def test_a_result_of_chance_is_found(shelf: MakeSource, tool: MakeTool) -> None:
    """The finding names the message, and both results."""
    workshop = Executions([shelf()], None, 0)
    dialogue = await played(workshop, (tool("count"), {}), (tool("roll"), {}))
    (finding,) = await replay(dialogue, workshop)
    assert (finding.check, finding.reason) == ("repeated_execution", Reason.NOT_REPEATABLE)
    assert finding.turn == 4
    assert f"roll returned {dialogue.messages[4].observation().response!r}, then".replace(
        "'", '"'
    ) in (finding.detail)


async def test_a_result_that_may_differ_is_let_be(shelf: MakeSource, tool: MakeTool) -> None:
    """What is marked as not repeatable may differ, and the calls after it still count."""
    workshop = Executions([shelf()], None, 0)
    marked = tool("roll", repeatable=False)
    dialogue = await played(workshop, (marked, {}), (tool("count"), {}), (marked, {}))
    assert await replay(dialogue, workshop) == ()


async def test_what_was_played_is_not_executed(
    shelf: MakeSource, tool: MakeTool, starts: Callable[[], int]
) -> None:
    """A dialogue without executed calls starts nothing."""
    workshop = Executions([shelf(environment=("STARTS",))], None, 0)
    dialogue = await played(workshop, (tool("count"), {}))
    simulated = [
        m.model_copy(update={"execution": m.execution and Execution(kind="simulated")})
        for m in dialogue.messages
    ]
    changed = dialogue.model_copy(update={"messages": tuple(simulated)})
    assert await replay(changed, workshop) == ()
    assert starts() == 1
