"""The configs of a dataset: what their rows hold, and how rows are made of a run's records.

A config is one model and one line in CONFIGS. Its fields are the columns, in order: writing,
verifying, card and docs read them from there, and what else is in a row is not stored. Rows stay
plain JSON objects, as a version may have hundreds of thousands of them; a test holds them against
their models.

Instructions have training rows of two tasks before any call, tag extraction and path planning
(ToolPlanner, sections 4.2.1 and 4.2.2): of an instruction, whatever its granularity, a model first
tells the tag lists of all three levels, then, given those, the path of calls that ends in Finish.
Answers are lists of JSON strings, one list a line, so that a name may hold a comma.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, TypeAlias

from pydantic import Field, JsonValue

from toolloom.pipeline.checks.instructions import values_of
from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.formats.conversation import json_of
from toolloom.pipeline.store.version import PARTS, Config, TableRow, parsed
from toolloom.schemas import (
    API_SEARCH,
    FINISH,
    Ability,
    Api,
    Granularity,
    Instruction,
    JsonObject,
    Record,
    Rejected,
    Seed,
    Split,
    Step,
    World,
    digest,
)
from toolloom.schemas.splits import fraction

REJECTED_PARTS = ("findings", "record", "provenance")  # of a Rejected, stored as JSON
_SEARCH = API_SEARCH.as_tool()

Id = Annotated[str, Field(description="Id of the record, unique in its version.")]
AbilityName = Annotated[
    str, Field(description="`call`, `retrieve_call` or `plan_retrieve_call` (API-Bank).")
]
ScenarioName = Annotated[str, Field(description="What the dialogue exercises, such as `parallel`.")]
Licence = Annotated[str, Field(description="SPDX identifier, where known.")]
Whole = Annotated[JsonObject, Field(description="JSON: the whole record.")]


class SftRow(TableRow):
    """Accepted dialogues as trainers take them, in OpenAI's chat form, each with its own tools."""

    id: Id
    ability: AbilityName
    scenario: ScenarioName
    messages: list[JsonObject] = Field(description="Chat messages; arguments of calls are objects.")
    tools: list[JsonObject] = Field(
        description="The tools the assistant was given, distractors included."
    )
    observations: list[str] = Field(
        description="How each tool message came about, in order: `executed`, `simulated`, "
        "`planned` (a fault that was drawn) or `search`."
    )
    flags: list[str] = Field(
        description="Reasons why curation would have dropped it, had it been told to."
    )

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        """A sample as a trainer takes it. In the retrieve abilities API Search is the only tool."""
        query, messages = record["dialogue"]["query"], record["dialogue"]["messages"]
        searches = query["ability"] != Ability.CALL
        yield {
            **{key: query[key] for key in ("id", "ability", "scenario")},
            "messages": [_bare(message) for message in messages],
            "tools": [_SEARCH] if searches else [_tool(api) for api in query["pool"]],
            "observations": [m["execution"]["kind"] for m in messages if m.get("execution")],
            "flags": [flag["reason"] for flag in record.get("flags", ())],
        }


class SamplesRow(TableRow):
    """The same dialogues with all that is known of them, to check or convert again."""

    id: Id
    ability: AbilityName
    scenario: ScenarioName
    dialogue: JsonValue = Field(
        description="JSON: the query with its intent and pool, the messages."
    )
    verdict: JsonValue = Field(description="JSON: findings (none) and the tester's votes.")
    flags: JsonValue = Field(description="JSON: what curation found and was told to keep.")
    provenance: JsonValue = Field(description="JSON: the tester's share in the record.")

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        query = record["dialogue"]["query"]
        yield {"flags": [], **record, **{key: query[key] for key in ("id", "ability", "scenario")}}

    @classmethod
    def record_of(cls, row: JsonObject) -> JsonObject:
        return {key: parsed(row[key]) for key in PARTS}


