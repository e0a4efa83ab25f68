"""The rows of a dataset's configs, as Parquet that `datasets.load_dataset` reads.

`datasets` reads Json features with pandas' ujson, which rounds floats of more than 15 digits and
stops with an error at integers over 64 bits. A row that would not come back exactly as it went in
is left out of `sft`; it is whole in `samples`, which holds JSON as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from glob import escape
from itertools import repeat
from operator import is_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from toolloom.pipeline.dataset.configs import CONFIGS, Config
from toolloom.pipeline.store.files import explain, to_text
from toolloom.schemas import ExportError, JsonObject, Split, StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROWS_IN_GROUP = 1_000  # what is in memory of a split at once
LETTERS_IN_GROUP = 16_000_000  # or as many letters, if rows are long
ROWS_IN_FILE = 100_000
# What ujson may not read as json does: numbers of many digits or with an exponent, no numbers at
# all, half characters. More than 15 digits are a run of 9 digits and dots.
_LONG = re.compile(r"[\d.]{9}")
_EXPONENT = re.compile(r"\de[+-]\d")
ODD = ("NaN", "Infinity", "\\ud")


def reads_back(row: JsonObject) -> bool:
    """Whether `datasets` will give back an encoded row of `sft` exactly, integers as integers."""
    return all(map(_same_in_ujson, filter(delicate, (*row["messages"], *row["tools"]))))


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
class _Sheet:
    """A split of a config, being written."""

    config: Config
    folder: Path
    open: ExitStack
    waiting: dict[str, list[Any]] = field(default_factory=dict)  # column by column
    count: int = 0  # rows that wait
    letters: int = 0
    left_out: int = 0
    files: list[int] = field(default_factory=list)  # rows in each
    writer: pq.ParquetWriter | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        return schema_of(self.config)

    def add(self, row: JsonObject) -> None:
        for name in self.config.columns:
            self.waiting.setdefault(name, []).append(row[name])
        self.count += 1
        self.letters += sum(map(_length, row.values()))
        self._flush_if_full()

    def add_many(self, columns: dict[str, list[Any]]) -> None:
        """Rows by column, in groups of the same rows as if they came one by one."""
        start, count = 0, len(columns["id"])
        while start < count:
            end = min(count, start + ROWS_IN_GROUP - self.count)
            part = {name: columns[name][start:end] for name in self.config.columns}
            letters = sum(map(_letters, part.values()))
            if self.letters + letters > LETTERS_IN_GROUP:  # the group ends within these
                for place in range(end - start):
                    self.add({name: column[place] for name, column in part.items()})
            else:
                for name, column in part.items():
                    self.waiting.setdefault(name, []).extend(column)
                self.count += end - start
                self.letters += letters
                self._flush_if_full()
            start = end

    def _flush_if_full(self) -> None:
        if self.count >= ROWS_IN_GROUP or self.letters > LETTERS_IN_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what waits as one group of rows."""
        if not self.count:
            return
        import pyarrow.parquet as pq

        if self.writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{len(self.files)}.parquet"
            writer = pq.ParquetWriter(path, self.schema, compression="zstd")
            self.writer = self.open.enter_context(writer)
            self.files.append(0)
        self.writer.write_table(_table(self.schema, self.waiting))
        self.files[-1] += self.count
        self.waiting, self.count, self.letters = {}, 0, 0
        if self.files[-1] >= ROWS_IN_FILE:
            self.close()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _letters(column: list[Any]) -> int:
    """The letters of a column; a value that stands in every row is looked at once."""
    if column and _is_constant(column):
        return len(column) * _length(column[0])
    return sum(map(_length, column))


def _is_constant(column: list[Any]) -> bool:
    """Whether it is one object over and over."""
    return len(column) > 1 and all(map(is_, column, repeat(column[0])))


