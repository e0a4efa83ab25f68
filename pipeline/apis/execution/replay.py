"""Whether a dialogue's calls can be repeated: each is executed again, from a fresh state."""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.apis.execution.executor import Executed
from toolloom.pipeline.apis.execution.session import Executions
from toolloom.schemas import (
    Api,
    Dialogue,
    Finding,
    JsonObject,
    Message,
    Observation,
    Reason,
    canonical,
)

SHOWN = 160  # characters of a result in a finding


async def replay(dialogue: Dialogue, workshop: Executions) -> tuple[Finding, ...]:
    """A finding for each executed call whose result differs this time, and should not.

    A call that the clock or chance decides is made again too, as later ones may depend on it.
    """
    calls = [c for c in _executed(dialogue) if workshop.executes(c[1])]
    if not calls:
        return ()
    found = []
    async with workshop.session(dialogue.id, attempt="replay") as session:
        for turn, api, arguments in calls:
            message = dialogue.messages[turn]
            again = await session.run(api, arguments)
            if api.repeatable and not _same(message, again):
                found.append(_finding(turn, message, again))
    return tuple(found)


def _executed(dialogue: Dialogue) -> Iterator[tuple[int, Api, JsonObject]]:
    """The index of each executed observation, with the API and the arguments of its call."""
    calls = {call.id: call.function for _, call in dialogue.calls()}
    apis = {api.function: api for api in dialogue.query.pool}
    for turn, message in enumerate(dialogue.messages):
        if message.execution is None or message.execution.kind != "executed":
            continue
        call = calls.get(message.tool_call_id or "")
        if call is not None and call.name in apis:
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            yield turn, apis[call.name], arguments


def _same(message: Message, again: Executed) -> bool:
    return message.execution is not None and message.execution.digest == again.execution.digest


def _finding(turn: int, message: Message, again: Executed) -> Finding:
    first, then = _shown(message.observation()), _shown(again.observation)
    return Finding(
        check="repeated_execution",
        reason=Reason.NOT_REPEATABLE,
        turn=turn,
        detail=f"{message.name} returned {first}, then {then} from the same state.",
    )


def _shown(seen: Observation) -> str:
    text = f"the error «{seen.error}»" if seen.error is not None else canonical(seen.response)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
