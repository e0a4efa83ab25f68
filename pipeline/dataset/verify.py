"""Verifies a version of a dataset without a model or a network.

Five questions, of which each takes the version's files for what a stranger may have written:

1. Are its files those that `manifest.json` and `SHA256SUMS` name, and its tables in the layout?
2. Does each row of `samples`, `instructions`, `rejected`, `apis` and `worlds` hold a valid record,
   in its split, in which no certain check finds a fault? (Dialogues in processes beside this one.)
3. Are the rows of all other configs those that are made of these records, in their order?
4. Are the figures, the card and `replay/` what is made of the tables?
5. Does it follow from its parent, if that is there?
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import chain, groupby, tee, zip_longest
from os.path import isfile
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field

from toolloom.pipeline.checks import CHECKS, inspect, instructions
from toolloom.pipeline.checks.schema import as_dict, as_list
from toolloom.pipeline.checks.transcript import MOST, Findings
from toolloom.pipeline.checks.transcript import shown as as_told
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset import figures
from toolloom.pipeline.dataset.configs import (
    APIS,
    BASES,
    CONFIGS,
    INSTRUCTIONS,
    PLANNING,
    REJECTED,
    SAMPLES,
    WORLDS,
    base_of,
    configs_of,
    makers_of,
    seed_of,
    seed_of_rows,
)
from toolloom.pipeline.dataset.publish import code_hash, made_of, sums
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.store.files import explain, to_text
from toolloom.pipeline.store.run_folder import batches
from toolloom.pipeline.store.version import (
    Config,
    FileEntry,
    Manifest,
    TableEntry,
    cause,
    change,
    check_layout,
    dotted,
    numbered,
    parsed,
    read_rows,
)
from toolloom.schemas import (
    FINISH,
    Api,
    Granularity,
    Instruction,
    JsonObject,
    Record,
    Sample,
    Seed,
    Split,
    StoreError,
    World,
    canonical,
    digest,
)
from toolloom.schemas.splits import SEEN, api_id, needed, shown, split_of, stray, tool_of, zone

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
MANY = 2_000  # dialogues, from which processes that begin for them are worth it
CHUNK = 32  # rows that a process is given at a time
_LINE = re.compile(rb"([0-9a-f]{64})  ([^\n]+)")
_LARGEST = 64 * 2**20  # of a manifest, in bytes
Progress = Callable[[int, int], None]
"""Rows read, rows in all; called often."""


class FaultKind(StrEnum):
    """What is wrong, in the order in which it is told."""

    FILE = "file"
    TABLE = "table"
    RECORD = "record"
    CHECK = "check"
    TRAINING = "training row"
    SPLIT = "split"
    LINEAGE = "lineage"
    FIGURE = "figure"


FILE, TABLE, RECORD, CHECK, TRAINING, SPLIT, LINEAGE, FIGURE = FaultKind
ABOUT = {
    FILE: "files that are not what the version was published with",
    TABLE: "tables that cannot be read, or are not in the layout",
    RECORD: "rows that hold no valid record",
    CHECK: "rows in which a certain check finds a fault",
    TRAINING: "rows that are not made of their record",
    SPLIT: "rows and APIs that are in the wrong split",
    LINEAGE: "what does not follow from the parent version",
    FIGURE: "figures that are not those of the data",
}


class VersionFault(Record):
    """One thing that is not as it must be."""

    kind: FaultKind
    file: str = Field(description="The file, as its path in the version.")
    row: str | None = Field(default=None, description="Id of the row, where it is one.")
    detail: str = Field(description="What is wrong.")


class VerifyReport(Record):
    """A verification."""

    path: str
    version: str = Field(description="Name and number, such as `weather/1.2.0`.")
    files: int = Field(description="Files whose hashes were taken.")
    size: int = Field(description="Bytes in them.")
    rows: dict[str, int] = Field(description="Rows that were read, by config.")
    inspected: int = Field(description="Dialogues that all certain checks went through.")
    checks: int = Field(description="Certain checks of a dialogue.")
    counts: dict[FaultKind, int] = Field(description="Findings by kind.")
    faults: tuple[VersionFault, ...] = Field(description=f"Findings, at most {MOST} of a kind.")
    notes: tuple[str, ...] = Field(description="What could not be looked at.")
    seconds: float = Field(description="Wall time.")

    @property
    def good(self) -> bool:
        return not self.counts


@dataclass
class VersionFiles:
    """What is in a version's folder, and what is wrong with it."""

    root: Path
    hashes: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    raw: JsonObject = field(default_factory=dict)  # the manifest as it is in its file
    manifest: Manifest | None = None  # None: it is damaged
    findings: Findings[FaultKind, VersionFault] = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)  # what could not be looked at
    broken: set[tuple[str, str]] = field(default_factory=set)  # config and split, not all read

    def fault(self, kind: FaultKind, file: str, detail: str, row: Any = None) -> None:
        """Tell what is wrong, in a file or in one of its rows."""
        name = None if row is None else str(row)[:200]
        self.findings.add(kind, VersionFault(kind=kind, file=file, row=name, detail=detail[:2000]))

    @property
    def faults(self) -> tuple[VersionFault, ...]:
        """Those that are kept, kind by kind, each in the order in which they were found."""
        return tuple(chain.from_iterable(self.findings.kept[kind] for kind in FaultKind))

    @property
    def told(self) -> Manifest:
        assert self.manifest
        return self.manifest

    @cached_property
    def entries(self) -> dict[str, FileEntry]:
        """What the manifest tells of the tables' files, by name."""
        return {name: told for _, _, name, told in self.told.tables()} if self.manifest else {}

    def tables(self, config: Config) -> dict[str, TableEntry]:
        """What the manifest tells of a config's tables, by split."""
        return self.told.configs.get(config.name, {})

    def rows(self, config: Config, split: str) -> Iterator[tuple[str, JsonObject]]:
        """File and row of each row of a table, as it is stored, as far as it can be read."""
        table = self.tables(config).get(split)
        for name, told in table.files.items() if table else ():
            count = 0
            try:
                for row in read_rows(self.root / name, stored=True) if name in self.hashes else ():
                    count += 1
                    yield name, row
            except StoreError as error:
                self.fault(TABLE, name, f"cannot be read ({cause(error)})")
            if count != told.rows:
                self.broken.add((config.name, split))


