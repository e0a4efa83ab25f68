"""BFCL's functions, questions and gold answers."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import bfcl
from toolloom.pipeline.formats.audit import audited
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, Finding, Reason

FUNCTION = {"name": "shapes.triangle.area", "parameters": {"type": "dict", "properties": {}}}


def gather(path: Path, *rows: Any) -> tuple[list[Api], ImportLog]:
    path.write_text("\n".join(json.dumps(row) for row in rows))
    ledger = ImportLog(path.name)
    return list(bfcl.read(path, ledger)), ledger


def test_questions_carry_functions(tmp_path: Path) -> None:
    """Functions of questions are read once each; a question without any is skipped by its id."""
    question = {"id": "q_1", "question": [[{"role": "user", "content": "How large is it?"}]]}
    rows = [{**question, "function": [FUNCTION]}, {**question, "function": FUNCTION}, question]
    found, ledger = gather(tmp_path / "questions.json", *rows)
    report = ledger.report(imported=len(found))
    assert bfcl.fits(rows[0]) and not bfcl.fits(question)
    assert len(found) == 1 and report.read == 2
    assert report.skipped[0].what == "questions.json:3 q_1"


def test_names_without_dots_belong_to_their_file(tmp_path: Path) -> None:
    """The tool of a plain name is its file, in words."""
    (api,), _ = gather(tmp_path / "file_system.json", {**FUNCTION, "name": "list_files"})
    assert (api.tool, api.name) == ("file system", "list_files")


FUNCTIONS = [
    {
        "name": "bakery.order",
        "description": "Order bread.",
        "parameters": {
            "type": "dict",
            "properties": {
                "kind": {"type": "string", "enum": ["Rye", "Wheat"], "description": "Flour."},
                "loaves": {"type": "integer", "description": "How many."},
                "weight": {"type": "float", "description": "Of a loaf in kg. Default is 1.0."},
                "days": {"type": "tuple", "items": {"type": "string"}, "description": "When."},
                "note": {"type": "dict", "properties": {"from": {"type": "string"}}},
                "shop": {"type": "any", "description": "Any of ours."},
            },
            "required": ["kind", "loaves"],
        },
    }
]
QUESTION = {
    "id": "simple_1",
    "question": [[{"role": "user", "content": "Bring us 12 rye loaves on Monday and on Friday."}]],
    "function": FUNCTIONS,
}
GOLD = {
    "id": "simple_1",
    "ground_truth": [
        {
            "bakery.order": {
                "kind": ["Rye", "rye"],
                "loaves": [12],
                "weight": ["", 1],
                "days": [["Monday", "Friday"], ["Mon", "Fri"]],
                "note": [{"from": ["us", ""]}, ""],
                "shop": ["", None],
            }
        }
    ],
}


def written(folder: Path, question: Any, gold: Any, beside: bool = False) -> Path:
    """A file of questions, and one of gold answers in the sibling folder."""
    questions = folder / "BFCL_v4_simple.json"
    questions.write_text(json.dumps(question) + "\n")
    answers = folder / "possible_answer" / questions.name
    if beside:
        answers = folder / "BFCL_v4_simple_possible_answer.json"
    answers.parent.mkdir(exist_ok=True)
    answers.write_text(json.dumps(gold) + "\n")
    return questions


def findings(folder: Path, question: Any = QUESTION, gold: Any = GOLD) -> list[Finding]:
    return [f for row in audited(written(folder, question, gold), "bfcl") for f in row.findings]


def changed(**arguments: Any) -> Any:
    """The gold answer with other allowed values; None takes an argument away."""
    gold = copy.deepcopy(GOLD)
    given: dict[str, Any] = gold["ground_truth"][0]["bakery.order"]  # type: ignore[index]
    given.update(arguments)
    for name in [n for n, values in given.items() if values is None]:
        del given[name]
    return gold


@pytest.mark.parametrize("beside", [False, True])
def test_a_right_answer_passes(tmp_path: Path, beside: bool) -> None:
    """`""` and null leave out, tuples are lists, a float may be whole, `any` is anything."""
    rows = list(audited(written(tmp_path, QUESTION, GOLD, beside), "bfcl"))
    assert [row.findings for row in rows] == [()]
    dialogue = rows[0].reading.dialogue
    assert dialogue
    ((_, call),) = dialogue.calls()
    assert call.function.name == "bakery_order"
    assert call.function.arguments == {
        "kind": "Rye",
        "loaves": 12,
        "weight": 1,
        "days": ["Monday", "Friday"],
        "note": {"from": "us"},
    }


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        (changed(loaves=[15]), Reason.UNGROUNDED_ARGUMENT),
        (changed(loaves=None), Reason.MISSING_INPUT_PARAMETERS),
        (changed(loaves=["12"]), Reason.INVALID_INPUT_PARAMETERS),
        (changed(loaves=[12.5]), Reason.INVALID_INPUT_PARAMETERS),
        (changed(kind=["Rye", "Dark"]), Reason.INVALID_INPUT_PARAMETERS),
        (changed(days=["Monday"]), Reason.INVALID_INPUT_PARAMETERS),
        (changed(loafs=[12]), Reason.INVALID_INPUT_PARAMETERS),
        ({"id": "simple_1", "ground_truth": [{"buy": {}}]}, Reason.API_HALLUCINATION),
        ({"id": "simple_1", "ground_truth": ["order()"]}, Reason.FALSE_API_CALL_FORMAT),
        ({"id": "simple_1"}, Reason.MALFORMED_DIALOGUE),
    ],
)
def test_a_planted_fault_is_found_under_its_reason(
    tmp_path: Path, gold: Any, reason: Reason
) -> None:
    """One change to the gold answer is enough."""
    assert reason in {f.reason for f in findings(tmp_path, gold=gold)}


def test_a_variable_the_user_names_may_stand_for_any_value(tmp_path: Path) -> None:
    """BFCL lets a string stand for a list or dict where it is a variable's name."""
    question = copy.deepcopy(QUESTION)
    question["question"] = [[{"role": "user", "content": "Bring 12 rye loaves on `breadDays`."}]]
    assert findings(tmp_path, question, changed(days=["breadDays"])) == []
    assert findings(tmp_path, question, changed(days=["otherDays"]))


def test_a_question_without_an_answer_and_an_answer_without_a_question(tmp_path: Path) -> None:
    """Both are told: nothing is dropped because its other half is missing."""
    gold = {"id": "simple_2", "ground_truth": []}
    first, second = findings(tmp_path, gold=gold)
    assert first.reason is Reason.NO_API_CALL
    assert "simple_2" in second.detail


def test_without_a_file_of_answers_the_functions_are_judged(tmp_path: Path) -> None:
    """The questions alone are read, and the report says what is missing."""
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(QUESTION))
    (row,) = audited(path, "bfcl")
    assert not row.findings
    assert any("gold answers" in told for told in row.reading.unmapped)


def test_rows_of_several_turns_are_named(tmp_path: Path) -> None:
    """They have no gold calls to judge; they are counted, with the reason."""
    several = {"id": "multi_turn_1", "question": [[], []], "involved_classes": ["Till"]}
    path = tmp_path / "mixed.json"
    path.write_text(f"{json.dumps(QUESTION)}\n{json.dumps(several)}\n")
    found = [f.detail for row in audited(path, "bfcl") for f in row.findings]
    assert len(found) == 1 and "several turns" in found[0]
