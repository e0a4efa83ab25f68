"""The configs of a dataset, as Parquet that `datasets.load_dataset` reads.

`datasets` reads Json features with pandas' ujson, which rounds floats of more than 15 digits and
stops with an error at integers over 64 bits. A training row that would not come back exactly as
it went in is left out of `training`; it is whole in `samples`, which holds JSON as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolloom.pipeline.jsonl import explain, to_text
from toolloom.pipeline.report import need_of
from toolloom.pipeline.store import RunFolder, batches
from toolloom.schemas import API_SEARCH, JsonObject, Message, Sample

if TYPE_CHECKING:
    import pyarrow as pa
    from datasets import Features

ROWS_IN_GROUP = 1_000  # what is in memory at once
ROWS_IN_FILE = 100_000
PARTS = ("dialogue", "verdict", "provenance")  # of a Sample


@dataclass(frozen=True)
class Column:
    """A column: how it is stored, and what the card says of it."""

    kind: str  # "text", "texts" or "objects"
    about: str


@dataclass(frozen=True)
class Config:
    """A config of the dataset: its columns, and how its rows are made of a run."""

    name: str
    about: str
    columns: dict[str, Column]
    rows: Callable[[RunFolder], Iterator[JsonObject | None]]  # None: a row that is left out


@dataclass(frozen=True)
class Written:
    """What was written of a config."""

    rows: int
    left_out: int
    files: tuple[Path, ...]


def training_row(sample: Sample) -> JsonObject:
    """A sample as a trainer takes it. In the retrieve abilities API Search is the only tool."""
    query = sample.dialogue.query
    tools = (API_SEARCH,) if query.ability.searches else query.pool
    return {
        "id": sample.id,
        "ability": query.ability.value,
        "scenario": query.scenario.value,
        "messages": [chat_message(message) for message in sample.dialogue.messages],
        "tools": [api.as_tool() for api in tools],
        "observations": [m.execution.kind for m in sample.dialogue.messages if m.execution],
    }


def chat_message(message: Message) -> JsonObject:
    """OpenAI's form; keys without a value are left out, as chat templates ask if they are there."""
    dumped = message.model_dump(mode="json", exclude={"execution"})
    return {key: value for key, value in dumped.items() if value is not None and value != []}


def reads_back(row: JsonObject) -> bool:
    """Whether `datasets` will give back this row's JSON exactly, integers as integers."""
    from datasets.utils.json import ujson_loads

    try:
        texts = [to_text(v) for v in (*row["messages"], *row["tools"])]
        return all(to_text(ujson_loads(text)) == text for text in texts)
    except ValueError:
        return False


def _training(folder: RunFolder) -> Iterator[JsonObject | None]:
    for row in folder.accepted():
        made = training_row(Sample.model_validate(row))
        yield made if reads_back(made) else None


def _samples(folder: RunFolder) -> Iterator[JsonObject | None]:
    for row in folder.accepted():
        need = need_of(row)
        kinds = {key: need[key] for key in ("ability", "scenario")}
        parts = {key: to_text(row[key]) for key in PARTS}
        yield {"id": need["id"], **kinds, **parts}


def _rejected(folder: RunFolder) -> Iterator[JsonObject | None]:
    for row in folder.rejected():
        texts = {key: to_text(row[key]) for key in ("findings", "record", "provenance")}
        yield {**row, **texts}


_ID = Column("text", "Id of the record in its run.")
_KINDS = {
    "ability": Column("text", "`call`, `retrieve_call` or `plan_retrieve_call` (API-Bank)."),
    "scenario": Column("text", "What the dialogue exercises, such as `parallel`."),
}

