"""Verdicts on rows that were not inspected, from those that were. See `verdicts`.

First which values of two choices a check could take for each other (`interfering`).
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from toolloom.pipeline.checks.evidence import is_status, says_no
from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.text.phrases import is_code
from toolloom.pipeline.checks.text.words import STOP, words
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.templates.marks import (
    PARTS_OF_A_DAY,
    ValueMarks,
    apart,
    constants,
    flags,
    marks_of,
    neighbours,
    scaled_slots,
)
from toolloom.schemas import Choice

Matrix = NDArray[np.bool_]
_SLIP = 93  # of 100: as alike as a word and its misspelling, as in `checks.phrases`
# What a number may be told as: a share, a part of thousands, another unit of time or length.
_FACTORS = np.array(
    [1, 7, 12, 24, 60, 100, 168, 1e3, 1440, 3600, 10080, 86400, 604800, 1e6, 1e9, 1e12]
)


class Marked:
    """The marks of the values of a choice, by mark."""

    def __init__(self, each: Sequence[ValueMarks], scaled: bool = False) -> None:
        """`scaled`: units stand after the numbers."""
        self.count = len(each)
        self.marks = _places(marks.marks for marks in each)
        self.open = _places(marks.open for marks in each)
        self.long = _places(marks.long for marks in each)
        self.at, self.numbers = _by_place(marks.numbers for marks in each)
        self.dated_at, self.dated = _by_place(marks.dated for marks in each)
        self.prose = np.array([marks.prose for marks in each], np.bool_)
        self.scaled = scaled or any(marks.scaled for marks in each)
        self.unruly = np.array([marks.unruly for marks in each], np.bool_)


def _by_place(
    each: Iterable[Iterable[float]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All numbers without their signs, and of which value each is."""
    pairs = [(place, abs(n)) for place, numbers in enumerate(each) for n in numbers]
    return np.array([p for p, _ in pairs], np.int64), np.array([n for _, n in pairs], np.float64)


