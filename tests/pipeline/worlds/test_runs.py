"""Runs in worlds, from recipe to version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from support import lending
from support.author import Author
from support.toys import ALL_IN_TRAIN

from toolloom.llm import FakeServer
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.run import Made, run_recipe
from toolloom.schemas import Reason, Recipe, parse_recipe

SHIPPED = {"name": "small", "model": "none", "worlds": {"use": ["clinic"], "rows": 2}}


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def rows(made: Made, stage: str, kind: str = "accepted") -> list[dict[str, Any]]:
    path = Path(made.summary.path) / stage / f"{kind}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def own(folder: Path) -> Path:
    """The library, as a file of the user's."""
    folder.mkdir(exist_ok=True)
    for path in lending.LIBRARY.parent.glob("library*.yaml"):
        shutil.copyfile(path, folder / path.name)
    return folder / "library.yaml"


def lent(path: Path, **changes: Any) -> Recipe:
    fields = {"name": "lent", "model": "none", "splits": ALL_IN_TRAIN, **changes}
    return parse_recipe({**fields, "worlds": {"use": [str(path)], "rows": 6}}, "a recipe")


def test_a_shipped_world_makes_a_version_without_a_model(tmp_path: Path) -> None:
    """Twice the same bytes; no request, no cost, every row holds."""
    made = [run_recipe(parse_recipe(SHIPPED, "a recipe"), tmp_path / name) for name in "ab"]
    one, other = (each.published.path for each in made if each.published)
    assert files(one) == files(other) and len(files(one)) > 10
    assert verify(one).good
    assert {sample["dialogue"]["query"]["setting"]["script"] for sample in rows(made[0], "tested")}
    assert len(rows(made[0], "tested")) == 2


def test_a_world_of_ones_own_is_named_by_its_path(tmp_path: Path) -> None:
    """Its dialogues are of the world's category and tool, and each is judged by what came of it."""
    made = run_recipe(lent(own(tmp_path / "mine")), tmp_path / "out")
    assert made.published and verify(made.published.path).good
    assert len(rows(made, "tested")) == 6 and not rows(made, "tested", "rejected")
    (world,) = rows(made, "worlds")
    assert (world["name"], world["tool"]) == ("library", "city_library")
    assert {api["tool"] for api in rows(made, "apis")} == {"city_library"}


def test_a_domain_gets_a_world(tmp_path: Path) -> None:
    """Its operations are the APIs, its dialogues are tasks that the query agent words; its file can
    be named in the next recipe. A second domain of the same world is none."""
    with (server := FakeServer(Author())).serve_in_thread():
        model = {"base_url": server.base_url, "model": "large"}
        fields = {"name": "own", "model": model, "tester": {"votes": 0}, "splits": ALL_IN_TRAIN}
        domains = {"apis": {"domains": 2}, "queries": {"count": 6}}
        made = run_recipe(parse_recipe({**fields, **domains}, "a recipe"), tmp_path)
        again = run_recipe(parse_recipe({**fields, **domains}, "a recipe"), tmp_path)
        file = tmp_path / "worlds" / "library.yaml"
        named = {"worlds": {"use": [str(file)], "rows": 2}}
        next_one = run_recipe(parse_recipe({**fields, **named, "name": "next"}, "b"), tmp_path)
    assert made.published and verify(made.published.path).good
    assert again.published and again.published.path == made.published.path
    (world,) = rows(made, "worlds")
    (other,) = rows(made, "worlds", "rejected")
    assert other["reason"] == Reason.NEAR_DUPLICATE and world["text"] == file.read_text("utf-8")
    assert {api["name"] for api in rows(made, "apis")} == set(world["spec"]["operations"])
    needs = rows(made, "queries")
    assert len(needs) == 6 and all(need["setting"]["world"] == "library" for need in needs)
    assert rows(made, "tested")
    assert next_one.published and rows(next_one, "worlds")[0]["spec"] == world["spec"]


def test_a_file_that_somebody_changed_stays(tmp_path: Path) -> None:
    """The world of a run comes to a file of its own only where there is none."""
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "library.yaml").write_text("mine", "utf-8")
    with (server := FakeServer(Author())).serve_in_thread():
        fields = {"name": "own", "model": {"base_url": server.base_url, "model": "large"}}
        few = {"apis": {"domains": 1}, "queries": {"count": 2}, "tester": {"votes": 0}}
        run_recipe(parse_recipe({**fields, **few}, "a recipe"), tmp_path)
    assert (tmp_path / "worlds" / "library.yaml").read_text("utf-8") == "mine"
