"""Which values of two choices could be taken for each other by a check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz import fuzz, process

from toolloom.pipeline.templates.marks import ValueMarks

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
        numbers = [(place, n) for place, marks in enumerate(each) for n in marks.numbers]
        self.at = np.array([place for place, _ in numbers], np.int64)
        self.numbers = np.array([abs(n) for _, n in numbers], np.float64)
        dated = [(place, n) for place, marks in enumerate(each) for n in marks.dated]
        self.dated_at = np.array([place for place, _ in dated], np.int64)
        self.dated = np.array([n for _, n in dated], np.float64)
        self.prose = np.array([marks.prose for marks in each], np.bool_)
        self.scaled = scaled or any(marks.scaled for marks in each)
        self.unruly = np.array([marks.unruly for marks in each], np.bool_)


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
    _slips(one, other, found)
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


def _slips(one: Marked, other: Marked, found: Matrix) -> None:
    """Long words that may be each other misspelt."""
    mine, theirs = list(one.long), list(other.long)
    if mine and theirs:
        alike = process.cdist(mine, theirs, scorer=fuzz.ratio, score_cutoff=_SLIP)
        for a, b in zip(*np.nonzero(alike), strict=True):
            found[np.ix_(one.long[mine[a]], other.long[theirs[b]])] = True


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