def _places(each: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    found = defaultdict[str, list[int]](list)
    for place, marks in enumerate(each):
        for mark in set(marks):
            found[mark].append(place)
    return dict(found)


def interfering(one: Marked, other: Marked) -> Matrix:
    """For each value of one choice and each of another whether a check could match them."""
    found: Matrix = np.outer(one.prose, other.prose)
    for mine, theirs in (
        (one.marks, other.marks),
        (one.marks, other.open),
        (one.open, other.marks),
    ):
        for mark in mine.keys() & theirs.keys():
            if len(mine[mark]) == one.count and len(theirs[mark]) == other.count:
                continue  # as good as constant
            found[np.ix_(mine[mark], theirs[mark])] = True
    mine_long, their_long = list(one.long), list(other.long)
    if mine_long and their_long:  # they may be each other misspelt
        alike = process.cdist(mine_long, their_long, scorer=fuzz.ratio, score_cutoff=_SLIP)
        for a, b in zip(*np.nonzero(alike), strict=True):
            found[np.ix_(one.long[mine_long[a]], other.long[their_long[b]])] = True
    scaled = one.scaled or other.scaled
    for mine_at, mine_n, theirs_at, theirs_n, units in (
        (one.at, one.numbers, other.at, other.numbers, scaled),
        (one.at, one.numbers, other.dated_at, other.dated, False),
        (one.dated_at, one.dated, other.at, other.numbers, False),
    ):
        if len(mine_n) and len(theirs_n):
            a, b = np.nonzero(near(mine_n, theirs_n, units))
            found[mine_at[a], theirs_at[b]] = True
    return found


def near(mine: NDArray[np.float64], theirs: NDArray[np.float64], scaled: bool = True) -> Matrix:
    """Whether one number may be told as the other: rounded, and `scaled` or in another unit."""
    a, b = mine[:, None], theirs[None, :]
    found: Matrix = np.zeros((len(mine), len(theirs)), np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        slack_a, slack_b = _slack(mine)[:, None], _slack(theirs)[None, :]
        for factor in _FACTORS if scaled else _FACTORS[:1]:
            found |= np.abs(a * factor - b) <= np.maximum(slack_a * factor, slack_b)
            found |= np.abs(a - b * factor) <= np.maximum(slack_a, slack_b * factor)
        found |= ~np.isfinite(a) | ~np.isfinite(b)
    return found


def _slack(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far what is told may be off: half a unit of the last digit that is no zero, one half
    for decimals, and a twentieth of large numbers («1.2 million»)."""
    slack = np.where(numbers == np.floor(numbers), numbers * 1e-9, 0.5)
    slack = np.maximum(slack, np.where(numbers >= 1000, numbers * 0.05, 0.0))
    for power in range(1, 16):
        size = 10.0**power
        round_ = (numbers > 0) & (np.mod(numbers, size) == 0)
        slack = np.maximum(slack, np.where(round_, size / 2, 0.0))
    return slack


Row: TypeAlias = tuple[int, ...]
Table: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Pairs: TypeAlias = tuple[tuple[int, int], ...]
Tied: TypeAlias = tuple[tuple[int, int], ...]
"""Values of a row, by choice and place, that a check could match with each other."""
Mixture: TypeAlias = tuple[frozenset[Tied], tuple[int, ...]]
"""The values of a row that interfere, and of which kinds the others are."""


_TRIES = 30  # rows that are tried until one has no values that interfere


class Composition:
    """What is known of a template's values: who interferes with whom, and who passed."""

    def __init__(self, mould: TemplateRenderer) -> None:
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
        owner = {s: n for n, choice in enumerate(mould.template.choices) for s in choice.slots}
        # Numbers, days and times may be read as one with what stands beside them.
        calendar = ("day:", "month:", "weekday:", "time:")
        numeric = [
            np.array(
                [
                    bool(m.numbers or m.dated or m.marks & PARTS_OF_A_DAY)
                    or any(mark.startswith(calendar) for mark in m.marks)
                    for m in each
                ],
                np.bool_,
            )
            for each in marks
        ]
        for one, other, always in neighbours(mould.skeleton):
            a, b = sorted((owner[one], owner[other]))
            if a != b:
                found = self._pairs[a, b]
                found |= True if always else np.outer(numeric[a], numeric[b])
        self._pairs = {pair: matrix for pair, matrix in self._pairs.items() if matrix.any()}
        around = [marks_of((unit,), now, said_by) for unit in constants(mould.skeleton, now)]
        self._touched = [_touched(each, Marked(around, scaled=True)) for each in marks]
        self._kinds = [_kinds(*each) for each in zip(choices, self._touched, strict=True)]
        self._masks: frozenset[int] | None = None  # constants that each row that passed touches
        self._verdicts: dict[Mixture, bool] = {}

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
        """Which rows pass for certain, if none of their values interfere: all are proven, and a
        row with values of the same kinds passed."""
        found = np.ones(len(rows), np.bool_)
        for choice, proven in enumerate(self.proven):
            found &= proven[rows[:, choice]]
        kinds = np.stack([own[rows[:, c]] for c, own in enumerate(self._kinds)], axis=1)
        each, place = np.unique(kinds, axis=0, return_inverse=True)
        passed = [(frozenset[Tied](), tuple(one)) in self._verdicts for one in each.tolist()]
        found &= np.array(passed, np.bool_)[place.reshape(-1)]
        return list(found.tolist())

    def ties(self, row: Row, met: Pairs) -> list[Tied]:
        """The values that interfere, in groups that do not interfere with each other."""
        groups: list[set[int]] = []
        for a, b in met:
            joined = [group for group in groups if a in group or b in group]
            groups = [group for group in groups if group not in joined]
            groups.append({a, b}.union(*joined))
        return [tuple((choice, row[choice]) for choice in sorted(group)) for group in groups]

    def verdict(self, row: Row, ties: list[Tied]) -> bool | None:
        """Whether a row passes for certain, or falls: all else is proven, and a row was inspected
        in which just these values interfere and all others are of the same kinds."""
        return self._verdicts.get(self._mixture(row, ties)) if self._rests_on(row, ties) else None

    def unlearn(self, row: Row, ties: list[Tied]) -> None:
        """A row fell: if all else is proven, by the values that interfere. One that passed with
        them counts for more."""
        if ties and self._rests_on(row, ties):
            self._verdicts.setdefault(self._mixture(row, ties), False)

    def _rests_on(self, row: Row, ties: list[Tied]) -> bool:
        """Whether nothing but the values that interfere is in question."""
        rest = set(enumerate(row)).difference(*ties)
        return self.settled and all(self.proven[choice][place] for choice, place in rest)

    def _mixture(self, row: Row, ties: list[Tied]) -> Mixture:
        tied = {choice for group in ties for choice, _ in group}
        kinds = (
            -1 if choice in tied else int(own[place])
            for (choice, place), own in zip(enumerate(row), self._kinds, strict=True)
        )
        return frozenset(ties), tuple(kinds)

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
        self._verdicts[self._mixture(row, ties)] = True
        for choice, place in set(enumerate(row)).difference(*ties):
            self.proven[choice][place] = True


def _touched(each: Sequence[ValueMarks], around: Marked) -> list[frozenset[int]]:
    """For each value the constants that it could bear out by what not all of the values have."""
    found = interfering(Marked(list(apart(each))), around)
    return [frozenset(np.flatnonzero(row).tolist()) for row in found]


def _kinds(choice: Choice, touched: Sequence[frozenset[int]]) -> Table:
    """For each value a number for how it counts where a reply has to tell any one of them."""
    told = [
        (*(_kind(leaf) for value in row for leaf in leaves(value)), bool(constants))
        for row, constants in zip(choice.rows, touched, strict=True)
    ]
    numbers = {kind: number for number, kind in enumerate(dict.fromkeys(told))}
    return np.array([numbers[kind] for kind in told], np.int64)


def _kind(leaf: Any) -> tuple[object, ...]:
    if not isinstance(leaf, str):
        return type(leaf).__name__, leaf if isinstance(leaf, bool) else None
    # A state, or words that any text may hold.
    bare = is_status(leaf) or all(word.folded in STOP for word in words(leaf))
    return leaf.casefold() if bare else "", is_code(leaf), says_no(leaf)
