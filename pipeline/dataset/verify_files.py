"""A version's files: every byte is in a hash, tables have the layout, the parent's rows are there.

Also what a verification reports: `FaultKind`, `VersionFault` and `VerifyReport`. The rows are
`verify_rows.py`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from toolloom.pipeline.checks.findings import MOST, Findings
from toolloom.pipeline.dataset import rows
from toolloom.pipeline.dataset.figures import BEFORE_QUERIES
from toolloom.pipeline.dataset.publish import sha256
from toolloom.pipeline.dataset.rows import APIS, REJECTED, WORLDS
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.tables import Config, read_rows
from toolloom.pipeline.store.version import LAYOUT, change, dotted, numbered, open_version
from toolloom.schemas import JsonObject, Record, Split, SplitPlan, StoreError, first_error

MANIFEST, SUMS, CARD = "manifest.json", "SHA256SUMS", "README.md"
Count = Annotated[int, Field(ge=0, strict=True)]
_LINE = re.compile(rb"([0-9a-f]{64})  ([^\n]+)")
_LARGEST = 64 * 2**20  # of a manifest, in bytes


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


class FileEntry(BaseModel):
    """What a manifest tells of a table's file."""

    rows: Count
    sha256: str
    bytes: Count


class TableEntry(BaseModel):
    """What a manifest tells of a split of a config."""

    rows: Count
    left_out: Count
    files: dict[str, FileEntry]


class ParentEntry(BaseModel):
    version: str
    sha256: str


class ExtensionEntry(BaseModel):
    """What a run added to the parent: rows by config and split."""

    run: str
    rows: dict[str, dict[str, Count]]


class Manifest(BaseModel):
    """A manifest's shape, as far as verification reads it."""

    layout: int
    name: str
    version: str
    parent: ParentEntry | None
    regenerated: Split | None
    extended: ExtensionEntry | None = None
    content: str
    toolloom: str
    code: str
    plan: SplitPlan
    runs: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    expansion: dict[str, dict[str, Any]] | None = None
    instructions: dict[str, Any] | None = None
    worlds: dict[str, Any] | None = None
    apis: dict[str, Any]
    configs: dict[str, dict[str, TableEntry]]
    files: dict[str, str]

    def tables(self) -> Iterator[tuple[str, str, str, FileEntry]]:
        """Config, split, path and figures of each Parquet file."""
        for config, splits in self.configs.items():
            for split, table in splits.items():
                for name, told in table.files.items():
                    yield config, split, name, told


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

    def fault(self, kind: FaultKind, file: str, detail: str, row: Any = None) -> None:
        """Tell what is wrong, in a file or in one of its rows."""
        name = None if row is None else str(row)[:200]
        fault = VersionFault(kind=kind, file=file, row=name, detail=detail[:2000])
        self.findings.add(kind, fault)

    @property
    def faults(self) -> tuple[VersionFault, ...]:
        """Those that are kept, kind by kind, each in the order in which they were found."""
        return tuple(fault for kind in FaultKind for fault in self.findings.kept.get(kind, ()))

    def table(self, config: str, split: str) -> TableEntry | None:
        """What the manifest says of a table."""
        return self.manifest.configs.get(config, {}).get(split) if self.manifest else None

    def readable(self, config: str, split: str) -> list[str]:
        """The files of a table that are there; names that a manifest makes up lead nowhere."""
        table = self.table(config, split)
        return [name for name in table.files if name in self.hashes] if table else []

    def rows(self, name: str) -> Iterator[JsonObject]:
        """The rows of a Parquet file as they are stored; of a damaged one those before it."""
        try:
            yield from read_rows(self.root / name, stored=True)
        except StoreError as error:
            self.fault(FaultKind.TABLE, name, f"cannot be read ({_first_line(error)})")


def look(root: Path) -> VersionFiles:
    """Hash all files and hold them against manifest and checksums.

    Raises StoreError for a version of another layout.
    """
    files = VersionFiles(root)
    for name, path in _walk(files):
        try:
            with path.open("rb") as file:
                files.hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
                files.sizes[name] = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise explain(path, error, "read") from error
    sums = (root / SUMS).read_bytes() if SUMS in files.hashes else None
    listed = {m[2].decode("utf-8", "replace"): m[1].decode() for m in _LINE.finditer(sums or b"")}
    if MANIFEST in files.hashes:
        _read_manifest(files, sound=listed.get(MANIFEST) in (None, files.hashes[MANIFEST]))
    _compare(files, listed)
    if sums is not None:
        _compare_sums(files, sums, listed)
    return files


def _walk(files: VersionFiles) -> Iterator[tuple[str, Path]]:
    """The regular files below a folder, in order. Links are told and never followed."""
    for folder, folders, names in os.walk(files.root, onerror=_stop):
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