def verify(path: Path, progress: Progress | None = None, processes: int = 0) -> VerifyReport:
    """Everything that can be known of a version from its folder. Raises StoreError.

    `processes`: how many look at rows beside this one, where there are many of them. They are
    begun anew, so that a script that asks for them must be guarded by `__name__`.
    """
    started = time.monotonic()
    files = look(path)
    _known.cache_clear()  # the folder may hold other files by now
    told, rows = files.manifest, Rows(files, progress, processes)
    if told is not None:
        look_at_tables(files, told)
        rows.verify()
        _figures(files, told, rows)
        _made(files)
        _lineage(files, told)
    counts = files.findings.counts
    return VerifyReport(
        path=str(path),
        version=f"{told.name}/{told.version}" if told else path.name,
        files=len(files.sizes),
        size=sum(files.sizes.values()),
        rows={c.name: rows.read[c.name] for c in (APIS, *CONFIGS) if c.name in rows.read},
        inspected=rows.inspected,
        checks=sum(map(len, CHECKS)),
        counts={kind: counts[kind] for kind in FaultKind if counts[kind]},
        faults=files.faults,
        notes=tuple(files.notes),
        seconds=time.monotonic() - started,
    )


# -- 1. Files -------------------------------------------------------------------------------------


def look(root: Path) -> VersionFiles:
    """Hash all files and hold them against manifest and checksums. Raises StoreError for a version
    of another layout."""
    files = VersionFiles(root)
    try:
        for name, path in _walk(files):
            files.hashes[name] = figures.sha256(path)
            files.sizes[name] = path.stat().st_size
    except OSError as error:
        raise explain(Path(error.filename or root), error, "read") from error
    lines = (root / SUMS).read_bytes() if SUMS in files.hashes else None
    listed = {m[2].decode("utf-8", "replace"): m[1].decode() for m in _LINE.finditer(lines or b"")}
    if MANIFEST in files.hashes:
        # A layout that it names is to be believed if its hash is that of the checksums.
        _read_manifest(files, listed.get(MANIFEST) in (None, files.hashes[MANIFEST]))
    told = files.manifest
    known: dict[str, str | None] = {MANIFEST: None, SUMS: None, **(told.files if told else listed)}
    known |= {name: entry.sha256 for name, entry in files.entries.items()}
    for name in sorted(known.keys() | files.hashes.keys()):
        entry = files.entries.get(name)
        if name not in files.hashes:
            files.fault(FILE, name, "is missing")
        elif name not in known:
            files.fault(FILE, name, "is not part of the version")
        elif entry and entry.bytes != files.sizes[name]:
            files.fault(FILE, name, f"has {files.sizes[name]:,} bytes instead of {entry.bytes:,}")
        elif known[name] not in (None, files.hashes[name]):
            files.fault(FILE, name, f"its SHA-256 is not the one in {MANIFEST if told else SUMS}")
    if told and lines is not None:
        wanted = b"".join(sums(files.raw, {**told.files, MANIFEST: files.hashes[MANIFEST]}))
        number, line, due = first_difference(lines, wanted)
        if number:
            files.fault(FILE, SUMS, f"line {number} is {line} and must be {due}")
    return files


