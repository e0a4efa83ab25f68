"""`toolloom export`, `check-export` and `audit`: what they print and write, and how they end."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from support import toys
from support.commands import call, shop


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A version of a dataset with samples in two splits."""
    splits = ["train"] * 4 + ["test_tool"] * 2
    samples = (toys.sample(toys.query(number)) for number in range(6))
    return shop(tmp_path / "outputs", zip(splits, samples, strict=True))


def test_a_template_that_was_named_must_render_all(outputs: Path, tmp_path: Path) -> None:
    """Exit code 1 if it does not, and 0 if it has no idea of tools: that is told."""
    into = tmp_path / "mine.parquet"
    call("export", "shop", "--format", "trl", "--split", "train", "--into", into, "-o", outputs)
    failing = call("check-export", into, "--template", "qwen3", "--template", "deepseekv3")
    assert failing.exit_code == 1
    assert "no tools" in call("check-export", into, "--template", "llama3").stdout
    mine = tmp_path / "mine.jinja"
    mine.write_text("{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}")
    lossy = call("check-export", into, "--template", mine)
    assert lossy.exit_code == 1
    assert "is lost" in lossy.stdout


def test_without_templates_it_says_so(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where TRL is not installed, shapes and loading are checked all the same."""
    monkeypatch.setattr("toolloom.pipeline.dataset.export.templates.find_spec", lambda name: None)
    into = tmp_path / "mine.jsonl"
    call("export", "shop", "--format", "openai", "--split", "train", "--into", into, "-o", outputs)
    done = call("check-export", into)
    assert done.exit_code == 0
    assert "No chat template was tried" in done.stderr
    missing = call("check-export", into, "--template", "qwen3")
    assert missing.exit_code == 2 and "is missing" in missing.stderr


def test_wrong_rows_are_told_and_fail(tmp_path: Path) -> None:
    """With the number of rows, and what is wrong with the first."""
    path = tmp_path / "a.jsonl"
    path.write_text('{"messages": [], "tools": []}\n')
    done = call("check-export", path, "--format", "trl")
    assert done.exit_code == 1
    assert "1 of 1 rows have another shape. First, row 1: messages: " in done.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("export", "shop", "--format", "trll"), "did you mean `trl`?"),
        (("export", "shop", "--format", "openai", "--arguments", "object"), "as text only"),
        (("export", "shop", "--format", "trl", "--split", "dev"), "there are: train, test_tool"),
        (("export", "shop/9.0.0", "--format", "trl"), "shop/1.0.0"),
        (("export", "shop", "--format", "trl", "--shots", "2"), "shows no demonstrations"),
        (("check-export", "none.jsonl"), "no such file"),
        (("check-export", __file__, "--format", "trl"), "is no JSON"),
    ],
)
def test_mistakes_are_told(arguments: tuple[str, ...], why: str, outputs: Path) -> None:
    """Exit code 2 and what to do, without a traceback; nothing is written."""
    done = call(*arguments, *(("-o", outputs) if arguments[0] == "export" else ()))
    assert done.exit_code == 2
    assert why in done.output and "Traceback" not in done.output
    assert not (outputs / "exports").exists()


def test_no_sample_in_a_form_is_exit_code_1(outputs: Path) -> None:
    """And the reasons are printed."""
    manifest = outputs / "datasets" / "shop" / "1.0.0" / "manifest.json"
    told = json.loads(manifest.read_text())
    told["configs"]["samples"].pop("train")
    manifest.write_text(json.dumps(told))
    done = call("export", "shop", "--format", "bfcl", "-o", outputs)
    assert done.exit_code == 1
    assert "0 of 2 samples in 0 rows" in done.output


audit = partial(call, "audit")
PRICE = {
    "name": "price",
    "description": "What something costs.",
    "parameters": {"type": "dict", "properties": {"item": {"type": "string"}}},
}


def row(item: object) -> str:
    return json.dumps(
        {
            "id": "q",
            "question": [[{"role": "user", "content": "What is a rose?"}]],
            "function": [PRICE],
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


def test_the_report_of_an_audit_is_written_beside_what_is_shown(home: Path) -> None:
    """With as many examples as were asked for; findings are exit code 1."""
    ran = audit("bad.jsonl", "--format", "bfcl", "--json", "report.json", "-n", "0")
    assert ran.exit_code == 1, ran.output
    assert "invalid_input_parameters" in ran.stdout
    report = json.loads((home / "report.json").read_text())
    assert report["reasons"]["invalid_input_parameters"]["examples"] == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("none.jsonl", "--format", "bfcl"), "none.jsonl does not exist"),
        (("good.jsonl", "--format", "bfcl4"), "did you mean `bfcl`?"),
        (("good.jsonl", "--format", "sharegpt"), "does not look like sharegpt"),
        (("good.jsonl", "--format", "bfcl", "--flagged", "good.jsonl"), "is what is audited"),
        (("good.jsonl", "--format", "bfcl", "--json", "no/report.json"), "cannot be written"),
        (("cut.json", "--format", "bfcl"), "no JSON"),
    ],
)
def test_a_mistake_ends_with_2_and_a_sentence(
    home: Path, arguments: tuple[str, ...], told: str
) -> None:
    """Never with a traceback."""
    (home / "cut.json").write_text('[{"id": "q", "question"')
    ran = audit(*arguments)
    assert ran.exit_code == 2, ran.output
    assert told in ran.stderr and "Traceback" not in ran.output


def test_control_characters_of_the_data_do_not_reach_the_terminal(home: Path) -> None:
    """Data of others is data, whatever it holds."""
    (home / "odd.jsonl").write_text(row("rose").replace('"price"', '"\\u001b[2Jprice"', 1) + "\n")
    ran = audit("odd.jsonl", "--format", "bfcl")
    assert ran.exit_code == 1 and "\x1b" not in ran.output
