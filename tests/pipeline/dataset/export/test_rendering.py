"""Rows of messages in the chat templates of models: nothing of a dialogue is lost."""

from __future__ import annotations

import json
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolloom.pipeline.dataset.exporting import FORMATS
from toolloom.schemas import JsonObject, Sample

OBJECTS = ["qwen2_5", "qwen3", "glm4moe", "gemma4_v5"]
TEXT = ["qwen3", "deepseekv3"]


class _Generation(Extension):
    """The tag `{% generation %}`, which marks what the assistant said; here it is just text."""

    tags = {"generation"}  # noqa: RUF012 jinja2's own form

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise(message: str) -> None:
    raise TemplateError(message)


def rendered(template: str, messages: list[JsonObject], tools: list[JsonObject]) -> str:
    """A dialogue as one of TRL's chat templates writes it, run as `transformers` runs them."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = lambda value, ensure_ascii=False, **how: json.dumps(
        value, ensure_ascii=ensure_ascii, **how
    )
    made.globals |= {"raise_exception": _raise, "strftime_now": datetime(2026, 1, 1).strftime}
    spec = find_spec("trl")
    assert spec and spec.submodule_search_locations
    folder = Path(next(iter(spec.submodule_search_locations))) / "chat_templates"
    source = (folder / f"{template}.jinja").read_text("utf-8")
    text = made.from_string(source).render(
        messages=messages, tools=tools or None, bos_token="<s>", eos_token="</s>"
    )
    return str(text)


@pytest.mark.parametrize(
    ("form", "template"), [*(("object", t) for t in OBJECTS), *(("string", t) for t in TEXT)]
)
def test_a_template_writes_all_that_a_row_holds(
    form: Any, template: str, samples: dict[str, Sample]
) -> None:
    """Every word, call, argument and observation, in the form of arguments the template takes."""
    for sample in samples.values():
        ((_, row),) = FORMATS["trl"].rows(sample, form).rows
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
