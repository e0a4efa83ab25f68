"""Whatever words and arguments hold, what a format writes reads back as it was."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shop import changed, with_arguments

from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.dataset.export.checking import SHAPES
from toolloom.pipeline.dataset.export.exporting import _made
from toolloom.pipeline.dataset.export.formats import FORMATS
from toolloom.pipeline.formats.base import Format
from toolloom.schemas import Sample

WORDS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["</tool_call>", "<tool_call>\n{}", "a\nUser: b", "\nAction: x", "'", "</tools>", '"}', "\\"]
)
VALUES = st.recursive(
    WORDS | st.integers(-(2**53), 2**53) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)


def remade(sample: Sample, words: str, arguments: dict[str, Any]) -> Sample:
    """The sample of one call with other words and arguments."""
    result = json.dumps({"response": words, "error": None})
    texts = (None, f"What? {words}", None, result, f"That. {words}")
    turns = zip(with_arguments(sample, arguments).dialogue.messages, texts, strict=True)
    return changed(sample, [m.model_copy(update={"content": t} if t else {}) for m, t in turns])


READ_BACK = {
    *("trl", "openai", "axolotl", "llamafactory", "hermes", "xlam", "api-bank", "toolllama"),
}


def read_back(name: str, row: dict[str, Any]) -> Any:
    """The arguments of the call in a row."""
    match name:
        case "trl" | "openai" | "axolotl":
            value = row["messages"][2]["tool_calls"][0]["function"]["arguments"]
            return json.loads(value) if isinstance(value, str) else value
        case "llamafactory":
            return json.loads(row["conversations"][1]["value"])["arguments"]
        case "hermes":
            turn = row["conversations"][2]["value"]
            (inner,) = re.findall(r"<tool_call>\n(.*?)\n</tool_call>", turn, re.DOTALL)
            return json.loads(inner)["arguments"]
        case "xlam":
            return json.loads(row["answers"])[0]["arguments"]
        case "api-bank":
            return parse(row["output"])[0].arguments
        case "toolllama":
            return json.loads(row["conversations"][2]["value"].partition("Action Input: ")[2])
    raise AssertionError(name)


@pytest.mark.parametrize("format_", FORMATS, ids=lambda one: one.name)
@settings(deadline=None)  # the first row imports `datasets`
@given(words=WORDS, arguments=st.dictionaries(WORDS, VALUES, max_size=3))
def test_rows_hold_the_very_call_in_their_shape_whatever_it_is(
    format_: Format, words: str, arguments: dict[str, Any], samples: dict[str, Sample]
) -> None:
    """What people or models wrote reads back, and makes no row that its own check refuses.

    A sample without a row is left out with a reason.
    """
    made = _made(format_, remade(samples["single"], words, arguments), format_.arguments[0])
    for _, row in made.rows:
        fitting = [one for one in SHAPES[format_.name] if set(row) <= _names(one.model)]
        fitting[0].model.model_validate(row)
    if format_.name in READ_BACK:
        assert made.rows or made.unfit
        assert all(read_back(format_.name, row) == arguments for _, row in made.rows[:1])


def _names(model: Any) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
