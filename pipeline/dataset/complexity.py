"""How far the API calls of test samples are from those of examples, and which examples to show.

The tool manipulation paper. Appendix D: the complexity score and the reversed F1; what a sample
needs is a multiset of APIs: order does not matter, and two calls of one API are different calls.
Section 4.2: demonstrations, a repository of O(n) examples for n APIs, and a retriever that shows
the most similar ones. Similar is what BM25 finds: goals are short, and no model is asked.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from pydantic import Field

from toolloom.pipeline.apis.search import SearchIndex
from toolloom.pipeline.checks.transcript import made
from toolloom.pipeline.store.version import Version
from toolloom.schemas import FunctionCall, NothingFound, Record, Sample, Split, canonical
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
    having = defaultdict[tuple[str, int], list[int]](list)  # the examples that have a call
    for place, one in enumerate(known):
        for call in _calls(one):
            having[call].append(place)
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


@dataclass(frozen=True)
class Demonstration:
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
