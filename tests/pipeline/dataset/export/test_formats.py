"""Rows of single calls, of calls as text and of preferences, written out by hand after each format's
documentation, and the table of formats held against docs/exports.md."""

from __future__ import annotations

import ast
import json
import re
import sys
import types
from pathlib import Path
from random import Random
from typing import Any

import pandas
import pytest
from support.shop import Shop, changed

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.dataset.export.exporting import export
from toolloom.pipeline.dataset.export.formats import FORMATS, format_named
from toolloom.pipeline.formats import bfcl as reader
from toolloom.pipeline.formats.api_bank import api_bank
from toolloom.pipeline.formats.base import ExportPlace, NotRepresentable, number_of
from toolloom.pipeline.formats.bfcl import _allowed, _dialect, bfcl
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.preferences import DEFECTS, Turn, _dialogue, trl_dpo
from toolloom.pipeline.formats.sharegpt import dataset_info, hermes, llamafactory
from toolloom.pipeline.formats.toolllama import toolllama
from toolloom.pipeline.formats.xlam import xlam
from toolloom.pipeline.store.tables import read_rows
from toolloom.schemas import Sample

SYSTEM = "You call APIs. The present moment is Monday 2026-03-02 09:30."


def test_xlam_has_text_of_json_and_flat_parameters(samples: dict[str, Sample]) -> None:
    """xLAM-60k's four fields: types as in Python, optional ones marked, defaults given."""
    exported = xlam(samples["parallel"], "object")
    assert exported.rows == (
        (
            "sft",
            {
                "id": 7000002,
                "query": "What is the weather in Zürich, and what is it in Oslo?",
                "tools": '[{"name": "current_weather", "description": "Current weather of a city.",'
                ' "parameters": {"city": {"description": "Name of the city.", "type": "str"}, '
                '"unit": {"description": "", "type": "str, optional", "default": "celsius"}}}, '
                '{"name": "find_trains", "description": "Trains to a city.", "parameters": '
                '{"city": {"description": "", "type": "str"}, '
                '"seats": {"description": "", "type": "int"}}}]',
                "answers": '[{"name": "current_weather", "arguments": {"city": "Zürich"}}, '
                '{"name": "current_weather", "arguments": {"city": "Oslo"}}]',
            },
        ),
    )
    assert "observations" in exported.lost


def test_bfcl_has_a_question_and_possible_answers(samples: dict[str, Sample]) -> None:
    """BFCL v4's two files: its type names, and lists of allowed values with "" for leaving out."""
    city = {"type": "string", "description": "Name of the city."}
    unit = {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"}
    weather = {"properties": {"city": city, "unit": unit}, "required": ["city"]}
    seats = {"city": {"type": "string"}, "seats": {"type": "integer"}}
    trains = {"properties": seats, "required": ["city", "seats"]}
    asked = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": "What is the weather in Zürich?"},
    ]
    functions = [
        {"name": name, "description": text, "parameters": {"type": "dict", **parameters}}
        for name, text, parameters in (
            ("current_weather", "Current weather of a city.", weather),
            ("find_trains", "Trains to a city.", trains),
        )
    ]
    identity, allowed = "multiple_7000001", {"city": ["Zürich"], "unit": ["celsius", ""]}
    question = {"id": identity, "question": [asked], "function": functions}
    answers = {"id": identity, "ground_truth": [{"current_weather": allowed}]}
    rows = (("multiple", question), ("multiple answers", answers))
    assert bfcl(samples["single"], "object").rows == rows


def test_no_call_is_an_answer_too(samples: dict[str, Sample]) -> None:
    """Irrelevance: xLAM's answers are empty, BFCL has a question and no answer."""
    ((_, row),) = xlam(samples["irrelevance"], "object").rows
    assert row["answers"] == "[]"
    assert [part for part, _ in bfcl(samples["irrelevance"], "object").rows] == ["irrelevance"]


@pytest.mark.parametrize("write", [xlam, bfcl])
@pytest.mark.parametrize(
    ("kind", "why"),
    [("search", "searched for before"), ("clarification", "asks before it calls")],
)
def test_more_than_one_round_has_no_place(
    write: Any, kind: str, why: str, samples: dict[str, Sample]
) -> None:
    """What needs more than one round of calls is left out, with its reason."""
    with pytest.raises(NotRepresentable, match=why):
        write(samples[kind], "object")


