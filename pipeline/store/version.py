"""Versions of a dataset on the disk: found, read, numbered.

    <outputs>/datasets/<name>/1.0.0/    a version: it never changes
    <outputs>/datasets/<name>/latest    a link to the highest one

A number tells users what changed: the first part a test or the layout (figures can no longer be
compared), the second what is trained on, the third only what was rejected or is told.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os.path import isdir, isfile
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from toolloom.pipeline.render.section import visible
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.parquet import read_rows
from toolloom.schemas import JsonObject, NothingFound, PublishError, Sample, Split, StoreError
from toolloom.schemas.base import LAYOUT, first_error
from toolloom.schemas.splits import SplitPlan

PARTS = ("dialogue", "verdict", "flags", "provenance")  # of a Sample, in the config `samples`

Number: TypeAlias = tuple[int, int, int]
Count = Annotated[int, Field(ge=0, strict=True)]
# Files are named by them, such as a report or a table: a manifest may be foreign, and must not
# choose where they are.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Dotted = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
Table = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9_]+/[a-z0-9_]+-[0-9]{5,}-of-[0-9]{5,}\.parquet$")
]


class FileEntry(BaseModel):
    """What a manifest tells of a table's file."""

    rows: Count
    sha256: str
    bytes: Count


class TableEntry(BaseModel):
    """What a manifest tells of a split of a config."""

    rows: Count
    files: dict[Table, FileEntry]


class ParentEntry(BaseModel):
    """The version that one follows, and the hash of its manifest."""

    version: str
    sha256: str


class ExtensionEntry(BaseModel):
    """What a run added to the parent: rows by config and split."""

    run: str
    rows: dict[str, dict[str, Count]]


class Manifest(BaseModel):
    """`manifest.json`, as far as it has to be believed: what is in `splits`, `instructions`,
    `worlds`, `apis` and `expansion` is only shown, and verification counts it again."""

    layout: int
    name: Name
    version: Dotted
    parent: ParentEntry | None
    regenerated: Split | None
    extended: ExtensionEntry | None = None
    content: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12,}$")]
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


