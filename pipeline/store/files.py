"""Files that are whole or not there, JSON lines read one at a time, and what is held alone.

A lock is one of the system on a file, gone with its process:

<outputs>/{runs,pools,datasets}/<name>/.lock   by who writes there; a dataset's for seconds
<outputs>/datasets/<name>/.held                by who makes its next version, for hours
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, TypeVar

import jsonlines
from pydantic import ValidationError
from pydantic_core import to_json

from toolloom.schemas import Busy, JsonObject, Record, StoreError, ToolloomError, first_error

R = TypeVar("R", bound=Record)
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

LOCK, HELD = ".lock", ".held"
MOMENT = 0.1  # seconds; who only looks whether something is held holds it for less
UNLOCKABLE = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}

# What the caller holds, so that a command may hold a dataset before it starts a flow that does.
_MINE: ContextVar[frozenset[Path]] = ContextVar("_MINE", default=frozenset())


def explain(path: Path, error: OSError, done: str) -> StoreError:
    """An error of the file system as one that says what to do."""
    why = error.strerror or str(error)
    if error.errno in FULL:
        advice = "Make room and run the same command again: nothing that was finished is lost."
    elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        advice = "Choose another folder with --outputs, or change its permissions."
    else:
        advice = "Choose another folder with --outputs, or mend this one."
    return StoreError(f"{path}: cannot be {done} ({why}). {advice}")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise explain(path, error, "written") from error
        raise


def to_text(value: Any) -> str:
    """Compact JSON. Text that UTF-8 cannot hold (lone surrogates) is escaped."""
    try:
        return to_json(value).decode()
    except ValueError:
        return json.dumps(value, separators=(",", ":"))


def to_line(value: Any) -> bytes:
    return to_text(value).encode() + b"\n"


def record_line(record: Record) -> bytes:
    return to_line(record.model_dump(mode="json"))


class WrittenLines:
    """Lines on their way into a file: their number and SHA-256."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hashed = hashlib.sha256()
        self.count = 0

    def write(self, line: bytes) -> None:
        self._file.write(line)
        self._hashed.update(line)
        self.count += 1

    @property
    def sha256(self) -> str:
        return self._hashed.hexdigest()


def write_lines(path: Path, lines: Iterable[bytes]) -> tuple[int, str]:
    """Write lines to a file; their number and SHA-256."""
    with replacing(path) as file:
        written = WrittenLines(file)
        for line in lines:
            written.write(line)
    return written.count, written.sha256


def file_text(path: Path, largest: int, error: type[ToolloomError]) -> str:
    """A file as text, by its byte order mark or as UTF-8. Raises `error`; `largest`: its bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path} is not a file. Name a JSON or YAML file.")
        if status.st_size > largest:
            raise error(
                f"{path} has {status.st_size:,} bytes; at most {largest:,} are read. Split it."
            )
        raw = path.read_bytes()
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise error(f"{path} cannot be read: {why}. Check its name and rights.") from problem
    coding = json.detect_encoding(raw)
    try:
        return raw.decode(coding)
    except UnicodeDecodeError as problem:
        raise error(
            f"{path} is no {coding.upper()} text: byte {problem.start} cannot be read. "
            "Save it as UTF-8."
        ) from problem


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, one at a time. Bytes, because str also ends lines at U+2028."""
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        raise explain(path, error, "read") from error


def read_objects(path: Path) -> Iterator[JsonObject]:
    """The JSON objects of a file. Raises StoreError with the line that is none."""
    try:
        # Its default reader, orjson where there is one, turns large integers into floats.
        yield from jsonlines.Reader(read_lines(path), loads=json.loads).iter(type=dict)
    except jsonlines.InvalidLineError as error:
        raise _malformed(path, error.lineno, str(error.__cause__ or "not a JSON object")) from error


def read_records(path: Path, model: type[R]) -> Iterator[R]:
    """The records of a file. Raises StoreError with the line that does not fit."""
    for number, value in enumerate(read_objects(path), 1):
        try:
            yield model.model_validate(value)
        except ValidationError as error:
            raise _malformed(path, number, first_error(error, model.__name__)) from error


class Stopped(Exception):
    """Nobody waits for the rows any more."""


@dataclass(frozen=True)
class Rows:
    """Records on the disk, as often as they are wanted, one in memory at a time."""

    path: Path
    count: int
    stop: Event = field(default_factory=Event)

    def __iter__(self) -> Iterator[bytes]:
        """Their lines. Raises Stopped once `stop` is set."""
        for line in read_lines(self.path) if self.count else ():
            self.check()
            yield line

    def check(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def objects(self) -> Iterator[tuple[bytes, JsonObject]]:
        """Their lines, and what these hold. Raises StoreError with a line that is no object."""
        if self.count:
            yield from zip(self, read_objects(self.path), strict=True)


def _malformed(path: Path, number: int, why: str) -> StoreError:
    folder = path.parent.parent if path.parent.name == "shards" else path.parent
    return StoreError(
        f"{path}, line {number}: is damaged or from another version of toolloom ({why}). "
        f"Remove the folder {folder} and run the same command again; "
        "answers that are in the cache are not asked again."
    )


@contextmanager
def hold(path: Path, busy: ToolloomError | None = None) -> Iterator[None]:
    """Hold a lock file, which is made and stays. Two threads of one process keep apart too.

    Waits for whoever holds it, or raises the error `busy`. Raises StoreError if the
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
        raise busy from error
    except OSError as error:
        done = "locked" if error.errno in UNLOCKABLE else "written"
        raise explain(path.parent, error, done) from error
    try:
        yield
    finally:
        lock.release()


def hold_folder(folder: Path, busy: str | None = None) -> AbstractContextManager[None]:
    """Hold a run, a pool or a dataset while it is written. Waits for another process that holds it,
    or raises StoreError with the text `busy`."""
    return hold(folder / LOCK, None if busy is None else StoreError(f"{folder}: {busy}"))


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

    busy = Busy(
        f"dataset {name}: another process is working on its next version ({path} is locked). "
        "Wait for it to end."
    )
    with hold(path, busy):
        _MINE.set(_MINE.get() | {path})
        try:
            yield
        finally:
            _MINE.set(_MINE.get() - {path})
