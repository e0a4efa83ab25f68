"""Versions of a dataset on the disk: their tables written and read, themselves found and numbered.

    <outputs>/datasets/<name>/1.0.0/    a version: it never changes
    <outputs>/datasets/<name>/latest    a link to the highest one

A number tells users what changed: the first part a test or the layout (figures can no longer be
compared), the second what is trained on, the third only what was rejected or is told.

Tables are Parquet files as `datasets.load_dataset` reads them, whose columns a pydantic model
declares. The annotation of a field says how its column is stored: `str` is text, `int` a number,
`JsonObject` and `JsonValue` are their JSON as text, `list[str]` a list of texts, `list[JsonObject]`
a list of objects, each as its JSON.

`datasets` reads Json features with pandas' ujson, which rounds floats of more than 15 digits and
stops with an error at integers over 64 bits. A row with objects that would not come back exactly as
they went in is left out of its config; `Columns.hold` tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from os.path import isdir, isfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, ClassVar, TypeAlias, cast

from pydantic import BaseModel, Field, JsonValue, StringConstraints, ValidationError
from pydantic_core import from_json

from toolloom.pipeline.render.section import visible
from toolloom.pipeline.store.files import explain, to_text
from toolloom.schemas import (
    JsonObject,
    NothingFound,
    PublishError,
    Record,
    Sample,
    Split,
    StoreError,
    first_error,
)
from toolloom.schemas.base import LAYOUT
from toolloom.schemas.splits import SplitPlan

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_IN_GROUP = 1_000  # what is in memory of a table while it is written
LETTERS_IN_GROUP = 4_000_000  # or as many letters, if rows are long
ROWS_IN_FILE = 100_000
# What ujson may not read as json does: numbers of many digits or with an exponent, no numbers at
# all, half characters. More than 15 digits are a run of 9 digits and dots.
_DELICATE = re.compile(r"[\d.]{9}|\de[+-]\d|NaN|Infinity|\\ud")
# What comes of reading JSON that is not what was written.
DAMAGE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


def parsed(text: Any) -> Any:
    """JSON, by the faster of two parsers; where it refuses, the other has the word."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


class TableRow(BaseModel):
    """A row of a config: its fields are the columns, its docstring what the card says of them."""

    # What rows are made of: also Instruction, Rejected, Api, World.
    origin: ClassVar[type[Record]] = Sample

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        """The rows of a record, given as JSON, in the order in which they are stored."""
        return (record,)

    @classmethod
    def record_of(cls, row: JsonObject) -> JsonObject:
        """The record in a stored row, as JSON, of a config that holds records whole."""
        record: JsonObject = parsed(row["record"])
        return record

    @classmethod
    def ids(cls, record: str) -> tuple[str, ...]:
        """The ids of the rows of a record that has this id."""
        return (record,)

    @classmethod
    def wanted(cls, record: JsonObject, recipe: JsonObject) -> bool | None:
        """Whether a run of this recipe, as JSON, stores a record's rows; None: it has no say."""
        return None


_KINDS = {
    str: "text",
    JsonObject: "json",
    JsonValue: "json",
    int: "number",
    list[str]: "texts",
    list[JsonObject]: "objects",
}


class Columns(dict[str, str]):
    """The columns of a table, in order, and how each is stored: by the names that `types` has.
    `objects` are JSON values, each with keys of its own."""

    @cached_property
    def objects(self) -> tuple[str, ...]:
        return tuple(name for name, kind in self.items() if kind == "objects")

    @cached_property
    def types(self) -> pa.Schema:
        """Without the form of features, for which `datasets` has to be imported, which takes longer
        than to read a small version."""
        import pyarrow as pa

        text, number = pa.string(), pa.int64()
        said = [("role", text), ("content", text)]
        function = pa.struct([("name", text), ("arguments", text)])
        call = pa.struct([("id", text), ("type", text), ("function", function)])
        called = [("tool_calls", pa.list_(call)), ("tool_call_id", text), ("name", text)]
        described = pa.struct([("name", text), ("description", text), ("parameters", text)])
        extra = [("index", number), ("id", text), ("turn", number), ("scenario", text)]
        kinds = {
            "text": text,
            "json": text,
            "number": number,
            "texts": pa.list_(text),
            "objects": pa.list_(pa.json_()),
            # verl's
            "turns": pa.list_(pa.struct(said)),
            "calling turns": pa.list_(pa.struct([*said, *called])),
            "tools": pa.list_(pa.struct([("type", text), ("function", described)])),
            "reward": pa.struct([("style", text), ("ground_truth", text)]),
            "extra": pa.struct(extra),
        }
        return pa.schema([(name, kinds[kind]) for name, kind in self.items()])

    def encode(self, row: JsonObject) -> JsonObject:
        """A row as it is stored: objects as their JSON."""
        stored = {}
        for name, kind in self.items():
            value = row[name]
            if kind == "json":
                value = to_text(value)
            elif kind == "objects":
                value = list(map(to_text, value))
            stored[name] = value
        return stored

    def hold(self, row: JsonObject) -> bool:
        """Whether `datasets` will give back an encoded row exactly, integers as integers."""
        texts = (text for name in self.objects for text in row[name])
        return all(map(_same_in_ujson, filter(_DELICATE.search, texts)))


