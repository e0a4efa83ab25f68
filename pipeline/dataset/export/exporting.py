"""Write a version of a dataset in a format: sample by sample, whole files or none.

Each file appears whole, under its name, or not at all.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, Self

from toolloom.pipeline.formats.base import (
    Arguments,
    Column,
    Exported,
    ExportFile,
    ExportPlace,
    ExportSource,
    Format,
    NotRepresentable,
    StatefulFormat,
)
from toolloom.pipeline.store.files import replacing, to_text
from toolloom.pipeline.store.locks import LOCK, hold
from toolloom.pipeline.store.tables import reads_back, table_of
from toolloom.pipeline.store.version import numbered
from toolloom.schemas import ExportError, JsonObject, NothingFound, Sample, StoreError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


SUFFIXES = {".jsonl": "jsonl", ".json": "json", ".parquet": "parquet"}
ROUNDED = "numbers that `datasets` would not give back as they are"


@dataclass
class ExportReport:
    """What an export wrote, and what it could not."""

    format: Format
    place: ExportPlace
    samples: int = 0
    held: int = 0  # samples in at least one row
    files: dict[Path, int] = field(default_factory=dict)  # rows of each
    notes: list[Path] = field(default_factory=list)
    unfit: Counter[str] = field(default_factory=Counter)  # samples without a row, by reason
    lost: Counter[str] = field(default_factory=Counter)  # samples whose rows lack a part

    @property
    def rows(self) -> int:
        return sum(self.files.values())

    @property
    def hint(self) -> str:
        """How to point the trainer at it; nothing if there are no rows."""
        if not self.files:
            return ""
        text = self.format.hint
        if len(self.files) == 1 and not self.notes:  # it may have a name of its own
            (only,) = self.files
            text = text.replace(f"{{folder}}/{{split}}{only.suffix}", str(only.resolve()))
        text = text.replace("{folder}", self.place.folder)
        text = text.replace("{dataset}", self.place.dataset)
        return text.replace("{split}", self.place.splits[0])


def choose_arguments(format_: Format, wanted: Arguments | None) -> Arguments:
    """The form of arguments. Raises ExportError where the format fixes another."""
    if wanted is None or wanted in format_.arguments:
        return wanted or format_.arguments[0]
    raise ExportError(
        f"--format {format_.name} --arguments {wanted}: {format_.why}. Leave out --arguments."
    )


def choose_shots(format_: Format, wanted: int | None) -> int:
    """How many demonstrations to show. Raises ExportError where the format shows none."""
    if wanted is None or format_.shots is not None:
        return (format_.shots or 0) if wanted is None else wanted
    raise ExportError(
        f"--format {format_.name} --shots {wanted}: the format shows no demonstrations. "
        "Leave out --shots."
    )


def choose_splits(source: ExportSource, wanted: str | None) -> list[str]:
    """The splits to write. Raises NothingFound for one that has no samples, or if none has."""
    known = source.splits("samples")
    if not known:
        raise NothingFound(
            f"{source.name} has no samples, so there is nothing to export. Instructions are "
            'loaded as they are: `datasets.load_dataset(FOLDER, "planning")`.'
        )
    if wanted is None:
        return known
    if wanted not in known:
        raise NothingFound(
            f"{source.name} has no samples in a split {wanted!r}; there are: {', '.join(known)}."
        )
    return [wanted]


def export(
    source: ExportSource,
    format_: Format,
    into: Path,
    arguments: Arguments | None = None,
    split: str | None = None,
    shots: int | None = None,
) -> ExportReport:
    """Write it to a folder, or to one file. Raises ToolloomError; then nothing is changed."""
    form, shown = choose_arguments(format_, arguments), choose_shots(format_, shots)
    splits = choose_splits(source, split)
    paths = _paths(format_, into, splits)
    single = into.suffix in SUFFIXES
    folder = (into.parent if single else into).resolve()
    for above in (folder, *folder.parents):
        if numbered(above) and isfile(above / "manifest.json"):
            raise ExportError(
                f"--into {into}: lies in a version of a dataset, and versions never change. "
                "Name a place outside of it."
            )
    report = ExportReport(format_, ExportPlace(source.name, (), str(folder)))
    weaver = format_.weaver(source, shown) if format_.weaver else None
    with Opened.at(folder) as opened:
        for each in splits:
            before = report.held
            for sample in source.samples(each):
                made = _made(format_, sample, form, weaver)
                report.samples += 1
                if made.rows or made.waits:
                    report.held += 1
                    report.lost.update(made.lost)
                else:
                    report.unfit[made.unfit or "nothing that the format has a place for"] += 1
                for part, row in made.rows:
                    opened.write(paths[each, part], format_.files[part], row)
            for part, row in weaver.rest() if weaver else ():
                opened.write(paths[each, part], format_.files[part], row)
            if report.held > before:
                report.place = replace(report.place, splits=(*report.place.splits, each))
        report.files = dict(sorted(opened.rows.items()))
        notes = format_.notes(report.place) if report.files and not single else {}
        for name, text in notes.items():
            opened.text(into / name, text)
            report.notes.append(into / name)
    return report


def _paths(format_: Format, into: Path, splits: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Where each file of each split goes. Raises ExportError if one file cannot take it all."""
    if into.suffix not in SUFFIXES:
        return {
            (split, part): into / file.path.replace("{split}", split)
            for split in splits
            for part, file in format_.files.items()
        }
    (part, file), *others = format_.files.items()
    if others:
        raise ExportError(
            f"--into {into}: --format {format_.name} writes several files. Name a folder."
        )
    if file.kind != SUFFIXES[into.suffix]:
        wanted = next(suffix for suffix, kind in SUFFIXES.items() if kind == file.kind)
        raise ExportError(
            f"--into {into}: --format {format_.name} writes {wanted}. "
            f"Name a file that ends so, or a folder."
        )
    if len(splits) > 1:
        raise ExportError(
            f"--into {into}: there are {len(splits)} splits ({', '.join(splits)}), and each has a "
            "file of its own. Choose one with --split, or name a folder."
        )
    return {(splits[0], part): into} if splits else {}


