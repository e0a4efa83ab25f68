"""Parquet files as `datasets.load_dataset` reads them, whose columns a pydantic model declares.

The annotation of a field says how its column is stored: `str` is text, `int` a number,
`JsonObject` and `JsonValue` are their JSON as text, `list[str]` a list of texts, `list[JsonObject]`
a list of objects, each as its JSON.

`datasets` reads Json features with pandas' ujson, which rounds floats of more than 15 digits and
stops with an error at integers over 64 bits. A row with objects that would not come back exactly as
they went in is left out of its config; `Config.holds` tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, JsonValue

from toolloom.pipeline.store.files import explain, to_text
from toolloom.schemas import JsonObject, Record, Sample, StoreError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_IN_GROUP = 1_000  # what is in memory of a table while it is written
LETTERS_IN_GROUP = 4_000_000  # or as many letters, if rows are long
ROWS_IN_FILE = 100_000
# What ujson may not read as json does: numbers of many digits or with an exponent, no numbers at
# all, half characters. More than 15 digits are a run of 9 digits and dots.
_DELICATE = re.compile(r"[\d.]{9}|\de[+-]\d|NaN|Infinity|\\ud")


class TableRow(BaseModel):
    """A row of a config: its fields are the columns, its docstring what the card says of them."""

    # What rows are made of: also Instruction, Rejected, Api, World.
    origin: ClassVar[type[Record]] = Sample

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        """The rows of a record, given as JSON, in the order in which they are stored."""
        raise NotImplementedError

    @classmethod
    def record_of(cls, row: JsonObject) -> JsonObject:
        """The record in a stored row, as JSON, of a config that holds records whole."""
        raise NotImplementedError

    @classmethod
    def ids(cls, record: str) -> tuple[str, ...]:
        """The ids of the rows of a record that has this id."""
        return (record,)

    @classmethod
    def wanted(cls, record: JsonObject, recipe: JsonObject) -> bool | None:
        """Whether a run of this recipe, as JSON, stores a record's rows; None: it has no say."""
        return None


Storage: TypeAlias = Literal["text", "json", "number", "texts", "objects"]
_KINDS: dict[Any, Storage] = {
    str: "text",
    JsonObject: "json",
    JsonValue: "json",
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
        return tuple(name for name, column in self.columns.items() if column.kind == "objects")

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as they are stored. Of `datasets` only the form of its features is used.

        Features travel in it only where objects need them: older versions of `datasets` do not
        know all features, and read plain columns without.
        """
        if not self.objects:
            return self.types
        from datasets import Features

        return Features.from_arrow_schema(self.types).arrow_schema

    @cached_property
    def types(self) -> pa.Schema:
        """The same columns without the form of features, for which `datasets` has to be imported,
        which takes longer than to read a small version."""
        import pyarrow as pa

        kinds = {"text": pa.string(), "json": pa.string(), "number": pa.int64()}
        kinds |= {"texts": pa.list_(pa.string()), "objects": pa.list_(pa.json_())}
        return pa.schema([(name, kinds[column.kind]) for name, column in self.columns.items()])

    def encode(self, row: JsonObject, text: Callable[[Any], str] = to_text) -> JsonObject:
        """A row as it is stored: objects as their JSON, written by `text`."""
        stored = {}
        for name, column in self.columns.items():
            value = row[name]
            if column.kind == "json":
                value = text(value)
            elif column.kind == "objects":
                value = list(map(text, value))
            stored[name] = value
        return stored

    def holds(self, row: JsonObject) -> bool:
        """Whether `datasets` will give back an encoded row exactly, integers as integers."""
        return all(reads_back(row[name]) for name in self.objects)


def reads_back(texts: Iterable[str]) -> bool:
    """Whether `datasets` gives back these texts of JSON exactly."""
    return all(map(_same_in_ujson, filter(_DELICATE.search, texts)))


def _same_in_ujson(text: str) -> bool:
    from datasets.utils.json import ujson_loads

    try:
        return to_text(ujson_loads(text)) == text
    except ValueError:
        return False


class ParquetTable:
    """A Parquet file that is being written, in groups of rows."""

    def __init__(
        self, schema: pa.Schema, target: Path | BinaryIO, open: ExitStack, group: int | None = None
    ) -> None:
        import pyarrow.parquet as pq

        self._schema, self._group = schema, group or ROWS_IN_GROUP
        self._writer = open.enter_context(pq.ParquetWriter(target, schema, compression="zstd"))
        self._waiting: list[JsonObject] = []
        self._letters = 0
        self.rows = 0  # that are written

    def add(self, row: JsonObject) -> None:
        """Add a row, encoded."""
        self._waiting.append(row)
        self._letters += sum(map(_length, row.values()))
        if len(self._waiting) >= self._group or self._letters > LETTERS_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa

        columns = [
            _array([row[column.name] for row in self._waiting], column.type)
            for column in self._schema
        ]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))
        self.rows += len(self._waiting)
        self._waiting, self._letters = [], 0

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(len, value)) if isinstance(value, list) else 8


class VersionWriter:
    """Writes the Parquet files of a version: `<config>/<split>-00000-of-00001.parquet`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[tuple[str, str], list[ParquetTable]] = {}  # the last one is open
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        """Add a row, encoded."""
        files = self._tables.setdefault((config.name, split), [])
        if not files or files[-1].rows >= ROWS_IN_FILE:
            if files:
                files[-1].close()
            path = self._folder / config.name / f".{split}" / f"{len(files)}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            files.append(ParquetTable(config.schema, path, self._open))
        files[-1].add(row)

    def finish(self) -> None:
        """Close all files and give them the names the Hub expects, which hold how many there are.
        `datasets` cannot load a split without rows: it has no files."""
        for (config, split), files in self._tables.items():
            files[-1].close()
            folder = self._folder / config
            for number in range(count := len(files)):
                name = f"{split}-{number:05d}-of-{count:05d}.parquet"
                (folder / f".{split}" / f"{number}.parquet").rename(folder / name)
            (folder / f".{split}").rmdir()


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """pyarrow cannot make lists of JSON itself: they are made of their text."""
    import pyarrow as pa

    if not _holds_json(kind):
        return pa.array(values, type=kind)
    texts = pa.array(values, pa.list_(pa.string()))
    inner = pa.ExtensionArray.from_storage(pa.json_(), texts.values)
    return pa.ListArray.from_arrays(texts.offsets, inner, type=kind)


def read_rows(path: Path, size: int = 64, *, stored: bool = False) -> Iterator[JsonObject]:
    """The rows of a Parquet file, `size` in memory at a time; objects are decoded, or as `stored`.
    Raises StoreError for what is missing or damaged."""
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
