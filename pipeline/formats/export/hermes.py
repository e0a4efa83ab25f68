"""NousResearch's Hermes format: calls, tools and results as JSON between tags."""

from __future__ import annotations

from toolloom.pipeline.formats.export.base import (
    Arguments,
    Exported,
    NotRepresentable,
    calls,
    envelope,
    given,
    spaced,
    spoken,
    system_of,
    tools,
    turns,
)
from toolloom.schemas import Message, Sample

SPEAKERS = {"user": "human", "assistant": "gpt", "tool": "tool"}
_HOW = (
    "Functions you may call are described as JSON within <tools></tools>. For each call write an "
    "object with `name` and `arguments` within <tool_call></tool_call>; what it returns comes "
    "within <tool_response></tool_response>."
)


def instructed(system: str, sample: Sample) -> str:
    """The system turn with the tools in it."""
    parts = [system] if system else []
    if given(sample):
        parts += [_HOW, f"<tools>\n{closed(tools(sample))}\n</tools>"]
    return "\n\n".join(parts)


def closed(value: object) -> str:
    """JSON in which nothing looks like a tag: JSON may write `<` as an escape."""
    return spaced(value).replace("<tool", "\\u003ctool").replace("</tool", "\\u003c/tool")


def call_text(message: Message) -> str:
    """A turn's calls, each between tags, after its words. Raises Unfit."""
    if "<tool_call>" in (message.content or ""):
        raise NotRepresentable("words look like a call")
    made = [f"<tool_call>\n{closed(call)}\n</tool_call>" for call in calls(message)]
    return "\n".join([message.content, *made] if message.content else made)


def _response(message: Message) -> str:
    observed = envelope(message).model_dump(mode="json")
    answer = {"name": message.name, "content": observed}
    return f"<tool_response>\n{closed(answer)}\n</tool_response>"


def _value(group: list[Message]) -> str:
    if group[0].role == "tool":
        return "\n".join(map(_response, group))
    return call_text(group[0]) if group[0].role == "assistant" else group[0].content or ""


def hermes(sample: Sample, form: Arguments) -> Exported:
    said = spoken(sample.dialogue.messages)
    turned = [{"from": SPEAKERS[g[0].role], "value": _value(g)} for g in turns(said)]
    system = {"from": "system", "value": instructed(system_of(sample), sample)}
    row = {
        "id": sample.id,
        "conversations": [system, *turned],
        "tools": spaced(tools(sample)),
    }
    return Exported((("sft", row),))