@dataclass(frozen=True)
class Config:
    """A config of a version: a folder of tables, one for each split, with the columns of `row`."""

    name: str
    row: type[TableRow]

    @cached_property
    def columns(self) -> Columns:
        fields = self.row.model_fields.items()
        return Columns((name, _KINDS[field.annotation]) for name, field in fields)

    @cached_property
    def about(self) -> str:
        """The docstring of its model, to go on with in a sentence: what the rows are."""
        text = " ".join((self.row.__doc__ or "").split()).removesuffix(".")
        return text[:1].lower() + text[1:]

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as they are stored. Of `datasets` only the form of its features is used.

        Features travel in it only where objects need them: older versions of `datasets` do not
        know all features, and read plain columns without.
        """
        if not self.columns.objects:
            return self.columns.types
        from datasets import Features

        return Features.from_arrow_schema(self.columns.types).arrow_schema


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

        columns = []
        for column in self._schema:
            # pyarrow cannot make lists of JSON itself: they are made of their text.
            kind = pa.list_(pa.string()) if _holds_json(column.type) else column.type
            values = pa.array([row[column.name] for row in self._waiting], kind)
            columns.append(values.cast(column.type))
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


class VersionWriter(ExitStack):
    """Writes the Parquet files of a version: `<config>/<split>-00000-of-00001.parquet`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._tables: dict[tuple[str, str], list[ParquetTable]] = {}  # the last one is open

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        """Add a row, encoded."""
        files = self._tables.setdefault((config.name, split), [])
        if not files or files[-1].rows >= ROWS_IN_FILE:
            if files:
                files[-1].close()
            path = self._folder / config.name / f".{split}" / f"{len(files)}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            files.append(ParquetTable(config.schema, path, self))
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
                        row[name] = list(map(json.loads, row[name]))
                    yield row
    except FileNotFoundError as error:
        raise explain(path, error, "read") from error
    except (OSError, pa.ArrowException, TypeError, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error


def _holds_json(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind)) and isinstance(kind.value_type, pa.JsonType)


# Versions

PARTS = ("dialogue", "verdict", "flags", "provenance")  # of a Sample, in the config `samples`

Number: TypeAlias = tuple[int, int, int]
Count = Annotated[int, Field(ge=0, strict=True)]
# Files are named by them, such as a report or a table: a manifest may be foreign, and must not
# choose where they are.
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Dotted = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
Table = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9_]+/[a-z0-9_]+-[0-9]{5,}-of-[0-9]{5,}\.parquet$")
]


class FileEntry(BaseModel):
    """What a manifest tells of a table's file."""

    rows: Count
    sha256: str
    bytes: Count


class TableEntry(BaseModel):
    """What a manifest tells of a split of a config."""

    rows: Count
    files: dict[Table, FileEntry]


class ParentEntry(BaseModel):
    """The version that one follows, and the hash of its manifest."""

    version: str
    sha256: str


class ExtensionEntry(BaseModel):
    """What a run added to the parent: rows by config and split."""

    run: str
    rows: dict[str, dict[str, Count]]


class Manifest(BaseModel):
    """`manifest.json`, as far as it has to be believed: what is in `splits`, `instructions`,
    `worlds`, `apis` and `expansion` is only shown, and verification counts it again."""

    layout: int
    name: Name
    version: Dotted
    parent: ParentEntry | None
    regenerated: Split | None
    extended: ExtensionEntry | None = None
    content: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{12,}$")]
    toolloom: str
    code: str
    plan: SplitPlan
    runs: dict[str, dict[str, Any]]
    splits: dict[str, dict[str, Any]]
    expansion: dict[str, dict[str, Any]] | None = None
    instructions: dict[str, Any] | None = None
    worlds: dict[str, Any] | None = None
    apis: dict[str, Any]
    configs: dict[str, dict[str, TableEntry]]
    files: dict[str, str]

    def tables(self) -> Iterator[tuple[str, str, str, FileEntry]]:
        """Config, split, path and figures of each Parquet file."""
        for config, splits in self.configs.items():
            for split, table in splits.items():
                for name, told in table.files.items():
                    yield config, split, name, told