@dataclass(frozen=True)
class Version:
    """A version of a dataset."""

    path: Path
    manifest: JsonObject

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def number(self) -> str:
        return str(self.manifest["version"])

    @property
    def label(self) -> str:
        return f"{self.name}/{self.number}"

    def splits(self, config: str) -> list[str]:
        """The splits of a config that have rows."""
        return list(self.manifest["configs"].get(config, {}))

    def files(self, config: str, split: str) -> list[Path]:
        """The Parquet files of a split, in order."""
        made = self.manifest["configs"].get(config, {}).get(split, {"files": ()})
        return [self.path / name for name in made["files"]]

    def rows(self, config: str, split: str | None = None) -> Iterator[JsonObject]:
        """The rows of a split, or of all splits, streamed; JSON columns are decoded. Raises
        StoreError."""
        for each in [split] if split else self.splits(config):
            for path in self.files(config, each):
                yield from read_rows(path)

    def samples(self, split: str | None = None) -> Iterator[Sample]:
        """The samples of a split, or of all splits, one at a time. Raises StoreError."""
        return map(self.sample, self.rows("samples", split))

    def sample(self, row: JsonObject) -> Sample:
        """The sample in a row of the config `samples`. Raises StoreError."""
        with self.readable(row):
            return Sample.model_validate({key: json.loads(row[key]) for key in PARTS})

    def parsed(self, row: JsonObject, name: str) -> Any:
        """The JSON in a text column. Raises StoreError."""
        with self.readable(row):
            return json.loads(row[name])

    @contextmanager
    def readable(self, row: JsonObject) -> Iterator[None]:
        """What is wrong with a row, as StoreError."""
        try:
            yield
        except (
            AttributeError,
            LookupError,
            OSError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            why = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            why = first_error(error) if isinstance(error, ValidationError) else why
            raise StoreError(
                f"{self.path}: the row {row.get('id')} is damaged ({visible(why)}). "
                f"`toolloom verify {self.label}` tells more."
            ) from error

    def told(self, key: str) -> Any:
        """What the manifest tells under a key."""
        return self.manifest[key]

    @property
    def first(self) -> tuple[str, str]:
        """The first config and split with rows to load. Raises StoreError if none has any."""
        for config, splits in self.told("configs").items():
            for split, made in splits.items():
                if made["files"]:
                    return config, split
        raise StoreError(f"{self.path / 'manifest.json'}: is damaged (no config has files).")

    @property
    def load_line(self) -> str:
        """Python that loads it, whatever the working directory."""
        config, split = self.first
        where = json.dumps(str(self.path.resolve()), ensure_ascii=False)
        return f'datasets.load_dataset({where}, "{config}", split="{split}")'


def open_version(path: Path) -> Version:
    """Read a version's manifest. Raises StoreError."""
    where = path / "manifest.json"
    try:
        manifest = json.loads(where.read_bytes())
        check_layout(where, manifest)
        Manifest.model_validate(manifest)
    except OSError as error:
        raise explain(where, error, "read") from error
    except (ValueError, RecursionError) as error:
        why = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise StoreError(
            f"{where}: is damaged ({why}). Bring the file back, or move the folder "
            f"{path} out of its dataset."
        ) from error
    return Version(path, manifest)


def check_layout(where: Path, manifest: Any) -> None:
    """Raises StoreError for a manifest of another toolloom."""
    layout = manifest.get("layout", 1) if isinstance(manifest, dict) else LAYOUT
    if layout != LAYOUT:
        is_newer = isinstance(layout, int) and layout > LAYOUT
        raise StoreError(
            f"{where}: was made by {'a newer' if is_newer else 'an older'} toolloom (layout "
            f"{layout}; this one reads {LAYOUT}). "
            + ("Update toolloom." if is_newer else "Run its recipe again to make it anew.")
        )


def is_older(path: Path) -> bool:
    """Whether a version was made by an older toolloom, so that no other can follow from it."""
    try:
        layout = json.loads((path / "manifest.json").read_bytes()).get("layout", 1)
    except (OSError, ValueError, AttributeError):
        return False
    return isinstance(layout, int) and layout < LAYOUT


def numbered(path: Path) -> Number | None:
    """(1, 2, 0) of `1.2.0`; None of what is no version."""
    found = re.fullmatch(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", path.name)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def numbers(folder: Path) -> list[Number]:
    """The numbers of a dataset's versions, in order."""
    return sorted(number for path in folder.glob("*.*.*") if (number := numbered(path)))


def dotted(number: Number) -> str:
    return ".".join(map(str, number))


def versions(folder: Path) -> list[Version]:
    """A dataset's versions, oldest first. Raises StoreError."""
    return [open_version(folder / dotted(number)) for number in numbers(folder)]


def latest(folder: Path) -> Version | None:
    """The version with the highest number."""
    known = numbers(folder)
    return open_version(folder / dotted(known[-1])) if known else None


def point(folder: Path) -> None:
    """Let `latest` lead to the highest version, if there is any."""
    known, link = numbers(folder), folder / "latest"
    if not known:
        return
    target = dotted(known[-1])
    try:
        if link.is_symlink() and link.readlink() == Path(target):
            return
        temporary = folder / ".latest"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)
    except OSError as error:
        raise explain(link, error, "written") from error


def find_version(outputs: Path, name: str) -> Version:
    """The version that a name means. Raises NothingFound that lists what there is, and StoreError
    for a damaged one."""
    return open_version(find_folder(outputs, name))


def find_folder(outputs: Path, name: str) -> Path:
    """The folder of the highest version of `name` or of a dataset's folder, of `name/1.2.0` or
    `name/latest`, or the one at a path.

    Damaged ones are found too. Raises NothingFound that lists what there is.
    """
    # Not methods of a path, which raise at odd names.
    if any(isfile(Path(name) / file) for file in ("manifest.json", "SHA256SUMS")):
        return Path(name).resolve()
    if isdir(name) and (known := numbers(Path(name))):
        return Path(name) / dotted(known[-1])
    root = outputs / "datasets"
    dataset, _, wanted = name.rstrip("/").partition("/")
    known = numbers(root / dataset) if dataset in {p.name for p in root.glob("*")} else []
    for number in reversed(known):
        if wanted in ("", "latest", dotted(number)):
            return root / dataset / dotted(number)
    what = f"version {wanted!r} of {dataset!r}" if wanted and known else f"dataset {name!r}"
    folders = sorted(root.glob("*"))
    found = [f"{path.name}/{dotted(number)}" for path in folders for number in numbers(path)]
    known_ones = f"There are: {', '.join(found)}." if found else "There is none yet."
    raise NothingFound(f"There is no {what} in {root}. {known_ones}")


def following(known: list[Number], parent: Version | None, made: JsonObject) -> Number:
    """The number of a version that is made of `parent`: free, and higher than the parent's. `made`:
    its manifest. Raises nothing: there is always a next number."""
    if parent is None:
        return (known[-1][0] + 1, 0, 0) if known else (1, 0, 0)
    major, minor, _ = numbered(Path(parent.number)) or (1, 0, 0)
    match change(parent.manifest, made):
        case "major":
            return known[-1][0] + 1, 0, 0
        case "minor":
            return major, 1 + max(n[1] for n in known if n[0] == major), 0
        case _:
            return major, minor, 1 + max(n[2] for n in known if n[:2] == (major, minor))


def change(before: JsonObject, after: JsonObject) -> str:
    """What kind of change lies between two manifests: major, minor or patch."""
    if before["layout"] != after["layout"] or before["plan"] != after["plan"]:
        return "major"
    for config in ("samples", "instructions"):
        old, new = (_hashes(manifest, config) for manifest in (before, after))
        for split in Split:
            # A test that comes anew disturbs nobody; one that changes or goes does.
            if split is not Split.TRAIN and split in old and old[split] != new.get(split):
                return "major"
    shown = ("samples", "instructions", "planning")
    same = all(_hashes(before, config) == _hashes(after, config) for config in shown)
    return "patch" if same else "minor"


def _hashes(manifest: JsonObject, config: str) -> dict[str, list[str]]:
    """The hashes of the rows of each split."""
    made = manifest["configs"].get(config, {})
    return {split: [f["sha256"] for f in told["files"].values()] for split, told in made.items()}


def check_home(version: Version, outputs: Path) -> None:
    """Raises PublishError for a version that is not where its next one will be."""
    home = outputs / "datasets" / version.name
    if version.path.resolve().parent != home.resolve():
        raise PublishError(
            f"{version.path}: is not in {home}, where its next version would be. Copy it there, "
            "or name the folder of outputs it is in with --outputs."
        )
