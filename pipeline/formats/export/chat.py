"""Formats of chat messages with a `tools` column: TRL, Axolotl, OpenAI and verl.

A turn with calls gets an empty `content`: of the chat templates TRL ships, DeepSeek's and Phi's
stop without the key, GPT-OSS's and LFM's stop at null, and all of them take an empty text.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolloom.pipeline.formats.export.base import (
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
from toolloom.pipeline.formats.export.hermes import call_text, instructed
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import JsonObject, Message, Sample


def chat(messages: Sequence[Message], form: Arguments) -> list[JsonObject]:
    """Messages in OpenAI's form, arguments as objects or as text. Raises Unfit."""
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
    described = tools(sample)
    if form == "string":
        for tool in described:
            parameters = spaced(tool["function"]["parameters"])
            tool["function"] = {**tool["function"], "parameters": parameters}
    row = {"messages": chat(sample.dialogue.messages, form), "tools": described}
    return Exported((("sft", row),))


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
    """A row to imitate, and a row to reward for each decision of the assistant."""
    messages = chat(sample.dialogue.messages, form)
    described = tools(sample)
    for tool in described:
        parameters = spaced(tool["function"]["parameters"])
        tool["function"] = {**tool["function"], "parameters": parameters}
    rows = [("sft", {"messages": messages, "tools": described})]
    rows += [("rl", row) for row in _decisions(sample)]
    return Exported(tuple(rows))


def _decisions(sample: Sample) -> list[JsonObject]:
    """A prompt and the calls that are right, for each turn that calls or answers a user."""
    query, messages = sample.dialogue.query, sample.dialogue.messages
    made = []
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
            made.append(
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
    return made