class EnvironmentsRow(TableRow):
    """The dialogues that play in a world, as environments: where each starts, what the user says,
    and what is to come of it."""

    id: Id
    world: str = Field(description="The world's name.")
    hash: str = Field(description="Hash of what its operations do, as in `worlds`.")
    script: str = Field(description="The script it is a row of.")
    scenario: ScenarioName
    now: str = Field(description="The dialogue's present, as the world takes it.")
    me: str = Field(description="Key of the one who speaks; empty where it matters to nobody.")
    start: JsonObject = Field(description="JSON: the state before: `me`, `next`, `tables`.")
    goal: JsonObject = Field(
        description="JSON: `changes` of the state, none where nothing may change, and `facts` that "
        "the user has to learn."
    )
    system: str = Field(description="The system turn.")
    turns: list[str] = Field(description="What the user says, turn by turn.")
    tools: list[str] = Field(description="The functions on offer, distractors included.")
    operations: JsonObject = Field(
        description="JSON: the functions that are the world's, each with its operation."
    )
    calls: JsonValue = Field(
        description="JSON: the accepted dialogue's calls in the world, in order: `operation`, "
        "`arguments`."
    )

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        query, messages = record["dialogue"]["query"], record["dialogue"]["messages"]
        if not (setting := query.get("setting")):
            return
        sources = {api["function"]: api.get("source") or {} for api in query["pool"]}
        operations = {
            function: source.get("operation", "")
            for function, source in sources.items()
            if (source.get("kind"), source.get("reference")) == ("world", setting["world"])
        }
        asked = (call["function"] for m in messages for call in m.get("tool_calls", ()))
        calls = [
            {"operation": operations[call["name"]], "arguments": call["arguments"]}
            for call in asked
            if call["name"] in operations
        ]
        said = [(m["role"], m.get("content") or "") for m in messages]
        yield {
            **{key: query[key] for key in ("id", "scenario")},
            **{key: setting[key] for key in ("world", "hash", "start", "goal")},
            "script": setting.get("script", ""),
            "now": str(query["now"])[:16],
            "me": str(setting["start"].get("me") or ""),
            "system": next((text for role, text in said if role == "system"), ""),
            "turns": [text for role, text in said if role == "user"],
            "tools": [*sources],
            "operations": operations,
            "calls": calls,
        }


class InstructionsRow(TableRow):
    """What users may say at five granularities, each with the solution path that serves it."""

    origin = Instruction
    id: str = Field(description="Id of the sample and the level.")
    sample: str = Field(description="Id of the sample, or of the ToolBench query.")
    level: str = Field(
        description="`statement`, `category`, `tool`, `api` or `hybrid`: from little to all."
    )
    instruction: str = Field(description="What the user says.")
    category_tags: list[str] = Field(description="The category of each call of the path, in order.")
    tool_tags: list[str] = Field(description="The tool of each call.")
    api_tags: list[str] = Field(description="The API of each call, by its own name.")
    spoken: list[str] = Field(
        description="The tags of its level as the instruction says them, in order."
    )
    path: list[str] = Field(description="The functions that are called, in order, then `Finish`.")
    ratings: JsonValue = Field(
        description="JSON: votes on plausibility, conciseness, relevance and realness, each 1 to 3."
    )
    source: str = Field(description="`sample` or `toolbench`.")
    licence: Licence
    record: Whole

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        tags = record["tags"]
        yield {
            **record,
            "instruction": record["text"],
            "category_tags": tags["categories"],
            "tool_tags": tags["tools"],
            "api_tags": tags["apis"],
            "record": record,
        }


COARSE = frozenset({Granularity.STATEMENT, Granularity.CATEGORY})

_LISTS = {"Categories": "categories", "Tools": "tools", "APIs": "apis"}
TAGS_SYSTEM = (
    "You prepare work with tools. Read what the user says and decide which calls would serve it, "
    "in the order of the calls. Tell for each call where its API belongs, as three lists of equal "
    "length, each a line with a JSON list: Categories, then Tools, then APIs. A name that serves "
    "several calls stands in its list once for each."
)
PATH_SYSTEM = (
    "You plan work with tools. You are given what the user says and, for each expected call, the "
    "category, the tool and the API, as three lists. Answer with one line: Path, and a JSON list "
    f"of the functions to call, in order. The last entry is always {FINISH}, which hands the "
    "answer to the user."
)


class PlanningRow(TableRow):
    """The instructions as trainers take them, for the tasks that come before any call."""

    origin = Instruction
    id: str = Field(description="Id of the instruction and the task.")
    task: str = Field(
        description="`tag_extraction`, which tags it asks for, or `path_planning`, which calls."
    )
    level: str = Field(description="The instruction's level.")
    messages: list[JsonObject] = Field(description="Chat messages; the last one is learnt.")

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        said, tags = record["text"], record["tags"]
        lists = "\n".join(f"{name}: {_names(tags[field])}" for name, field in _LISTS.items())
        shown, path = f"Request:\n{said}\n\n{lists}", f"Path: {_names(record['path'])}"
        for task, suffix, *texts in (
            ("tag_extraction", "tags", TAGS_SYSTEM, said, lists),
            ("path_planning", "path", PATH_SYSTEM, shown, path),
        ):
            turns = zip(("system", "user", "assistant"), texts, strict=True)
            yield {
                "id": f"{record['id']}-{suffix}",
                "task": task,
                "level": record["level"],
                "messages": [{"role": role, "content": content} for role, content in turns],
            }

    @classmethod
    def ids(cls, record: str) -> tuple[str, ...]:
        return f"{record}-tags", f"{record}-path"

    @classmethod
    def wanted(cls, record: JsonObject, recipe: JsonObject) -> bool | None:
        """Of coarse levels only a share is trained on, which the recipe tells."""
        share = as_dict(recipe.get("rewrite")).get("coarse")
        return is_trained(record, share) if isinstance(share, int | float) else None


