"""Holding something alone: a lock of the system on a file, gone with its process.

<outputs>/{runs,pools,datasets}/<name>/.lock   by who writes there; a dataset's for seconds
<outputs>/datasets/<name>/.held                by who makes its next version, for hours
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

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

    # What filelock would fall back on where files cannot be locked outlives its process.
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


@contextmanager
def hold_folder(folder: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a run, a pool or a dataset while it is written. Waits for another process that holds it,
    or raises StoreError with the text `busy`."""
    refuse = None if busy is None else lambda: StoreError(f"{folder}: {busy}")
    with hold(folder / LOCK, refuse):
        yield


@contextmanager
def hold_dataset(outputs: Path, name: str) -> Iterator[None]:
    """Hold a dataset for this process, from the plan of its next version until that is published.

    Who holds it already goes on holding it. Raises Busy at once if another process, or another
    thread of this one, holds it.
    """
    path = (outputs / "datasets" / name / HELD).absolute()
    if path in _MINE.get():
        yield
        return

    def busy() -> Busy:
        return Busy(
            f"dataset {name}: another process is working on its next version ({path} is locked). "
            "Wait for it to end."
        )

    with hold(path, busy):
        _MINE.set(_MINE.get() | {path})
        try:
            yield
        finally:
            _MINE.set(_MINE.get() - {path})