def _walk(files: VersionFiles) -> Iterator[tuple[str, Path]]:
    """The regular files below a folder, in order. Links are told and never followed."""

    def stop(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(files.root, onerror=stop):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            inside = path.relative_to(files.root).as_posix()
            if path.is_symlink():
                files.fault(FILE, inside, "is a link; a version holds its files itself")
            elif not path.is_file():
                files.fault(FILE, inside, "is not a regular file")
            else:
                yield inside, path


def _read_manifest(files: VersionFiles, is_sound: bool) -> None:
    try:
        raw = (files.root / MANIFEST).read_bytes()
        if len(raw) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST:,} bytes")
        told = json.loads(raw)
        if is_sound:
            check_layout(files.root / MANIFEST, told)
        files.raw, files.manifest = told, Manifest.model_validate(told)
        if json.dumps(told, indent=2, ensure_ascii=False).encode("utf-8", "replace") + b"\n" != raw:
            files.fault(FILE, MANIFEST, "is not written as toolloom writes it")
    except (ValueError, RecursionError) as error:
        files.fault(FILE, MANIFEST, f"is damaged ({cause(error)})")


def first_difference(there: bytes, due: bytes) -> tuple[int, str, str]:
    """The number of the first line that differs, and the two lines to be told; 0 if none does."""
    lines = zip_longest(there.split(b"\n"), due.split(b"\n"), fillvalue=b"")
    for number, pair in enumerate(lines, 1):
        if pair[0] != pair[1]:
            line, wanted = (as_told(each.decode("utf-8", "replace"), 120) for each in pair)
            return number, line, wanted
    return 0, "", ""


def look_at_tables(files: VersionFiles, told: Manifest) -> None:
    """Each table is in the layout: names, columns, types, numbers of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = {config.name: config for config in CONFIGS}
    for config, splits in told.configs.items():
        for split, table in splits.items():
            count = len(table.files)
            names = [f"{config}/{split}-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
            if config not in known or split not in figures.ORDER or list(table.files) != names:
                detail = f"{config}/{split} is not a table, or its files have other names"
                files.fault(TABLE, MANIFEST, detail)
            for name in [n for n in table.files if config in known and n in files.hashes]:
                try:
                    with pq.ParquetFile(files.root / name) as file:
                        schema, rows = file.schema_arrow, file.metadata.num_rows
                    if not schema.equals(known[config].columns.types):
                        raise ValueError(f"its columns are {', '.join(map(str, schema))[:300]}")
                except (OSError, pa.ArrowException, ValueError) as error:
                    files.fault(TABLE, name, f"cannot be read as {config} ({cause(error)})")
                    del files.hashes[name]  # its rows are not read
                    continue
                if rows != table.files[name].rows:
                    detail = f"holds {rows:,} rows instead of {table.files[name].rows:,}"
                    files.fault(TABLE, name, detail)


# -- 2. Records, and 3. the rows that are made of them ---------------------------------------------


Stored: TypeAlias = tuple[str, JsonObject]
"""The file of a row, and the row as it is stored."""
Fault: TypeAlias = tuple[FaultKind, str, str, str]
"""Kind, file, what is wrong, id of the row."""


@dataclass
class Entry:
    """A row that should hold a record, and those that should be made of it, by config: of tables
    that were read."""

    file: str
    row: JsonObject
    made: dict[str, list[Stored]]
    record: JsonObject | None = None  # once it was read in this process

    @property
    def id(self) -> str:
        return str(self.row.get("id"))


class Known:
    """What the rows of a version are held against: its plan, APIs and worlds, and its runs."""

    def __init__(self, files: VersionFiles, told: Manifest) -> None:
        self.plan = told.plan
        self.recipes = [as_dict(run.get("recipe")) for run in told.runs.values()]
        agents = chain.from_iterable(as_list(run.get("agents")) for run in told.runs.values())
        names = ("stage", "agent", "model", "prompts")
        self.makers = {canonical([*map(as_dict(agent).get, names)]) for agent in agents}
        # The numbers of votes that the runs asked for on an instruction.
        plans = [recipe for recipe in self.recipes if isinstance(recipe.get("rewrite"), dict)]
        own = [recipe["rewrite"].get("votes") for recipe in plans]
        usual = [as_dict(recipe.get("tester")).get("votes") for recipe in plans]
        asked = [a if a is not None else b for a, b in zip(own, usual, strict=True)]
        self.votes = {votes for votes in asked if isinstance(votes, int)} or {0}
        self.apis: dict[str, set[str]] = {}  # hashes of what each is, by id
        self.seen_categories: set[str] = set()
        self.machines: dict[str, Machine | None] = {}  # by hash; None: it cannot be run
        for config in (APIS, WORLDS):
            for split in files.tables(config):
                for _, row in files.rows(config, split):
                    with suppress(Exception):  # told where the row is looked at
                        self._add(config, config.row.record_of(row))
        self.broken = {name for name, _ in files.broken}

    def _add(self, config: Config, record: JsonObject) -> None:
        if config is APIS:
            api = Api.model_validate(record)
            self.apis.setdefault(api.id, set()).add(_shown(record))
            if zone(self.plan, *tool_of(record)) is Split.TRAIN:
                self.seen_categories.add(api.category)
        else:
            world = World.model_validate(record)
            self.machines[world.hash] = None
            self.machines[world.hash] = Machine(world.spec)


def _shown(api: JsonObject) -> str:
    """A hash of an API as rows show it: without who made it, whatever the order of its keys."""
    return _hash_of(to_text({**api, "provenance": []}))


@lru_cache(maxsize=4096)
def _hash_of(text: str) -> str:
    return digest(parsed(text))


@lru_cache(maxsize=1)
def _known(root: Path) -> Known:
    """Read once in each process, and anew for each verification."""
    told = Manifest.model_validate(json.loads((root / MANIFEST).read_bytes()))
    names = [name for _, _, name, _ in told.tables() if not (root / name).is_symlink()]
    return Known(VersionFiles(root, dict.fromkeys(names, ""), manifest=told), told)


def look_at_entries(task: tuple[Path, str, str, list[Entry]]) -> list[tuple[bool, list[Fault]]]:
    """Whether each entry holds a record, and what is wrong with it: of `(version, config, split,
    entries)`. It leans on nothing but these and the version's files."""
    root, name, split, entries = task
    base = next(config for config in BASES if config.name == name)
    return [_look_at(_known(root), base, split, entry) for entry in entries]


