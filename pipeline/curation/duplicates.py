"""Rows that say the same as another, or make the same calls as too many others.

Rows are taken one after the other: those of known splits, then tests and validation, then train,
each in its order. A row goes if it is like one that stayed, so that no two rows that stay are
alike, and the row that is named in its place is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.lsh import BANDS, Buckets, bands, slots_in_band
from toolloom.pipeline.curation.rows import call_signature, folded, instruction, query, reject
from toolloom.pipeline.curation.shelf import SpillFile
from toolloom.pipeline.curation.shingles import (
    Parts,
    call_parts,
    hashed,
    jaccard,
    named_parts,
    text_parts,
)
from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.schemas import CurationPlan, Finding, JsonObject, Reason, Split
from toolloom.schemas.splits import split_of

AT_ONCE = 2000  # rows whose digests are made together
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
            if fates.what[number] == KEPT:
                yield line
            else:
                yield reject(json.loads(line), given.stage, [_told(number, fates, book, given)])
    finally:
        book.close()


class ComparedRows:
    """All rows as far as they are compared: few bytes of each in memory, the rest on the disk."""

    def __init__(self, given: StageInput) -> None:
        self._given = given
        count = given.known.count + given.rows.count
        self.turns = np.zeros(count, np.uint8)
        self._texts, self._calls = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        self._shelf = SpillFile(given.scratch)

    def read(self) -> None:
        for _, row in self._given.known.objects():
            self._put(row["id"], KNOWN, row["text"], row)
        plan = self._given.recipe.splits
        for _, row in self._given.rows.objects():
            need = query(row)
            held_out = split_of(plan, need) is not Split.TRAIN
            self._put(need["id"], HELD_OUT if held_out else TRAINED_ON, instruction(row), need)

    def _put(self, name: str, turn: int, text: str, need: JsonObject) -> None:
        number = len(self._shelf) // 3
        plain, made = folded(text), call_signature(need)
        parts = call_parts(need)
        if not need["intent"]:  # rows that make no call are not alike for that
            made, parts = name, named_parts([name])
        self.turns[number] = turn
        self._texts[number], self._calls[number] = hashed(plain), hashed(made)
        for note in (name.encode("utf-8", "surrogatepass"), text_parts(plain), parts):
            self._shelf.put(bytes(note))

    def texts(self) -> Buckets:
        """Where rows meet by their words."""
        return self._buckets(self._texts, TEXT)

    def calls(self) -> Buckets:
        """Where rows meet by their calls."""
        return self._buckets(self._calls, CALLS)

    def _buckets(self, hashes: NDArray[np.uint64], note: int) -> Buckets:
        near, count = self._given.recipe.curation.near, len(hashes)
        keys = np.zeros((BANDS if near < 1 else 0, count), np.uint32)
        for start in range(0, count if near < 1 else 0, AT_ONCE):
            self._given.rows.check()
            some = range(start, min(start + AT_ONCE, count))
            keys[:, start : some.stop] = bands(
                [self._parts(row, note) for row in some], slots_in_band(near)
            )
        return Buckets(hashes, keys)

    def _parts(self, row: int, note: int) -> Parts:
        return np.frombuffer(self._shelf.get(3 * row + note), np.uint32)

    def id_of(self, row: int) -> str:
        return self._shelf.get(3 * row + NAME).decode("utf-8", "surrogatepass")

    def likeness(self, one: int, other: int) -> tuple[float, bool]:
        """How alike the words of two rows are, and whether they are equal."""
        if self._texts[one] == self._texts[other]:
            return 1.0, True
        return jaccard(self._parts(one, TEXT), self._parts(other, TEXT)), False

    def likeness_of_calls(self, one: int, other: int) -> tuple[float, bool]:
        if self._calls[one] == self._calls[other]:
            return 1.0, True
        return jaccard(self._parts(one, CALLS), self._parts(other, CALLS)), False

    def close(self) -> None:
        self._shelf.close()


Fate: TypeAlias = tuple[int, float, int]
"""What a row is, how like another one it is, and that row."""


class Fates:
    """What becomes of each row, and which row it is too much like."""

    def __init__(self, count: int) -> None:
        self.what = np.zeros(count, np.uint8)
        self.other = np.zeros(count, np.int32)
        self.likeness = np.zeros(count, np.float32)

    def drop(self, row: int, what: int, likeness: float, other: int) -> None:
        self.what[row], self.likeness[row], self.other[row] = what, likeness, other


def judge(book: ComparedRows, given: StageInput) -> Fates:
    """Take all rows in turn. Rows that meet no other in any bucket stay without a look."""
    plan, fates = given.recipe.curation, Fates(len(book.turns))
    texts, calls = book.texts(), book.calls()
    order = np.argsort(book.turns, kind="stable")
    for row in order[(texts.shared | calls.shared)[order]].tolist():
        given.rows.check()
        fate = None
        if book.turns[row] != KNOWN:
            fate = _by_text(row, book, texts, plan) or _by_calls(row, book, calls, plan)
        if fate:
            fates.drop(row, *fate)
        else:
            texts.add(row)
            calls.add(row)
    return fates


def _by_text(row: int, book: ComparedRows, texts: Buckets, plan: CurationPlan) -> Fate | None:
    """None if the row says what no other does."""
    best: Fate | None = None
    for other in texts.like(row):
        likeness, equal = book.likeness(row, other)
        if (equal or likeness >= plan.near) and (best is None or likeness > best[1]):
            best = SAME_TEXT if equal else LIKE_TEXT, likeness, other
    return best


def _by_calls(row: int, book: ComparedRows, calls: Buckets, plan: CurationPlan) -> Fate | None:
    """None as long as few rows make calls like these."""
    alike: list[tuple[float, bool, int]] = []
    for other in calls.like(row, plan.same_calls):
        likeness, equal = book.likeness_of_calls(row, other)
        if equal or likeness >= plan.near:
            alike.append((likeness, equal, other))
    if len(alike) < plan.same_calls:
        return None
    likeness, _, other = max(alike, key=lambda one: one[:2])
    all_equal = sum(equal for _, equal, _ in alike) >= plan.same_calls
    return SAME_CALLS if all_equal else LIKE_CALLS, likeness, other


def _told(row: int, fates: Fates, book: ComparedRows, given: StageInput) -> Finding:
    what, other = int(fates.what[row]), int(fates.other[row])
    published = given.recipe.regenerate
    place = f" in {published.version}" if published and book.turns[other] == KNOWN else ""
    named = f"{book.id_of(other)}{place}"
    exactly = what in (SAME_TEXT, SAME_CALLS)
    same = "the same" if exactly else "nearly the same"
    likeness = "" if exactly else f" (similarity {fates.likeness[row]:.2f})"
    if what in (SAME_TEXT, LIKE_TEXT):
        check, detail = "instruction", f"The user says {same} as in {named}{likeness}."
    else:
        most = given.recipe.curation.same_calls
        rows = "1 row makes" if most == 1 else f"{most} rows make"
        check, detail = "calls", f"{rows} {same} calls already, such as {named}{likeness}."
    reason = Reason.EXACT_DUPLICATE if exactly else Reason.NEAR_DUPLICATE
    return Finding(check=check, reason=reason, detail=detail)
