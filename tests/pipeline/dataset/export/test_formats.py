"""What a format's documentation asks of single calls, calls as text and preferences, and the table of
formats held against docs/exports.md."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter
from support.shop import Shop, changed, with_arguments

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.exporting import FORMATS, export
from toolloom.pipeline.formats.base import number_of
from toolloom.pipeline.formats.chat import openai
from toolloom.pipeline.formats.preferences import DEFECTS, Turn, _dialogue, trl_dpo
from toolloom.pipeline.store.version import read_rows
from toolloom.schemas import Sample


def test_openai_rows_fit_the_types_of_its_package(samples: dict[str, Sample]) -> None:
    """Every message and tool validates as the SDK's own parameter."""
    message = TypeAdapter(ChatCompletionMessageParam)
    tool = TypeAdapter(ChatCompletionToolParam)
    for sample in samples.values():
        ((_, row),) = openai(sample, "string").rows
        for one in row["messages"]:
            message.validate_python(one)
        for one in row["tools"]:
            tool.validate_python(one)
        assert row["parallel_tool_calls"] is (sample.id.endswith("2"))


@pytest.mark.parametrize("seed", ["7", "1700000000", str(2**63)])
def test_samples_have_numbers_of_their_own(seed: str, samples: dict[str, Sample]) -> None:
    """Whatever the length of the seed: verl tells rows apart by them."""
    sample = samples["single"]
    numbers = {number_of(changed(sample, id=f"train-{seed}-{n:06d}")) for n in range(30)}
    assert len(numbers) == 30
    assert max(numbers) < 10**15


KINDS = ["single", "parallel", "clarification", "recovery", "search", "multi_turn"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_calling_turn_has_a_pair_that_the_checks_tell_apart(
    kind: str, samples: dict[str, Sample]
) -> None:
    """The accepted dialogue has no finding; with the rejected turn it has the pair's own."""
    sample = samples[kind]
    assert inspect(sample.dialogue) == ()
    made = trl_dpo(sample, "object").rows
    assert len(made) == sum(bool(m.tool_calls) for m in sample.dialogue.messages)
    assert all(row["chosen"] != row["rejected"] for _, row in made)


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect_is_found_under_its_own_reason(defect: Any, samples: dict[str, Sample]) -> None:
    """In at least one sample it applies, and the checks name it."""
    found = []
    for kind in KINDS:
        messages = samples[kind].dialogue.messages
        for place, message in enumerate(messages):
            turn = Turn(samples[kind], place)
            spoilt = defect.spoil(turn, Random(1)) if message.tool_calls else None
            if spoilt:
                found += [f.reason for f in inspect(_dialogue(turn, spoilt))]
    if defect.name == "outside_enum":
        assert not found  # no sample gives a value of an enum
    else:
        assert defect.reason in found


def test_defects_take_any_schema_and_value(samples: dict[str, Sample]) -> None:
    """JSON Schema has `true` for one that says nothing; a list of the wrong type is its value."""
    weather, *others = samples["single"].dialogue.query.pool
    loose = weather.model_copy(update={"parameters": {"properties": {"city": True}}})
    sample = with_arguments(samples["single"], {"city": ["Bern"]})
    for pool in ((weather, *others), (loose, *others)):
        turn = Turn(changed(sample, pool=pool), 2)
        spoilt = {one.name: one.spoil(turn, Random(1)) for one in DEFECTS}
        assert (turned := spoilt["wrong_type"])
        assert turned.tool_calls[0].function.arguments == {"city": "Bern"}


PAGE = (Path(__file__).parents[4] / "docs" / "exports.md").read_text(encoding="utf-8")


def cells(count: int) -> list[tuple[str, ...]]:
    """The code in cells of the table's rows that begin with code."""
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    return [tuple(row) for row in rows if len(row) == count]


def test_the_table_has_every_format_with_its_arguments() -> None:
    """Names in order; where there is a choice, the default first."""
    rows = cells(5)
    assert [row[0].strip("`") for row in rows] == [*FORMATS]
    for row, format_ in zip(rows, FORMATS.values(), strict=True):
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
        export(Shop({"train": samples.values()}), FORMATS[format_], tmp_path / format_)
    loaded = made["ToolDialogues"](tmp_path / "verl" / "sft" / "train.parquet")
    for place, row in enumerate(read_rows(tmp_path / "trl" / "train.parquet")):
        assert loaded._build_messages(loaded.dataframe.iloc[place].to_dict()) == row["messages"]
        assert loaded.tools[place] == row["tools"]
