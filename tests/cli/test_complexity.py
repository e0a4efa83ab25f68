"""`toolloom complexity`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from support import toys
from typer.testing import CliRunner, Result

from toolloom.cli import datasets as command
from toolloom.pipeline.dataset.rows import APIS, CONFIGS, SAMPLES, api_row, samples_row
from toolloom.pipeline.store.tables import VersionWriter
from toolloom.pipeline.store.version import LAYOUT
from toolloom.schemas import Sample


def sample(number: int, api: str) -> Sample:
    made = toys.sample(toys.query(number))
    call = made.dialogue.messages[1].tool_calls[0]
    call = call.model_copy(
        update={"function": call.function.model_copy(update={"name": f"weather_{api}"})}
    )
    turn = made.dialogue.messages[1].model_copy(update={"tool_calls": (call,)})
    messages = (made.dialogue.messages[0], turn, *made.dialogue.messages[2:])
    dialogue = made.dialogue.model_copy(update={"messages": messages})
    return made.model_copy(update={"dialogue": dialogue})


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """Two samples of `train` call one API, those of `test_tool` that one and another."""
    folder = tmp_path / "outputs" / "datasets" / "shop" / "1.0.0"
    with VersionWriter(folder, CONFIGS) as tables:
        for number, (split, api) in enumerate(
            [("train", "current")] * 2 + [("test_tool", "current"), ("test_tool", "forecast")]
        ):
            row = samples_row(sample(number, api).model_dump(mode="json"))
            tables.add(SAMPLES, split, row)
        for name in ("current", "forecast"):
            tables.add(APIS, "train", api_row(toys.api(name=name).model_dump(mode="json")))
        configs = tables.finish()
    manifest = {"layout": LAYOUT, "name": "shop", "version": "1.0.0", "content": "x"}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "configs": configs}))
    return tmp_path / "outputs"


def call(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(command.complexity)
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_one_split_is_shown_in_full(outputs: Path) -> None:
    """The scores, the numbers of samples, and the farthest combinations."""
    done = call("shop", "--test", "test_tool", "--examples", "train", "-o", outputs)
    assert done.exit_code == 0, done.output
    # One at ln 2, one at ln 2 + ln 2 of two APIs.
    assert "1.0397" in done.output and "50.00" in done.output and "|D| = 2 APIs" in done.output
    assert "50 %" in done.output
    line = next(line for line in done.output.splitlines() if line.startswith("1.39"))
    assert line.split()[1:] == ["1", *["weather/station/" + n for n in ("forecast", "current")],
                                "weather/station/forecast"]  # fmt: skip


def test_without_a_split_there_is_a_line_for_each(outputs: Path) -> None:
    """Against `train`, itself included."""
    done = call("shop/1.0.0", "-o", outputs)
    assert done.exit_code == 0, done.output
    lines = {line.split()[0]: line.split() for line in done.output.splitlines() if line.strip()}
    assert lines["train"][1:4] == ["0.6931", "0.00", "2"]
    assert lines["test_tool"][1:4] == ["1.0397", "50.00", "2"]
    assert "is the floor" in done.output


def test_demonstrations_name_what_is_not_shown(outputs: Path) -> None:
    """One sample shows all that `train` calls; an API is called by none."""
    done = call("shop", "--demonstrations", "--test", "test_tool", "-o", outputs)
    assert "against 1 demonstrations of train" in done.output
    assert "Called by no sample of train, 1 in all:\n  weather/station/forecast" in done.output


def test_figures_as_json(outputs: Path, tmp_path: Path) -> None:
    """Printed alone, or written beside what is shown."""
    printed = call("shop", "--json", "-", "-o", outputs)
    told = json.loads(printed.stdout)
    assert [one["test"] for one in told["figures"]] == ["train", "test_tool"]
    done = call("shop", "--json", tmp_path / "a.json", "-n", 0, "-o", outputs)
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["figures"][1]["score"] == told["figures"][1]["score"]
    assert written["figures"][1]["hardest"] == [] and "shop/1.0.0" in done.stdout
