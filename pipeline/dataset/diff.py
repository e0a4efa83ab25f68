"""What differs between two versions of a dataset, row by row and in figures.

Rows are read one at a time; of each a hash of its id and one of its content stay in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Literal

from pydantic import Field

from toolloom.pipeline.dataset.figures import Pair, subtracted
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject, Record, Sample, Split, StoreError, canonical


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
    rows, examples = [], {kind: list[Example]() for kind in ("added", "removed", "changed")}
    for split in splits:
        if _hashes(before, split) == _hashes(after, split):
            # Equal files hold equal rows: they need not be read.
            count = before.manifest["configs"]["samples"][split]["rows"]
            rows.append(SplitDiff(split=split, before=count, after=count, same=count))
        else:
            old, new = (_contents(version, split) for version in (before, after))
            diff, ids = _compared(split, dict(old), new, pairs=True)
            rows.append(diff)
            for example in _examples(before, after, split, ids, examples, keep):
                examples[example.kind].append(example)
    return Diff(
        before=before.label,
        after=after.label,
        rows=tuple(rows),
        instructions=tuple(_instructions(before, after)),
        figures=subtracted(before.told("splits"), after.told("splits")),
        examples=tuple(chain.from_iterable(examples.values())),
    )


def _hashes(version: Version, split: str) -> list[str]:
    table = version.manifest["configs"].get("samples", {}).get(split, {"files": {}})
    return [file["sha256"] for file in table["files"].values()]


def _contents(version: Version, split: str) -> Iterator[tuple[bytes, bytes]]:
    """Hashes of each sample's id and of what it says: words, calls, APIs and flags, not who made
    it."""
    for row in version.rows("samples", split):
        dialogue = version.parsed(row, "dialogue")
        query = {k: v for k, v in dialogue["query"].items() if k not in ("id", "provenance")}
        content = [query, dialogue["messages"], version.parsed(row, "flags")]
        yield _hash(row["id"]), _hash(canonical(content))


def _compared(
    split: str, old: dict[bytes, bytes], new: Iterable[tuple[bytes, bytes]], pairs: bool = False
) -> tuple[SplitDiff, dict[str, set[bytes]]]:
    """Hashes of ids and contents, compared; and the hashes of ids by kind of difference.

    `pairs`: rows of equal content under different ids are counted as renamed, and no difference.
    """
    count, same, changed = len(old), 0, set[bytes]()
    fresh: dict[bytes, bytes] = {}
    for name, content in new:
        earlier = old.pop(name, None)
        if earlier is None:
            fresh[name] = content
        elif earlier == content:
            same += 1
        else:
            changed.add(name)
    places: dict[bytes, list[bytes]] = {}
    for name, content in old.items() if pairs else ():
        places.setdefault(content, []).append(name)
    renamed = 0
    for name, content in list(fresh.items()):
        if places.get(content):
            del old[places[content].pop()], fresh[name]
            renamed += 1
    diff = SplitDiff(
        split=split,
        before=count,
        after=same + len(changed) + renamed + len(fresh),
        same=same,
        renamed=renamed,
        changed=len(changed),
        removed=len(old),
        added=len(fresh),
    )
    return diff, {"added": {*fresh}, "removed": {*old}, "changed": changed}


def _instructions(before: Version, after: Version) -> Iterator[SplitDiff]:
    """The instructions of each split that has any, by id: what each tells, not who made it."""
    names = ("instruction", "category_tags", "tool_tags", "api_tags", "path", "ratings")
    for split in Split:
        old, new = (
            {
                _hash(row["id"]): _hash(canonical([row[name] for name in names]))
                for row in version.rows("instructions", split)
            }
            for version in (before, after)
        )
        if old or new:
            yield _compared(split, old, new.items())[0]


def _examples(
    before: Version,
    after: Version,
    split: str,
    ids: Mapping[str, set[bytes]],
    known: Mapping[str, list[Example]],
    keep: int,
) -> Iterator[Example]:
    """Read the rows again for the first ones of each kind, as far as more are wanted."""
    left = {kind: keep - len(examples) for kind, examples in known.items()}
    changed = {row["id"]: row for row in _first(after, split, ids["changed"], left["changed"])}
    for row in _first(before, split, {_hash(name) for name in changed}, len(changed)):
        both = {"before": _sample(before, row), "after": _sample(after, changed[row["id"]])}
        yield Example(kind="changed", split=split, id=row["id"], **both)
    for row in _first(after, split, ids["added"], left["added"]):
        yield Example(kind="added", split=split, id=row["id"], after=_sample(after, row))
    for row in _first(before, split, ids["removed"], left["removed"]):
        yield Example(kind="removed", split=split, id=row["id"], before=_sample(before, row))


def _first(version: Version, split: str, names: set[bytes], count: int) -> Iterator[JsonObject]:
    """The first `count` rows with these ids."""
    if names and count > 0:
        rows = (row for row in version.rows("samples", split) if _hash(row["id"]) in names)
        yield from islice(rows, min(count, len(names)))


def _sample(version: Version, row: JsonObject) -> JsonObject:
    sample = {key: version.parsed(row, key) for key in PARTS}
    try:
        Sample.model_validate(sample)
    except ValueError as error:
        raise StoreError(f"{version.path}: the row {row['id']} is damaged: no sample.") from error
    return sample


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).digest()
