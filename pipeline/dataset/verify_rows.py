"""Every row of a version again: its record, all certain checks, its split, the rows made of it.

Tables are read one row at a time. Configs that are made of other records (`sft`, `planning`) are
read in step with the config that holds these (`Follower`), so that nothing has to be kept.
"""

from __future__ import annotations

import hashlib
import json
import marshal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, zip_longest
from typing import Any, TypeVar, cast

from pydantic_core import to_json

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.figures import Figures, split_of_rejected
from toolloom.pipeline.dataset.rows import (
    APIS,
    BASES,
    SAMPLES,
    WORLDS,
    base_of,
    configs_of,
)
from toolloom.pipeline.dataset.verify_beside import Inspectors
from toolloom.pipeline.dataset.verify_files import MANIFEST, FaultKind, Manifest, VersionFiles
from toolloom.pipeline.store.files import to_text
from toolloom.pipeline.store.tables import Config
from toolloom.pipeline.store.version import PARTS
from toolloom.schemas import (
    Api,
    Instruction,
    JsonObject,
    Record,
    Rejected,
    Sample,
    Setting,
    Split,
    SplitPlan,
    World,
    canonical,
)
from toolloom.schemas.splits import api_id, needed, shown, split_of, stray, tool_of, zone

# What hostile JSON raises on its way into a record; pydantic's own error is a ValueError.
UNFIT = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
# How a record is named, and of its split: how it is told, and which it is.
_ORIGINS: dict[type[Record], tuple[str, str, Callable[[SplitPlan, JsonObject], str]]] = {
    Sample: (
        "sample",
        "its APIs and calls belong into",
        lambda plan, raw: split_of(plan, raw["dialogue"]["query"]),
    ),
    Instruction: ("instruction", "it says", lambda _, raw: str(raw["split"])),
    Rejected: (
        "rejected record",
        "it was drawn for",
        lambda plan, raw: split_of_rejected(plan, raw["record"]),
    ),
    Api: (
        "API",
        "its category and tool belong into",
        lambda plan, raw: zone(plan, *tool_of(raw)),
    ),
    World: (
        "world",
        "its category and tool belong into",
        lambda plan, raw: zone(plan, *tool_of(raw)),
    ),
}
R = TypeVar("R", bound=Record)
_SHOWN = 1_000  # APIs whose records are kept


class Ids:
    """Which ids there were, in eight bytes and a bit each."""

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def add(self, name: str) -> bool:
        """Whether it was there before."""
        before = len(self._seen)
        self._seen.add(small(name))
        return len(self._seen) == before

    def __contains__(self, name: str) -> bool:
        return small(name) in self._seen


def small(name: str) -> int:
    hashed = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8)
    return int.from_bytes(hashed.digest(), "big")


@dataclass
class VersionRows:
    """A version's rows as they are read, and what is known of those that were."""

    files: VersionFiles
    manifest: Manifest
    step: Callable[[], None]  # called for each row
    figures: Figures = field(default_factory=Figures)
    read: Counter[str] = field(default_factory=Counter)  # by config
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)  # by config and split
    broken: set[tuple[str, str]] = field(default_factory=set)  # config and split, not all read
    inspected: int = 0
    ids: Ids = field(default_factory=Ids)  # of samples
    apis: Ids = field(default_factory=Ids)  # by id
    api_texts: Ids = field(default_factory=Ids)  # whole APIs, as rows show them
    api_values: Ids = field(default_factory=Ids)  # and whatever the order and number of fields
    shown: dict[bytes, Api] = field(
        default_factory=dict
    )  # of `apis`, by content, as rows show them
    shown_ids: set[int] = field(default_factory=set)  # these objects
    seen_categories: set[str] = field(default_factory=set)
    worlds: dict[str, Machine | None] = field(default_factory=dict)  # by hash; None: cannot be run
    beside: Inspectors | None = None

    @property
    def plan(self) -> SplitPlan:
        return self.manifest.plan

    @property
    def fault(self) -> Callable[..., None]:
        """See `VersionFiles.fault`."""
        return self.files.fault

    def splits(self, config: Config) -> list[str]:
        return list(self.manifest.configs.get(config.name, {}))

    def of(self, config: Config, split: str) -> Iterator[tuple[str, JsonObject]]:
        """File and row of each row of a table, as it is stored."""
        table = self.files.table(config.name, split)
        names = self.files.readable(config.name, split)
        if table and len(names) < len(table.files):
            self.broken.add((config.name, split))
        for name in names:
            count = 0
            for row in self.files.rows(name):
                count += 1
                self.read[config.name] += 1
                self.step()
                yield name, row
            if table and count != table.files[name].rows:
                self.broken.add((config.name, split))

    def counts(self) -> dict[str, int]:
        """How many rows were read, by config: the APIs first, which all others are held against."""
        order = [APIS.name, *self.manifest.configs]
        return {name: self.read[name] for name in dict.fromkeys(order) if name in self.read}

    def recipes(self) -> list[JsonObject]:
        """The recipes that the manifest tells, as far as they are any."""
        recipes = (run.get("recipe") for run in self.manifest.runs.values())
        return [recipe for recipe in recipes if isinstance(recipe, dict)]


