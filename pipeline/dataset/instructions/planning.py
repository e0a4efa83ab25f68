"""Training rows of two tasks before any call: tag extraction and path planning.

ToolPlanner, sections 4.2.1 and 4.2.2: of an instruction, whatever its granularity, a model first
tells the tag lists of all three levels, then, given those, the path of calls that ends in Finish.
Answers are lists of JSON strings, one list a line, so that a name may hold a comma.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from toolloom.schemas import FINISH, Granularity, JsonObject, Tags
from toolloom.schemas.splits import fraction

TAGS, PATH = "tag_extraction", "path_planning"
COARSE = frozenset({Granularity.STATEMENT, Granularity.CATEGORY})

_LISTS = {"Categories": "categories", "Tools": "tools", "APIs": "apis"}
_STEPS = "Path"
_MOST = 20_000  # letters of an answer that is read

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


def planning_rows(instruction: JsonObject, coarse: float) -> list[JsonObject]:
    """Two rows of an `Instruction` as JSON. Of the levels statement and category only the share
    `coarse` has any; a hash of the id decides which, so that a larger run keeps its rows."""
    level = instruction["level"]
    if level in COARSE and fraction("planning", instruction["id"]) >= coarse:
        return []
    said, lists = instruction["text"], written_tags(instruction["tags"])
    shown = f"Request:\n{said}\n\n{lists}"
    return [
        _row(instruction, "tags", TAGS, (TAGS_SYSTEM, said, lists)),
        _row(instruction, "path", PATH, (PATH_SYSTEM, shown, written_path(instruction["path"]))),
    ]


def _row(instruction: JsonObject, suffix: str, task: str, said: tuple[str, str, str]) -> JsonObject:
    roles = ("system", "user", "assistant")
    return {
        "id": f"{instruction['id']}-{suffix}",
        "task": task,
        "level": instruction["level"],
        "messages": [{"role": r, "content": c} for r, c in zip(roles, said, strict=True)],
    }


def written_tags(tags: JsonObject) -> str:
    """The answer of tag extraction."""
    return "\n".join(f"{name}: {_json(tags[field])}" for name, field in _LISTS.items())


def written_path(path: Iterable[str]) -> str:
    """The answer of path planning."""
    return f"{_STEPS}: {_json(path)}"


def _json(names: Iterable[str]) -> str:
    """On one line for every reader: also those of Python, who end lines at more than a newline."""
    text = json.dumps(list(names), ensure_ascii=False)
    ends = [c for c in ("\x85", "\u2028", "\u2029", "\x7f") if c in text]
    for end in ends:
        text = text.replace(end, f"\\u{ord(end):04x}")
    return text


def read_tags(answer: str) -> Tags | None:
    """The lists that an answer of tag extraction tells; None if it is not of its form."""
    lists = _lists(answer)
    if lists.keys() != _LISTS.keys():
        return None
    tags = Tags(**{field: lists[name] for name, field in _LISTS.items()})
    sizes = [len(tags.categories), len(tags.tools), len(tags.apis)]
    return tags if sizes[0] and all(a == b for a, b in pairwise(sizes)) else None


def read_path(answer: str) -> tuple[str, ...] | None:
    """The path that an answer of path planning tells; None if it is not of its form."""
    path = _lists(answer).get(_STEPS, ())
    return path if path[-1:] == (FINISH,) and FINISH not in path[:-1] else None


def _lists(answer: str) -> dict[str, tuple[str, ...]]:
    """The lists of names in an answer, by what they are called; a broken one is left out."""
    found: dict[str, tuple[str, ...]] = {}
    for line in answer[:_MOST].split("\n"):
        name, _, rest = line.partition(":")
        try:
            value = json.loads(rest)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            found[name.strip()] = tuple(value)
    return found
