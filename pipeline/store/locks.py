"""Holding something alone. What is held goes with its process, however that ends.

    <outputs>/{runs,pools,datasets}/<name>/.lock   by who writes there; a dataset's for seconds
    <outputs>/datasets/<name>/.held                by who makes its next version, for hours

Everything that is held is held by `hold`, a lock on a file. A dataset is held in the database of
the response cache as well, if that is PostgreSQL: machines may share it and no folder.
"""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.files import explain
from toolloom.schemas import Busy, StoreError, ToolloomError

LOCK, HELD = ".lock", ".held"
MOMENT = 0.1  # seconds; who only looks whether something is held holds it for less
UNLOCKABLE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

# What the caller holds, so that a command may hold a dataset before it starts a flow that does.
_MINE: ContextVar[frozenset[Path]] = ContextVar("_MINE", default=frozenset())


@contextmanager
def hold(path: Path, busy: Callable[[], ToolloomError] | None = None) -> Iterator[None]:
    """Hold a lock file, which is made and stays. Two threads of one process keep apart too.

    Waits for whoever holds it, or raises the error that `busy` makes. Raises StoreError if the
    file cannot be written or locked.
    """
    from filelock import FileLock, Timeout

    # A run lets go in another thread than it took hold in. What filelock would fall back on where
    # files cannot be locked outlives its process.
    lock = FileLock(path, thread_local=False, fallback_to_soft=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=-1 if busy is None else MOMENT)
    except Timeout as error:
        assert busy
        raise busy() from error
    except OSError as error:
        done = "locked" if error.errno in UNLOCKABLE else "written"
        raise explain(path.parent, error, done) from error
    try:
        yield
    finally:
        lock.release()


def is_held(path: Path) -> bool:
    """Whether somebody holds a lock file, this process or another."""
    from filelock import FileLock, Timeout

    if not path.exists():
        return False
    try:
        with FileLock(path, blocking=False, fallback_to_soft=False):
            return False
    except Timeout:
        return True


@contextmanager
def hold_folder(folder: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a run, a pool or a dataset while it is written; its mirror, if it has one, is brought up
    to date. Waits for another process that holds it, or raises StoreError with the text `busy`."""
    refuse = None if busy is None else lambda: StoreError(f"{folder}: {busy}")
    with hold(folder / LOCK, refuse), mirror.holding(folder):
        yield


@contextmanager
def hold_dataset(outputs: Path, name: str, cache: str | Path) -> Iterator[None]:
    """Hold a dataset for this process, from the plan of its next version until that is published.

    `cache`: the response cache. If that is a PostgreSQL database the dataset is held there too,
    by its name, so that machines that share the cache and no folder keep from each other. Who
    holds it already goes on holding it. Raises Busy at once if another process, or another thread
    of this one, holds it.
    """
    from toolloom.llm.database import hold_in_database

    path = (outputs / "datasets" / name / HELD).absolute()
    if path in _MINE.get():
        yield
        return

    def busy() -> Busy:
        return Busy(
            f"dataset {name}: another process{_holder(path)} is at work on its next version "
            f"({path} is locked). Wait for it to end."
        )

    holder = json.dumps({"process": os.getpid(), "machine": platform.node()})
    with hold(path, busy), hold_in_database(str(cache), f"dataset {name}"):
        with suppress(OSError):  # on a full disk nobody is told, and it is held all the same
            path.write_text(holder, encoding="utf-8")
        _MINE.set(_MINE.get() | {path})
        try:
            yield
        finally:
            _MINE.set(_MINE.get() - {path})
            with suppress(OSError):
                path.write_text("", encoding="utf-8")


def _holder(path: Path) -> str:
    """Who says that it holds it, as far as that can be read."""
    try:
        with path.open(encoding="utf-8") as file:
            holder = json.loads(file.read(1000))
        machine = holder["machine"][:80].encode("unicode_escape").decode()
        return f" ({holder['process']:d} on {machine})"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