def _stop(error: OSError) -> None:
    raise explain(Path(error.filename or "."), error, "read") from error


def _read_manifest(files: VersionFiles, sound: bool) -> None:
    """The manifest, and its parts; `sound`: its hash is the one in the checksums, if they are
    there, so that a layout it names is to be believed."""
    try:
        raw = (files.root / MANIFEST).read_bytes()
        if len(raw) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST:,} bytes")
        told = json.loads(raw)
        if sound and isinstance(told, dict) and told.get("layout", 1) != LAYOUT:
            open_version(files.root)  # raises StoreError that says which toolloom reads it
        manifest = Manifest.model_validate(told)
        text = json.dumps(told, indent=2, ensure_ascii=False)
        if text.encode("utf-8", "replace") + b"\n" != raw:
            files.fault(FaultKind.FILE, MANIFEST, "is not written as toolloom writes it")
        files.raw, files.manifest = told, manifest
    except ValidationError as error:
        files.fault(FaultKind.FILE, MANIFEST, f"is damaged ({first_error(error)})")
    except (ValueError, RecursionError) as error:
        files.fault(FaultKind.FILE, MANIFEST, f"is damaged ({_first_line(error)})")


def _compare(files: VersionFiles, listed: dict[str, str]) -> None:
    """Files missing, too many, or not those that the manifest knows."""
    known: dict[str, tuple[str, int | None]] = {MANIFEST: ("", None), SUMS: ("", None)}
    others = files.manifest.files if files.manifest else listed
    known |= {name: (sha256, None) for name, sha256 in others.items()}
    for _, _, name, entry in files.manifest.tables() if files.manifest else ():
        known[name] = entry.sha256, entry.bytes
    for name in sorted(known.keys() - files.hashes.keys()):
        files.fault(FaultKind.FILE, name, "is missing")
    for name in sorted(files.hashes.keys() - known.keys()):
        files.fault(FaultKind.FILE, name, "is no part of the version")
    for name in sorted(known.keys() & files.hashes.keys()):
        wanted, size = known[name]
        if size not in (None, files.sizes[name]):
            detail = f"has {files.sizes[name]:,} bytes instead of {size:,}"
            files.fault(FaultKind.FILE, name, detail)
        elif wanted not in ("", files.hashes[name]):
            by = MANIFEST if files.manifest else SUMS
            files.fault(FaultKind.FILE, name, f"its SHA-256 is not the one in {by}")


def _compare_sums(files: VersionFiles, sums: bytes, listed: dict[str, str]) -> None:
    """SHA256SUMS is what it must be, byte for byte; else the line that is not is told."""
    wanted = dict(listed)  # without a manifest the files were held against these
    if files.manifest:
        wanted = {**files.manifest.files, MANIFEST: files.hashes[MANIFEST]}
        wanted |= {name: entry.sha256 for _, _, name, entry in files.manifest.tables()}
    lines = [f"{sha256}  {name}\n".encode() for name, sha256 in sorted(wanted.items())]
    if sums == b"".join(lines):
        return
    wrong = [n for n in sorted({*wanted, *listed}) if wanted.get(n) != listed.get(n)]
    for name in wrong:
        if name == MANIFEST and name in listed:
            detail = f"its SHA-256 is not the one in {SUMS}: one of these two files was edited"
            files.fault(FaultKind.FILE, MANIFEST, detail)
        elif name in wanted:
            files.fault(FaultKind.FILE, SUMS, f"does not hold the hash of {name}")
        else:
            files.fault(FaultKind.FILE, SUMS, f"names {name}, which is no part of the version")
    if not wrong:
        files.fault(FaultKind.FILE, SUMS, "is not, byte for byte, the sums of these files in order")


def look_at_tables(files: VersionFiles) -> None:
    """Each table is in the layout: names, columns, types, numbers of rows."""
    known = {config.name: config for config in rows.CONFIGS}
    if files.manifest is None:
        return
    for config, splits in files.manifest.configs.items():
        if config not in known:
            files.fault(FaultKind.TABLE, MANIFEST, f"there is no config {config}")
            continue
        for split, table in splits.items():
            count = len(table.files)
            names = [f"{config}/{split}-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
            if list(table.files) != names:
                detail = f"{config}/{split}: files not named in order"
                files.fault(FaultKind.TABLE, MANIFEST, detail)
            if table.rows != sum(file.rows for file in table.files.values()):
                detail = f"{config}/{split}: its {table.rows:,} rows are not those of its files"
                files.fault(FaultKind.FIGURE, MANIFEST, detail)
            for name in files.readable(config, split):
                fault = _table_fault(files.root / name, known[config], table.files[name].rows)
                if fault:
                    files.fault(FaultKind.TABLE, name, fault)
                    if fault.startswith("cannot"):
                        del files.hashes[name]  # the rows of it are not read


def _table_fault(path: Path, config: Config, told: int) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException, ValueError) as error:
        return f"cannot be read ({_first_line(error)})"
    if not schema.equals(config.types):
        columns = ", ".join(f"{f.name}: {f.type}" for f in schema)[:300]
        return f"cannot be read as {config.name}: its columns are {columns}"
    return None if count == told else f"holds {count:,} rows instead of {told:,}"


