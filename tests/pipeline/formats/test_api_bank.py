"""API-Bank's descriptions, dialogues, training rows and scenes, as APIs and as dialogues."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.audit import audited
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, Finding, Reason

DESCRIPTION = {
    "name": "BorrowBook",
    "description": "Borrows a book from the library.",
    "input_parameters": {
        "token": {"type": "str", "description": "The reader's token."},
        "shelves": {"type": "list(int)", "description": "Where to look."},
        "days": {"type": "int", "description": "Optional. How long."},
    },
    "output_parameters": {"due": {"type": "str", "description": "When to bring it back."}},
}


def turn(name: str, given_values: dict[str, Any], output: Any, error: Any = None) -> dict[str, Any]:
    result = {"api_name": name, "input": dict(given_values), "output": output, "exception": error}
    return {"role": "API", "api_name": name, "param_dict": given_values, "result": result}


GOLDEN = Path(__file__).parents[2] / "golden" / "apis"


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def gather(source: Path) -> tuple[dict[str, Api], ImportLog]:
    ledger = ImportLog(source.name)
    found = {api.name: api for api in api_bank.read(source, ledger)}
    return found, ledger


def test_arguments_left_out_in_a_call_are_not_required(tmp_path: Path) -> None:
    """Without a description an argument is required if every call gives it; types are joined."""
    calls = [turn("Pay", {"sum": 3, "to": "Ann"}, True), turn("Pay", {"sum": 2.5}, None, "poor")]
    found, _ = gather(write(tmp_path / "talk.jsonl", calls))
    api = found["Pay"]
    assert api.required == ("sum",) and api.properties["sum"]["type"] == "number"
    assert api.returns == {"type": "boolean"}


def test_training_rows_hold_descriptions_and_calls(tmp_path: Path) -> None:
    """Descriptions stand as lines in the instruction; answers of searches hold more of them; those
    of level 3 name their fields otherwise."""
    found_later = str({"name": "FindShelf", "description": "Finds it.", "input_parameters": {}})
    row = {
        "instruction": "API descriptions:\n" + json.dumps(DESCRIPTION),
        "input": "User: Hello\nAPI-Request: [ToolSearcher(keywords='shelf')]->" + found_later,
        "output": "API-Request: [BorrowBook(token='it's mine', shelves=[1])]",
    }
    level_3 = {
        "apiCode": "SetShelf",
        "description": "Sets a shelf.",
        "parameters": {"when": {"type": "datetime"}, "deep": {"type": "Union[int, str]"}},
        "response": {"number": {"type": "float"}},
    }
    other = {"instruction": "API descriptions:", "input": json.dumps(level_3) + "\nUser: Where?"}
    (tmp_path / "train.json").write_text(json.dumps([row, other]))
    found, _ = gather(tmp_path / "train.json")
    assert found["SetShelf"].properties == {"when": {"type": "string"}, "deep": {}}
    assert found["SetShelf"].fields == {"number": {"type": "number"}}
    assert found["FindShelf"].description == "Finds it."
    assert found["BorrowBook"].properties["token"]["examples"] == ["it's mine"]


def test_searches_with_what_was_meant() -> None:
    """Meant is what was found and called last before the next search, else what was found last."""
    expected = [("borrow book", "BorrowBook"), ("find shelf", "FindShelf")]
    assert api_bank.searches(GOLDEN / "api_bank.jsonl") == expected
    assert api_bank.searches(GOLDEN) == expected


@pytest.mark.timeout(60)
@pytest.mark.parametrize("content", ["\n" * 500_000, " \n" * 500_000 + "Scene"])
def test_an_empty_text_is_told_quickly(content: str) -> None:
    """The time to tell a scene grows with the text, not with its square."""
    assert not api_bank.fits_text(content)


# -- As dialogues


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


TALK: list[dict[str, Any]] = [
    {"role": "User", "text": "We are 6 and want a table on May 3rd at 7:30 pm."},
    {"role": "AI", "text": "Let me see what can do that."},
    turn("ToolSearcher", {"keywords": "book table"}, FOUND),
    turn("BookTable", {"guests": "6", "time": "2023-05-03 19:30:00"}, 14),
    {"role": "AI", "text": "It is table 14."},
]


# The result repeats name and arguments; where they differ one of the two was changed.
REPEATED_WRONG = {**TALK[3], "result": {**TALK[3]["result"], "input": {"guests": 8}}}


def findings(folder: Path, turns: list[dict[str, Any]]) -> list[Finding]:
    path = folder / "dialogue.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    return [f for row in audited(path) for f in row.findings]


def planted(**changes: Any) -> list[dict[str, Any]]:
    """The dialogue with a change to its last call, and to the echo of its result."""
    turns = copy.deepcopy(TALK)
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
        (TALK, None),  # numbers may be text, a search may find one API, the year may go unsaid
        (planted(guests="9"), Reason.UNGROUNDED_ARGUMENT),
        (planted(time="2023-05-08 19:30:00"), Reason.UNGROUNDED_ARGUMENT),
        (planted(guests="many"), Reason.INVALID_INPUT_PARAMETERS),
        (planted(room="blue"), Reason.INVALID_INPUT_PARAMETERS),
        (planted(time=None), Reason.MISSING_INPUT_PARAMETERS),
        (planted(name="OrderTable"), Reason.API_HALLUCINATION),
        ([*TALK[:2], *TALK[3:]], None),  # nobody describes the API: it is open
        ([*TALK[:2], TALK[3], TALK[2], TALK[4]], Reason.SEARCH_SKIPPED),
        ([*TALK[:3], {"role": "API", "param_dict": {}}], Reason.FALSE_API_CALL_FORMAT),
        ([*TALK, {"role": "Waiter", "text": "Sir?"}], Reason.MALFORMED_DIALOGUE),
        ([*TALK[:3], REPEATED_WRONG, TALK[4]], Reason.MALFORMED_DIALOGUE),
    ],
)
def test_a_planted_fault_is_found_under_its_reason(
    tmp_path: Path, turns: list[dict[str, Any]], reason: Reason | None
) -> None:
    """One change to the dialogue is enough, and nothing is found in the dialogue as it was."""
    found = {f.reason for f in findings(tmp_path, turns)}
    assert reason in found if reason else not found


def test_a_folder_knows_what_any_of_its_searches_found(tmp_path: Path) -> None:
    """A dialogue without a search is held to the description another one found."""
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, TALK)))
    bare = [TALK[0], turn("BookTable", {"guests": "6"}, 3), TALK[4]]
    (tmp_path / "b.jsonl").write_text("\n".join(map(json.dumps, bare)))
    first, second = audited(tmp_path)
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
    (row,) = audited(path)
    found = {f.reason for f in row.findings}
    assert reason in found if reason else not found
    assert row.reading.dialogue and row.reading.dialogue.query.now.year == 2039