def _look_at(known: Known, base: Config, split: str, entry: Entry) -> tuple[bool, list[Fault]]:
    try:
        entry.record = raw = base.row.record_of(entry.row)
        record = base.row.origin.model_validate(raw)
        (due,) = base.row.of(raw)
        differing = _difference(base, due, entry.row)
        place, why = _split_of(known, base, raw)
        derived = [c for c in configs_of(base.row.origin) if c is not base]
        made = [fault for config in derived for fault in _look_at_made(known, config, raw, entry)]
    # What hostile JSON raises on its way into a record is anything.
    except Exception as error:  # noqa: BLE001
        return False, [(RECORD, entry.file, f"holds no {_name(base)} ({cause(error)})", entry.id)]
    found = list[tuple[FaultKind, str]]()
    if differing:
        found.append((RECORD, f"`{differing}` is not that of its record"))
    if place != split:
        found.append((SPLIT, f"is in {split}; {why} {place}"))
    for maker in sorted(makers_of(raw)) if base in (SAMPLES, INSTRUCTIONS) else ():
        if canonical(maker) not in known.makers:
            stage, agent, model, _ = maker
            detail = f"names {agent} of {stage} with the model {model!r}, and no run does"
            found.append((FIGURE, detail))
    if isinstance(record, Sample):
        found += _look_at_sample(known, split if place == split else "", raw, record)
    elif isinstance(record, Instruction):
        found += _look_at_instruction(known, record)
    elif isinstance(record, World):
        if record.spec.get("name") != record.name:
            found.append((RECORD, "is not called what its spec says"))
        if known.machines.get(due["hash"]) is None:
            found.append((RECORD, "is not a world that can be run"))
    return True, [*((kind, entry.file, detail, entry.id) for kind, detail in found), *made]


def _name(base: Config) -> str:
    return {REJECTED.name: "rejected record", APIS.name: "API"}.get(base.name, base.name[:-1])


def _split_of(known: Known, base: Config, raw: JsonObject) -> tuple[str, str]:
    """The split that a record belongs into, and why."""
    if base is SAMPLES:
        split = split_of(known.plan, raw["dialogue"]["query"])
        return split.value, "its APIs and calls belong into"
    if base is INSTRUCTIONS:
        return str(raw["split"]), "it says"
    if base is REJECTED:
        return figures.split_of_rejected(known.plan, raw["record"]), "it was drawn for"
    return zone(known.plan, *tool_of(raw)).value, "its category and tool belong into"


def _look_at_made(
    known: Known, config: Config, record: JsonObject, entry: Entry
) -> Iterator[Fault]:
    """The rows of another config are those that are made of a record, in their order.

    Some may be left out: those that `datasets` would not give back, and those that a run's recipe
    does not want.
    """
    base, lacking = base_of(config), 0
    there, due = deque(entry.made.get(config.name, ())), [*config.row.of(record)]
    for row in due:
        says = {config.row.wanted(record, recipe) for recipe in known.recipes} - {None}
        if not there or there[0][1]["id"] != row["id"]:
            lacking += says <= {True} and config.columns.hold(config.columns.encode(row))
            continue
        file, stored = there.popleft()
        if says == {False}:
            yield TRAINING, file, "is there, though the recipe leaves it out", row["id"]
        elif place := _difference(config, row, stored):
            yield TRAINING, file, f"`{place}` is not that of its {_name(base)}", row["id"]
    if lacking and config.name in entry.made:
        detail = f"lacks {lacking} of {len(due)} rows in `{config.name}` at its place"
        yield TRAINING, entry.file, detail, entry.id
    for file, stored in there:
        yield TRAINING, file, f"has no {_name(base)} in `{base.name}` at its place", stored["id"]


