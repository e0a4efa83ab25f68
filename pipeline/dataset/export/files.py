"""Files that are being written: each appears whole, under its name, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

from toolloom.pipeline.formats.base import Column, ExportFile
from toolloom.pipeline.store.files import replacing, to_line, to_text
from toolloom.pipeline.store.locks import LOCK, hold
from toolloom.schemas import JsonObject, StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_IN_GROUP = 200  # what is in memory


class Sink(Protocol):
    """Takes rows, and what is left to write when there are no more."""

    def write(self, row: JsonObject) -> None: ...

    def close(self) -> None: ...


class ExportLines:
    """JSON, a row a line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, row: JsonObject) -> None:
        self._file.write(to_line(row))

    def close(self) -> None:
        pass


class Array:
    """One JSON array, a row a line."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._before = file, b"[\n"

    def write(self, row: JsonObject) -> None:
        self._file.write(self._before + to_text(row).encode())
        self._before = b",\n"

    def close(self) -> None:
        self._file.write(b"\n]\n" if self._before == b",\n" else b"[]\n")


class ExportTable:
    """Parquet, in groups of rows."""

    def __init__(self, file: BinaryIO, columns: dict[str, Column]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._kinds = columns
        self._schema = pa.schema([(name, kind_of(column)) for name, column in columns.items()])
        self._writer: pq.ParquetWriter = pq.ParquetWriter(file, self._schema, compression="zstd")
        self._waiting: list[JsonObject] = []

    def write(self, row: JsonObject) -> None:
        self._waiting.append(row)
        if len(self._waiting) == ROWS_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        arrays = [
            _array([row[name] for row in self._waiting], kind, self._schema.field(name).type)
            for name, kind in self._kinds.items()
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._waiting = []

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()


def kind_of(column: Column) -> pa.DataType:
    """The type a column is stored in."""
    import pyarrow as pa

    text = pa.string()
    said = [("role", text), ("content", text)]
    function = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", function)])
    described = pa.struct([("name", text), ("description", text), ("parameters", text)])
    kinds = {
        "text": text,
        "objects": pa.list_(pa.json_()),
        "turns": pa.list_(pa.struct(said)),
        "calling turns": pa.list_(
            pa.struct(
                [*said, ("tool_calls", pa.list_(call)), ("tool_call_id", text), ("name", text)]
            )
        ),
        "tools": pa.list_(pa.struct([("type", text), ("function", described)])),
        "reward": pa.struct([("style", text), ("ground_truth", text)]),
        "extra": pa.struct(
            [("index", pa.int64()), ("id", text), ("turn", pa.int64()), ("scenario", text)]
        ),
    }
    return kinds[column]


def _array(values: list[Any], column: Column, kind: pa.DataType) -> pa.Array:
    """pyarrow cannot make lists of JSON itself: they are made of their text."""
    import pyarrow as pa

    if column != "objects":
        return pa.array(values, type=kind)
    texts = pa.array([list(map(to_text, value)) for value in values], pa.list_(pa.string()))
    inner = pa.ExtensionArray.from_storage(pa.json_(), texts.values)
    return pa.ListArray.from_arrays(texts.offsets, inner, type=kind)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for another export to this folder: both would write the same unfinished files.

    Where files cannot be locked, as on some network disks, nothing is waited for.
    """
    with ExitStack() as held:
        with suppress(StoreError):
            held.enter_context(hold(folder / LOCK))
            held.callback((folder / LOCK).unlink, missing_ok=True)  # it is no part of an export
        yield


class Opened(AbstractContextManager["Opened"]):
    """The files of an export to a folder. They take their names together, when all are whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._sinks: dict[Path, Sink] = {}
        self._files: list[BinaryIO] = []
        self.rows: dict[Path, int] = {}

    def write(self, path: Path, file: ExportFile, row: JsonObject) -> None:
        if path not in self._sinks:
            self._sinks[path] = _sink(self._open(path), file)
            self._stack.callback(self._close, path)
            self.rows[path] = 0
        self._sinks[path].write(row)
        self.rows[path] += 1

    def text(self, path: Path, text: str) -> None:
        """A further file, whole."""
        self._open(path).write(text.encode())

    def _open(self, path: Path) -> BinaryIO:
        if not self._files:
            self._stack.enter_context(_alone(self._folder))
        self._files.append(self._stack.enter_context(replacing(path)))
        return self._files[-1]

    def _close(self, path: Path) -> None:
        sink = self._sinks.pop(path, None)
        if sink is not None:
            sink.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if error is not None:
            return self._stack.__exit__(kind, error, trace)
        with self._stack:  # which takes what goes wrong here, too
            for path in list(self._sinks):
                self._close(path)
            for file in self._files:  # if the disk is full, before any has taken its name
                file.flush()
                os.fsync(file.fileno())
        return None


def _sink(file: BinaryIO, about: ExportFile) -> Sink:
    if about.kind == "parquet":
        return ExportTable(file, about.columns)
    return Array(file) if about.kind == "json" else ExportLines(file)
