"""What docs/exports.md says, held against the code."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pandas
import pytest
from support.shop import Shop

from toolloom.pipeline.dataset.export.exporting import export
from toolloom.pipeline.dataset.export.formats import FORMATS, format_named
from toolloom.pipeline.formats.preferences import DEFECTS
from toolloom.pipeline.store.tables import read_rows
from toolloom.schemas import Sample

PAGE = (Path(__file__).parents[4] / "docs" / "exports.md").read_text(encoding="utf-8")


def cells(count: int) -> list[tuple[str, ...]]:
    """The code in cells of the table's rows that begin with code."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    return [tuple(row) for row in rows if len(row) == count]


def test_the_table_has_every_format_with_its_arguments() -> None:
    """Names in order; where there is a choice, the default first."""
    rows = cells(5)
    assert [row[0].strip("`") for row in rows] == [one.name for one in FORMATS]
    for row, format_ in zip(rows, FORMATS, strict=True):
        if len(format_.arguments) == 2:
            assert re.findall("`([a-z]+)`", row[3]) == list(format_.arguments)
        else:
            assert "`" not in row[3]


def test_the_table_has_every_defect_with_its_reason() -> None:
    """In the order of the code."""
    rows = [row for row in cells(3) if row[2].startswith("`")]
    told = [(row[0].strip("`"), row[2].strip("`")) for row in rows][1:]  # without the head
    assert told == [(one.name, one.reason.value) for one in DEFECTS]


class StandIn:
    """What verl's dataset does with Parquet, without what it does with a tokenizer."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_files_and_process()

    def _read_files_and_process(self) -> None:
        self.dataframe = pandas.read_parquet(self._path, dtype_backend="pyarrow")
        self.tools = [list(tools) for tools in self.dataframe["tools"]]

    def _build_messages(self, example: dict[str, Any]) -> Any:
        return list(example["messages"])


def test_the_recipe_for_verl_gives_back_what_the_dialogue_held(
    samples: dict[str, Sample], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read as verl reads it, with the page's subclass, a row is the same as TRL's."""
    name = "verl.utils.dataset.multiturn_sft_dataset"
    module = types.ModuleType(name)
    module.MultiTurnSFTDataset = StandIn  # type: ignore[attr-defined]
    for part in ("verl", "verl.utils", "verl.utils.dataset"):
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    monkeypatch.setitem(sys.modules, name, module)
    found = re.search(r"```text\n(import json\nfrom verl.*?)```", PAGE, re.DOTALL)
    assert found
    made: dict[str, Any] = {}
    exec(found[1], made)
    for format_ in ("verl", "trl"):
        export(Shop({"train": samples.values()}), format_named(format_), tmp_path / format_)
    loaded = made["ToolDialogues"](tmp_path / "verl" / "sft" / "train.parquet")
    for place, row in enumerate(read_rows(tmp_path / "trl" / "train.parquet")):
        assert loaded._build_messages(loaded.dataframe.iloc[place].to_dict()) == row["messages"]
        assert loaded.tools[place] == row["tools"]
