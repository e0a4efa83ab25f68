"""Versions of dialogues in worlds: their configs, what verification finds, what growth keeps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import lending
from support.tampered import (
    IN_A_WORLD,
    Row,
    fix,
    found,
    only,
    read_manifest,
    rows_of,
    write_rows,
)

from toolloom.pipeline.dataset.configs import ENVIRONMENTS, SFT
from toolloom.pipeline.dataset.verify import FaultKind, verify
from toolloom.pipeline.growth import plan_extension, plan_regeneration
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.store.version import open_version
from toolloom.schemas import ExpansionPlan, parse_recipe


@pytest.fixture(scope="module")
def outputs(in_a_world: Path) -> Path:
    return in_a_world


@pytest.fixture
def version(outputs: Path, tmp_path: Path) -> Path:
    """A copy of the version, to be tampered with."""
    shutil.copytree(outputs / "datasets", tmp_path / "datasets", symlinks=True)
    return tmp_path / "datasets" / "small" / "1.0.0"


def change(version: Path, place: int, act: Callable[[Row], object]) -> str:
    """Change a dialogue of `train`, and all rows that are made of it, and their hashes."""
    tables = {name: rows_of(version, name, "train") for name in ("samples", "sft", "environments")}
    dialogue = json.loads(tables["samples"][place]["dialogue"])
    act(dialogue)
    text = json.dumps(dialogue, ensure_ascii=False, separators=(",", ":"))
    tables["samples"][place]["dialogue"] = text
    for config in (SFT, ENVIRONMENTS):
        (tables[config.name][place],) = map(
            config.columns.encode, config.row.of({"dialogue": dialogue})
        )
    for name, rows in tables.items():
        write_rows(version, name, "train", rows)
    fix(version)
    return str(tables["samples"][place]["id"])


def changing(version: Path) -> int:
    """The place of a dialogue that changes something of its world."""
    rows = rows_of(version, "environments", "train")
    return next(n for n, row in enumerate(rows) if json.loads(row["goal"])["changes"])


def other_result(dialogue: Row) -> None:
    """A call that failed where it did not."""
    back = next(m for m in dialogue["messages"] if (m.get("execution") or {}).get("kind"))
    back["content"] = json.dumps({"response": None, "error": "closed: We are closed."})
    back["execution"]["failure"] = "tool_error"


def other_start(dialogue: Row) -> None:
    """A state without any row that a call could name."""
    tables = dialogue["query"]["setting"]["start"]["tables"]
    for name in tables:
        tables[name] = {}


def other_goal(dialogue: Row) -> None:
    dialogue["query"]["setting"]["goal"]["changes"] = []


def unknown_world(dialogue: Row) -> None:
    dialogue["query"]["setting"]["hash"] = "0" * 12


FORGED: list[tuple[Callable[[Row], None], FaultKind, str]] = [
    (other_result, FaultKind.CHECK, ""),
    (other_start, FaultKind.CHECK, "not_repeatable"),
    (other_goal, FaultKind.CHECK, "collateral_change: nobody asked for"),
    (unknown_world, FaultKind.RECORD, "which `worlds` has not"),
]


@pytest.mark.parametrize(("act", "kind", "told"), FORGED, ids=[row[0].__name__ for row in FORGED])
def test_a_forged_row_is_found(
    version: Path, act: Callable[[Row], None], kind: FaultKind, told: str
) -> None:
    """Also if everything that is made of it, and every hash, was made to fit."""
    name = change(version, changing(version), act)
    faults = found(verify(version), kind)
    assert faults and {fault.row for fault in faults} == {name}
    assert any(told in fault.detail for fault in faults), faults


def test_an_environment_is_that_of_its_sample(version: Path) -> None:
    """A state that differs from the sample's, or a row too few."""
    rows = rows_of(version, "environments", "train")
    rows[0]["start"] = next(row["start"] for row in rows if row["start"] != rows[0]["start"])
    write_rows(version, "environments", "train", rows[:-1])
    fix(version)
    first, last = found(verify(version), FaultKind.TRAINING)
    assert first.row == rows[0]["id"] and first.detail.startswith("`start` is not")
    assert last.row == rows[-1]["id"] and "lacks 1 of 1 rows" in last.detail


def change_world(version: Path, act: Callable[[Row], object]) -> None:
    (row,) = rows_of(version, "worlds", "train")
    record = json.loads(row["record"])
    act(record["spec"])
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    write_rows(version, "worlds", "train", [{**row, "record": text}])
    fix(version)


