from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import growing_dataset, toys
from typer.testing import CliRunner, Result

from toolloom.cli import app
from toolloom.pipeline import run as runner
from toolloom.pipeline.run import make_dataset

STAGES = (*toys.SPLIT_STAGES, *growing_dataset.BESIDE)
HERE = ("--engine", "local", "-o")


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the version toy/1.0.0, and toy stages in place of the real ones."""
    monkeypatch.setattr(runner, "standard_stages", lambda: STAGES)
    recipe = toys.recipe(queries={"count": 40}, splits={"unseen": ["c1"]})
    asyncio.run(make_dataset(recipe, outputs=tmp_path, stages=STAGES))
    return tmp_path


def test_rows_are_added_to_a_dataset(outputs: Path) -> None:
    """As its next version, with what templates cover; the same command adds nothing more."""
    ran = call("expand", "toy", "--rows", 4, *HERE, outputs)
    assert ran.exit_code == 0, ran.output
    assert "Adding 4 rows of templates, for toy/1.0.0: run toy-" in ran.stderr
    assert "4 of them are rows of 4 templates." in ran.stdout
    assert "samples looked at, 4 rows made." in ran.stdout
    assert "New version: toy/1.1.0" in ran.stdout
    again = call("expand", "--rows", 4, "toy", *HERE, outputs)
    assert "Published before, unchanged: toy/1.1.0" in again.stdout


def test_instructions_are_added_to_a_dataset(outputs: Path) -> None:
    """With those that were rejected, by level; once more there is nothing to rewrite."""
    ran = call("rewrite", "toy", "--votes", 0, *HERE, outputs)
    assert ran.exit_code == 0, ran.output
    assert "Rewriting requests, for toy/1.0.0: run toy-" in ran.stderr
    assert "tag_not_named" in ran.stdout
    assert "New version: toy/1.1.0" in ran.stdout
    other = call("rewrite", "toy", "--coarse", 1, *HERE, outputs)
    assert (other.exit_code, "have instructions already" in other.stderr) == (1, True)


def test_instructions_of_one_split(outputs: Path) -> None:
    """`--split` is kept in the recipe, and so is what else was asked for."""
    ran = call("expand", "toy", "--split", "validation", "--apart", "--no-mine", *HERE, outputs)
    assert ran.exit_code == 0, ran.output
    run = next((outputs / "runs").glob("*/expanded")).parent / "recipe.yaml"
    text = run.read_text()
    assert "- validation" in text
    assert "apart: true" in text
    assert "mine: false" in text


def test_mistakes_are_told_with_what_there_is(outputs: Path) -> None:
    """Exit code 2: a dataset, version, split, file or number that does not exist."""
    for arguments, told in (
        (("expand", "nope"), "There are: toy/1.0.0"),
        (("rewrite", "nope"), "There are: toy/1.0.0"),
        (("expand", "toy", "--from", "9.0.0"), "There are: toy/1.0.0"),
        (("expand", "toy", "--split", "trian"), "did you mean `train`?"),
        (("rewrite", "toy", "--votes", "2"), "--votes: must be odd"),
        (("expand", "toy", "--recipe", "none.yaml"), "cannot be read"),
    ):
        ran = call(*arguments, *HERE, outputs)
        assert (ran.exit_code, told in ran.stderr) == (2, True), ran.output
    assert sorted(p.name for p in (outputs / "datasets" / "toy").glob("*.*.*")) == ["1.0.0"]


def test_a_dataset_needs_no_command() -> None:
    """`toolloom expand` takes a dataset or a command, and its help is that of the dataset."""
    for arguments in (("expand", "--help"), ("expand", "toy", "--help")):
        ran = call(*arguments)
        assert ran.exit_code == 0
        assert "--rows" in ran.stdout
        assert "expand dataset" not in ran.stdout
    assert "--rows" not in call("expand", "preview", "--help").stdout
    assert "Missing argument 'NAME'" in call("expand").stderr