def _difference(config: Config, row: JsonObject, stored: JsonObject) -> str:
    """Where a stored row is not what is to be stored; nothing if it is."""
    due = config.columns.encode(row)
    return "" if stored == due else next((place for place, *_ in _differences("", stored, due)), "")


def _look_at_sample(
    known: Known, split: str, raw: JsonObject, sample: Sample
) -> Iterator[tuple[FaultKind, str]]:
    """What the certain checks find, and which APIs the row must not show; `split`: that it is in,
    if rightly so."""
    if not sample.verdict.accepted:
        yield RECORD, "its verdict is not to accept it"
    machine = None
    if setting := sample.dialogue.query.setting:
        machine = known.machines.get(setting.hash)
        called = machine.world["name"] if machine else setting.world
        is_known = setting.hash in known.machines and called == setting.world
        if not is_known and WORLDS.name not in known.broken:
            yield RECORD, f"plays in {setting.world} ({setting.hash}), which `worlds` has not"
        machine = machine if is_known else None
    try:
        for fault in inspect(sample.dialogue, world=machine):
            at = "" if fault.turn is None else f" (message {fault.turn})"
            yield CHECK, f"{fault.reason}: {fault.detail}{at}"
    except Exception as error:
        if machine is None:
            raise
        # A foreign world runs in a foreign state.
        yield CHECK, f"cannot be replayed ({cause(error)})"
    need = raw["dialogue"]["query"]
    if split and (held_out := stray(known.plan, need, Split(split))):
        yield SPLIT, f"shows {held_out}, which is held out of {split}"
    if APIS.name in known.broken:
        return
    for api in shown(need):
        if api_id(api) not in known.apis:
            yield SPLIT, f"shows {api_id(api)}, not in `apis`"
        elif _shown(api) not in known.apis[api_id(api)]:
            yield RECORD, f"shows {api_id(api)} otherwise than `apis` has it"
    for api in needed(need) if split == Split.TEST_TOOL else ():
        if api["category"] not in known.seen_categories:
            yield SPLIT, f"needs {api_id(api)}, of whose category no tool is seen in training"


def _look_at_instruction(known: Known, each: Instruction) -> Iterator[tuple[FaultKind, str]]:
    """What is wrong in one instruction alone."""
    if each.id != f"{each.sample}-{each.level}":
        yield RECORD, "its id is not that of its sample and level"
    if not any(each.sample in share.parents for share in each.provenance):
        yield RECORD, "its provenance does not name its sample"
    if len(each.ratings) not in known.votes:
        votes = " or ".join(map(str, sorted(known.votes)))
        yield RECORD, f"has {len(each.ratings)} votes, not {votes}"
    for finding in instructions.poorly_rated(each.ratings):
        yield CHECK, f"{finding.reason}: {finding.detail}"


