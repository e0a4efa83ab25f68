"""Chat messages with calls beside the words: TRL, OpenAI, Axolotl and verl.

TRL (dataset formats, tool calling) takes arguments as objects or JSON text, results by name and
tools as a list or JSON text, and leaves out what is null, since Arrow pads objects with null.
OpenAI (fine-tuning with tools) takes arguments as text, and results by the id of their call; the
older `functions` and `function_call` have neither ids nor several calls in a message.

The tools of chat requests become APIs (`read`): lists, objects with `tools` or `functions`, whole
request bodies and JSON lines of any of these; entries nested under `function` (chat completions),
flat ones (Responses, the older `functions`), and those with `input_schema` (Anthropic) or
`inputSchema` (MCP).

Written, a turn with calls gets an empty `content`: of the chat templates TRL ships, DeepSeek's and
Phi's stop without the key, GPT-OSS's and LFM's stop at null, and all of them take an empty text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats import base
from toolloom.pipeline.formats.conversation import (
    Conversation,
    Reading,
    RowCall,
    opened,
    refused,
    turns_in,
)
from toolloom.pipeline.formats.import_log import ImportLog, line, reference, words
from toolloom.pipeline.formats.json_schema import SCHEMAS, first, to_api
from toolloom.pipeline.formats.rows import UNREAD, ForeignRow, rows
from toolloom.pipeline.formats.sharegpt import call_text, instructed
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import Api, JsonObject, Message, Reason, Sample, Source

_RETURNS = ("returns", "output_schema", "outputSchema")
_ANSWERS = ("completion", "chosen", "preferred_output")
_WORSE = ("rejected", "non_preferred_output")
_ROW = {"id", "messages", "prompt", "input", *_ANSWERS, *_WORSE, "label"}
_OFFERED = ("tools", "functions")
_MESSAGE = {"role", "content", "name", "tool_calls", "tool_call_id", "function_call"}


def fits(document: Any) -> bool:
    """Whether a document holds tools in one of these forms."""
    return any(_is_tool(entry) for _, entry in _entries(document, ""))


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a file. `document`: its content, if it was loaded before."""
    ledger.format = "openai"
    known = Source(kind="openai", reference=reference(source))
    for place, row in rows(source, ledger, document):
        entries = [*_entries(row, place)]
        if not entries:
            ledger.refuse(place, "It holds no tools.")
        for where, entry in entries:
            if not _is_tool(entry):
                kind = line(entry.get("type")) if isinstance(entry, dict) else type(entry).__name__
                ledger.refuse(where, f"It is not a function tool but `{kind or 'something else'}`.")
                continue
            inner = entry["function"] if isinstance(entry.get("function"), dict) else entry
            yield from to_api(
                ledger,
                known,
                category=category,
                tool=words(source.stem),
                name=inner["name"],
                description=inner.get("description"),
                parameters=first(inner, *SCHEMAS),
                returns=first(inner, *_RETURNS),
            )


def _entries(row: Any, place: str) -> Iterable[tuple[str, Any]]:
    """What should be a tool, each with its place."""
    lists = [row] if isinstance(row, list) else []
    if isinstance(row, dict):
        lists = [row[key] for key in _OFFERED if isinstance(row.get(key), list)]
        if not lists and _is_tool(row):
            yield place, row
    for several in lists:
        for number, entry in enumerate(several, 1):
            yield f"{place}, tool {number}", entry