class Tables:
    """Writes the Parquet files of a version: `<config>/<split>-00000-of-00001.parquet`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sheets: dict[tuple[str, str], _Sheet] = {}
        self._open = ExitStack()

    def __enter__(self) -> Tables:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        """Add a row, encoded."""
        self._sheet(config, split).add(row)

    def add_many(self, config: Config, split: str, columns: dict[str, list[Any]]) -> None:
        """Add rows, encoded, column by column: what `add` would make of them, row by row.

        Quick where a value that is the same in many rows is one object, not many equal ones.
        """
        self._sheet(config, split).add_many(columns)

    def leave_out(self, config: Config, split: str, rows: int = 1) -> None:
        """Count rows that the config cannot hold."""
        self._sheet(config, split).left_out += rows

    def finish(self) -> dict[str, dict[str, JsonObject]]:
        """Close all files and give them the names the Hub expects, which hold how many there are.

        By config and split: rows, rows left out, and the rows of each file. `datasets` cannot
        load a split without rows: it has no files.
        """
        made: dict[str, dict[str, JsonObject]] = {}
        for name, split in sorted(self._sheets, key=_place):
            sheet = self._sheets[name, split]
            sheet.flush()
            sheet.close()
            files = {
                path.relative_to(self._folder).as_posix(): {"rows": rows}
                for path, rows in _named(sheet.folder, split, sheet.files)
            }
            told = {"rows": sum(sheet.files), "left_out": sheet.left_out, "files": files}
            made.setdefault(name, {})[split] = told
        return made

    def _sheet(self, config: Config, split: str) -> _Sheet:
        key = (config.name, split)
        if key not in self._sheets:
            folder = self._folder / config.name / f".{split}"
            self._sheets[key] = _Sheet(config, folder, self._open)
        return self._sheets[key]


def _place(sheet: tuple[str, str]) -> tuple[int, int]:
    """Configs and splits in the order in which they are told."""
    config, split = sheet
    known = [each.value for each in Split]
    configs = [each.name for each in CONFIGS]
    return configs.index(config), known.index(split) if split in known else len(known)


def _named(folder: Path, split: str, files: list[int]) -> Iterator[tuple[Path, int]]:
    for number, rows in enumerate(files):
        path = folder.parent / f"{split}-{number:05d}-of-{len(files):05d}.parquet"
        (folder / f"{number}.parquet").rename(path)
        yield path, rows
    if files:
        folder.rmdir()


def schema_of(config: Config) -> pa.Schema:
    """The Arrow schema of a config.

    Features travel in it only where objects need them: older versions of `datasets` do not know
    all features, and read plain columns without.
    """
    import pyarrow as pa

    if any(column.kind == "objects" for column in config.columns.values()):
        from datasets import Features, Json, List, Value

        kinds = {"text": Value("string"), "texts": List(Value("string")), "objects": List(Json())}
        columns = {name: kinds[column.kind] for name, column in config.columns.items()}
        return Features(columns).arrow_schema
    plain = {"text": pa.string(), "texts": pa.list_(pa.string())}
    return pa.schema([(name, plain[column.kind]) for name, column in config.columns.items()])


def _table(schema: pa.Schema, columns: dict[str, list[Any]]) -> pa.Table:
    import pyarrow as pa

    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """pyarrow cannot make lists of JSON itself: they are made of their text."""
    import pyarrow as pa

    if _is_constant(values):
        one = _array(values[:1], kind)
        return one.take(pa.repeat(0, len(values)))
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return pa.array(values, type=kind)
    texts = pa.array(values, pa.list_(pa.string()))
    inner = pa.ExtensionArray.from_storage(pa.json_(), texts.values)
    return pa.ListArray.from_arrays(texts.offsets, inner, type=kind)


def read_rows(path: Path, size: int = 64) -> Iterator[JsonObject]:
    """The rows of a Parquet file of ours, `size` in memory at a time; objects are decoded.

    Raises StoreError for what is missing or damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            objects = [f.name for f in file.schema_arrow if _holds_json(f.type)]
            for batch in file.iter_batches(size):
                for row in cast(Iterable[JsonObject], batch.to_pylist()):
                    yield {**row, **{name: _decoded(row[name]) for name in objects}}
    except FileNotFoundError as error:
        raise explain(path, error, "read") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error


def _decoded(texts: list[str | None] | None) -> list[Any] | None:
    """JSON of a column. Tables of others have nulls in it."""
    return texts and [None if text is None else json.loads(text) for text in texts]


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
