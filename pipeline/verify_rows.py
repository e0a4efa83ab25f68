"""Every row of a version again: its record, all certain checks, its training row, its split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import from_json, to_json

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.configs import (
    APIS,
    REJECTED,
    SAMPLES,
    SFT,
    api_row,
    encoded,
    rejected_row,
    samples_row,
    sft_row,
)
from toolloom.pipeline.contents import Maker, makers
from toolloom.pipeline.jsonl import to_text
from toolloom.pipeline.splits import api_id, needed, shown, split_of, stray, zone
from toolloom.pipeline.tables import delicate, reads_back
from toolloom.pipeline.tallies import RowCounts, need_of, sources
from toolloom.pipeline.verify_files import Files, Told, read_table
from toolloom.pipeline.verify_report import Findings, Kind
from toolloom.pipeline.versions import PARTS
from toolloom.schemas import (
    Api,
    JsonObject,
    Reason,
    Rejected,
    Sample,
    Split,
    SplitPlan,
    canonical,
)

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
_REJECTED_PARTS = ("findings", "record", "provenance")
# What hostile JSON raises on its way into a record; pydantic's own error is a ValueError.
_UNFIT = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


class Ids:
    """Which ids there were, in eight bytes and a bit each."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, name: str) -> bool:
        """Whether it was there before."""
        before = len(self._seen)
        self._seen.add(_small(name))
        return len(self._seen) == before

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, name: str) -> bool:
        return _small(name) in self._seen


def _small(name: str) -> int:
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
    left_out: dict[str, int] = field(default_factory=dict)
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


def verify_apis(rows: Rows) -> None:
    """The APIs: valid records, each once, in their zones, counted right."""
    made = rows.told.configs.get(APIS.name, {})

    def records() -> Iterator[JsonObject]:
        for split in made:
            for file, row in rows.rows(APIS.name, split):
                if api := _api(rows, split, file, row):
                    yield api

    told, found = rows.told.apis, sources(records())
    if not rows.whole:
        return
    for name, figure in (("count", rows.read.get(APIS.name, 0)), ("sources", found)):
        if told.get(name) != figure:
            detail = f"apis.{name} is {_short(told.get(name))}, the data have {_short(figure)}"
            rows.findings.add(Kind.FIGURE, "manifest.json", detail)


def _api(rows: Rows, split: str, file: str, row: JsonObject) -> JsonObject | None:
    try:
        raw: JsonObject = _parsed(row["record"])
        api = Api.model_validate(raw)
        differing = _differing(api_row(raw), row)
    except _UNFIT as error:
        rows.findings.add(Kind.RECORD, file, f"holds no API ({_why(error)})", row.get("id"))
        return None
    if differing:
        detail = f"`{differing}` is not that of its record"
        rows.findings.add(Kind.RECORD, file, detail, row["id"])
    if rows.api_ids.add(api.id):
        rows.findings.add(Kind.RECORD, file, "its id is there twice", row["id"])
    rows.api_texts.add(to_text({**raw, "provenance": []}))
    rows.api_values.add(canonical(api.bare().model_dump(mode="json")))
    place = zone(rows.plan, api.category, api.tool)
    if place.value != split:
        detail = f"is in {split}; its category and tool belong into {place}"
        rows.findings.add(Kind.SPLIT, file, detail, row["id"])
    if place is Split.TRAIN:
        rows.seen_categories.add(api.category)
    return raw


def verify_samples(rows: Rows, split: str) -> None:
    """A split's samples, and beside each its row of `sft`."""
    training = _Training(rows, split)
    for file, row in rows.rows(SAMPLES.name, split):
        if raw := _sample(rows, file, row):
            _in_split(rows, split, file, raw)
            training.hold_against(raw, file)
            rows.count(split).add(raw)
            rows.makers |= makers(raw)
        else:
            training.skip(str(row.get("id")))
    training.finish()


