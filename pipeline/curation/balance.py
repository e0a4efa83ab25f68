"""Rows of values that a split has too many of.

A value may have at most `factor` times as many rows as the median value of its split had when the
rows came in. A hash of what a row says decides whether it stays, so that neither its place nor its
number matters.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.parts import (
    call_signature,
    folded,
    hashed,
    instruction,
    query,
    reject,
)
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.schemas import Dimension, Finding, JsonObject, Reason, Scenario
from toolloom.schemas.splits import api_id, needed, split_of


def balance(given: StageInput) -> Iterator[Sifted]:
    """The stage `balanced`."""
    factors = given.recipe.curation.balance
    # Not in the order of the recipe, which decides nothing else.
    table = DimensionTable(given, [dimension for dimension in Dimension if dimension in factors])
    for place, dimension in enumerate(table.dimensions):
        table.cut(place, factors[dimension])
    for number, line in enumerate(given.rows):
        if finding := table.finding(number):
            yield reject(json.loads(line), given.stage, [finding])
        else:
            yield line


class DimensionTable:
    """Of each row the number of its value in each dimension, and a hash."""

    def __init__(self, given: StageInput, dimensions: list[Dimension]) -> None:
        count = given.rows.count
        self.dimensions = dimensions
        self._numbers = np.zeros((len(dimensions), count), np.int32)
        self._hashes = np.zeros(count, np.uint64)
        self._fell = np.zeros(count, np.uint8)  # the dimension a row fell by, from 1; 0: it stays
        self._findings: dict[tuple[int, int], Finding] = {}  # by dimension and value
        names: dict[tuple[str, str], int] = {}
        for row, (_, sample) in enumerate(given.rows.objects()):
            need = query(sample)
            split = split_of(given.recipe.splits, need).value
            for place, dimension in enumerate(dimensions):
                name = split, value(need, dimension)
                self._numbers[place, row] = names.setdefault(name, len(names))
            self._hashes[row] = hashed(f"{folded(instruction(sample))}\0{call_signature(need)}")
        self._names = list(names)

    def cut(self, place: int, factor: float) -> None:
        """Let rows fall whose value in a dimension has too many of those that are left."""
        counts = Counter(self._numbers[place].tolist())
        by_split = defaultdict[str, list[int]](list)
        for number, count in counts.items():
            by_split[self._names[number][0]].append(count)
        for number, came in counts.items():
            split, name = self._names[number]
            middle = median(by_split[split])
            most = max(1, int(factor * middle))
            here: NDArray[np.bool_] = (self._numbers[place] == number) & (self._fell == 0)
            rows = np.flatnonzero(here)
            if len(rows) <= most:
                continue
            self._fell[rows[np.argsort(self._hashes[rows], kind="stable")[most:]]] = place + 1
            dimension = self.dimensions[place].value
            detail = (
                f"{split} has {came:,} rows of {dimension} «{name}», and {middle:,g} of "
                f"the median one: {most:,} stay."
            )
            self._findings[place, number] = Finding(
                check="balance", reason=Reason.OVERREPRESENTED, detail=detail
            )

    def finding(self, row: int) -> Finding | None:
        """Why a row falls; None if it stays."""
        place = int(self._fell[row]) - 1
        return None if place < 0 else self._findings[place, int(self._numbers[place, row])]


def value(need: JsonObject, dimension: Dimension) -> str:
    """What a row counts as. One with APIs of several categories counts for the first call's."""
    if dimension is Dimension.CATEGORY:
        categories = {api_id(api): api["category"] for api in needed(need)}
        found = (categories[i["api"]] for i in need["intent"] if i["api"] in categories)
        return str(next(found, ""))
    if dimension is Dimension.CALLS:
        served = need["scenario"] != Scenario.IRRELEVANCE
        return str(len(need["intent"]) if served else 0)
    return str(need[dimension.value])
