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
from dataclasses import dataclass

from toolloom.agents.query import moment
from toolloom.pipeline.checks.text.call_text import parse, write
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
    Api,
    ExportError,
    FunctionCall,
    JsonObject,
    Message,
    Sample,
    Scenario,
    Split,
)

_MARK = re.compile(r"\n(?:Now: |Goal: |Actions:)")


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
    """The first request of a sample, to be served by calls that are made at once.

    Raises NotRepresentable if it is not: something is asked back, or a call needs the result of
    another.
    """
    query = sample.dialogue.query
    if any(i.references for i in query.due if i.turn == 0):
        raise NotRepresentable("calls need the results of others")
    first, goes_on = first_task(spoken(sample.dialogue.messages))
    calls = _calls(first)
    if not calls and query.scenario is not Scenario.IRRELEVANCE:
        raise NotRepresentable("the assistant asks before it calls")
    apis = _found(first, query.pool) if query.ability.searches else query.pool
    functions = {api.function: api for api in apis}
    if {call.name for call in calls} - {*functions}:
        raise NotRepresentable("an API is called that is not among those given")
    lost: tuple[str, ...] = ("the search for APIs",) if query.ability.searches else ()
    lost += ("observations", "answers") if calls else ("answers",)
    lost += ("the user's later turns",) if goes_on else ()
    called = [functions[call.name] for call in calls] or [*apis, *query.pool]
    request = first[0].content or ""
    return Goal(
        id=sample.id,
        request=request,
        text=goal_lines(request, query.now),
        actions=action_text(calls),
        calls=calls,
        documents={api.id: (api.function, spaced(api.as_tool()["function"])) for api in apis},
        category=next((api.category for api in called), ""),
        outside=query.outside.id if query.outside and not calls else "",
        lost=lost,
    )


def _calls(messages: Sequence[Message]) -> tuple[FunctionCall, ...]:
    """Calls in order, API Search apart; one that failed and was tried again counts once."""
    results = {m.tool_call_id: m for m in messages if m.role == "tool"}
    made = [call for m in messages for call in m.tool_calls]
    found: list[FunctionCall] = []
    for place, call in enumerate(made):
        failed = call.id not in results or envelope(results[call.id]).error is not None
        again = any(later.function == call.function for later in made[place + 1 :])
        if call.function.name != API_SEARCH.function and not (failed and again):
            found.append(FunctionCall(name=call.function.name, arguments=arguments(call)))
    return tuple(found)


def _found(messages: Sequence[Message], pool: Sequence[Api]) -> tuple[Api, ...]:
    """The APIs that API Search returned, in order."""
    apis = {api.function: api for api in pool}
    shown = [envelope(m).response for m in messages if m.name == API_SEARCH.function]
    names = [one.get("name") for each in shown for one in each or () if isinstance(one, dict)]
    return tuple({n: apis[n] for n in names if isinstance(n, str) and n in apis}.values())


def goal_lines(text: str, now: dt.datetime) -> str:
    """A goal, up to where its calls begin. Raises NotRepresentable for text like further lines."""
    if not text.strip():
        raise NotRepresentable("the user says nothing")
    if _MARK.search(text):
        raise NotRepresentable("words look like the beginning of another goal")
    return f"Now: {moment(now)}\nGoal: {text}\nActions:"


def action_text(calls: Sequence[FunctionCall]) -> str:
    """Calls as text in one line. Raises NotRepresentable if they would not be read back."""
    with suppress(ValueError, RecursionError):  # numbers too long to write, values too deep
        text = write(calls)
        if "\n" not in text and parse(text) == tuple(calls):
            return text
    raise NotRepresentable("calls that this syntax cannot hold")


# Few-shot

SHOTS = 3
FEWER = "as many demonstrations as asked for"


def few_shot(sample: Sample, form: Arguments) -> Exported:
    """A sample without demonstrations."""
    goal = goal_of(sample)
    return Exported((("sft", _row(goal, ())),), goal.lost)


class FewShots:
    """Shows each goal the demonstrations most like it.

    They come from `train`, whatever the split, and are a few in which every API occurs.
    """

    def __init__(self, source: ExportSource, shots: int = SHOTS) -> None:
        """Reads `train` once. Raises ExportError if it has no samples."""
        self._shots = shots
        if shots and Split.TRAIN not in source.splits("samples"):
            raise ExportError(
                f"{source.name} has no samples in train, where demonstrations come from. "
                "Choose --shots 0."
            )
        shown: list[Demonstration] = []
        for one in repository(source.samples(Split.TRAIN.value))[0] if shots else ():
            with suppress(NotRepresentable):  # in words that would not be read back
                _text(one)
                shown.append(one)
        self._retriever = Retriever(shown)

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        goal = goal_of(sample)
        shown = self._retriever.similar(goal.request, self._shots, sample.id, goal.calls)
        fewer = () if len(shown) == self._shots else (FEWER,)
        return Exported((("sft", _row(goal, shown)),), (*goal.lost, *fewer))

    def rest(self) -> Rows:
        return ()