class Follower:
    """The rows of a config that are made of another's records, in the same order.

    Some may be left out: those that `datasets` would not give back, and all rows of a record that
    the runs' recipes do not want.
    """

    def __init__(self, rows: VersionRows, config: Config, split: str) -> None:
        self._rows, self._config, self._split = rows, config, split
        self._base = base_of(config)
        self._name = _ORIGINS[config.row.origin][0]
        self._there = rows.of(config, split)
        self._waiting: deque[tuple[str, JsonObject]] = deque()
        self._recipes = rows.recipes()
        rows.left_out[config.name, split] += 0  # it is told, also if there is none

    def _next(self) -> tuple[str, JsonObject] | None:
        if not self._waiting:
            self._waiting.extend(islice(self._there, 1))
        return self._waiting[0] if self._waiting else None

    def hold_against(self, record: JsonObject, name: str, file: str) -> None:
        """A record's rows are the next ones, and equal to what is made of it."""
        made = list(self._config.row.of(record))
        says = {self._config.row.wanted(record, recipe) for recipe in self._recipes} - {None}
        counts = {0 if said is False else len(made) for said in says or {True}}
        there = sum(self._is_there(row, may_lack=0 in counts) for row in made)
        if there in counts or (self._config.name, self._split) in self._rows.broken:
            return
        has = f"has {there} rows in `{self._config.name}` at its place, not {max(counts)}"
        if len(made) == 1:
            has = f"has no row in `{self._config.name}` at its place"
        self._rows.fault(FaultKind.TRAINING, file, has, name)

    def _is_there(self, row: JsonObject, may_lack: bool) -> bool:
        """Take the next row, if it is this one; one that cannot be stored need not be there."""
        found = self._next()
        if found is None or found[1].get("id") != row["id"]:
            if may_lack or self._config.holds(self._config.encode(row)):
                return False
            self._rows.left_out[self._config.name, self._split] += 1
            return True
        file, there = self._waiting.popleft()
        self._rows.figures.add(self._config, self._split, row)
        if not all(map(self._is_stored, row, row.values(), map(there.get, row))):
            made = self._config.encode(row)
            if made != there:
                detail = _difference(made, there, self._name)
                self._rows.fault(FaultKind.TRAINING, file, detail, row["id"])
        return True

    def _is_stored(self, name: str, value: Any, stored: Any) -> bool:
        """Is this what is stored of a column? Yes is certain."""
        if name in self._config.values:
            return is_text_of(stored, value)
        if name not in self._config.objects or not isinstance(stored, list):
            return bool(value == stored)
        return len(value) == len(stored) and all(map(is_text_of, stored, value))

    def skip(self, name: str) -> None:
        """The rows of a record that cannot be read."""
        several = self._config.row.origin is Instruction
        while found := self._next():
            there = str(found[1].get("id"))
            if there != name and not (several and there.startswith(name)):
                return
            self._waiting.popleft()

    def finish(self) -> None:
        lacking = (self._base.name, self._split) in self._rows.broken
        detail = f"has no {self._name} in `{self._base.name}` at its place"
        while self._next() and not lacking:
            file, row = self._waiting.popleft()
            self._rows.fault(FaultKind.TRAINING, file, detail, row.get("id"))


def verify_table(
    rows: VersionRows,
    base: Config,
    split: str,
    inspect_record: Callable[[str, str, JsonObject, R], None] | None = None,
) -> Iterator[tuple[str, JsonObject]]:
    """File and record of each row of a table that holds records whole; beside each record the
    rows that are made of it are held against it.

    What is wrong with all kinds of records is told here; the rest `inspect_record` tells, of a
    split, a file, and the record as it is stored and as it is read.
    """
    made = [config for config in configs_of(base.row.origin) if config not in BASES]
    follow = [Follower(rows, config, split) for config in made]
    there = rows.of(base, split)
    for file, row in rows.beside.ahead(there) if rows.beside and base is SAMPLES else there:
        if read := _record_of(rows, base, split, file, row):
            raw, record = read
            if inspect_record:
                inspect_record(split, file, raw, cast("R", record))
            for each in follow:
                each.hold_against(raw, row["id"], file)
            rows.figures.add(base, split, row, raw)
            yield file, raw
        else:
            for each in follow:
                each.skip(str(row.get("id")))
    for each in follow:
        each.finish()


