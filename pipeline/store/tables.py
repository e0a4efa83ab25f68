"""Parquet files as `datasets.load_dataset` reads them, whose columns a pydantic model declares.

The annotation of a field says how its column is stored: `str` is text, `int` a number,
`JsonObject` its JSON as text, `list[str]` a list of texts, `list[JsonObject]` a list of objects,
each as its JSON.

`datasets` reads Json features with pandas' ujson, which rounds floats of more than 15 digits and
stops with an error at integers over 64 bits. A row with objects that would not come back exactly as
they went in is left out of its config; `Config.holds` tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from glob import escape
from itertools import chain, repeat
from operator import is_
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel

from toolloom.pipeline.store.files import explain, to_text
from toolloom.schemas import ExportError, JsonObject, Record, Sample, Split, StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_IN_GROUP = 1_000  # what is in memory of a table while it is written
LETTERS_IN_GROUP = 16_000_000  # or as many letters, if rows are long
LETTERS_HELD = 1_000_000  # of a table in memory while its group fills; others wait on the disk
ROWS_IN_FILE = 100_000
# What ujson may not read as json does: numbers of many digits or with an exponent, no numbers at
# all, half characters. More than 15 digits are a run of 9 digits and dots.
_LONG = re.compile(r"[\d.]{9}")
_EXPONENT = re.compile(r"\de[+-]\d")
ODD = ("NaN", "Infinity", "\\ud")


class TableRow(BaseModel):
    """A row of a config: its fields are the columns, its docstring what the card says of them."""

    origin: ClassVar[type[Record]] = (
        Sample  # what rows are made of: also Instruction, Rejected, Api, World
    )

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        """The rows of a record, given as JSON, in the order in which they are stored."""
        raise NotImplementedError

    @classmethod
    def record_of(cls, row: JsonObject) -> JsonObject:
        """The record in a stored row, as JSON, of a config that holds records whole."""
        raise NotImplementedError

    @classmethod
    def wanted(cls, record: JsonObject, recipe: JsonObject) -> bool | None:
        """Whether a run of this recipe, as JSON, stores a record's rows; None: it has no say."""
        return None


Storage: TypeAlias = Literal["text", "json", "number", "texts", "objects"]
_KINDS: dict[Any, Storage] = {
    str: "text",
    JsonObject: "json",
    int: "number",
    list[str]: "texts",
    list[JsonObject]: "objects",
}


@dataclass(frozen=True)
class Column:
    """A column: how it is stored, and what the card says of it."""

    kind: Storage
    about: str


@dataclass(frozen=True)
class Config:
    """A config of a version: a folder of tables, one for each split, with the columns of `row`."""

    name: str
    row: type[TableRow]

    @cached_property
    def columns(self) -> dict[str, Column]:
        fields = self.row.model_fields.items()
        return {name: Column(_KINDS[f.annotation], f.description or "") for name, f in fields}

    @cached_property
    def about(self) -> str:
        """The docstring of its model, to go on with in a sentence: what the rows are."""
        text = " ".join((self.row.__doc__ or "").split()).removesuffix(".")
        return text[:1].lower() + text[1:]

    @cached_property
    def objects(self) -> tuple[str, ...]:
        """The columns that hold objects."""
        return self._of_kind("objects")

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The columns that hold a value as its JSON."""
        return self._of_kind("json")

    def _of_kind(self, kind: Storage) -> tuple[str, ...]:
        return tuple(name for name, column in self.columns.items() if column.kind == kind)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as they are stored. Of `datasets` only the form of its features is used.

        Features travel in it only where objects need them: older versions of `datasets` do not
        know all features, and read plain columns without.
        """
        if not self.objects:
            return self.types
        from datasets import Features, Json, List, Value

        texts = Value("string")
        kinds = {
            "text": texts,
            "json": texts,
            "number": Value("int64"),
            "texts": List(texts),
            "objects": List(Json()),
        }
        columns = {name: kinds[column.kind] for name, column in self.columns.items()}
        return Features(columns).arrow_schema

    @cached_property
    def types(self) -> pa.Schema:
        """The same columns without the form of features, for which `datasets` has to be imported,
        which takes longer than to read a small version."""
        import pyarrow as pa

        kinds = {
            "text": pa.string(),
            "json": pa.string(),
            "number": pa.int64(),
            "texts": pa.list_(pa.string()),
            "objects": pa.list_(pa.json_()),
        }
        return pa.schema([(name, kinds[column.kind]) for name, column in self.columns.items()])

    def encode(self, row: JsonObject) -> JsonObject:
        """A row as it is stored: objects as their JSON."""
        if not self.objects and not self.values:
            return row
        stored = {name: row[name] for name in self.columns}
        stored |= {name: to_text(row[name]) for name in self.values}
        return stored | {name: list(map(to_text, row[name])) for name in self.objects}

    def holds(self, row: JsonObject) -> bool:
        """Whether `datasets` will give back an encoded row exactly, integers as integers."""
        texts = list(chain.from_iterable(row[name] for name in self.objects))
        # Nearly no row is delicate: one look at all of its texts is enough to know.
        return not delicate("\n".join(texts)) or reads_back(texts)


