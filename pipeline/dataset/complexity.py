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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from pydantic import Field

from toolloom.pipeline.apis.search import SearchIndex
from toolloom.pipeline.checks.transcript import made
from toolloom.pipeline.store.version import Version
from toolloom.schemas import (
    FunctionCall,
    NothingFound,
    Record,
    Sample,
    Split,
    canonical,
)
from toolloom.schemas.splits import SEEN

Combination: TypeAlias = tuple[str, ...]
"""Ids of the APIs that are called, sorted; one that is called twice is there twice."""

HARDEST = 5
_LN2 = math.log(2)
_ROW = re.compile(r"(?:-x\d{1,18})+$")  # what an expanded row adds to its template's id


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
    demonstrations: bool = Field(
        default=False, description="The examples are demonstrations chosen from their split."
    )
    score: float = Field(description="S(T, X, D), with natural logarithms.")
    reversed_f1: float = Field(description="Mean of min (1 - F1) * 100.")
    tests: int = Field(description="|T|: samples that are tested.")
    shown: int = Field(description="|X|: samples that are examples.")
    idle_tests: int = Field(default=0, description="Samples of the test left out: no call.")
    idle_examples: int = Field(default=0, description="Samples of the examples left out: no call.")
    apis: int = Field(description="|D|: APIs of the dataset.")
    test_combinations: int = Field(description="Different combinations among the tests.")
    example_combinations: int = Field(description="Different combinations among the examples.")
    seen: float = Field(description="Share of the tests' combinations that examples have, 0 to 1.")
    seen_samples: float = Field(description="Share of tests with such a combination.")
    hardest: tuple[Hard, ...] = Field(default=(), description="The farthest combinations.")


class ComplexityReport(Record):
    """The figures of some splits of a version."""

    dataset: str
    figures: tuple[Complexity, ...]
    uncovered: tuple[str, ...] = Field(
        default=(), description="APIs that no demonstration calls, where there are such."
    )


class Examples:
    """Different combinations, ready to be compared with: memory grows with their calls alone."""

    def __init__(self, combinations: Iterable[Combination]) -> None:
        self.combinations = sorted(set(combinations))
        self._sizes = np.array([len(one) for one in self.combinations], dtype=np.int64)
        places: dict[tuple[str, int], list[int]] = {}
        for place, one in enumerate(self.combinations):
            for call in _calls(one):
                places.setdefault(call, []).append(place)
        self._places = {call: np.array(found, np.int64) for call, found in places.items()}

    def nearest(self, test: Combination, apis: int) -> tuple[float, Combination, float]:
        """The least distance with the example it is to, and the least reversed F1, of 100.

        The distance is -ln p(t|e, D): each call of the example is kept or dropped, each that it
        lacks is one of D. Nothing is called: an empty example costs nothing, and an empty test the
        dropping of all. With one API there is nothing to choose: ln 1 is 0.
        """
        # How many calls each example has in common with the test.
        places = [self._places[call] for call in _calls(test) if call in self._places]
        count = len(self.combinations)
        shared = np.bincount(np.concatenate([np.empty(0, np.int64), *places]), minlength=count)
        distances = self._sizes * _LN2 + (len(test) - shared) * math.log(apis)
        best = int(distances.argmin())
        both = self._sizes + len(test)
        f1 = np.where(both > 0, 2 * shared / np.maximum(both, 1), 1.0)
        return float(distances[best]), self.combinations[best], float(1 - f1.max()) * 100


def _calls(sorted_: Combination) -> Iterator[tuple[str, int]]:
    """Each call with how many of its API came before: as a set, these are the multiset."""
    seen = Counter[str]()
    for api in sorted_:
        yield api, seen[api]
        seen[api] += 1


def measure(
    tests: Counter[Combination], examples: Counter[Combination], apis: int, *, keep: int = HARDEST
) -> dict[str, Any]:
    """The figures of a Complexity, with the `keep` farthest combinations.

    Each different combination is compared once.
    """
    known, total = Examples(examples), tests.total()
    rows = [(one, count, *known.nearest(one, apis)) for one, count in sorted(tests.items())]
    rows.sort(key=lambda row: -row[2])
    seen = [one for one in tests if one in examples]
    hardest = [
        Hard(
            apis=one,
            samples=count,
            distance=far,
            nearest=nearest,
            lacking=tuple(sorted((Counter(one) - Counter(nearest)).elements())),
        )
        for one, count, far, nearest, _ in rows[:keep]
    ]
    return {
        "score": math.fsum(row[1] * row[2] for row in rows) / total,
        "reversed_f1": math.fsum(row[1] * row[4] for row in rows) / total,
        "tests": total,
        "shown": examples.total(),
        "apis": apis,
        "test_combinations": len(tests),
        "example_combinations": len(examples),
        "seen": len(seen) / len(tests),
        "seen_samples": sum(tests[one] for one in seen) / total,
        "hardest": tuple(hardest),
    }