def _made(
    format_: Format, sample: Sample, form: Arguments, weaver: StatefulFormat | None = None
) -> Exported:
    """The rows of a sample; what would not come back as it went in makes none."""
    try:
        made = (weaver or format_).rows(sample, form)
    except NotRepresentable as why:
        return Exported(unfit=str(why))
    for part, row in made.rows:
        columns = format_.files[part].columns.items()
        names = [name for name, column in columns if column == "objects"]
        if not reads_back([to_text(value) for name in names for value in row[name]]):
            return Exported(unfit=ROUNDED)  # `datasets` reads JSON columns of Parquet otherwise
    return made


ROWS_IN_GROUP = 200  # what is in memory


class Sink(Protocol):
    """Takes rows, and what is left to write when there are no more."""

    def write(self, row: JsonObject) -> None: ...

    def close(self) -> None: ...


class ExportText:
    """JSON, a row a line: each by itself, or all of one array."""

    def __init__(self, file: BinaryIO, array: bool) -> None:
        self._file = file
        self._before, self._end = (b"[\n", b"\n]\n") if array else (b"", b"\n")
        self._between = b",\n" if array else b"\n"

    def write(self, row: JsonObject) -> None:
        self._file.write(self._before + to_text(row).encode())
        self._before = self._between

    def close(self) -> None:
        self._file.write(self._end)


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
        texts = {
            n: list(map(to_text, row[n])) for n, kind in self._kinds.items() if kind == "objects"
        }
        self._waiting.append({**row, **texts})
        if len(self._waiting) == ROWS_IN_GROUP:
            self._flush()

    def _flush(self) -> None:
        columns = {name: [row[name] for row in self._waiting] for name in self._kinds}
        self._writer.write_table(table_of(self._schema, columns))
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


class Opened:
    """The files of an export to a folder. They take their names together, when all are whole."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._sinks: dict[Path, Sink] = {}
        self._files: list[BinaryIO] = []
        self.rows: dict[Path, int] = {}

    @classmethod
    @contextmanager
    def at(cls, folder: Path) -> Iterator[Self]:
        with ExitStack() as stack:
            opened = cls(folder, stack)
            yield opened
            for path in list(opened._sinks):
                opened._close(path)
            for file in opened._files:  # if the disk is full, before any has taken its name
                file.flush()
                os.fsync(file.fileno())

    def write(self, path: Path, about: ExportFile, row: JsonObject) -> None:
        if path not in self._sinks:
            file = self._open(path)
            self._sinks[path] = (
                ExportTable(file, about.columns)
                if about.kind == "parquet"
                else ExportText(file, array=about.kind == "json")
            )
            self._stack.callback(self._close, path)
            self.rows[path] = 0
        self._sinks[path].write(row)
        self.rows[path] += 1

    def text(self, path: Path, text: str) -> None:
        """A further file, whole."""
        self._open(path).write(text.encode())

    def _open(self, path: Path) -> BinaryIO:
        if not self._files:
            # Another export to this folder would write the same unfinished files: it is waited
            # for, but where files cannot be locked, as on some network disks.
            with suppress(StoreError):
                self._stack.enter_context(hold(self._folder / LOCK))
                # The lock is no part of an export.
                self._stack.callback((self._folder / LOCK).unlink, missing_ok=True)
        self._files.append(self._stack.enter_context(replacing(path)))
        return self._files[-1]

    def _close(self, path: Path) -> None:
        if sink := self._sinks.pop(path, None):
            sink.close()
