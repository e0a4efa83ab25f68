"""How far the API calls of test samples are from those of examples.

The complexity score and the reversed F1 of the tool manipulation paper (appendix D). What a
sample needs is a multiset of APIs: order does not matter, and two calls of one API are different
calls.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pydantic import Field

from toolloom.pipeline.dataset.demonstrations import Repository, repository
from toolloom.pipeline.store.version import Version
from toolloom.schemas import API_SEARCH, JsonObject, NothingFound, Record, Split, StoreError
from toolloom.schemas.splits import SEEN, api_id

if TYPE_CHECKING:
    from numpy.typing import NDArray

Combination: TypeAlias = tuple[str, ...]
"""Ids of the APIs that are called, sorted; one that is called twice is there twice."""

HARDEST = 5
ENVELOPE = {"response", "error"}  # of an observation
_LN2 = math.log(2)


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


class Report(Record):
    """The figures of some splits of a version."""

    dataset: str
    figures: tuple[Complexity, ...]
    uncovered: tuple[str, ...] = Field(
        default=(), description="APIs that no demonstration calls, where there are such."
    )


def combination(dialogue: JsonObject) -> Combination:
    """What a dialogue, as JSON, needs to call: its successful calls without API Search."""
    ids = {api["function"]: api_id(api) for api in dialogue["query"]["pool"]}
    messages = dialogue["messages"]
    done = {m["tool_call_id"] for m in messages if m["role"] == "tool" and _succeeded(m)}
    made = (call for m in messages for call in m.get("tool_calls") or () if call["id"] in done)
    called = (c["function"] for c in made if isinstance(c["function"]["arguments"], dict))
    names = (function["name"] for function in called)
    return tuple(sorted(ids.get(name, name) for name in names if name != API_SEARCH.function))


def _succeeded(message: JsonObject) -> bool:
    """Whether a tool message holds a result, in the envelope, and no error."""
    try:
        seen = json.loads(message.get("content") or "")
    except ValueError:
        return False
    return isinstance(seen, dict) and {*seen} <= ENVELOPE and seen.get("error") is None


def distance(test: Sequence[str], example: Sequence[str], apis: int) -> float:
    """-ln p(t|e, D): each call of the example is kept or dropped, each that it lacks is one of D.

    Nothing is called: an empty example costs nothing, and an empty test the dropping of all. With
    one API there is nothing to choose: ln 1 is 0. Raises ValueError without APIs.
    """
    lacking = (Counter(test) - Counter(example)).total()
    return len(example) * _LN2 + lacking * _log(apis)


def reversed_f1(test: Sequence[str], example: Sequence[str]) -> float:
    """(1 - F1) * 100, on multisets; two that call nothing agree."""
    if not test and not example:
        return 0.0
    shared = (Counter(test) & Counter(example)).total()
    return (1 - 2 * shared / (len(test) + len(example))) * 100


def _log(apis: int) -> float:
    if apis < 1:
        raise ValueError("without APIs there are no calls to choose from")
    return math.log(apis)


class Examples:
    """Different combinations, ready to be compared with: memory grows with their calls alone."""

    def __init__(self, combinations: Iterable[Combination]) -> None:
        """Raises ValueError if there are none."""
        self.combinations = sorted(set(combinations))
        if not self.combinations:
            raise ValueError("there are no examples")
        self._sizes = np.array([len(one) for one in self.combinations], dtype=np.int64)
        places: dict[tuple[str, int], list[int]] = {}
        for place, one in enumerate(self.combinations):
            for call in _calls(one):
                places.setdefault(call, []).append(place)
        self._places = {call: np.array(found, np.int64) for call, found in places.items()}

    def nearest(self, test: Combination, apis: int) -> tuple[float, Combination, float]:
        """The least distance with the example it is to, and the least reversed F1."""
        shared = self._shared(test)
        distances = self._sizes * _LN2 + (len(test) - shared) * _log(apis)
        best = int(distances.argmin())
        both = self._sizes + len(test)
        f1 = np.where(both > 0, 2 * shared / np.maximum(both, 1), 1.0)
        return float(distances[best]), self.combinations[best], float(1 - f1.max()) * 100

    def _shared(self, test: Combination) -> NDArray[np.int64]:
        """How many calls each example has in common with a test."""
        found = [self._places[call] for call in _calls(test) if call in self._places]
        if not found:
            return np.zeros(len(self.combinations), np.int64)
        return np.bincount(np.concatenate(found), minlength=len(self.combinations))


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

    Each different combination is compared once. Raises ValueError without tests, examples, APIs.
    """
    if not tests:
        raise ValueError("there are no tests")
    known = Examples(examples)
    rows = [(one, count, *known.nearest(one, apis)) for one, count in sorted(tests.items())]
    rows.sort(key=lambda row: -row[2])
    total = tests.total()
    seen = [one for one in tests if one in examples]
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
        "hardest": tuple(_hard(*row[:4]) for row in rows[:keep]),
    }