def complexity(
    version: Version,
    test: str | None = None,
    examples: str = "train",
    *,
    demonstrations: bool = False,
    keep: int = HARDEST,
) -> ComplexityReport:
    """The figures of one split, or of all splits, with another's samples as examples.

    With `demonstrations` the examples are a few of theirs in which every API occurs (section 4.2).
    Samples that call nothing, as where no API fits, are left out: they have no combination to come
    by, and as an example each would be the nearest to nearly everything. Raises NothingFound for a
    split without samples that call something, StoreError for damaged files.
    """
    there = [split for split in version.splits("samples") if version.files("samples", split)]
    splits = version.splits("samples") if test is None else [test]
    for split in (*splits, examples):
        if split not in there:
            raise NothingFound(
                f"{version.label} has no samples in a split {split!r}. "
                f"Name one of these: {', '.join(there) or 'there are none'}."
            )
    apis = {s: {row["id"] for row in version.rows("apis", s)} for s in version.splits("apis")}
    total = len(set[str]().union(*apis.values()))
    if not total:
        raise NothingFound(f"{version.label}: its config `apis` is empty, so |D| is not known.")
    needs = {split: combinations(version, split) for split in {*splits, examples}}
    idle = {split: found.pop((), 0) for split, found in needs.items()}
    for split in {examples, *([test] if test else [])}:
        if not needs[split]:
            raise NothingFound(
                f"{version.label}: no sample of {split} calls an API, so there is nothing to "
                "compare. Name another split with --examples or --test."
            )
    shown, uncovered = needs[examples], tuple[str, ...]()
    if demonstrations:
        wanted = apis.get(Split.TRAIN if examples in SEEN else examples, set())
        chosen = repository(version.samples(examples), wanted)
        shown, uncovered = Counter(one.apis for one in chosen.demonstrations), chosen.uncovered
    figures = tuple(
        Complexity(
            test=split,
            examples=examples,
            demonstrations=demonstrations,
            idle_tests=idle[split],
            idle_examples=0 if demonstrations else idle[examples],
            **measure(needs[split], shown, total, keep=keep),
        )
        for split in splits
        if needs[split]
    )
    return ComplexityReport(dataset=version.label, figures=figures, uncovered=uncovered)


def combinations(version: Version, split: str) -> Counter[Combination]:
    """How many samples of a split need which calls."""
    found = map(demonstration, version.samples(split))
    return Counter(one.apis if one else () for one in found)


@dataclass(frozen=True)
class Demonstration:
    """A goal and the calls that served it."""

    id: str
    goal: str  # what the user said
    now: dt.datetime
    calls: tuple[FunctionCall, ...]  # those that succeeded, API Search apart
    apis: tuple[str, ...]  # ids of their APIs, sorted; one that is called twice is there twice
    plain: bool  # said in one turn, and no call needs the result of another

    @property
    def signature(self) -> str:
        """Its calls, whatever their order."""
        return signature(self.calls)


@dataclass(frozen=True)
class Repository:
    """Demonstrations in which every API occurs that any sample calls."""

    demonstrations: tuple[Demonstration, ...]
    uncovered: tuple[str, ...]  # ids of wanted APIs that no sample calls


def stem(identity: str) -> str:
    """The id of a sample without what tells rows of one template apart."""
    return _ROW.sub("", identity)


def signature(calls: Iterable[FunctionCall]) -> str:
    """Equal for equal calls, whatever their order."""
    return canonical(sorted(canonical([call.name, call.arguments]) for call in calls))


def demonstration(sample: Sample) -> Demonstration | None:
    """A sample as a demonstration; none if it calls nothing."""
    dialogue = sample.dialogue
    done = [call for call in made(dialogue) if not call.failed and not call.is_search]
    said = [message.content or "" for message in dialogue.messages if message.role == "user"]
    if not done or not any(said):
        return None
    return Demonstration(
        id=sample.id,
        goal="\n".join(said),
        now=dialogue.query.now,
        calls=tuple(FunctionCall(name=call.name, arguments=call.arguments) for call in done),
        apis=tuple(sorted(call.api.id if call.api else call.name for call in done)),
        plain=len(said) == 1 and not any(i.references for i in dialogue.query.due),
    )


def repository(samples: Iterable[Sample], wanted: Iterable[str] = ()) -> Repository:
    """Choose demonstrations so that each API that is called occurs, with as few as it goes.

    Of samples that call the same APIs one is kept in mind: the plain one, with the fewest calls,
    that came first. Those that are not plain serve where no plain one does. The same samples give
    the same demonstrations; memory grows with the different combinations alone.
    """
    best: dict[frozenset[str], Demonstration] = {}
    for sample in samples:
        one = demonstration(sample)
        if one is None:
            continue
        earlier = best.setdefault(frozenset(one.apis), one)
        if (not one.plain, len(one.calls)) < (not earlier.plain, len(earlier.calls)):
            best[frozenset(one.apis)] = one
    covered = set[str]()
    chosen = [
        one
        for plain in (True, False)
        for one in _cover([d for d in best.values() if d.plain is plain], covered)
    ]
    return Repository(tuple(chosen), tuple(sorted({*wanted} - covered)))


def _cover(candidates: Sequence[Demonstration], covered: set[str]) -> Iterator[Demonstration]:
    """Those who show most APIs that are not covered yet, one after the other (greedy set cover)."""
    while candidates:
        best = max(candidates, key=lambda one: len({*one.apis} - covered))
        if covered >= {*best.apis}:
            return
        covered |= {*best.apis}
        yield best


class Retriever:
    """Finds the demonstrations most like a goal."""

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._all = tuple(demonstrations)
        self._index = SearchIndex([one.goal for one in self._all]) if self._all else None
        self._kin: dict[tuple[str, str], list[int]] = defaultdict(list)
        for place, one in enumerate(self._all):
            for key in (("stem", stem(one.id)), ("calls", one.signature)):
                self._kin[key].append(place)

    def similar(
        self, goal: str, k: int, identity: str = "", calls: Sequence[FunctionCall] = ()
    ) -> list[Demonstration]:
        """At most `k` demonstrations that share words with a goal, the most similar first.

        Never what would give the answer away: the sample itself, rows of its template, or a
        sample of the same calls.
        """
        keys = (("stem", stem(identity)), ("calls", signature(calls)))
        kin = {place for key in keys for place in self._kin.get(key, ())}
        found = self._index.top(goal, k + len(kin)) if self._index and k else []
        return [self._all[place] for place in found if place not in kin][:k]