def _record_of(
    rows: VersionRows, base: Config, split: str, file: str, row: JsonObject
) -> tuple[JsonObject, Record] | None:
    """The record in a row, as it is stored and as it is read; None, which is told, if it holds
    none. Its columns are those of its record, and its split is the one that this belongs into."""
    name, told_as, split_of_record = _ORIGINS[base.row.origin]
    try:
        raw = base.row.record_of(row)
        is_sample = base.row.origin is Sample
        record = base.row.origin.model_validate(_with_shown(rows, raw) if is_sample else raw)
        # To write a sample once more takes longer than to compare its texts.
        need = raw["dialogue"]["query"] if is_sample else {}
        same = bool(need) and all(is_text_of(row[key], raw[key]) for key in PARTS)
        same = same and all(need[key] == row[key] for key in ("id", "ability", "scenario"))
        (made,) = (row,) if same else base.row.of(raw)
        differing = differing_column(made, row)
        place = split_of_record(rows.plan, raw)
    except UNFIT as error:
        why = f"holds no {name} ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        rows.fault(FaultKind.RECORD, file, why, row.get("id"))
        return None
    if differing:
        detail = f"`{differing}` is not that of its record"
        rows.fault(FaultKind.RECORD, file, detail, row["id"])
    told = base.row.origin is Sample and split not in tuple(Split)  # of the manifest, once
    if place != split and not told:
        rows.fault(FaultKind.SPLIT, file, f"is in {split}; {told_as} {place}", row["id"])
    return raw, record


def _with_shown(rows: VersionRows, raw: JsonObject) -> JsonObject:
    """A sample with the records of those APIs that earlier rows showed: most show the same."""
    dialogue, query = raw["dialogue"], raw["dialogue"]["query"]
    pool = [rows.shown.get(_content(api), api) for api in query["pool"]]
    return {**raw, "dialogue": {**dialogue, "query": {**query, "pool": pool}}}


def _content(api: JsonObject) -> bytes:
    return marshal.dumps(api, 2)  # 2: by value and exact type


def verify_splits(rows: VersionRows) -> None:
    """What is made of records has no split that these have not."""
    for base in BASES:
        for config in configs_of(base.row.origin):
            for split in rows.splits(config):
                if split not in rows.splits(base):
                    detail = f"`{config.name}` has {split}, `{base.name}` has not"
                    rows.fault(FaultKind.TRAINING, MANIFEST, detail)


def verify_apis(rows: VersionRows) -> None:
    """The APIs: valid records, each once, in their zones, counted right."""
    for split in rows.splits(APIS):
        for _, api in verify_table(rows, APIS, split, partial(_inspect_api, rows)):
            if zone(rows.plan, *tool_of(api)) is Split.TRAIN:
                rows.seen_categories.add(api["category"])
    if rows.broken:
        return
    told, found = rows.manifest.apis, rows.figures.apis_json()["sources"]
    for name, figure in (("count", rows.read.get(APIS.name, 0)), ("sources", found)):
        if told.get(name) != figure:
            detail = f"apis.{name} is {short(told.get(name))}, the data have {short(figure)}"
            rows.fault(FaultKind.FIGURE, MANIFEST, detail)


def _inspect_api(rows: VersionRows, _: str, file: str, raw: JsonObject, api: Api) -> None:
    if rows.apis.add(api.id):
        rows.fault(FaultKind.RECORD, file, "its id is there twice", api.id)
    rows.api_texts.add(to_text({**raw, "provenance": []}))
    rows.api_values.add(canonical(api.bare().model_dump(mode="json")))


def verify_worlds(rows: VersionRows) -> None:
    """The worlds: valid records, each once, in their zones, that can be run."""
    for split in rows.splits(WORLDS):
        deque(verify_table(rows, WORLDS, split, partial(_inspect_world, rows)), maxlen=0)


