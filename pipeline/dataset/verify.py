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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from toolloom.agents.tester import poor
from toolloom.pipeline.checks import CHECKS, inspect
from toolloom.pipeline.checks.findings import MOST, Findings
from toolloom.pipeline.checks.instructions import (
    NAMING,
    inspect_level,
    inspect_levels,
    sentences,
    spoken_tags,
)
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.card import card
from toolloom.pipeline.dataset.configs import (
    APIS,
    BASES,
    CONFIGS,
    INSTRUCTIONS,
    REJECTED,
    SAMPLES,
    WORLDS,
    base_of,
    makers_of,
    parsed,
)
from toolloom.pipeline.dataset.figures import (
    BEFORE_QUERIES,
    ORDER,
    TOOLBENCH,
    describe,
    sha256,
    split_of_rejected,
)
from toolloom.pipeline.dataset.planning import seed_of, seed_of_rows
from toolloom.pipeline.dataset.publish import code_hash, replay_files, sums
from toolloom.pipeline.dataset.run_report import Counts
from toolloom.pipeline.processes import in_processes
from toolloom.pipeline.store.files import explain, to_text
from toolloom.pipeline.store.parquet import Config, read_rows
from toolloom.pipeline.store.version import (
    Manifest,
    TableEntry,
    change,
    check_layout,
    dotted,
    find_version,
    numbered,
    numbers,
)
from toolloom.schemas import (
    FINISH,
    Api,
    Granularity,
    Instruction,
    JsonObject,
    NothingFound,
    Record,
    Sample,
    Seed,
    Split,
    StoreError,
    World,
    canonical,
    first_error,
)
from toolloom.schemas.splits import SEEN, api_id, needed, shown, split_of, stray, tool_of, zone

MANIFEST, SUMS, CARD = "manifest.json", "SHA256SUMS", "README.md"
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


