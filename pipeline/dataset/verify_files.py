"""A version's files against its manifest and its checksums: every byte is in one of the hashes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from toolloom.pipeline.dataset.configs import CONFIGS, Config
from toolloom.pipeline.dataset.verify_report import Findings, Kind
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.tables import schema_of
from toolloom.pipeline.store.version import LAYOUT, open_version
from toolloom.schemas import JsonObject, Split, SplitPlan

MANIFEST, SUMS, CARD = "manifest.json", "SHA256SUMS", "README.md"
Count = Annotated[int, Field(ge=0, strict=True)]
_LINE = re.compile(rb"([0-9a-f]{64})  ([^\n]+)")
_LARGEST = 64 * 2**20  # of a manifest, in bytes


class ToldFile(BaseModel):
    """What a manifest tells of a table's file."""

    rows: Count
    sha256: str
    bytes: Count


class ToldSheet(BaseModel):
    """What a manifest tells of a split of a config."""

    rows: Count
    left_out: Count
    files: dict[str, ToldFile]


class ToldParent(BaseModel):
    version: str
    sha256: str


class ToldExtension(BaseModel):
    """What a run added to the parent: rows by config and split."""

    run: str
    rows: dict[str, dict[str, Count]]


class Told(BaseModel):
    """A manifest's shape, as far as verification reads it."""

    layout: int
    name: str
    version: str
    parent: ToldParent | None
    regenerated: Split | None
    extended: ToldExtension | None = None
    content: str
    toolloom: str
    code: str
    plan: SplitPlan
    runs: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    expansion: dict[str, dict[str, Any]] | None = None
    instructions: dict[str, Any] | None = None
    apis: dict[str, Any]
    configs: dict[str, dict[str, ToldSheet]]
    files: dict[str, str]

    def tables(self) -> Iterator[tuple[str, str, str, ToldFile]]:
        """Config, split, path and figures of each Parquet file."""
        for config, splits in self.configs.items():
            for split, sheet in splits.items():
                for name, told in sheet.files.items():
                    yield config, split, name, told


@dataclass
class Files:
    """What is in a version's folder."""

    root: Path
    hashes: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    manifest: JsonObject | None = None
    told: Told | None = None  # None: the manifest is damaged

    def readable(self, config: str, split: str) -> list[str]:
        """The files of a split that are there; names that a manifest makes up lead nowhere."""
        sheets = self.told.configs.get(config, {}) if self.told else {}
        return [n for n in sheets[split].files if n in self.hashes] if split in sheets else []


def look(root: Path, findings: Findings) -> Files:
    """Hash all files and hold them against manifest and checksums.

    Raises StoreError for a version of another layout.
    """
    files = Files(root)
    for name, path in _walk(root, findings):
        try:
            with path.open("rb") as file:
                files.hashes[name] = hashlib.file_digest(file, "sha256").hexdigest()
                files.sizes[name] = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise explain(path, error, "read") from error
    sums = (root / SUMS).read_bytes() if SUMS in files.hashes else None
    listed = {m[2].decode("utf-8", "replace"): m[1].decode() for m in _LINE.finditer(sums or b"")}
    if MANIFEST in files.hashes:
        sound = listed.get(MANIFEST) in (None, files.hashes[MANIFEST])
        files.manifest, files.told = _read_manifest(root, sound, findings)
    _compare(files, listed, findings)
    if sums is not None:
        _compare_sums(files, sums, listed, findings)
    return files


def _walk(root: Path, findings: Findings) -> Iterator[tuple[str, Path]]:
    """The regular files below a folder, in order. Links are told and never followed."""
    for folder, folders, names in os.walk(root, onerror=_stop):
        folders.sort()
        for name in sorted([*names, *(f for f in folders if (Path(folder) / f).is_symlink())]):
            path = Path(folder) / name
            inside = path.relative_to(root).as_posix()
            if path.is_symlink():
                findings.add(Kind.FILE, inside, "is a link; a version holds its files itself")
            elif not path.is_file():
                findings.add(Kind.FILE, inside, "is no regular file")
            else:
                yield inside, path


def _stop(error: OSError) -> None:
    raise explain(Path(error.filename or "."), error, "read") from error


def _read_manifest(
    root: Path, sound: bool, findings: Findings
) -> tuple[JsonObject | None, Told | None]:
    """The manifest, and its parts; `sound`: its hash is the one in the checksums, if they are
    there, so that a layout it names is to be believed."""
    try:
        raw = (root / MANIFEST).read_bytes()
        if len(raw) > _LARGEST:
            raise ValueError(f"larger than {_LARGEST:,} bytes")
        manifest = json.loads(raw)
        if sound and isinstance(manifest, dict) and manifest.get("layout", 1) != LAYOUT:
            open_version(root)  # raises StoreError that says which toolloom reads it
        told = Told.model_validate(manifest)
        text = json.dumps(manifest, indent=2, ensure_ascii=False)
        if text.encode("utf-8", "replace") + b"\n" != raw:
            findings.add(Kind.FILE, MANIFEST, "is not written as toolloom writes it")
        return manifest, told
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        findings.add(Kind.FILE, MANIFEST, f"is damaged ({where}: {first['msg']})")
    except (ValueError, RecursionError) as error:
        why = str(error).partition("\n")[0][:200]
        findings.add(Kind.FILE, MANIFEST, f"is damaged ({why})")
    return None, None