def _is_tool(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    inner = entry.get("function")
    if entry.get("type") == "function" and isinstance(inner, dict):
        return isinstance(inner.get("name"), str)
    described = any(isinstance(entry.get(key), dict) for key in SCHEMAS)
    return isinstance(entry.get("name"), str) and (described or entry.get("type") == "function")


def messages_row(value: JsonObject, row: ForeignRow) -> Reading:
    """A row of `messages`, or of a prompt with an answer, of which the better one is read."""
    if isinstance(given := value.get("input"), dict):  # OpenAI's preferences
        value = {**value, **given, "input": None, "prompt": given.get("messages"), "messages": None}
    said = _columns(value)
    if isinstance(said, str):
        return refused(row, said)
    taken = Conversation("openai", row)
    taken.fields(value, {*_ROW, *_OFFERED, "parallel_tool_calls"})
    for key in [key for key in _WORSE if value.get(key)]:
        taken.note(f"field `{key}`: the worse answer is not judged")
    if value.get("label") is False:
        taken.note("field `label`: false, so the completion is meant to be the worse one")
    for key in _OFFERED:
        tools = opened(value.get(key))[0]
        listed = [opened(one)[0] for one in tools] if isinstance(tools, list) else tools
        taken.offer(_without_null(listed))
    for turn in said:
        _take(taken, turn)
    if value.get("parallel_tool_calls") is False and any(
        isinstance(made := turn.get("tool_calls"), list) and len(made) > 1 for turn in said
    ):
        detail = "`parallel_tool_calls` is false, and a message has several calls"
        taken.fault(Reason.MALFORMED_DIALOGUE, detail)
    return taken.reading(line(value.get("id")))


def _columns(value: JsonObject) -> list[JsonObject] | str:
    """The messages of a row, from whichever columns it has, or why there are none."""
    if value.get("messages") is not None:
        said = turns_in(value["messages"])
        return f"its `messages`: {said}" if isinstance(said, str) else said
    found: list[JsonObject] = []
    answer = next((key for key in _ANSWERS if value.get(key) is not None), None)
    for key in [key for key in ("prompt", answer) if key and value.get(key) is not None]:
        if isinstance(value[key], str) and isinstance(opened(value[key])[0], str):
            return f"its `{key}` is text: only rows of messages hold calls that can be told apart"
        part = turns_in(value[key])
        if isinstance(part, str):
            return f"its `{key}`: {part}"
        found += part
    return found or "it has neither `messages` nor `conversations` nor `prompt` with an answer"


def _take(taken: Conversation, turn: JsonObject) -> None:
    role, content = turn.get("role"), turn.get("content")
    for key in [key for key in turn if key not in _MESSAGE]:
        if turn[key] not in (None, "", [], {}):
            taken.note(f"messages: field `{line(key)[:60]}`")
    if role in ("system", "developer"):
        taken.system(content)
    elif role == "user":
        taken.user(content)
    elif role == "assistant":
        listed = opened(turn.get("tool_calls"))[0]
        entries = listed if isinstance(listed, list) else [] if listed is None else [listed]
        older = turn.get("function_call")
        entries = [*entries, *([{"function": older}] if isinstance(older, dict) else [])]
        made = [RowCall.of(_without_null(opened(entry)[0])) for entry in entries]
        taken.assistant(content, [call for call in made if call])
        for _ in range(made.count(None)):
            taken.fault(Reason.FALSE_API_CALL_FORMAT, "a call without a function's name")
    elif role in ("tool", "function"):
        taken.result(content, turn.get("tool_call_id"), turn.get("name"))
    else:
        taken.left_out("message", line(role))


def _without_null(value: Any) -> Any:
    """A value without the keys that are null: Arrow adds them, and TRL takes them away."""
    if isinstance(value, dict):
        return {k: _without_null(part) for k, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list) else value


def chat(messages: Sequence[Message], form: base.Arguments) -> list[JsonObject]:
    """Messages in OpenAI's form, arguments as objects or as text. Raises NotRepresentable."""
    rows: list[JsonObject] = []
    for message in messages:
        rows.append({"role": message.role, "content": message.content or ""})
        made = base.calls(message)
        if form == "string":
            made = [{**call, "arguments": base.spaced(call["arguments"])} for call in made]
        if made:
            rows[-1]["tool_calls"] = [
                {"id": call.id, "type": "function", "function": function}
                for call, function in zip(message.tool_calls, made, strict=True)
            ]
        if message.role == "tool":
            rows[-1] |= {"tool_call_id": message.tool_call_id, "name": message.name}
    return rows


def trl(sample: Sample, form: base.Arguments) -> base.Exported:
    row = {"messages": chat(sample.dialogue.messages, form), "tools": base.tools(sample)}
    return base.Exported((("sft", row),))


def axolotl(sample: Sample, form: base.Arguments) -> base.Exported:
    """Axolotl reads arguments and parameters that are text: so `datasets` cannot pad them."""
    described = base.tools(sample) if form == "object" else _with_text_schemas(sample)
    row = {"messages": chat(sample.dialogue.messages, form), "tools": described}
    return base.Exported((("sft", row),))


def _with_text_schemas(sample: Sample) -> list[JsonObject]:
    functions = [tool["function"] for tool in base.tools(sample)]
    texts = [{**one, "parameters": base.spaced(one["parameters"])} for one in functions]
    return [{"type": "function", "function": one} for one in texts]


def axolotl_notes(place: base.ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    how = ["type: chat_template", "field_messages: messages", "field_tools: tools"]
    return axolotl_yaml(place, [], [*how, "roles_to_train: [assistant]"])


def axolotl_yaml(place: base.ExportPlace, head: list[str], how: list[str]) -> dict[str, str]:
    """Train, or whatever there is, to train on, and validation to test on; `how` is each read."""
    trained = ["train"] if "train" in place.splits else place.splits
    tested = ["validation"] if {"train", "validation"} <= {*place.splits} else []
    lines = list(head)
    for title, splits in (("datasets", trained), ("test_datasets", tested)):
        lines += [f"{title}:"] if splits or title == "datasets" else []
        for path in (f"{place.folder}/{split}.jsonl" for split in splits):
            lines += [f"  - path: {to_text(path)}"]
            lines += [f"    {line}" for line in ("ds_type: json", *how)]
    return {"axolotl.yaml": "\n".join(lines) + "\n"}


def openai(sample: Sample, form: base.Arguments) -> base.Exported:
    """OpenAI's own names and no others: tool messages have no name."""
    messages = chat(sample.dialogue.messages, form)
    for message in messages:
        message.pop("name", None)
        if "tool_calls" in message and not message["content"]:
            del message["content"]
    parallel = any(len(m.tool_calls) > 1 for m in sample.dialogue.messages)
    row: JsonObject = {"messages": messages}
    if described := base.tools(sample):
        row |= {"tools": described, "parallel_tool_calls": parallel}
    return base.Exported((("sft", row),))


def verl(sample: Sample, form: base.Arguments) -> base.Exported:
    """A row to imitate, and one to reward for each turn that calls or answers a user."""
    query, messages = sample.dialogue.query, sample.dialogue.messages
    imitated = {"messages": chat(messages, form), "tools": _with_text_schemas(sample)}
    rows: list[tuple[str, JsonObject]] = [("sft", imitated)]
    prompt = [{"role": "system", "content": instructed(base.system_of(sample), sample)}]
    for place, message in enumerate(messages):
        if message.role == "system":
            continue
        is_answer = message.role == "assistant" and place and messages[place - 1].role == "user"
        if message.tool_calls or is_answer:
            row = {
                "data_source": "toolloom",
                "prompt": list(prompt),
                "ability": query.ability.value,
                "reward_model": {"style": "rule", "ground_truth": base.spaced(base.calls(message))},
                "extra_info": {
                    "index": 100 * base.number_of(sample) + place,
                    "id": sample.id,
                    "turn": place,
                    "scenario": query.scenario.value,
                },
            }
            rows.append(("rl", row))
        content = call_text(message) if message.role == "assistant" else message.content or ""
        prompt.append({"role": message.role, "content": content})
    return base.Exported(tuple(rows))
