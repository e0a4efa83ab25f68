"""Rows of chat messages, after the documentation of each trainer."""

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


def rows(exported: Any, part: str = "sft") -> list[Any]:
    return [row for name, row in exported.rows if name == part]


def test_unread_arguments_do_not_become_objects(samples: dict[str, Sample]) -> None:
    """A call whose arguments are text has no place in a row, and is told."""
    with pytest.raises(Exception, match="unread text"):
        trl(with_arguments(samples["single"], "city=Oslo"), "object")


def test_axolotl_has_text_that_it_parses_itself(samples: dict[str, Sample]) -> None:
    """JSON text, of parameters too, as Axolotl advises; with objects a row is the same as TRL's."""
    sample = samples["single"]
    assert rows(axolotl(sample, "object")) == rows(trl(sample, "object"))
    (row,) = rows(axolotl(sample, "string"))
    assert isinstance(row["tools"][0]["function"]["parameters"], str)
    assert isinstance(row["messages"][2]["tool_calls"][0]["function"]["arguments"], str)


def test_axolotl_notes_are_its_configuration() -> None:
    """Train and validation go where Axolotl looks for them; tests go nowhere."""
    notes = axolotl_notes(ExportPlace("shop", ("train", "validation", "test_tool"), "/x: y"))
    told = yaml.safe_load(notes["axolotl.yaml"])
    assert {name: [each["path"] for each in sets] for name, sets in told.items()} == {
        "datasets": ["/x: y/train.jsonl"],
        "test_datasets": ["/x: y/validation.jsonl"],
    }


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
    """Asking back is a decision with no call, telling the result is none."""
    made = rows(verl(samples["clarification"], "string"), "rl")
    right = '[{"name": "current_weather", "arguments": {"city": "Zürich"}}]'
    assert [row["reward_model"]["ground_truth"] for row in made] == ["[]", right]
    assert [turn["role"] for turn in made[1]["prompt"]] == ["system", "user", "assistant", "user"]


def test_verl_prompts_hold_earlier_calls_as_text(samples: dict[str, Sample]) -> None:
    """The next try after an error sees the call and the error."""
    first, second = rows(verl(samples["recovery"], "string"), "rl")
    assert first["reward_model"] == second["reward_model"] and "<tools>" in str(first["prompt"])
    called = (
        '<tool_call>\n{"name": "current_weather", "arguments": {"city": "Zürich"}}\n</tool_call>'
    )
    assert second["prompt"][2:] == [
        {"role": "assistant", "content": called},
        {"role": "tool", "content": '{"response": null, "error": "503 Service Unavailable"}'},
    ]