@pytest.mark.parametrize("write", [xlam, bfcl])
def test_later_turns_are_told_as_lost(write: Any, samples: dict[str, Sample]) -> None:
    """Of several turns the first is held; of an error the first call."""
    assert "the user's later turns" in write(samples["multi_turn"], "object").lost
    assert "what follows an error" in write(samples["recovery"], "object").lost


def test_bfcl_types_are_its_own_at_every_depth() -> None:
    """A property called `type` is no type, and values are left as they are."""
    schema = {
        "type": "object",
        "properties": {
            "type": {"type": "number", "enum": [1]},
            "many": {"type": "array", "items": {"type": ["object", "null"], "properties": {}}},
            "any": {"type": ["string", "integer"], "default": {"type": "object"}},
        },
    }
    assert _dialect(schema) == {
        "type": "dict",
        "properties": {
            "type": {"type": "float", "enum": [1]},
            "many": {"type": "array", "items": {"type": "dict", "properties": {}}},
            "any": {"type": "any", "default": {"type": "object"}},
        },
    }


def test_bfcl_lists_the_values_of_an_objects_keys() -> None:
    """As in BFCL's own answers: an object's keys have lists, and so have those of a list's."""
    call = {"name": "f", "arguments": {"a": {"x": 1}, "b": [{"y": [2]}], "c": [3, 4]}}
    assert _allowed(call, None) == {"f": {"a": [{"x": [1]}], "b": [[{"y": [[2]]}]], "c": [[3, 4]]}}


def test_bfcl_functions_import_again(samples: dict[str, Sample], tmp_path: Any) -> None:
    """The importer of BFCL's files reads the schemas back as they were."""
    path = tmp_path / "BFCL_v4_multiple.json"
    path.write_text(json.dumps(bfcl(samples["single"], "object").rows[0][1]) + "\n")
    apis = list(reader.read(path, ImportLog(str(path))))
    assert [(api.function, api.parameters) for api in apis] == [
        (api.function, api.parameters) for api in samples["single"].dialogue.query.pool
    ]


@pytest.mark.parametrize("seed", ["7", "1700000000", str(2**63)])
def test_samples_have_numbers_of_their_own(seed: str, samples: dict[str, Sample]) -> None:
    """Whatever the length of the seed: BFCL pairs questions with answers by them."""
    sample = samples["single"]
    numbers = {number_of(changed(sample, id=f"train-{seed}-{n:06d}")) for n in range(30)}
    assert len(numbers) == 30
    assert max(numbers) < 10**15


def test_a_parameter_may_have_a_schema_that_is_just_true(samples: dict[str, Sample]) -> None:
    """JSON Schema has `true` for a schema; it has no default that could be left out."""
    (first, _) = samples["single"].dialogue.query.pool
    api = first.model_copy(update={"parameters": {"properties": {"city": True}}})
    call = {"name": api.function, "arguments": {}}
    assert _allowed(call, api) == {api.function: {}}


def only(exported: Any) -> Any:
    ((_, row),) = exported.rows
    return row


def test_llamafactory_joins_the_results_of_one_turn(samples: dict[str, Sample]) -> None:
    """Its loader wants human and observation in odd places, gpt and function_call in even ones."""
    assert only(llamafactory(samples["parallel"], "object")) == {
        "conversations": [
            {"from": "human", "value": "What is the weather in Zürich, and what is it in Oslo?"},
            {
                "from": "function_call",
                "value": '[{"name": "current_weather", "arguments": {"city": "Zürich"}}, '
                '{"name": "current_weather", "arguments": {"city": "Oslo"}}]',
            },
            {
                "from": "observation",
                "value": '[{"response": {"degrees": 7}, "error": null}, '
                '{"response": {"degrees": -2}, "error": null}]',
            },
            {"from": "gpt", "value": "It is 7 degrees in Zürich and -2 degrees in Oslo."},
        ],
        "system": SYSTEM,
        "tools": '[{"name": "current_weather", "description": "Current weather of a city.", '
        '"parameters": {"type": "object", "properties": {"city": {"type": "string", '
        '"description": "Name of the city."}, "unit": {"type": "string", "enum": ["celsius", '
        '"kelvin"], "default": "celsius"}}, "required": ["city"]}}, {"name": "find_trains", '
        '"description": "Trains to a city.", "parameters": {"type": "object", "properties": '
        '{"city": {"type": "string"}, "seats": {"type": "integer"}}, "required": ["city", '
        '"seats"]}}]',
    }


