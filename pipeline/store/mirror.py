"""What files on the disk tell the store of: the mirrors that are open, by their folders.

A folder of outputs in a store is worked on in a local folder, its mirror; `outputs.opened` opens
it and notes it here. All code works with files on the disk and tells of them here: what is
written goes to the store (files.replacing), in the background while a run, pool or dataset is held
(locks.hold_folder), and what is looked for is fetched (`fetch`). For a folder of outputs that is a
plain folder all of it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from toolloom.schemas import StoreError


class RemoteFiles(Protocol):
    """The store that a mirror stands for."""

    url: str

    def remove(self, names: Sequence[str]) -> None: ...

    def seen(self, name: str) -> Any: ...


class OpenMirror(Protocol):
    """A local folder that stands for a folder of outputs in a store: outputs.Mirror."""

    @property
    def remote(self) -> RemoteFiles: ...

    def refresh(self) -> None: ...

    def fetch(self, name: str) -> None: ...

    def push(self, name: str) -> None: ...

    def clear(self, name: str) -> None: ...

    def holding(self, name: str) -> AbstractContextManager[None]: ...


MIRRORS: dict[Path, OpenMirror] = {}


def shown(path: Path) -> str:
    """How to name a path to people: the URL in the store, if it is in a mirror."""
    if found := _found(path):
        mirror, name = found
        return f"{mirror.remote.url}/{name}".rstrip("/")
    return str(path)


def fetch(path: Path) -> None:
    """Bring here what the store has of a run, a version or a file. Raises StoreError."""
    if found := _found(path):
        mirror, name = found
        mirror.fetch(name)


def push(path: Path) -> None:
    """Bring a file, or all files of a folder, to the store: soon, if its run, dataset or pool is
    held, else at once. Raises StoreError, also for what could not be brought before."""
    if found := _found(path):
        mirror, name = found
        mirror.push(name)


def cleared(folder: Path) -> None:
    """Remove from the store what was there of a folder that is gone here."""
    if found := _found(folder):
        mirror, name = found
        mirror.clear(name)


def remove(path: Path) -> None:
    """Remove a file, here and in the store. Raises StoreError."""
    path.unlink(missing_ok=True)
    if found := _found(path):
        mirror, name = found
        mirror.remote.remove([name])


def claim(version: Path) -> None:
    """Raises StoreError if the store has a version of this number already."""
    found = _found(version)
    if found and found[0].remote.seen(f"{found[1]}/manifest.json"):
        raise StoreError(
            f"{shown(version)}: was published by another machine meanwhile. Run the same command "
            "again: it makes the version that follows."
        )


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """While a folder is locked: fetch it before, push what is written, wait for that at the end."""
    found = _found(folder)
    if not found or found[1].count("/") != 1:
        yield
        return
    mirror, name = found
    with mirror.holding(name):
        yield


def _found(path: Path) -> tuple[OpenMirror, str] | None:
    """The mirror a path is in, and its name there."""
    for root, mirror in MIRRORS.items():
        if path.is_relative_to(root):
            return mirror, path.relative_to(root).as_posix().removeprefix(".")
    return None
