"""Documents and rows of any quality, as JSON values: nothing in them is built or executed.

`load` reads one JSON or YAML document, `rows` that or a JSON value a line, booked in a ledger.
`foreign_rows` reads rows of JSON, JSON lines, Parquet or a folder of them, one at a time whatever
the size: a row that cannot be read is a row with a fault, and so is what is left unread after it.
JSON lines go on with the next one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import yaml

from toolloom.pipeline.formats.import_log import ImportLog, legible
from toolloom.pipeline.store.files import file_text
from toolloom.schemas import ImportFailed, StoreError, absent
from toolloom.schemas.yaml_reader import UnreadableYaml, read_yaml

LARGEST = 100_000_000  # bytes of a file
LONGEST_LINE = 16 * 1024 * 1024
DEEPEST = 300  # nesting of a YAML file; Python's own limit holds for JSON
MOST = 3_000_000  # values of a YAML file, those included that aliases repeat: ten seconds
UNREAD: Final = object()  # stands for a document nobody has loaded yet
_SECOND_TRY = 2_000_000  # letters up to which a slower, more tolerant parser is tried
_NAMED = 5  # repeated keys that are named


def load(path: Path, ledger: ImportLog | None = None) -> Any:
    """The value of a JSON or YAML file. Dates and `yes` stay text, all keys are text.

    Aliases of YAML share one object. Raises ImportFailed.
    """
    text = file_text(path, LARGEST, ImportFailed)
    repeated: list[str] = []
    try:
        is_json = text[:200].lstrip()[:1] in ("{", "[")
        value = (_json if is_json else _yaml)(text, path, repeated)
    except RecursionError as error:
        raise ImportFailed(f"{path} is nested too deeply to be an API description.") from error
    if ledger is not None:
        ledger.bytes += path.stat().st_size
        for key in repeated[:_NAMED]:
            told = f"the key `{legible(key[:80])}` stands twice in one object; the last one counts."
            ledger.note(f"{path.name}: {told}")
        if len(repeated) > _NAMED:
            ledger.note(f"{path.name}: so do {len(repeated) - _NAMED} more keys.")
    return value


def _json(text: str, path: Path, repeated: list[str]) -> Any:
    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            times = Counter(key for key, _ in pairs)
            repeated.extend(key for key, number in times.items() if number > 1)
        return entries

    try:
        return json.loads(text, object_pairs_hook=gather, parse_constant=str)
    except ValueError as error:
        if len(text) <= _SECOND_TRY:  # YAML allows comments and a last comma
            with suppress(ImportFailed):
                return _yaml(text, path, repeated)
        if not isinstance(error, json.JSONDecodeError):
            raise ImportFailed(f"{path} is not JSON that can be read: {error}.") from error
        where = f"line {error.lineno}, column {error.colno}"
        cut = " It ends too early: get the whole file." if error.pos >= len(text) - 1 else ""
        raise ImportFailed(f"{path} is not JSON: {error.msg} at {where}.{cut}") from error


def _yaml(text: str, path: Path, repeated: list[str]) -> Any:
    read = partial(read_yaml, deepest=DEEPEST, most=MOST, located=False)
    try:
        found = read(text)
    except UnreadableYaml as error:
        if "\t" not in text or len(text) > _SECOND_TRY:
            raise ImportFailed(f"{path}: {error}") from error
        try:  # the C parser refuses more tabs than needed
            found = read(text, loader=yaml.SafeLoader)
        except UnreadableYaml:
            raise ImportFailed(f"{path}: {error}") from error
    repeated += [str(place[-1]) for place in found.repeated]
    return found.value


def rows(path: Path, ledger: ImportLog, document: Any = UNREAD) -> Iterator[tuple[str, Any]]:
    """(place, value) of each record. A line that cannot be read is booked as skipped.

    `document`: what the file holds, if it was loaded before. Raises ImportFailed.
    """
    if document is not UNREAD or not in_lines(path):
        yield path.name, load(path, ledger) if document is UNREAD else document
        return
    try:
        for number, raw, value, fault in _json_lines(path, parse_constant=str):
            ledger.bytes += len(raw)
            if fault:
                ledger.refuse(f"{path.name}:{number}", f"The line is {fault}.")
            else:
                yield f"{path.name}:{number}", value
    except OSError as error:
        raise ImportFailed(
            f"{path.name} cannot be read: {error.strerror}. Check the path and its rights."
        ) from error


def _json_lines(path: Path, **options: Any) -> Iterator[tuple[int, bytes, Any, str]]:
    """(number, line, value, fault) of each line that is not blank.

    Of one that is too long only the beginning is held; its rest is passed over.
    """
    with path.open("rb") as file:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            value, fault = None, ""
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                fault = f"longer than {LONGEST_LINE:,} bytes"
            elif not line.strip():
                continue
            else:
                try:
                    value = json.loads(line, **options)
                except (ValueError, RecursionError) as error:
                    fault = f"not JSON: {_why(error)}"
            yield number, line, value, fault
            while fault.startswith("longer") and line and not line.endswith(b"\n"):
                line = file.readline(LONGEST_LINE)


def in_lines(path: Path) -> bool:
    """Whether it is named so, or its first line is a whole JSON object or list and one follows."""
    if path.suffix.lower() in {".jsonl", ".ndjson"}:
        return True
    try:
        with path.open("rb") as file:
            first = file.readline(LONGEST_LINE).strip()
            while not first and file.peek(1):
                first = file.readline(LONGEST_LINE).strip()
            if not first.startswith((b"{", b"[")) or not file.readline(LONGEST_LINE).strip():
                return False
        json.loads(first)
    except (OSError, ValueError, RecursionError):
        return False
    return True


ENDINGS = (".json", ".jsonl", ".ndjson", ".parquet")
_CHUNK = 1 << 20
_BATCH = 64  # rows of a Parquet file that are held at a time
_SHOWN = 200  # letters that are kept of a row that cannot be read


class ForeignRow(NamedTuple):
    """One row as it stands in its file. `fault`: why it has no value; `raw` is how it begins."""

    place: str
    value: Any = None
    fault: str = ""
    raw: str = ""


def files(path: Path, endings: tuple[str, ...] = ENDINGS) -> list[Path]:
    """The file itself, or the files of a folder and its folders, in order. Raises StoreError."""
    if not path.exists():
        raise StoreError(f"{absent(path)}. Name a file of rows, or a folder of such files.")
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.suffix.lower() in endings and p.is_file())
    if not found:
        raise StoreError(f"{path} holds no file that ends in {', '.join(endings)}.")
    return found


def foreign_rows(path: Path) -> Iterator[ForeignRow]:
    """Every row of a file or of the files of a folder. Raises StoreError."""
    for file in files(path):
        try:
            yield from _parquet(file) if file.suffix.lower() == ".parquet" else _texts(file)
        except OSError as error:
            why = error.strerror or str(error)
            raise StoreError(
                f"{file} cannot be read: {why}. Check the path and its rights."
            ) from error


def _texts(path: Path) -> Iterator[ForeignRow]:
    with path.open("rb") as file:
        start = file.read(4096)
    if not start.strip():
        raise StoreError(f"{path} is empty: there are no rows to audit.")
    if start.startswith(b"PAR1"):
        raise StoreError(f"{path} is a Parquet file. Give it the ending `.parquet`.")
    if b"\0" in start or start.startswith((b"\x1f\x8b", b"PK\x03\x04", b"BZh", b"\x28\xb5\x2f")):
        hint = "Unpack it first if it is an archive."
        raise StoreError(f"{path} is not text, so it is neither JSON nor JSON lines. {hint}")
    if not in_lines(path):
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as text:
            yield from _values(text, path.name)
        return
    for number, line, value, fault in _json_lines(path):
        begins = line[:_SHOWN].decode("utf-8", "replace").rstrip("\n") if fault else ""
        yield ForeignRow(f"{path.name}, row {number}", value, fault, begins)


def _why(error: Exception, start: int = 0) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos - start:,}"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _values(file: IO[str], name: str) -> Iterator[ForeignRow]:
    """The items of one JSON list, or JSON values one after the other, read in pieces."""
    decoder = json.JSONDecoder()
    text, at, number = file.read(_CHUNK).lstrip(), 0, 0
    listed = text.startswith("[")
    at = 1 if listed else 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at >= len(text) - 1 and (more := file.read(_CHUNK)):
            text, at = text[at:] + more, 0
            continue
        if at >= len(text):
            if listed:
                yield ForeignRow(f"{name}, row {number + 1}", fault="not JSON: the list has no end")
            return
        if listed and text[at] == "]":
            if rest := (text[at + 1 :] + file.read(_CHUNK)).strip():
                after = "not JSON: what follows the end of the list is left unread"
                yield ForeignRow(f"{name}, row {number + 1}", fault=after, raw=rest[:_SHOWN])
            return
        try:
            value, end = decoder.raw_decode(text, at)
            whole = end < len(text)
        except (ValueError, RecursionError) as error:
            value, end, whole, fault = None, at, False, _why(error, at)
        if (
            not whole
            and len(text) - at < LONGEST_LINE
            and (more := file.read(max(_CHUNK, len(text) - at)))
        ):
            text, at = text[at:] + more, 0
            continue
        number += 1
        if end == at:
            where = f"not JSON: {fault}; the file from here is left unread"
            yield ForeignRow(f"{name}, row {number}", fault=where, raw=text[at : at + _SHOWN])
            return
        yield ForeignRow(f"{name}, row {number}", value)
        at = end


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
