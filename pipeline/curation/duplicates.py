"""Rows that say the same as another, or make the same calls as too many others.

Rows are taken one after the other: those of known splits, then tests and validation, then train,
each in its order. A row goes if it is like one that stayed, so that no two rows that stay are
alike, and the row that is named in its place is there.

Which rows may be alike is told by locality-sensitive hashing in bands (Leskovec, Rajaraman and
Ullman, section 3.4): the slots of a row's MinHash are parted into bands, and rows that agree in all
slots of one band are worth a look. Buckets hold only rows that stay, so that a thousand copies of a
row are compared with one of them.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from toolloom.pipeline.curation.parts import (
    Parts,
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

    `hashes`: equal ones meet anyway. `keys`: a number for each band (rows) and row (columns).
    """

    def __init__(self, hashes: NDArray[np.uint64], keys: NDArray[np.uint32]) -> None:
        self.shared = np.zeros(len(hashes), np.bool_)  # whether a bucket of a row has another row
        numbers = []
        for values in (hashes, *keys):
            _, bucket, size = np.unique(values, return_inverse=True, return_counts=True)
            meets = size[bucket] > 1
            self.shared |= meets
            numbers.append(np.where(meets, bucket, -1).astype(np.int32))
        self._buckets = np.stack(numbers, axis=1)
        self._rows: dict[tuple[int, int], list[int]] = defaultdict(list)

    def _of(self, row: int) -> list[tuple[int, int]]:
        """The buckets in which the row meets others."""
        return [each for each in enumerate(self._buckets[row].tolist()) if each[1] >= 0]

    def add(self, row: int) -> None:
        for bucket in self._of(row):
            self._rows[bucket].append(row)

    def like(self, row: int, least: int = 0) -> list[int]:
        """The rows that were added and share most bands with this one, `least` of them or more."""
        met: Counter[int] = Counter()
        for bucket in self._of(row):
            met.update(self._rows[bucket][-max(LISTED, least) :])
        ranked = sorted(met, key=lambda other: (-met[other], other))
        return ranked[: max(LOOKED_AT, least)]


AT_ONCE = 500  # rows whose digests are made together
TEXT, CALLS = range(2)  # what rows are compared by
KNOWN, HELD_OUT, TRAINED_ON = range(3)  # the order in which rows are taken
SAME_TEXT, LIKE_TEXT, SAME_CALLS, LIKE_CALLS = range(4)


def deduplicate(given: StageInput) -> Iterator[Sifted]:
    """The stage `deduplicated`."""
    rows = ComparedRows(given)
    fates = judge(rows, given)
    for number, line in enumerate(given.rows, given.known.count):
        fate = fates.get(number)
        if fate is None:
            yield line
        else:
            yield reject(json.loads(line), given.stage, [_told(fate, rows, given)])


