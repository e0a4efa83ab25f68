"""API-Bank's annotated dialogues and training rows."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats.audit import audited
from toolloom.schemas import Finding, Reason

FOUND = {
    "name": "BookTable",
    "description": "Books a table.",
    "input_parameters": {
        "guests": {"type": "int", "description": "How many come."},
        "time": {"type": "str", "description": "Format: %Y-%m-%d %H:%M:%S"},
        "remark": {"type": "str", "description": "Optional wishes."},
    },
    "output_parameters": {"number": {"type": "int", "description": "Of the table."}},
}


def api(name: str, given: Any, output: Any, exception: Any = None) -> dict[str, Any]:
    result = {"api_name": name, "input": dict(given), "output": output, "exception": exception}
    return {"role": "API", "api_name": name, "param_dict": given, "result": result}


TURNS: list[dict[str, Any]] = [
    {"role": "User", "text": "We are 6 and want a table on May 3rd at 7:30 pm."},
    {"role": "AI", "text": "Let me see what can do that."},
    api("ToolSearcher", {"keywords": "book table"}, FOUND),
    api("BookTable", {"guests": "6", "time": "2023-05-03 19:30:00"}, 14),
    {"role": "AI", "text": "It is table 14."},
]


def findings(folder: Path, turns: list[dict[str, Any]]) -> list[Finding]:
    path = folder / "dialogue.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return [f for row in audited(path, "api-bank") for f in row.findings]


def planted(**changes: Any) -> list[dict[str, Any]]:
    """The dialogue with a change to its last call, and to the echo of its result."""
    turns = copy.deepcopy(TURNS)
    call = turns[3]
    for key, value in changes.items():
        if key == "name":
            call["api_name"] = call["result"]["api_name"] = value
        elif value is None:
            del call["param_dict"][key]
        else:
            call["param_dict"][key] = value
    call["result"]["input"] = dict(call["param_dict"])
    return turns


@pytest.mark.parametrize(
    ("turns", "reason"),
    [
        (TURNS, None),  # numbers may be text, a search may find one API, the year may go unsaid
        (planted(guests="9"), Reason.UNGROUNDED_ARGUMENT),
        (planted(time="2023-05-08 19:30:00"), Reason.UNGROUNDED_ARGUMENT),
        (planted(guests="many"), Reason.INVALID_INPUT_PARAMETERS),
        (planted(room="blue"), Reason.INVALID_INPUT_PARAMETERS),
        (planted(time=None), Reason.MISSING_INPUT_PARAMETERS),
        (planted(name="OrderTable"), Reason.API_HALLUCINATION),
        ([*TURNS[:2], *TURNS[3:]], None),  # nobody describes the API: it is open
        ([*TURNS[:2], TURNS[3], TURNS[2], TURNS[4]], Reason.SEARCH_SKIPPED),
        ([*TURNS[:3], {"role": "API", "param_dict": {}}], Reason.FALSE_API_CALL_FORMAT),
        ([*TURNS, {"role": "Waiter", "text": "Sir?"}], Reason.MALFORMED_DIALOGUE),
    ],
)
def test_a_planted_fault_is_found_under_its_reason(
    tmp_path: Path, turns: list[dict[str, Any]], reason: Reason | None
) -> None:
    """One change to the dialogue is enough, and nothing is found in the dialogue as it was."""
    found = {f.reason for f in findings(tmp_path, turns)}
    assert reason in found if reason else not found


def test_a_result_of_another_call_is_found(tmp_path: Path) -> None:
    """The result repeats name and arguments; where they differ one of the two was changed."""
    turns = copy.deepcopy(TURNS)
    turns[3]["result"]["input"]["guests"] = 8
    turns[3]["result"]["api_name"] = "OrderTable"
    assert [f.reason for f in findings(tmp_path, turns)] == [Reason.MALFORMED_DIALOGUE] * 2


def test_a_folder_knows_what_any_of_its_searches_found(tmp_path: Path) -> None:
    """A dialogue without a search is held to the description another one found."""
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, TURNS)))
    bare = [TURNS[0], api("BookTable", {"guests": "6"}, 3), TURNS[4]]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, bare)))
    first, second = audited(tmp_path, "api-bank")
    assert first.findings == ()
    assert [f.reason for f in second.findings] == [Reason.MISSING_INPUT_PARAMETERS]


def training(output: str) -> dict[str, Any]:
    return {
        "instruction": "Generate an API request. The current time is 2039-03-09 18:56:09 Wednesday."
        f"\nAPI descriptions:\n{json.dumps(FOUND)}",
        "input": "User: We are 6, tomorrow at 7:30 pm.\nAI: Any wishes?\n"
        "User: A table that isn't loud, please.\nGenerate API Request: ",
        "output": output,
    }


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("API-Request: [BookTable(guests='6', time='2039-03-10 19:30:00')]", None),
        (
            "API-Request: [BookTable(guests='6', time='2039-03-10 19:30:00', remark='isn't loud')]",
            None,
        ),
        (
            "API-Request: [BookTable(guests='6', time='2039-03-12 19:30:00')]",
            Reason.UNGROUNDED_ARGUMENT,
        ),
        ("API-Request: BookTable guests 6", Reason.FALSE_API_CALL_FORMAT),
        ("AI: Table 14 is yours.", None),
    ],
)
def test_training_rows_are_read(tmp_path: Path, output: str, reason: Reason | None) -> None:
    """Descriptions, dialogue and present stand in the text; the output is a call or a reply."""
    path = tmp_path / "train.json"
    path.write_text(json.dumps([training(output)]))
    (row,) = audited(path, "api-bank")
    found = {f.reason for f in row.findings}
    assert reason in found if reason else not found
    assert row.reading.dialogue and row.reading.dialogue.query.now.year == 2039