class RejectedRow(TableRow):
    """What did not pass a stage, and why; the split `apis` holds what fell before any query."""

    origin = Rejected
    id: Id
    stage: str = Field(description="The stage that rejected it.")
    agent: str = Field(description="The agent whose work was rejected.")
    reason: str = Field(description="Code of the first reason.")
    detail: str = Field(description="What is wrong, in a sentence.")
    findings: JsonValue = Field(description="JSON: all findings.")
    record: JsonValue = Field(description="JSON: the record as far as it came.")
    raw: list[str] = Field(description="The model's raw responses, in order.")
    provenance: JsonValue = Field(description="JSON: how it was made.")

    @classmethod
    def record_of(cls, row: JsonObject) -> JsonObject:
        return {**row, **{key: parsed(row[key]) for key in REJECTED_PARTS}}


class ApisRow(TableRow):
    """The APIs: those of the split `train` are seen in training, the others only in their test."""

    origin = Api
    id: str = Field(description="`category/tool/name`.")
    category: str = Field(description="Category.")
    tool: str = Field(description="Tool (service).")
    name: str = Field(description="The operation's own name.")
    function: str = Field(description="The name models call it by.")
    description: str = Field(description="What it does.")
    parameters: JsonValue = Field(description="JSON Schema of the arguments.")
    returns: JsonValue = Field(description="JSON Schema of the response; `null` where unknown.")
    source: str = Field(description="Kind of source, such as `generated` or `openapi`.")
    reference: str = Field(description="What it was read from.")
    operation: str = Field(description="What it is called there.")
    licence: Licence
    record: Whole

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        source = record["source"]
        yield {
            **record,
            "id": f"{record['category']}/{record['tool']}/{record['name']}",
            "source": source["kind"],
            **{key: source[key] for key in ("reference", "operation", "licence")},
            "record": record,
        }


class WorldsRow(TableRow):
    """The worlds: APIs with a state that can be run, each with the dialogues written for it."""

    origin = World
    id: str = Field(description="Name and hash, such as `shop/94d3339e1e8a`.")
    name: str = Field(description="Name, as rows tell it.")
    hash: str = Field(description="Hash of what its operations do.")
    category: str = Field(description="Category of its operations as APIs.")
    tool: str = Field(description="Tool (service) that they belong to.")
    about: str = Field(description="What it is, in a sentence.")
    operations: int = Field(description="How many operations it has.")
    policies: list[str] = Field(description="What an assistant in it is held to.")
    scripts: int = Field(description="How many dialogues are written for it.")
    spec: JsonValue = Field(description="JSON: the world as `replay/world.py` takes it.")
    record: Whole

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        spec = record["spec"]
        named = digest(spec)
        yield {
            **record,
            "id": f"{record['name']}/{named}",
            "hash": named,
            "operations": len(spec["operations"]),
            "policies": [policy["says"] for policy in spec["policies"]],
            "scripts": len(record["scripts"]),
            "record": record,
        }


CONFIGS = (
    SFT := Config("sft", SftRow),
    SAMPLES := Config("samples", SamplesRow),
    INSTRUCTIONS := Config("instructions", InstructionsRow),
    PLANNING := Config("planning", PlanningRow),
    REJECTED := Config("rejected", RejectedRow),
    APIS := Config("apis", ApisRow),
    WORLDS := Config("worlds", WorldsRow),
    ENVIRONMENTS := Config("environments", EnvironmentsRow),
)
# The configs that hold records whole. All others can be made of them again.
BASES = (SAMPLES, INSTRUCTIONS, REJECTED, APIS, WORLDS)


def configs_of(record: type[Record]) -> list[Config]:
    """The configs whose rows are made of such records."""
    return [config for config in CONFIGS if config.row.origin is record]