def reads_back(texts: Iterable[str]) -> bool:
    """Whether `datasets` gives back these texts of JSON exactly."""
    return all(map(_same_in_ujson, filter(delicate, texts)))


def delicate(text: str) -> bool:
    """Whether JSON holds what ujson might read as something else."""
    return bool(_LONG.search(text) or _EXPONENT.search(text) or any(odd in text for odd in ODD))


def _same_in_ujson(text: str) -> bool:
    from datasets.utils.json import ujson_loads

    try:
        return to_text(ujson_loads(text)) == text
    except ValueError:
        return False


@dataclass
class TableWriter:
    """A split of a config, being written."""

    config: Config
    folder: Path
    open: ExitStack
    waiting: dict[str, list[Any]] = field(default_factory=dict)  # column by column
    held: int = 0  # letters of `waiting`
    count: int = 0  # rows of the group so far
    letters: int = 0
    spill: IO[bytes] | None = None  # without a name: a killed process leaves nothing
    stream: pa.RecordBatchStreamWriter | None = None  # into it, of the rows before `waiting`
    left_out: int = 0
    files: list[int] = field(default_factory=list)  # rows in each
    writer: pq.ParquetWriter | None = None

    def add(self, row: JsonObject) -> None:
        for name in self.config.columns:
            self.waiting.setdefault(name, []).append(row[name])
        self._count(1, sum(map(_length, row.values())))

    def _count(self, count: int, letters: int) -> None:
        """Count rows that wait from now on; write the group if it is full."""
        self.count += count
        self.letters += letters
        self.held += letters
        if self.count >= ROWS_IN_GROUP or self.letters > LETTERS_IN_GROUP:
            self.flush()
        elif self.held > LETTERS_HELD:
            self._set_aside()

    def _set_aside(self) -> None:
        """Put the rows that wait on the disk: as Arrow, so that the group comes out the same."""
        import pyarrow as pa

        if self.spill is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.spill = TemporaryFile(dir=self.folder)  # noqa: SIM115 - `open` closes it
            self.open.enter_context(self.spill)
        if self.stream is None:
            self.spill.seek(0)
            self.stream = pa.ipc.new_stream(self.spill, self.config.schema)
        self.stream.write_table(table_of(self.config.schema, self.waiting))
        self.waiting, self.held = {}, 0

    def _group(self) -> pa.Table:
        """The rows of the group, those that were set aside first."""
        import pyarrow as pa

        if self.stream is None or self.spill is None:
            return table_of(self.config.schema, self.waiting)
        if self.waiting:
            self._set_aside()
        self.stream.close()
        self.stream = None
        self.spill.seek(0)
        with pa.ipc.open_stream(self.spill) as reader:
            return reader.read_all().combine_chunks()

    def flush(self) -> None:
        """Write what waits as one group of rows."""
        if not self.count:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self.writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{len(self.files)}.parquet"
            writer = pq.ParquetWriter(path, self.config.schema, compression="zstd")
            self.writer = self.open.enter_context(writer)
            self.files.append(0)
        self.writer.write_table(self._group())
        if self.letters > LETTERS_IN_GROUP // 2:  # else Arrow keeps what the largest group took
            pa.default_memory_pool().release_unused()
        self.files[-1] += self.count
        self.waiting, self.held, self.count, self.letters = {}, 0, 0, 0
        if self.files[-1] >= ROWS_IN_FILE:
            self.close()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def _length(value: Any) -> int:
    if isinstance(value, int):
        return 8
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _is_constant(column: list[Any]) -> bool:
    """Whether it is one object over and over."""
    return len(column) > 1 and all(map(is_, column, repeat(column[0])))