def test_llamafactory_gets_its_entry() -> None:
    """`dataset_info.json` has an entry for each split, with the columns of the rows."""
    notes = dataset_info(ExportPlace("shop", ("train", "test_tool"), "/x"))
    columns = {"messages": "conversations", "system": "system", "tools": "tools"}
    assert json.loads(notes["dataset_info.json"]) == {
        f"shop_{split}": {
            "file_name": f"{split}.jsonl",
            "formatting": "sharegpt",
            "columns": columns,
        }
        for split in ("train", "test_tool")
    }


def test_hermes_has_json_between_tags(samples: dict[str, Sample]) -> None:
    """Calls, tools and results stand between Hermes' tags; results of one turn in one turn.

    The column holds the same tools as the system turn.
    """
    row = only(hermes(samples["parallel"], "object"))
    assert row["id"] == "train-7-000002"
    assert f"<tools>\n{row['tools']}\n</tools>" in row["conversations"][0]["value"]
    assert row["conversations"][1:] == [
        {"from": "human", "value": "What is the weather in Zürich, and what is it in Oslo?"},
        {
            "from": "gpt",
            "value": "<tool_call>\n"
            '{"name": "current_weather", "arguments": {"city": "Zürich"}}\n'
            "</tool_call>\n"
            "<tool_call>\n"
            '{"name": "current_weather", "arguments": {"city": "Oslo"}}\n'
            "</tool_call>",
        },
        {
            "from": "tool",
            "value": "<tool_response>\n"
            '{"name": "current_weather", "content": {"response": {"degrees": 7}, "error": null}}\n'
            "</tool_response>\n"
            "<tool_response>\n"
            '{"name": "current_weather", "content": {"response": {"degrees": -2}, "error": null}}\n'
            "</tool_response>",
        },
        {"from": "gpt", "value": "It is 7 degrees in Zürich and -2 degrees in Oslo."},
    ]


def test_api_bank_has_a_row_for_each_request_and_reply(samples: dict[str, Sample]) -> None:
    """API-Bank's three fields; requests before stand with their results behind an arrow."""
    first, second, third = [row for _, row in api_bank(samples["recovery"], "object").rows]
    described = (
        '{"name": "current_weather", "description": "Current weather of a city.", '
        '"input_parameters": {"city": {"type": "str", "description": "Name of the city."}, '
        '"unit": {"type": "str", "description": "Optional."}}, '
        '"output_parameters": {"degrees": {"type": "float", "description": ""}}}\n'
        '{"name": "find_trains", "description": "Trains to a city.", '
        '"input_parameters": {"city": {"type": "str", "description": ""}, '
        '"seats": {"type": "int", "description": ""}}, "output_parameters": {}}\n'
    )
    asked = "User: What is the weather in Zürich?\n"
    request = "API-Request: [current_weather(city='Zürich')]"
    assert first["input"] == f"{described}{asked}Generate API Request: "
    assert first["output"] == request
    failed = f'{request}->{{"error": "503 Service Unavailable"}}\n'
    assert second["input"] == f"{described}{asked}{failed}Generate API Request: "
    assert second["output"] == request
    worked = f'{request}->{{"degrees": 7}}\n'
    assert third["input"] == f"{described}{asked}{failed}{worked}Generate AI Response: "
    assert third["output"] == "AI: It is 7 degrees in Zürich."
    assert SYSTEM in first["instruction"]


def test_api_bank_requests_parse_back(samples: dict[str, Sample]) -> None:
    """What is written reads back as the calls of the dialogue."""
    for sample in samples.values():
        made = [row["output"] for _, row in api_bank(sample, "object").rows]
        read = [call for text in made if "API-Request" in text for call in parse(text)]
        assert read == [call.function for _, call in sample.dialogue.calls()]


