"""What differs between two versions of a dataset, row by row and in figures.

Rows are read one at a time; of each its id and a hash of its content stay in memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Literal, TypeAlias

from pydantic import Field

from toolloom.pipeline.dataset.configs import SAMPLES
from toolloom.pipeline.store.version import Version, hashes_of
from toolloom.schemas import JsonObject, Record, Split, digest

DIMENSIONS = {
    "abilities": "ability",
    "scenarios": "scenario",
    "categories": "category",
    "calls": "calls",
    "reasons": "rejected because",
}
"""What of a split's figures a diff shows, and how one of them is called."""

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
    rows: dict[str, list[SplitDiff]] = {"samples": [], "instructions": []}
    examples: dict[str, list[Example]] = {"added": [], "removed": [], "changed": []}
    for config, found in rows.items():
        for split in Split:
            if split in before.splits(config) or split in after.splits(config):
                diff, ids = _compared(config, split, before, after)
                found.append(diff)
                for kind, names in ids.items() if config == "samples" else ():
                    wanted = names[: keep - len(examples[kind])]
                    examples[kind] += _examples(kind, split, wanted, before, after)
    old, new = before.manifest["splits"], after.manifest["splits"]
    figures: JsonObject = {}
    for split in {**old, **new}:
        ours, theirs = (told.get(split, {}) for told in (old, new))
        figures[split] = {n: _beside(n, ours.get(n, {}), theirs.get(n, {})) for n in DIMENSIONS}
    return Diff(
        before=before.label,
        after=after.label,
        rows=tuple(rows["samples"]),
        instructions=tuple(rows["instructions"]),
        figures=figures,
        examples=tuple(chain.from_iterable(examples.values())),
    )


def _contents(version: Version, config: str, split: str) -> Iterator[tuple[str, str]]:
    """Each row's id, and a hash of what it says: words, calls, APIs, not who made it."""
    names = ("instruction", "category_tags", "tool_tags", "api_tags", "path", "ratings")
    for row in version.rows(config, split):
        if config == "samples":
            dialogue = version.parsed(row, "dialogue")
            query = {k: v for k, v in dialogue["query"].items() if k not in ("id", "provenance")}
            content = [query, dialogue["messages"], version.parsed(row, "flags")]
        else:
            content = [row[name] for name in names]
        yield row["id"], digest(content, 24)


def _compared(
    config: str, split: Split, before: Version, after: Version
) -> tuple[SplitDiff, dict[str, list[str]]]:
    """The rows of both, and ids by kind of difference. Samples of equal content under different ids
    are counted as renamed, and no difference."""
    old_files, new_files = (hashes_of(one.manifest, config).get(split) for one in (before, after))
    if old_files == new_files:  # equal files hold equal rows: they need not be read
        count = before.manifest["configs"][config][split]["rows"]
        return SplitDiff(split=split, before=count, after=count, same=count), {}
    old, new = (dict(_contents(version, config, split)) for version in (before, after))
    changed = [name for name in new if name in old and old[name] != new[name]]
    removed = {name: old[name] for name in old if name not in new}
    added = {name: new[name] for name in new if name not in old}
    places = defaultdict[str, list[str]](list)
    for name, content in removed.items() if config == "samples" else ():
        places[content].append(name)
    renamed = {name: places[c].pop() for name, c in added.items() if places.get(c)}
    moved = {*renamed.values()}
    ids = {
        "added": [name for name in added if name not in renamed],
        "removed": [name for name in removed if name not in moved],
        "changed": changed,
    }
    same, counts = len(new) - len(added) - len(changed), {kind: len(ids[kind]) for kind in ids}
    diff = SplitDiff(
        split=split, before=len(old), after=len(new), same=same, renamed=len(renamed), **counts
    )
    return diff, ids


def _examples(
    kind: str, split: str, names: list[str], before: Version, after: Version
) -> Iterator[Example]:
    """Read the rows of these ids again."""
    found: dict[str, JsonObject] = {name: {} for name in names}
    for side, version in (("before", before), ("after", after)) if names else ():
        if (kind, side) in (("added", "before"), ("removed", "after")):
            continue
        for row in version.rows("samples", split):
            if row["id"] in found:
                version.sample(row)  # it is one
                found[row["id"]][side] = SAMPLES.row.record_of(row)
    for name, shown in found.items():
        yield Example.model_validate({"kind": kind, "split": split, "id": name, **shown})


def _beside(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, Pair]:
    values = [*dict.fromkeys((*old, *new))]
    if name == "calls":  # numbers, as text
        values.sort(key=lambda value: (len(value), value))
    return {value: (old.get(value, 0), new.get(value, 0)) for value in values}


def summed(figures: Mapping[str, Mapping[str, Mapping[str, Pair]]], name: str) -> dict[str, Pair]:
    """A dimension's counts over all splits."""
    old, new = Counter[str](), Counter[str]()
    for dimensions in figures.values():
        for value, (before, after) in dimensions.get(name, {}).items():
            old[value] += before
            new[value] += after
    return _beside(name, old, new)
