"""The configs of a dataset: their columns, and how their rows are made of records."""

from __future__ import annotations

from dataclasses import dataclass

from toolloom.pipeline.store.files import to_text
from toolloom.schemas import API_SEARCH, Ability, JsonObject, Message, Sample

_SEARCH = API_SEARCH.as_tool()


@dataclass(frozen=True)
class Column:
    """A column: how it is stored, and what the card says of it."""

    kind: str  # "text", "texts" or "objects"
    about: str


@dataclass(frozen=True)
class Config:
    """A config of the dataset."""

    name: str
    about: str
    columns: dict[str, Column]


_ID = Column("text", "Id of the record, unique in its version.")
_KINDS = {
    "ability": Column("text", "`call`, `retrieve_call` or `plan_retrieve_call` (API-Bank)."),
    "scenario": Column("text", "What the dialogue exercises, such as `parallel`."),
}

SFT = Config(
    "sft",
    "accepted dialogues as trainers take them, in OpenAI's chat form, each with its own tools",
    {
        "id": _ID,
        **_KINDS,
        "messages": Column("objects", "Chat messages; arguments of calls are objects."),
        "tools": Column("objects", "The tools the assistant was given, distractors included."),
        "observations": Column(
            "texts",
            "How each tool message came about, in order: `executed`, `simulated`, `planned` "
            "(a fault that was drawn) or `search`.",
        ),
        "flags": Column(
            "texts", "Reasons why curation would have dropped it, had it been told to."
        ),
    },
)
SAMPLES = Config(
    "samples",
    "the same dialogues with all that is known of them, to check or convert again",
    {
        "id": _ID,
        **_KINDS,
        "dialogue": Column("text", "JSON: the query with its intent and pool, the messages."),
        "verdict": Column("text", "JSON: findings (none) and the tester's votes."),
        "flags": Column("text", "JSON: what curation found and was told to keep."),
        "provenance": Column("text", "JSON: the tester's share in the record."),
    },
)
INSTRUCTIONS = Config(
    "instructions",
    "what users may say at five granularities, each with the solution path that serves it",
    {
        "id": Column("text", "Id of the sample and the level."),
        "sample": Column("text", "Id of the sample, or of the ToolBench query."),
        "level": Column(
            "text", "`statement`, `category`, `tool`, `api` or `hybrid`: from little to all."
        ),
        "instruction": Column("text", "What the user says."),
        "category_tags": Column("texts", "The category of each call of the path, in order."),
        "tool_tags": Column("texts", "The tool of each call."),
        "api_tags": Column("texts", "The API of each call, by its own name."),
        "spoken": Column("texts", "The tags of its level as the instruction says them, in order."),
        "path": Column("texts", "The functions that are called, in order, then `Finish`."),
        "ratings": Column(
            "text",
            "JSON: votes on plausibility, conciseness, relevance and realness, each 1 to 3.",
        ),
        "source": Column("text", "`sample` or `toolbench`."),
        "licence": Column("text", "SPDX identifier, where known."),
        "record": Column("text", "JSON: the whole record."),
    },
)
PLANNING = Config(
    "planning",
    "the instructions as trainers take them, for the tasks that come before any call",
    {
        "id": Column("text", "Id of the instruction and the task."),
        "task": Column(
            "text", "`tag_extraction`, which tags it asks for, or `path_planning`, which calls."
        ),
        "level": Column("text", "The instruction's level."),
        "messages": Column("objects", "Chat messages; the last one is learnt."),
    },
)
REJECTED = Config(
    "rejected",
    "what did not pass a stage, and why; the split `apis` holds what fell before any query",
    {
        "id": _ID,
        "stage": Column("text", "The stage that rejected it."),
        "agent": Column("text", "The agent whose work was rejected."),
        "reason": Column("text", "Code of the first reason."),
        "detail": Column("text", "What is wrong, in a sentence."),
        "findings": Column("text", "JSON: all findings."),
        "record": Column("text", "JSON: the record as far as it came."),
        "raw": Column("texts", "The model's raw responses, in order."),
        "provenance": Column("text", "JSON: how it was made."),
    },
)
APIS = Config(
    "apis",
    "the APIs: those of the split `train` are seen in training, the others only in their test",
    {
        "id": Column("text", "`category/tool/name`."),
        "category": Column("text", "Category."),
        "tool": Column("text", "Tool (service)."),
        "name": Column("text", "The operation's own name."),
        "function": Column("text", "The name models call it by."),
        "description": Column("text", "What it does."),
        "parameters": Column("text", "JSON Schema of the arguments."),
        "returns": Column("text", "JSON Schema of the response; `null` where unknown."),
        "source": Column("text", "Kind of source, such as `generated` or `openapi`."),
        "reference": Column("text", "What it was read from."),
        "operation": Column("text", "What it is called there."),
        "licence": Column("text", "SPDX identifier, where known."),
        "record": Column("text", "JSON: the whole record."),
    },
)
CONFIGS = (SFT, SAMPLES, INSTRUCTIONS, PLANNING, REJECTED, APIS)


