"""`toolloom runs`: only runs are removed, and none that is held."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import toys
from support.commands import call

from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.store.run_folder import RunFolder


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = run_recipe(toys.recipe(), tmp_path, stages=toys.STAGES)
    return RunFolder(Path(made.summary.path))


def test_runs_are_listed_and_removed(run: RunFolder, tmp_path: Path) -> None:
    """By the beginning of an id; what was published of one stays."""
    listed = call("runs", "-o", tmp_path)
    assert listed.exit_code == 0
    assert run.id in listed.output and "finished" in listed.output
    assert call("runs", "remove", run.id[:6], "-o", tmp_path).exit_code == 0
    assert not run.path.exists()
    assert (tmp_path / "datasets" / "toy" / "1.0.0" / "manifest.json").is_file()
    assert "There is no run" in call("runs", "-o", tmp_path).output


def test_nothing_else_is_removed(run: RunFolder, tmp_path: Path) -> None:
    """A run at work, one of another folder, a link out of this one. One that is refused is none."""
    with run.locked(), RunFolder(tmp_path / "runs" / "refused").locked():
        assert call("runs", "remove", run.id, "-o", tmp_path).exit_code == 2
    assert not (tmp_path / "runs" / "refused").exists()
    elsewhere = tmp_path / "elsewhere" / "runs"
    elsewhere.mkdir(parents=True)
    assert call("runs", "remove", str(run.path), "-o", elsewhere.parent).exit_code == 2
    (elsewhere / "toy-linked").symlink_to(run.path)
    assert call("runs", "remove", "toy-linked", "-o", elsewhere.parent).exit_code == 2
    assert (run.path / "plan.json").is_file()
