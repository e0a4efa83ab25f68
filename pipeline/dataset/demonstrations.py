"""Demonstrations: how far test samples are from them, which to show, and rows that show them.

All of it is of the tool manipulation paper.

Appendix D: the complexity score and the reversed F1; what a sample needs is a multiset of APIs:
order does not matter, and two calls of one API are different calls. Section 4.2: a repository of
O(n) examples for n APIs, and a retriever that shows the most similar ones. Similar is what BM25
finds: goals are short, and no model is asked.

Rows are goals and the calls that serve them, as lines of text:

    Now: Monday 2026-03-02 09:30
    Goal: What is the weather in Oslo?
    Actions: [current_weather(city='Oslo')]

Goals may have several lines; those in which a line begins as one of these do not fit. An answer
begins with the space after `Actions:`, as tokenizers part words. Few-shot (sections 4.2 and 4.3) is
a goal with the API functions, demonstrations, and calls as the whole answer; all-shot (section C.2)
API documents, then goals with a loss on every call.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from toolloom.agents.query import moment
from toolloom.pipeline.apis.search import SearchIndex
from toolloom.pipeline.checks.text.call_text import parse, write
from toolloom.pipeline.checks.transcript import known_functions, made
from toolloom.pipeline.formats import base
from toolloom.pipeline.formats.chat import axolotl_yaml
from toolloom.pipeline.store.version import Version
from toolloom.prompts import render
from toolloom.schemas import (
    API_SEARCH,
    ExportError,
    FunctionCall,
    JsonObject,
    NothingFound,
    Record,
    Sample,
    Scenario,
    Split,
    canonical,
    grouped,
)
from toolloom.schemas.splits import SEEN

Combination: TypeAlias = tuple[str, ...]
"""Ids of the APIs that are called, sorted; one that is called twice is there twice."""


class Hard(Record):
    """A combination of the tests that is far from all examples."""

    apis: Combination
    samples: int = Field(description="Tests that need it.")
    distance: float = Field(description="To the nearest example.")
    nearest: Combination = Field(description="The nearest example.")
    lacking: Combination = Field(description="Calls that the nearest example lacks.")


class Complexity(Record):
    """How hard it is to choose the calls of a split, given the examples of another."""

    test: str = Field(description="The split that is tested.")
    examples: str = Field(description="The split of the examples.")
    demonstrations: bool = Field(description="The examples are demonstrations of their split.")
    score: float = Field(description="S(T, X, D), with natural logarithms.")
    reversed_f1: float = Field(description="Mean of min (1 - F1) * 100.")
    tests: int = Field(description="|T|: samples that are tested.")
    shown: int = Field(description="|X|: samples that are examples.")
    idle_tests: int = Field(description="Samples of the test left out: no call.")
    idle_examples: int = Field(description="Samples of the examples left out: no call.")
    apis: int = Field(description="|D|: APIs of the dataset.")
    test_combinations: int = Field(description="Different combinations among the tests.")
    example_combinations: int = Field(description="Different combinations among the examples.")
    seen: float = Field(description="Share of the tests' combinations that examples have, 0 to 1.")
    seen_samples: float = Field(description="Share of tests with such a combination.")
    hardest: tuple[Hard, ...] = Field(description="The farthest combinations.")


class ComplexityReport(Record):
    """The figures of some splits of a version."""

    dataset: str
    figures: tuple[Complexity, ...]
    uncovered: tuple[str, ...] = Field(description="APIs that no demonstration calls.")


def _calls(sorted_: Combination) -> list[tuple[str, int]]:
    """Each call with how many of its API came before: as a set, these are the multiset."""
    return [(api, place) for api, same in groupby(sorted_) for place, _ in enumerate(same)]


def measure(
    tests: Counter[Combination], examples: Counter[Combination], apis: int, *, keep: int = 5
) -> dict[str, Any]:
    """The figures of a Complexity, with the `keep` farthest combinations, none of them empty.

    The distance is -ln p(t|e, D): each call of the example is kept or dropped, each that it lacks
    is one of D. With one API there is nothing to choose: ln 1 is 0. Each different combination is
    compared once, and memory grows with their calls alone.
    """
    known, total = sorted(examples), tests.total()
    sizes = np.array([len(one) for one in known], dtype=np.int64)
    # The examples that have a call.
    having = grouped((call, place) for place, one in enumerate(known) for call in _calls(one))
    distances, reversed_f1, hardest = list[float](), list[float](), list[Hard]()
    for one, count in sorted(tests.items()):
        # How many calls each example has in common with the test.
        places = [place for call in _calls(one) for place in having.get(call, ())]
        shared = np.bincount(np.array(places, np.int64), minlength=len(known))
        far = sizes * math.log(2) + (len(one) - shared) * math.log(apis)
        nearest, distance = known[int(far.argmin())], float(far.min())
        distances.append(count * distance)
        f1 = float((2 * shared / (sizes + len(one))).max())
        reversed_f1.append(count * ((1 - f1) * 100))
        lacking = tuple(sorted((Counter(one) - Counter(nearest)).elements()))
        hard = Hard(apis=one, samples=count, distance=distance, nearest=nearest, lacking=lacking)
        hardest.append(hard)
    seen = tests.keys() & examples
    return {
        "score": math.fsum(distances) / total,
        "reversed_f1": math.fsum(reversed_f1) / total,
        "tests": total,
        "shown": examples.total(),
        "apis": apis,
        "test_combinations": len(tests),
        "example_combinations": len(examples),
        "seen": len(seen) / len(tests),
        "seen_samples": sum(tests[one] for one in seen) / total,
        "hardest": tuple(sorted(hardest, key=lambda one: -one.distance)[:keep]),
    }


def complexity(
    version: Version,
    test: str | None = None,
    examples: str = "train",
    *,
    demonstrations: bool = False,
    keep: int = 5,
) -> ComplexityReport:
    """The figures of one split, or of all splits, with another's samples as examples.

    With `demonstrations` the examples are a few of theirs in which every API occurs (section 4.2).
    Samples that call nothing, as where no API fits, are left out: they have no combination to come
    by, and as an example each would be the nearest to nearly everything. Raises NothingFound for a
    split without samples that call something, StoreError for damaged files.
    """
    splits = version.splits("samples")
    apis = {s: {row["id"] for row in version.rows("apis", s)} for s in version.splits("apis")}
    total = len(set[str]().union(*apis.values()))
    if not total:
        raise NothingFound(f"{version.label}: its config `apis` is empty, so |D| is not known.")
    wanted = [test] if test else splits
    needs = {
        split: Counter(demonstration(sample).apis for sample in version.samples(split))
        for split in {*wanted, examples}
    }
    idle = {split: found.pop((), 0) for split, found in needs.items()}
    for split in (examples, test or examples):
        if not needs[split]:
            raise NothingFound(
                f"{version.label}: no sample of a split {split!r} calls an API. "
                f"Name one of these: {', '.join(splits) or 'there are none'}."
            )
    shown, uncovered = needs[examples], tuple[str, ...]()
    if demonstrations:
        shown = Counter(one.apis for one in repository(version.samples(examples)))
        there = apis.get(Split.TRAIN if examples in SEEN else examples, set())
        uncovered = tuple(sorted(there.difference(*shown)))
    figures = tuple(
        Complexity(
            test=split,
            examples=examples,
            demonstrations=demonstrations,
            idle_tests=idle[split],
            idle_examples=0 if demonstrations else idle[examples],
            **measure(needs[split], shown, total, keep=keep),
        )
        for split in wanted
        if needs[split]
    )
    return ComplexityReport(dataset=version.label, figures=figures, uncovered=uncovered)


class Demonstration(NamedTuple):
    """A goal and the calls that served it."""

    id: str
    goal: str  # what the user said
    now: dt.datetime
    calls: tuple[FunctionCall, ...]  # those that succeeded, API Search apart
    apis: Combination
    plain: bool  # said in one turn, and no call needs the result of another


def stem(identity: str) -> str:
    """The id of a sample without what tells rows of one template apart."""
    return re.sub(r"(?:-x\d{1,18})+$", "", identity)


def signature(calls: Iterable[FunctionCall]) -> str:
    """Equal for equal calls, whatever their order."""
    return canonical(sorted(canonical([call.name, call.arguments]) for call in calls))


def demonstration(sample: Sample) -> Demonstration:
    """A sample as a demonstration, which may have no call."""
    dialogue = sample.dialogue
    done = [call for call in made(dialogue) if not call.failed and not call.is_search]
    said = [message.content or "" for message in dialogue.messages if message.role == "user"]
    return Demonstration(
        id=sample.id,
        goal="\n".join(said),
        now=dialogue.query.now,
        calls=tuple(FunctionCall(name=call.name, arguments=call.arguments) for call in done),
        apis=tuple(sorted(call.api.id if call.api else call.name for call in done)),
        plain=len(said) == 1 and not any(i.references for i in dialogue.query.due),
    )


def repository(samples: Iterable[Sample]) -> list[Demonstration]:
    """Demonstrations in which each API occurs that is called, as few as it goes.

    Of samples that call the same APIs one is kept in mind: the plain one, with the fewest calls,
    that came first. Those that are not plain serve where no plain one does. The same samples give
    the same demonstrations; memory grows with the different combinations alone.
    """
    best: dict[frozenset[str], Demonstration] = {}
    for one in map(demonstration, samples):
        earlier = best.setdefault(frozenset(one.apis), one)
        if (not one.plain, len(one.calls)) < (not earlier.plain, len(earlier.calls)):
            best[frozenset(one.apis)] = one
    best.pop(frozenset(), None)
    chosen, covered = list[Demonstration](), set[str]()
    for plain in (True, False):
        candidates = [one for one in best.values() if one.plain is plain]
        # Whoever shows most APIs that are not covered yet is next (greedy set cover).
        while candidates:
            most = max(candidates, key=lambda one: len({*one.apis} - covered))
            if covered >= {*most.apis}:
                break
            covered |= {*most.apis}
            chosen.append(most)
    return chosen


class Retriever:
    """Finds the demonstrations most like a goal."""

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._all = demonstrations
        self._index = SearchIndex([one.goal for one in demonstrations]) if demonstrations else None
        # Of each, what gives an answer away.
        self._kin = [{stem(one.id), signature(one.calls)} for one in self._all]

    def similar(
        self, goal: str, k: int, identity: str = "", calls: Sequence[FunctionCall] = ()
    ) -> list[Demonstration]:
        """At most `k` demonstrations that share words with a goal, the most similar first.

        Never what would give the answer away: the sample itself, rows of its template, or a
        sample of the same calls.
        """
        own = {stem(identity), signature(calls)}
        found = self._index.top(goal, len(self._all)) if self._index and k else []
        return [self._all[place] for place in found if own.isdisjoint(self._kin[place])][:k]


# Rows


class Goal(NamedTuple):
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
        raise base.NotRepresentable("calls need the results of others")
    first, goes_on = base.first_task(base.spoken(sample.dialogue.messages))
    worked = {m.tool_call_id: base.envelope(m).error is None for m in first if m.role == "tool"}
    asked = [call for m in first for call in m.tool_calls]
    calls = tuple(
        FunctionCall(name=call.function.name, arguments=base.arguments(call))
        for place, call in enumerate(asked)
        if call.function.name != API_SEARCH.function
        # One that failed and was tried again counts once.
        and (worked.get(call.id) or call.function not in [a.function for a in asked[place + 1 :]])
    )
    if not calls and query.scenario is not Scenario.IRRELEVANCE:
        raise base.NotRepresentable("the assistant asks before it calls")
    pool = {api.function: api for api in query.pool}
    given = {name: pool[name] for name in known_functions(query, first) if name in pool}
    if {call.name for call in calls} - {*given}:
        raise base.NotRepresentable("an API is called that is not among those given")
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
            api.id: (name, base.spaced(api.as_tool()["function"])) for name, api in given.items()
        },
        category=next((api.category for api in called), ""),
        outside=query.outside.id if query.outside and not calls else "",
        lost=lost,
    )


def goal_lines(text: str, now: dt.datetime, calls: Sequence[FunctionCall]) -> tuple[str, str]:
    """A goal up to where its calls begin, and these in one line. Raises NotRepresentable for text
    like further lines, and for calls that would not be read back."""
    if not text.strip():
        raise base.NotRepresentable("the user says nothing")
    if re.search(r"\n(?:Now: |Goal: |Actions:)", text):
        raise base.NotRepresentable("words look like the beginning of another goal")
    with suppress(ValueError, RecursionError):  # numbers too long to write, values too deep
        actions = write(calls)
        if "\n" not in actions and parse(actions) == tuple(calls):
            return f"Now: {moment(now)}\nGoal: {text}\nActions:", actions
    raise base.NotRepresentable("calls that this syntax cannot hold")


# Few-shot

SHOTS = 3
FEWER = "as many demonstrations as asked for"


class FewShots:
    """Shows each goal the demonstrations most like it.

    They come from `train`, whatever the split, and are a few in which every API occurs.
    """

    def __init__(self, source: Version | None, shots: int = SHOTS) -> None:
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
                with suppress(base.NotRepresentable):  # in words that would not be read back
                    self._texts[one.id] = " ".join(goal_lines(one.goal, one.now, one.calls))
                    shown.append(one)
        self._retriever = Retriever(shown)

    def rows(self, sample: Sample, form: base.Arguments) -> base.Exported:
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
        return base.Exported((("sft", row),), (*goal.lost, *fewer))

    def rest(self) -> base.Rows:
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


def all_shot(sample: Sample, form: base.Arguments) -> base.Exported:
    """A sample in a sequence of its own."""
    alone = AllShots()
    return replace(alone.rows(sample, form), rows=alone.rest())


class AllShots:
    """Puts goals of one category into one sequence, each goal into one."""

    def __init__(self, source: Version | None = None, shots: int = 0) -> None:
        """Needs neither."""
        self._open: list[list[Goal]] = []

    def rows(self, sample: Sample, form: base.Arguments) -> base.Exported:
        """Add a goal where it fits; the sequences that made room for a new one.

        Rows of one template come one after the other: each goes to another sequence as long as
        there are few. Raises NotRepresentable, also for a goal that alone is too long.
        """
        goal = goal_of(sample)
        if not fits([goal]):
            raise base.NotRepresentable(f"longer than a sequence of {LONGEST:,} tokens")
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
        return base.Exported(tuple(("sft", sequence(one)) for one in full), goal.lost)

    def rest(self) -> base.Rows:
        left, self._open = self._open, []
        return tuple(("sft", sequence(one)) for one in left)


def all_shot_notes(place: base.ExportPlace) -> dict[str, str]:
    """The lines of Axolotl's configuration."""
    head = [f"sequence_len: {LONGEST}", "sample_packing: false", "train_on_inputs: false"]
    return axolotl_yaml(place, head, ["type: input_output"])
