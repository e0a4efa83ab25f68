"""Rows of TRL and OpenAI as dialogues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import foreign_rows
from support.foreign_rows import OLDER, OPENAI, TOOL, TRL, changed, with_turn

from toolloom.schemas import JsonObject


def test_trl_results_without_ids_answer_calls_in_their_order(tmp_path: Path) -> None:
    """TRL's tool messages name only the function: the first open call of the name is answered."""
    found = foreign_rows.reading(tmp_path, "trl", TRL)
    assert foreign_rows.calls(found) == [
        ("get_weather", {"city": "Bern"}),
        ("get_weather", {"city": "Oslo"}),
    ]
    assert [seen for _, seen, _ in foreign_rows.answers(found)] == [
        {"sky": "rain"},
        {"sky": "snow"},
    ]
    assert found.has_results and found.has_reply
    assert foreign_rows.findings(found) == [] and found.unmapped == ()


def as_text() -> JsonObject:
    row = changed(TRL, tools=json.dumps([json.dumps(TOOL)]))
    row["messages"][1]["tool_calls"][0]["function"]["arguments"] = '{"city": "Bern"}'
    return row


def padded() -> JsonObject:
    row = changed(TRL)
    row["messages"][1]["tool_calls"][0]["function"]["arguments"] = {"city": "Bern", "x": None}
    row["tools"][0]["function"]["parameters"]["properties"]["other"] = None
    return row


SPLIT = {"prompt": TRL["messages"][:1], "tools": TRL["tools"]}


@pytest.mark.parametrize(
    "row",
    [
        as_text(),
        padded(),
        {**SPLIT, "completion": TRL["messages"][1:]},
        {**SPLIT, "chosen": TRL["messages"][1:]},
    ],
    ids=[
        "arguments, the column of tools and each of them as JSON text",
        "keys that Arrow padded with null, which TRL drops too",
        "a prompt and its completion",
        "the better answer of a preference",
    ],
)
def test_trl_has_several_ways_to_write_a_dialogue(tmp_path: Path, row: JsonObject) -> None:
    """All of them are read as the same messages and tools."""
    found = foreign_rows.reading(tmp_path, "trl", row)
    plain = foreign_rows.reading(tmp_path, "trl", TRL)
    assert found.dialogue and plain.dialogue and foreign_rows.findings(found) == []
    assert found.dialogue.messages == plain.dialogue.messages
    assert found.dialogue.query.pool == plain.dialogue.query.pool


@pytest.mark.parametrize(
    ("column", "more"),
    [("chosen", {"rejected": TRL["messages"]}), ("completion", {"label": False})],
)
def test_what_is_meant_to_be_wrong_is_told_and_not_judged(
    tmp_path: Path, column: str, more: JsonObject
) -> None:
    """The rejected answer of a preference is no fault; an undesirable completion is marked."""
    row = {**SPLIT, column: TRL["messages"][1:], **more}
    (name,) = more
    assert any(name in note for note in foreign_rows.reading(tmp_path, "trl", row).unmapped)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"prompt": "Rain?", "completion": "No."}, "text"),
        ({"text": "Rain?"}, "neither"),
        ({"conversations": []}, "--format"),
        ({"messages": []}, "no turns"),
        ({"messages": ["x"]}, "no object"),
        ({"messages": [{"role": "system", "content": "x"}]}, "no messages"),
        (["x"], "no JSON object"),
    ],
)
def test_a_row_that_is_no_conversation_is_refused_in_words(
    tmp_path: Path, row: object, why: str
) -> None:
    """What cannot be mapped has no dialogue, but a reason."""
    found = foreign_rows.reading(tmp_path, "trl", row)
    assert found.dialogue is None and why in found.faults[0].detail


def test_a_faulty_call_is_found(tmp_path: Path) -> None:
    """Unknown functions, missing and unknown arguments and unread text reach the checks."""
    row = changed(TRL)
    row["messages"][1]["tool_calls"][0]["function"] = {"name": "get_rain", "arguments": {}}
    row["messages"][1]["tool_calls"][1]["function"]["arguments"] = {"town": "Oslo"}
    assert foreign_rows.reasons(foreign_rows.reading(tmp_path, "trl", row)) == [
        "malformed_dialogue",
    ]  # the results are named get_weather
    row["messages"][2]["name"] = "get_rain"
    assert foreign_rows.reasons(foreign_rows.reading(tmp_path, "trl", row)) == [
        "api_hallucination",
        "missing_input_parameters",
        "invalid_input_parameters",
    ]
    row["messages"][1]["tool_calls"][1]["function"]["arguments"] = "Oslo"
    assert "false_api_call_format" in foreign_rows.reasons(
        foreign_rows.reading(tmp_path, "trl", row)
    )


def test_arguments_that_are_nearly_json_are_read_and_told(tmp_path: Path) -> None:
    """Python's way to write a dict is parsed, broken JSON mended, and both are noted."""
    row = changed(TRL)
    row["messages"][1]["tool_calls"][0]["function"]["arguments"] = "{'city': 'Bern'}"
    row["messages"][1]["tool_calls"][1]["function"]["arguments"] = '{"city": "Oslo"'
    found = foreign_rows.reading(tmp_path, "trl", row)
    assert foreign_rows.calls(found) == foreign_rows.calls(
        foreign_rows.reading(tmp_path, "trl", TRL)
    )
    assert [note for note in found.unmapped if note.startswith("arguments")] == [
        "arguments: text that is written as Python, not as JSON",
        "arguments: text that is no JSON and was mended",
    ]


