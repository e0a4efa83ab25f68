"""Chat messages with calls beside the words: TRL, OpenAI, Axolotl and verl.

TRL (dataset formats, tool calling) takes arguments as objects or JSON text, results by name and
tools as a list or JSON text, and leaves out what is null, since Arrow pads objects with null.
OpenAI (fine-tuning with tools) takes arguments as text, and results by the id of their call; the
older `functions` and `function_call` have neither ids nor several calls in a message.

Written, a turn with calls gets an empty `content`: of the chat templates TRL ships, DeepSeek's and
Phi's stop without the key, GPT-OSS's and LFM's stop at null, and all of them take an empty text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportPlace,
    arguments,
    calls,
    number_of,
    spaced,
    system_of,
    tools,
)
from toolloom.pipeline.formats.conversation import (
    Conversation,
    RowCall,
    identity,
    opened,
    readings,
    turns_in,
)
from toolloom.pipeline.formats.files import ForeignRow
from toolloom.pipeline.formats.intake import line
from toolloom.pipeline.formats.reading import Reading, refused
from toolloom.pipeline.formats.sharegpt import call_text, instructed
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import JsonObject, Message, Reason, Sample

_ANSWERS = ("completion", "chosen", "rejected")
_TRL = {"id", "messages", "prompt", *_ANSWERS, "label", "tools"}
_OPENAI = {"id", "messages", "tools", "functions", "parallel_tool_calls"}
_PREFERENCE = {"input", "preferred_output", "non_preferred_output"}
_MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id", "function_call"}


def _trl(value: JsonObject, row: ForeignRow) -> Reading:
    said = _columns(value)
    if isinstance(said, str):
        return refused(row, said)
    taken = Conversation("openai", row)
    taken.fields(value, _TRL)
    if value.get("rejected"):
        taken.note("field `rejected`: the worse answer is not judged")
    if value.get("label") is False:
        taken.note("field `label`: false, so the completion is meant to be the worse one")
    tools = opened(value.get("tools"))[0]
    taken.offer(_without_null([opened(t)[0] for t in tools] if isinstance(tools, list) else tools))
    _converse(taken, said, strict=False)
    return taken.reading(identity(value, row))


def _columns(value: JsonObject) -> list[JsonObject] | str:
    """The messages of a row, from whichever columns it has, or why there are none."""
    if value.get("messages") is not None:
        return turns_in(value["messages"])
    found: list[JsonObject] = []
    answer = next((key for key in _ANSWERS if value.get(key) is not None), None)
    for key in [key for key in ("prompt", answer) if key and value.get(key) is not None]:
        if isinstance(value[key], str) and isinstance(opened(value[key])[0], str):
            return f"its `{key}` is text: only rows of messages hold calls that can be told apart"
        part = turns_in(value[key])
        if isinstance(part, str):
            return f"its `{key}`: {part}"
        found += part
    if found:
        return found
    if "conversations" in value:
        return "it has `conversations`, which is another form: --format sharegpt or hermes"
    return "it has neither `messages` nor `prompt` with `completion` or `chosen`"


def _openai(value: JsonObject, row: ForeignRow) -> Reading:
    given, preferred = value.get("input"), value.get("preferred_output")
    if isinstance(given, dict) and isinstance(preferred, list):  # preference fine-tuning
        asked = given.get("messages")
        rest = {key: part for key, part in value.items() if key not in _PREFERENCE}
        value = {
            **rest,
            **given,
            "messages": [*(asked if isinstance(asked, list) else []), *preferred],
        }
    said = turns_in(value.get("messages"))
    if isinstance(said, str):
        return refused(row, f"its `messages`: {said}")
    taken = Conversation("openai", row)
    taken.fields(value, _OPENAI)
    if isinstance(row.value, dict) and row.value.get("non_preferred_output"):
        taken.note("field `non_preferred_output`: the worse answer is not judged")
    taken.offer(value.get("tools"))
    taken.offer(value.get("functions"))
    _converse(taken, said, strict=True)
    if value.get("parallel_tool_calls") is False and any(
        isinstance(made := turn.get("tool_calls"), list) and len(made) > 1 for turn in said
    ):
        detail = "`parallel_tool_calls` is false, and a message has several calls"
        taken.fault(Reason.MALFORMED_DIALOGUE, detail)
    return taken.reading(identity(value, row))


trl_dialogues = partial(readings, take=_trl)
"""Rows of `messages`, `prompt` and `completion`, or `prompt`, `chosen` and `rejected`."""
openai_dialogues = partial(readings, take=_openai)
"""Rows of a fine-tuning file."""


def _converse(taken: Conversation, said: list[JsonObject], strict: bool) -> None:
    """Take all messages. `strict`: what OpenAI refuses is a fault."""
    for turn in said:
        role, content = turn.get("role"), turn.get("content")
        for key in [key for key in turn if key not in _MESSAGE]:
            if turn[key] not in (None, "", [], {}):
                taken.note(f"messages: field `{line(key)[:60]}`")
        if role in ("system", "developer"):
            taken.system(content)
        elif role == "user":
            taken.user(content)
        elif role == "assistant":
            _assistant(taken, turn, strict)
        elif role == "tool":
            call_id = turn.get("tool_call_id")
            taken.result(content, call_id, turn.get("name"))
            if strict and not call_id:
                taken.fault(Reason.MALFORMED_DIALOGUE, "a result without `tool_call_id`")
        elif role == "function":
            taken.result(content, None, turn.get("name"))
        else:
            taken.left_out("message", line(role))


def _assistant(taken: Conversation, turn: JsonObject, strict: bool) -> None:
    made: list[RowCall] = []
    wrong: list[tuple[Reason, str]] = []
    listed = opened(turn.get("tool_calls"))[0]
    for entry in listed if isinstance(listed, list) else [] if listed is None else [listed]:
        call, why = _call(opened(entry)[0], strict)
        made += [call] if call else []
        wrong += [(Reason.FALSE_API_CALL_FORMAT, why)] if why else []
        if call and strict and not call.id:
            wrong.append((Reason.MALFORMED_DIALOGUE, "a call without an id"))
    older = turn.get("function_call")
    if isinstance(older, dict):
        call, why = _call({"function": older}, strict)
        made += [call] if call else []
        wrong += [(Reason.FALSE_API_CALL_FORMAT, why)] if why else []
    taken.assistant(turn.get("content"), made)
    for reason, why in wrong:
        taken.fault(reason, why)


def _call(entry: Any, strict: bool) -> tuple[RowCall | None, str]:
    """A call, and what is wrong with its form."""
    inner = entry.get("function", entry) if isinstance(entry, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return None, "a call without a function's name"
    asked, given = inner.get("arguments"), entry.get("id")
    why = ""
    if strict and not isinstance(asked, str):
        why = f"arguments of {line(inner['name'])} are no text, but OpenAI takes JSON text only"
    if not strict and isinstance(asked, dict):
        asked = _without_null(asked)
    return RowCall(inner["name"], asked, given if isinstance(given, str) else ""), why


def _without_null(value: Any) -> Any:
    """A value without the keys that are null: Arrow adds them, and TRL takes them away."""
    if isinstance(value, dict):
        return {k: _without_null(part) for k, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list) else value


def chat(messages: Sequence[Message], form: Arguments) -> list[JsonObject]:
    """Messages in OpenAI's form, arguments as objects or as text. Raises NotRepresentable."""
    return [_turn(message, form) for message in messages]


