"""ShareGPT's conversations as LLaMA-Factory extends them (its data/README.md).

Turns of `from` and `value`, or of `role` and `content` where its tags say so; a call is a turn of
its own that holds JSON, one object or a list; `tools` is JSON text, `system` may be a column.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.audit.conversation import Conversation, RowCall, identity, readings
from toolloom.pipeline.formats.audit.reading import Reading, refused
from toolloom.pipeline.formats.audit.rows import ForeignRow
from toolloom.pipeline.formats.audit.values import opened, tagged, turns
from toolloom.pipeline.formats.importers.intake import line
from toolloom.schemas import JsonObject, Reason

_COLUMNS = ("conversations", "messages", "conversation")
_KNOWN = {*_COLUMNS, "id", "system", "tools", "chosen", "rejected"}
ROLES = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call", "function-call"), "call"),
    **dict.fromkeys(
        ("observation", "tool", "tool_response", "function_response", "function-response"), "result"
    ),
    "function": "function",  # a call in one tool's data, a result in another's
}


def read(path: Path) -> Iterator[Reading]:
    """Every row of a file of conversations."""
    return readings(path, _row)


def _row(value: JsonObject, row: ForeignRow) -> Reading:
    said = conversation(value)
    if isinstance(said, str):
        return refused(row, said)
    taken = Conversation("openai", row)
    taken.fields(value, _KNOWN)
    taken.offer(value.get("tools"))
    first = speaker(said[0])[0]
    if value.get("system") and first == "system":  # LLaMA-Factory: the turn wins over the column
        taken.note("field `system`: there is a system turn")
    elif value.get("system"):
        taken.system(value["system"])
    for turn in said:
        _turn(taken, turn)
    if value.get("rejected"):
        taken.note("field `rejected`: the worse answer is not judged")
    return taken.reading(identity(value, row))


def conversation(value: JsonObject) -> list[JsonObject] | str:
    """The turns of a row, the better answer of a preference included, or why there are none."""
    column = next((key for key in _COLUMNS if value.get(key) is not None), None)
    if column is None:
        return f"it has no column `{'`, `'.join(_COLUMNS)}`"
    said = turns(value[column])
    if isinstance(said, str):
        return f"its `{column}`: {said}"
    chosen = opened(value.get("chosen"))[0]
    return [*said, chosen] if isinstance(chosen, dict) else said


def speaker(turn: JsonObject) -> tuple[str, str, Any]:
    """(who speaks, as `ROLES` names it or "", the role's own name, what is said)."""
    role = turn.get("from", turn.get("role"))
    called = line(role)
    return ROLES.get(called.lower(), ""), called, turn.get("value", turn.get("content"))


def _turn(taken: Conversation, turn: JsonObject) -> None:
    who, role, said = speaker(turn)
    if who == "function":
        who = "call" if calls(taken, said) else "result"
    if who == "system":
        taken.system(said)
    elif who == "user":
        taken.user(said)
    elif who == "assistant":
        taken.assistant(said)
    elif who == "call":
        _calls(taken, said)
    elif who == "result":
        taken.results(said)
    else:
        detail = f"a turn of the role `{role[:60]}`, which is left out"
        taken.fault(Reason.MALFORMED_DIALOGUE, detail)


def _calls(taken: Conversation, said: Any) -> None:
    """A turn that is to be nothing but calls; a thought before them is allowed."""
    thought, rest = "", said
    if isinstance(said, str) and "</think>" in said:
        rest, thoughts = tagged(said, "think")
        thought = "".join(f"<think>{one}</think>" for one in thoughts)
    found = calls(taken, rest)
    taken.assistant(thought if found else said, found)
    if not found:
        detail = "a turn of calls that is no JSON of a name and arguments"
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)
    elif how := taken.mended(rest)[1]:
        taken.note(f"calls: text that {how}")


def calls(taken: Conversation, said: Any) -> list[RowCall]:
    """The calls of a JSON object or list with a name and arguments each; none if one has none."""
    value = taken.mended(said)[0]
    found = []
    for entry in value if isinstance(value, list) else [value]:
        entry = opened(entry)[0]
        inner = entry.get("function", entry) if isinstance(entry, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            return []
        if not {"arguments", "parameters"} & inner.keys():
            return []
        given = entry.get("id")
        asked = inner.get("arguments", inner.get("parameters"))
        found.append(RowCall(inner["name"], asked, given if isinstance(given, str) else ""))
    return found