def _sample(rows: Rows, file: str, row: JsonObject) -> JsonObject | None:
    """The record in a row, with all that is wrong in it told; None if it holds none."""
    findings, name = rows.findings, row.get("id")
    try:
        raw = {key: _parsed(row[key]) for key in PARTS}
        sample = Sample.model_validate(raw)
        query = raw["dialogue"]["query"]
        same = all(_is_text_of(row[key], raw[key]) for key in PARTS)
        same = same and all(query[key] == row[key] for key in ("id", "ability", "scenario"))
        differing = None if same else _differing(samples_row(raw), row)
    except _UNFIT as error:
        findings.add(Kind.RECORD, file, f"holds no sample ({_why(error)})", name)
        return None
    if differing:
        findings.add(Kind.RECORD, file, f"`{differing}` is not that of its record", name)
    if rows.ids.add(sample.id):
        findings.add(Kind.RECORD, file, "its id is there twice", name)
    if not sample.verdict.accepted:
        findings.add(Kind.RECORD, file, "its verdict is not to accept it", name)
    for fault in inspect(sample.dialogue):
        at = "" if fault.turn is None else f" (message {fault.turn})"
        findings.add(Kind.CHECK, file, f"{fault.reason}: {fault.detail}{at}", name)
    rows.inspected += 1
    return raw


def _in_split(rows: Rows, split: str, file: str, raw: JsonObject) -> None:
    """The row is in the split of its calls, and shows nothing that is held out of it."""
    need, findings = raw["dialogue"]["query"], rows.findings
    if split not in tuple(Split):
        return  # told as a fault of the manifest
    place = split_of(rows.plan, need)
    if place.value != split:
        detail = f"is in {split}; its APIs and calls belong into {place}"
        findings.add(Kind.SPLIT, file, detail, need["id"])
    elif held_out := stray(rows.plan, need, place):
        detail = f"shows {held_out}, which is held out of {split}"
        findings.add(Kind.SPLIT, file, detail, need["id"])
    if any(config == APIS.name for config, _ in rows.broken):
        return
    for api in shown(need):
        if api_id(api) not in rows.api_ids:
            findings.add(Kind.SPLIT, file, f"shows {api_id(api)}, not in `apis`", need["id"])
        elif not _is_published(api, rows):
            detail = f"shows {api_id(api)} otherwise than `apis` has it"
            findings.add(Kind.RECORD, file, detail, need["id"])
    if split == Split.TEST_TOOL:
        for api in needed(need):
            if api["category"] not in rows.seen_categories:
                detail = f"needs {api_id(api)}, of whose category no tool is seen in training"
                findings.add(Kind.SPLIT, file, detail, need["id"])


def _is_published(api: JsonObject, rows: Rows) -> bool:
    """Whether an API of a row, which was read before, is one of `apis`; nearly all are letter by
    letter, but for rows that another version of toolloom wrote."""
    try:
        text = to_json(api).decode()
    except ValueError:  # half characters
        text = to_text(api)
    if text in rows.api_texts:
        return True
    found = Api.model_validate(api).bare().model_dump(mode="json")
    return canonical(found) in rows.api_values


