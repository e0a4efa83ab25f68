"""Values that hang together: a start and an end, a low and a high. Their order is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from toolloom.pipeline.checks.text.words import name_words as words_of_name
from toolloom.pipeline.templates.mining.forms import clock_of, day_of, is_number
from toolloom.pipeline.templates.mining.options import MOST, ValueOptions
from toolloom.pipeline.templates.mining.variables import Variable

_LOWER = frozenset("min minimum low lower start from begin first open opens departs".split())  # noqa: SIM905 - words
_UPPER = frozenset("max maximum high upper end to until last close closes arrives".split())  # noqa: SIM905 - words
_TRIES = 40


def tied(pools: Sequence[ValueOptions]) -> list[list[ValueOptions]]:
    """The pools, parted into those whose values are drawn together."""
    groups: list[list[ValueOptions]] = []
    for pool in pools:
        near = [g for g in groups if any(_belong(pool.one, p.one) for p in g)]
        groups = [g for g in groups if g not in near]
        groups.append([p for g in near for p in g] + [pool])
    return groups


def _belong(one: Variable, other: Variable) -> bool:
    """All days of a dialogue keep their order, the times of a call, and the ends of a range."""
    if day_of(one.value) and day_of(other.value):
        return True
    if not _of_one_call(one, other):
        return False
    if clock_of(one.value) and clock_of(other.value):
        return True
    return is_number(one.value) and is_number(other.value) and _are_ends(one, other)


def _of_one_call(one: Variable, other: Variable) -> bool:
    ours = {(leaf.api, leaf.number) for leaf, _ in one.leaves if leaf.side != "intent"}
    theirs = {(leaf.api, leaf.number) for leaf, _ in other.leaves if leaf.side != "intent"}
    planned = {leaf.number for leaf, _ in one.leaves if leaf.side == "intent"}
    return bool(ours & theirs) or bool(
        planned & {leaf.number for leaf, _ in other.leaves if leaf.side == "intent"}
    )


def _are_ends(one: Variable, other: Variable) -> bool:
    ours, theirs = set(words_of_name(one.first.name)), set(words_of_name(other.first.name))
    return any(a & _LOWER and b & _UPPER for a, b in ((ours, theirs), (theirs, ours)))


def rows(group: Sequence[ValueOptions], rng: random.Random) -> list[tuple[tuple[Any, str], ...]]:
    """At most 64 different rows of the group's values, in the original's order of size."""
    if len(group) == 1:
        return [(value,) for value in group[0].values]
    return list(dict.fromkeys(_drawn(group, rng)))[:MOST]


def _drawn(
    group: Sequence[ValueOptions], rng: random.Random
) -> Iterator[tuple[tuple[Any, str], ...]]:
    original = tuple(pool.values[0] for pool in group)
    wanted = _order(original)
    yield original
    for _ in range(MOST * 2):
        for _ in range(_TRIES):
            row = tuple(rng.choice(pool.values) for pool in group)
            if _order(row) == wanted:
                yield row
                break


def _order(row: Sequence[tuple[Any, str]]) -> list[int]:
    return sorted(range(len(row)), key=lambda place: row[place][0])


__all__ = ["rows", "tied"]
