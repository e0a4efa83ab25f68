"""A version read once from beginning to end: its figures, and the rows that are shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TypeAlias

from toolloom.pipeline.dataset.figures import LEVELS, RowCounts
from toolloom.pipeline.dataset.rows import APIS, INSTRUCTIONS, REJECTED, SAMPLES
from toolloom.pipeline.dataset.unfold import STAGE
from toolloom.pipeline.pages.diversity import DRAWN, LETTERS
from toolloom.pipeline.render.drawing import Draw, Spread
from toolloom.pipeline.render.html import visible
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, StoreError

SHOWN = 20  # samples of each kind
WRITTEN, TEMPLATES, INSTRUCTED = "written by agents", "rows of templates", "instructions"

Row: TypeAlias = tuple[str, JsonObject]
"""Its split, and a row of a config as it is stored."""


@dataclass
class Seen:
    """What there is in a version."""

    counted: dict[str, RowCounts] = field(default_factory=dict)  # by split
    expanded: int = 0  # rows of templates
    lengths: dict[str, Counter[int]] = field(default_factory=dict)
    fallen: Counter[tuple[str, str]] = field(default_factory=Counter)  # reason, stage
    apis: dict[str, str] = field(default_factory=dict)  # category by id
    levels: Counter[str] = field(default_factory=Counter)  # of instructions
    requests: dict[str, Draw[str]] = field(default_factory=dict)
    accepted: Spread[Row] = field(default_factory=lambda: Spread(SHOWN))  # by ability
    templates: Draw[Row] = field(default_factory=lambda: Draw(SHOWN))
    rejected: Spread[Row] = field(default_factory=lambda: Spread(SHOWN))  # by reason
    instructed: Draw[list[Row]] = field(default_factory=lambda: Draw(SHOWN))  # by request

    def of(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    @property
    def all(self) -> RowCounts:
        return sum(self.counted.values(), RowCounts())

    def measure(self, what: str, length: int) -> None:
        self.lengths.setdefault(what, Counter())[length] += 1

    def request(self, group: str, name: str, text: str) -> None:
        self.requests.setdefault(group, Draw(DRAWN)).offer(name, text[:LETTERS])


def read(version: Version, tick: Callable[[], None] = lambda: None) -> Seen:
    """Read all rows, one at a time; `tick` is called for each.

    Raises StoreError for what is damaged, and if the manifest tells of other figures.
    """
    seen = Seen()
    for config, take in _TAKEN:
        for split in version.splits(config.name):
            for row in version.rows(config.name, split):
                with readable(version, row):
                    take(seen, split, row)
                tick()
    for split in version.splits(INSTRUCTIONS.name):
        rows = version.rows(INSTRUCTIONS.name, split)
        for name, levels in groupby(rows, key=lambda row: str(row.get("sample"))):
            _take_instructions(version, seen, split, name, levels, tick)
    with manifest_readable(version):
        _agree(version, seen)
    return seen


def rows_of(version: Version) -> int:
    """How many rows `read` reads. Raises StoreError."""
    configs = version.manifest["configs"]
    names = (SAMPLES.name, REJECTED.name, INSTRUCTIONS.name, APIS.name)
    with manifest_readable(version):
        return sum(int(made["rows"]) for name in names for made in configs.get(name, {}).values())


def _take_sample(seen: Seen, split: str, row: JsonObject) -> None:
    dialogue = json.loads(row["dialogue"])
    seen.of(split).add({"dialogue": dialogue})
    need, messages = dialogue["query"], dialogue["messages"]
    seen.measure("words of the request", len(need["text"].split()))
    seen.measure("turns of the user", sum([m["role"] == "user" for m in messages]))
    seen.measure("messages", len(messages))
    seen.measure("tokens of the dialogue", sum(map(_bytes, messages)) // 4)
    if STAGE in {share["stage"] for share in json.loads(row["provenance"])}:
        seen.expanded += 1
        seen.templates.offer(row["id"], (split, row))
        seen.request(TEMPLATES, row["id"], need["text"])
    else:
        seen.accepted.offer(_text(row, "ability"), row["scenario"], row["id"], (split, row))
        seen.request(WRITTEN, row["id"], need["text"])


def _bytes(message: JsonObject) -> int:
    calls = message.get("tool_calls") or ()
    said = (json.dumps(c["function"], ensure_ascii=False) for c in calls)
    texts = [message.get("content") or "", *said]
    return sum([len(text.encode("utf-8", "surrogatepass")) for text in texts])


def _take_rejected(seen: Seen, split: str, row: JsonObject) -> None:
    seen.of(split).reject(_text(row, "reason"))
    seen.fallen[row["reason"], row["stage"]] += 1
    seen.rejected.offer(row["reason"], row["stage"], row["id"], (split, row))


def _text(row: JsonObject, column: str) -> str:
    """What is counted by. Raises TypeError if a column that is never empty is."""
    if not isinstance(row[column], str):
        raise TypeError(f"`{column}` is no text")
    return str(row[column])


def _take_api(seen: Seen, split: str, row: JsonObject) -> None:
    seen.apis[row["id"]] = row["category"]


_TAKEN = ((SAMPLES, _take_sample), (REJECTED, _take_rejected), (APIS, _take_api))


def _take_instructions(
    version: Version,
    seen: Seen,
    split: str,
    name: str,
    levels: Iterable[JsonObject],
    tick: Callable[[], None],
) -> None:
    """What is said of one request, at all its levels."""
    kept: list[Row] = []
    for row in levels:
        with readable(version, row):
            seen.levels[row["level"]] += 1
            seen.request(INSTRUCTED, row["id"], row["instruction"])
            seen.measure("words of the instruction", len(row["instruction"].split()))
        if len(kept) < len(LEVELS):
            kept.append((split, row))
        tick()
    seen.instructed.offer(name, kept)


@contextmanager
def readable(version: Version, row: JsonObject) -> Iterator[None]:
    """What is wrong with a row, as StoreError."""
    with _damage_told(version, f"{version.path}: the row {row.get('id')}"):
        yield


@contextmanager
def manifest_readable(version: Version) -> Iterator[None]:
    """What is wrong with the manifest, as StoreError."""
    with _damage_told(version, f"{version.path / 'manifest.json'}:"):
        yield


@contextmanager
def _damage_told(version: Version, where: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
        raise StoreError(
            f"{where} is damaged ({visible(why)}). `toolloom verify {version.label}` tells more."
        ) from error


def _agree(version: Version, seen: Seen) -> None:
    """Raises StoreError if the manifest tells of other figures than the rows have."""
    told: dict[str, JsonObject] = version.told("splits")
    for split in (*told, *seen.counted):
        figures = {k: v for k, v in told.get(split, {}).items() if k != "runs"}
        counted = seen.counted.get(split, RowCounts()).told()
        if wrong := [name for name in counted if figures.get(name) != counted[name]]:
            raise StoreError(
                f"{version.path / 'manifest.json'}: `{wrong[0]}` of {split} is not what the rows "
                f"have. `toolloom verify {version.label}` tells what differs."
            )
