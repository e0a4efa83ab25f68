"""Scripts of worlds give rows like templates do: played in other start states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import lending
from support.toys import ALL_IN_TRAIN

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.store.version import find_version
from toolloom.pipeline.worlds.library import load_world
from toolloom.schemas import Dialogue, ExpansionPlan, Recipe, parse_recipe

SCRIPTS = lending.LIBRARY.with_suffix(".scripts.yaml")
ROWS = 6


def recipe(world: Path | str, **fields: Any) -> Recipe:
    plan = {"use": [str(world)], "per_script": 2}
    told = {"name": "small", "model": "none", "worlds": plan, "splits": ALL_IN_TRAIN}
    return parse_recipe({**told, **fields}, "a recipe")


def test_rows_play_scripts_in_other_states(tmp_path: Path) -> None:
    """As many as are wanted, each of which holds when it is played again; no two start alike, or
    are said alike. A script that says the same in every state gives none. In a version that was
    added to, rows are numbered on, and none comes again."""
    world = tmp_path / "library.yaml"
    world.write_bytes(lending.LIBRARY.read_bytes())
    scripts = yaml.load(SCRIPTS.read_text(), yaml.BaseLoader)
    kept = [each for each in scripts if each["name"] in ("renewal", "no coffee")]
    world.with_suffix(".scripts.yaml").write_text(yaml.safe_dump(kept))
    run_recipe(recipe(world, expand={"rows": ROWS}), tmp_path)
    run_recipe(plan_extension(tmp_path, "small", expand=ExpansionPlan(rows=5)), tmp_path)
    machine = Machine(load_world(world))
    for number, count in (("1.0.0", ROWS), ("1.1.0", ROWS + 5)):
        version = find_version(tmp_path, f"small/{number}")
        assert verify(version.path).faults == ()
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
