from pathlib import Path
from typing import Any

import pytest
from support import foreign_rows

from toolloom.pipeline.formats.audit.conversation import MOST_TOOLS, Conversation, RowCall
from toolloom.pipeline.formats.audit.rows import ForeignRow


def conversation() -> Conversation:
    """A row that offers two functions and in which the user has spoken."""
    taken = Conversation("openai", ForeignRow("a row"))
    taken.offer([foreign_rows.TOOL, {"name": "get time", "parameters": None}])
    taken.user("Rain?")
    return taken


def answered(taken: Conversation) -> list[str | None]:
    made = taken.reading("x").dialogue
    assert made
    return [m.tool_call_id for m in made.messages if m.role == "tool"]


def test_a_result_without_an_id_answers_its_name_or_the_first_open_call() -> None:
    """Name before order; one too many answers nothing."""
    taken = conversation()
    taken.assistant("", [RowCall("get_weather", {}), RowCall("get time", {})])
    taken.result("noon", name="get time")
    taken.result("rain")
    taken.result("snow")
    assert answered(taken) == ["call 2", "call 1", None]


def test_ids_that_a_row_gives_are_kept_even_if_they_are_wrong() -> None:
    """An id used twice, or one that answers nothing, is for the checks to find."""
    taken = conversation()
    taken.assistant("", [RowCall("get_weather", {"city": "Bern"}, "a")])
    taken.result("rain", "b")
    assert answered(taken) == ["b"]
    found = [f.detail for f in foreign_rows.findings(taken.reading("x"))]
    assert "an observation that answers no open call" in found


def test_ids_of_results_mean_nothing_where_calls_have_none() -> None:
    """Then the order decides, as if there were none."""
    taken = conversation()
    taken.assistant("", [RowCall("get_weather", {"city": "Bern"})])
    taken.result("rain", "b")
    assert answered(taken) == ["call 1"] and taken.reading("x").has_results


def test_a_name_that_no_endpoint_takes_is_mapped_with_its_calls_and_results() -> None:
    """`get time` becomes a legal function name everywhere."""
    taken = conversation()
    taken.assistant("", [RowCall("get time", {})])
    taken.result("noon", name="get time")
    found = taken.reading("x")
    assert foreign_rows.calls(found) == [("get_time", {})]
    assert foreign_rows.answers(found) == [("get_time", "noon", None)]


def test_our_own_envelope_is_not_wrapped_again() -> None:
    """A result that is an envelope is taken as it is; anything else is its response."""
    taken = conversation()
    taken.assistant("", [RowCall("get_weather", {}), RowCall("get_weather", {})])
    taken.result('{"response": null, "error": "503"}')
    taken.result({"error": "503"})
    assert foreign_rows.answers(taken.reading("x")) == [
        ("get_weather", None, "503"),
        ("get_weather", {"error": "503"}, None),
    ]


@pytest.mark.parametrize("given", [None, "", "{}"])
def test_a_call_without_arguments_has_none(given: Any) -> None:
    """Nothing, an empty text and an empty object are the same call; the first two are told."""
    taken = conversation()
    taken.assistant("", [RowCall("get time", given)])
    found = taken.reading("x")
    assert foreign_rows.calls(found) == [("get_time", {})]
    assert bool(found.unmapped) == (given != "{}")


def test_faults_name_the_message_they_are_in() -> None:
    """Before any turn there is no message to name."""
    taken = Conversation("openai", ForeignRow("a row"))
    taken.offer([3])
    taken.user("Rain?")
    taken.offer([{"description": "no name"}])
    assert [f.turn for f in taken.faults] == [None, 1]


def test_notes_and_tools_are_bounded(tmp_path: Path) -> None:
    """A row with endless columns and tools is read as far as it may cost."""
    tools = [{"name": f"f{n}"} for n in range(MOST_TOOLS + 5)]
    row = {**foreign_rows.TRL, **{f"column {n}": 1 for n in range(500)}, "tools": tools}
    found = foreign_rows.reading(tmp_path, "trl", row)
    assert found.dialogue and len(found.dialogue.query.pool) == MOST_TOOLS
    assert len(found.unmapped) < 60
