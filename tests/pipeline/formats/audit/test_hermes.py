import json
from pathlib import Path

import pytest
from support import foreign_rows
from support.foreign_rows import HERMES, TOOL, changed, with_turn


def test_several_calls_of_a_turn_are_read_from_their_tags(tmp_path: Path) -> None:
    """A turn may hold several calls, as JSON or as Python writes it, and results in like order."""
    found = foreign_rows.reading(tmp_path, "hermes", HERMES)
    assert foreign_rows.calls(found) == [
        ("get_weather", {"city": "Bern"}),
        ("get_weather", {"city": "Oslo"}),
    ]
    assert [seen for _, seen, _ in foreign_rows.answers(found)] == [
        {"sky": "rain"},
        {"sky": "snow"},
    ]
    assert found.unmapped == ("calls: text that is written as Python, not as JSON",)
    assert foreign_rows.findings(found) == []


def test_the_list_of_tools_leaves_the_system_turn(tmp_path: Path) -> None:
    """The record holds the tools once, as APIs; the instruction's own empty tags mean nothing."""
    found = foreign_rows.reading(tmp_path, "hermes", changed(HERMES, tools=None))
    assert found.dialogue and [a.function for a in found.dialogue.query.pool] == ["get_weather"]
    assert "description" not in foreign_rows.said(found, "system")[0]


@pytest.mark.parametrize("between", ["\n", "\n\n", ", "])
def test_tools_may_stand_one_a_line(tmp_path: Path, between: str) -> None:
    """One JSON object a line is as good as a list."""
    other = {"type": "function", "function": {"name": "get_time", "parameters": {}}}
    block = between.join(map(json.dumps, (TOOL, other)))
    block = f"[{block}]" if between == ", " else block
    row = with_turn(
        changed(HERMES, tools=None), 0, "conversations", value=f"<tools>\n{block}\n</tools>"
    )
    found = foreign_rows.reading(tmp_path, "hermes", row)
    assert found.dialogue
    assert [a.function for a in found.dialogue.query.pool] == ["get_weather", "get_time"]


def test_the_column_stands_in_for_tools_that_cannot_be_read(tmp_path: Path) -> None:
    """hermes-function-calling-v1 has its tools twice: the column is used where the turn fails."""
    row = with_turn(HERMES, 0, "conversations", value="<tools>get_weather(city)</tools>")
    found = foreign_rows.reading(tmp_path, "hermes", row)
    assert foreign_rows.findings(found) == [] and any("<tools>" in note for note in found.unmapped)


def test_a_block_that_is_no_call_stays_in_the_words_and_is_found(tmp_path: Path) -> None:
    """What stands between the tags and cannot be read is a call in a false format."""
    value = '<tool_call>\nget_weather(city="Bern")\n</tool_call>'
    row = with_turn(HERMES, 2, "conversations", value=value)
    found = foreign_rows.reading(tmp_path, "hermes", row)
    assert foreign_rows.calls(found) == [] and "false_api_call_format" in foreign_rows.reasons(
        found
    )


def test_a_call_without_an_end_is_found(tmp_path: Path) -> None:
    """A tag that is never closed is no call."""
    row = with_turn(HERMES, 2, "conversations", value='<tool_call>{"name": "get_weather"')
    assert "false_api_call_format" in foreign_rows.reasons(
        foreign_rows.reading(tmp_path, "hermes", row)
    )


def test_words_around_calls_are_kept_and_scratch_pads_told(tmp_path: Path) -> None:
    """Words stay with their calls; what was never meant for the user is left out."""
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Bern"}}</tool_call>'
    value = f"<scratch_pad>\nGoal: weather\n</scratch_pad>\nI look it up.\n{call}"
    row = with_turn(HERMES, 2, "conversations", value=value)
    found = foreign_rows.reading(tmp_path, "hermes", row)
    assert foreign_rows.said(found, "assistant")[0] == "I look it up."
    assert "what stands in <scratch_pad>" in found.unmapped


def test_a_missing_result_is_found(tmp_path: Path) -> None:
    """Two calls and one response: one call got no answer."""
    value = '<tool_response>\n{"name": "get_weather", "content": "rain"}\n</tool_response>'
    row = with_turn(HERMES, 3, "conversations", value=value)
    found = foreign_rows.findings(foreign_rows.reading(tmp_path, "hermes", row))
    assert [f.detail for f in found] == ["get_weather got no answer"]


def test_results_in_a_user_turn_are_results(tmp_path: Path) -> None:
    """Chat templates of the same family put `<tool_response>` into a user's turn."""
    row = with_turn(HERMES, 3, "conversations", **{"from": "user"})
    assert foreign_rows.findings(foreign_rows.reading(tmp_path, "hermes", row)) == []


def test_a_row_without_a_conversation_is_refused(tmp_path: Path) -> None:
    """The reason names the columns that were looked for."""
    found = foreign_rows.reading(tmp_path, "hermes", {"prompt": "x"})
    assert found.dialogue is None and "conversations" in found.faults[0].detail
