"""Rows whose calls are text, written out by hand after the documentation of each format."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.formats.api_bank import api_bank
from toolloom.pipeline.formats.base import ExportPlace, NotRepresentable
from toolloom.pipeline.formats.sharegpt import dataset_info, hermes, llamafactory
from toolloom.pipeline.formats.toolllama import toolllama
from toolloom.schemas import Sample

SYSTEM = "You call APIs. The present moment is Monday 2026-03-02 09:30."


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
