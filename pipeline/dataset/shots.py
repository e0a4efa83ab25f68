"""Few-shot and all-shot rows: goals and the calls that serve them, as lines of text.

    Now: Monday 2026-03-02 09:30
    Goal: What is the weather in Oslo?
    Actions: [current_weather(city='Oslo')]

Goals may have several lines; those in which a line begins as one of these do not fit. An answer
begins with the space after `Actions:`, as tokenizers part words. Both are of the tool manipulation
paper: few-shot (sections 4.2 and 4.3) is a goal with the API functions, demonstrations, and calls
as the whole answer; all-shot (section C.2) API documents, then goals with a loss on every call.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from toolloom.agents.query import moment
from toolloom.pipeline.checks.text.call_text import parse, write
from toolloom.pipeline.checks.transcript import known_functions
from toolloom.pipeline.dataset.complexity import Demonstration, Retriever, repository, stem
from toolloom.pipeline.formats.base import (
    Arguments,
    Exported,
    ExportPlace,
    ExportSource,
    NotRepresentable,
    Rows,
    arguments,
    envelope,
    first_task,
    spaced,
    spoken,
)
from toolloom.pipeline.formats.chat import axolotl_yaml
from toolloom.prompts import render
from toolloom.schemas import (
    API_SEARCH,
    ExportError,
    FunctionCall,
    JsonObject,
    Sample,
    Scenario,
    Split,
)


@dataclass(frozen=True)
class Goal:
    """A sample's first request, the APIs it may use, and the calls that serve it."""

    id: str
    request: str
    text: str  # up to where its calls begin
    actions: str  # its calls as text
    calls: tuple[FunctionCall, ...]  # none if no API fits
    documents: dict[str, tuple[str, str]]  # id of an API, given or found: its function, its line
    category: str  # of the first API that is called
    outside: str  # id of the API that would serve it, if none is given
    lost: tuple[str, ...]  # parts of the sample that are not here


def goal_of(sample: Sample) -> Goal:
    """The first request of a sample, to be served by calls that are made at once. Raises
    NotRepresentable if it is not: something is asked back, or a call needs the result of
    another."""
    query = sample.dialogue.query
    if any(i.references for i in query.due if i.turn == 0):
        raise NotRepresentable("calls need the results of others")
    first, goes_on = first_task(spoken(sample.dialogue.messages))
    worked = {m.tool_call_id: envelope(m).error is None for m in first if m.role == "tool"}
    made = [call for m in first for call in m.tool_calls]
    calls = tuple(
        FunctionCall(name=call.function.name, arguments=arguments(call))
        for place, call in enumerate(made)
        if call.function.name != API_SEARCH.function
        # One that failed and was tried again counts once.
        and (worked.get(call.id) or call.function not in [a.function for a in made[place + 1 :]])
    )
    if not calls and query.scenario is not Scenario.IRRELEVANCE:
        raise NotRepresentable("the assistant asks before it calls")
    pool = {api.function: api for api in query.pool}
    given = {name: pool[name] for name in known_functions(query, first) if name in pool}
    if {call.name for call in calls} - {*given}:
        raise NotRepresentable("an API is called that is not among those given")
    lost: tuple[str, ...] = ("the search for APIs",) if query.ability.searches else ()
    lost += ("observations", "answers") if calls else ("answers",)
    lost += ("the user's later turns",) if goes_on else ()
    called = [given[call.name] for call in calls] or [*given.values(), *query.pool]
    request = first[0].content or ""
    text, actions = goal_lines(request, query.now, calls)
    return Goal(
        id=sample.id,
        request=request,
        text=text,
        actions=actions,
        calls=calls,
        documents={
            api.id: (name, spaced(api.as_tool()["function"])) for name, api in given.items()
        },
        category=next((api.category for api in called), ""),
        outside=query.outside.id if query.outside and not calls else "",
        lost=lost,
    )


def goal_lines(text: str, now: dt.datetime, calls: Sequence[FunctionCall]) -> tuple[str, str]:
    """A goal up to where its calls begin, and these in one line. Raises NotRepresentable for text
    like further lines, and for calls that would not be read back."""
    if not text.strip():
        raise NotRepresentable("the user says nothing")
    if re.search(r"\n(?:Now: |Goal: |Actions:)", text):
        raise NotRepresentable("words look like the beginning of another goal")
    with suppress(ValueError, RecursionError):  # numbers too long to write, values too deep
        actions = write(calls)
        if "\n" not in actions and parse(actions) == tuple(calls):
            return f"Now: {moment(now)}\nGoal: {text}\nActions:", actions
    raise NotRepresentable("calls that this syntax cannot hold")


# Few-shot

SHOTS = 3
FEWER = "as many demonstrations as asked for"


