"""API-Bank's training rows (Lynx): `instruction`, `input`, `output`, with calls as text.

There is a row for each request of the assistant and one for each of its replies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from toolloom.pipeline.checks.text.call_text import write
from toolloom.pipeline.formats.export.base import (
    Arguments,
    Exported,
    NotRepresentable,
    arguments,
    envelope,
    given,
    spaced,
    spoken,
    system_of,
    text_of,
    words_beside_calls,
)
from toolloom.schemas import Api, FunctionCall, JsonObject, Message, Sample

TYPES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}
_REQUEST = (
    "Write the next API request of this dialogue as [ApiName(key1='value1', key2='value2', ...)]."
    "\nExpected output:\nAPI-Request: [ApiName(key1='value1', key2='value2', ...)]"
)
_SPEAKER = re.compile(r"\n\s*(?:User|AI|API-Request|Generate API Request|Generate AI Response):")
_REPLY = "Write the assistant's next reply in this dialogue.\nExpected output:\nAI: the reply"


def api_bank(sample: Sample, form: Arguments) -> Exported:
    said = spoken(sample.dialogue.messages)
    if any(_SPEAKER.search(message.content or "") for message in said if message.role != "tool"):
        raise NotRepresentable("words look like another speaker's line")
    described = [spaced(_described(api)) for api in given(sample)]
    lines: list[str] = []
    rows: list[tuple[str, JsonObject]] = []
    for place, message in enumerate(said):
        if message.role == "assistant":
            rows.append(("sft", _row(sample, [*described, *lines], message)))
        lines += _lines(message, said[place + 1 :])
    lost = ["what schemas say beyond type and description", *words_beside_calls(said)]
    return Exported(tuple(rows), tuple(lost if any(a.properties for a in given(sample)) else ()))


def kind_of(schema: Any) -> str:
    """A JSON type as API-Bank, and Python, call it."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    return TYPES.get(str(kind), "any")


def _described(api: Api) -> JsonObject:
    return {
        "name": api.function,
        "description": api.description,
        "input_parameters": _fields(api.properties, {*api.properties} - {*api.required}),
        "output_parameters": _fields(api.fields),
    }


def _fields(
    properties: dict[str, JsonObject], optional: set[str] | frozenset[str] = frozenset()
) -> JsonObject:
    """API-Bank has no list of what is required; what may be left out says so in its words."""
    return {
        name: {"type": kind_of(schema), "description": _about(schema, name in optional)}
        for name, schema in properties.items()
    }


def _about(schema: Any, optional: bool) -> str:
    told = text_of(schema.get("description", "")) if isinstance(schema, dict) else ""
    return f"{told} Optional.".lstrip() if optional else told


def _row(sample: Sample, lines: Sequence[str], message: Message) -> JsonObject:
    calling = bool(message.tool_calls)
    head = "\n".join(part for part in (_REQUEST if calling else _REPLY, system_of(sample)) if part)
    ask = "Generate API Request: " if calling else "Generate AI Response: "
    output = f"API-Request: {_written(message)}" if calling else f"AI: {message.content or ''}"
    return {
        "instruction": f"{head}\nAPI descriptions:\n",
        "input": "\n".join([*lines, ask]),
        "output": output,
    }


def _written(message: Message) -> str:
    made = [FunctionCall(name=c.function.name, arguments=arguments(c)) for c in message.tool_calls]
    return write(made)


def _lines(message: Message, later: Sequence[Message]) -> list[str]:
    """A message as lines of the dialogue; a request stands with its result behind an arrow."""
    if message.role == "user":
        return [f"User: {message.content or ''}"]
    if message.role == "tool":
        return []
    if not message.tool_calls:
        return [f"AI: {message.content or ''}"]
    results = {m.tool_call_id: m for m in later if m.role == "tool"}
    lines = []
    for call in message.tool_calls:
        if call.id not in results:
            raise NotRepresentable("a call has no result")
        request = write([FunctionCall(name=call.function.name, arguments=arguments(call))])
        seen = envelope(results[call.id])
        shown = spaced({"error": seen.error} if seen.error else seen.response)
        lines.append(f"API-Request: {request}->{shown}")
    return lines