class _Training:
    """The rows of `sft`, read in step with the samples: the same order, some left out."""

    def __init__(self, rows: Rows, split: str) -> None:
        self._rows, self._split = rows, split
        self._there = rows.rows(SFT.name, split)
        self._next = next(self._there, None)
        rows.left_out.setdefault(split, 0)

    def hold_against(self, raw: JsonObject, file: str) -> None:
        """The sample's row is the next one and equal to what is made of the sample."""
        findings, name = self._rows.findings, raw["dialogue"]["query"]["id"]
        made = sft_row(raw)
        if self._next is None or self._next[1].get("id") != name:
            made = encoded(SFT, made)
            texts = [*made["messages"], *made["tools"]]
            if any(map(delicate, texts)) and not reads_back(made):
                self._rows.left_out[self._split] += 1
            elif (SFT.name, self._split) not in self._rows.broken:
                findings.add(Kind.TRAINING, file, "has no row in `sft` at its place", name)
            return
        there, row = self._next
        self._next = next(self._there, None)
        if not all(map(_is_stored, made, made.values(), map(row.get, made))):
            made = encoded(SFT, made)
            if made != row:
                findings.add(Kind.TRAINING, there, _difference(made, row), name)

    def skip(self, name: str) -> None:
        """The row of a sample that cannot be read."""
        if self._next is not None and str(self._next[1].get("id")) == name:
            self._next = next(self._there, None)

    def finish(self) -> None:
        lacking = (SAMPLES.name, self._split) in self._rows.broken
        while self._next is not None and not lacking:
            file, row = self._next
            detail = "has no sample in `samples` at its place"
            self._rows.findings.add(Kind.TRAINING, file, detail, row.get("id"))
            self._next = next(self._there, None)


def _is_stored(name: str, value: Any, stored: Any) -> bool:
    """Is this what `sft` stores of a column? Yes is certain."""
    if SFT.columns[name].kind != "objects" or not isinstance(stored, list):
        return bool(value == stored)
    return len(value) == len(stored) and all(map(_is_text_of, stored, value))


def _parsed(text: Any) -> Any:
    """JSON, by the faster of two parsers; where it refuses, the other has the word."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def _is_text_of(text: Any, value: Any) -> bool:
    """Is this what we write for the value? `to_json` is faster, and writes nearly all the same."""
    try:
        if to_json(value).decode() == text:
            return True
    except ValueError:  # half characters
        pass
    return bool(to_text(value) == text)


def _difference(made: JsonObject, row: JsonObject) -> str:
    """Where a row of `sft` leaves its sample: the column, and the item of a list."""
    name = next(key for key in {**made, **row} if made.get(key) != row.get(key))
    wanted, found = made.get(name), row.get(name)
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        place = next(i for i, (a, b) in enumerate(zip(wanted, found, strict=True)) if a != b)
        name, wanted, found = f"{name}[{place}]", wanted[place], found[place]
    if isinstance(wanted, str) and isinstance(found, str):
        pairs = enumerate(zip(wanted, found, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(found)))
        wanted, found = wanted[max(0, at - 20) :], found[max(0, at - 20) :]
    return f"`{name}` has {_short(found)}, its sample {_short(wanted)}"


def verify_rejected(rows: Rows) -> None:
    """What was rejected: valid records, in their splits."""
    for split in rows.told.configs.get(REJECTED.name, {}):
        for file, row in rows.rows(REJECTED.name, split):
            _rejected(rows, split, file, row)


def _rejected(rows: Rows, split: str, file: str, row: JsonObject) -> None:
    findings, name = rows.findings, row.get("id")
    try:
        raw = {**row, **{key: _parsed(row[key]) for key in _REJECTED_PARTS}}
        record = Rejected.model_validate(raw)
        same = all(_is_text_of(row[key], raw[key]) for key in _REJECTED_PARTS)
        differing = None if same else _differing(rejected_row(raw), row)
        need = need_of(raw["record"])
        place = split_of(rows.plan, need).value if "intent" in need else BEFORE_QUERIES
    except _UNFIT as error:
        findings.add(Kind.RECORD, file, f"holds no rejected record ({_why(error)})", name)
        return
    if differing:
        findings.add(Kind.RECORD, file, f"`{differing}` is not that of its record", name)
    if place != split:
        findings.add(Kind.SPLIT, file, f"is in {split}; it was drawn for {place}", name)
    rows.count(split).reject(Reason(record.reason).value)


def _differing(made: JsonObject, row: JsonObject) -> str | None:
    """The first column in which a row is not what is made of its record."""
    if made == row:
        return None
    return next(key for key in {**made, **row} if made.get(key) != row.get(key))


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:119] + "…"
