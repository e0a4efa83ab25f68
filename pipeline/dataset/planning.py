"""Instructions: what the rewriter begins with, and the training rows that are made of the result.

A seed is a request with the calls that served it, of a sample or of the rows of an instruction.
Training rows are of two tasks before any call, tag extraction and path planning (ToolPlanner,
sections 4.2.1 and 4.2.2): of an instruction, whatever its granularity, a model first tells the tag
lists of all three levels, then, given those, the path of calls that ends in Finish. The level
`hybrid` is the request in full. Answers are lists of JSON strings, one list a line, so that a name
may hold a comma.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from toolloom.pipeline.checks.instructions import values_of
from toolloom.schemas import FINISH, Api, Granularity, Instruction, JsonObject, Seed, Split, Step
from toolloom.schemas.splits import fraction

TAGS, PATH = "tag_extraction", "path_planning"
COARSE = frozenset({Granularity.STATEMENT, Granularity.CATEGORY})

_LISTS = {"Categories": "categories", "Tools": "tools", "APIs": "apis"}
_STEPS = "Path"

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
    results = {m.get("tool_call_id"): m["content"] for m in served if m["role"] == "tool"}
    made = [
        (pool[call["function"]["name"]], call["function"]["arguments"])
        for message in served
        for call in message.get("tool_calls") or ()
        if _came(results.get(call["id"])) and call["function"]["name"] in pool
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


def _came(observation: str | None) -> bool:
    """Did a call come to something? `observation`: its envelope, as a tool message holds it."""
    try:
        seen = json.loads(observation or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(seen, dict) and seen.get("error") is None


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


def is_trained(instruction: JsonObject, share: float) -> bool:
    """Whether an instruction has training rows: all have, but of the coarse levels only a `share`.

    A hash of the id decides which, so that a larger run keeps its rows.
    """
    coarse = instruction["level"] in COARSE
    return not coarse or fraction("planning", instruction["id"]) < share


def planning_rows(instruction: JsonObject) -> list[JsonObject]:
    """The two training rows of an `Instruction`, as JSON."""
    said, tags = instruction["text"], instruction["tags"]
    lists = "\n".join(f"{name}: {_json(tags[field])}" for name, field in _LISTS.items())
    shown, path = f"Request:\n{said}\n\n{lists}", f"{_STEPS}: {_json(instruction['path'])}"
    return [
        _row(instruction, "tags", TAGS, (TAGS_SYSTEM, said, lists)),
        _row(instruction, "path", PATH, (PATH_SYSTEM, shown, path)),
    ]


def _row(instruction: JsonObject, suffix: str, task: str, said: tuple[str, str, str]) -> JsonObject:
    turns = zip(("system", "user", "assistant"), said, strict=True)
    return {
        "id": f"{instruction['id']}-{suffix}",
        "task": task,
        "level": instruction["level"],
        "messages": [{"role": role, "content": content} for role, content in turns],
    }


def _json(names: Iterable[str]) -> str:
    """On one line for every reader: also those of Python, who end lines at more than a newline."""
    text = json.dumps(list(names), ensure_ascii=False)
    for end in ("\x85", "\u2028", "\u2029", "\x7f"):
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text
