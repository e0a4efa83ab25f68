"""Which rows of which templates are made: distinct ones, as evenly as can be, by split.

With what a dataset holds already: rows that are not made again, and combinations of APIs by split.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.parts import compared, hashed, mixed, query
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.templates.composition import Mask, Row, Table
from toolloom.schemas import JsonObject, Scenario, Split, SplitPlan, Template
from toolloom.schemas.splits import (
    SEEN,
    api_id,
    needed,
    seen_split,
    shown,
    signature,
    split_of,
    stray,
    tool_of,
    zone,
)

AT_ONCE = 2_000  # rows that are drawn together
_ROUNDS = 6
_TIMES = 4  # that the same words and calls are drawn with other observations, at most
_MOST = 2**62  # rows beyond which each choice is drawn by itself


class RowOrder:
    """All rows of a template in an order of chance, in no memory: a permutation of their numbers.

    A Feistel network over the next power of four, walked until it comes back among the numbers
    (Black and Rogaway, 2002, section 4). Beyond 2^62 rows, where none is drawn twice but by an
    unlikely chance, each choice is drawn by itself.
    """

    def __init__(self, sizes: Sequence[int], rng: random.Random) -> None:
        self.sizes = tuple(sizes)
        self.count = math.prod(self.sizes)
        self._keys = [np.uint64(rng.getrandbits(64)) for _ in range(_ROUNDS + len(self.sizes))]
        bits = (min(self.count, _MOST) - 1).bit_length()
        self._half = np.uint64(max(1, (bits + 1) // 2))
        self._mask = np.uint64((1 << int(self._half)) - 1)

    def rows(self, start: int, count: int) -> NDArray[np.int64]:
        """Rows by their place in the order: fewer at its end."""
        numbers = np.arange(start, min(start + count, self.count), dtype=np.uint64)
        if self.count > _MOST:
            columns = [
                mixed(numbers + key) % np.uint64(size)
                for key, size in zip(self._keys[_ROUNDS:], self.sizes, strict=True)
            ]
            return np.stack(columns, axis=1).astype(np.int64)
        places = self._once(numbers)
        while len(out := np.flatnonzero(places >= self.count)):
            places[out] = self._once(places[out])
        columns = []
        for size in self.sizes:
            places, column = np.divmod(places, np.uint64(size))
            columns.append(column)
        return np.stack(columns, axis=1).astype(np.int64)

    def _once(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys[:_ROUNDS]:
            left, right = right, left ^ (mixed(right + key) & self._mask)
        return (left << self._half) | right


def mark(calls: str, words: str) -> int:
    """Eight bytes for what a row calls and says."""
    return hashed(f"{calls}\0{words}")


class RowSplits:
    """Which split a row of a template is in."""

    def __init__(self, mould: TemplateRenderer, plan: SplitPlan) -> None:
        self._plan = plan
        zones = {zone(plan, *tool_of(api)) for api in needed(mould.query)}
        alone = not zones <= {Split.TRAIN} or not any(map(plan.weight, SEEN[1:]))
        alone = alone or bool(mould.query.get("setting"))  # a script is all in one
        self.fixed = split_of(plan, mould.query) if alone else None
        """The split of all its rows, if it is the same."""

    def of(self, calls: str) -> Split:
        return self.fixed or seen_split(self._plan, calls)

    def among(self, splits: Iterable[Split], query: JsonObject) -> list[Split]:
        """Those of some splits that its rows may be in."""
        return [
            split
            for split in splits
            if (self.fixed is split if self.fixed else split in SEEN and self._plan.weight(split))
            and stray(self._plan, query, split) is None
        ]


class DrawnRow(NamedTuple):
    """A row, its place in the order, its split, and what it calls and says."""

    row: Row
    place: int
    split: Split
    mark: int


class RowDraw:
    """The rows of a template in an order of chance, as far as they are in the wanted splits."""

    def __init__(
        self,
        mould: TemplateRenderer,
        places: RowSplits,
        splits: Iterable[Split],
        rng: random.Random,
    ) -> None:
        self._mould, self._places, self._splits = mould, places, frozenset(splits)
        sizes = [len(choice.rows) for choice in mould.template.choices]
        self._told = sorted(mould.told)
        self._order = RowOrder([sizes[choice] for choice in self._told], rng)
        # What stands in observations alone makes no row of its own: it comes as it may.
        seen = [choice for choice in range(len(sizes)) if choice not in mould.told]
        self._seen = [(c, np.uint64(rng.getrandbits(64)), np.uint64(sizes[c])) for c in seen]
        self._original = mould.template.of_sample
        times = min(_TIMES, math.prod(sizes[choice] for choice in seen))
        self.count = self._order.count * times

    def rows(
        self, start: int, count: int, over: Callable[[Table], Mask] | None = None
    ) -> Iterator[DrawnRow]:
        """Those from a place in the order on. The sample that a template is of is none of them.

        `over`: tells which rows are passed over before anything is made of them.
        """
        table = self._table(start, count)
        at = np.arange(start, start + len(table))
        if over is not None and len(table):
            kept = ~over(table)
            table, at = table[kept], at[kept]
        places: list[list[int]] = table.T.tolist()
        calls = self._mould.signatures(places, len(table))
        said = self._mould.words(places, len(table))
        fixed = self._places.fixed
        drawn = zip(at.tolist(), zip(*places, strict=True), calls, said, strict=True)
        for place, row, made, words in drawn:
            split = fixed or self._places.of(made)
            if split in self._splits and not (
                self._original and (not any(row[choice] for choice in self._told))
            ):
                yield DrawnRow(row, place, split, mark(made, words))

    def _table(self, start: int, count: int) -> Table:
        """The rows, a choice a column. The order comes again with other observations at its end."""
        parts, end = [], min(start + count, self.count)
        while start < end:
            place = start % self._order.count
            parts.append(self._order.rows(place, end - start))
            start += len(parts[-1])
        told = np.concatenate(parts) if parts else np.zeros((0, len(self._told)), np.int64)
        table = np.zeros((len(told), len(self._told) + len(self._seen)), np.int64)
        table[:, self._told] = told
        numbers = np.arange(end - len(told), end, dtype=np.uint64)
        for choice, key, size in self._seen:
            table[:, choice] = (mixed(numbers + key) % size).astype(np.int64)
        return table


def even(wanted: int, most: Sequence[int]) -> list[int]:
    """So many rows over templates that have at most so many: each the same, as far as it can."""
    found = [0] * len(most)
    open_ = sorted(range(len(most)), key=lambda place: most[place])
    for done, place in enumerate(open_):
        left = len(open_) - done
        found[place] = min(most[place], -(-wanted // left) if left else 0)
        wanted -= found[place]
    return found


def combination(need: JsonObject) -> tuple[str, ...]:
    """The APIs that the calls of a need go to, as `Template.combination`; none if none is made."""
    if need.get("scenario") == Scenario.IRRELEVANCE:
        return ()
    return tuple(sorted(call["api"] for call in need["intent"]))


_NUMBERED = re.compile(r"(.+)-x(\d+)")


class HeldApart:
    """Rows of a dataset, eight bytes of each."""

    def __init__(self, given: StageInput, apart: bool) -> None:
        self.marks: set[int] = set()
        self._first: dict[str, int] = defaultdict(int)
        self._combined: dict[tuple[str, ...], set[Split]] = defaultdict(set)
        self._tools: dict[str, tuple[str, str]] = {}  # category and tool of an API
        self._plan, self._apart = given.recipe.splits, apart
        for _, row in given.rows.objects():
            self._hold(query(row), compared(row))
        for _, row in given.known.objects():
            if found := _NUMBERED.fullmatch(row["id"]):
                self._first[found[1]] = max(self._first[found[1]], int(found[2]) + 1)
            self._hold(row, row["text"])

    def _hold(self, need: JsonObject, words: str) -> None:
        self.marks.add(mark(signature(need["intent"]), words))
        if self._apart:
            self._tools |= {api_id(api): tool_of(api) for api in shown(need)}
            if made := combination(need):
                self._combined[made].add(_split_of(self._plan, need, self._tools))

    def first(self, template: str) -> int:
        """The number of a template's next row: rows of an earlier expansion keep theirs."""
        return self._first[template]

    def exercise(self, template: Template) -> None:
        """A template makes rows of its split."""
        if template.split and template.combination:
            self._combined[template.combination].add(template.split)

    def apart(self, template: Template, splits: Sequence[Split]) -> tuple[Split, ...]:
        """The split in which a template may make rows, so that no other calls the same APIs
        together; none if others do."""
        exercised = self._combined[template.combination] if template.combination else set[Split]()
        return tuple(split for split in splits if exercised <= {split})[:1]

    def elsewhere(self, template: Template, splits: Sequence[Split]) -> list[Split]:
        """The splits in which the combination of a template is called, but for one."""
        found = self._combined[template.combination]
        return sorted(found - set(splits)) or sorted(found)


def _split_of(plan: SplitPlan, need: JsonObject, tools: dict[str, tuple[str, str]]) -> Split:
    """The split of a need; of known rows, which do not show their APIs, by the ids of these."""
    if "pool" in need:
        return split_of(plan, need)
    pool = []
    for api in {call["api"] for call in need["intent"]}:
        category, tool, name = (*api.split("/", 2), "", "")[:3]
        if api in tools:
            category, tool = tools[api]
            name = api.removeprefix(f"{category}/{tool}/")
        source = {"reference": need["setting"]["world"]} if need.get("setting") else {}
        pool.append({"category": category, "tool": tool, "name": name, "source": source})
    return split_of(plan, {**need, "pool": pool})