@dataclass(frozen=True)
class Version:
    """A version of a dataset."""

    path: Path
    manifest: JsonObject

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def number(self) -> str:
        return str(self.manifest["version"])

    @property
    def label(self) -> str:
        return f"{self.name}/{self.number}"

    def splits(self, config: str) -> list[str]:
        """The splits of a config that have rows."""
        return list(self.manifest["configs"].get(config, {}))

    def files(self, config: str, split: str) -> list[Path]:
        """The Parquet files of a split, in order."""
        made = self.manifest["configs"].get(config, {}).get(split, {"files": ()})
        return [self.path / name for name in made["files"]]

    def rows(
        self, config: str, split: str | None = None, *, stored: bool = False
    ) -> Iterator[JsonObject]:
        """The rows of a split, or of all splits, streamed; objects are decoded, or as `stored`.
        Raises StoreError."""
        for each in [split] if split else self.splits(config):
            for path in self.files(config, each):
                yield from read_rows(path, stored=stored)

    def samples(self, split: str | None = None) -> Iterator[Sample]:
        """The samples of a split, or of all splits, one at a time. Raises StoreError."""
        return map(self.sample, self.rows("samples", split))

    def sample(self, row: JsonObject) -> Sample:
        """The sample in a row of the config `samples`. Raises StoreError."""
        with self.readable(row):
            return Sample.model_validate({key: json.loads(row[key]) for key in PARTS})

    def parsed(self, row: JsonObject, name: str) -> Any:
        """The JSON in a text column. Raises StoreError."""
        with self.readable(row):
            return json.loads(row[name])

    @contextmanager
    def readable(self, row: JsonObject) -> Iterator[None]:
        """What is wrong with a row, as StoreError."""
        try:
            yield
        except (OSError, *DAMAGE) as error:
            raise StoreError(
                f"{self.path}: the row {row.get('id')} is damaged ({visible(cause(error))}). "
                f"`toolloom verify {self.label}` tells more."
            ) from error

    @property
    def first(self) -> tuple[str, str]:
        """The first config and split with rows to load. Raises StoreError if none has any."""
        for config, splits in self.manifest["configs"].items():
            for split, made in splits.items():
                if made["files"]:
                    return config, split
        raise StoreError(f"{self.path / 'manifest.json'}: is damaged (no config has files).")

    @property
    def load_line(self) -> str:
        """Python that loads it, whatever the working directory."""
        config, split = self.first
        where = json.dumps(str(self.path.resolve()), ensure_ascii=False)
        return f'datasets.load_dataset({where}, "{config}", split="{split}")'


def open_version(path: Path) -> Version:
    """Read a version's manifest. Raises StoreError."""
    where = path / "manifest.json"
    try:
        manifest = json.loads(where.read_bytes())
        check_layout(where, manifest)
        Manifest.model_validate(manifest)
    except OSError as error:
        raise explain(where, error, "read") from error
    except (ValueError, RecursionError) as error:
        raise StoreError(
            f"{where}: is damaged ({cause(error)}). Bring the file back, or move the folder "
            f"{path} out of its dataset."
        ) from error
    return Version(path, manifest)


def cause(error: Exception) -> str:
    """What is wrong with foreign JSON, on one line."""
    if isinstance(error, ValidationError):
        return first_error(error)
    return f"{type(error).__name__}: {' '.join(str(error.__cause__ or error).split())[:200]}"


def check_layout(where: Path, manifest: Any) -> None:
    """Raises StoreError for a manifest of another toolloom."""
    layout = manifest.get("layout", 1) if isinstance(manifest, dict) else LAYOUT
    if layout != LAYOUT:
        is_newer = isinstance(layout, int) and layout > LAYOUT
        raise StoreError(
            f"{where}: was made by {'a newer' if is_newer else 'an older'} toolloom (layout "
            f"{layout}; this one reads {LAYOUT}). "
            + ("Update toolloom." if is_newer else "Run its recipe again to make it anew.")
        )


def is_older(path: Path) -> bool:
    """Whether a version was made by an older toolloom, so that no other can follow from it."""
    try:
        layout = json.loads((path / "manifest.json").read_bytes()).get("layout", 1)
    except (OSError, ValueError, AttributeError):
        return False
    return isinstance(layout, int) and layout < LAYOUT


