"""ShareGPT's conversations: as LLaMA-Factory extends them, and NousResearch's Hermes.

LLaMA-Factory (its data/README.md): turns of `from` and `value`, or of `role` and `content` where
its tags say so; a call is a turn of its own that holds JSON, one object or a list; `tools` is JSON
text, `system` may be a column. Written, user and observation turns alternate with the assistant's.

Hermes: tools, calls and results are JSON between tags. The system turn holds `<tools>`, an
assistant's turn any number of `<tool_call>`, the turn after it a `<tool_response>` for each. Calls
of hermes-function-calling-v1 are often written as Python dicts, which are read and noted.
"""

from __future__ import annotations

import json
from typing import Any

from toolloom.pipeline.checks.transcript import shown
from toolloom.pipeline.formats import base
from toolloom.pipeline.formats.conversation import (
    Conversation,
    Reading,
    RowCall,
    opened,
    refused,
    tagged,
    turns_in,
)
from toolloom.pipeline.formats.import_log import line
from toolloom.pipeline.formats.rows import ForeignRow
from toolloom.schemas import JsonObject, Message, Reason, Sample

_COLUMNS = ("conversations", "messages", "conversation")
_KNOWN = {*_COLUMNS, "id", "system", "tools", "chosen", "rejected"}
_ROLES = {
    **dict.fromkeys(("system",), "system"),
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "model", "bot"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call", "function-call"), "call"),
    **dict.fromkeys(
        ("observation", "tool", "tool_response", "function_response", "function-response"), "result"
    ),
    "function": "function",  # a call in one tool's data, a result in another's
}


def is_conversation(value: JsonObject) -> bool:
    """Whether a row is one of these forms, and not of chat messages with calls of their own."""
    if value.get("conversations") is not None or value.get("conversation") is not None:
        return True
    turns = opened(value.get("messages"))[0]
    first = turns[0] if isinstance(turns, list) and turns else None
    return isinstance(first, dict) and "from" in first


def conversation_row(value: JsonObject, row: ForeignRow) -> Reading:
    """A row of turns, with calls as turns of their own, or between tags; the better answer of a
    preference is the last turn."""
    column = next(key for key in _COLUMNS if value.get(key) is not None)
    turned = turns_in(value[column])
    if isinstance(turned, str):
        return refused(row, f"its `{column}`: {turned}")
    if any("\nAction Input:" in str(turn.get("value")) for turn in turned):
        return refused(row, "its calls stand in words (`Action Input:`), as ToolLLaMA has them")
    if isinstance(chosen := opened(value.get("chosen"))[0], dict):
        turned = [*turned, chosen]
    taken = Conversation("openai", row)
    taken.fields(value, _KNOWN)
    said: list[tuple[str, str, Any]] = []  # who speaks, the role's own name, what is said
    for turn in turned:
        called = line(turn.get("from", turn.get("role")))
        who = _ROLES.get(called.lower(), "")
        said.append((who, called, turn.get("value", turn.get("content"))))
    if value.get("system") and said[0][0] == "system":  # LLaMA-Factory: the turn wins
        taken.note("field `system`: there is a system turn")
    elif value.get("system"):
        said.insert(0, ("system", "system", value["system"]))
    if said[0][0] != "system" or not _listed_tools(taken, said[0][2]):
        taken.offer(value.get("tools"))
    for who, role, words in said:
        answered = tagged(words, "tool_response")[1] if isinstance(words, str) else []
        if who == "function":
            who = "call" if calls_in(taken, words) else "result"
        if answered and who in ("result", "user"):
            for block in answered:
                _answer(taken, block.strip())
        elif who == "result":
            taken.results(words)
        elif who == "system":
            in_record = isinstance(words, str) and taken.pool  # which holds them as APIs
            taken.system(tagged(words, "tools")[0] if in_record else words)
        elif who == "user":
            taken.user(words)
        elif isinstance(words, str) and "<tool_call>" in words and who in ("assistant", "call"):
            _tagged_calls(taken, words)
        elif who == "assistant":
            taken.assistant(words)
        elif who == "call":
            _bare_calls(taken, words)
        else:
            taken.left_out("turn", role)
    if value.get("rejected"):
        taken.note("field `rejected`: the worse answer is not judged")
    return taken.reading(line(value.get("id")))


def _bare_calls(taken: Conversation, said: Any) -> None:
    """A turn that is nothing but calls, but for a thought before them."""
    thought, rest = "", said
    if isinstance(said, str) and "</think>" in said:
        rest, thoughts = tagged(said, "think")
        thought = "".join(f"<think>{one}</think>" for one in thoughts)
    found = calls_in(taken, rest)
    taken.assistant(thought if found else said, found)
    if not found:
        detail = "a turn of calls that is not JSON of a name and arguments"
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)


def calls_in(taken: Conversation, said: Any) -> list[RowCall]:
    """The calls of a JSON object or list with a name and arguments each; none if one has none."""
    value, how = taken.mended(said)
    found = []
    for entry in value if isinstance(value, list) else [value]:
        call = RowCall.of(opened(entry)[0], bare=True)
        if call is None:
            return []
        found.append(call)
    taken.noted((found, how), "calls: text that")
    return found


