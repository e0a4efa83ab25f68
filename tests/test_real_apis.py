"""Runs whose APIs are real: imported by the run, executed by real processes, run again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.processes import hashes
from support.shelf import COMMAND
from typer.testing import CliRunner

from toolloom import FakeServer, load_recipe, make_dataset
from toolloom.cli import app
from toolloom.pipeline.run import Made
from toolloom.schemas import Failure, Sample

FUNCTIONS = '''
"""Money and readers."""
import random
from pathlib import Path
from typing import TypedDict


def add_tax(price: int, percent: int) -> dict[str, float]:
    """Add the tax to a price.

    Args:
        price: price in euros
        percent: tax in percent
    """
    with (Path(%r)).open("a") as file:
        file.write("x")
    return {"gross": round(price * (1 + percent / 100), 2)}


def draw_prize(budget: int) -> dict[str, int]:
    """Draw the value of a prize.

    Args:
        budget: highest value in euros
    """
    return {"prize": random.randint(1, 10**9)}


class Reader(TypedDict):
    card: int


def find_reader(name: str) -> Reader:
    """Find the card number of a reader.

    Args:
        name: name of the reader
    """
    return {"card": {"Ada": 4711, "Grace": 4712}[name]}
'''


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A file with a letter for each execution of `add_tax`."""
    return tmp_path / "calls.txt"


@pytest.fixture
def recipe(tmp_path: Path, calls: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulated, executed and repeatable, executed by chance, and tools of an MCP server."""
    monkeypatch.chdir(tmp_path)
    Path("money.py").write_text(FUNCTIONS % str(calls))
    sources: list[dict[str, Any]] = [
        {
            "path": "money.py",
            "execute": ["add_tax", "draw_prize"],
            "values": {"name": ["Ada", "Grace"]},
        },
        {
            "mcp": COMMAND,
            "name": "shelf",
            "only": ["add"],
            "execute": ["add"],
            "values": {"a": [2, 3], "b": [40, 50]},
        },
    ]
    fields = {
        "name": "real",
        "apis": {"sources": sources},
        "queries": {"count": 10, "distractors": 2, "scenarios": {"single": 1}},
        "tester": {"votes": 1},
        "shard_size": 4,
    }
    return written(tmp_path / "real.yaml", fields)


def written(recipe: Path, fields: dict[str, Any]) -> Path:
    recipe.write_text(json.dumps(fields))
    return recipe


async def make(recipe: Path, server: FakeServer, outputs: Path) -> Made:
    model = {"base_url": server.base_url, "model": "fake"}
    return await make_dataset(load_recipe(recipe, model=model), outputs=outputs)


def records(made: Made, kind: str) -> list[Any]:
    path = Path(made.summary.path) / "tested" / f"{kind}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def samples(made: Made) -> list[Sample]:
    return [Sample.model_validate(row) for row in records(made, "accepted")]


async def test_each_api_has_the_executor_of_its_source(
    recipe: Path, tmp_path: Path, calls: Path
) -> None:
    """What is to be executed is, the rest is simulated; what chance decides is rejected. A run that
    has lost its files goes on with the cache: nothing is executed again."""
    outputs = tmp_path / "out"
    async with FakeServer() as server:
        made = await make(recipe, server, outputs)
        ways = {
            (m.execution.kind, m.execution.by)
            for sample in samples(made)
            for m in sample.dialogue.messages
            if m.execution and m.execution.kind != "search"
        }
        executed = {("executed", "python:money.py"), ("executed", "mcp:shelf")}
        assert ways == {("simulated", "fake"), *executed}
        unrepeated = [r for r in records(made, "rejected") if r["reason"] == "not_repeatable"]
        assert unrepeated and all("draw_prize returned" in r["detail"] for r in unrepeated)
        called = {c.function.name for sample in samples(made) for _, c in sample.dialogue.calls()}
        assert "draw_prize" not in called
        count, before = len(calls.read_text()), hashes(outputs)
        for stage in ("dialogues", "tested"):
            shutil.rmtree(Path(made.summary.path) / stage)
        await make(recipe, server, outputs)
    assert len(calls.read_text()) == count > 0
    assert hashes(outputs) == before


async def recovered(wrong: str, right: list[str], folder: Path) -> Made:
    """A run of error recoveries about readers; all are in one split, as all make the same calls."""
    Path("money.py").write_text(FUNCTIONS % "unused")
    source = {"path": "money.py", "only": ["find_reader"], "execute": ["find_reader"]}
    values = {"values": {"name": right}, "wrong_values": {"name": [wrong]}}
    fields = {
        "name": "errors",
        "apis": {"sources": [{**source, **values}]},
        "queries": {"count": 3, "abilities": {"call": 1}, "scenarios": {"error_recovery": 1}},
        "tester": {"votes": 0},
        "splits": toys.ALL_IN_TRAIN,
    }
    async with FakeServer() as server:
        return await make(written(folder / "errors.yaml", fields), server, folder / "out")


async def test_real_errors_make_dialogues_about_recovering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The execution refuses the wrong value, the assistant says so, and the right one works; where
    the wrong one works too the dialogue is rejected, and the finding says so."""
    monkeypatch.chdir(tmp_path)
    made = await recovered("Ariadne", ["Ada", "Grace"], tmp_path)
    assert samples(made)
    for sample in samples(made):
        tools = [m for m in sample.dialogue.messages if m.role == "tool"]
        failures = [m.execution.failure for m in tools if m.execution]
        assert failures == [Failure.TOOL_ERROR, None]
        assert tools[0].observation().error == "KeyError: 'Ariadne'"
    works = await recovered("Grace", ["Ada"], tmp_path)
    details = [r["detail"] for r in records(works, "rejected") if r["reason"] == "intent_mismatch"]
    assert not samples(works)
    assert any("works with the value on which it was to fail" in detail for detail in details)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"path": "nowhere.yaml"}, "nowhere.yaml"),
        ({"execute": ["add_tux"]}, "did you mean `add_tax`?"),
        ({"only": ["add_tux"]}, "did you mean `add_tax`?"),
        ({"values": {"prices": [3]}}, "did you mean `price`?"),
    ],
)
def test_a_source_that_does_not_fit_is_told_before_a_run(
    recipe: Path, change: dict[str, Any], told: str
) -> None:
    """`validate` reads what can be read without starting anything, and exits with 2."""
    fields = json.loads(recipe.read_text())
    source = {"path": "money.py", "execute": ["add_tax"], **change}
    recipe.write_text(json.dumps({**fields, "apis": {"sources": [source]}}))
    ran = CliRunner().invoke(app, ["validate", str(recipe)])
    assert ran.exit_code == 2
    assert told in ran.stderr
