"""The commands about versions: `regenerate`, `versions`, `diff`, `complexity`, `export`; and `audit`."""

from __future__ import annotations

import fcntl
import json
from functools import partial
from pathlib import Path

import pytest
from support.commands import call


def test_mistakes_are_told_with_what_there_is(outputs: Path) -> None:
    """A dataset, version or split that does not exist: exit code 2, and the known names."""
    anew = ("regenerate", "--engine", "local", "-o", outputs)
    for arguments, told in (
        ((*anew, "train", "--dataset", "nope"), "There are: toy/1.0.0"),
        ((*anew, "train", "--dataset", "toy", "--from", "2.0.0"), "There are: toy/1.0.0"),
        ((*anew, "test", "--dataset", "toy"), "There are: train, validation, test_instruction"),
        (("versions", "nope", "-o", outputs), "There are: toy/1.0.0"),
        (("diff", "toy", "1.0.0", "9.0.0", "-o", outputs), "There are: toy/1.0.0"),
        ((*anew, "train", "--dataset", "toy", "--recipe", "none.yaml"), "none.yaml does not exist"),
    ):
        ran = call(*arguments)
        assert (ran.exit_code, told in ran.stderr) == (2, True), ran.output
    assert sorted(p.name for p in (outputs / "datasets" / "toy").glob("*.*.*")) == ["1.0.0"]


def test_a_split_grows_from_the_command_line(outputs: Path) -> None:
    """What cannot be grown is told with exit code 2."""
    grow = ("regenerate", "train", "--dataset", "toy", "--keep", "--engine", "local", "-o", outputs)
    ran = call(*grow, "--seed", "0")
    told = "seed 0: queries of train in toy/1.0.0 were drawn with it already"
    assert (ran.exit_code, told in ran.stderr.replace("\n", " ")) == (2, True), ran.output


@pytest.mark.parametrize(
    "command",
    [
        "regenerate train --dataset toy --keep",
        "regenerate train --dataset toy/1.0.0 --seed 9",
        "expand toy",
        "rewrite toy --votes 0",
    ],
)
def test_a_dataset_is_added_to_by_one_command_at_a_time(outputs: Path, command: str) -> None:
    """The second would begin with a version that the first is about to follow: exit code 2."""
    with (outputs / "datasets" / "toy" / ".held").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ran = call(*command.split(), "--engine", "local", "-o", outputs)
    assert (ran.exit_code, "dataset toy: another process" in ran.stderr) == (2, True), ran.output
    assert len(list((outputs / "runs").iterdir())) == 1


def test_figures_are_shown_and_written(outputs: Path, tmp_path: Path) -> None:
    """Of the splits, and with as many of the farthest combinations, as were asked for."""
    asked = ("complexity", "toy", "--test", "test_category", "--examples", "train", "-n", 0)
    done = call(*asked, "--json", tmp_path / "a.json", "-o", outputs)
    assert done.exit_code == 0, done.output
    (figures,) = json.loads((tmp_path / "a.json").read_text())["figures"]
    assert (figures["test"], figures["hardest"]) == ("test_category", [])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("export", "toy", "--format", "trll"), "did you mean `trl`?"),
        (("export", "toy", "--format", "openai", "--arguments", "object"), "as text only"),
        (("export", "toy", "--format", "trl", "--split", "dev"), "there are: train, "),
        (("export", "toy/9.0.0", "--format", "trl"), "toy/1.0.0"),
        (("export", "toy", "--format", "trl", "--shots", "2"), "shows no demonstrations"),
    ],
)
def test_mistakes_of_an_export_are_told(
    arguments: tuple[str, ...], why: str, outputs: Path
) -> None:
    """Exit code 2 and what to do, without a traceback; nothing is written."""
    done = call(*arguments, "-o", outputs)
    assert done.exit_code == 2
    assert why in done.output and "Traceback" not in done.output
    assert not (outputs / "exports").exists()


def test_no_sample_in_a_form_is_exit_code_1(outputs: Path) -> None:
    """And the reasons are printed."""
    manifest = outputs / "datasets" / "toy" / "1.0.0" / "manifest.json"
    told = json.loads(manifest.read_text())
    told["configs"]["samples"].pop("train")
    manifest.write_text(json.dumps(told))
    done = call("export", "toy", "--format", "trl-dpo", "-o", outputs)
    assert done.exit_code == 1
    assert " samples in 0 rows" in done.output


audit = partial(call, "audit")
PRICE = {
    "name": "price",
    "description": "What something costs.",
    "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
}


def row(item: object) -> str:
    called = {"name": "price", "arguments": json.dumps({"item": item})}
    call = {"id": "c1", "type": "function", "function": called}
    return json.dumps(
        {
            "messages": [
                {"role": "user", "content": "What is a rose?"},
                {"role": "assistant", "tool_calls": [call]},
            ],
            "tools": [{"type": "function", "function": PRICE}],
        }
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of good rows, and one with a fault."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.jsonl").write_text(f"{row('rose')}\n{row('rose')}\n")
    (tmp_path / "bad.jsonl").write_text(f"{row('rose')}\n{row(7)}\n")
    return tmp_path


def test_the_report_of_an_audit_is_written_beside_what_is_shown(home: Path) -> None:
    """With as many examples as were asked for; findings are exit code 1."""
    ran = audit("bad.jsonl", "--json", "report.json", "-n", "0")
    assert ran.exit_code == 1, ran.output
    assert "invalid_input_parameters" in ran.stdout
    report = json.loads((home / "report.json").read_text())
    assert report["reasons"]["invalid_input_parameters"]["examples"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.jsonl",), "none.jsonl does not exist"),
        (("other.jsonl",), "its one row is not a dialogue"),
        (("good.jsonl", "--flagged", "good.jsonl"), "is what is audited"),
        (("good.jsonl", "--json", "good.jsonl/report.json"), "cannot be written"),
        (("good.jsonl", "--json", "good.jsonl"), "is what is audited"),
        (("good.jsonl", "--json", "."), "is a folder"),
        (("cut.json",), "not JSON"),
    ],
)
def test_a_mistake_ends_with_2_and_a_sentence(
    home: Path, arguments: tuple[str, ...], told: str
) -> None:
    """Never with a traceback."""
    (home / "other.jsonl").write_text('{"n": 1}')
    (home / "cut.json").write_text('[{"id": "q", "messages"')
    ran = audit(*arguments)
    assert ran.exit_code == 2, ran.output
    assert told in ran.stderr and "Traceback" not in ran.output


def test_control_characters_of_the_data_do_not_reach_the_terminal(home: Path) -> None:
    """Data of others is data, whatever it holds."""
    (home / "odd.jsonl").write_text(row("rose").replace('"price"', '"\\u001b[2Jprice"', 1) + "\n")
    ran = audit("odd.jsonl")
    assert ran.exit_code == 1 and "\x1b" not in ran.output
