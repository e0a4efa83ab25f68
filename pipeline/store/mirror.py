"""What files on the disk tell the store of: the mirrors that are open, by their folders.

A folder of outputs in a store is worked on in a local folder, its mirror; `outputs.opened` opens
it and notes it here. All code works with files on the disk and tells of them here: what is
written goes to the store (files.replacing), in the background while a run, pool or dataset is held
(locks.hold_folder), and what is looked for is fetched (`fetch`). For a folder of outputs that is a
plain folder all of it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
    mirror, name = _found(path)
    return f"{mirror.remote.url}/{name}".rstrip("/") if mirror else str(path)


def fetch(path: Path) -> None:
    """Bring here what the store has of a run, a version or a file. Raises StoreError."""
    mirror, name = _found(path)
    if mirror:
        mirror.fetch(name)


def push(path: Path) -> None:
    """Bring a file, or all files of a folder, to the store: soon, if its run, dataset or pool is
    held, else at once. Raises StoreError, also for what could not be brought before."""
    mirror, name = _found(path)
    if mirror:
        mirror.push(name)


def cleared(folder: Path) -> None:
    """Remove from the store what was there of a folder that is gone here."""
    mirror, name = _found(folder)
    if mirror:
        mirror.clear(name)


def remove(path: Path) -> None:
    """Remove a file, here and in the store. Raises StoreError."""
    path.unlink(missing_ok=True)
    mirror, name = _found(path)
    if mirror:
        mirror.remote.remove([name])


def claim(version: Path) -> None:
    """Raises StoreError if the store has a version of this number already."""
    mirror, name = _found(version)
    if mirror and mirror.remote.seen(f"{name}/manifest.json"):
        raise StoreError(
            f"{shown(version)}: was published by another machine meanwhile. Run the same command "
            "again: it makes the version that follows."
        )


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """While a folder is locked: fetch it before, push what is written, wait for that at the end."""
    mirror, name = _found(folder)
    with mirror.holding(name) if mirror and name.count("/") == 1 else nullcontext():
        yield


def _found(path: Path) -> tuple[OpenMirror | None, str]:
    """The mirror a path is in, if it is in one, and its name there."""
    for root, mirror in MIRRORS.items():
        if path.is_relative_to(root):
            return mirror, path.relative_to(root).as_posix().removeprefix(".")
    return None, ""