class ComparedRows:
    """All rows as far as they are compared: those of known splits first."""

    def __init__(self, given: StageInput) -> None:
        self._given = given
        self.ids: list[str] = []
        self.turns: list[int] = []
        self._hashes: dict[int, list[int]] = {TEXT: [], CALLS: []}
        self._parts: dict[int, list[Parts]] = {TEXT: [], CALLS: []}
        for _, row in given.known.objects():
            self._put(row["id"], KNOWN, row["text"], row)
        for _, row in given.rows.objects():
            need = query(row)
            held_out = split_of(given.recipe.splits, need) is not Split.TRAIN
            self._put(need["id"], HELD_OUT if held_out else TRAINED_ON, compared(row), need)

    def _put(self, name: str, turn: int, text: str, need: JsonObject) -> None:
        plain, made = folded(text), call_signature(need)
        said, parts = text_parts(plain), call_parts(need)
        if not need["intent"] or need.get("setting"):  # no call makes rows alike, nor a world's:
            made, parts = name, named_parts([name])
        if need.get("setting"):  # how often a script is told is a dial of its own
            said = named_parts([name])
        self.ids.append(name)
        self.turns.append(turn)
        for kind, whole, some in ((TEXT, plain, said), (CALLS, made, parts)):
            self._hashes[kind].append(hashed(whole))
            self._parts[kind].append(some)

    def buckets(self, kind: int) -> Buckets:
        """Where rows meet, by their words or by their calls."""
        near, parts = self._given.recipe.curation.near, self._parts[kind]
        keys = np.zeros((BANDS if near < 1 else 0, len(parts)), np.uint32)
        for start in range(0, len(parts) if near < 1 else 0, AT_ONCE):
            self._given.rows.check()
            some = parts[start : start + AT_ONCE]
            keys[:, start : start + len(some)] = bands(some, slots_in_band(near))
        return Buckets(np.array(self._hashes[kind], np.uint64), keys)

    def likeness(self, one: int, other: int, kind: int) -> tuple[float, bool]:
        """How alike the words or calls of two rows are, and whether they are equal."""
        if self._hashes[kind][one] == self._hashes[kind][other]:
            return 1.0, True
        return jaccard(self._parts[kind][one], self._parts[kind][other]), False


Fate: TypeAlias = tuple[int, float, int]
"""What a row is, how like another one it is, and that row."""


def judge(rows: ComparedRows, given: StageInput) -> dict[int, Fate]:
    """The fate of each row that goes. Those that meet no other in any bucket stay."""
    plan, fates = given.recipe.curation, dict[int, Fate]()
    texts, calls = rows.buckets(TEXT), rows.buckets(CALLS)
    for row in sorted(range(len(rows.turns)), key=rows.turns.__getitem__):
        if not (texts.shared[row] or calls.shared[row]):
            continue
        given.rows.check()
        fate = None
        if rows.turns[row] != KNOWN:
            best: Fate | None = None
            for other in texts.like(row):
                likeness, equal = rows.likeness(row, other, TEXT)
                if (equal or likeness >= plan.near) and (best is None or likeness > best[1]):
                    best = SAME_TEXT if equal else LIKE_TEXT, likeness, other
            fate = best or _by_calls(row, rows, calls, plan)
        if fate:
            fates[row] = fate
        else:
            texts.add(row)
            calls.add(row)
    return fates


def _by_calls(row: int, rows: ComparedRows, calls: Buckets, plan: CurationPlan) -> Fate | None:
    """None as long as few rows make calls like these."""
    alike: list[tuple[float, bool, int]] = []
    for other in calls.like(row, plan.same_calls):
        likeness, equal = rows.likeness(row, other, CALLS)
        if equal or likeness >= plan.near:
            alike.append((likeness, equal, other))
    if len(alike) < plan.same_calls:
        return None
    likeness, _, other = max(alike, key=lambda one: one[:2])
    all_equal = sum(equal for _, equal, _ in alike) >= plan.same_calls
    return SAME_CALLS if all_equal else LIKE_CALLS, likeness, other


def _told(fate: Fate, rows: ComparedRows, given: StageInput) -> Finding:
    what, similarity, other = fate
    published = given.recipe.regenerate
    place = f" in {published.version}" if published and rows.turns[other] == KNOWN else ""
    named = f"{rows.ids[other]}{place}"
    exactly = what in (SAME_TEXT, SAME_CALLS)
    same = "the same" if exactly else "nearly the same"
    likeness = "" if exactly else f" (similarity {similarity:.2f})"
    if what in (SAME_TEXT, LIKE_TEXT):
        check, detail = "instruction", f"The user says {same} as in {named}{likeness}."
    else:
        most = given.recipe.curation.same_calls
        made = "1 row makes" if most == 1 else f"{most} rows make"
        check, detail = "calls", f"{made} {same} calls already, such as {named}{likeness}."
    reason = Reason.EXACT_DUPLICATE if exactly else Reason.NEAR_DUPLICATE
    return Finding(check=check, reason=reason, detail=detail)
