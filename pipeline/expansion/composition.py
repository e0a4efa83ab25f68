"""Verdicts on rows that were not inspected, from those that were. See `verdicts`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.expansion.interference import Marked, Matrix, interfering
from toolloom.pipeline.expansion.marks import Marks, marks_of
from toolloom.pipeline.expansion.mould import Mould
from toolloom.pipeline.expansion.surroundings import constants, flags, neighbours, scaled_slots

Row: TypeAlias = tuple[int, ...]
Table: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[tuple[int, int], ...]
Tied: TypeAlias = tuple[tuple[int, int], ...]
"""Values of a row, by choice and place, that a check could match with each other."""


_TRIES = 30  # rows that are tried until one has no values that interfere


class Composition:
    """What is known of a template's values: who interferes with whom, and who passed."""

    def __init__(self, mould: Mould) -> None:
        now = dt.datetime.fromisoformat(mould.query["now"])
        said_by = flags(mould.query)
        choices = mould.template.choices
        marks = [[marks_of(row, now, said_by) for row in choice.rows] for choice in choices]
        scaled = set(scaled_slots(mould.skeleton))
        marked = [
            Marked(each, not scaled.isdisjoint(choice.slots))
            for each, choice in zip(marks, choices, strict=True)
        ]
        self.proven = [np.zeros(m.count, np.bool_) for m in marked]
        self._unruly = [m.unruly for m in marked]
        self._pairs: dict[tuple[int, int], Matrix] = {
            (a, b): interfering(marked[a], marked[b])
            for a, b in combinations(range(len(marked)), 2)
        }
        self._join(mould, marks)
        self._pairs = {pair: matrix for pair, matrix in self._pairs.items() if matrix.any()}
        around = [marks_of((unit,), now, said_by) for unit in constants(mould.skeleton, now)]
        self._touched = [_touched(each, Marked(around, scaled=True)) for each in marked]
        self._masks: frozenset[int] | None = None  # constants that each row that passed touches
        self._passed: set[Tied] = set()
        self.failed: set[Tied] = set()

    def _join(self, mould: Mould, marks: list[list[Marks]]) -> None:
        """Values interfere that stand side by side, as far as they may be read as one."""
        owner = {s: n for n, choice in enumerate(mould.template.choices) for s in choice.slots}
        numeric = [np.array([_is_numeric(m) for m in each], np.bool_) for each in marks]
        for one, other, always in neighbours(mould.skeleton):
            a, b = sorted((owner[one], owner[other]))
            if a != b:
                found = self._pairs[a, b]
                found |= True if always else np.outer(numeric[a], numeric[b])

    @property
    def settled(self) -> bool:
        """Constants stand on their own: no value is in all rows that bears one of them out."""
        return self._masks is not None and not self._masks

    def met(self, rows: Table) -> list[Pairs]:
        """For each row the choices whose values interfere; all where one changes how others are
        read."""
        found: list[Pairs] = [() for _ in rows]
        for (a, b), matrix in self._pairs.items():
            for place in np.flatnonzero(matrix[rows[:, a], rows[:, b]]).tolist():
                found[place] += ((a, b),)
        for choice, unruly in enumerate(self._unruly):
            for place in np.flatnonzero(unruly[rows[:, choice]]).tolist():
                found[place] += tuple((choice, other) for other in range(len(self.proven)))
        return found

    def proves(self, rows: Table) -> list[bool]:
        """Which rows have values that are all proven."""
        found = np.ones(len(rows), np.bool_)
        for choice, proven in enumerate(self.proven):
            found &= proven[rows[:, choice]]
        return list(found.tolist())

    def ties(self, row: Row, met: Pairs) -> list[Tied]:
        """The values that interfere, in groups that do not interfere with each other."""
        groups: list[set[int]] = []
        for a, b in met:
            joined = [group for group in groups if a in group or b in group]
            groups = [group for group in groups if group not in joined]
            groups.append({a, b}.union(*joined))
        return [tuple((choice, row[choice]) for choice in sorted(group)) for group in groups]

    def holds(self, row: Row, ties: list[Tied]) -> bool:
        """Whether a row passes for certain, as all that it is made of passed."""
        if not self.settled or not all(map(self._hold_together, ties)):
            return False
        rest = set(enumerate(row)).difference(*ties)
        return all(self.proven[choice][place] for choice, place in rest)

    def _hold_together(self, group: Tied) -> bool:
        """Whether values that interfere passed together, or each two of them that do."""
        if group in self._passed:
            return True
        if len(group) < 3 or any(self._unruly[choice][place] for choice, place in group):
            return False
        return all(
            (one, other) in self._passed
            for one, other in combinations(group, 2)
            if (matrix := self._pairs.get((one[0], other[0]))) is not None
            and matrix[one[1], other[1]]
        )

    def unproven(self) -> Iterator[Row]:
        """Rows that hold every value that is not proven, as far as they do not interfere."""
        waiting = [np.flatnonzero(~proven).tolist() for proven in self.proven]
        for number in range(max(map(len, waiting))):
            for step in range(_TRIES):
                row = tuple(
                    found[(number + step * choice) % len(found)]
                    if (found := waiting[choice])
                    else (number + step * choice) % len(self.proven[choice])
                    for choice in range(len(waiting))
                )
                if not self.met(np.array([row]))[0]:
                    yield row
                    break

    def learn(self, row: Row) -> None:
        """A row passed."""
        touched = (t[place] for t, place in zip(self._touched, row, strict=True))
        constants_touched = frozenset[int]().union(*touched)
        self._masks = constants_touched & (
            constants_touched if self._masks is None else self._masks
        )
        ties = self.ties(row, self.met(np.array([row]))[0])
        self._passed.update(ties)
        for choice, place in set(enumerate(row)).difference(*ties):
            self.proven[choice][place] = True


def _touched(each: Marked, around: Marked) -> list[frozenset[int]]:
    """For each value the constants that it could bear out, but for those that all values do."""
    found = interfering(each, around)
    found &= ~found.all(axis=0)
    return [frozenset(np.flatnonzero(row).tolist()) for row in found]


def _is_numeric(marks: Marks) -> bool:
    calendar = ("day:", "month:", "weekday:", "time:")
    return bool(marks.numbers or marks.dated) or any(
        mark.startswith(calendar) for mark in marks.marks
    )
