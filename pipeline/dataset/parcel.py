"""The files of a version as they go to the Hub: compared with their hashes, and followed."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, StoreError

SUMS = "SHA256SUMS"


class FileReader(io.BufferedReader):
    """A file that knows how much of it was read."""

    done = 0

    def read(self, size: int | None = -1, /) -> bytes:
        got = super().read(size)
        self.done = max(self.done, self.tell())
        return got


@dataclass(frozen=True)
class PushedFile:
    """A file of the version, which has the hash that the manifest says."""

    name: str  # its path in the version and in the repository
    reader: FileReader
    size: int
    sha256: str

    def git_id(self) -> str:
        """The id git gives to a file that is not in LFS."""
        content = self.reader.read()
        self.reader.seek(0)
        head = b"blob %d\0" % len(content)
        return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


@dataclass
class Load:
    """What is under way, for whoever watches."""

    files: list[PushedFile] = field(default_factory=list)

    def begin(self, files: list[PushedFile]) -> None:
        for file in files:
            file.reader.done = 0  # it was read for its hash
        self.files = files

    @property
    def sent(self) -> int:
        return sum(file.reader.done == file.size for file in self.files)

    @property
    def sent_bytes(self) -> int:
        return sum(file.reader.done for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


def read_files(version: Version, opened: ExitStack) -> Iterator[PushedFile]:
    """The version's files, open, each compared with its hash. Raises StoreError."""
    known = _hashes(version)
    there = {p.relative_to(version.path).as_posix(): p for p in _walk(version.path)}
    for name in sorted(known.keys() | there.keys()):
        if name not in there:
            raise _damaged(version, name, "is not there")
        if name not in known:
            raise _damaged(version, name, "is no file of this version")
        try:
            reader = opened.enter_context(FileReader(io.FileIO(there[name])))
            sha256 = hashlib.file_digest(reader, "sha256").hexdigest()
            size = reader.tell()
            reader.seek(0)
        except OSError as error:
            raise explain(there[name], error, "read") from error
        if known[name] not in ("", sha256):
            raise _damaged(version, name, "has another SHA-256")
        yield PushedFile(name, reader, size, sha256)


def _walk(folder: Path) -> Iterator[Path]:
    """All files of a folder. A link is none: it could lead anywhere."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise StoreError(f"{path}: is no plain file. Remove it; nothing was pushed.")
        if path.is_file():
            yield path


def _hashes(version: Version) -> dict[str, str]:
    """The SHA-256 of each file, as manifest and sums say; "" of the sums themselves."""
    try:
        known = _of_manifest(version.manifest)
        lines = (version.path / SUMS).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise explain(version.path / SUMS, error, "read") from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(version, "manifest.json", f"or {SUMS} cannot be read") from error
    for sha256, _, name in (line.partition("  ") for line in lines):
        if known.setdefault(name, sha256) != sha256:
            raise _damaged(version, name, f"has one SHA-256 in manifest.json, another in {SUMS}")
    return {**known, SUMS: ""}


def _of_manifest(manifest: JsonObject) -> dict[str, str]:
    made = [split for config in manifest["configs"].values() for split in config.values()]
    tables = {name: file["sha256"] for split in made for name, file in split["files"].items()}
    return {**tables, **manifest["files"]}


def _damaged(version: Version, name: str, why: str) -> StoreError:
    return StoreError(
        f"{version.path / name}: {why}; {version.label} is damaged, and nothing was pushed. "
        "Bring the file back, or publish the dataset again."
    )