class Rows:
    """A version's rows as they are read, and what is known of those that were."""

    def __init__(self, files: VersionFiles, progress: Progress | None, processes: int) -> None:
        self.files, self._progress, self._processes = files, progress, processes
        self.read = Counter[str]()  # by config
        self.inspected = 0
        self.figures = figures.Figures()
        self.uncounted: Exception | None = None  # what came of the first row that cannot be counted
        self._requests = set[str]()  # hashes of the samples whose instructions were read

    def verify(self) -> None:
        files, tables = self.files, self.files.told.configs.values()
        self._total = sum(table.rows for splits in tables for table in splits.values())
        # On the disk: the dialogues, while instructions may name them.
        self._samples = sqlite3.connect("")
        with closing(self._samples):
            self._samples.execute("CREATE TABLE samples (place PRIMARY KEY, record)")
            for base in (APIS, WORLDS, SAMPLES, INSTRUCTIONS, REJECTED):
                ids = set[str]()
                named = chain(*map(files.tables, configs_of(base.row.origin)))
                for split in dict.fromkeys((*figures.ORDER, *named)):
                    records = self._records(base, split, ids)
                    if base is INSTRUCTIONS:
                        self._hold_instructions(split, records)
                    for _, row in records:
                        self.inspected += base is SAMPLES
                        if base is SAMPLES and files.tables(INSTRUCTIONS):
                            stored = f"{split}/{row['id']}", to_text(base.row.record_of(row))
                            insert = "INSERT OR IGNORE INTO samples VALUES (?, ?)"
                            self._samples.execute(insert, stored)

    def _rows(self, config: Config, split: str) -> Iterator[Stored]:
        for each in self.files.rows(config, split):
            self.read[config.name] += 1
            if self._progress and self.read.total() % 64 == 0:
                self._progress(self.read.total(), self._total)
            if config is PLANNING:
                self._add(config, split, each[1])
            yield each

    def _add(self, *counted: Any) -> None:
        try:
            self.figures.add(*counted)
        except Exception as error:  # noqa: BLE001  # foreign rows: anything may come of them
            self.uncounted = self.uncounted or error

    def _records(self, base: Config, split: str, ids: set[str]) -> Iterator[Stored]:
        """The rows of a table that hold records; all faults of the table, and of those that are
        made of its records, are told. `ids`: hashes of those of the config that were read."""
        files = self.files
        followers = {
            config.name: Follower(self._rows(config, split), config)
            for config in configs_of(base.row.origin)
            if config is not base
        }

        def entries() -> Iterator[Entry]:
            for file, row in self._rows(base, split):
                taken = ((n, each.take(str(row["id"]))) for n, each in followers.items())
                made = {n: rows for n, rows in taken if rows or (n, split) not in files.broken}
                yield Entry(file, row, made)

        given, kept = tee(batches(entries(), CHUNK))
        tasks = ((files.root, base.name, split, chunk) for chunk in given)
        count = sum(table.rows for table in files.tables(base).values())
        beside = self._processes if count >= MANY else 0
        for looked, chunk in zip(in_processes(look_at_entries, tasks, beside), kept, strict=True):
            for (is_record, faults), entry in zip(looked, chunk, strict=True):
                if (hashed := digest(entry.id, 16)) in ids:
                    files.fault(RECORD, entry.file, "its id is there twice", entry.id)
                ids.add(hashed)
                for each in faults:
                    files.fault(*each)
                self._add(base, split, entry.row, entry.record)
                if is_record:
                    yield entry.file, entry.row
        detail = f"has no {_name(base)} in `{base.name}` at its place"
        for file, row in chain.from_iterable(each.rest() for each in followers.values()):
            if (base.name, split) not in files.broken:
                files.fault(TRAINING, file, detail, row.get("id"))

    def _hold_instructions(self, split: str, rows: Iterable[Stored]) -> None:
        """Hold the instructions of each sample against its calls, and against each other."""
        for name, group in groupby(rows, key=lambda stored: str(stored[1]["sample"])):
            places, stored = zip(*group, strict=True)
            file, records = places[-1], map(INSTRUCTIONS.row.record_of, stored)
            found = [*map(Instruction.model_validate, records)]
            if (hashed := digest(name, 16)) in self._requests:
                detail = "instructions of its sample stand apart from each other"
                self.files.fault(RECORD, file, detail, name)
            self._requests.add(hashed)
            if seed := self._seed(split, name, file, found):
                for of, kind, detail in _held_against(seed, found):
                    self.files.fault(kind, file, detail, of)

    def _seed(self, split: str, name: str, file: str, found: list[Instruction]) -> Seed | None:
        """What the instructions were made of; None, and a fault, if it is not there."""
        asked = "SELECT record FROM samples WHERE place = ?"
        if stored := self._samples.execute(asked, (f"{split}/{name}",)).fetchone():
            try:
                seed = seed_of(parsed(stored[0]), Split(split))
            except (ValueError, TypeError, LookupError, AttributeError):  # the sample's own, told
                return None
            if seed is None:
                self.files.fault(RECORD, file, "its sample calls nothing", name)
            return seed
        if {each.source for each in found} == {figures.TOOLBENCH}:
            # Tools that are held out are held out here too.
            tools = zip(found[0].tags.categories, found[0].tags.tools, strict=False)
            zones = {zone(self.files.told.plan, *tool) for tool in tools}
            held = next((z for z in (Split.TEST_CATEGORY, Split.TEST_TOOL) if z in zones), None)
            if held != split if held else split not in SEEN:
                place = f"belong into {held}" if held else "are seen in training"
                self.files.fault(SPLIT, file, f"is in {split}; its tools {place}", name)
            return seed_of_rows(found)
        if (SAMPLES.name, split) not in self.files.broken:
            self.files.fault(RECORD, file, f"its sample is not in `samples` of {split}", name)
        return None


class Follower:
    """The rows of a table that are made of another's records, read in step with these."""

    def __init__(self, rows: Iterator[Stored], config: Config) -> None:
        self._rows, self._config, self._next = rows, config, next(rows, None)

    def take(self, record: str) -> list[Stored]:
        """The next rows, as far as their ids are those of rows of this record."""
        ids, taken = self._config.row.ids(record), list[Stored]()
        while self._next and self._next[1]["id"] in ids:
            taken.append(self._next)
            self._next = next(self._rows, None)
        return taken

    def rest(self) -> Iterator[Stored]:
        return chain([self._next] if self._next else (), self._rows)


