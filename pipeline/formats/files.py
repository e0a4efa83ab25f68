"""JSON and YAML files of any quality, as JSON values: nothing in them is built or executed."""

from __future__ import annotations

import codecs
import json
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import yaml

from toolloom.pipeline.formats.import_log import ImportLog, legible
from toolloom.schemas import ImportFailed, StoreError

LARGEST = 100_000_000  # bytes of a file
DEEPEST = 300  # nesting of a YAML file; Python's own limit holds for JSON
_SECOND_TRY = 2_000_000  # bytes up to which a slower, more tolerant parser is tried
_TOLD = 5  # repeated keys that are noted one by one
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)?\.[0-9]+|(?:0|[1-9][0-9]*)\.?)(?:[eE][-+]?[0-9]{1,2})?"
)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the UTF-16 mark
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def load(path: Path, ledger: ImportLog | None = None) -> Any:
    """The value of a JSON or YAML file. Dates and `yes` stay text, all keys are text.

    Aliases of YAML share one object, and may refer to what holds them. Raises ImportFailed.
    """
    text = _text(path)
    if ledger is not None:
        ledger.bytes += path.stat().st_size
    repeated: list[str] = []
    try:
        value = _parsed(text, path, repeated)
    except RecursionError as error:
        raise ImportFailed(f"{path} is nested too deeply to be an API description.") from error
    if ledger is not None:
        _note(repeated, path, ledger)
    return value


def _note(repeated: list[str], path: Path, ledger: ImportLog) -> None:
    for key in map(legible, repeated[:_TOLD]):
        ledger.note(f"{path.name}: the key {key} stands twice in one object; the last one counts.")
    if len(repeated) > _TOLD:
        ledger.note(f"{path.name}: so do {len(repeated) - _TOLD} more keys.")


def _text(path: Path) -> str:
    """The file as text, by its byte order mark or as UTF-8."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ImportFailed(f"{path} is not a file. Name a JSON or YAML file.")
        if found.st_size > LARGEST:
            raise ImportFailed(
                f"{path} has {found.st_size:,} bytes; at most {LARGEST:,} are read. Split it."
            )
        with path.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ImportFailed(f"{path} cannot be read: {why}. Check its name and rights.") from error
    coding = next((name for mark, name in _MARKS if raw.startswith(mark)), "utf-8")
    try:
        return raw.decode(coding)
    except UnicodeDecodeError as error:
        raise ImportFailed(
            f"{path} is no {coding.upper()} text: byte {error.start} cannot be read. "
            "Save it as UTF-8."
        ) from error


def _parsed(text: str, path: Path, repeated: list[str]) -> Any:
    if text[:200].lstrip()[:1] not in ("{", "["):
        return _yaml(text, path, repeated)
    try:
        return _json(text, repeated)
    except ValueError as error:
        if len(text) <= _SECOND_TRY:  # YAML allows comments and a last comma
            try:
                return _yaml(text, path, repeated)
            except ImportFailed:
                pass
        raise ImportFailed(_told(path, error, len(text))) from error


def _told(path: Path, error: ValueError, size: int) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return f"{path} is no JSON that can be read: {error}."
    where = f"line {error.lineno}, column {error.colno}"
    cut = " It ends too early: get the whole file." if error.pos >= size - 1 else ""
    return f"{path} is no JSON: {error.msg} at {where}.{cut}"


def _json(text: str, repeated: list[str]) -> Any:
    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            times = Counter(key for key, _ in pairs)
            repeated.extend(f"`{key[:80]}`" for key, number in times.items() if number > 1)
        return found

    return json.loads(text, object_pairs_hook=gather, parse_constant=str)


def _yaml(text: str, path: Path, repeated: list[str]) -> Any:
    try:
        return _built(yaml.parse(text, Loader=yaml.CSafeLoader), path, repeated)
    except yaml.YAMLError as error:
        if "\t" in text and len(text) <= _SECOND_TRY:  # the C parser refuses more tabs than needed
            try:
                return _built(yaml.parse(text, Loader=yaml.SafeLoader), path, repeated)
            except yaml.YAMLError:
                pass
        raise ImportFailed(f"{path} is no YAML: {_where(error)}.") from error
    except ValueError as error:
        raise ImportFailed(f"{path} is no YAML that can be read: {error}.") from error


def _where(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        return " ".join(str(error).split())[:200]
    return f"{problem} at line {mark.line + 1}, column {mark.column + 1}"


def _line_of(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Merge:
    """The key `<<`, whose value's entries are taken over."""


