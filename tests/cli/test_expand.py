"""`toolloom expand`, its `preview`, and `rewrite`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support import growing_dataset, mined_dataset, toys
from support.commands import call
from support.finished_runs import published
from support.mined_dataset import HOTELS

from toolloom.pipeline import run as runner
from toolloom.schemas import Sample

STAGES = (*toys.SPLIT_STAGES, *growing_dataset.BESIDE)
HERE = ("--engine", "local", "-o")


@pytest.fixture(autouse=True)
def toy_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the real ones."""
    monkeypatch.setattr(runner, "STAGES", STAGES)


def test_rows_are_added_to_a_dataset(outputs: Path) -> None:
    """As its next version; the same command adds more."""
    ran = call("expand", "toy", "--rows", 4, *HERE, outputs)
    assert "Adding 4 rows, for toy/1.0.0: run toy-" in ran.stderr
    assert "New version: toy/1.1.0" in ran.stdout
    again = call("expand", "--rows", 4, "toy", *HERE, outputs)
    assert "New version: toy/1.2.0" in again.stdout


def test_instructions_are_added_to_a_dataset(outputs: Path) -> None:
    """As its next version; once more there is nothing to rewrite."""
    ran = call("rewrite", "toy", "--votes", 0, *HERE, outputs)
    assert "Rewriting requests, for toy/1.0.0: run toy-" in ran.stderr
    assert "New version: toy/1.1.0" in ran.stdout
    other = call("rewrite", "toy", "--coarse", 1, *HERE, outputs)
    assert (other.exit_code, "have instructions already" in other.stderr) == (1, True)


def test_instructions_of_one_split(outputs: Path) -> None:
    """`--split` is kept in the recipe, and so is what else was asked for."""
    ran = call("expand", "toy", "--split", "validation", "--no-mine", *HERE, outputs)
    assert ran.exit_code == 0, ran.output
    run = next((outputs / "runs").glob("*/expanded")).parent / "recipe.yaml"
    assert all(x in run.read_text() for x in ("- validation", "mine: false"))


def test_mistakes_are_told_with_what_there_is(outputs: Path) -> None:
    """Exit code 2: a dataset, version, split, file or number that does not exist."""
    for arguments, told in (
        (("expand", "nope"), "There are: toy/1.0.0"),
        (("rewrite", "nope"), "There are: toy/1.0.0"),
        (("expand", "toy", "--from", "9.0.0"), "There are: toy/1.0.0"),
        (("expand", "toy", "--split", "trian"), "did you mean `train`?"),
        (("rewrite", "toy", "--votes", "2"), "--votes: must be odd"),
        (("expand", "toy", "--recipe", "none.yaml"), "none.yaml does not exist (looked"),
    ):
        ran = call(*arguments, *HERE, outputs)
        assert (ran.exit_code, told in ran.stderr) == (2, True), ran.output
    assert sorted(p.name for p in (outputs / "datasets" / "toy").glob("*.*.*")) == ["1.0.0"]


preview = partial(call, "expand", "preview")


def weather(folder: Path, rest: str = "") -> Path:
    """A file with one template of the toy dataset's APIs."""
    path = folder / "t.yaml"
    path.write_text(
        "templates:\n- name: one\n  goal: How is the weather in {{ city }}?\n"
        '  calls: [{api: c5_t0, arguments: {city: "{{ city }}"}}]\n'
        f"  pools: {{city: [Bern, Basel]}}\n{rest}"
    )
    return path


def test_a_mistake_is_told_with_file_and_line(tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output."""
    path = tmp_path / "t.yaml"
    path.write_text("apis: none.json\ntemplates:\n- nmae: one\n")
    ran = preview(path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"{path} has 4 mistakes:" in ran.stderr
    assert "line 3: templates[0].nmae: unknown field; did you mean `name`?" in ran.stderr


def test_a_template_of_which_no_row_passes_ends_with_1(outputs: Path, tmp_path: Path) -> None:
    """The findings are shown, and what fails is named at the end."""
    path = weather(tmp_path, "  answer: In {{ city }} it rains until 7 July 2031.\n")
    ran = preview(path, "--dataset", "toy", "-o", outputs)
    assert ran.exit_code == 1, ran.output
    assert "row 1: the certain checks object" in ran.stdout
    assert "founded_replies: ungrounded_answer" in ran.stdout
    assert "No row of written-one passes." in ran.stdout


def test_the_apis_of_a_dataset_serve_a_file(outputs: Path, tmp_path: Path) -> None:
    """With --dataset a file needs no `apis`; its calls go to that version's."""
    path = weather(tmp_path)
    ran = preview(path, "--dataset", "toy/1.0.0", "-o", outputs)
    assert ran.exit_code == 0, ran.output
    assert "1 template, 2 possible rows; 2 of 2 rows shown pass" in ran.stdout


def test_without_a_file_the_samples_of_a_dataset_are_mined(outputs: Path) -> None:
    """What cannot be mined is counted by reason; exit code 1 if nothing can."""
    ran = preview("--dataset", "toy", "-o", outputs)
    assert ran.exit_code == 1, ran.output
    assert "could not become templates: " in ran.stdout


def test_mined_templates_are_shown_like_written_ones(tmp_path: Path) -> None:
    """With the words of the sample around their slots, and what the rows would be."""
    towns = [("Lisbon", 3, "Casa Azul"), ("Porto", 2, "Rio Verde")]
    rows = [
        mined_dataset.sample(
            f"Find me a hotel in {city} for {nights} nights.",
            (HOTELS, {"city": city, "nights": nights}, {"hotel": hotel, "price": 80.5}),
            f"{hotel} in {city} costs 80.50 a night.",
            id=f"train-0-{nights:06}",
        )
        for city, nights, hotel in towns
    ]
    published(tmp_path, *map(Sample.model_validate, rows))
    ran = preview("--dataset", "toy", "-o", tmp_path, "-n", 2)
    assert ran.exit_code == 0, ran.output
    assert " · mined · " in ran.stdout
    assert "goal  Find me a hotel in {" in ran.stdout
    assert "row 2: passes the certain checks" in ran.stdout


def test_there_must_be_something_to_preview(tmp_path: Path) -> None:
    """Neither file nor dataset, or a dataset that is not there: exit code 2."""
    for arguments, told in (
        ((), "There is nothing to preview: name a PATH, or a dataset with --dataset."),
        (("--dataset", "nope", "-o", tmp_path), "There is no dataset 'nope'"),
        ((tmp_path / "none.yaml",), "cannot be read"),
    ):
        ran = preview(*arguments)
        assert (ran.exit_code, told in ran.stderr) == (2, True), ran.output