def _held_against(seed: Seed, group: list[Instruction]) -> Iterator[tuple[str, FaultKind, str]]:
    """Tags, path and names are those of the calls, and no certain check finds a fault."""
    found = {each.level: each for each in group}
    for each in group:
        spoken = instructions.spoken_tags(seed, each.level)
        for name in ("tags", "path", "spoken", "source", "licence"):
            if getattr(each, name) != (spoken if name == "spoken" else getattr(seed, name)):
                yield each.id, RECORD, f"`{name}` is not that of its sample"
        if each.path[-1:] != (FINISH,):
            yield each.id, RECORD, f"`path` does not end in {FINISH}"
    texts = {level: each.text for level, each in found.items()}
    # Where the statement's own row was rejected, the others go on from it all the same: votes
    # reject it alone.
    others = [text for level, text in texts.items() if level in instructions.NAMING]
    first = instructions.sentences(others[0]) if others else []
    begun: dict[Granularity, str] = {}
    for many in range(len(first) - 1, 0, -1):
        statement = " ".join(first[:many])
        together = all(text.startswith(f"{statement} ") for text in others)
        if together and not instructions.inspect_level(seed, Granularity.STATEMENT, statement, {}):
            begun = {Granularity.STATEMENT: statement}
            break
    for level, findings in instructions.inspect_levels(seed, {**begun, **texts}).items():
        for finding in findings if level in found else ():
            yield found[level].id, CHECK, f"{finding.reason}: {finding.detail}"


# -- 4. Figures ------------------------------------------------------------------------------------