def base_of(config: Config) -> Config:
    """The config that holds the records whole that a config's rows are made of."""
    return next(base for base in BASES if base.row.origin is config.row.origin)


Maker: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Stage, agent, model and the hashes of the prompts."""


def makers_of(record: JsonObject) -> set[Maker]:
    """Who made a record, given as JSON; of a sample also its query and its dialogue."""
    dialogue = record.get("dialogue") or {}
    parts = (record, dialogue, dialogue.get("query") or {})
    shares = (share for part in parts for share in part.get("provenance", ()))
    return {(s["stage"], s["agent"], s["model"], tuple(s["prompts"])) for s in shares}


def _bare(message: JsonObject) -> JsonObject:
    """OpenAI's form; keys without a value are left out, as chat templates ask if they are there.

    Content is always there: of the templates, some stop without the key and others at null.
    """
    bare = {k: v for k, v in message.items() if v is not None and v != [] and k != "execution"}
    return bare if "content" in bare else {"role": bare.pop("role"), "content": "", **bare}


def _tool(api: JsonObject) -> JsonObject:
    """As `Api.as_tool`."""
    kept = {"name": api["function"], **{k: api[k] for k in ("description", "parameters")}}
    return {"type": "function", "function": kept}


def is_trained(instruction: JsonObject, share: float) -> bool:
    """Whether an instruction has training rows: all have, but of the coarse levels only a `share`.

    A hash of the id decides which, so that a larger run keeps its rows.
    """
    return instruction["level"] not in COARSE or fraction("planning", instruction["id"]) < share


def _names(names: Iterable[str]) -> str:
    """On one line for every reader: also those of Python, who end lines at more than a newline."""
    text = json.dumps(list(names), ensure_ascii=False)
    for end in ("\x85", "\u2028", "\u2029", "\x7f"):
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text


# Seeds: what the rewriter begins with, a request with the calls that served it. They are made of a
# sample, or of the rows of an instruction, whose level `hybrid` is the request in full.


def seed_of(sample: JsonObject, split: Split) -> Seed | None:
    """The seed of a sample, as JSON: its first request, and the calls that served it.

    None if none succeeds, or if there is a question mark in what the assistant says last before
    the user speaks again: it may have asked back. Calls are those whose observation is no error,
    without API Search.
    """
    query, messages = sample["dialogue"]["query"], sample["dialogue"]["messages"]
    users = [place for place, m in enumerate(messages) if m["role"] == "user"]
    served = messages[users[0] : users[1]] if len(users) > 1 else messages
    hybrid = (messages[users[0]]["content"] or "").strip() if users else ""
    pool = {api["function"]: api for api in query["pool"]}
    results = {m.get("tool_call_id"): m["content"] or "" for m in served if m["role"] == "tool"}
    seen = {name: json_of(content) for name, content in results.items()}
    came = {n for n, one in seen.items() if isinstance(one, dict) and one.get("error") is None}
    made = [
        (pool[call["function"]["name"]], call["function"]["arguments"])
        for message in served
        for call in message.get("tool_calls") or ()
        if call["id"] in came and call["function"]["name"] in pool
    ]
    if not made or not hybrid or (len(users) > 1 and "?" in (served[-1]["content"] or "")):
        return None
    return Seed(
        id=query["id"],
        split=split,
        hybrid=hybrid,
        steps=tuple(
            Step(category=a["category"], tool=a["tool"], api=a["name"], function=a["function"])
            for a, _ in made
        ),
        values=values_of(arguments for _, arguments in made),
        pool=tuple(Api.model_validate({**api, "provenance": ()}) for api in query["pool"]),
    )


def seed_of_rows(rows: Sequence[Instruction]) -> Seed | None:
    """A seed of what the instructions of one sample tell, for where this is not in the dataset.

    Values and pool are unknown, so fewer faults can be found. None without its full request, or
    if lists and path do not belong together.
    """
    whole = next((row for row in rows if row.level is Granularity.HYBRID), None)
    if whole is None or whole.path[-1:] != (FINISH,):
        return None
    tags, functions = whole.tags, whole.path[:-1]
    lists = (tags.categories, tags.tools, tags.apis, functions)
    if not functions or len({len(each) for each in lists}) > 1:
        return None
    return Seed(
        id=whole.sample,
        split=whole.split,
        hybrid=whole.text,
        steps=tuple(
            Step(category=category, tool=tool, api=api, function=function)
            for category, tool, api, function in zip(*lists, strict=True)
        ),
        source=whole.source,
        licence=whole.licence,
    )
