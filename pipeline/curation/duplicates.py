"""Rows that say the same as another, or make the same calls as too many others.

Rows are taken one after the other: those of known splits, then tests and validation, then train,
each in its order. A row goes if it is like one that stayed, so that no two rows that stay are
alike, and the row that is named in its place is there.

Which rows may be alike is told by a few bytes of each, by locality-sensitive hashing in bands
(Leskovec, Rajaraman and Ullman, section 3.4): the slots of a row's MinHash are parted into bands,
and rows that agree in all slots of one band are worth a look. A band of a row is kept as one
number. Only buckets with more than one row get a list, and lists hold only rows that stay, so that
a thousand copies of a row are compared with one of them.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.parts import (
    Parts,
    SpillFile,
    call_parts,
    call_signature,
    compared,
    digests,
    folded,
    hashed,
    jaccard,
    named_parts,
    query,
    reject,
    text_parts,
)
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.schemas import CurationPlan, Finding, JsonObject, Reason, Split
from toolloom.schemas.splits import split_of

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
            node = self._last[bucket]
            for _ in range(listed if node else 0):
                met[self._row[node]] += 1
                node = self._before[node]
                if not node:
                    break
        ranked = sorted(met, key=lambda other: (-met[other], other))
        return ranked[: max(LOOKED_AT, least)]


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


AT_ONCE = 500  # rows whose digests are made together
NAME, TEXT, CALLS = range(3)  # what is noted of a row
KNOWN, HELD_OUT, TRAINED_ON = range(3)  # the order in which rows are taken
KEPT, SAME_TEXT, LIKE_TEXT, SAME_CALLS, LIKE_CALLS = range(5)


def deduplicate(given: StageInput) -> Iterator[Sifted]:
    """The stage `deduplicated`."""
    book = ComparedRows(given)
    try:
        book.read()
        fates = judge(book, given)
        for number, line in enumerate(given.rows, given.known.count):
            fate: Fate = fates[number].item()
            if fate[0] == KEPT:
                yield line
            else:
                yield reject(json.loads(line), given.stage, [_told(fate, book, given)])
    finally:
        book.close()


class ComparedRows:
    """All rows as far as they are compared: few bytes of each in memory, the rest on the disk."""

    def __init__(self, given: StageInput) -> None:
        self._given = given
        count = given.known.count + given.rows.count
        self.turns = np.zeros(count, np.uint8)
        self._hashes = {note: np.zeros(count, np.uint64) for note in (TEXT, CALLS)}
        self._shelf = SpillFile(given.scratch)

    def read(self) -> None:
        for _, row in self._given.known.objects():
            self._put(row["id"], KNOWN, row["text"], row)
        plan = self._given.recipe.splits
        for _, row in self._given.rows.objects():
            need = query(row)
            held_out = split_of(plan, need) is not Split.TRAIN
            self._put(need["id"], HELD_OUT if held_out else TRAINED_ON, compared(row), need)

    def _put(self, name: str, turn: int, text: str, need: JsonObject) -> None:
        number = len(self._shelf) // 3
        plain, made = folded(text), call_signature(need)
        parts = call_parts(need)
        said = text_parts(plain)
        if not need["intent"] or need.get("setting"):  # no call makes rows alike, nor a world's:
            made, parts = name, named_parts([name])
        if need.get("setting"):  # how often a script is told is a dial of its own
            said = named_parts([name])
        self.turns[number] = turn
        self._hashes[TEXT][number], self._hashes[CALLS][number] = hashed(plain), hashed(made)
        for note in (name.encode("utf-8", "surrogatepass"), said, parts):
            self._shelf.put(bytes(note))

    def buckets(self, note: int) -> Buckets:
        """Where rows meet, by their words or by their calls."""
        near, count = self._given.recipe.curation.near, len(self.turns)
        keys = np.zeros((BANDS if near < 1 else 0, count), np.uint32)
        for start in range(0, count if near < 1 else 0, AT_ONCE):
            self._given.rows.check()
            some = range(start, min(start + AT_ONCE, count))
            keys[:, start : some.stop] = bands(
                [self._parts(row, note) for row in some], slots_in_band(near)
            )
        return Buckets(self._hashes[note], keys)

    def _parts(self, row: int, note: int) -> Parts:
        return np.frombuffer(self._shelf.get(3 * row + note), np.uint32)

    def id_of(self, row: int) -> str:
        return self._shelf.get(3 * row + NAME).decode("utf-8", "surrogatepass")

    def likeness(self, one: int, other: int, note: int) -> tuple[float, bool]:
        """How alike the words or calls of two rows are, and whether they are equal."""
        if self._hashes[note][one] == self._hashes[note][other]:
            return 1.0, True
        return jaccard(self._parts(one, note), self._parts(other, note)), False

    def close(self) -> None:
        self._shelf.close()


Fate: TypeAlias = tuple[int, float, int]
"""What a row is, how like another one it is, and that row."""


def judge(book: ComparedRows, given: StageInput) -> NDArray[np.void]:
    """The fate of each row, taken in turn. Those that meet no other in any bucket stay without a
    look."""
    plan, fates = given.recipe.curation, np.zeros(len(book.turns), "u1, f4, i4")
    texts, calls = book.buckets(TEXT), book.buckets(CALLS)
    order = np.argsort(book.turns, kind="stable")
    for row in order[(texts.shared | calls.shared)[order]].tolist():
        given.rows.check()
        fate = None
        if book.turns[row] != KNOWN:
            best: Fate | None = None
            for other in texts.like(row):
                likeness, equal = book.likeness(row, other, TEXT)
                if (equal or likeness >= plan.near) and (best is None or likeness > best[1]):
                    best = SAME_TEXT if equal else LIKE_TEXT, likeness, other
            fate = best or _by_calls(row, book, calls, plan)
        if fate:
            fates[row] = fate
        else:
            texts.add(row)
            calls.add(row)
    return fates


def _by_calls(row: int, book: ComparedRows, calls: Buckets, plan: CurationPlan) -> Fate | None:
    """None as long as few rows make calls like these."""
    alike: list[tuple[float, bool, int]] = []
    for other in calls.like(row, plan.same_calls):
        likeness, equal = book.likeness(row, other, CALLS)
        if equal or likeness >= plan.near:
            alike.append((likeness, equal, other))
    if len(alike) < plan.same_calls:
        return None
    likeness, _, other = max(alike, key=lambda one: one[:2])
    all_equal = sum(equal for _, equal, _ in alike) >= plan.same_calls
    return SAME_CALLS if all_equal else LIKE_CALLS, likeness, other


def _told(fate: Fate, book: ComparedRows, given: StageInput) -> Finding:
    what, similarity, other = fate
    published = given.recipe.regenerate
    place = f" in {published.version}" if published and book.turns[other] == KNOWN else ""
    named = f"{book.id_of(other)}{place}"
    exactly = what in (SAME_TEXT, SAME_CALLS)
    same = "the same" if exactly else "nearly the same"
    likeness = "" if exactly else f" (similarity {similarity:.2f})"
    if what in (SAME_TEXT, LIKE_TEXT):
        check, detail = "instruction", f"The user says {same} as in {named}{likeness}."
    else:
        most = given.recipe.curation.same_calls
        rows = "1 row makes" if most == 1 else f"{most} rows make"
        check, detail = "calls", f"{rows} {same} calls already, such as {named}{likeness}."
    reason = Reason.EXACT_DUPLICATE if exactly else Reason.NEAR_DUPLICATE
    return Finding(check=check, reason=reason, detail=detail)