def test_toolllama_has_a_row_for_each_action(samples: dict[str, Sample]) -> None:
    """Rows end with an action; the last action is Finish, and parallel calls follow each other."""
    made = [row for _, row in toolllama(samples["parallel"], "object").rows]
    asked = "What is the weather in Zürich, and what is it in Oslo?"
    assert [row["id"] for row in made] == [f"Step {n}: {asked}" for n in (2, 4, 6)]
    assert made[2]["conversations"][1:] == [
        {"from": "user", "value": f"\n{asked}\nBegin!\n"},
        {
            "from": "assistant",
            "value": '\nThought: \nAction: current_weather\nAction Input: {"city": "Zürich"}',
        },
        {"from": "function", "value": '{"error": "", "response": {"degrees": 7}}'},
        {
            "from": "assistant",
            "value": '\nThought: \nAction: current_weather\nAction Input: {"city": "Oslo"}',
        },
        {"from": "function", "value": '{"error": "", "response": {"degrees": -2}}'},
        {
            "from": "assistant",
            "value": '\nThought: \nAction: Finish\nAction Input: {"return_type": "give_answer", '
            '"final_answer": "It is 7 degrees in Zürich and -2 degrees in Oslo."}',
        },
    ]


def test_toolllama_functions_are_a_python_list(samples: dict[str, Sample]) -> None:
    """As ToolBench writes them, with `optional` beside `required`, and Finish at the end."""
    _, row = toolllama(samples["irrelevance"], "object").rows[0]
    written = row["conversations"][0]["value"].partition("these functions: ")[2]
    functions = ast.literal_eval(written)
    names = [function["name"] for function in functions]
    assert names == ["current_weather", "find_trains", "Finish"]
    assert functions[0]["parameters"]["required"] == ["city"]
    assert functions[0]["parameters"]["optional"] == ["unit"]


def test_toolllama_says_what_it_leaves_out(samples: dict[str, Sample]) -> None:
    """A question back has no place in it; of several user turns the first is held."""
    with pytest.raises(NotRepresentable, match="asks before it calls"):
        toolllama(samples["clarification"], "object")
    exported = toolllama(samples["multi_turn"], "object")
    assert exported.lost == ("the user's later turns",)
    assert len(exported.rows) == 2
    assert "that calls are made at once" in toolllama(samples["parallel"], "object").lost


KINDS = ["single", "parallel", "clarification", "recovery", "search", "multi_turn"]


def test_a_pair_is_a_call_and_the_same_turn_spoilt(samples: dict[str, Sample]) -> None:
    """TRL's preference columns, with the tools and the defect that was planted."""
    function = {"name": "current_weather", "arguments": {"city": "Zürich"}}
    call = {"id": "call_0", "type": "function", "function": function}
    assert trl_dpo(samples["single"], "object").rows[0][1] | {"tools": "…"} == {
        "prompt": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "What is the weather in Zürich?"},
        ],
        "chosen": [{"role": "assistant", "content": "", "tool_calls": [call]}],
        "rejected": [{"role": "assistant", "content": "It is 7 degrees in Zürich."}],
        "tools": "…",
        "defect": "no_call",
        "reason": "no_api_call",
    }


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


def test_nothing_called_makes_no_pair(samples: dict[str, Sample]) -> None:
    """A dialogue without calls is left out, with its reason."""
    with pytest.raises(NotRepresentable, match="nothing is called"):
        trl_dpo(samples["irrelevance"], "object")


def test_pairs_are_the_same_each_time(samples: dict[str, Sample]) -> None:
    """The draw depends on the sample's id alone."""
    again = [trl_dpo(samples[kind], "object") for kind in KINDS]
    assert again == [trl_dpo(samples[kind], "object") for kind in KINDS]
    assert len({row["defect"] for one in again for _, row in one.rows}) > 3


def test_defects_take_a_schema_that_is_just_true_for_one_that_says_nothing(
    samples: dict[str, Sample],
) -> None:
    """JSON Schema has `true` for a schema."""
    weather, *others = samples["single"].dialogue.query.pool
    loose = weather.model_copy(update={"parameters": {"properties": {"city": True}}})
    sample = changed(samples["single"], pool=(loose, *others))
    for defect in DEFECTS:
        defect.spoil(Turn(sample, 2), Random(1))


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
