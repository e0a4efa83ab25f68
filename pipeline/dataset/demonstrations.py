"""Demonstrations: a few samples in which every API occurs, and those most like a goal.

The tool manipulation paper, section 4.2: a repository of O(n) examples for n APIs, and a retriever
that shows the most similar ones. Similar is what BM25 finds: goals are short, and no model is
asked.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from toolloom.pipeline.apis.search import Index
from toolloom.pipeline.checks.transcript import Made, made
from toolloom.schemas import FunctionCall, Sample, canonical

_ROW = re.compile(r"(?:-x\d{1,18})+$")  # what an expanded row adds to its template's id


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
        apis=tuple(sorted(map(_api, done))),
        plain=len(said) == 1 and not any(i.references for i in dialogue.query.due),
    )


def _api(call: Made) -> str:
    return call.api.id if call.api else call.name


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
        known = best.get(frozenset(one.apis))
        if known is None or _rank(one) < _rank(known):
            best[frozenset(one.apis)] = one
    covered = set[str]()
    chosen = [
        one
        for plain in (True, False)
        for one in _cover([d for d in best.values() if d.plain is plain], covered)
    ]
    return Repository(tuple(chosen), tuple(sorted({*wanted} - covered)))


def _rank(one: Demonstration) -> tuple[bool, int]:
    return not one.plain, len(one.calls)


def _cover(candidates: Sequence[Demonstration], covered: set[str]) -> Iterator[Demonstration]:
    """Those who show most APIs that are not covered yet, one after the other (greedy set cover).

    What a candidate adds only shrinks, so that what was counted before is a bound: only the first
    of the heap is counted again.
    """
    heap = [(-len({*one.apis}), place) for place, one in enumerate(candidates)]
    heapify(heap)
    while heap:
        bound, place = heappop(heap)
        fresh = {*candidates[place].apis} - covered
        if -bound > len(fresh) > 0:
            heappush(heap, (-len(fresh), place))
        elif fresh:
            covered |= fresh
            yield candidates[place]


class Retriever:
    """Finds the demonstrations most like a goal."""

    def __init__(self, demonstrations: Sequence[Demonstration]) -> None:
        self._all = tuple(demonstrations)
        self._index = Index([one.goal for one in self._all]) if self._all else None
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
