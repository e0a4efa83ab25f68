"""What a format writes reads back as it was, whatever words and arguments hold: by hand, and by the
audit's readers, which were written from the same documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import foreign_rows
from support.json_values import json_values
from support.shop import changed, with_arguments

from toolloom.pipeline.checks.text.call_text import parse
from toolloom.pipeline.dataset.exporting import FORMATS, _made
from toolloom.pipeline.formats.base import Arguments, Format
from toolloom.pipeline.formats.conversation import Reading
from toolloom.schemas import JsonObject, Sample

WORDS = st.text(st.characters(codec="utf-8"), max_size=20) | st.sampled_from(
    ["</tool_call>", "<tool_call>\n{}", "a\nUser: b", "\nAction: x", "'", "</tools>", '"}', "\\"]
)
NUMBERS = st.integers(-(2**53), 2**53)
VALUES = json_values(WORDS | NUMBERS | st.booleans() | st.none(), WORDS)


def remade(sample: Sample, words: str, arguments: dict[str, Any]) -> Sample:
    """The sample of one call with other words and arguments."""
    result = json.dumps({"response": words, "error": None})
    texts = (None, f"What? {words}", None, result, f"That. {words}")
    turns = zip(with_arguments(sample, arguments).dialogue.messages, texts, strict=True)
    return changed(sample, [m.model_copy(update={"content": t} if t else {}) for m, t in turns])


def asked(row: JsonObject) -> Any:
    return row["messages"][2]["tool_calls"][0]["function"]["arguments"]


HERMES = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
READ_BACK: dict[str, Callable[[JsonObject], Any]] = {
    "trl": asked,
    "openai": lambda row: json.loads(asked(row)),
    "axolotl": lambda row: json.loads(asked(row)),
    "llamafactory": lambda row: json.loads(row["conversations"][1]["value"])["arguments"],
    "hermes": lambda row: json.loads(*HERMES.findall(row["conversations"][2]["value"]))[
        "arguments"
    ],
    "api-bank": lambda row: parse(row["output"])[0].arguments,
    "toolllama": lambda row: json.loads(
        row["conversations"][2]["value"].partition("Action Input: ")[2]
    ),
}
"""The arguments of the call in a row."""


def alternates(row: JsonObject) -> None:
    """LLaMA-Factory drops a row whose turns do not alternate, and says so only in its log."""
    turns = row["conversations"]
    assert len(turns) % 2 == 0, "the last turn is not the assistant's"
    for place, turn in enumerate(turns):
        assert turn["from"] in (("human", "observation"), ("gpt", "function_call"))[place % 2]
        if turn["from"] == "function_call":
            assert json.loads(turn["value"])
    assert isinstance(json.loads(row["tools"] or "[]"), list)


def tags_hold_json(row: JsonObject) -> None:
    for turn in row["conversations"][1:]:
        for tag, speaker in (("tool_call", "gpt"), ("tool_response", "tool")):
            inside = re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", turn["value"], re.DOTALL)
            if turn["from"] == speaker:
                assert len(inside) == turn["value"].count(f"<{tag}>")
                assert all(isinstance(json.loads(text), dict) for text in inside)


def acts(row: JsonObject) -> None:
    roles = [turn["from"] for turn in row["conversations"]]
    assert roles[:2] == ["system", "user"] and roles[-1] == "assistant"
    form = r"\nThought: (.*)\nAction: \S+\nAction Input: (.*)"
    for turn in row["conversations"]:
        found = re.fullmatch(form, turn["value"])
        assert turn["from"] != "assistant" or (found and json.loads(found[2]) is not None)


SHAPES = {"llamafactory": alternates, "hermes": tags_hold_json, "toolllama": acts}
"""What a format's trainer asks of a row whose turns are text."""


@pytest.mark.parametrize("format_", FORMATS.values(), ids=lambda one: one.name)
@settings(deadline=None)  # the first row imports `datasets`
@given(words=WORDS, arguments=st.dictionaries(WORDS, VALUES, max_size=3))
@example(words="*b*", arguments={"a": [1]})
@example(words="<tool_call>\n{}", arguments={})
def test_rows_hold_the_very_call_in_their_shape_whatever_it_is(
    format_: Format, words: str, arguments: dict[str, Any], samples: dict[str, Sample]
) -> None:
    """What people or models wrote reads back, and makes no row that its own check refuses.

    A sample without a row is left out with a reason.
    """
    made = _made(format_, remade(samples["single"], words, arguments), format_.arguments[0])
    for _, row in made.rows if format_.name in SHAPES else ():
        SHAPES[format_.name](row)
    if format_.name in READ_BACK:
        assert made.rows or made.unfit
        assert all(READ_BACK[format_.name](row) == arguments for _, row in made.rows[:1])


KINDS = ["single", "parallel", "clarification", "irrelevance", "recovery", "search", "multi_turn"]
WHOLE = ["trl", "axolotl", "openai", "llamafactory", "hermes"]


def exported(sample: Sample, name: str, form: Arguments | None = None) -> list[JsonObject]:
    format = FORMATS[name]
    made = format.rows(sample, form or format.arguments[0])
    return [row for _, row in made.rows]


def spoken(found: Sample | Reading) -> list[tuple[str, Any]]:
    """Role, words and calls of each message, and the whole observations of tools."""
    dialogue = found.dialogue
    assert dialogue
    made: list[tuple[str, Any]] = []
    for message in dialogue.messages:
        calls = [(c.function.name, c.function.arguments) for c in message.tool_calls]
        said = json.loads(message.content or "") if message.role == "tool" else message.content
        made.append((message.role, (said or "", calls)))
    return made


def offered(found: Sample | Reading) -> list[Any]:
    assert found.dialogue
    return [(a.function, a.description, a.parameters) for a in found.dialogue.query.pool]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_dialogue_comes_back(
    tmp_path: Path, samples: dict[str, Sample], name: str, kind: str
) -> None:
    """Words, calls, observations and tools are those of the sample, and no check finds a fault. The
    system turn of Hermes also says how to call."""
    sample = samples[kind]
    for form in FORMATS[name].arguments:
        (row,) = exported(sample, name, form)
        found = foreign_rows.reading(tmp_path, row)
        (_, (system, _)), *turns = spoken(sample)
        assert spoken(found)[1:] == turns
        assert system in spoken(found)[0][1][0]
        assert name == "hermes" or spoken(found) == spoken(sample)
        if kind != "search":  # there the tools come from what was found
            assert offered(found) == offered(sample)
        assert foreign_rows.findings(found) == []