def test_a_world_is_what_its_hash_says(version: Path) -> None:
    """A spec that was changed has another hash than its row, and so than the rows that name it."""
    change_world(version, lambda spec: spec["policies"].clear())
    told = [fault.detail for fault in found(verify(version), FaultKind.RECORD)]
    assert "`id` is not that of its record" in told
    assert any("which `worlds` has not" in detail for detail in told)


def deep(spec: Row) -> None:
    tree: Any = ["value", 1]
    for _ in range(400):
        tree = ["not", tree]
    next(iter(spec["operations"].values()))["returns"] = tree


HOSTILE: list[Callable[[Row], object]] = [
    lambda spec: spec["entities"].clear(),
    lambda spec: spec["operations"].update(odd={}),
    lambda spec: next(iter(spec["operations"].values())).update(steps=[["import", "os"]]),
    lambda spec: next(iter(spec["operations"].values())).update(returns=[1, 2]),
    deep,
]


@pytest.mark.parametrize("act", HOSTILE)
def test_a_hostile_world_is_a_fault(version: Path, act: Callable[[Row], object]) -> None:
    """No traceback, whatever its file holds."""
    change_world(version, act)
    assert FaultKind.RECORD in only(verify(version))


def test_rows_are_replayed_without_toolloom(outputs: Path) -> None:
    """What the folder `replay` says is run there, with Python and a reader of Parquet."""
    folder = outputs / "datasets" / "small" / "1.1.0" / "replay"
    (code,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.S)
    alone = "import sys; sys.modules['toolloom'] = None; sys.path.insert(0, '.')\n"
    run = [sys.executable, "-B", "-c", alone + code]
    said = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True).stdout
    version = open_version(folder.parent)
    ids = [row["id"] for row in version.rows("samples")]
    assert sorted(said.splitlines()) == sorted(f"{name} reached" for name in ids)


def test_another_machine_is_found(version: Path) -> None:
    """Whoever runs it trusts it."""
    (version / "replay" / "world.py").write_text("print('hello')")
    fix(version)
    (fault,) = verify(version).faults
    assert fault.file == "replay/world.py" and "not what toolloom publishes" in fault.detail


def test_figures_of_worlds_are_compared(version: Path) -> None:
    """The manifest's are those of the rows."""
    manifest = read_manifest(version)
    (plays,) = manifest["worlds"]["splits"]["train"].values()
    plays["scripts"]["one more"] = 1
    fix(version, manifest)
    (fault,) = verify(version).faults
    assert fault.kind is FaultKind.FIGURE and fault.detail.startswith("worlds.splits.train.")


def test_growth_plays_in_the_worlds_of_its_version(tmp_path: Path) -> None:
    """Also if the file of a world is another one by now, or gone."""
    for path in lending.LIBRARY.parent.glob("library*.yaml"):
        shutil.copyfile(path, tmp_path / path.name)
    recipe = IN_A_WORLD | {"worlds": {"use": [str(tmp_path / "library.yaml")], "rows": 6}}
    run_recipe(parse_recipe(recipe, "a recipe"), tmp_path)
    for path in tmp_path.glob("library*.yaml"):
        path.unlink()
    made = run_recipe(plan_regeneration(tmp_path, "small", "train", keep=True), tmp_path)
    assert made.published and verify(made.published.path).good
    had = sum(1 for _ in made.published.rows("samples", "train"))
    again = run_recipe(plan_regeneration(tmp_path, "small", "train"), tmp_path)
    assert again.published and verify(again.published.path).good
    assert sum(1 for _ in again.published.rows("samples", "train")) <= had


def test_a_version_goes_on(outputs: Path, tmp_path: Path) -> None:
    """Rows of scripts that are played again are environments too. A split that is made anew has as
    many rows as before: the recipe's `worlds.rows` are those of all splits."""
    shutil.copytree(outputs / "datasets", tmp_path / "datasets", symlinks=True)
    had = len(rows_of(tmp_path / "datasets" / "small" / "1.1.0", "samples", "validation"))
    plan = plan_extension(tmp_path, "small", expand=ExpansionPlan(rows=4))
    made = run_recipe(plan, tmp_path).published
    assert made and verify(made.path).good
    ids = [row["id"] for row in made.rows("environments")]
    assert [name for name in ids if name.endswith("-x000000")]
    assert ids == [row["id"] for row in made.rows("samples")]
    anew = run_recipe(plan_regeneration(tmp_path, "small", "validation"), tmp_path).published
    assert anew and anew.number == "2.0.0"
    assert len(list(anew.rows("samples", "validation"))) == had > 1