CONFIGS = (
    Config(
        "training",
        "accepted dialogues in OpenAI's chat form, each with its own tools",
        {
            "id": _ID,
            **_KINDS,
            "messages": Column("objects", "Chat messages; arguments of calls are objects."),
            "tools": Column("objects", "The tools the assistant was given, distractors included."),
            "observations": Column(
                "texts",
                "How each tool message came about, in order: `executed`, `simulated`, `planned` "
                "(a fault that was drawn) or `search`.",
            ),
        },
        _training,
    ),
    Config(
        "samples",
        "the same dialogues with all that is known of them, to check or convert again",
        {
            "id": _ID,
            **_KINDS,
            "dialogue": Column("text", "JSON: the query with its intent and pool, the messages."),
            "verdict": Column("text", "JSON: findings (none) and the tester's votes."),
            "provenance": Column("text", "JSON: the tester's share in the record."),
        },
        _samples,
    ),
    Config(
        "rejected",
        "what did not pass a stage, and why",
        {
            "id": _ID,
            "stage": Column("text", "The stage that rejected it."),
            "agent": Column("text", "The agent whose work was rejected."),
            "reason": Column("text", "Code of the first reason."),
            "detail": Column("text", "What is wrong, in a sentence."),
            "findings": Column("text", "JSON: all findings."),
            "record": Column("text", "JSON: the record as far as it came."),
            "raw": Column("texts", "The model's raw responses, in order."),
            "provenance": Column("text", "JSON: how it was made."),
        },
        _rejected,
    ),
)


def read_samples(dataset: Path) -> Iterator[Sample]:
    """The samples of a published version, one at a time, without `datasets` and its cache."""
    import pyarrow.parquet as pq

    for path in sorted((dataset / "samples").glob("train-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(1, columns=list(PARTS)):
            for row in batch.to_pylist():
                yield Sample.model_validate({key: json.loads(row[key]) for key in PARTS})


def write_config(config: Config, run: RunFolder, folder: Path) -> Written:
    """Write a config's Parquet files to `folder`. Raises StoreError; no rows: no files."""
    left_out = 0

    def kept() -> Iterator[JsonObject]:
        nonlocal left_out
        for row in config.rows(run):
            if row is None:
                left_out += 1
            else:
                yield row

    try:
        counts = [
            _write_file(config, rows, folder / f"{number}.parquet")
            for number, rows in enumerate(_files(kept()))
        ]
        return Written(sum(counts), left_out, tuple(_named(folder, len(counts))))
    except OSError as error:
        raise explain(folder, error, "written") from error


def _files(rows: Iterator[JsonObject]) -> Iterator[Iterator[JsonObject]]:
    """The rows of each file; each part must be used up before the next is taken."""
    for first in rows:
        yield chain([first], islice(rows, ROWS_IN_FILE - 1))


def _write_file(config: Config, rows: Iterable[JsonObject], path: Path) -> int:
    import pyarrow.parquet as pq

    features, count = features_of(config), 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with pq.ParquetWriter(path, features.arrow_schema, compression="zstd") as writer:
        for group in batches(rows, ROWS_IN_GROUP):
            writer.write_table(_table(features, group))
            count += len(group)
    return count


def _named(folder: Path, count: int) -> Iterator[Path]:
    """Give the files the names the Hub expects, which hold how many there are."""
    for number in range(count):
        path = folder / f"train-{number:05d}-of-{count:05d}.parquet"
        (folder / f"{number}.parquet").rename(path)
        yield path


def features_of(config: Config) -> Features:
    """The `datasets` features of a config; they travel in the Parquet schema."""
    from datasets import Features, Json, List, Value

    kinds = {"text": Value("string"), "texts": List(Value("string")), "objects": List(Json())}
    return Features({name: kinds[column.kind] for name, column in config.columns.items()})


def _table(features: Features, rows: list[JsonObject]) -> pa.Table:
    import pyarrow as pa

    schema = features.arrow_schema
    arrays = [_array([row[field.name] for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """pyarrow cannot make lists of JSON itself: they are made of their text."""
    import pyarrow as pa

    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type):
        return pa.array(values, type=kind)
    texts = pa.array([[to_text(v) for v in value] for value in values], pa.list_(pa.string()))
    inner = pa.ExtensionArray.from_storage(pa.json_(), texts.values)
    return pa.ListArray.from_arrays(texts.offsets, inner, type=kind)
