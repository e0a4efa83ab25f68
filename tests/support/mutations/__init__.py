"""Ways to change a dialogue, for mutations that spoil it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from support.conversations import called
from toolloom.schemas import Dialogue, Message, ToolCall

Mutation = Callable[[Dialogue], Iterator[Dialogue]]


def with_messages(dialogue: Dialogue, messages: list[Message]) -> Dialogue:
    return dialogue.model_copy(update={"messages": tuple(messages)})


def with_message(dialogue: Dialogue, place: int, **changes: Any) -> Dialogue:
    messages = list(dialogue.messages)
    messages[place] = messages[place].model_copy(update=changes)
    return with_messages(dialogue, messages)


def with_answer(dialogue: Dialogue, text: str) -> Dialogue:
    return with_message(dialogue, len(dialogue.messages) - 1, content=text)


def with_request(dialogue: Dialogue, text: str) -> Dialogue:
    query = dialogue.query.model_copy(update={"text": text})
    return with_message(dialogue.model_copy(update={"query": query}), 1, content=text)


def api_calls(dialogue: Dialogue) -> list[tuple[int, ToolCall]]:
    """Calls other than API Search whose arguments are objects."""
    return [(i, c) for i, c in dialogue.calls() if c.function.name != "api_search"]


def with_call(dialogue: Dialogue, call: ToolCall, **changes: Any) -> Dialogue:
    """The call with a changed name or arguments, and its observation's name to match."""
    changed = call.model_copy(update={"function": call.function.model_copy(update=changes)})
    messages = []
    for message in dialogue.messages:
        calls = tuple(changed if c.id == call.id else c for c in message.tool_calls)
        update: dict[str, Any] = {"tool_calls": calls}
        if message.tool_call_id == call.id:
            update["name"] = changed.function.name
        messages.append(message.model_copy(update=update))
    return with_messages(dialogue, messages)


def with_argument(dialogue: Dialogue, call: ToolCall, name: str, value: Any) -> Dialogue:
    return with_call(dialogue, call, arguments={**call.function.arguments, name: value})


def with_observation(dialogue: Dialogue, call: ToolCall, **content: Any) -> Dialogue:
    place, _ = dialogue.results()[call.id]
    return with_message(dialogue, place, content=json.dumps({"response": None, **content}))


def response_of(dialogue: Dialogue, call: ToolCall) -> Any:
    return dialogue.results()[call.id][1].observation().response


def schemas_of(dialogue: Dialogue, call: ToolCall) -> dict[str, Any]:
    return next(a.properties for a in dialogue.query.pool if a.function == call.function.name)


def block(dialogue: Dialogue, place: int) -> list[Message]:
    """A message with calls and the observations that answer it."""
    return list(dialogue.messages[place : place + 1 + len(dialogue.messages[place].tool_calls)])


def without(dialogue: Dialogue, places: set[int]) -> Dialogue:
    return with_messages(dialogue, [m for i, m in enumerate(dialogue.messages) if i not in places])


def made_call(name: str, arguments: dict[str, Any], response: Any) -> list[Message]:
    return called((name, arguments, response), first=99)


def given(dialogue: Dialogue, kind: type) -> Iterator[tuple[ToolCall, str, Any]]:
    """Arguments of a kind that the intent fixes."""
    for _, call in api_calls(dialogue):
        for name, value in call.function.arguments.items():
            fixed = any(name in i.arguments for i in dialogue.query.intent)
            if type(value) is kind and fixed:
                yield call, name, value