def _listed_tools(taken: Conversation, system: Any) -> bool:
    """Offer the tools in <tools>, one JSON list or one object a line; whether any can be read."""
    inside = tagged(system, "tools")[1] if isinstance(system, str) else []
    for block in inside:  # the instruction may name the tags before it uses them
        value, how = opened(block.strip())
        tools = value if isinstance(value, list) else [value]
        if isinstance(value, str):
            found = [opened(part) for part in value.splitlines() if part.strip()]
            tools, how = [tool for tool, _ in found], next((h for _, h in found if h), "")
        if tools and all(isinstance(tool, dict) for tool in tools):
            taken.offer(taken.noted((tools, how), "tools: the list"))
            return True
    if any(block.strip() for block in inside):
        taken.note("tools: the list in <tools>, which cannot be read")
    return False


def _tagged_calls(taken: Conversation, said: str) -> None:
    """Words and calls. What is between tags and no call is a fault, and stays in the words."""
    words, blocks = tagged(said, "tool_call")
    made: list[RowCall] = []
    wrong = ["a <tool_call> without an end"] if "<tool_call>" in words else []
    for block in blocks:
        found = calls_in(taken, block.strip())
        made += found
        if not found:
            words += f"<tool_call>{block}</tool_call>"
            wrong.append(f"a <tool_call> that is not a call: {shown(block.strip())}")
    taken.assistant(words, made)
    for detail in wrong:
        taken.fault(Reason.FALSE_API_CALL_FORMAT, detail)


def _answer(taken: Conversation, block: str) -> None:
    value = taken.noted(opened(block), "results: text that")
    if isinstance(value, dict) and "content" in value and {"name", "tool_call_id"} & {*value}:
        taken.result(value["content"], value.get("tool_call_id"), value.get("name"))
    else:
        taken.result(value)


SPEAKERS = {"user": "human", "assistant": "gpt", "tool": "tool"}
_HOW = (
    "Functions you may call are described as JSON within <tools></tools>. For each call write an "
    "object with `name` and `arguments` within <tool_call></tool_call>; what it returns comes "
    "within <tool_response></tool_response>."
)


def instructed(system: str, sample: Sample) -> str:
    """The system turn with the tools in it."""
    parts = [system] if system else []
    if base.given(sample):
        parts += [_HOW, f"<tools>\n{closed(base.tools(sample))}\n</tools>"]
    return "\n\n".join(parts)


def closed(value: object) -> str:
    """JSON in which nothing looks like a tag: JSON may write `<` as an escape."""
    return base.spaced(value).replace("<tool", "\\u003ctool").replace("</tool", "\\u003c/tool")


def call_text(message: Message) -> str:
    """A turn's calls, each between tags, after its words. Raises NotRepresentable."""
    if "<tool_call>" in (message.content or ""):
        raise base.NotRepresentable("words look like a call")
    made = [f"<tool_call>\n{closed(call)}\n</tool_call>" for call in base.calls(message)]
    return "\n".join([message.content, *made] if message.content else made)


def _value(group: list[Message]) -> str:
    first = group[0]
    if first.role == "assistant":
        return call_text(first)
    if first.role != "tool":
        return first.content or ""
    seen = [{"name": m.name, "content": base.envelope(m).model_dump(mode="json")} for m in group]
    return "\n".join(f"<tool_response>\n{closed(one)}\n</tool_response>" for one in seen)


def hermes(sample: Sample, form: base.Arguments) -> base.Exported:
    said = base.spoken(sample.dialogue.messages)
    turned = [{"from": SPEAKERS[g[0].role], "value": _value(g)} for g in base.turns(said)]
    turned.insert(0, {"from": "system", "value": instructed(base.system_of(sample), sample)})
    row = {"id": sample.id, "conversations": turned, "tools": base.spaced(base.tools(sample))}
    return base.Exported((("sft", row),))


COLUMNS = {"messages": "conversations", "system": "system", "tools": "tools"}


def llamafactory(sample: Sample, form: base.Arguments) -> base.Exported:
    said = base.spoken(sample.dialogue.messages)
    described = [api.as_tool()["function"] for api in base.given(sample)]
    row = {
        "conversations": [_written_turn(group) for group in base.turns(said)],
        "system": base.system_of(sample),
        "tools": base.spaced(described) if described else "",
    }
    return base.Exported((("sft", row),), base.words_beside_calls(said))


def _written_turn(group: list[Message]) -> JsonObject:
    """One turn; the results of one turn's calls are one observation, a list in their order."""
    first = group[0]
    if first.role == "tool":
        seen = [message.content or "" for message in group]
        value = seen[0] if len(seen) == 1 else f"[{', '.join(seen)}]"
        return {"from": "observation", "value": value}
    if first.tool_calls:
        made = base.calls(first)
        return {"from": "function_call", "value": base.spaced(made[0] if len(made) == 1 else made)}
    return {"from": "human" if first.role == "user" else "gpt", "value": first.content or ""}


def dataset_info(place: base.ExportPlace) -> dict[str, str]:
    """The entries for LLaMA-Factory's `dataset_info.json`, one for each split."""
    entries = {
        f"{place.dataset}_{split}": {
            "file_name": f"{split}.jsonl",
            "formatting": "sharegpt",
            "columns": COLUMNS,
        }
        for split in place.splits
    }
    return {"dataset_info.json": json.dumps(entries, indent=2, ensure_ascii=False) + "\n"}