def test_openai_results_go_by_id(tmp_path: Path) -> None:
    """Results may come in any order: `tool_call_id` decides."""
    found = foreign_rows.reading(tmp_path, "openai", OPENAI)
    assert [seen for _, seen, _ in foreign_rows.answers(found)] == ["rain", "snow"]
    assert found.dialogue and found.dialogue.query.now.year == 2024
    assert foreign_rows.findings(found) == [] and found.unmapped == ()


def test_a_row_may_end_with_the_call_it_teaches(tmp_path: Path) -> None:
    """OpenAI's own example of a row has no result: none is missing."""
    row = changed(OPENAI, messages=OPENAI["messages"][:3])
    found = foreign_rows.reading(tmp_path, "openai", row)
    assert not found.has_results and not found.has_reply and foreign_rows.findings(found) == []


def test_openai_refuses_objects_as_arguments(tmp_path: Path) -> None:
    """Arguments must be JSON text in OpenAI's files; TRL takes both."""
    row = changed(OPENAI)
    row["messages"][2]["tool_calls"][0]["function"]["arguments"] = {"city": "Bern"}
    found = foreign_rows.reading(tmp_path, "openai", row)
    assert foreign_rows.reasons(found) == ["false_api_call_format"] and found.faults[0].turn == 2
    assert foreign_rows.findings(foreign_rows.reading(tmp_path, "trl", row)) == []


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (with_turn(OPENAI, 3, tool_call_id=None), "tool_call_id"),
        (with_turn(OPENAI, 0, role="critic"), "critic"),
        (changed(OPENAI, parallel_tool_calls=False), "parallel_tool_calls"),
        (with_turn(OPENAI, 4, tool_call_id="call_z"), "answers no open call"),
    ],
)
def test_what_openai_does_not_take_is_a_fault(tmp_path: Path, row: object, why: str) -> None:
    """Ids, roles and the promise of single calls are held to."""
    found = foreign_rows.findings(foreign_rows.reading(tmp_path, "openai", row))
    assert any(why in f.detail and f.reason == "malformed_dialogue" for f in found)


def test_the_older_form_is_read(tmp_path: Path) -> None:
    """`functions`, `function_call` and the role `function` are a call and its result."""
    found = foreign_rows.reading(tmp_path, "openai", OLDER)
    assert foreign_rows.calls(found) == [("get_weather", {"city": "Bern"})]
    assert foreign_rows.answers(found) == [("get_weather", "rain", None)]
    assert foreign_rows.findings(found) == [] and found.unmapped == ()


def test_a_preference_of_openai_is_read_up_to_its_better_answer(tmp_path: Path) -> None:
    """`input` holds what a row has otherwise, `preferred_output` goes on from there."""
    asked = {**OPENAI, "messages": OPENAI["messages"][:2]}
    worse = [{"role": "assistant", "content": "No."}]
    row = {
        "input": asked,
        "preferred_output": OPENAI["messages"][2:],
        "non_preferred_output": worse,
    }
    found = foreign_rows.reading(tmp_path, "openai", row)
    plain = foreign_rows.reading(tmp_path, "openai", OPENAI)
    assert found.dialogue and plain.dialogue
    assert found.dialogue.messages == plain.dialogue.messages and foreign_rows.findings(found) == []
    assert "non_preferred_output" in found.unmapped[0]


def test_content_in_parts_and_thoughts_are_told(tmp_path: Path) -> None:
    """Text parts are one text; other parts and thoughts have no place, and are named."""
    row = with_turn(
        TRL, 0, content=[{"type": "text", "text": "Rain"}, {"type": "text", "text": "?"}]
    )
    assert foreign_rows.said(foreign_rows.reading(tmp_path, "trl", row), "user") == ["Rain?"]
    row = with_turn(TRL, 0, content=[{"type": "image_url", "image_url": {"url": "x"}}])
    assert "content that is no text" in foreign_rows.reading(tmp_path, "trl", row).unmapped
    row = with_turn(TRL, 4, content="<think>hm</think>Rain.", reasoning_content="hm", weight=0)
    found = foreign_rows.reading(tmp_path, "trl", row)
    assert foreign_rows.said(found, "assistant") == ["Rain."]
    assert {*found.unmapped} == {
        "what stands in <think>",
        "messages: field `reasoning_content`",
        "messages: field `weight`",
    }


def test_apis_that_no_search_found_are_unknown(tmp_path: Path) -> None:
    """Where API Search is the only tool, nothing else may be called but what it found."""
    keywords = {"type": "object", "properties": {"keywords": {"type": "string"}}}
    search = {"type": "function", "function": {"name": "api_search", "parameters": keywords}}
    found = foreign_rows.reading(tmp_path, "trl", changed(TRL, tools=[search]))
    assert found.dialogue and found.dialogue.query.ability == "retrieve_call"
    assert "api_hallucination" in foreign_rows.reasons(found)
