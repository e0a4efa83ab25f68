"""All-shot rows: API documents, then goals with their calls, and a loss on every call.

The tool manipulation paper, section C.2, in Axolotl's template-free form: `label` says which
segments have a loss. Nothing separates one goal from the next.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from toolloom.pipeline.dataset.complexity import stem
from toolloom.pipeline.dataset.export.goals import action_text, document, goal_lines, served
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportPlace,
    ExportSource,
    NotRepresentable,
    Rows,
)
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import Api, JsonObject, Sample

LONGEST = 2_048  # tokens of a sequence, as in the paper
BYTES = 4  # of a token, about
OPEN, OF_CATEGORY = 256, 16  # sequences that wait for goals: in all, and of one category
HEAD = "API functions:\n"


class ApiDocument(NamedTuple):
    """What a sequence tells of an API."""

    function: str
    text: str
    size: int  # bytes


@dataclass(frozen=True)
class Goal:
    """A goal with its calls as text, and the documents it needs before it."""

    id: str
    category: str
    text: str
    actions: str
    documents: dict[str, ApiDocument]  # by id of the API
    outside: str  # id of the API that would serve it, if none is given
    size: int  # bytes of text and actions


class Sequence:
    """A row that is growing."""

    def __init__(self) -> None:
        self._goals: list[Goal] = []
        self._documents: dict[str, ApiDocument] = {}
        self._functions = set[str]()
        self._outside = set[str]()
        self._stems = set[str]()
        self._size = _size(HEAD) + 1

    def fits(self, goal: Goal) -> bool:
        """Whether there is room, and what it brings along changes no other goal's right calls."""
        new = {i: told for i, told in goal.documents.items() if i not in self._documents}
        return (
            self._size + goal.size + sum(told.size for told in new.values()) <= LONGEST * BYTES
            and goal.outside not in self._documents
            and not self._outside & {*new}
            and not any(told.function in self._functions for told in new.values())
        )

    def has_kin(self, goal: Goal) -> bool:
        """Whether it has a row of the same template."""
        return stem(goal.id) in self._stems

    def add(self, goal: Goal) -> None:
        new = {i: told for i, told in goal.documents.items() if i not in self._documents}
        self._size += goal.size + sum(told.size for told in new.values())
        self._goals.append(goal)
        self._documents |= new
        self._functions |= {told.function for told in new.values()}
        self._outside |= {goal.outside} - {""}
        self._stems.add(stem(goal.id))

    def row(self) -> JsonObject:
        documents = "".join(f"{told.text}\n" for told in self._documents.values())
        before = [f"{HEAD}{documents}\n", *[""] * len(self._goals)]
        segments = []
        for start, goal in zip(before, self._goals, strict=False):
            segments.append({"label": False, "text": start + goal.text})
            segments.append({"label": True, "text": goal.actions})
        ids = [goal.id for goal in self._goals]
        return {"ids": ids, "apis": list(self._documents), "segments": segments}


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def all_shot(sample: Sample, form: Arguments) -> Exported:
    """A sample in a sequence of its own."""
    goal, lost = _goal(sample)
    alone = Sequence()
    alone.add(goal)
    return Exported((("sft", alone.row()),), lost)


def _goal(sample: Sample) -> tuple[Goal, tuple[str, ...]]:
    """The goal of a sample, and what is lost. Raises Unfit, also for one that is too long."""
    found, query = served(sample), sample.dialogue.query
    functions = {api.function: api for api in found.apis}
    outside = query.outside if not found.calls else None
    apis = [functions[call.name] for call in found.calls] or [*found.apis, *query.pool]
    text, actions = goal_lines(found.text, found.now), f" {action_text(found.calls)}\n"
    goal = Goal(
        id=sample.id,
        category=next((api.category for api in apis), ""),
        text=text,
        actions=actions,
        documents={api.id: _document(api) for api in found.apis},
        outside=outside.id if outside else "",
        size=_size(text) + _size(actions),
    )
    if not Sequence().fits(goal):
        raise NotRepresentable(f"longer than a sequence of {LONGEST:,} tokens")
    return goal, found.lost


def _document(api: Api) -> ApiDocument:
    text = document(api)
    return ApiDocument(api.function, text, _size(text) + 1)


class AllShots:
    """Puts goals of one category into one sequence, each goal into one."""

    def __init__(self, source: ExportSource | None = None, shots: int = 0) -> None:
        """Needs neither of what a weaver is given."""
        self._open: OrderedDict[str, list[Sequence]] = OrderedDict()
        self._count = 0

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        goal, lost = _goal(sample)
        full = [*self._place(goal), *self._oldest()]
        return Exported(tuple(("sft", one.row()) for one in full), lost, waits=True)

    def rest(self) -> Rows:
        left = [one for category in self._open.values() for one in category]
        self._open.clear()
        self._count = 0
        return tuple(("sft", one.row()) for one in left)

    def _place(self, goal: Goal) -> list[Sequence]:
        """Add a goal where it fits; the sequences that made room for a new one.

        Rows of one template come one after the other: each goes to another sequence as long as
        there are few.
        """
        among = self._open.setdefault(goal.category, [])
        self._open.move_to_end(goal.category)
        best, full = _best(among, goal), list[Sequence]()
        if best is None:
            full += [among.pop(0)] if len(among) == OF_CATEGORY else []
            best = Sequence()
            among.append(best)
            self._count += 1 - len(full)
        best.add(goal)
        return full

    def _oldest(self) -> list[Sequence]:
        """What waits longest, if too much waits."""
        if self._count <= OPEN:
            return []
        _, oldest = self._open.popitem(last=False)
        self._count -= len(oldest)
        return oldest


def _best(among: list[Sequence], goal: Goal) -> Sequence | None:
    """Where a goal fits; with its kin only where there are sequences enough."""
    fitting = [one for one in among if one.fits(goal)]
    alone = [one for one in fitting if not one.has_kin(goal)]
    if not alone and len(among) == OF_CATEGORY:
        alone = fitting
    return alone[0] if alone else None


def all_shot_notes(place: ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    lines = [f"sequence_len: {LONGEST}", "sample_packing: false", "train_on_inputs: false"]
    lines.append("datasets:")
    for split in place.splits:
        if split == "train" or "train" not in place.splits:
            lines += _dataset(f"{place.folder}/{split}.jsonl")
    if {"train", "validation"} <= {*place.splits}:
        lines += ["test_datasets:", *_dataset(f"{place.folder}/validation.jsonl")]
    return {"axolotl.yaml": "\n".join(lines) + "\n"}


def _dataset(path: str) -> list[str]:
    return [f"  - path: {to_text(path)}", "    ds_type: json", "    type: input_output"]
