"""NousResearch's Hermes: tools, calls and results as JSON between tags.

The system turn holds `<tools>`, an assistant's turn any number of `<tool_call>`, the turn after it
a `<tool_response>` for each. The turns of hermes-function-calling-v1 are `from` and `value`; its
calls are often written as Python dicts, which are read and noted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats.audit.conversation import Conversation, RowCall, identity, readings
from toolloom.pipeline.formats.audit.reading import Reading, refused
from toolloom.pipeline.formats.audit.rows import ForeignRow
from toolloom.pipeline.formats.audit.sharegpt import calls, conversation, speaker
from toolloom.pipeline.formats.audit.values import opened, tagged
from toolloom.schemas import JsonObject, Reason

_KNOWN = {"id", "conversations", "messages", "conversation", "tools", "system"}


def read(path: Path) -> Iterator[Reading]:
    """Every row of a file of conversations."""
    return readings(path, _row)


def _row(value: JsonObject, row: ForeignRow) -> Reading:
    said = conversation(value)
    if isinstance(said, str):
        return refused(row, said)
    taken = Conversation("openai", row)
    taken.fields(value, _KNOWN)
    spoken = [speaker(turn) for turn in said]
    if value.get("system") and spoken[0][0] != "system":
        spoken.insert(0, ("system", "system", value["system"]))
    system = spoken[0][2] if spoken[0][0] == "system" else ""
    if not _offered(taken, system):
        taken.offer(value.get("tools"))
    for who, role, words in spoken:
        _turn(taken, who, role, words)
    return taken.reading(identity(value, row))


def _offered(taken: Conversation, system: Any) -> bool:
    """Offer the tools of the system turn; whether there are any that can be read."""
    inside = tagged(system, "tools")[1] if isinstance(system, str) else []
    for block in inside:  # the instruction may name the tags before it uses them
        tools, how = _list(block.strip())
        if tools:
            if how:
                taken.note(f"tools: the list {how}")
            taken.offer(tools)
            return True
    if any(block.strip() for block in inside):
        taken.note("tools: the list in <tools>, which cannot be read")
    return False


def _list(block: str) -> tuple[list[Any], str]:
    """Tools as one JSON list or one JSON object a line, and how they were read if not as JSON."""
    value, how = opened(block)
    if isinstance(value, list | dict):
        return value if isinstance(value, list) else [value], how
    found = [opened(part) for part in block.splitlines() if part.strip()]
    if not all(isinstance(tool, dict) for tool, _ in found):
        return [], ""
    return [tool for tool, _ in found], next((how for _, how in found if how), "")


def _turn(taken: Conversation, who: str, role: str, said: Any) -> None:
    answered = tagged(said, "tool_response")[1] if isinstance(said, str) else []
    if who in {"result", "function"} or (who == "user" and answered):
        _results(taken, said, answered)
    elif who == "system":
        taken.system(_without_tools(taken, said))
    elif who == "user":
        taken.user(said)
    elif who in {"assistant", "call"}:
        _assistant(taken, said)
    else:
        detail = f"a turn of the role `{role[:60]}`, which is left out"
        taken.fault(Reason.MALFORMED_DIALOGUE, detail)


def _without_tools(taken: Conversation, said: Any) -> Any:
    """The system turn without its list of tools, which the record holds as APIs."""
    if not isinstance(said, str) or not taken.tools.pool:
        return said
    return tagged(said, "tools")[0]


def _assistant(taken: Conversation, said: Any) -> None:
    """Words and calls. What is between tags and no call is a fault, and stays in the words."""
    if not isinstance(said, str):
        taken.assistant(said)
        return
    words, blocks = tagged(said, "tool_call")
    made: list[RowCall] = []
    wrong = ["a <tool_call> without an end"] if "<tool_call>" in words else []
    for block in blocks:
        found = calls(taken, block.strip())
        made += found
        if not found:
            words += f"<tool_call>{block}</tool_call>"
            wrong.append(f"a <tool_call> that is no call: {shown(block.strip())}")
        elif how := taken.mended(block.strip())[1]:
            taken.note(f"calls: text that {how}")
    taken.assistant(words, made)
    for detail in wrong:
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)


def _results(taken: Conversation, said: Any, answered: list[str]) -> None:
    if not answered:
        taken.results(said)
    for block in answered:
        value, how = opened(block.strip())
        if how:
            taken.note(f"results: text that {how}")
        if isinstance(value, dict) and "content" in value and {"name", "tool_call_id"} & {*value}:
            taken.result(value["content"], value.get("tool_call_id"), value.get("name"))
        else:
            taken.result(value)
