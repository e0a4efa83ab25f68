"""Scripts of worlds give rows like templates do: played in other start states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.store.version import find_version
from toolloom.pipeline.worlds.library import Worlds, world_of
from toolloom.schemas import Dialogue, ExpansionPlan, Recipe, parse_recipe

LIBRARY = Path(__file__).parents[2] / "support" / "library.yaml"
SCRIPTS = """
- name: renewal
  find:
    - l: loans where member_id = me and renewals < 2 and due > today
    - need: count(loans where member_id = me and book_id = l.book_id) = 1 and me.fines <= 5
    - need: count(holds where book_id = l.book_id and status = 'waiting') = 0
  turns:
    - user: ["renew {l.book.title}", "Can I keep {l.book.title} longer?"]
    - mine: list_loans(title = l.book.title)
    - need: size(mine) = 1
    - done: renew(loan_id = first(mine).loan_id)
    - assistant: "It is due {done.due|on} now, and not {first(mine).due|on}."
- name: no bus
  turns:
    - user: "When does the bus leave?"
    - assistant: "I can't see that: I only know the library."
"""
SPLITS = {"train": 1, "validation": 0, "test_instruction": 0, "test_tool": 0, "test_category": 0}
ROWS = 6


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, with two scripts."""
    path = tmp_path_factory.mktemp("world") / "library.yaml"
    path.write_bytes(LIBRARY.read_bytes())
    path.with_suffix(".scripts.yaml").write_text(SCRIPTS)
    return path


def recipe(world: Path | str, **fields: Any) -> Recipe:
    plan = {"use": [str(world)], "per_script": 2}
    told = {"name": "small", "model": "none", "worlds": plan, "splits": SPLITS}
    return parse_recipe({**told, **fields}, "a recipe")


@pytest.fixture(scope="module")
def outputs(world: Path, built_once: Callable[..., Path]) -> Path:
    """A version with rows of its scripts, and one that has more."""

    def build(folder: Path) -> None:
        run_recipe(recipe(world, expand={"rows": ROWS}), folder)
        run_recipe(plan_extension(folder, "small", expand=ExpansionPlan(rows=5)), folder)

    return built_once("expand-worlds", build)


def test_rows_play_scripts_in_other_states(outputs: Path, world: Path) -> None:
    """As many as are wanted, each of which holds when it is played again; no two start alike, or
    are said alike. A script that says the same in every state gives none. In a version that was
    added to, rows are numbered on, and none comes again."""
    machine = Worlds([str(world)]).get(world_of(str(world)).hash)
    for number, count in (("1.0.0", ROWS), ("1.1.0", ROWS + 5)):
        version = find_version(outputs, f"small/{number}")
        assert machine and verify(version.path).faults == ()
        rows = [row for row in version.rows("samples") if "-x" in row["id"]]
        assert [row["id"] for row in rows] == [f"library-0-000-x{n:06d}" for n in range(count)]
        dialogues = [Dialogue.model_validate(version.parsed(row, "dialogue")) for row in rows]
        assert not any(inspect(each, world=machine) for each in dialogues)
        starts = {json.dumps(d.query.setting.start) for d in dialogues if d.query.setting}
        said = {"".join(m.content or "" for m in d.messages if m.role != "tool") for d in dialogues}
        assert len(starts) == len(said) == count


@pytest.mark.slow
def test_each_world_gives_as_many_rows(tmp_path: Path) -> None:
    """Where there are fewer rows than scripts."""
    worlds = {"use": ["shop", "bank", "home"], "rows": 3}
    run_recipe(recipe("", worlds=worlds, expand={"rows": 6}), tmp_path)
    version = find_version(tmp_path, "small")
    ids = [row["id"] for row in version.rows("samples") if "-x" in row["id"]]
    assert (
        sorted(name.partition("-")[0] for name in ids) == ["bank"] * 2 + ["home"] * 2 + ["shop"] * 2
    )
    assert verify(version.path).faults == ()