def _row(goal: Goal, shown: Sequence[Demonstration]) -> JsonObject:
    prompt = render(
        "few_shot",
        {
            "apis": [line for _, line in goal.documents.values()],
            "demonstrations": [_text(one) for one in shown],
            "goal": goal.text,
        },
    )
    answer = {"role": "assistant", "content": goal.actions}
    return {
        "id": goal.id,
        "messages": [*prompt.messages, answer],
        "demonstrations": [one.id for one in shown],
    }


def _text(one: Demonstration) -> str:
    return f"{goal_lines(one.goal, one.now)} {action_text(one.calls)}"


# All-shot

LONGEST = 2_048  # tokens of a sequence, as in the paper
BYTES = 4  # of a token, about
OPEN, OF_CATEGORY = 256, 16  # sequences that wait for goals: in all, and of one category
HEAD = "API functions:"


class GoalSequence:
    """A row of all-shot that is growing, in Axolotl's template-free form: `label` says which
    segments have a loss. Nothing separates one goal from the next."""

    def __init__(self, category: str = "") -> None:
        self.category = category
        self._goals: list[Goal] = []
        self._documents: dict[str, tuple[str, str]] = {}
        self.stems = set[str]()  # of the templates whose rows it has
        self._size = _size(HEAD) + 2  # and the lines' ends

    def _added(self, goal: Goal) -> tuple[dict[str, tuple[str, str]], int]:
        """The documents that a goal brings along, and the bytes it takes with them."""
        new = {i: api for i, api in goal.documents.items() if i not in self._documents}
        texts = [goal.text, f" {goal.actions}\n", *(f"{line}\n" for _, line in new.values())]
        return new, sum(map(_size, texts))

    def fits(self, goal: Goal) -> bool:
        """Whether there is room, and what it brings along changes no other goal's right calls."""
        new, size = self._added(goal)
        functions = {function for function, _ in self._documents.values()}
        return (
            self._size + size <= LONGEST * BYTES
            and goal.outside not in self._documents
            and not any(one.outside in new for one in self._goals)
            and not any(function in functions for function, _ in new.values())
        )

    def add(self, goal: Goal) -> None:
        new, size = self._added(goal)
        self._size += size
        self._goals.append(goal)
        self._documents |= new
        self.stems.add(stem(goal.id))

    def row(self) -> JsonObject:
        before = "\n".join([HEAD, *(line for _, line in self._documents.values()), "", ""])
        segments = []
        for goal in self._goals:
            segments.append({"label": False, "text": before + goal.text})
            segments.append({"label": True, "text": f" {goal.actions}\n"})
            before = ""
        ids = [goal.id for goal in self._goals]
        return {"ids": ids, "apis": list(self._documents), "segments": segments}


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def all_shot(sample: Sample, form: Arguments) -> Exported:
    """A sample in a sequence of its own."""
    goal = _fitting(sample)
    alone = GoalSequence()
    alone.add(goal)
    return Exported((("sft", alone.row()),), goal.lost)


def _fitting(sample: Sample) -> Goal:
    """The goal of a sample. Raises NotRepresentable, also if it is too long."""
    goal = goal_of(sample)
    if not GoalSequence().fits(goal):
        raise NotRepresentable(f"longer than a sequence of {LONGEST:,} tokens")
    return goal


class AllShots:
    """Puts goals of one category into one sequence, each goal into one."""

    def __init__(self, source: ExportSource | None = None, shots: int = 0) -> None:
        """Needs neither."""
        self._open: list[GoalSequence] = []

    def rows(self, sample: Sample, form: Arguments) -> Exported:
        """Add a goal where it fits; the sequences that made room for a new one.

        Rows of one template come one after the other: each goes to another sequence as long as
        there are few.
        """
        goal = _fitting(sample)
        others = [one for one in self._open if one.category != goal.category]
        same = [one for one in self._open if one.category == goal.category]
        fitting = [one for one in same if one.fits(goal)]
        chosen = [one for one in fitting if stem(goal.id) not in one.stems]
        full = list[GoalSequence]()
        if not chosen and len(same) == OF_CATEGORY:
            chosen = fitting
            full = [] if fitting else [same.pop(0)]
        if not chosen:
            chosen = [GoalSequence(goal.category)]
            same += chosen
        chosen[0].add(goal)
        self._open = [*others, *same]
        if len(self._open) > OPEN:
            full.append(self._open.pop(0))  # of the category that waits longest
        return Exported(tuple(("sft", one.row()) for one in full), goal.lost, waits=True)

    def rest(self) -> Rows:
        left, self._open = self._open, []
        return tuple(("sft", one.row()) for one in left)


def all_shot_notes(place: ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    head = [f"sequence_len: {LONGEST}", "sample_packing: false", "train_on_inputs: false"]
    return axolotl_yaml(place, head, ["type: input_output"])