class FewShots:
    """Shows each goal the demonstrations most like it.

    They come from `train`, whatever the split, and are a few in which every API occurs.
    """

    def __init__(self, source: ExportSource | None, shots: int = SHOTS) -> None:
        """Reads `train` once. Raises ExportError if it has no samples."""
        self._shots = shots
        self._texts: dict[str, str] = {}  # of demonstrations, by id
        shown = list[Demonstration]()
        if source and shots:
            if Split.TRAIN not in source.splits("samples"):
                raise ExportError(
                    f"{source.name} has no samples in train, where demonstrations come from. "
                    "Choose --shots 0."
                )
            for one in repository(source.samples(Split.TRAIN.value)):
                with suppress(NotRepresentable):  # in words that would not be read back
                    self._texts[one.id] = " ".join(goal_lines(one.goal, one.now, one.calls))
                    shown.append(one)
        self._retriever = Retriever(shown)

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        goal = goal_of(sample)
        found = self._retriever.similar(goal.request, self._shots, sample.id, goal.calls)
        shown = [one.id for one in found]
        variables = {
            "apis": [line for _, line in goal.documents.values()],
            "demonstrations": [self._texts[one] for one in shown],
            "goal": goal.text,
        }
        answer = {"role": "assistant", "content": goal.actions}
        messages = [*render("few_shot", variables).messages, answer]
        row = {"id": goal.id, "messages": messages, "demonstrations": shown}
        fewer = () if len(shown) == self._shots else (FEWER,)
        return Exported((("sft", row),), (*goal.lost, *fewer))

    def rest(self) -> Rows:
        return ()


few_shot = FewShots(None, 0).rows  # of a sample without demonstrations


# All-shot

LONGEST = 2_048  # tokens of a sequence, as in the paper
BYTES = 4  # of a token, about
OPEN, OF_CATEGORY = 256, 16  # sequences that wait for goals: in all, and of one category


def sequence(goals: Sequence[Goal]) -> JsonObject:
    """A row of all-shot, in Axolotl's template-free form: `label` says which segments have a loss.
    Nothing separates one goal from the next."""
    documents: dict[str, str] = {}
    for goal in goals:
        for api, (_, line) in goal.documents.items():
            documents.setdefault(api, line)
    before = "\n".join(["API functions:", *documents.values(), "", ""])
    segments = []
    for goal in goals:
        segments.append({"label": False, "text": before + goal.text})
        segments.append({"label": True, "text": f" {goal.actions}\n"})
        before = ""
    return {"ids": [goal.id for goal in goals], "apis": [*documents], "segments": segments}


def fits(goals: Sequence[Goal]) -> bool:
    """Whether a sequence has room for them, and none changes another's right calls."""
    text = "".join(segment["text"] for segment in sequence(goals)["segments"])
    functions = {api: name for goal in goals for api, (name, _) in goal.documents.items()}
    return (
        len(text.encode("utf-8", "surrogatepass")) <= LONGEST * BYTES
        and not any(goal.outside in functions for goal in goals)
        and len({*functions.values()}) == len(functions)
    )


def all_shot(sample: Sample, form: Arguments) -> Exported:
    """A sample in a sequence of its own."""
    alone = AllShots()
    return replace(alone.rows(sample, form), rows=alone.rest(), waits=False)


class AllShots:
    """Puts goals of one category into one sequence, each goal into one."""

    def __init__(self, source: ExportSource | None = None, shots: int = 0) -> None:
        """Needs neither."""
        self._open: list[list[Goal]] = []

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        """Add a goal where it fits; the sequences that made room for a new one.

        Rows of one template come one after the other: each goes to another sequence as long as
        there are few. Raises NotRepresentable, also for a goal that alone is too long.
        """
        goal = goal_of(sample)
        if not fits([goal]):
            raise NotRepresentable(f"longer than a sequence of {LONGEST:,} tokens")
        others = [one for one in self._open if one[0].category != goal.category]
        same = [one for one in self._open if one[0].category == goal.category]
        fitting = [one for one in same if fits([*one, goal])]
        chosen = [one for one in fitting if stem(goal.id) not in {stem(each.id) for each in one}]
        full = list[list[Goal]]()
        if not chosen and len(same) == OF_CATEGORY:
            chosen = fitting
            full = [] if fitting else [same.pop(0)]
        if not chosen:
            chosen = [[]]
            same += chosen
        chosen[0].append(goal)
        self._open = [*others, *same]
        if len(self._open) > OPEN:
            full.append(self._open.pop(0))  # of the category that waits longest
        return Exported(tuple(("sft", sequence(one)) for one in full), goal.lost, waits=True)

    def rest(self) -> Rows:
        left, self._open = self._open, []
        return tuple(("sft", sequence(one)) for one in left)


def all_shot_notes(place: ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    head = [f"sequence_len: {LONGEST}", "sample_packing: false", "train_on_inputs: false"]
    return axolotl_yaml(place, head, ["type: input_output"])
