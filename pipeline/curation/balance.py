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

from toolloom.pipeline.curation.duplicates import (
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
    dimensions = [dimension for dimension in Dimension if dimension in factors]
    hashes: list[int] = []
    values: dict[Dimension, list[tuple[str, str]]] = {each: [] for each in dimensions}
    for _, sample in given.rows.objects():
        need = query(sample)
        split = split_of(given.recipe.splits, need).value
        hashes.append(hashed(f"{folded(instruction(sample))}\0{call_signature(need)}"))
        for dimension in dimensions:
            values[dimension].append((split, value(need, dimension)))
    fallen: dict[int, Finding] = {}
    for dimension in dimensions:
        came, left = Counter(values[dimension]), defaultdict[tuple[str, str], list[int]](list)
        for row in sorted(set(range(len(hashes))) - fallen.keys(), key=hashes.__getitem__):
            left[values[dimension][row]].append(row)
        for (split, name), rows in left.items():
            middle = median(count for (where, _), count in came.items() if where == split)
            most = max(1, int(factors[dimension] * middle))
            detail = (
                f"{split} has {came[split, name]:,} rows of {dimension.value} «{name}», and "
                f"{middle:,g} of the median one: {most:,} stay."
            )
            finding = Finding(check="balance", reason=Reason.OVERREPRESENTED, detail=detail)
            fallen.update(dict.fromkeys(rows[most:], finding))
    for number, line in enumerate(given.rows):
        if number in fallen:
            yield reject(json.loads(line), given.stage, [fallen[number]])
        else:
            yield line


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
