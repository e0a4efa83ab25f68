"""Conversations of ShareGPT's form: LLaMA-Factory's and Hermes'."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.foreign_rows import (
    HERMES,
    REPLY,
    SHAREGPT,
    TOOL,
    Take,
    answers,
    calls,
    changed,
    findings,
    reasons,
    said,
    with_turn,
)

TURNS = SHAREGPT["conversations"]
LOOK = {"from": "gpt", "value": "I look."}
PYTHON = "calls: text that is written as Python, not as JSON"


def turn(place: int, **fields: Any) -> Any:
    """The row with other fields in a turn."""
    return with_turn(SHAREGPT, place, "conversations", **fields)


def hermes(place: int, value: str) -> Any:
    """The row with other words in a turn, and its tools in the system turn only."""
    return with_turn(changed(HERMES, tools=None), place, "conversations", value=value)


@pytest.mark.parametrize(("row", "unmapped"), [(SHAREGPT, ()), (HERMES, (PYTHON,))])
def test_several_calls_and_results_are_paired_in_order(
    take: Take, row: Any, unmapped: tuple[str, ...]
) -> None:
    """A turn answers several calls by a list, or by as many tags; Python's way to write is told."""
    found = take(row)
    cities = [("get_weather", {"city": "Bern"}), ("get_weather", {"city": "Oslo"})]
    assert calls(found) == cities
    assert [seen for _, seen, _ in answers(found)] == [{"sky": "rain"}, {"sky": "snow"}]
    assert findings(found) == [] and found.unmapped == unmapped


def test_one_result_for_several_calls_is_given_to_each_and_told(take: Take) -> None:
    """Turns alternate in LLaMA-Factory, so one observation answers all calls before it."""
    found = take(turn(2, value="rain everywhere"))
    assert [seen for _, seen, _ in answers(found)] == ["rain everywhere"] * 2
    assert findings(found) == [] and "one turn for several" in found.unmapped[0]


@pytest.mark.parametrize(
    ("value", "number"),
    [('{"name": "get_weather", "arguments": {"city": "Bern"}}', 1), ('{"sky": "rain"}', 0)],
)
def test_function_is_a_call_or_a_result_by_what_it_holds(
    take: Take, value: str, number: int
) -> None:
    """Tools disagree on the role `function`: a name with arguments is a call."""
    turns = [{"from": "human", "value": "Rain?"}, {"from": "function", "value": value}]
    found = take(changed(SHAREGPT, conversations=turns))
    assert len(calls(found)) == number and found.has_results == (not number)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"conversations": [TURNS[0], LOOK, *TURNS[1:]]}, ["I look.", REPLY]),
        (
            {"conversations": TURNS[:3], "chosen": TURNS[3], "rejected": {"value": "No."}},
            [REPLY],
        ),
    ],
    ids=["words and the call after them are one turn", "the better answer is read"],
)
def test_what_the_assistant_says(take: Take, columns: Any, words: list[str]) -> None:
    """Words stay with the call that follows them; `rejected` is named and left out."""
    found = take({**SHAREGPT, **columns})
    assert said(found, "assistant") == words and said(found, "system") == ["You know the weather."]
    assert findings(found) == []
    assert any("rejected" in note for note in found.unmapped) == ("rejected" in columns)


@pytest.mark.parametrize(
    ("row", "expected", "word"),
    [
        (turn(1, value="I call get_weather"), ["false_api_call_format"], "not JSON"),
        (
            changed(turn(3, **{"from": "narrator"}), tools="f(x)"),
            ["illegal_schema", "malformed_dialogue"],
            "narrator",
        ),
        ({"conversations": []}, ["malformed_dialogue"], "no turns"),
        (turn(1, value="I look.\nAction Input: {}"), ["malformed_dialogue"], "as ToolLLaMA has"),
        (
            hermes(2, '<tool_call>\nget_weather(city="Bern")\n</tool_call>'),
            ["false_api_call_format"],
            "that is not a call",
        ),
    ],
    ids=[
        "a turn of calls that holds none",
        "unknown roles and unread tools",
        "no column of turns",
        "calls in words",
        "a block that is not a call",
    ],
)
def test_what_cannot_be_read_is_a_fault(
    take: Take, row: Any, expected: list[str], word: str
) -> None:
    """Nothing vanishes: the row comes back with the reason in words."""
    found = take(row)
    assert [f.reason for f in found.faults] == expected and word in found.faults[-1].detail
    assert found.raw == row and (found.dialogue is None or calls(found) == [] or len(expected) > 1)


OTHER = {"type": "function", "function": {"name": "get_time", "parameters": {}}}
TWO = [*map(json.dumps, (TOOL, OTHER))]


@pytest.mark.parametrize("block", ["\n".join(TWO), "\n\n".join(TWO), f"[{', '.join(TWO)}]"])
def test_the_list_of_tools_leaves_the_system_turn(take: Take, block: str) -> None:
    """The record holds them as APIs; one JSON object a line is as good as a list."""
    found = take(hermes(0, f"Call.\n<tools>\n{block}\n</tools>"))
    assert found.dialogue and said(found, "system") == ["Call.\n"]
    assert [a.function for a in found.dialogue.query.pool] == ["get_weather", "get_time"]


def test_the_column_stands_in_for_tools_that_cannot_be_read(take: Take) -> None:
    """hermes-function-calling-v1 has its tools twice: the column is used where the turn fails."""
    row = with_turn(HERMES, 0, "conversations", value="<tools>get_weather(city)</tools>")
    found = take(row)
    assert findings(found) == [] and any("<tools>" in note for note in found.unmapped)


def test_results_are_told_by_their_tags(take: Take) -> None:
    """Some templates put them into a user's turn; a call without one got no answer."""
    assert reasons(take(with_turn(HERMES, 3, "conversations", **{"from": "user"}))) == []
    value = '<tool_response>\n{"name": "get_weather", "content": "rain"}\n</tool_response>'
    (finding,) = findings(take(hermes(3, value)))
    assert finding.detail == "get_weather got no answer"
