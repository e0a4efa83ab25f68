"""`toolloom report`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import finished_runs, toys
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.report import MARK


def test_a_report_is_written_where_one_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the newest version, under its name, and the command says so."""
    publish(
        finished_runs.run(tmp_path / "outputs", toys.recipe(), [toys.sample()]),
        tmp_path / "outputs",
    )
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["report", "toy"])
    assert ran.exit_code == 0
    assert "toy-1.0.0.html: the report of toy/1.0.0" in ran.stdout
    assert (tmp_path / "toy-1.0.0.html").read_bytes().startswith(MARK)


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    """One line that says what there is; exit code 2, and no file."""
    ran = CliRunner().invoke(
        app, ["report", "nothing", "--outputs", str(tmp_path), "--output", str(tmp_path / "r.html")]
    )
    assert ran.exit_code == 2
    assert "There is no dataset 'nothing'" in ran.stderr
    assert [*tmp_path.iterdir()] == []
