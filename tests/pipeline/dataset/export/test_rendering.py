"""Rows of messages in the chat templates of models: nothing of a dialogue is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.trainer_rows import rendered

from toolloom.pipeline.dataset.export.formats import format_named
from toolloom.schemas import Sample

OBJECTS = ["qwen2_5", "qwen3", "glm4moe", "gemma4_v5"]
TEXT = ["qwen3", "deepseekv3"]


@pytest.mark.parametrize(
    ("form", "template"), [*(("object", t) for t in OBJECTS), *(("string", t) for t in TEXT)]
)
def test_a_template_writes_all_that_a_row_holds(
    form: Any, template: str, samples: dict[str, Sample]
) -> None:
    """Every word, call, argument and observation, in the form of arguments the template takes."""
    for sample in samples.values():
        ((_, row),) = format_named("trl").rows(sample, form).rows
        text = rendered(template, row["messages"], row["tools"])
        for message in row["messages"][1:]:
            assert message["content"].strip()[:20] in text
            for call in message.get("tool_calls") or ():
                called = call["function"]
                arguments = called["arguments"]
                if isinstance(arguments, str):
                    assert arguments in text
                    arguments = json.loads(arguments)
                assert called["name"] in text and all(str(v) in text for v in arguments.values())
