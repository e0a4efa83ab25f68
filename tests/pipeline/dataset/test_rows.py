"""Rows and their models: columns, the table of the docs, and a config that is added."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
from pydantic import Field
from support import finished_runs, toys
from support.tampered import fix, found, rows_of
from test_docs import block

from toolloom.pipeline.dataset import rows
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.rows import CONFIGS, configs_of
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.dataset.verify_files import FaultKind
from toolloom.pipeline.store.tables import Config, TableRow
from toolloom.schemas import Api, Instruction, JsonObject, Reason, Record, Rejected, Sample

DOCS = Path(__file__).parents[3] / "docs" / "datasets.md"
RECORDS: list[tuple[type[Record], Record]] = [
    (Sample, toys.sample()),
    (Instruction, finished_runs.levels()[0]),
    (Rejected, toys.rejected(toys.query(), "tested", Reason.UNHELPFUL_ANSWER)),
    (Api, toys.api()),
]


@pytest.mark.parametrize(("origin", "record"), RECORDS)
def test_rows_have_the_columns_of_their_model(origin: type[Record], record: Record) -> None:
    """In any order when they are made, and of its types."""
    for config in configs_of(origin):
        for row in config.row.of(record.model_dump(mode="json")):
            assert {*row} == {*config.columns}
            config.row.model_validate(row, strict=True)


def columns_table() -> str:
    """The columns of all configs, as the docs have them."""
    forms = {
        "text": "text",
        "json": "text",
        "number": "number",
        "texts": "list of text",
        "objects": "list of objects",
    }
    lines = ["| Config | Column | Form | What it holds |", "| --- | --- | --- | --- |"]
    for config in CONFIGS:
        for name, column in config.columns.items():
            lines.append(f"| `{config.name}` | `{name}` | {forms[column.kind]} | {column.about} |")
    return "\n".join(lines)


def test_the_docs_have_every_column() -> None:
    """`python tests/pipeline/dataset/test_rows.py` writes the table."""
    assert block(DOCS.read_text(encoding="utf-8"), "columns") == columns_table()


class TurnsRow(TableRow):
    """What is said in accepted dialogues, message by message."""

    id: str = Field(description="Id of the dialogue, and the number of the message.")
    said: list[JsonObject] = Field(description="Role and content.")

    @classmethod
    def of(cls, record: JsonObject) -> Iterable[JsonObject]:
        messages = record["dialogue"]["messages"]
        name = record["dialogue"]["query"]["id"]
        for place, message in enumerate(messages):
            said = {key: message[key] for key in ("role", "content")}
            yield {"id": f"{name}/{place}", "said": [said]}


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A version with a config more: its model, and one line in the tuple of configs."""
    monkeypatch.setattr(rows, "CONFIGS", (*CONFIGS, Config("turns", TurnsRow)))
    run = finished_runs.run(tmp_path, toys.recipe(), [toys.sample()], [finished_runs.expansion()])
    return publish(run, tmp_path).path


def test_a_config_is_a_model_and_a_line(turns: Path, tmp_path: Path) -> None:
    """It is in Parquet, on the card and in what `datasets` loads, templates' rows included."""
    table = pq.read_table(turns / "turns" / "train-00000-of-00001.parquet")
    assert table.column_names == ["id", "said"] and len(table) == 4 * 4
    card = (turns / "README.md").read_text()
    assert "### `turns`: what is said in accepted dialogues, message by message" in card
    assert "- `said`: Role and content." in card
    cache = str(tmp_path / "hf")
    loaded: Any = datasets.load_dataset(str(turns), "turns", split="train", cache_dir=cache)
    assert loaded[4]["id"] == "q0-x000000/0" and loaded[4]["said"][0]["role"] == "user"


def test_a_config_more_is_verified(turns: Path) -> None:
    """Its rows are held against the records that they are made of."""
    assert not found(verify(turns), FaultKind.TRAINING) and not found(
        verify(turns), FaultKind.TABLE
    )
    path = turns / "turns" / "train-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    fix(turns)
    (fault,) = found(verify(turns), FaultKind.TRAINING)
    assert fault.detail == "has 3 rows in `turns` at its place, not 4"
    assert fault.row == rows_of(turns, "samples", "train")[0]["id"]


if __name__ == "__main__":
    text = DOCS.read_text(encoding="utf-8")
    new = f"<!-- columns -->\n{columns_table()}\n<!-- /columns -->"
    DOCS.write_text(re.sub(r"<!-- columns -->.*<!-- /columns -->", lambda _: new, text, flags=re.S))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_columns_are_known_without_datasets(config: Config) -> None:
    """`types` are those of `schema`, which only `datasets` can tell to the last letter."""
    assert config.types.equals(config.schema)