def _compare(files: Files, listed: dict[str, str], findings: Findings) -> None:
    """Files missing, too many, or not those that the manifest knows."""
    known: dict[str, tuple[str, int | None]] = {MANIFEST: ("", None), SUMS: ("", None)}
    if files.told:
        known |= {name: (sha256, None) for name, sha256 in files.told.files.items()}
        known |= {name: (told.sha256, told.bytes) for _, _, name, told in files.told.tables()}
    else:
        known |= {name: (sha256, None) for name, sha256 in listed.items()}
    for name in sorted(known.keys() - files.hashes.keys()):
        findings.add(Kind.FILE, name, "is missing")
    for name in sorted(files.hashes.keys() - known.keys()):
        findings.add(Kind.FILE, name, "is no part of the version")
    for name in sorted(known.keys() & files.hashes.keys()):
        wanted, size = known[name]
        if size not in (None, files.sizes[name]):
            detail = f"has {files.sizes[name]:,} bytes instead of {size:,}"
            findings.add(Kind.FILE, name, detail)
        elif wanted not in ("", files.hashes[name]):
            by = MANIFEST if files.told else SUMS
            findings.add(Kind.FILE, name, f"its SHA-256 is not the one in {by}")


def _compare_sums(files: Files, sums: bytes, listed: dict[str, str], findings: Findings) -> None:
    """SHA256SUMS is what it must be, byte for byte; else the line that is not is told."""
    wanted = dict(listed)  # without a manifest the files were held against these
    if files.told:
        wanted = {**files.told.files, MANIFEST: files.hashes[MANIFEST]}
        wanted |= {name: told.sha256 for _, _, name, told in files.told.tables()}
    lines = [f"{sha256}  {name}\n".encode() for name, sha256 in sorted(wanted.items())]
    if sums == b"".join(lines):
        return
    wrong = [n for n in sorted({*wanted, *listed}) if wanted.get(n) != listed.get(n)]
    for name in wrong:
        if name == MANIFEST and name in listed:
            detail = f"its SHA-256 is not the one in {SUMS}: one of these two files was edited"
            findings.add(Kind.FILE, MANIFEST, detail)
        elif name in wanted:
            findings.add(Kind.FILE, SUMS, f"does not hold the hash of {name}")
        else:
            findings.add(Kind.FILE, SUMS, f"names {name}, which is no part of the version")
    if not wrong:
        findings.add(Kind.FILE, SUMS, "is not, byte for byte, the sums of these files in order")


def look_at_tables(files: Files, findings: Findings) -> None:
    """Each table is in the layout: names, columns, types, numbers of rows."""
    known = {config.name: config for config in CONFIGS}
    if files.told is None:
        return
    for config, splits in files.told.configs.items():
        if config not in known:
            findings.add(Kind.TABLE, MANIFEST, f"there is no config {config}")
            continue
        for split, sheet in splits.items():
            count = len(sheet.files)
            names = [f"{config}/{split}-{n:05d}-of-{count:05d}.parquet" for n in range(count)]
            if list(sheet.files) != names:
                findings.add(Kind.TABLE, MANIFEST, f"{config}/{split}: files not named in order")
            if sheet.rows != sum(told.rows for told in sheet.files.values()):
                detail = f"{config}/{split}: its {sheet.rows:,} rows are not those of its files"
                findings.add(Kind.FIGURE, MANIFEST, detail)
            for name in files.readable(config, split):
                fault = _table_fault(files.root / name, known[config], sheet.files[name].rows)
                if fault:
                    findings.add(Kind.TABLE, name, fault)
                    if fault.startswith("cannot"):
                        del files.hashes[name]  # the rows of it are not read


def _table_fault(path: Path, config: Config, rows: int) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            found, wanted, count = file.schema_arrow, schema_of(config), file.metadata.num_rows
    except (OSError, pa.ArrowException, ValueError) as error:
        return f"cannot be read ({_first_line(error)})"
    if not found.equals(wanted):
        columns = ", ".join(f"{f.name}: {f.type}" for f in found)[:300]
        return f"cannot be read as {config.name}: its columns are {columns}"
    return None if count == rows else f"holds {count:,} rows instead of {rows:,}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]


def read_table(files: Files, name: str, findings: Findings, size: int = 64) -> Iterator[JsonObject]:
    """The rows of a Parquet file, `size` in memory at a time, objects as their JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Without pre_buffer: with it the whole file is in memory at once.
        path = files.root / name
        with pq.ParquetFile(path, arrow_extensions_enabled=False, pre_buffer=False) as file:
            for batch in file.iter_batches(size):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException, ValueError) as error:
        findings.add(Kind.TABLE, name, f"cannot be read ({_first_line(error)})")