def _turn(message: Message, form: Arguments) -> JsonObject:
    row: JsonObject = {"role": message.role, "content": message.content or ""}
    if message.tool_calls:
        made = [(call, arguments(call)) for call in message.tool_calls]
        row["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": spaced(values) if form == "string" else values,
                },
            }
            for call, values in made
        ]
    if message.role == "tool":
        row |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return row


def trl(sample: Sample, form: Arguments) -> Exported:
    row = {"messages": chat(sample.dialogue.messages, form), "tools": tools(sample)}
    return Exported((("sft", row),))


def axolotl(sample: Sample, form: Arguments) -> Exported:
    """Axolotl reads arguments and parameters that are text: so `datasets` cannot pad them."""
    described = _with_text_schemas(sample) if form == "string" else tools(sample)
    row = {"messages": chat(sample.dialogue.messages, form), "tools": described}
    return Exported((("sft", row),))


def _with_text_schemas(sample: Sample) -> list[JsonObject]:
    described = tools(sample)
    for tool in described:
        parameters = spaced(tool["function"]["parameters"])
        tool["function"] = {**tool["function"], "parameters": parameters}
    return described


def axolotl_notes(place: ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    lines = ["datasets:"]
    for split in place.splits:
        if split != "train" and "train" in place.splits:
            continue
        lines += _axolotl_dataset(f"{place.folder}/{split}.jsonl")
    if "validation" in place.splits and "train" in place.splits:
        lines += ["test_datasets:", *_axolotl_dataset(f"{place.folder}/validation.jsonl")]
    return {"axolotl.yaml": "\n".join(lines) + "\n"}


def _axolotl_dataset(path: str) -> list[str]:
    return [
        f"  - path: {to_text(path)}",
        "    ds_type: json",
        "    type: chat_template",
        "    field_messages: messages",
        "    field_tools: tools",
        "    roles_to_train: [assistant]",
    ]


def openai(sample: Sample, form: Arguments) -> Exported:
    """OpenAI's own names and no others: tool messages have no name."""
    messages = chat(sample.dialogue.messages, form)
    for message in messages:
        message.pop("name", None)
        if "tool_calls" in message and not message["content"]:
            del message["content"]
    parallel = any(len(m.tool_calls) > 1 for m in sample.dialogue.messages)
    row: JsonObject = {"messages": messages}
    if described := tools(sample):
        row |= {"tools": described, "parallel_tool_calls": parallel}
    return Exported((("sft", row),))


def verl(sample: Sample, form: Arguments) -> Exported:
    """A row to imitate, and one to reward for each turn that calls or answers a user."""
    query, messages = sample.dialogue.query, sample.dialogue.messages
    imitated = {"messages": chat(messages, form), "tools": _with_text_schemas(sample)}
    rewarded = []
    prompt = [{"role": "system", "content": instructed(system_of(sample), sample)}]
    for place, message in enumerate(messages):
        if message.role == "system":
            continue
        asked = place > 0 and messages[place - 1].role == "user"
        if message.role == "assistant" and (message.tool_calls or asked):
            truth = {"style": "rule", "ground_truth": spaced(calls(message))}
            extra = {
                "index": 100 * number_of(sample) + place,
                "id": sample.id,
                "turn": place,
                "scenario": query.scenario.value,
            }
            rewarded.append(
                {
                    "data_source": "toolloom",
                    "prompt": list(prompt),
                    "ability": query.ability.value,
                    "reward_model": truth,
                    "extra_info": extra,
                }
            )
        calling = message.role == "assistant"
        content = call_text(message) if calling else message.content or ""
        prompt = [*prompt, {"role": message.role, "content": content}]
    return Exported((("sft", imitated), *(("rl", row) for row in rewarded)))