def _built(events: Iterable[Any], path: Path, repeated: list[str]) -> Any:
    """The first document of a stream of events, without recursion."""
    anchors: dict[str, Any] = {}
    stack: list[_OpenNode] = []
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise ImportFailed(f"{path}: no anchor `{event.anchor}` (line {_line_of(event)}).")
            value = anchors[event.anchor]
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            if len(stack) >= DEEPEST:
                raise RecursionError
            mapping = isinstance(event, yaml.MappingStartEvent)
            stack.append(_OpenNode({} if mapping else [], _line_of(event)))
            if event.anchor:
                anchors[event.anchor] = stack[-1].value
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            value = stack.pop().finished()
        elif isinstance(event, yaml.DocumentEndEvent):
            break
        else:
            continue
        if isinstance(event, yaml.ScalarEvent) and event.anchor:
            anchors[event.anchor] = value
        if not stack:
            return _plain_key(value) if isinstance(value, _Merge) else value
        stack[-1].add(value, repeated)
    return None


class _OpenNode:
    """A mapping or sequence whose end has not come."""

    _NO_KEY: Any = object()

    def __init__(self, value: Any, line: int) -> None:
        self.value = value
        self.line = line
        self._key: Any = self._NO_KEY
        self._merged: list[Any] = []

    def add(self, value: Any, repeated: list[str]) -> None:
        if isinstance(self.value, list):
            self.value.append("<<" if isinstance(value, _Merge) else value)
        elif self._key is self._NO_KEY:
            self._key = value
        else:
            key, self._key = self._key, self._NO_KEY
            value = "<<" if isinstance(value, _Merge) else value
            if isinstance(key, _Merge):
                self._merged.append(value)
                return
            name = _plain_key(key)
            if name in self.value:
                repeated.append(f"`{name[:80]}` (in the object at line {self.line})")
            self.value[name] = value

    def finished(self) -> Any:
        """What is merged fills the gaps: the mapping's own entries win, and earlier ones."""
        for merged in self._merged:
            for part in merged if isinstance(merged, list) else [merged]:
                if isinstance(part, dict) and part is not self.value:
                    for key, value in part.items():
                        self.value.setdefault(key, value)
        return self.value


def _plain_key(key: Any) -> str:
    """`200: …` and `true: …` have keys that are text in JSON."""
    if isinstance(key, str):
        return key
    if isinstance(key, _Merge):
        return "<<"
    return json.dumps(key) if isinstance(key, bool | int | float | None) else "?"


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style or (event.tag or "").endswith(":str"):
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text == "<<":
        return _Merge()
    if text[0] in "+-.0123456789":
        if _INTEGER.fullmatch(text):
            return int(text)
        if len(text) < 40 and _FLOAT.fullmatch(text):
            return float(text)
    return text


def documents(folder: Path) -> Iterator[Path]:
    """JSON and YAML files directly in a folder, by name."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in {".json", ".yaml", ".yml"} and path.is_file():
            yield path


LONGEST_LINE = 16 * 1024 * 1024
UNREAD: Final = object()  # stands for a document nobody has loaded yet


def rows(path: Path, ledger: ImportLog, document: Any = UNREAD) -> Iterator[tuple[str, Any]]:
    """(place, value) of each record. A line that cannot be read is booked as skipped.

    `document`: what the file holds, if it was loaded before. Raises ImportFailed.
    """
    if document is not UNREAD:
        yield path.name, document
    elif in_lines(path):
        yield from _ledger_lines(path, ledger)
    else:
        yield path.name, load(path, ledger)


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


def _ledger_lines(path: Path, ledger: ImportLog) -> Iterator[tuple[str, Any]]:
    try:
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(LONGEST_LINE):
                number += 1
                ledger.bytes += len(raw)
                place = f"{path.name}:{number}"
                if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                    _book(place, f"The line has more than {LONGEST_LINE:,} bytes.", ledger)
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(LONGEST_LINE)
                elif raw.strip():
                    yield from _ledger_line(raw, place, ledger)
    except OSError as error:
        raise ImportFailed(
            f"{path.name} cannot be read: {error.strerror}. Check the path and its rights."
        ) from error


def _ledger_line(raw: bytes, place: str, ledger: ImportLog) -> Iterator[tuple[str, Any]]:
    try:
        yield place, json.loads(raw, parse_constant=str)
    except (ValueError, RecursionError):
        _book(place, "The line is no JSON.", ledger)


def _book(place: str, why: str, ledger: ImportLog) -> None:
    ledger.read += 1
    ledger.skip(place, why)


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


def foreign_rows(path: Path) -> Iterator[ForeignRow]:
    """Every row of a file or of the files of a folder. Raises StoreError."""
    for file in files(path):
        yield from _file_rows(file)


def _file_rows(path: Path) -> Iterator[ForeignRow]:
    try:
        if path.suffix.lower() == ".parquet":
            yield from _parquet(path)
            return
        _refuse_binary(path)
        if in_lines(path):
            with path.open("rb") as file:
                yield from _foreign_lines(file, path.name)
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


def _foreign_lines(file: IO[bytes], name: str) -> Iterator[ForeignRow]:
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
            yield _foreign_line(line, place)


def _foreign_line(line: bytes, place: str) -> ForeignRow:
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
