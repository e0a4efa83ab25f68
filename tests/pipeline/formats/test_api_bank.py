"""API-Bank's descriptions, dialogues, training rows and scenes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import api_bank
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api

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
LOGIN = {"name": "GetUserToken", "description": "", "input_parameters": {}, "output_parameters": {}}


def turn(name: str, given_values: dict[str, Any], output: Any, error: Any = None) -> dict[str, Any]:
    result = {"api_name": name, "input": given_values, "output": output, "exception": error}
    return {"role": "API", "api_name": name, "param_dict": given_values, "result": result}


DIALOGUE = [
    {"role": "User", "text": "May I have the blue book?"},
    turn("ToolSearcher", {"keywords": "borrow book"}, [LOGIN, DESCRIPTION]),
    turn("GetUserToken", {"username": "ann"}, {"token": "t1"}),
    turn("BorrowBook", {"token": "t1", "shelves": [1, 2]}, "2024-05-01"),
    turn("ToolSearcher", {"keywords": "find shelf"}, {"name": "FindShelf", "input_parameters": {}}),
    {"role": "AI", "text": "It is yours."},
]
SCENE = (Path(__file__).parents[2] / "golden" / "apis" / "api_bank_scene.txt").read_text()


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


def test_a_folder_is_one_source(tmp_path: Path) -> None:
    """Calls in one file and the description in another tell of the same API."""
    write(tmp_path / "talk.jsonl", DIALOGUE)
    (tmp_path / "scene.txt").write_text(SCENE)
    found, ledger = gather(tmp_path)
    assert set(found) == {"GetUserToken", "BorrowBook", "FindShelf", "ListBooks"}
    assert found["BorrowBook"].properties["shelves"]["examples"] == [[3], [1, 2]]
    assert found["ListBooks"].properties["tags"]["type"] == "object"
    skipped = [line.what for line in ledger.report(imported=4).skipped]
    assert skipped == ["scene.txt: This is no call", "ToolSearcher"]


def test_training_rows_hold_descriptions_and_calls(tmp_path: Path) -> None:
    """Descriptions stand as lines in the instruction; answers of searches hold more of them."""
    found_later = str({"name": "FindShelf", "description": "Finds it.", "input_parameters": {}})
    row = {
        "instruction": "API descriptions:\n" + json.dumps(DESCRIPTION),
        "input": "User: Hello\nAPI-Request: [ToolSearcher(keywords='shelf')]->" + found_later,
        "output": "API-Request: [BorrowBook(token='it's mine', shelves=[1])]",
    }
    (tmp_path / "train.json").write_text(json.dumps([row]))
    found, _ = gather(tmp_path / "train.json")
    assert found["FindShelf"].description == "Finds it."
    assert found["BorrowBook"].properties["token"]["examples"] == ["it's mine"]


def test_training_rows_of_level_3_name_their_fields_otherwise(tmp_path: Path) -> None:
    """There a description has `apiCode`, `parameters` and `response`."""
    described = {
        "apiCode": "FindShelf",
        "description": "Finds a shelf.",
        "parameters": {"when": {"type": "datetime"}, "deep": {"type": "Union[int, str]"}},
        "response": {"number": {"type": "float"}},
    }
    row = {"instruction": "API descriptions:", "input": json.dumps(described) + "\nUser: Where?"}
    (tmp_path / "train.json").write_text(json.dumps([row]))
    found, _ = gather(tmp_path / "train.json")
    assert found["FindShelf"].properties == {"when": {"type": "string"}, "deep": {}}
    assert found["FindShelf"].fields == {"number": {"type": "number"}}


def test_searches_with_what_was_meant(tmp_path: Path) -> None:
    """Meant is what was found and called last before the next search, else what was found last."""
    write(tmp_path / "talk.jsonl", DIALOGUE)
    expected = [("borrow book", "BorrowBook"), ("find shelf", "FindShelf")]
    assert api_bank.searches(tmp_path) == expected
    assert api_bank.searches(tmp_path / "talk.jsonl") == expected


@pytest.mark.parametrize("answer", ["{" * 3000, "{'a': " * 200, "[", "{'name': 5}", "{}"])
def test_odd_answers_in_training_rows(tmp_path: Path, answer: str) -> None:
    """What stands after the arrow may be anything."""
    row = {"input": "", "instruction": f"API-Request: [ToolSearcher(keywords='a')]->{answer}"}
    found, ledger = gather(write(tmp_path / "odd.jsonl", [row]))
    assert found == {} and ledger.read == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("content", ["\n" * 500_000, " \n" * 500_000 + "Scene"])
def test_an_empty_text_is_told_quickly(content: str) -> None:
    """The time to tell a scene grows with the text, not with its square."""
    assert not api_bank.fits_text(content)
