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
from dataclasses import dataclass
from os.path import isfile
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.tables import read_rows
from toolloom.schemas import JsonObject, NothingFound, PublishError, Sample, Split, StoreError
from toolloom.schemas.base import first_error

LAYOUT = 2  # raised when files, columns or the manifest change so that older readers fail
PARTS = ("dialogue", "verdict", "flags", "provenance")  # of a Sample, in the config `samples`

_LABEL = re.compile(r"[a-z0-9][a-z0-9-]{0,63}/\d+\.\d+\.\d+")
_TABLE = re.compile(r"[a-z0-9_]+/[a-z0-9_]+-\d{5,}-of-\d{5,}\.parquet")

Number: TypeAlias = tuple[int, int, int]


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
        """The rows of a split, or of all splits, streamed; JSON columns are decoded.

        Raises StoreError.
        """
        for each in [split] if split else self.splits(config):
            for path in self.files(config, each):
                yield from read_rows(path)

    def samples(self, split: str | None = None) -> Iterator[Sample]:
        """The samples of a split, or of all splits, one at a time. Raises StoreError."""
        for row in self.rows("samples", split):
            try:
                sample = Sample.model_validate({key: self.parsed(row, key) for key in PARTS})
            except ValidationError as error:
                where = f"{self.path}: the row {row.get('id')}"
                raise StoreError(f"{where} is damaged ({first_error(error)}).") from error
            yield sample

    def told(self, key: str) -> Any:
        """What the manifest tells under a key. Raises StoreError if it tells nothing."""
        if key not in self.manifest:
            raise StoreError(f"{self.path / 'manifest.json'}: is damaged (no `{key}`).")
        return self.manifest[key]

    def parsed(self, row: JsonObject, name: str) -> Any:
        """The JSON in a text column. Raises StoreError."""
        try:
            return json.loads(row[name])
        except (KeyError, TypeError, ValueError) as error:
            where = f"{self.path}: the row {row.get('id')}"
            raise StoreError(f"{where} is damaged (no JSON in `{name}`).") from error

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
    except OSError as error:
        raise explain(where, error, "read") from error
    except ValueError as error:
        raise _damaged(where, str(error)) from error
    if not isinstance(manifest, dict):
        raise _damaged(where, "not a JSON object")
    layout = manifest.get("layout", 1)
    if layout != LAYOUT:
        age = "a newer" if isinstance(layout, int) and layout > LAYOUT else "an older"
        advice = "Update toolloom." if age == "a newer" else "Publish its run again."
        raise StoreError(
            f"{where}: was made by {age} toolloom (layout {layout}; this one reads {LAYOUT}). "
            f"{advice}"
        )
    if lacking := [key for key in ("name", "version", "configs", "content") if key not in manifest]:
        raise _damaged(where, f"no `{lacking[0]}`")
    if odd := [key for key in ("name", "version", "content") if type(manifest[key]) is not str]:
        raise _damaged(where, f"its `{odd[0]}` is no text")
    # Files are named by them, such as a report: a foreign manifest must not choose where they go.
    if not _LABEL.fullmatch(f"{manifest['name']}/{manifest['version']}"):
        raise _damaged(where, "its `name` or `version` is none that a dataset can have")
    configs = manifest["configs"]
    splits = configs.values() if isinstance(configs, dict) else [None]

    def names_files(sheet: Any) -> bool:
        """Whether files are named, all of them in the version: a manifest may be foreign."""
        files = sheet.get("files") if isinstance(sheet, dict) else None
        return isinstance(files, dict) and all(map(_TABLE.fullmatch, files))

    if not all(isinstance(each, dict) and all(map(names_files, each.values())) for each in splits):
        raise _damaged(where, "its `configs` do not name files by split")
    return Version(path, manifest)


def _damaged(where: Path, why: str) -> StoreError:
    return StoreError(
        f"{where}: is damaged ({why}). Bring the file back, or move the folder "
        f"{where.parent} out of its dataset."
    )


def numbered(path: Path) -> Number | None:
    """(1, 2, 0) of `1.2.0`; None of what is no version."""
    found = re.fullmatch(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", path.name)
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
    """The highest version of `name`, `name/1.2.0`, `name/latest`, or the one at a path.

    Raises NothingFound that lists what there is.
    """
    if isfile(Path(name) / "manifest.json"):  # and not a method, which raises at odd names
        return open_version(Path(name).resolve())
    root = outputs / "datasets"
    dataset, _, wanted = name.rstrip("/").partition("/")
    known = numbers(root / dataset) if dataset in {p.name for p in root.glob("*")} else []
    for number in reversed(known):
        if wanted in ("", "latest", dotted(number)):
            return open_version(root / dataset / dotted(number))
    what = f"version {wanted!r} of {dataset!r}" if wanted and known else f"dataset {name!r}"
    folders = sorted(root.glob("*"))
    found = [f"{path.name}/{dotted(number)}" for path in folders for number in numbers(path)]
    older = [f"{p.parent.parent.name}/{p.parent.name}" for p in root.glob("*/v*/manifest.json")]
    known_ones = f"There are: {', '.join(found)}." if found else "There is none yet."
    if older:
        known_ones += f" Of an older layout, to be published again: {', '.join(sorted(older))}."
    raise NothingFound(f"There is no {what} in {root}. {known_ones}")


def following(known: list[Number], parent: Version | None, made: JsonObject) -> Number:
    """The number of a version that is made of `parent`: free, and higher than the parent's.

    `made`: its manifest. Raises nothing: there is always a next number.
    """
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
