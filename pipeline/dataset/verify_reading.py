"""A version's rows as they are read to be verified, and how what is in them is compared."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from toolloom.pipeline.dataset.contents_rows import Maker
from toolloom.pipeline.dataset.instruction_counts import InstructionCounts
from toolloom.pipeline.dataset.tallies import RowCounts
from toolloom.pipeline.dataset.verify_files import Files, Told, read_table
from toolloom.pipeline.dataset.verify_report import Findings
from toolloom.pipeline.store.files import to_text
from toolloom.schemas import JsonObject, SplitPlan

# What hostile JSON raises on its way into a record; pydantic's own error is a ValueError.
UNFIT = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class Ids:
    """Which ids there were, in eight bytes and a bit each."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, name: str) -> bool:
        """Whether it was there before."""
        before = len(self._seen)
        self._seen.add(small(name))
        return len(self._seen) == before

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, name: str) -> bool:
        return small(name) in self._seen


def small(name: str) -> int:
    hashed = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big")


@dataclass
class Rows:
    """What was read of a version's rows."""

    files: Files
    told: Told
    findings: Findings
    step: Callable[[], None]  # called for each row
    counted: dict[str, RowCounts] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)  # by config and split
    expanded: Counter[str] = field(default_factory=Counter)  # rows of templates, by split
    instructions: dict[str, InstructionCounts] = field(default_factory=dict)
    broken: set[tuple[str, str]] = field(default_factory=set)  # config and split, not all read
    inspected: int = 0
    makers: set[Maker] = field(default_factory=set)  # who made the samples
    seen_categories: set[str] = field(default_factory=set)
    api_ids: Ids = field(default_factory=Ids)
    api_texts: Ids = field(default_factory=Ids)  # whole APIs, as rows show them
    api_values: Ids = field(default_factory=Ids)  # and whatever the order and number of fields
    ids: Ids = field(default_factory=Ids)

    @property
    def whole(self) -> bool:
        return not self.broken

    @property
    def plan(self) -> SplitPlan:
        return self.told.plan

    def count(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    def rows(self, config: str, split: str) -> Iterator[tuple[str, JsonObject]]:
        """File and row of each row of a split."""
        sheets = self.told.configs.get(config, {})
        names = self.files.readable(config, split)
        if len(names) < len(sheets[split].files if split in sheets else ()):
            self.broken.add((config, split))
        for name in names:
            expected, found = sheets[split].files[name].rows, 0
            for row in read_table(self.files, name, self.findings):
                found += 1
                self.read[config] = self.read.get(config, 0) + 1
                self.step()
                yield name, row
            if found != expected:
                self.broken.add((config, split))


def parsed(text: Any) -> Any:
    """JSON, by the faster of two parsers; where it refuses, the other has the word."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def is_text_of(text: Any, value: Any) -> bool:
    """Is this what we write for the value? `to_json` is faster, and writes nearly all the same."""
    try:
        if to_json(value).decode() == text:
            return True
    except ValueError:  # half characters
        pass
    return bool(to_text(value) == text)


def differing_column(made: JsonObject, row: JsonObject) -> str | None:
    """The first column in which a row is not what is made of its record."""
    if made == row:
        return None
    return next(key for key in {**made, **row} if made.get(key) != row.get(key))


def why_unfit(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:119] + "…"