ABOUT = {
    FaultKind.FILE: "files that are not what the version was published with",
    FaultKind.TABLE: "tables that cannot be read, or are not in the layout",
    FaultKind.RECORD: "rows that hold no valid record",
    FaultKind.CHECK: "rows in which a certain check finds a fault",
    FaultKind.TRAINING: "rows that are not made of their record",
    FaultKind.SPLIT: "rows and APIs that are in the wrong split",
    FaultKind.LINEAGE: "what does not follow from the parent version",
    FaultKind.FIGURE: "figures that are not those of the data",
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
        fault = VersionFault(kind=kind, file=file, row=name, detail=detail[:2000])
        self.findings.add(kind, fault)

    @property
    def faults(self) -> tuple[VersionFault, ...]:
        """Those that are kept, kind by kind, each in the order in which they were found."""
        return tuple(fault for kind in FaultKind for fault in self.findings.kept.get(kind, ()))

    def table(self, config: Config, split: str) -> TableEntry | None:
        """What the manifest says of a table."""
        return self.manifest.configs.get(config.name, {}).get(split) if self.manifest else None

    def splits(self, config: Config) -> list[str]:
        return list(self.manifest.configs.get(config.name, {})) if self.manifest else []

    def rows(self, config: Config, split: str) -> Iterator[tuple[str, JsonObject]]:
        """File and row of each row of a table, as it is stored, as far as it can be read."""
        table = self.table(config, split)
        for name, told in table.files.items() if table else ():
            count = 0
            try:
                for row in read_rows(self.root / name, stored=True) if name in self.hashes else ():
                    count += 1
                    yield name, row
            except StoreError as error:
                self.fault(FaultKind.TABLE, name, f"cannot be read ({_first_line(error)})")
            if count != told.rows:
                self.broken.add((config.name, split))


def place_of(outputs: Path, name: str) -> Path:
    """The folder of a version: a path, `name`, `name/1.2.0` or `name/latest`.

    Damaged ones are found too. Raises NothingFound.
    """
    whole = Path(name) if "\0" not in name else outputs / "datasets"
    for path in (whole, outputs / "datasets" / name.strip("/") if "\0" not in name else whole):
        if (path / MANIFEST).is_file() or (path / SUMS).is_file():
            return path.resolve()
        if path.is_dir() and (known := numbers(path)):
            return path / dotted(known[-1])
    if whole.is_dir():
        raise NothingFound(f"{whole}: is no version of a dataset (it holds no {MANIFEST}).")
    return find_version(outputs, name).path


def verify(path: Path, progress: Progress | None = None, processes: int = 0) -> VerifyReport:
    """Everything that can be known of a version from its folder. Raises StoreError.

    `processes`: how many look at rows beside this one, where there are many of them. They are
    begun anew, so that a script that asks for them must be guarded by `__name__`.
    """
    started = time.monotonic()
    files = look(path)
    rows, told, counts = None, files.manifest, files.findings.counts
    if told is not None:
        look_at_tables(files, told)
        rows = Rows(files, told, progress, processes)
        rows.verify()
        _figures(files, told)
        _card(files)
        _lineage(files, told)
    return VerifyReport(
        path=str(path),
        version=f"{told.name}/{told.version}" if told else path.name,
        files=len(files.sizes),
        size=sum(files.sizes.values()),
        rows={c.name: rows.read[c.name] for c in (APIS, *CONFIGS) if c.name in rows.read}
        if rows
        else {},
        inspected=rows.inspected if rows else 0,
        checks=sum(map(len, CHECKS)),
        counts={kind: counts[kind] for kind in FaultKind if counts[kind]},
        faults=files.faults,
        notes=tuple(files.notes),
        seconds=time.monotonic() - started,
    )


# -- 1. Files -------------------------------------------------------------------------------------


def look(root: Path) -> VersionFiles:
    """Hash all files and hold them against manifest and checksums.

    Raises StoreError for a version of another layout.
    """
    files = VersionFiles(root)
    for name, path in _walk(files):
        try:
            files.hashes[name] = sha256(path)
            files.sizes[name] = path.stat().st_size
        except OSError as error:
            raise explain(path, error, "read") from error
    lines = (root / SUMS).read_bytes() if SUMS in files.hashes else None
    listed = {m[2].decode("utf-8", "replace"): m[1].decode() for m in _LINE.finditer(lines or b"")}
    if MANIFEST in files.hashes:
        # A layout that it names is to be believed if its hash is that of the checksums.
        _read_manifest(files, listed.get(MANIFEST) in (None, files.hashes[MANIFEST]))
    told = files.manifest
    known: dict[str, str | None] = {MANIFEST: None, SUMS: None}
    known |= told.files if told else listed
    sizes = {name: entry.bytes for _, _, name, entry in told.tables()} if told else {}
    known |= {name: entry.sha256 for _, _, name, entry in told.tables()} if told else {}
    for name in sorted(known.keys() | files.hashes.keys()):
        if name not in files.hashes:
            files.fault(FaultKind.FILE, name, "is missing")
        elif name not in known:
            files.fault(FaultKind.FILE, name, "is no part of the version")
        elif sizes.get(name, files.sizes[name]) != files.sizes[name]:
            detail = f"has {files.sizes[name]:,} bytes instead of {sizes[name]:,}"
            files.fault(FaultKind.FILE, name, detail)
        elif known[name] not in (None, files.hashes[name]):
            by = MANIFEST if told else SUMS
            files.fault(FaultKind.FILE, name, f"its SHA-256 is not the one in {by}")
    if told and lines is not None:
        wanted = b"".join(sums(files.raw, {**told.files, MANIFEST: files.hashes[MANIFEST]}))
        if lines != wanted:
            _compare_sums(files, listed, wanted)
    return files


def _walk(files: VersionFiles) -> Iterator[tuple[str, Path]]:
    """The regular files below a folder, in order. Links are told and never followed."""

    def stop(error: OSError) -> None:
        raise explain(Path(error.filename or "."), error, "read") from error

    for folder, folders, names in os.walk(files.root, onerror=stop):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            inside = path.relative_to(files.root).as_posix()
            if path.is_symlink():
                files.fault(FaultKind.FILE, inside, "is a link; a version holds its files itself")
            elif not path.is_file():
                files.fault(FaultKind.FILE, inside, "is no regular file")
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
        text = json.dumps(told, indent=2, ensure_ascii=False)
        if text.encode("utf-8", "replace") + b"\n" != raw:
            files.fault(FaultKind.FILE, MANIFEST, "is not written as toolloom writes it")
    except (ValueError, RecursionError) as error:
        why = first_error(error) if isinstance(error, ValidationError) else _first_line(error)
        files.fault(FaultKind.FILE, MANIFEST, f"is damaged ({why})")


def _compare_sums(files: VersionFiles, listed: dict[str, str], wanted: bytes) -> None:
    """Which line of SHA256SUMS is not what it must be."""
    due = {m[2].decode("utf-8", "replace"): m[1].decode() for m in _LINE.finditer(wanted)}
    wrong = [n for n in sorted({*due, *listed}) if due.get(n) != listed.get(n)]
    for name in wrong:
        if name == MANIFEST and name in listed:
            detail = f"its SHA-256 is not the one in {SUMS}: one of these two files was edited"
            files.fault(FaultKind.FILE, MANIFEST, detail)
        elif name in due:
            files.fault(FaultKind.FILE, SUMS, f"does not hold the hash of {name}")
        else:
            files.fault(FaultKind.FILE, SUMS, f"names {name}, which is no part of the version")
    if not wrong:
        files.fault(FaultKind.FILE, SUMS, "is not, byte for byte, the sums of these files in order")


def look_at_tables(files: VersionFiles, told: Manifest) -> None:
    """Each table is in the layout: names, columns, types, numbers of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = {config.name: config for config in CONFIGS}
    for config, splits in told.configs.items():
        for split, table in splits.items():
            count = len(table.files)
            names = [f"{config}/{split}-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
            if config not in known or split not in ORDER:
                files.fault(FaultKind.TABLE, MANIFEST, f"there is no table {config}/{split}")
            elif list(table.files) != names:
                detail = f"{config}/{split}: files not named in order"
                files.fault(FaultKind.TABLE, MANIFEST, detail)
            for name in table.files if config in known else ():
                if name not in files.hashes:
                    continue
                try:
                    with pq.ParquetFile(files.root / name) as file:
                        schema, rows = file.schema_arrow, file.metadata.num_rows
                except (OSError, pa.ArrowException, ValueError) as error:
                    files.fault(FaultKind.TABLE, name, f"cannot be read ({_first_line(error)})")
                    del files.hashes[name]  # its rows are not read
                    continue
                if not schema.equals(known[config].types):
                    columns = ", ".join(f"{f.name}: {f.type}" for f in schema)[:300]
                    detail = f"cannot be read as {config}: its columns are {columns}"
                    files.fault(FaultKind.TABLE, name, detail)
                    del files.hashes[name]
                elif rows != table.files[name].rows:
                    detail = f"holds {rows:,} rows instead of {table.files[name].rows:,}"
                    files.fault(FaultKind.TABLE, name, detail)


def _first_line(error: Exception) -> str:
    return str(error.__cause__ or error).partition("\n")[0][:200]


# -- 2. Records, and 3. the rows that are made of them ---------------------------------------------


@dataclass(frozen=True)
class Made:
    """A row that a record has in another config, by name and hash, and whether it must be there."""

    id: str
    hash: bytes
    is_wanted: bool  # None of a run's recipes leaves it out, and its config can hold it.
    may_be: bool  # Not all of them leave it out.


@dataclass
class Looked:
    """What was found in a row that should hold a record."""

    id: str
    faults: list[tuple[FaultKind, str]] = field(default_factory=list)
    made: dict[str, list[Made]] | None = None  # by config; None: it holds no record
    category: str = ""  # of an API
    inspected: bool = False


class Known:
    """What the rows of a version are held against: its plan, APIs and worlds, and its runs."""

    def __init__(self, files: VersionFiles, told: Manifest) -> None:
        self.plan = told.plan
        recipes = (run.get("recipe") for run in told.runs.values())
        self.recipes = [recipe for recipe in recipes if isinstance(recipe, dict)]
        listed = (run.get("agents") for run in told.runs.values())
        agents = [a for each in listed if isinstance(each, list) for a in each]
        names = ("stage", "agent", "model", "prompts")
        self.makers = {canonical([a.get(n) for n in names]) for a in agents if isinstance(a, dict)}
        # The numbers of votes that the runs asked for on an instruction.
        asked = []
        for recipe in self.recipes:
            plan, tester = recipe.get("rewrite"), recipe.get("tester")
            if isinstance(plan, dict):
                usual = tester.get("votes") if isinstance(tester, dict) else None
                asked.append(usual if plan.get("votes") is None else plan["votes"])
        self.votes = {votes for votes in asked if isinstance(votes, int)} or {0}
        self.apis: dict[str, set[bytes]] = {}  # hashes of what each is, by id
        self.seen_categories: set[str] = set()
        self.machines: dict[str, Machine | None] = {}  # by hash; None: it cannot be run
        for config in (APIS, WORLDS):
            for split in files.splits(config):
                for _, row in files.rows(config, split):
                    try:
                        self._add(config, config.row.record_of(row))
                    except Exception:  # noqa: BLE001  # told where the row is looked at
                        continue
        broken = {name for name, _ in files.broken}
        self.has_all = {name: name not in broken for name in (APIS.name, WORLDS.name)}

    def _add(self, config: Config, record: JsonObject) -> None:
        if config is APIS:
            api = Api.model_validate(record)
            self.apis.setdefault(api.id, set()).add(_hash_of(record))
            if zone(self.plan, *tool_of(record)) is Split.TRAIN:
                self.seen_categories.add(api.category)
        else:
            world = World.model_validate(record)
            self.machines[world.hash] = None
            self.machines[world.hash] = Machine(world.spec)


def _hash_of(api: JsonObject) -> bytes:
    """Of an API as rows show it: without who made it."""
    return _digest(canonical({**api, "provenance": []}))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@lru_cache(maxsize=1)
def _known(root: Path, _: str) -> Known:
    """Read once in each process, from the same files."""
    told = Manifest.model_validate(json.loads((root / MANIFEST).read_bytes()))
    names = [name for _, _, name, _ in told.tables() if not (root / name).is_symlink()]
    files = VersionFiles(root, dict.fromkeys(names, ""), manifest=told)
    return Known(files, told)


def look_at_rows(task: tuple[Path, str, str, str, list[JsonObject]]) -> list[Looked]:
    """What is found in rows of a table that holds records whole: of `(version, its hash, config,
    split, rows)`. It leans on nothing but these and the version's files."""
    root, mark, name, split, rows = task
    base = next(config for config in BASES if config.name == name)
    return [_look_at_row(_known(root, mark), base, split, row) for row in rows]


def _look_at_row(known: Known, base: Config, split: str, row: JsonObject) -> Looked:
    found = Looked(id=str(row.get("id")))
    try:
        raw = base.row.record_of(row)
        record = base.row.origin.model_validate(raw)
        (made,) = map(base.encode, base.row.of(raw))
        place, why = _split_of(known, base, raw)
        derived = {
            config.name: [_made(known, config, raw, each) for each in config.row.of(raw)]
            for config in CONFIGS
            if config.row.origin is base.row.origin and config not in BASES
        }
    # What hostile JSON raises on its way into a record is anything.
    except Exception as error:  # noqa: BLE001
        found.faults.append((FaultKind.RECORD, f"holds no {_name(base)} ({_why(error)})"))
        return found
    found.made = derived
    if made != row:
        differing = next(key for key in {**made, **row} if made.get(key) != row.get(key))
        found.faults.append((FaultKind.RECORD, f"`{differing}` is not that of its record"))
    if place != split:
        found.faults.append((FaultKind.SPLIT, f"is in {split}; {why} {place}"))
    for stage, agent, model, prompts in sorted(makers_of(raw)) if base is not REJECTED else ():
        if base in (APIS, WORLDS):
            break
        if canonical([stage, agent, model, list(prompts)]) not in known.makers:
            detail = f"names {agent} of {stage} with the model {model!r}, and no run does"
            found.faults.append((FaultKind.FIGURE, detail))
    if isinstance(record, Sample):
        found.faults += _look_at_sample(known, split if place == split else "", raw, record)
        found.inspected = True
    elif isinstance(record, Instruction):
        found.faults += _look_at_instruction(known, record)
    elif isinstance(record, World):
        if record.spec.get("name") != record.name:
            found.faults.append((FaultKind.RECORD, "is not called what its spec says"))
        try:
            Machine(record.spec)
        except Exception as error:  # noqa: BLE001  # a foreign tree is built
            found.faults.append((FaultKind.RECORD, f"is no world that can be run ({_why(error)})"))
    return found


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
        return split_of_rejected(known.plan, raw["record"]), "it was drawn for"
    return zone(known.plan, *tool_of(raw)).value, "its category and tool belong into"


def _made(known: Known, config: Config, record: JsonObject, row: JsonObject) -> Made:
    says = {config.row.wanted(record, recipe) for recipe in known.recipes} - {None}
    stored = config.encode(row)
    is_wanted = says <= {True} and config.holds(stored)
    return Made(row["id"], _row_hash(stored), is_wanted, says != {False})


def _row_hash(stored: JsonObject) -> bytes:
    return _digest("\0".join(f"{name}\0{value}" for name, value in stored.items()))


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _look_at_sample(
    known: Known, split: str, raw: JsonObject, sample: Sample
) -> Iterator[tuple[FaultKind, str]]:
    """What the certain checks find, and which APIs the row must not show; `split`: that it is in,
    if rightly so."""
    if not sample.verdict.accepted:
        yield FaultKind.RECORD, "its verdict is not to accept it"
    machine = None
    if setting := sample.dialogue.query.setting:
        machine = known.machines.get(setting.hash)
        is_known = setting.hash in known.machines and not (
            machine and machine.world["name"] != setting.world
        )
        if not is_known and known.has_all[WORLDS.name]:
            detail = f"plays in {setting.world} ({setting.hash}), which `worlds` has not"
            yield FaultKind.RECORD, detail
        machine = machine if is_known else None
    try:
        for fault in inspect(sample.dialogue, world=machine):
            at = "" if fault.turn is None else f" (message {fault.turn})"
            yield FaultKind.CHECK, f"{fault.reason}: {fault.detail}{at}"
    except Exception as error:
        if machine is None:
            raise
        # A foreign world runs in a foreign state.
        yield FaultKind.CHECK, f"cannot be replayed ({_why(error)})"
    need = raw["dialogue"]["query"]
    if split and (held_out := stray(known.plan, need, Split(split))):
        yield FaultKind.SPLIT, f"shows {held_out}, which is held out of {split}"
    for api in shown(need) if known.has_all[APIS.name] else ():
        if api_id(api) not in known.apis:
            yield FaultKind.SPLIT, f"shows {api_id(api)}, not in `apis`"
        elif _hash_of(api) not in known.apis[api_id(api)]:
            yield FaultKind.RECORD, f"shows {api_id(api)} otherwise than `apis` has it"
    for api in needed(need) if split == Split.TEST_TOOL and known.has_all[APIS.name] else ():
        if api["category"] not in known.seen_categories:
            detail = f"needs {api_id(api)}, of whose category no tool is seen in training"
            yield FaultKind.SPLIT, detail


def _look_at_instruction(known: Known, each: Instruction) -> Iterator[tuple[FaultKind, str]]:
    """What is wrong in one instruction alone."""
    if each.id != f"{each.sample}-{each.level}":
        yield FaultKind.RECORD, "its id is not that of its sample and level"
    if not any(each.sample in share.parents for share in each.provenance):
        yield FaultKind.RECORD, "its provenance does not name its sample"
    if len(each.ratings) not in known.votes:
        votes = " or ".join(map(str, sorted(known.votes)))
        yield FaultKind.RECORD, f"has {len(each.ratings)} votes, not {votes}"
    for finding in poor(each.ratings):
        yield FaultKind.CHECK, f"{finding.reason}: {finding.detail}"


@dataclass
class Rows:
    """A version's rows as they are read, and what is known of those that were."""

    files: VersionFiles
    manifest: Manifest
    progress: Progress | None
    processes: int
    read: Counter[str] = field(default_factory=Counter)  # by config
    inspected: int = 0

    def verify(self) -> None:
        # On the disk: the dialogues that instructions name, while they are wanted.
        self.samples = sqlite3.connect("")
        self.samples.execute("CREATE TABLE samples (id TEXT, split TEXT, record TEXT)")
        self.samples.execute("CREATE INDEX by_id ON samples (id)")
        rows = chain.from_iterable(
            self.files.rows(INSTRUCTIONS, split) for split in self.files.splits(INSTRUCTIONS)
        )
        self.named = {_digest(str(row.get("sample"))) for _, row in rows}
        self.total = sum(
            table.rows for splits in self.manifest.configs.values() for table in splits.values()
        )
        try:
            for base in (APIS, WORLDS, SAMPLES, INSTRUCTIONS, REJECTED):
                self._verify(base)
        finally:
            self.samples.close()
        for config in CONFIGS:
            for split in self.files.splits(config):
                if split not in self.files.splits(base_of(config)):
                    detail = f"`{config.name}` has {split}, `{base_of(config).name}` has not"
                    self.files.fault(FaultKind.TRAINING, MANIFEST, detail)

    def _rows(self, config: Config, split: str) -> Iterator[tuple[str, JsonObject]]:
        for each in self.files.rows(config, split):
            self.read[config.name] += 1
            if self.progress and self.read.total() % 64 == 0:
                self.progress(self.read.total(), self.total)
            yield each

    def _verify(self, base: Config) -> None:
        """The rows of a config that holds records whole, and those that are made of them."""
        ids: set[bytes] = set()
        self.groups: set[bytes] = set()
        count = sum(t.rows for t in self.manifest.configs.get(base.name, {}).values())
        for split in self.files.splits(base):
            followers = [
                Follower(self, config, split)
                for config in CONFIGS
                if config.row.origin is base.row.origin and config not in BASES
            ]
            looked = self._looked(base, split, count)
            keyed = groupby(looked, key=lambda one: str(one[1].get("sample", one[2].id)))
            for name, group in keyed:
                raws = []
                for file, row, found in group:
                    if _digest(found.id) in ids:
                        self.files.fault(FaultKind.RECORD, file, "its id is there twice", found.id)
                    ids.add(_digest(found.id))
                    for kind, detail in found.faults:
                        self.files.fault(kind, file, detail, found.id)
                    self.inspected += found.inspected
                    for each in followers:
                        each.follow(file, row, found)
                    if found.made is None:
                        continue
                    if base is SAMPLES and _digest(found.id) in self.named:
                        record = to_text(base.row.record_of(row))
                        self.samples.execute(
                            "INSERT INTO samples VALUES (?, ?, ?)", (found.id, split, record)
                        )
                    if base is INSTRUCTIONS:
                        raws.append((file, Instruction.model_validate(base.row.record_of(row))))
                if raws:
                    self._look_at_group(split, name, raws)
            for each in followers:
                each.finish()

    def _looked(
        self, base: Config, split: str, count: int
    ) -> Iterator[tuple[str, JsonObject, Looked]]:
        """File, row and what was found of each row of a table."""
        mark = self.files.hashes.get(MANIFEST, "") + "".join(self.files.hashes.values())
        waiting = deque[list[tuple[str, JsonObject]]]()

        def tasks() -> Iterator[tuple[Path, str, str, str, list[JsonObject]]]:
            there = self._rows(base, split)
            while chunk := list(islice(there, CHUNK)):
                waiting.append(chunk)
                yield self.files.root, mark, base.name, split, [row for _, row in chunk]

        beside = self.processes if count >= MANY else 0
        for found in in_processes(look_at_rows, tasks(), beside):
            for (file, row), looked in zip(waiting.popleft(), found, strict=True):
                yield file, row, looked

    def _look_at_group(self, split: str, name: str, group: list[tuple[str, Instruction]]) -> None:
        """The instructions of one sample: each level once, all of them made of that sample."""
        file = group[-1][0]
        found: dict[Granularity, Instruction] = {}
        for where, each in group:
            if each.level in found:
                detail = f"its sample has two of the level {each.level}"
                self.files.fault(FaultKind.RECORD, where, detail, each.id)
            found[each.level] = each
        if _digest(name) in self.groups:
            detail = "instructions of its sample stand apart from each other"
            self.files.fault(FaultKind.RECORD, file, detail, name)
        self.groups.add(_digest(name))
        if seed := self._seed(split, name, file, found):
            for row, kind, detail in _held_against(seed, found):
                self.files.fault(kind, file, detail, row)

    def _seed(
        self, split: str, name: str, file: str, found: dict[Granularity, Instruction]
    ) -> Seed | None:
        """What the instructions were made of; None, and a fault, if it is not there."""
        asked = "SELECT record FROM samples WHERE id = ? AND split = ?"
        stored = self.samples.execute(asked, (name, split)).fetchone()
        if stored is None and {each.source for each in found.values()} == {TOOLBENCH}:
            # Tools that are held out are held out here too.
            tags = next(iter(found.values())).tags
            tools = zip(tags.categories, tags.tools, strict=False)
            zones = {zone(self.manifest.plan, *tool) for tool in tools}
            held = next((z for z in (Split.TEST_CATEGORY, Split.TEST_TOOL) if z in zones), None)
            if held != split if held else split not in SEEN:
                place = f"belong into {held}" if held else "are seen in training"
                detail = f"is in {split}; its tools {place}"
                self.files.fault(FaultKind.SPLIT, file, detail, name)
            return seed_of_rows(list(found.values()))
        if stored is None:
            if (SAMPLES.name, split) not in self.files.broken:
                detail = f"its sample is not in `samples` of {split}"
                self.files.fault(FaultKind.RECORD, file, detail, name)
            return None
        try:
            seed = seed_of(parsed(stored[0]), Split(split))
        except (ValueError, TypeError, LookupError, AttributeError):  # the sample's own, told
            return None
        if seed is None:
            self.files.fault(FaultKind.RECORD, file, "its sample calls nothing", name)
        return seed


def _held_against(
    seed: Seed, found: dict[Granularity, Instruction]
) -> Iterator[tuple[str, FaultKind, str]]:
    """Tags, path and names are those of the calls, and no certain check finds a fault."""
    for level, each in found.items():
        for name in ("tags", "path", "spoken", "source", "licence"):
            wanted = tuple(spoken_tags(seed, level)) if name == "spoken" else getattr(seed, name)
            if getattr(each, name) != wanted:
                yield each.id, FaultKind.RECORD, f"`{name}` is not that of its sample"
        if each.path[-1:] != (FINISH,):
            yield each.id, FaultKind.RECORD, f"`path` does not end in {FINISH}"
    texts = {level: each.text for level, each in found.items()}
    # Where the statement's own row was rejected, the others go on from it all the same: votes
    # reject it alone.
    others = [text for level, text in texts.items() if level in NAMING]
    first = sentences(others[0]) if others else []
    begun: dict[Granularity, str] = {}
    for many in range(len(first) - 1, 0, -1):
        statement = " ".join(first[:many])
        together = all(text.startswith(f"{statement} ") for text in others)
        if together and not inspect_level(seed, Granularity.STATEMENT, statement, {}):
            begun = {Granularity.STATEMENT: statement}
            break
    for level, findings in inspect_levels(seed, {**begun, **texts}).items():
        for finding in findings if level in found else ():
            yield found[level].id, FaultKind.CHECK, f"{finding.reason}: {finding.detail}"


class Follower:
    """The rows of a config that are made of another's records, read in step with these.

    Some may be left out: those that `datasets` would not give back, and those of a record that a
    run's recipe does not want.
    """

    def __init__(self, rows: Rows, config: Config, split: str) -> None:
        self._files, self._config, self._split = rows.files, config, split
        self._there = rows._rows(config, split)
        self._next = next(self._there, None)

    def follow(self, file: str, row: JsonObject, found: Looked) -> None:
        """A record's rows are the next ones, and equal to what is made of it."""
        made, lacking = (found.made or {}).get(self._config.name, []), 0
        while found.made is None and self._next and str(self._next[1]["id"]).startswith(found.id):
            self._next = next(self._there, None)  # those of a record that cannot be read
        for each in made:
            if self._next is None or self._next[1]["id"] != each.id:
                lacking += each.is_wanted
                continue
            where, stored = self._next
            self._next = next(self._there, None)
            if not each.may_be:
                detail = "is there, though the recipe leaves it out"
                self._files.fault(FaultKind.TRAINING, where, detail, each.id)
            elif _row_hash(stored) != each.hash:
                detail = self._difference(row, each.id, stored)
                self._files.fault(FaultKind.TRAINING, where, detail, each.id)
        if lacking and (self._config.name, self._split) not in self._files.broken:
            detail = f"lacks {lacking} of {len(made)} rows in `{self._config.name}` at its place"
            self._files.fault(FaultKind.TRAINING, file, detail, found.id)

    def finish(self) -> None:
        base = base_of(self._config)
        detail = f"has no {_name(base)} in `{base.name}` at its place"
        while self._next:
            file, row = self._next
            self._next = next(self._there, None)
            if (base.name, self._split) not in self._files.broken:
                self._files.fault(FaultKind.TRAINING, file, detail, row.get("id"))

    def _difference(self, row: JsonObject, name: str, stored: JsonObject) -> str:
        """Where a row leaves the record it is made of: the column, and the item of a list."""
        base = base_of(self._config)
        rows = map(self._config.encode, self._config.row.of(base.row.record_of(row)))
        made = next(each for each in rows if each["id"] == name)
        column = next(key for key in {**made, **stored} if made.get(key) != stored.get(key))
        wanted, there = made.get(column), stored.get(column)
        if isinstance(wanted, list) and isinstance(there, list) and len(wanted) == len(there):
            at = next(i for i, (a, b) in enumerate(zip(wanted, there, strict=True)) if a != b)
            column, wanted, there = f"{column}[{at}]", wanted[at], there[at]
        if isinstance(wanted, str) and isinstance(there, str):
            pairs = enumerate(zip(wanted, there, strict=False))
            at = next((n for n, (a, b) in pairs if a != b), min(len(wanted), len(there)))
            at = max(0, at - 20)
            wanted, there = wanted[at:], there[at:]
        return f"`{column}` has {_short(there)}, its {_name(base)} {_short(wanted)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else text[:119] + "…"


# -- 4. Figures ------------------------------------------------------------------------------------


def _figures(files: VersionFiles, told: Manifest) -> None:
    """The manifest's figures are those of the tables, and of the runs that made them."""
    if files.broken or files.findings.counts[FaultKind.TABLE]:
        files.notes.append("Figures were not compared: not all tables could be read.")
        return
    try:
        described = describe(files.root)
    except Exception as error:  # noqa: BLE001  # foreign rows: anything may come of them
        detail = f"no figures can be made of the rows ({_why(error)})"
        files.fault(FaultKind.FIGURE, MANIFEST, detail)
        return
    for name, wanted in described.items():
        for place, there, due in _differences(name, files.raw.get(name), wanted):
            detail = f"{place} is {_short(there)}, the data have {_short(due)}"
            files.fault(FaultKind.FIGURE, MANIFEST, detail)
    for split, figures in told.splits.items():
        names = figures.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            files.fault(FaultKind.FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    for name in {told.extended.run} - {*told.runs} if told.extended else ():
        files.fault(FaultKind.FIGURE, MANIFEST, f"extended.run {name} is not among the runs")
    for name, run in told.runs.items():
        try:
            counts = Counts.model_validate(run.get("counts"))
        except ValueError:
            files.fault(FaultKind.FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        _run_figures(files, name, counts, told)


OURS = {"runs", "run"}  # what the manifest has among figures that tables do not tell


def _differences(place: str, told: Any, due: Any) -> Iterator[tuple[str, Any, Any]]:
    """Where figures differ: the place, what is told there, and what the data have."""
    if isinstance(told, dict) and isinstance(due, dict):
        kept = {name: value for name, value in told.items() if name not in OURS or name in due}
        for name in {**due, **kept}:
            yield from _differences(f"{place}.{name}", kept.get(name), due.get(name))
        if not place.startswith("configs") and list(kept) != list(due) and {*kept} == {*due}:
            yield f"{place} in order", list(kept), list(due)
    elif told != due:
        yield place, told, due


def _run_figures(files: VersionFiles, name: str, counts: Counts, told: Manifest) -> None:
    """What a run accepted and rejected is there; of runs before the last only a part is left."""
    if told.extended:
        if name != told.extended.run:
            return
        configs = {"rows": SAMPLES, "rejected": REJECTED, "instructions": INSTRUCTIONS}
        rows = told.extended.rows
        found = {what: sum(rows.get(c.name, {}).values()) for what, c in configs.items()}
    else:
        last = told.splits if told.regenerated is None else [told.regenerated.value]
        splits = [told.splits[split] for split in last if split in told.splits]
        mine = [figures for figures in splits if figures.get("runs") == [name]]
        if not mine:
            return
        numbers = {what: [f.get(what, 0) for f in mine] for what in ("rows", "rejected")}
        found = {what: sum(n for n in each if isinstance(n, int)) for what, each in numbers.items()}
    made = counts.accepted, counts.rejected, counts.instructions
    figures = dict(zip(("rows", "rejected", "instructions"), made, strict=True))
    # A run for one split may have rejected records that belong to no split, among other runs'.
    runs = told.splits.get(BEFORE_QUERIES, {}).get("runs") if told.regenerated else None
    fell_before = isinstance(runs, list) and name in runs
    for what, number in found.items():
        fewer = what == "rejected" and number < figures[what] and fell_before
        if number != figures[what] and not fewer:
            detail = f"run {name} made {figures[what]} {what}, its splits have {number}"
            files.fault(FaultKind.FIGURE, MANIFEST, detail)


def _card(files: VersionFiles) -> None:
    """README.md and `replay/` are what is made of the manifest: whoever runs it trusts it."""
    is_same = files.raw["code"] == code_hash()
    for name, content in replay_files().items() if files.raw.get("worlds") else ():
        due = hashlib.sha256(content).hexdigest()
        if is_same and files.hashes.get(name, due) != due:
            files.fault(FaultKind.FIGURE, name, "is not what toolloom publishes there")
    if CARD not in files.hashes:
        return
    try:
        made = card(files.raw).encode("utf-8", "replace")
    except Exception as error:  # noqa: BLE001  # a foreign manifest: anything may come of it
        files.fault(FaultKind.FIGURE, MANIFEST, f"no card can be made of it ({_why(error)})")
        return
    if hashlib.sha256(made).hexdigest() == files.hashes[CARD]:
        return
    if not is_same:
        files.notes.append(
            f"The words of {CARD} were not compared: toolloom {files.raw['toolloom']} wrote it."
        )
        return
    lines = zip(made.splitlines(), (files.root / CARD).read_bytes().splitlines(), strict=False)
    place, line = next(((n, b) for n, (a, b) in enumerate(lines, 1) if a != b), (0, b""))
    said = line.decode("utf-8", "replace")[:200]
    detail = f"line {place} is not what the manifest makes of it: {said}"
    files.fault(FaultKind.FIGURE, CARD, detail)


# -- 5. The parent ---------------------------------------------------------------------------------


def _lineage(files: VersionFiles, told: Manifest) -> None:
    """The parent is the one recorded, and what was not made anew is as it was there."""
    number = numbered(Path(told.version))
    before = numbered(Path(told.parent.version)) if told.parent else None
    detail = ""
    if number is None:
        detail = f"{told.version} is no number of a version"
    elif told.parent is None:
        if told.regenerated or told.extended or number[1:] != (0, 0):
            detail = f"{told.version} needs a parent, and has none"
    elif told.regenerated and told.extended:
        detail = "is a split made anew and an extension at once"
    elif before is None or before >= number:
        detail = f"{told.version} does not come after its parent {told.parent.version}"
    if detail:
        files.fault(FaultKind.LINEAGE, MANIFEST, detail)
    if detail or told.parent is None or before is None or number is None:
        return
    home = files.root.parent / dotted(before)
    if not (home / MANIFEST).is_file():
        files.notes.append(f"The parent version {told.parent.version} is not here.")
        return
    if sha256(home / MANIFEST) != told.parent.sha256:
        detail = f"the manifest of {told.parent.version} is not the one this version follows"
        files.fault(FaultKind.LINEAGE, MANIFEST, detail)
        return
    try:
        raw = json.loads((home / MANIFEST).read_bytes())
        kind, parent = change(raw, files.raw), Manifest.model_validate(raw)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        files.fault(FaultKind.LINEAGE, MANIFEST, f"the manifest of {dotted(before)} is damaged")
        return
    follows = {
        "major": number[0] > before[0] and number[1:] == (0, 0),
        "minor": number[0] == before[0] and number[1] > before[1] and number[2] == 0,
        "patch": number[:2] == before[:2],
    }
    if not follows[kind]:
        detail = f"{told.version} after {told.parent.version}, but the change is {kind}"
        files.fault(FaultKind.LINEAGE, MANIFEST, detail)
    for config in CONFIGS if told.regenerated or told.extended else ():
        for split, table in parent.configs.get(config.name, {}).items():
            if told.extended:
                is_grown = split in told.extended.rows.get(config.name, {})
            else:
                is_grown = config is REJECTED and split == BEFORE_QUERIES
            if is_grown:
                _rows_stay(files, told, config, split, table, home)
            elif split != told.regenerated or config in (APIS, WORLDS):
                mine = files.table(config, split)
                for name, file in table.files.items():
                    if not mine or name not in mine.files or mine.files[name].sha256 != file.sha256:
                        what = f"only {told.regenerated} is new" if told.regenerated else ""
                        what = what or "no rows were added to it"
                        detail = f"is not the file of {told.parent.version}, but {what}"
                        files.fault(FaultKind.LINEAGE, name, detail)


def _rows_stay(
    files: VersionFiles, told: Manifest, config: Config, split: str, before: TableEntry, home: Path
) -> None:
    """The parent's rows are the first ones, and as many were added as the manifest says."""
    table = files.table(config, split)
    more = (table.rows if table else 0) - before.rows
    if told.extended and (added := told.extended.rows[config.name][split]) != more:
        detail = f"extended.rows.{config.name}.{split} is {added}, but it has {more} more"
        files.fault(FaultKind.FIGURE, MANIFEST, detail)
    mine = (row for _, row in files.rows(config, split))
    for name, file in before.files.items():
        if not (home / name).is_file() or sha256(home / name) != file.sha256:
            files.notes.append(f"{name} of {home.name} is damaged: not compared.")
            return
        for row in read_rows(home / name, stored=True):
            if next(mine, None) != row:
                detail = f"has no longer the rows of {home.name} in their order"
                files.fault(FaultKind.LINEAGE, name, detail, row.get("id"))
                return
