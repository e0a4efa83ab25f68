"""`toolloom expand preview`: what templates would make, and what is wrong with them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support import toys
from typer.testing import CliRunner, Result

from toolloom.cli import app
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.stage import Context, Stage
from toolloom.pipeline.templates.written.sample import play
from toolloom.schemas import Need, Outcome, Query, Sample

ROOT = Path(__file__).parents[2]


def call(*arguments: Any) -> Result:
    return CliRunner().invoke(app, ["expand", "preview", *map(str, arguments)])


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the version toy/1.0.0."""
    folder = tmp_path_factory.mktemp("outputs")
    recipe = toys.recipe(queries={"count": 12}, splits={"seen": [f"c{i}" for i in range(6)]})
    asyncio.run(make_dataset(recipe, outputs=folder, stages=toys.SPLIT_STAGES))
    return folder


async def play_needs(query: Query, context: Context) -> Outcome:
    """Each need in words that say its values, served with drawn responses."""
    need = Need(**{name: getattr(query, name) for name in Need.model_fields})
    said = f"How is the weather in {query.intent[0].arguments['city']} today?"
    return Outcome((Sample.model_validate(play(need, said, 1)),))


@pytest.fixture(scope="module")
def minable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, of samples whose requests say what the calls are given."""
    folder = tmp_path_factory.mktemp("minable")
    queries = {"count": 6, "abilities": {"call": 1}, "scenarios": {"single": 1}}
    recipe = toys.recipe(queries=queries, splits={"seen": [f"c{i}" for i in range(6)]})
    stages = (*toys.SPLIT_STAGES[:-1], Stage("tested", "tester", Query, Sample, play_needs))
    asyncio.run(make_dataset(recipe, outputs=folder, stages=stages))
    return folder


def weather(folder: Path, rest: str = "") -> Path:
    """A file with one template of the toy dataset's APIs."""
    path = folder / "t.yaml"
    path.write_text(
        "templates:\n- name: one\n  goal: How is the weather in {city}?\n"
        '  calls: [{api: c5_t0, arguments: {city: "{city}"}}]\n'
        f"  pools: {{city: [Bern, Basel]}}\n{rest}"
    )
    return path


def test_the_examples_are_shown_with_their_values_and_rows() -> None:
    """Goal, calls, pools, the number of possible rows, and rows that pass."""
    ran = call(ROOT / "recipes" / "templates", "-n", 2)
    assert ran.exit_code == 0, ran.output
    assert "written-two-weights · written · 9 rows" in ran.stdout
    assert 'call  convert_weight({"amount": "{flour}", "source": "gram"' in ran.stdout
    assert "row 2: passes the certain checks" in ran.stdout
    assert "8 templates, " in ran.stdout
    assert "16 of 16 shown rows pass the certain checks." in ran.stdout


def test_a_mistake_is_told_with_file_and_line(tmp_path: Path) -> None:
    """Exit code 2, nothing on standard output."""
    path = tmp_path / "t.yaml"
    path.write_text("apis: none.json\ntemplates:\n- nmae: one\n")
    ran = call(path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"{path} has 4 mistakes:" in ran.stderr
    assert "line 3: templates[0].nmae: unknown field; did you mean `name`?" in ran.stderr


def test_a_template_of_which_no_row_passes_ends_with_1(outputs: Path, tmp_path: Path) -> None:
    """The findings are shown, and what fails is named at the end."""
    path = weather(tmp_path, "  answer: In {city} it rains until 7 July 2031.\n")
    ran = call(path, "--dataset", "toy", "-o", outputs)
    assert ran.exit_code == 1, ran.output
    assert "row 1: the certain checks object" in ran.stdout
    assert "founded_replies: ungrounded_answer" in ran.stdout
    assert "No row passes of written-one." in ran.stdout


def test_the_apis_of_a_dataset_serve_a_file(outputs: Path, tmp_path: Path) -> None:
    """With --dataset a file needs no `apis`; its calls go to that version's."""
    path = weather(tmp_path)
    ran = call(path, "--dataset", "toy/1.0.0", "-o", outputs)
    assert ran.exit_code == 0, ran.output
    assert "1 template, 2 possible rows; 2 of 2 shown rows pass" in ran.stdout


def test_without_a_file_the_samples_of_a_dataset_are_mined(outputs: Path) -> None:
    """What cannot be mined is counted by reason; exit code 1 if nothing can."""
    ran = call("--dataset", "toy", "-o", outputs)
    assert ran.exit_code == 1, ran.output
    assert "samples make no template: " in ran.stdout


def test_mined_templates_are_shown_like_written_ones(minable: Path) -> None:
    """With the words of the sample around their slots, and what the rows would be."""
    ran = call("--dataset", "toy", "-o", minable, "-n", 2)
    assert ran.exit_code == 0, ran.output
    assert " · mined · " in ran.stdout
    assert "goal  How is the weather in {" in ran.stdout
    assert "row 2: passes the certain checks" in ran.stdout


def test_there_must_be_something_to_preview(tmp_path: Path) -> None:
    """Neither file nor dataset, or a dataset that is not there: exit code 2."""
    for arguments, told in (
        ((), "There is nothing to preview: name a PATH, or a dataset with --dataset."),
        (("--dataset", "nope", "-o", tmp_path), "There is no dataset 'nope'"),
        ((tmp_path / "none.yaml",), "cannot be read"),
    ):
        ran = call(*arguments)
        assert (ran.exit_code, told in ran.stderr) == (2, True), ran.output
