"""The words that rows and benchmarks have in common.

Thirteen in a row, as for GPT-3 (Brown et al., 2020, appendix C). A text with fewer counts only as a
whole, if it has four words and two of them carry meaning: «yes, please» is nobody's.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from toolloom.pipeline.checks.text.words import STOP
from toolloom.pipeline.curation.rows import folded
from toolloom.pipeline.curation.shingles import Long, hashed, mixed

IN_A_ROW = 13  # words
SHORTEST = 4  # words of a text that counts as a whole
_MOST = 1000  # numbers of one hash that are looked at
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"
_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u3099\u309a"  # of those
_WORD = re.compile(rf"[{_UNSPACED}][{_MARKS}]*|[^\s{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of a text, folded; letters of scripts without spaces are words."""
    return _WORD.findall(folded(text))


def runs(found: Sequence[str]) -> Long:
    """A hash for each run of thirteen words."""
    count = len(found) - IN_A_ROW + 1
    if count < 1:
        return np.zeros(0, np.uint64)
    numbers = np.array([_word_hash(word) for word in found], np.uint64)
    joined = np.zeros(count, np.uint64)
    for place in range(IN_A_ROW):
        joined = joined * np.uint64(0x100000001B3) + numbers[place : place + count]
    return mixed(joined)


@lru_cache(maxsize=65536)
def _word_hash(word: str) -> int:
    return hashed(word)


def whole(found: Sequence[str]) -> int | None:
    """The hash of a short text that may count as a whole, or None."""
    meant = [word for word in found if word not in STOP]
    if SHORTEST <= len(found) < IN_A_ROW and len(meant) >= 2:
        return hashed(" ".join(found))
    return None


class HashTable:
    """Numbers by hash: twelve bytes for each, once it is closed."""

    def __init__(self) -> None:
        self._hashes, self._numbers = array("Q"), array("I")

    def add(self, hashes: Iterable[int], number: int) -> None:
        for each in hashes:
            self._hashes.append(each)
            self._numbers.append(number)

    def close(self, once: bool) -> None:
        """Sort. `once`: keep the first number of each hash only."""
        hashes = np.frombuffer(self._hashes, np.uint64) if self._hashes else np.zeros(0, np.uint64)
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        if once and len(ordered):
            first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
            order, ordered = order[first], ordered[first]
        numbers = np.frombuffer(self._numbers, np.uint32) if self._numbers else np.zeros(0, "u4")
        self.hashes, self.numbers = ordered, numbers[order]
        self._hashes, self._numbers = array("Q"), array("I")

    def first(self, wanted: Long) -> tuple[int, int] | None:
        """Place and number of the first hash that is here."""
        if not len(wanted) or not len(self.hashes):
            return None
        places = np.searchsorted(self.hashes, wanted)
        places[places == len(self.hashes)] = 0
        hits = np.flatnonzero(self.hashes[places] == wanted)
        return (int(hits[0]), int(self.numbers[places[hits[0]]])) if len(hits) else None

    def all(self, wanted: int) -> list[int]:
        key = np.uint64(wanted)
        start, end = (int(np.searchsorted(self.hashes, key, side)) for side in ("left", "right"))
        return [int(n) for n in self.numbers[start : min(end, start + _MOST)]]


def shared(mine: Sequence[str], place: int, theirs: Sequence[str]) -> str:
    """The words in a row that both texts have, from the first run of thirteen on."""
    first = list(mine[place : place + IN_A_ROW])
    starts = range(len(theirs) - IN_A_ROW + 1)
    start = next((s for s in starts if list(theirs[s : s + IN_A_ROW]) == first), None)
    if start is None:
        return ""  # two texts of one hash
    length = IN_A_ROW
    while mine[place + length : place + length + 1] == theirs[start + length : start + length + 1]:
        if place + length >= len(mine):
            break
        length += 1
    return " ".join(mine[place : place + length])
