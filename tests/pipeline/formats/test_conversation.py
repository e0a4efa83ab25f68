"""Turns on their way into a dialogue, and values in text."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import foreign_rows
from support.json_values import json_values

from toolloom.pipeline.formats.conversation import (
    MOST_TOOLS,
    Conversation,
    RowCall,
    opened,
    present,
)
from toolloom.pipeline.formats.rows import ForeignRow


def conversation() -> Conversation:
    """A row that offers two functions and in which the user has spoken."""
    taken = Conversation("openai", ForeignRow("a row"))
    taken.offer([foreign_rows.TOOL, {"name": "get time", "parameters": None}])
    taken.user("Rain?")
    return taken


@pytest.mark.parametrize(
    ("calls", "results", "expected"),
    [
        (
            [RowCall("get_weather", {}), RowCall("get time", {})],
            [("noon", None, "get time"), ("rain",), ("snow",)],
            ["call 2", "call 1", None],
        ),
        ([RowCall("get_weather", {}, "a")], [("rain", "b")], ["b"]),
        ([RowCall("get_weather", {})], [("rain", "b")], ["call 1"]),
    ],
    ids=[
        "name before order, and one too many answers nothing",
        "ids that a row gives are kept even if they are wrong, for the checks to find",
        "ids of results mean nothing where calls have none",
    ],
)
def test_a_result_answers_its_id_its_name_or_the_first_open_call(
    calls: list[RowCall], results: list[Any], expected: list[str | None]
) -> None:
    """Whichever of them the row has."""
    taken = conversation()
    taken.assistant("", calls)
    for result in results:
        taken.result(*result)
    dialogue = taken.reading("x").dialogue
    assert dialogue
    assert [m.tool_call_id for m in dialogue.messages if m.role == "tool"] == expected
    assert taken.reading("x").has_results


def test_our_own_envelope_is_not_wrapped_again() -> None:
    """A result that is an envelope is taken as it is; anything else is its response."""
    taken = conversation()
    taken.assistant("", [RowCall("get_weather", {})] * 3)
    for result in ('{"response": null, "error": "503"}', {"error": "503"}, "{broken"):
        taken.result(result)
    assert [seen for _, *seen in foreign_rows.answers(taken.reading("x"))] == [
        [None, "503"],
        [{"error": "503"}, None],
        ["{broken", None],
    ]


def test_notes_and_tools_are_bounded(tmp_path: Path) -> None:
    """A row with endless columns and tools is read as far as it may cost."""
    tools = [{"name": f"f{n}"} for n in range(MOST_TOOLS + 5)]
    row = {**foreign_rows.TRL, **{f"column {n}": 1 for n in range(500)}, "tools": tools}
    found = foreign_rows.reading(tmp_path, row)
    assert found.dialogue and len(found.dialogue.query.pool) == MOST_TOOLS
    assert len(found.unmapped) < 60


def test_tools_get_legal_and_unique_names() -> None:
    """Calls are found under the name their row gives; unknown names stay as they are."""
    taken = Conversation("openai", ForeignRow("a row"))
    for name in ("a.b", "a_b", "api_search", "a.b"):
        taken.tool(name, "", None)
    taken.user("Rain?")
    taken.assistant("", [RowCall(name, "") for name in ("a.b", "a_b", "api_search", "c")])
    found = taken.reading()
    assert {
        *foreign_rows.calls(found)[0][1]
    } == set() and "arguments: none, read as {}" in found.unmapped
    assert [name for name, _ in foreign_rows.calls(found)] == ["a_b", "a_b_2", "api_search_2", "c"]
    assert found.dialogue and len(found.dialogue.query.pool) == 3


def test_a_default_is_allowed_whatever_its_own_schema_says() -> None:
    """`N/A` for a choice of seconds or minutes is no fault of the call that leaves it so."""
    taken = Conversation("openai", ForeignRow("a row"))
    unit = {"type": "string", "enum": ["s", "min"], "default": "N/A"}
    taken.tool("wait", "", {"type": "object", "properties": {"unit": unit}})
    api = taken.api("wait")
    assert api and {"const": "N/A"} in api.properties["unit"]["anyOf"]


JSON = json_values()


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=4))
def test_json_and_python_s_text_of_a_value_are_that_value(value: object) -> None:
    """JSON is read as such; what Python's `repr` writes too, and is told."""
    assert opened(json.dumps(value)) == (value, "")
    found, how = opened(repr(value))
    assert found == value and (how or json.loads(repr(value)) == value)


def test_broken_json_is_mended_only_if_asked() -> None:
    """Results are never mended: only what a model was to write as JSON is. Nothing is evaluated,
    and a bare number or word is text."""
    for other in ("plain", "", "{broken", "__import__('os')", "[open('x')]", "7"):
        assert opened(other) == (other, "")
    assert opened('{"a": [1, 2')[0] == '{"a": [1, 2'
    assert opened('{"a": [1, 2', mend=True) == ({"a": [1, 2]}, "is not JSON and was mended")


@pytest.mark.parametrize(
    ("told", "now"),
    [
        ("The present moment is Monday 2026-03-02 09:30. Ask.", dt.datetime(2026, 3, 2, 9, 30)),
        ("Today is 2024-05-01", dt.datetime(2024, 5, 1)),
        ("Current date: Friday, 2024-05-03", dt.datetime(2024, 5, 3)),
        ("Today is 2024-02-31", None),
        ("You are a model of 2024-05-01.", None),
    ],
)
def test_the_present_is_read_from_the_system_turn(told: str, now: dt.datetime | None) -> None:
    """Relative dates in a dialogue can be judged only if its present is told."""
    assert present(told) == now
