"""Rows of chat messages, written out by hand after the documentation of each trainer."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import TypeAdapter
from support.shop import with_arguments

from toolloom.pipeline.formats.base import ExportPlace
from toolloom.pipeline.formats.chat import axolotl, axolotl_notes, openai, trl, verl
from toolloom.schemas import Sample

SYSTEM = {
    "role": "system",
    "content": "You call APIs. The present moment is Monday 2026-03-02 09:30.",
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city."},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
    },
    "required": ["city"],
}
TRAINS = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "seats": {"type": "integer"}},
    "required": ["city", "seats"],
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}
    for name, text, parameters in (
        ("current_weather", "Current weather of a city.", PARAMETERS),
        ("find_trains", "Trains to a city.", TRAINS),
    )
]
AS_TEXT = {"name": "current_weather", "arguments": '{"city": "Zürich"}'}
OSLO_AS_TEXT = {"name": "current_weather", "arguments": '{"city": "Oslo"}'}
SEVEN = '{"response": {"degrees": 7}, "error": null}'


def call(number: int, function: Any) -> Any:
    return {"id": f"call_{number}", "type": "function", "function": function}


def rows(exported: Any, part: str = "sft") -> list[Any]:
    return [row for name, row in exported.rows if name == part]


def test_trl_has_messages_with_objects_and_tools(samples: dict[str, Sample]) -> None:
    """TRL's tool-calling example: arguments are objects, results carry the function's name."""
    function = {"name": "current_weather", "arguments": {"city": "Zürich"}}
    result = {"role": "tool", "content": SEVEN, "tool_call_id": "call_0", "name": "current_weather"}
    messages = [
        SYSTEM,
        {"role": "user", "content": "What is the weather in Zürich?"},
        {"role": "assistant", "content": "", "tool_calls": [call(0, function)]},
        result,
        {"role": "assistant", "content": "It is 7 degrees in Zürich."},
    ]
    assert rows(trl(samples["single"], "object")) == [{"messages": messages, "tools": TOOLS}]


def test_unread_arguments_do_not_become_objects(samples: dict[str, Sample]) -> None:
    """A call whose arguments are text has no place in a row, and is told."""
    with pytest.raises(Exception, match="unread text"):
        trl(with_arguments(samples["single"], "city=Oslo"), "object")


def test_axolotl_has_text_that_it_parses_itself(samples: dict[str, Sample]) -> None:
    """JSON text, of parameters too, as Axolotl advises; with objects a row is the same as TRL's."""
    (row,) = rows(axolotl(samples["clarification"], "string"))
    assert row["tools"][0]["function"] == {
        "name": "current_weather",
        "description": "Current weather of a city.",
        "parameters": '{"type": "object", "properties": {"city": {"type": "string", "description": '
        '"Name of the city."}, "unit": {"type": "string", "enum": ["celsius", "kelvin"], '
        '"default": "celsius"}}, "required": ["city"]}',
    }
    roles = " ".join(message["role"] for message in row["messages"])
    assert roles == "system user assistant user assistant tool assistant"
    assert row["messages"][4]["tool_calls"] == [call(0, AS_TEXT)]
    assert rows(axolotl(samples["single"], "object")) == rows(trl(samples["single"], "object"))


def test_axolotl_notes_are_its_configuration() -> None:
    """Train and validation go where Axolotl looks for them; tests go nowhere."""
    notes = axolotl_notes(ExportPlace("shop", ("train", "validation", "test_tool"), "/x: y"))
    dataset = {
        "ds_type": "json",
        "type": "chat_template",
        "field_messages": "messages",
        "field_tools": "tools",
        "roles_to_train": ["assistant"],
    }
    assert yaml.safe_load(notes["axolotl.yaml"]) == {
        "datasets": [{"path": "/x: y/train.jsonl", **dataset}],
        "test_datasets": [{"path": "/x: y/validation.jsonl", **dataset}],
    }


def test_openai_has_its_own_names_only(samples: dict[str, Sample]) -> None:
    """OpenAI's fine-tuning example: text arguments, ids, no content beside calls, no tool name."""
    cold = '{"response": {"degrees": -2}, "error": null}'
    messages = [
        SYSTEM,
        {"role": "user", "content": "What is the weather in Zürich, and what is it in Oslo?"},
        {"role": "assistant", "tool_calls": [call(0, AS_TEXT), call(1, OSLO_AS_TEXT)]},
        {"role": "tool", "content": SEVEN, "tool_call_id": "call_0"},
        {"role": "tool", "content": cold, "tool_call_id": "call_1"},
        {"role": "assistant", "content": "It is 7 degrees in Zürich and -2 degrees in Oslo."},
    ]
    assert rows(openai(samples["parallel"], "string")) == [
        {"messages": messages, "tools": TOOLS, "parallel_tool_calls": True}
    ]


def test_openai_rows_fit_the_types_of_its_package(samples: dict[str, Sample]) -> None:
    """Every message and tool validates as the SDK's own parameter."""
    message = TypeAdapter(ChatCompletionMessageParam)
    tool = TypeAdapter(ChatCompletionToolParam)
    for sample in samples.values():
        (row,) = rows(openai(sample, "string"))
        for one in row["messages"]:
            message.validate_python(one)
        for one in row["tools"]:
            tool.validate_python(one)
        assert row["parallel_tool_calls"] is (sample.id.endswith("2"))


def test_verl_has_a_prompt_and_the_right_calls_for_each_decision(
    samples: dict[str, Sample],
) -> None:
    """verl's five fields; asking back is a decision with no call, telling the result is none."""
    made = rows(verl(samples["clarification"], "string"), "rl")
    right = '[{"name": "current_weather", "arguments": {"city": "Zürich"}}]'
    assert [row["reward_model"] for row in made] == [
        {"style": "rule", "ground_truth": truth} for truth in ("[]", right)
    ]
    where = {"index": 700000304, "id": "train-7-000003", "turn": 4, "scenario": "clarification"}
    assert (made[1]["data_source"], made[1]["ability"]) == ("toolloom", "call")
    assert made[1]["extra_info"] == where
    assert made[1]["prompt"][1:] == [
        {"role": "user", "content": "What is the weather like?"},
        {"role": "assistant", "content": "In which city?"},
        {"role": "user", "content": "In Zürich."},
    ]
    assert "<tools>" in made[1]["prompt"][0]["content"]


def test_verl_prompts_hold_earlier_calls_as_text(samples: dict[str, Sample]) -> None:
    """The next try after an error sees the call and the error."""
    first, second = rows(verl(samples["recovery"], "string"), "rl")
    assert first["reward_model"] == second["reward_model"]
    called = (
        '<tool_call>\n{"name": "current_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
    )
    assert second["prompt"][2:] == [
        {"role": "assistant", "content": called},
        {"role": "tool", "content": '{"response": null, "error": "503 Service Unavailable"}'},
    ]