def _inspect_world(rows: VersionRows, _: str, file: str, raw: JsonObject, world: World) -> None:
    if world.hash in rows.worlds:
        rows.fault(FaultKind.RECORD, file, "what it does is there twice", world.id)
    if world.spec.get("name") != world.name:
        rows.fault(FaultKind.RECORD, file, "is not called what its spec says", world.id)
    rows.worlds[world.hash] = None
    try:
        rows.worlds[world.hash] = Machine(world.spec)
    except Exception as error:  # noqa: BLE001  # a foreign tree is built: anything may come of it
        rows.fault(FaultKind.RECORD, file, f"is no world that can be run ({_why(error)})", world.id)


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _machine(rows: VersionRows, file: str, name: str, setting: Setting) -> Machine | None:
    """The machine of a row's world; None, which is told, if the version has not got it."""
    machine = rows.worlds.get(setting.hash)
    if machine and machine.world["name"] == setting.world:
        return machine
    if setting.hash not in rows.worlds or machine:
        if any(config == WORLDS.name for config, _ in rows.broken):
            return None
        detail = f"plays in {setting.world} ({setting.hash}), which `worlds` has not"
        rows.fault(FaultKind.RECORD, file, detail, name)
    return None


def inspect_sample(
    rows: VersionRows, split: str, file: str, raw: JsonObject, sample: Sample
) -> None:
    """Tell what the certain checks find, and which APIs the row must not show."""
    if rows.ids.add(sample.id):
        rows.fault(FaultKind.RECORD, file, "its id is there twice", sample.id)
    if not sample.verdict.accepted:
        rows.fault(FaultKind.RECORD, file, "its verdict is not to accept it", sample.id)
    setting = sample.dialogue.query.setting
    machine = _machine(rows, file, sample.id, setting) if setting else None
    try:
        found = (
            rows.beside.found(setting.hash if setting and machine else None)
            if rows.beside
            else None
        )
        faults = inspect(sample.dialogue, world=machine) if found is None else found
    except Exception as error:
        if machine is None:
            raise
        # A foreign world runs in a foreign state.
        rows.fault(FaultKind.CHECK, file, f"cannot be replayed ({_why(error)})", sample.id)
        faults = ()
    for fault in faults:
        at = "" if fault.turn is None else f" (message {fault.turn})"
        rows.fault(FaultKind.CHECK, file, f"{fault.reason}: {fault.detail}{at}", sample.id)
    rows.inspected += 1
    need = raw["dialogue"]["query"]
    if split not in tuple(Split):
        return  # told as a fault of the manifest
    place = split_of(rows.plan, need)
    if place == split and (held_out := stray(rows.plan, need, place)):
        detail = f"shows {held_out}, which is held out of {split}"
        rows.fault(FaultKind.SPLIT, file, detail, sample.id)
    if any(config == APIS.name for config, _ in rows.broken):
        return
    for api, record in zip_longest(shown(need), sample.dialogue.query.pool):
        if id(record) in rows.shown_ids:
            continue
        if api_id(api) not in rows.apis:
            rows.fault(FaultKind.SPLIT, file, f"shows {api_id(api)}, not in `apis`", sample.id)
        elif not _is_published(api, rows):
            detail = f"shows {api_id(api)} otherwise than `apis` has it"
            rows.fault(FaultKind.RECORD, file, detail, sample.id)
        elif record and len(rows.shown) < _SHOWN and _content(api) not in rows.shown:
            rows.shown[_content(api)] = record
            rows.shown_ids.add(id(record))
    if split == Split.TEST_TOOL:
        for api in needed(need):
            if api["category"] not in rows.seen_categories:
                detail = f"needs {api_id(api)}, of whose category no tool is seen in training"
                rows.fault(FaultKind.SPLIT, file, detail, sample.id)


def _is_published(api: JsonObject, rows: VersionRows) -> bool:
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


def is_text_of(text: Any, value: Any) -> bool:
    """Is this what we write for the value? `to_json` is faster, and writes nearly all the same."""
    try:
        if to_json(value, inf_nan_mode="constants").decode() == text:
            return True
    except ValueError:  # half characters
        pass
    return bool(to_text(value) == text)


def differing_column(made: JsonObject, row: JsonObject) -> str | None:
    """The first column in which a row is not what is made of its record."""
    if made == row:
        return None
    return next(key for key in {**made, **row} if made.get(key) != row.get(key))


def _difference(made: JsonObject, row: JsonObject, origin: str) -> str:
    """Where a row leaves the record it is made of: the column, and the item of a list."""
    name = differing_column(made, row) or ""
    wanted, stored = made.get(name), row.get(name)
    if isinstance(wanted, list) and isinstance(stored, list) and len(wanted) == len(stored):
        place = next(i for i, (a, b) in enumerate(zip(wanted, stored, strict=True)) if a != b)
        name, wanted, stored = f"{name}[{place}]", wanted[place], stored[place]
    if isinstance(wanted, str) and isinstance(stored, str):
        pairs = enumerate(zip(wanted, stored, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(wanted), len(stored)))
        wanted, stored = wanted[max(0, at - 20) :], stored[max(0, at - 20) :]
    return f"`{name}` has {short(stored)}, its {origin} {short(wanted)}"


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:119] + "…"
