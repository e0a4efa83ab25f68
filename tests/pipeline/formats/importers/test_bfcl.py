"""BFCL's function documents and questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats.importers import bfcl
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import Api

FUNCTION = {
    "name": "shapes.triangle.area",
    "description": "The area of a triangle.",
    "parameters": {
        "type": "dict",
        "properties": {
            "base": {"type": "float", "description": "In metres."},
            "corners": {"type": "tuple", "items": {"type": "float"}},
            "note": {"type": "any"},
        },
        "required": ["base"],
    },
    "response": {"type": "dict", "properties": {"area": {"type": "float"}}},
}


def gather(path: Path, *rows: Any) -> tuple[list[Api], ImportLog]:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    ledger = ImportLog(path.name)
    return list(bfcl.read(path, ledger)), ledger


def test_a_dotted_name_is_a_tool_and_a_name(tmp_path: Path) -> None:
    """What stands before the last dot is the tool; the function name is legal and booked."""
    (api,), ledger = gather(tmp_path / "geometry.json", FUNCTION)
    assert (api.tool, api.name, api.function) == ("shapes.triangle", "area", "shapes_triangle_area")
    assert api.source.operation == "shapes.triangle.area"
    assert [renamed.why for renamed in ledger.report(imported=1).renamed] == ["illegal"]


def test_its_types_become_those_of_json_schema(tmp_path: Path) -> None:
    """dict, float, tuple and any are put right, in the response as well."""
    (api,), _ = gather(tmp_path / "geometry.json", FUNCTION)
    assert api.properties["base"] == {"type": "number", "description": "In metres."}
    assert api.properties["corners"] == {"type": "array", "items": {"type": "number"}}
    assert api.properties["note"] == {}
    assert api.fields == {"area": {"type": "number"}}


def test_questions_carry_functions(tmp_path: Path) -> None:
    """Functions of questions are read once each; a question without any is skipped by its id."""
    question = {"id": "q_1", "question": [[{"role": "user", "content": "How large is it?"}]]}
    rows = [{**question, "function": [FUNCTION]}, {**question, "function": FUNCTION}, question]
    found, ledger = gather(tmp_path / "questions.json", *rows)
    report = ledger.report(imported=len(found))
    assert len(found) == 1 and report.read == 2
    assert report.skipped[0].what == "questions.json:3 q_1"


def test_names_without_dots_belong_to_their_file(tmp_path: Path) -> None:
    """The tool of a plain name is its file, in words."""
    (api,), _ = gather(tmp_path / "file_system.json", {**FUNCTION, "name": "list_files"})
    assert (api.tool, api.name) == ("file system", "list_files")


@pytest.mark.parametrize(
    "row", [5, "x", {}, {"question": 1}, {"function": 5}, {"function": []}, {"parameters": 5}]
)
def test_odd_rows_are_booked(tmp_path: Path, row: Any) -> None:
    """A row of any other form is one skipped line."""
    found, ledger = gather(tmp_path / "odd.jsonl", row, FUNCTION)
    assert len(found) == 1 and ledger.read == 2


def test_fits() -> None:
    """A document or a question is told from other JSON."""
    assert bfcl.fits(FUNCTION) and bfcl.fits([FUNCTION])
    assert bfcl.fits({"question": [], "function": [FUNCTION]})
    assert not bfcl.fits({"name": "x", "parameters": {"type": "object"}})
    assert not bfcl.fits({"question": "What?", "function": ""}) and not bfcl.fits(None)
