"""What differs between two versions of a dataset, row by row and in figures.

Rows are read one at a time; of each a hash of its id and one of its content stay in memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Literal, TypeAlias

from pydantic import Field

from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject, Record, Sample, Split, StoreError, canonical

DIMENSIONS = ("abilities", "scenarios", "categories", "calls", "reasons")

Pair: TypeAlias = tuple[int, int]
"""A count before and after."""


class SplitDiff(Record):
    """The rows of a split, before and after."""

    split: str
    before: int = 0
    after: int = 0
    same: int = Field(default=0, description="In both, with the same id, words and calls.")
    renamed: int = Field(default=0, description="In both, but under another id.")
    changed: int = Field(default=0, description="The same id, but other words or calls.")
    removed: int = 0
    added: int = 0


class Example(Record):
    """A row that was added, removed or changed."""

    kind: Literal["added", "removed", "changed"]
    split: str
    id: str
    before: JsonObject | None = Field(default=None, description="The sample, as JSON.")
    after: JsonObject | None = None


class Diff(Record):
    """What differs between two versions."""

    before: str
    after: str
    rows: tuple[SplitDiff, ...]
    instructions: tuple[SplitDiff, ...] = Field(
        default=(), description="The same of instructions: by id, text, tags, path and ratings."
    )
    figures: dict[str, dict[str, dict[str, Pair]]] = Field(
        description="By split, by dimension, by value: rows before and after; `reasons` counts "
        "rejected records."
    )
    examples: tuple[Example, ...] = ()


def compare(before: Version, after: Version, *, keep: int = 1) -> Diff:
    """Compare two versions; `keep` examples of each kind. Raises StoreError for damaged files."""
    splits = [s for s in Split if s in before.splits("samples") or s in after.splits("samples")]
    rows, examples = [], _Examples(keep)
    for split in splits:
        if _hashes(before, split) == _hashes(after, split):
            count = before.manifest["configs"]["samples"][split]["rows"]
            rows.append(SplitDiff(split=split, before=count, after=count, same=count))
        else:
            rows.append(_compared(before, after, split, examples))
    return Diff(
        before=before.label,
        after=after.label,
        rows=tuple(rows),
        instructions=tuple(_instructions(before, after)),
        figures=_figures(before.told("splits"), after.told("splits")),
        examples=examples.found(),
    )


class _Examples:
    """The first few rows of each kind."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._found: dict[str, list[Example]] = {"added": [], "removed": [], "changed": []}

    def wants(self, kind: str) -> int:
        """How many more."""
        return self._keep - len(self._found[kind])

    def add(self, example: Example) -> None:
        self._found[example.kind].append(example)

    def found(self) -> tuple[Example, ...]:
        return tuple(chain.from_iterable(self._found.values()))


def _hashes(version: Version, split: str) -> list[str]:
    made = version.manifest["configs"].get("samples", {}).get(split, {"files": {}})
    return [told["sha256"] for told in made["files"].values()]


def _compared(before: Version, after: Version, split: str, examples: _Examples) -> SplitDiff:
    old = {_hash(row["id"]): _content(before, row) for row in before.rows("samples", split)}
    count, same, changed = len(old), 0, set[bytes]()
    fresh: dict[bytes, bytes] = {}
    for row in after.rows("samples", split):
        name, content = _hash(row["id"]), _content(after, row)
        known = old.get(name)
        if known is None:
            fresh[name] = content
        elif known == content:
            same += 1
            del old[name]
        else:
            changed.add(name)
            del old[name]
    places: dict[bytes, list[bytes]] = {}
    for name, content in old.items():
        places.setdefault(content, []).append(name)
    pairs = 0
    for name, content in list(fresh.items()):
        if places.get(content):
            del old[places[content].pop()], fresh[name]
            pairs += 1
    renamed = pairs
    _choose(before, after, split, examples, {"added": fresh, "removed": old, "changed": changed})
    return SplitDiff(
        split=split,
        before=count,
        after=same + len(changed) + renamed + len(fresh),
        same=same,
        renamed=renamed,
        changed=len(changed),
        removed=len(old),
        added=len(fresh),
    )


