"""Which rows may be like which, in a few bytes for each row.

Locality-sensitive hashing in bands (Leskovec, Rajaraman and Ullman, section 3.4): the slots of a
row's MinHash are parted into bands, and rows that agree in all slots of one band are worth a look.
A band of a row is kept as one number. Only buckets with more than one row get a list, and lists
hold only rows that stay, so that a thousand copies of a row are compared with one of them.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.shingles import Parts, digests

BANDS = 26
MOST_SLOTS = 8  # in a band
RECALL = 0.99  # of the pairs that are just alike enough; of those that are more, nearly all
LISTED = 64  # rows of a bucket that are looked at, the last ones: some buckets are of thousands
LOOKED_AT = 16  # rows that are compared with a row, those with most bands in common first


def slots_in_band(near: float) -> int:
    """As many as still find pairs of this likeness: the more, the fewer are looked at in vain."""
    found = 1
    while found < MOST_SLOTS and 1 - (1 - near ** (found + 1)) ** BANDS >= RECALL:
        found += 1
    return found


def bands(sets: list[Parts], slots: int) -> NDArray[np.uint32]:
    """A number for each band (rows) of each set (columns)."""
    found = digests(sets, BANDS * slots).reshape(len(sets), BANDS, slots).astype(np.uint64)
    joined = np.zeros((len(sets), BANDS), np.uint64)
    for slot in range(slots):
        joined = (joined ^ found[:, :, slot]) * np.uint64(0x9E3779B97F4A7C15)
        joined ^= joined >> np.uint64(29)
    narrow: NDArray[np.uint32] = (joined >> np.uint64(32)).astype(np.uint32).T
    return narrow


class Buckets:
    """Rows by the buckets they fall into.

    `hashes`: equal ones meet anyway. `keys`: a number for each band (rows) and row (columns); its
    memory is used.
    """

    def __init__(self, hashes: NDArray[np.uint64], keys: NDArray[np.uint32]) -> None:
        equal = np.zeros(len(hashes), np.uint32)
        first = 1 + _number(hashes, equal, 1)
        shared: NDArray[np.bool_] = equal != 0
        for band in keys:
            first += _number(band, band, first)
            shared |= band != 0
        self.shared = shared  # by row, whether a bucket of it has another row
        # Most rows meet no other: only of those that do the buckets are kept.
        self._place = np.cumsum(shared, dtype=np.int32) - np.int32(1)
        self._buckets = np.stack([band[shared] for band in (equal, *keys)], axis=1)
        self._last = array("i", bytes(4 * first))  # of each bucket: its last node, or 0
        self._row, self._before = array("i", [0]), array("i", [0])  # of each node

    def _of(self, row: int) -> list[int]:
        """The buckets in which the row meets others."""
        if not self.shared[row]:
            return []
        return [bucket for bucket in self._buckets[self._place[row]].tolist() if bucket]

    def add(self, row: int) -> None:
        for bucket in self._of(row):
            self._row.append(row)
            self._before.append(self._last[bucket])
            self._last[bucket] = len(self._row) - 1

    def like(self, row: int, least: int = 0) -> list[int]:
        """The rows that were added and share most bands with this one, `least` of them or more."""
        met: Counter[int] = Counter()
        listed = max(LISTED, least)
        for bucket in self._of(row):
            if self._last[bucket]:
                met.update(self._listed(bucket, listed))
        ranked = sorted(met, key=lambda other: (-met[other], other))
        return ranked[: max(LOOKED_AT, least)]

    def _listed(self, bucket: int, listed: int) -> Iterator[int]:
        node = self._last[bucket]
        for _ in range(listed):
            if not node:
                return
            yield self._row[node]
            node = self._before[node]


def _number(
    values: NDArray[np.uint64] | NDArray[np.uint32], into: NDArray[np.uint32], first: int
) -> int:
    """Give rows of equal values the number of their bucket, from `first`, and the others 0.

    How many buckets there are.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    same = np.zeros(len(ordered) + 1, np.bool_)
    same[1:-1] = ordered[1:] == ordered[:-1]
    shared = same[:-1] | same[1:]
    begins = shared & ~same[:-1]
    numbers = np.cumsum(begins, dtype=np.uint32) + np.uint32(first - 1)
    into[order] = np.where(shared, numbers, np.uint32(0))
    return int(begins.sum())
