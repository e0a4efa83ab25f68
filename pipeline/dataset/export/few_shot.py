"""Few-shot rows: a goal with the API functions, demonstrations, and calls as the whole answer.

The tool manipulation paper, sections 4.2 and 4.3. Demonstrations come from `train`, whatever the
split, and are a few in which every API occurs; a row shows those most like its goal.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolloom.pipeline.dataset.complexity import Demonstration, Retriever, repository
from toolloom.pipeline.dataset.export.goals import Served, action_text, document, goal_lines, served
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportSource,
    NotRepresentable,
    Rows,
)
from toolloom.prompts import render
from toolloom.schemas import ExportError, JsonObject, Sample, Split

SHOTS = 3
FEWER = "as many demonstrations as asked for"


def few_shot(sample: Sample, form: Arguments) -> Exported:
    """A sample without demonstrations."""
    goal = served(sample)
    return Exported((("sft", _row(sample.id, goal, ())),), goal.lost)


class FewShots:
    """Shows each goal the demonstrations most like it."""

    def __init__(self, source: ExportSource, shots: int = SHOTS) -> None:
        """Reads `train` once. Raises ExportError if it has no samples."""
        self._shots = shots
        if shots and Split.TRAIN not in source.splits("samples"):
            raise ExportError(
                f"{source.name} has no samples in train, where demonstrations come from. "
                "Choose --shots 0."
            )
        found = repository(source.samples(Split.TRAIN.value)).demonstrations if shots else ()
        self._retriever = Retriever([one for one in found if _is_shown(one)])

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        goal = served(sample)
        shown = self._retriever.similar(goal.text, self._shots, sample.id, goal.calls)
        lost = goal.lost if len(shown) == self._shots else (*goal.lost, FEWER)
        return Exported((("sft", _row(sample.id, goal, shown)),), lost)

    def rest(self) -> Rows:
        return ()


def _row(identity: str, goal: Served, shown: Sequence[Demonstration]) -> JsonObject:
    prompt = render(
        "few_shot",
        {
            "apis": [document(api) for api in goal.apis],
            "demonstrations": [_text(one) for one in shown],
            "goal": goal_lines(goal.text, goal.now),
        },
    )
    answer = {"role": "assistant", "content": action_text(goal.calls)}
    return {
        "id": identity,
        "messages": [*prompt.messages, answer],
        "demonstrations": [one.id for one in shown],
    }


def _text(one: Demonstration) -> str:
    return f"{goal_lines(one.goal, one.now)} {action_text(one.calls)}"


def _is_shown(one: Demonstration) -> bool:
    """Whether it can be written so that it is read back."""
    try:
        return bool(_text(one))
    except NotRepresentable:
        return False
