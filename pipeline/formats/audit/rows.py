"""The rows of a file that others made: JSON, JSON lines, Parquet, or a folder of such files.

One row at a time, whatever the file's size. A row that cannot be read is a row with a fault:
the file goes on after it. Only a file of which nothing can be read is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from toolloom.pipeline.formats.importers.rows import LONGEST_LINE, in_lines
from toolloom.schemas.errors import StoreError

ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
_CHUNK = 1 << 20
_BATCH = 64  # rows of a Parquet file that are held at a time
_SHOWN = 200  # letters that are kept of a row that cannot be read


@dataclass(frozen=True)
class ForeignRow:
    """One row as it stands in its file. `fault`: why it has no value; `raw` is how it begins."""

    place: str
    value: Any = None
    fault: str = ""
    raw: str = ""


def files(path: Path, endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """The file itself, or the files of a folder and its folders, in order. Raises StoreError."""
    if not path.exists():
        raise StoreError(f"{path} does not exist. Name a file of rows, or a folder of such files.")
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() in endings and p.is_file())
    if not found:
        raise StoreError(f"{path} holds no file that ends in {', '.join(endings)}.")
    return found


def rows(path: Path) -> Iterator[ForeignRow]:
    """Every row of a file or of the files of a folder. Raises StoreError."""
    for file in files(path):
        yield from _rows(file)


def _rows(path: Path) -> Iterator[ForeignRow]:
    try:
        if path.suffix.lower() == ".parquet":
            yield from _parquet(path)
            return
        _refuse_binary(path)
        if in_lines(path):
            with path.open("rb") as file:
                yield from _lines(file, path.name)
        else:
            with path.open(encoding="utf-8-sig", errors="surrogateescape") as text:
                yield from _values(text, path.name)
    except OSError as error:
        why = error.strerror or str(error)
        raise StoreError(f"{path} cannot be read: {why}. Check the path and its rights.") from error


def _refuse_binary(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise StoreError(f"{path} is empty: there are no rows to audit.")
    if start.startswith(b"PAR1"):
        raise StoreError(f"{path} is a Parquet file. Give it the ending `.parquet`.")
    if b"\0" in start or start.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\x28\xb5\x2f")):
        hint = "Unpack it first if it is an archive."
        raise StoreError(f"{path} is no text, so it is neither JSON nor JSON lines. {hint}")


def _lines(file: IO[bytes], name: str) -> Iterator[ForeignRow]:
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        place = f"{name}, row {number}"
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            begins = line[:_SHOWN].decode("utf-8", "replace")
            yield ForeignRow(place, fault=f"the line has over {LONGEST_LINE:,} bytes", raw=begins)
            while line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)
        elif line.strip():
            yield _line(line, place)


def _line(line: bytes, place: str) -> ForeignRow:
    try:
        return ForeignRow(place, json.loads(line))
    except (ValueError, RecursionError) as error:
        begins = line[:_SHOWN].decode("utf-8", "replace").rstrip("\n")
        return ForeignRow(place, fault=f"no JSON: {_why(error)}", raw=begins)


def _why(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos:,}"
    return "nested too deeply" if isinstance(error, RecursionError) else "not UTF-8"


def _values(file: IO[str], name: str) -> Iterator[ForeignRow]:
    """The items of one JSON list, or JSON values one after the other, read in pieces."""
    decoder = json.JSONDecoder()
    text, at, number = file.read(_CHUNK).lstrip(), 0, 0
    listed = text.startswith("[")
    at = 1 if listed else 0
    while True:
        at = _gap(text, at)
        if at >= len(text) - 1 and (more := file.read(_CHUNK)):
            text, at = text[at:] + more, 0
            continue
        if at >= len(text) or text[at] == "]":
            if listed and at >= len(text):
                yield ForeignRow(f"{name}, row {number + 1}", fault="no JSON: the list has no end")
            return
        try:
            value, end = decoder.raw_decode(text, at)
            whole = end < len(text)
        except (ValueError, RecursionError) as error:
            value, end, whole, fault = None, at, False, _why(error)
        if (
            not whole
            and len(text) - at < LONGEST_LINE
            and (more := file.read(max(_CHUNK, len(text) - at)))
        ):
            text, at = text[at:] + more, 0
            continue
        number += 1
        if end == at:
            where = f"no JSON: {fault} of the file's rest, which is left unread"
            yield ForeignRow(f"{name}, row {number}", fault=where, raw=text[at : at + _SHOWN])
            return
        yield ForeignRow(f"{name}, row {number}", value)
        at = end


def _gap(text: str, at: int) -> int:
    """The place of the next value: space and one comma are passed over."""
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _parquet(path: Path) -> Iterator[ForeignRow]:
    import pyarrow.parquet as pq
    from pyarrow import ArrowException

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                for value in batch.to_pylist():
                    number += 1
                    yield ForeignRow(f"{path.name}, row {number}", value)
    except (ArrowException, ValueError) as error:
        why = str(error).splitlines()[0][:200]
        raise StoreError(
            f"{path} cannot be read as Parquet after row {number}: {why}. Download it again."
        ) from error