def training_row(sample: Sample) -> JsonObject:
    """A sample as a trainer takes it: a row of `sft`."""
    return sft_row(sample.model_dump(mode="json"))


def sft_row(sample: JsonObject) -> JsonObject:
    """`training_row` of a sample's JSON. In the retrieve abilities API Search is the only tool."""
    dialogue = sample["dialogue"]
    query, messages = dialogue["query"], dialogue["messages"]
    searches = query["ability"] != Ability.CALL
    return {
        "id": query["id"],
        "ability": query["ability"],
        "scenario": query["scenario"],
        "messages": [_bare(message) for message in messages],
        "tools": [_SEARCH] if searches else [_tool(api) for api in query["pool"]],
        "observations": [m["execution"]["kind"] for m in messages if m.get("execution")],
        "flags": [flag["reason"] for flag in sample.get("flags", ())],
    }


def chat_message(message: Message) -> JsonObject:
    """OpenAI's form; keys without a value are left out, as chat templates ask if they are there.

    Content is always there: of the templates, some stop without the key and others at null.
    """
    return _bare(message.model_dump(mode="json"))


def _bare(message: JsonObject) -> JsonObject:
    bare = {k: v for k, v in message.items() if v is not None and v != [] and k != "execution"}
    return bare if "content" in bare else {"role": bare.pop("role"), "content": "", **bare}


def _tool(api: JsonObject) -> JsonObject:
    """As `Api.as_tool`."""
    kept = {"name": api["function"], **{k: api[k] for k in ("description", "parameters")}}
    return {"type": "function", "function": kept}


def samples_row(sample: JsonObject) -> JsonObject:
    query = sample["dialogue"]["query"]
    return {
        **{key: query[key] for key in ("id", "ability", "scenario")},
        **{key: to_text(sample[key]) for key in ("dialogue", "verdict", "provenance")},
        "flags": to_text(sample.get("flags", [])),
    }


def instruction_row(instruction: JsonObject) -> JsonObject:
    tags = instruction["tags"]
    return {
        **{key: instruction[key] for key in ("id", "sample", "level")},
        "instruction": instruction["text"],
        **{f"{one}_tags": tags[many] for one, many in _TAGS},
        **{key: instruction[key] for key in ("spoken", "path")},
        "ratings": to_text(instruction["ratings"]),
        **{key: instruction[key] for key in ("source", "licence")},
        "record": to_text(instruction),
    }


_TAGS = (("category", "categories"), ("tool", "tools"), ("api", "apis"))


def rejected_row(record: JsonObject) -> JsonObject:
    return {**record, **{k: to_text(record[k]) for k in ("findings", "record", "provenance")}}


def api_row(api: JsonObject) -> JsonObject:
    source = api["source"]
    return {
        "id": f"{api['category']}/{api['tool']}/{api['name']}",
        **{k: api[k] for k in ("category", "tool", "name", "function", "description")},
        **{k: to_text(api[k]) for k in ("parameters", "returns")},
        "source": source["kind"],
        **{k: source[k] for k in ("reference", "operation", "licence")},
        "record": to_text(api),
    }


def encoded(config: Config, row: JsonObject) -> JsonObject:
    """A row as it is stored: objects as their JSON."""
    return {
        name: list(map(to_text, row[name])) if column.kind == "objects" else row[name]
        for name, column in config.columns.items()
    }
