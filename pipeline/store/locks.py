"""Keeps two makers of one dataset's next version apart, on this machine and on others.

    <outputs>/datasets/<name>/.held    locked by who makes the dataset's next version

Apart from the `.lock` of publishing, which lasts for seconds and is waited for.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TextIO

from toolloom.llm.advisory import advisory_lock
from toolloom.llm.cache import address
from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.version import check_home, find_version
from toolloom.schemas import Busy, NothingFound

FILE = ".held"

# What the caller holds, so that a command may hold a dataset before it starts a flow that does.
_MINE: ContextVar[frozenset[Path]] = ContextVar("_MINE", default=frozenset())


def version_lock(
    outputs: Path, dataset: str, cache: str | None = None
) -> AbstractContextManager[None]:
    """`dataset_lock` for a dataset as people name it, to be held while a version is added to.

    One that has no version yet is not held: there is nothing to begin with. Raises PublishError
    for a version that is not at home in `outputs`.
    """
    try:
        found = find_version(outputs, dataset)
    except NothingFound:
        return nullcontext()
    check_home(found, outputs)  # before its name, which may be a stranger's, is used in a path
    return dataset_lock(outputs, found.name, address(outputs, cache))


@contextmanager
def dataset_lock(outputs: Path, name: str, cache: str | Path) -> Iterator[None]:
    """Hold a dataset for this process, from the plan of its next version until that is published.

    `cache`: the response cache. If that is a PostgreSQL database the dataset is held there too,
    by its name, so that machines that share the cache and no folder keep from each other. What
    holds it goes with the process, however that ends. Who holds it already goes on holding it.
    Raises Busy at once if another process, or another thread of this one, holds it.
    """
    path = (outputs / "datasets" / name / FILE).absolute()
    if path in _MINE.get():
        yield
        return
    with _held(path, name), advisory_lock(str(cache), f"dataset {name}"):
        _MINE.set(_MINE.get() | {path})
        try:
            yield
        finally:
            _MINE.set(_MINE.get() - {path})


@contextmanager
def _held(path: Path, name: str) -> Iterator[None]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")  # what another one wrote into it stays until it is ours
    except OSError as error:
        raise explain(path, error, "written") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(
                f"dataset {name}: another process{_who(file)} is at work on its next version "
                f"({path} is locked). Wait for it to end."
            ) from error
        except OSError as error:
            raise explain(path, error, "locked") from error
        _sign(file, json.dumps({"process": os.getpid(), "machine": platform.node()}))
        try:
            yield
        finally:
            _sign(file, "")


def _sign(file: TextIO, who: str) -> None:
    """Leave word of who holds it. On a full disk there is none, and it is held all the same."""
    with suppress(OSError):
        os.truncate(file.fileno(), 0)
        os.write(file.fileno(), who.encode())


def _who(file: TextIO) -> str:
    """Who says that it holds it, as far as that can be read."""
    try:
        file.seek(0)
        told = json.loads(file.read(1000))
        return f" ({told['process']:d} on {told['machine'][:80].encode('unicode_escape').decode()})"
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