def _figures(files: VersionFiles, told: Manifest, rows: Rows) -> None:
    """The manifest's figures are those of the tables, and of the runs that made them."""
    if files.broken or files.findings.counts[TABLE]:
        files.notes.append("Figures were not compared: not all tables could be read.")
        return
    try:
        if rows.uncounted:
            raise rows.uncounted
        described = figures.describe(files.root, rows.figures)
    except Exception as error:  # noqa: BLE001  # foreign rows: anything may come of them
        files.fault(FIGURE, MANIFEST, f"no figures can be made of the rows ({cause(error)})")
        return
    for name, wanted in described.items():
        for place, there, due in _differences(name, files.raw.get(name), wanted):
            detail = f"{place} is {as_told(there, 120)}, the data have {as_told(due, 120)}"
            files.fault(FIGURE, MANIFEST, detail)
    for split, counted in told.splits.items():
        names = counted.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            files.fault(FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    for name in {told.extended.run} - {*told.runs} if told.extended else ():
        files.fault(FIGURE, MANIFEST, f"extended.run {name} is not among the runs")
    for name, run in told.runs.items():
        try:
            counts = figures.Counts.model_validate(run.get("counts"))
        except ValueError:
            files.fault(FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        _run_figures(files, name, counts, told)


OURS = {"runs", "run"}  # what the manifest has among figures that tables do not tell


def _differences(place: str, told: Any, due: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where JSON differs: the place, what is told there, and what it must be."""
    if isinstance(told, dict) and isinstance(due, dict):
        kept = {name: value for name, value in told.items() if name not in OURS or name in due}
        for name in {**due, **kept}:
            inner = f"{place}.{name}".removeprefix(".")
            yield from _differences(inner, kept.get(name), due.get(name))
        if not place.startswith("configs") and list(kept) != list(due) and {*kept} == {*due}:
            yield f"{place} in order", list(kept), list(due)
    elif isinstance(told, list) and isinstance(due, list) and len(told) == len(due):
        for number, pair in enumerate(zip(told, due, strict=True)):
            yield from _differences(f"{place}[{number}]", *pair)
    elif told != due:
        yield place, told, due


def _run_figures(files: VersionFiles, name: str, counts: figures.Counts, told: Manifest) -> None:
    """What a run accepted and rejected is there; of runs before the last only a part is left."""
    made = {"rows": counts.accepted, "rejected": counts.rejected}
    if told.extended:
        if name != told.extended.run:
            return
        made["instructions"] = counts.instructions  # a run that adds nothing rewrites nothing
        rows, configs = told.extended.rows, {"rows": SAMPLES.name}
        found = {what: sum(rows.get(configs.get(what, what), {}).values()) for what in made}
    else:
        last = [told.regenerated] if told.regenerated else [*told.splits]
        mine = [f for f in map(told.splits.get, last) if f and f.get("runs") == [name]]
        if not mine:
            return
        found = {w: sum(n for f in mine if isinstance(n := f.get(w), int)) for w in made}
    # A run for one split may have rejected records that belong to no split, among other runs'.
    before = told.splits.get(figures.BEFORE_QUERIES, {}).get("runs") if told.regenerated else ()
    for what, number in made.items():
        fewer = what == "rejected" and found[what] < number
        fell_before = isinstance(before, list) and name in before
        if found[what] != number and not (fewer and fell_before):
            detail = f"run {name} made {number} {what}, its splits have {found[what]}"
            files.fault(FIGURE, MANIFEST, detail)


def _made(files: VersionFiles) -> None:
    """README.md and `replay/` are what is made of the manifest: whoever runs it trusts it."""
    try:
        made = made_of(files.raw)
    except Exception as error:  # noqa: BLE001  # a foreign manifest: anything may come of it
        files.fault(FIGURE, MANIFEST, f"no card can be made of it ({cause(error)})")
        return
    for name, due in made.items():
        if files.hashes.get(name) in (None, hashlib.sha256(due).hexdigest()):
            continue
        if files.raw["code"] != code_hash():
            wrote = f"toolloom {files.raw['toolloom']} wrote it"
            files.notes.append(f"The words of {name} were not compared: {wrote}.")
            continue
        number, line, _ = first_difference((files.root / name).read_bytes(), due)
        files.fault(FIGURE, name, f"line {number} is not what toolloom publishes there: {line}")


# -- 5. The parent ---------------------------------------------------------------------------------


def _lineage(files: VersionFiles, told: Manifest) -> None:
    """The parent is the one recorded, and what was not made anew is as it was there."""
    number = numbered(Path(told.version))
    before = numbered(Path(told.parent.version)) if told.parent else None
    wrong = ""
    if number is None:
        wrong = f"{told.version} is not a version number"
    elif told.parent is None:
        if told.regenerated or told.extended or number[1:] != (0, 0):
            wrong = f"{told.version} needs a parent, and has none"
    elif told.regenerated and told.extended:
        wrong = "is a split made anew and an extension at once"
    elif before is None or before >= number:
        wrong = f"{told.version} does not come after its parent {told.parent.version}"
    if wrong:
        files.fault(LINEAGE, MANIFEST, wrong)
    if wrong or told.parent is None or before is None or number is None:
        return
    home = files.root.parent / dotted(before)
    if not isfile(home / MANIFEST):
        files.notes.append(f"The parent version {told.parent.version} is not here.")
        return
    raw = (home / MANIFEST).read_bytes()
    if hashlib.sha256(raw).hexdigest() != told.parent.sha256:
        detail = f"the manifest of {told.parent.version} is not the one this version follows"
        files.fault(LINEAGE, MANIFEST, detail)
        return
    try:
        parent = Manifest.model_validate(json.loads(raw))
        kind = change(json.loads(raw), files.raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        files.fault(LINEAGE, MANIFEST, f"the manifest of {dotted(before)} is damaged")
        return
    follows = {
        "major": number[0] > before[0] and number[1:] == (0, 0),
        "minor": number[0] == before[0] and number[1] > before[1] and number[2] == 0,
        "patch": number[:2] == before[:2],
    }
    if not follows[kind]:
        detail = f"{told.version} after {told.parent.version}, but the change is {kind}"
        files.fault(LINEAGE, MANIFEST, detail)
    why = "no rows were added to it" if told.extended else f"only {told.regenerated} is new"
    for config in CONFIGS if told.regenerated or told.extended else ():
        for split, table in parent.configs.get(config.name, {}).items():
            if told.extended:
                is_grown = split in told.extended.rows.get(config.name, {})
            else:
                is_grown = config is REJECTED and split == figures.BEFORE_QUERIES
            if is_grown:
                _rows_stay(files, config, split, table, home)
            elif split != told.regenerated or config in (APIS, WORLDS):
                for name, file in table.files.items():
                    if not (mine := files.entries.get(name)) or mine.sha256 != file.sha256:
                        detail = f"is not the file of {told.parent.version}, but {why}"
                        files.fault(LINEAGE, name, detail)


def _rows_stay(
    files: VersionFiles, config: Config, split: str, before: TableEntry, home: Path
) -> None:
    """The parent's rows are the first ones, and as many were added as the manifest says."""
    table = files.tables(config).get(split)
    more = (table.rows if table else 0) - before.rows
    extended = files.told.extended
    if extended and (added := extended.rows[config.name][split]) != more:
        detail = f"extended.rows.{config.name}.{split} is {added}, but it has {more} more"
        files.fault(FIGURE, MANIFEST, detail)
    mine = (row for _, row in files.rows(config, split))
    for name, file in before.files.items():
        if not isfile(home / name) or figures.sha256(home / name) != file.sha256:
            files.notes.append(f"{name} of {home.name} is damaged: not compared.")
            return
        for row in read_rows(home / name, stored=True):
            if next(mine, None) != row:
                detail = f"has no longer the rows of {home.name} in their order"
                files.fault(LINEAGE, name, detail, row.get("id"))
                return
