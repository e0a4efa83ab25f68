"""ToolLLaMA's training rows: a dialogue up to one action, as Thought, Action and Action Input.

A dialogue ends with a call of `Finish`; an assistant that speaks in between is not foreseen.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    NotRepresentable,
    arguments,
    envelope,
    first_task,
    given,
    spaced,
    spoken,
    system_of,
    words_beside_calls,
)
from toolloom.schemas import Api, JsonObject, Message, Sample

FINISH: JsonObject = {
    "name": "Finish",
    "description": "End the task: give the final answer, or give up and start again.",
    "parameters": {
        "type": "object",
        "properties": {
            "return_type": {"type": "string", "enum": ["give_answer", "give_up_and_restart"]},
            "final_answer": {"type": "string", "description": "The answer the user reads."},
        },
        "required": ["return_type"],
    },
}
_HOW = (
    "Solve the task with the functions below. In each step write a short thought and one call, "
    "in this form:\nThought:\nAction:\nAction Input:\nThen you see what it returns. When the "
    "task is done, or cannot be done, call Finish."
)


def toolllama(sample: Sample, form: Arguments) -> Exported:
    said = spoken(sample.dialogue.messages)
    first, later = first_task(said)
    if later and not any(m.tool_calls for m in first):
        raise NotRepresentable("the assistant asks before it calls")
    functions = [_function(api) for api in given(sample)]
    parts = [system_of(sample), _HOW, f"You have access to these functions: {[*functions, FINISH]}"]
    system = {"from": "system", "value": "\n\n".join(part for part in parts if part)}
    turned = [system, {"from": "user", "value": f"\n{first[0].content or ''}\nBegin!\n"}]
    rows: list[tuple[str, JsonObject]] = []
    for turn in _steps(first[1:]):
        turned = [*turned, turn]
        if turn["from"] == "assistant":
            step = {"id": f"Step {len(turned) - 1}: {first[0].content}", "conversations": turned}
            rows.append(("sft", step))
    lost = ["the user's later turns"] if later else []
    if any(len(m.tool_calls) > 1 for m in first):
        lost.append("that calls are made at once")
    return Exported(tuple(rows), (*lost, *words_beside_calls(first)))


def _function(api: Api) -> JsonObject:
    optional = [name for name in api.properties if name not in api.required]
    parameters = {**api.parameters, "required": list(api.required), "optional": optional}
    return {"name": api.function, "description": api.description, "parameters": parameters}


def _steps(messages: list[Message]) -> Iterator[JsonObject]:
    """Action and result in turn; calls that are made at once follow one another."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            yield _act(call.function.name, arguments(call))
            if call.id not in results:
                raise NotRepresentable("a call has no result")
            seen = envelope(results[call.id])
            yield {
                "from": "function",
                "value": spaced({"error": seen.error or "", "response": seen.response}),
            }
        if message.role == "assistant" and not message.tool_calls:
            ending = {"return_type": "give_answer", "final_answer": message.content or ""}
            yield _act("Finish", ending)


def _act(name: str, values: JsonObject) -> JsonObject:
    value = f"\nThought: \nAction: {name}\nAction Input: {spaced(values)}"
    return {"from": "assistant", "value": value}
