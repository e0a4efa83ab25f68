""""""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import foreign_rows
from support.foreign_rows import HERMES, SHAREGPT, TOOL, changed, with_turn


def test_calls_and_a_list_of_results_are_paired_in_order(tmp_path: Path) -> None:
    """One observation turn answers several calls with a list of as many results."""
    found = foreign_rows.reading(tmp_path, "sharegpt", SHAREGPT)
    assert foreign_rows.calls(found) == [
        ("get_weather", {"city": "Bern"}),
        ("get_weather", {"city": "Oslo"}),
    ]
    assert [seen for _, seen, _ in foreign_rows.answers(found)] == [
        {"sky": "rain"},
        {"sky": "snow"},
    ]
    assert foreign_rows.said(found, "system") == ["You know the weather."]
    assert foreign_rows.findings(found) == [] and found.unmapped == ()


def test_one_result_for_several_calls_is_given_to_each_and_told(tmp_path: Path) -> None:
    """Turns alternate in LLaMA-Factory, so one observation answers all calls before it."""
    row = with_turn(SHAREGPT, 2, "conversations", value="rain everywhere")
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert [seen for _, seen, _ in foreign_rows.answers(found)] == ["rain everywhere"] * 2
    assert foreign_rows.findings(found) == [] and "one turn for several" in found.unmapped[0]


def test_other_names_of_roles_and_columns_are_known(tmp_path: Path) -> None:
    """The role-mapped variant has `messages` with `role` and `content`, and other speakers."""
    names = {"human": "user", "gpt": "assistant", "observation": "tool"}
    turns = [
        {"role": names.get(t["from"], t["from"]), "content": t["value"]}
        for t in SHAREGPT["conversations"]
    ]
    row = {"messages": turns, "system": SHAREGPT["system"], "tools": SHAREGPT["tools"]}
    mapped = foreign_rows.reading(tmp_path, "sharegpt", row).dialogue
    plain = foreign_rows.reading(tmp_path, "sharegpt", SHAREGPT).dialogue
    assert mapped and plain and mapped.messages == plain.messages


@pytest.mark.parametrize(
    ("value", "calls"),
    [('{"name": "get_weather", "arguments": {"city": "Bern"}}', 1), ('{"sky": "rain"}', 0)],
)
def test_function_is_a_call_or_a_result_by_what_it_holds(
    tmp_path: Path, value: str, calls: int
) -> None:
    """Tools disagree on the role `function`: a name with arguments is a call."""
    turns = [{"from": "human", "value": "Rain?"}, {"from": "function", "value": value}]
    found = foreign_rows.reading(tmp_path, "sharegpt", changed(SHAREGPT, conversations=turns))
    assert len(foreign_rows.calls(found)) == calls and found.has_results == (not calls)


def test_a_turn_of_calls_that_holds_none_is_a_fault(tmp_path: Path) -> None:
    """Words where a call is due stay words, and the fault says so."""
    row = with_turn(SHAREGPT, 1, "conversations", value="I call get_weather")
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert foreign_rows.calls(found) == [] and found.faults[0].reason == "false_api_call_format"
    assert found.faults[0].turn == 2 and "I call get_weather" in foreign_rows.said(
        found, "assistant"
    )


def test_a_call_as_python_writes_it_is_read_and_told(tmp_path: Path) -> None:
    """Single quotes, True and None are no JSON: the call is read, the row marked."""
    value = str({"name": "get_weather", "arguments": {"city": "Bern", "days": None}})
    row = with_turn(SHAREGPT, 1, "conversations", value=value)
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert foreign_rows.calls(found) == [("get_weather", {"city": "Bern", "days": None})]
    assert "calls: text that is written as Python, not as JSON" in found.unmapped


def test_words_and_the_call_after_them_are_one_turn(tmp_path: Path) -> None:
    """Our record keeps an assistant's words with the call that follows them."""
    turns = SHAREGPT["conversations"]
    row = changed(
        SHAREGPT, conversations=[turns[0], {"from": "gpt", "value": "I look."}, *turns[1:]]
    )
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert foreign_rows.said(found, "assistant") == ["I look.", foreign_rows.REPLY]
    assert foreign_rows.findings(found) == []


def test_the_better_answer_of_a_preference_is_read(tmp_path: Path) -> None:
    """`chosen` continues the conversation; `rejected` is named and left out."""
    turns = SHAREGPT["conversations"]
    row = changed(
        SHAREGPT, conversations=turns[:3], chosen=turns[3], rejected={"from": "gpt", "value": "No."}
    )
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert (
        foreign_rows.said(found, "assistant") == [foreign_rows.REPLY]
        and "rejected" in found.unmapped[0]
    )


def test_unknown_roles_and_unread_tools_are_faults(tmp_path: Path) -> None:
    """A turn that nobody can place, and tools that no one can read, are told."""
    row = with_turn(SHAREGPT, 3, "conversations", **{"from": "narrator"})
    faults = foreign_rows.reading(
        tmp_path, "sharegpt", changed(row, tools="get_weather(city)")
    ).faults
    assert [f.reason for f in faults] == ["illegal_schema", "malformed_dialogue"]
    assert "narrator" in faults[1].detail


@pytest.mark.parametrize("row", [{"a": 1}, {"conversations": "x"}, {"conversations": [1]}])
def test_a_row_without_turns_is_refused(tmp_path: Path, row: object) -> None:
    """Nothing vanishes: the row comes back with a reason."""
    found = foreign_rows.reading(tmp_path, "sharegpt", row)
    assert found.dialogue is None and found.raw == row and found.faults


def test_rows_of_a_json_list_are_read_one_by_one(tmp_path: Path) -> None:
    """LLaMA-Factory's own files are one JSON list."""
    file = tmp_path / "data.json"
    file.write_text(json.dumps([SHAREGPT, SHAREGPT], indent=2))
    found = list(foreign_rows.reader("sharegpt")(file))
    assert [foreign_rows.findings(r) for r in found] == [[], []]


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