def _hard(apis: Combination, samples: int, far: float, nearest: Combination) -> Hard:
    lacking = tuple(sorted((Counter(apis) - Counter(nearest)).elements()))
    return Hard(apis=apis, samples=samples, distance=far, nearest=nearest, lacking=lacking)


def complexity(
    version: Version,
    test: str | None = None,
    examples: str = "train",
    *,
    demonstrations: bool = False,
    keep: int = HARDEST,
) -> Report:
    """The figures of one split, or of all splits, with another's samples as examples.

    With `demonstrations` the examples are a few of theirs in which every API occurs (section 4.2).
    Raises NothingFound for a split without samples, StoreError for damaged files.
    """
    splits = version.splits("samples") if test is None else [test]
    for split in (*splits, examples):
        _check(version, split)
    apis = len(apis_of(version))
    if not apis:
        raise NothingFound(f"{version.label}: its config `apis` is empty, so |D| is not known.")
    chosen = _chosen(version, examples) if demonstrations else None
    idle = 0
    if chosen:
        shown = Counter(one.apis for one in chosen.demonstrations)
    else:
        shown, idle = calling(version, examples)
    figures = []
    for split in splits:
        known = not chosen and split == examples
        tests, left_out = (shown, idle) if known else calling(version, split, test is not None)
        if tests:
            told = measure(tests, shown, apis, keep=keep)
            figures.append(
                Complexity(
                    test=split,
                    examples=examples,
                    demonstrations=demonstrations,
                    idle_tests=left_out,
                    idle_examples=idle,
                    **told,
                )
            )
    lacking = chosen.uncovered if chosen else ()
    return Report(dataset=version.label, figures=tuple(figures), uncovered=lacking)


def calling(version: Version, split: str, needed: bool = True) -> tuple[Counter[Combination], int]:
    """The combinations of the samples that call something, and how many samples do not.

    Those, as where no API fits, have no combination to come by, and as an example each would be
    the nearest to nearly everything, as it has no call to drop. Raises NothingFound if no sample
    calls anything, if some are `needed`.
    """
    found = combinations(version, split)
    idle = found.pop((), 0)
    if needed and not found:
        raise NothingFound(
            f"{version.label}: no sample of {split} calls an API, so there is nothing to compare."
        )
    return found, idle


def combinations(version: Version, split: str) -> Counter[Combination]:
    """How many samples of a split need which calls. Rows are read one at a time.

    Raises StoreError for a row that is damaged.
    """
    found = Counter[Combination]()
    for row in version.rows("samples", split):
        try:
            found[combination(version.parsed(row, "dialogue"))] += 1
        except (AttributeError, KeyError, TypeError) as error:
            where = f"{version.path}: the row {row.get('id')}"
            raise StoreError(f"{where} is damaged (its dialogue is none).") from error
    return found


def apis_of(version: Version, split: str | None = None) -> set[str]:
    """Ids of the APIs of a split of the config `apis`, or of all."""
    splits = version.splits("apis") if split is None else [split]
    return {row["id"] for each in splits for row in version.rows("apis", each)}


def _check(version: Version, split: str) -> None:
    """Raises NothingFound for a split without samples."""
    there = [each for each in version.splits("samples") if version.files("samples", each)]
    if split not in there:
        raise NothingFound(
            f"{version.label} has no samples in a split {split!r}. "
            f"Name one of these: {', '.join(there) or 'there are none'}."
        )


def _chosen(version: Version, split: str) -> Repository:
    """Demonstrations of a split. Raises NothingFound if its samples call nothing."""
    apis = apis_of(version, Split.TRAIN if split in SEEN else split)
    chosen = repository(version.samples(split), apis)
    if not chosen.demonstrations:
        raise NothingFound(
            f"{version.label}: no sample of {split} calls an API, so there are no demonstrations. "
            "Name another split with --examples."
        )
    return chosen
