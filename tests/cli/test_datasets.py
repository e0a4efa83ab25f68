"""The commands about versions: `regenerate`, `versions`, `diff` and `complexity`."""

from __future__ import annotations

import fcntl
import json
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
        ((*anew, "train", "--dataset", "toy", "--recipe", "none.yaml"), "cannot be read"),
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