def numbered(path: Path) -> Number | None:
    """(1, 2, 0) of `1.2.0`; None of what is no version."""
    found = re.fullmatch(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)", path.name)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def numbers(folder: Path) -> list[Number]:
    """The numbers of a dataset's versions, in order."""
    return sorted(number for path in folder.glob("*.*.*") if (number := numbered(path)))


def dotted(number: Number) -> str:
    return ".".join(map(str, number))


def versions(folder: Path) -> list[Version]:
    """A dataset's versions, oldest first. Raises StoreError."""
    return [open_version(folder / dotted(number)) for number in numbers(folder)]


def latest(folder: Path) -> Version | None:
    """The version with the highest number."""
    known = numbers(folder)
    return open_version(folder / dotted(known[-1])) if known else None


def point(folder: Path) -> None:
    """Let `latest` lead to the highest version, if there is any."""
    known, link = numbers(folder), folder / "latest"
    if not known:
        return
    target = dotted(known[-1])
    try:
        if link.is_symlink() and link.readlink() == Path(target):
            return
        temporary = folder / ".latest"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(link)
    except OSError as error:
        raise explain(link, error, "written") from error


def find_version(outputs: Path, name: str) -> Version:
    """The version that a name means. Raises NothingFound that lists what there is, and StoreError
    for a damaged one."""
    return open_version(find_folder(outputs, name))


def find_folder(outputs: Path, name: str) -> Path:
    """The folder of the highest version of `name` or of a dataset's folder, of `name/1.2.0` or
    `name/latest`, or the one at a path.

    Damaged ones are found too. Raises NothingFound that lists what there is.
    """
    # Not methods of a path, which raise at odd names.
    if any(isfile(Path(name) / file) for file in ("manifest.json", "SHA256SUMS")):
        return Path(name).resolve()
    if isdir(name) and (known := numbers(Path(name))):
        return Path(name) / dotted(known[-1])
    root = outputs / "datasets"
    dataset, _, wanted = name.rstrip("/").partition("/")
    known = numbers(root / dataset) if dataset in {p.name for p in root.glob("*")} else []
    for number in reversed(known):
        if wanted in ("", "latest", dotted(number)):
            return root / dataset / dotted(number)
    what = f"version {wanted!r} of {dataset!r}" if wanted and known else f"dataset {name!r}"
    folders = sorted(root.glob("*"))
    found = [f"{path.name}/{dotted(number)}" for path in folders for number in numbers(path)]
    known_ones = f"There are: {', '.join(found)}." if found else "There is none yet."
    raise NothingFound(f"There is no {what} in {root}. {known_ones}")


def following(known: list[Number], parent: Version | None, made: JsonObject) -> Number:
    """The number of a version that is made of `parent`: free, and higher than the parent's. `made`:
    its manifest. Raises nothing: there is always a next number."""
    if parent is None:
        return (known[-1][0] + 1, 0, 0) if known else (1, 0, 0)
    major, minor, _ = numbered(Path(parent.number)) or (1, 0, 0)
    match change(parent.manifest, made):
        case "major":
            return known[-1][0] + 1, 0, 0
        case "minor":
            return major, 1 + max(n[1] for n in known if n[0] == major), 0
        case _:
            return major, minor, 1 + max(n[2] for n in known if n[:2] == (major, minor))


def change(before: JsonObject, after: JsonObject) -> str:
    """What kind of change lies between two manifests: major, minor or patch."""
    if before["layout"] != after["layout"] or before["plan"] != after["plan"]:
        return "major"
    for config in ("samples", "instructions"):
        old, new = (hashes_of(manifest, config) for manifest in (before, after))
        for split in Split:
            # A test that comes anew disturbs nobody; one that changes or goes does.
            if split is not Split.TRAIN and split in old and old[split] != new.get(split):
                return "major"
    shown = ("samples", "instructions", "planning")
    same = all(hashes_of(before, config) == hashes_of(after, config) for config in shown)
    return "patch" if same else "minor"


def hashes_of(manifest: JsonObject, config: str) -> dict[str, list[str]]:
    """The hashes of the rows of each split."""
    made = manifest["configs"].get(config, {})
    return {split: [f["sha256"] for f in told["files"].values()] for split, told in made.items()}


def check_home(version: Version, outputs: Path) -> None:
    """Raises PublishError for a version that is not where its next one will be."""
    home = outputs / "datasets" / version.name
    if version.path.resolve().parent != home.resolve():
        raise PublishError(
            f"{version.path}: is not in {home}, where its next version would be. Copy it there, "
            "or name the folder of outputs it is in with --outputs."
        )