def _first_line(error: Exception) -> str:
    return str(error.__cause__ or error).partition("\n")[0][:200]


def verify_lineage(files: VersionFiles, told: Manifest) -> None:
    """The parent is the one recorded, and what was not made anew is as it was there."""
    number = numbered(Path(told.version))
    before = numbered(Path(told.parent.version)) if told.parent else None
    detail = ""
    if number is None or told.layout != LAYOUT:
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
    path = files.root.parent / dotted(before) / MANIFEST
    if not path.is_file():
        files.notes.append(f"The parent version {told.parent.version} is not here.")
        return
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != told.parent.sha256:
        detail = f"the manifest of {told.parent.version} is not the one this version follows"
        files.fault(FaultKind.LINEAGE, MANIFEST, detail)
        return
    try:
        parent = json.loads(raw)
        kind = change(parent, files.raw)
        kept, grown = _of_parent(parent, told)
    except (ValueError, KeyError, TypeError, AttributeError):
        files.fault(FaultKind.LINEAGE, MANIFEST, f"the manifest of {dotted(before)} is damaged")
        return
    if not _follows(before, number, kind):
        detail = f"{told.version} after {told.parent.version}, but the change is {kind}"
        files.fault(FaultKind.LINEAGE, MANIFEST, detail)
    mine = {name: entry.sha256 for _, _, name, entry in told.tables()}
    what = f"only {told.regenerated} is new" if told.regenerated else "no rows were added to it"
    for name, wanted in kept.items():
        if mine.get(name) != wanted:
            detail = f"is not the file of {told.parent.version}, but {what}"
            files.fault(FaultKind.LINEAGE, name, detail)
    for config, split, table in grown:
        _rows_stay(files, told, config, split, table)


def _of_parent(
    parent: JsonObject, told: Manifest
) -> tuple[dict[str, str], list[tuple[str, str, JsonObject]]]:
    """The parent's files that stay as they are, with their hashes; config and split of its tables
    that got rows, or may have, with what is told of them."""
    kept: dict[str, str] = {}
    grown = []
    for config, splits in parent["configs"].items() if told.regenerated or told.extended else ():
        for split, table in splits.items():
            if told.extended:
                is_grown = split in told.extended.rows.get(config, {})
            else:
                is_grown = (config, split) == (REJECTED.name, BEFORE_QUERIES)
            if is_grown and table["files"]:
                grown.append((config, split, table))
            elif not is_grown and (split != told.regenerated or config in (APIS.name, WORLDS.name)):
                kept |= {name: file["sha256"] for name, file in table["files"].items()}
    return kept, grown


def _rows_stay(
    files: VersionFiles, told: Manifest, config: str, split: str, before: JsonObject
) -> None:
    """The parent's rows are the first ones, and as many were added as the manifest says."""
    assert told.parent
    there = files.root.parent / Path(told.parent.version).name
    table = files.table(config, split)
    more = (table.rows if table else 0) - before["rows"]
    if told.extended and (added := told.extended.rows[config][split]) != more:
        detail = f"extended.rows.{config}.{split} is {added}, but it has {more} more"
        files.fault(FaultKind.FIGURE, MANIFEST, detail)
    for name, file in before["files"].items():
        path = there / name
        if not path.is_file() or sha256(path) != file["sha256"]:
            note = f"{name} of {told.parent.version} is damaged: not compared."
            files.notes.append(note)
            return
    mine = chain.from_iterable(map(files.rows, files.readable(config, split)))
    for name in before["files"]:
        for row in read_rows(there / name, stored=True):
            if next(mine, None) != row:
                detail = f"has no longer the rows of {told.parent.version} in their order"
                files.fault(FaultKind.LINEAGE, next(iter(before["files"])), detail, row.get("id"))
                return


def _follows(before: tuple[int, int, int], number: tuple[int, int, int], kind: str) -> bool:
    if kind == "major":
        return number[0] > before[0] and number[1:] == (0, 0)
    if kind == "minor":
        return number[0] == before[0] and number[1] > before[1] and number[2] == 0
    return number[:2] == before[:2]
