"""JSON lines on disk: whole files or none, read one line at a time."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import jsonlines
from pydantic import ValidationError

from toolloom.schemas import JsonObject, Record, StoreError

R = TypeVar("R", bound=Record)
FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def to_line(value: Any) -> bytes:
    return to_text(value).encode() + b"\n"


def record_line(record: Record) -> bytes:
    return to_line(record.model_dump(mode="json"))


def write_lines(path: Path, lines: Iterable[bytes]) -> tuple[int, str]:
    """Write lines to a file; their number and SHA-256."""
    count, hashed = 0, hashlib.sha256()
    with replacing(path) as file:
        for line in lines:
            file.write(line)
            hashed.update(line)
            count += 1
    return count, hashed.hexdigest()


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
        why = str(error.__cause__ or "not a JSON object")
        raise _malformed(path, error.lineno, why) from error


def read_records(path: Path, model: type[R]) -> Iterator[R]:
    """The records of a file. Raises StoreError with the line that does not fit."""
    for number, value in enumerate(read_objects(path), 1):
        try:
            yield model.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or model.__name__
            raise _malformed(path, number, f"{where}: {first['msg']}") from error


def _malformed(path: Path, number: int, why: str) -> StoreError:
    folder = path.parent.parent if path.parent.name == "shards" else path.parent
    return StoreError(
        f"{path}, line {number}: is damaged or from another version of toolloom ({why}). "
        f"Remove the folder {folder} and run the same command again; "
        "answers that are in the cache are not asked again."
    )


@contextmanager
def locked(folder: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a folder for this process; the system lets go when the process ends or dies.

    Waits for another process that holds it, or raises StoreError with the text `busy`.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise explain(folder, error, "written") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise StoreError(f"{folder}: {busy}") from error
        except OSError as error:
            raise explain(folder, error, "locked") from error
        yield
