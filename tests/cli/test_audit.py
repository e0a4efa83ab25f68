"""`toolloom audit`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from toolloom.cli import app

FUNCTION = {
    "name": "price",
    "description": "What something costs.",
    "parameters": {
        "type": "dict",
        "properties": {"item": {"type": "string"}},
        "required": ["item"],
    },
}


def row(item: object) -> str:
    return json.dumps(
        {
            "id": "q",
            "question": [[{"role": "user", "content": "What is a rose?"}]],
            "function": [FUNCTION],
            "ground_truth": [{"price": {"item": [item]}}],
        }
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of good rows, and one with a fault."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.jsonl").write_text(f"{row('rose')}\n{row('rose')}\n")
    (tmp_path / "bad.jsonl").write_text(f"{row('rose')}\n{row(7)}\n")
    return tmp_path


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["audit", *arguments])


def test_good_data_ends_with_0(home: Path) -> None:
    """And the report says that nothing was found."""
    ran = call("good.jsonl", "--format", "bfcl")
    assert ran.exit_code == 0, ran.output
    assert "2 rows, 2 of them dialogues, with 2 calls. No row has a finding." in ran.stdout


def test_findings_end_with_1_and_are_shown_and_written(home: Path) -> None:
    """A table by reason with examples, the report as JSON, the flagged rows as lines."""
    ran = call(
        "bad.jsonl", "--format", "bfcl", "--json", "report.json", "--flagged", "flagged.jsonl"
    )
    assert ran.exit_code == 1, ran.output
    assert "invalid_input_parameters" in ran.stdout
    assert "bad.jsonl, row 2, message 2: price: `item`: 7 is not of type 'string'" in ran.stdout
    report = json.loads((home / "report.json").read_text())
    assert report["reasons"]["invalid_input_parameters"]["rows"] == report["flagged"] == 1
    (flagged,) = map(json.loads, (home / "flagged.jsonl").read_text().splitlines())
    assert flagged["row"] == json.loads(row(7))
    assert flagged["findings"][0]["reason"] == "invalid_input_parameters"


def test_the_report_can_be_the_output(home: Path) -> None:
    """`--json -` prints JSON and nothing else; `-n 0` leaves the examples out."""
    ran = call("bad.jsonl", "--format", "bfcl", "--json", "-", "-n", "0")
    report = json.loads(ran.stdout)
    assert report["reasons"]["invalid_input_parameters"]["examples"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.jsonl", "--format", "bfcl"), "none.jsonl does not exist"),
        (("good.jsonl", "--format", "bfcl4"), "did you mean `bfcl`?"),
        (("good.jsonl", "--format", "sharegpt"), "does not look like sharegpt"),
        (("good.jsonl", "--format", "bfcl", "--flagged", "good.jsonl"), "is what is audited"),
        (("good.jsonl", "--format", "bfcl", "--json", "no/report.json"), "cannot be written"),
        (("noise.bin", "--format", "bfcl"), "is no text"),
        (("empty.json", "--format", "api-bank"), "is empty"),
        (("cut.json", "--format", "bfcl"), "no JSON"),
    ],
)
def test_a_mistake_ends_with_2_and_a_sentence(
    home: Path, arguments: tuple[str, ...], told: str
) -> None:
    """Never with a traceback."""
    (home / "noise.bin").write_bytes(bytes(range(256)))
    (home / "empty.json").write_bytes(b"")
    (home / "cut.json").write_text('[{"id": "q", "question"')
    ran = call(*arguments)
    assert ran.exit_code == 2, ran.output
    assert told in ran.stderr and "Traceback" not in ran.output


def test_control_characters_of_the_data_do_not_reach_the_terminal(home: Path) -> None:
    """Data of others is data, whatever it holds."""
    (home / "odd.jsonl").write_text(row("rose").replace('"price"', '"\\u001b[2Jprice"', 1) + "\n")
    ran = call("odd.jsonl", "--format", "bfcl")
    assert ran.exit_code == 1 and "\x1b" not in ran.output
