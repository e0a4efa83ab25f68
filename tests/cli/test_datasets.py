"""The commands about versions: `regenerate`, `versions`, `diff` and `complexity`."""

from __future__ import annotations

import asyncio
import fcntl
import json
from pathlib import Path

import pytest
from support import toys
from support.commands import call, shop
from support.finished_runs import published

from toolloom.pipeline.run import make_dataset
from toolloom.schemas import Sample


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A folder with the version toy/1.0.0."""
    recipe = toys.recipe(queries={"count": 40}, splits={"unseen": ["c1"]})
    asyncio.run(make_dataset(recipe, outputs=tmp_path, stages=toys.SPLIT_STAGES))
    return tmp_path


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
    manifest = outputs / "datasets" / "toy" / "1.0.0" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "toy",', '"name": "../../new",', 1))
    ran = call(*grow)
    assert (ran.exit_code, (outputs.parent / "new").exists()) == (2, False), ran.output


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


def test_a_dataset_of_one_sample_has_a_report(tmp_path: Path) -> None:
    """Where nothing can be compared, nothing is said to be alike."""
    published(tmp_path, toys.sample())
    ran = call("report", "toy", "-o", tmp_path, "--output", tmp_path / "toy.html")
    assert ran.exit_code == 0, ran.output
    assert "alike" not in (tmp_path / "toy.html").read_text()


def calling(number: int, api: str) -> Sample:
    """A toy sample whose call is of this API."""
    row = toys.sample(toys.query(number)).model_dump(mode="json")
    row["dialogue"]["messages"][1]["tool_calls"][0]["function"]["name"] = f"weather_{api}"
    return Sample.model_validate(row)


@pytest.fixture
def called(tmp_path: Path) -> Path:
    """Two samples of `train` call one API, those of `test_tool` that one and another."""
    apis = [("train", "current")] * 2 + [("test_tool", "current"), ("test_tool", "forecast")]
    samples = ((split, calling(number, api)) for number, (split, api) in enumerate(apis))
    return shop(tmp_path / "outputs", samples)


def test_one_split_is_shown_in_full(called: Path) -> None:
    """The scores, the numbers of samples, and the farthest combinations."""
    done = call("complexity", "shop", "--test", "test_tool", "--examples", "train", "-o", called)
    assert done.exit_code == 0, done.output
    # One at ln 2, one at ln 2 + ln 2 of two APIs.
    assert "1.0397" in done.output and "50.00" in done.output and "|D| = 2 APIs" in done.output
    assert "50 %" in done.output
    line = next(line for line in done.output.splitlines() if line.startswith("1.39"))
    assert line.split()[1:] == ["1", *["weather/station/" + n for n in ("forecast", "current")],
                                "weather/station/forecast"]  # fmt: skip


def test_demonstrations_name_what_is_not_shown(called: Path) -> None:
    """One sample shows all that `train` calls; an API is called by none."""
    done = call("complexity", "shop", "--demonstrations", "--test", "test_tool", "-o", called)
    assert "against 1 demonstrations of train" in done.output
    assert "Called by no sample of train, 1 in all:\n  weather/station/forecast" in done.output


def test_figures_are_also_written(called: Path, tmp_path: Path) -> None:
    """Beside what is shown, and with as many of the farthest combinations as were asked for."""
    done = call("complexity", "shop/1.0.0", "--json", tmp_path / "a.json", "-n", 0, "-o", called)
    written = json.loads((tmp_path / "a.json").read_text())
    assert [one["test"] for one in written["figures"]] == ["train", "test_tool"]
    assert written["figures"][1]["hardest"] == [] and "shop/1.0.0" in done.stdout