class VersionWriter:
    """Writes the Parquet files of a version: `<config>/<split>-00000-of-00001.parquet`."""

    def __init__(self, folder: Path, configs: Sequence[Config]) -> None:
        """`configs`: in the order in which `finish` tells of them."""
        self._folder = folder
        self._order = [config.name for config in configs]
        self._writers: dict[tuple[str, str], TableWriter] = {}
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        """Add a row, encoded."""
        self.table(config, split).add(row)

    def add_made(self, config: Config, split: str, row: JsonObject) -> bool:
        """Add a row as it was made, or leave it out if the config cannot hold it."""
        stored = config.encode(row)
        if config.holds(stored):
            self.add(config, split, stored)
            return True
        self.leave_out(config, split)
        return False

    def leave_out(self, config: Config, split: str, rows: int = 1) -> None:
        """Count rows that the config cannot hold."""
        self.table(config, split).left_out += rows

    def finish(self) -> dict[str, dict[str, JsonObject]]:
        """Close all files and give them the names the Hub expects, which hold how many there are.

        By config and split: rows, rows left out, and the rows of each file. `datasets` cannot
        load a split without rows: it has no files.
        """
        made: dict[str, dict[str, JsonObject]] = {}
        splits = [each.value for each in Split]

        def told_as(table: tuple[str, str]) -> tuple[int, int]:
            config, split = table
            number = splits.index(split) if split in splits else len(splits)
            return self._order.index(config), number

        for name, split in sorted(self._writers, key=told_as):
            writer = self._writers[name, split]
            writer.flush()
            writer.close()
            files = {
                path.relative_to(self._folder).as_posix(): {"rows": rows}
                for path, rows in _named(writer.folder, split, writer.files)
            }
            told = {"rows": sum(writer.files), "left_out": writer.left_out, "files": files}
            made.setdefault(name, {})[split] = told
        return made

    def table(self, config: Config, split: str) -> TableWriter:
        """The writer of a table, which is there from now on, if only with what is left out."""
        key = (config.name, split)
        if key not in self._writers:
            folder = self._folder / config.name / f".{split}"
            self._writers[key] = TableWriter(config, folder, self._open)
            self.begin(config, split, self._writers[key])
        return self._writers[key]

    def begin(self, config: Config, split: str, writer: TableWriter) -> None:
        """What stands in a table before the first row that is added."""


def _named(folder: Path, split: str, files: list[int]) -> Iterator[tuple[Path, int]]:
    for number, rows in enumerate(files):
        path = folder.parent / f"{split}-{number:05d}-of-{len(files):05d}.parquet"
        (folder / f"{number}.parquet").rename(path)
        yield path, rows
    if files:
        folder.rmdir()


def table_of(schema: pa.Schema, columns: dict[str, list[Any]]) -> pa.Table:
    import pyarrow as pa

    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """pyarrow cannot make lists of JSON itself: they are made of their text."""
    import pyarrow as pa

    if _is_constant(values):
        one = _array(values[:1], kind)
        return one.take(pa.repeat(0, len(values)))
    if not _holds_json(kind):
        return pa.array(values, type=kind)
    texts = pa.array(values, pa.list_(pa.string()))
    inner = pa.ExtensionArray.from_storage(pa.json_(), texts.values)
    return pa.ListArray.from_arrays(texts.offsets, inner, type=kind)


def read_rows(path: Path, size: int = 64, *, stored: bool = False) -> Iterator[JsonObject]:
    """The rows of a Parquet file, `size` in memory at a time; objects are decoded, or as `stored`.

    Raises StoreError for what is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    plain = {"arrow_extensions_enabled": False} if stored else {}
    try:
        # Without pre_buffer: with it the whole file is in memory at once.
        with pq.ParquetFile(path, pre_buffer=False, **plain) as file:
            objects = () if stored else [f.name for f in file.schema_arrow if _holds_json(f.type)]
            for batch in file.iter_batches(size):
                for row in cast(Iterable[JsonObject], batch.to_pylist()):
                    for name in objects:
                        texts = row[name]
                        row[name] = texts and [
                            None if text is None else json.loads(text) for text in texts
                        ]
                    yield row
    except FileNotFoundError as error:
        raise explain(path, error, "read") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error


def _holds_json(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind)) and isinstance(kind.value_type, pa.JsonType)


@contextmanager
def load_file(path: Path) -> Iterator[Iterable[JsonObject]]:
    """A file of rows as `datasets` loads it, without its cache. Raises ExportError."""
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    kind = "parquet" if path.suffix == ".parquet" else "json"
    with TemporaryDirectory() as folder:
        try:
            loaded = load_dataset(
                kind, data_files=escape(str(path)), split="train", cache_dir=folder
            )
        except Exception as error:
            why = str(error.__cause__ or error).partition("\n")[0][:200]
            told = f"`datasets` does not load it ({type(error).__name__}: {why})"
            raise ExportError(told) from error
        yield loaded