def _instructions(before: Version, after: Version) -> Iterator[SplitDiff]:
    """The instructions of each split that has any, by id."""
    for split in Split:
        old, new = (_told(version, split) for version in (before, after))
        if not old and not new:
            continue
        both = [name for name in old if name in new]
        same = sum(old[name] == new[name] for name in both)
        yield SplitDiff(
            split=split,
            before=len(old),
            after=len(new),
            same=same,
            changed=len(both) - same,
            removed=len(old) - len(both),
            added=len(new) - len(both),
        )


def _told(version: Version, split: str) -> dict[bytes, bytes]:
    """A hash of what each instruction tells, by a hash of its id; not who made it."""
    names = ("instruction", "category_tags", "tool_tags", "api_tags", "path", "ratings")
    return {
        _hash(row["id"]): _hash(canonical([row[name] for name in names]))
        for row in version.rows("instructions", split)
    }


def _choose(
    before: Version,
    after: Version,
    split: str,
    examples: _Examples,
    kinds: Mapping[str, Mapping[bytes, bytes] | set[bytes]],
) -> None:
    """Read the rows again for the first ones of each kind."""
    changed = {
        row["id"]: row for row in _first(after, split, kinds["changed"], examples.wants("changed"))
    }
    for row in _first(before, split, {_hash(name) for name in changed}, len(changed)):
        told = {"before": _sample(before, row), "after": _sample(after, changed[row["id"]])}
        examples.add(Example(kind="changed", split=split, id=row["id"], **told))
    for row in _first(after, split, kinds["added"], examples.wants("added")):
        examples.add(Example(kind="added", split=split, id=row["id"], after=_sample(after, row)))
    for row in _first(before, split, kinds["removed"], examples.wants("removed")):
        examples.add(
            Example(kind="removed", split=split, id=row["id"], before=_sample(before, row))
        )


def _first(
    version: Version, split: str, names: Mapping[bytes, bytes] | set[bytes], count: int
) -> Iterator[JsonObject]:
    """The first `count` rows with these ids."""
    left = min(count, len(names))
    if left < 1:
        return
    for row in version.rows("samples", split):
        if _hash(row["id"]) in names:
            yield row
            left -= 1
            if not left:
                return


def _sample(version: Version, row: JsonObject) -> JsonObject:
    found = {key: version.parsed(row, key) for key in PARTS}
    try:
        Sample.model_validate(found)
    except ValueError as error:
        raise StoreError(f"{version.path}: the row {row['id']} is damaged: no sample.") from error
    return found


def _content(version: Version, row: JsonObject) -> bytes:
    """A hash of what a row says: its words, calls, APIs and flags, not who made it and its id."""
    dialogue = version.parsed(row, "dialogue")
    query = {k: v for k, v in dialogue["query"].items() if k not in ("id", "provenance")}
    return _hash(canonical([query, dialogue["messages"], version.parsed(row, "flags")]))


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _figures(before: JsonObject, after: JsonObject) -> dict[str, dict[str, dict[str, Pair]]]:
    """The figures of the two manifests, side by side."""
    found: dict[str, dict[str, dict[str, Pair]]] = {}
    for split in dict.fromkeys((*before, *after)):
        old, new = before.get(split, {}), after.get(split, {})
        found[split] = {n: _beside(n, old.get(n, {}), new.get(n, {})) for n in DIMENSIONS}
    return found


def _beside(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, Pair]:
    values = [*dict.fromkeys((*old, *new))]
    if name == "calls":  # numbers, as text
        values.sort(key=lambda value: (len(value), value))
    return {value: (old.get(value, 0), new.get(value, 0)) for value in values}


def summed(figures: Mapping[str, Mapping[str, Mapping[str, Pair]]], name: str) -> dict[str, Pair]:
    """A dimension's counts over all splits."""
    sums: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for dimensions in figures.values():
        for value, pair in dimensions.get(name, {}).items():
            for total, count in zip(sums, pair, strict=True):
                total[value] += count
    return _beside(name, *sums)
