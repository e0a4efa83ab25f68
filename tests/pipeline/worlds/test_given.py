"""Start states and tasks that come from outside."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support import lending
from support.toys import ALL_IN_TRAIN

from toolloom import FakeServer
from toolloom.llm.scripted import improvise
from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.worlds.library import load_world
from toolloom.pipeline.worlds.sampler import check_worlds
from toolloom.pipeline.worlds.states import StartStates
from toolloom.schemas import Recipe, RecipeError, WorldError, parse_recipe

WORLDS = Path(__file__).parents[3] / "recipes" / "worlds"
MACHINE = lending.machine_of(lending.raw_library())


def drawn() -> tuple[str, State]:
    return StartStates(MACHINE).draw(random.Random(3))


def written(folder: Path, changes: dict[str, Any] | None = None) -> Path:
    """A file with the state that is drawn, and some changes."""
    now, state = drawn()
    tables = {name: list(rows.values()) for name, rows in state["tables"].items()}
    path = folder / "state.json"
    path.write_text(json.dumps({"now": now, "me": state["me"], "tables": tables} | (changes or {})))
    return path


def recipe(folder: Path, lines: list[dict[str, Any]], **model: Any) -> Recipe:
    tasks = folder / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    worlds = {
        "use": [str(lending.LIBRARY)],
        "states": {"library": str(written(folder))},
        "tasks": str(tasks),
    }
    fields = {"name": "given", "worlds": worlds, "tester": {"votes": 0}, "splits": ALL_IN_TRAIN}
    return parse_recipe({**fields, "model": model or "none"}, "a recipe")


def lent() -> tuple[str, str]:
    """Name of the one who speaks, and a loan of theirs that can be renewed."""
    now, state = drawn()
    for key in state["tables"]["loans"]:
        after, _, error = MACHINE.apply(state, "renew", {"loan_id": key}, now)
        if error is None and after is not state:
            return state["me"], key
    pytest.fail("no loan can be renewed")


def test_a_state_is_read_as_it_was_drawn(tmp_path: Path) -> None:
    """Tables may be lists of rows or rows by key; what is computed may be left out."""
    now, state = drawn()
    read = StartStates(MACHINE, written(tmp_path)).draw(random.Random(9))
    assert (read[0], read[1]["me"]) == (now, state["me"])
    assert {n: dict(rows) for n, rows in read[1]["tables"].items()} == {
        n: dict(rows) for n, rows in state["tables"].items()
    }


def test_who_speaks_is_drawn_where_the_file_does_not_say(tmp_path: Path) -> None:
    """So that a file with many customers gives rows of many."""
    states = StartStates(MACHINE, written(tmp_path, {"me": None}))
    assert len({states.draw(random.Random(n))[1]["me"] for n in range(20)}) > 1


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tables": {"rockets": []}}, "tables.rockets: the world has"),
        ({"tables": {"loans": [{"loan_id": "LOA-1", "colour": "red"}]}}, "has no field `colour`"),
        ({"tables": {"loans": [{"since": "2026-01-01"}]}}, "a row is an object with its key"),
        ({"tables": {"loans": [1]}}, "a row is an object with its key"),
        ({"tables": []}, "an object is needed here"),
        ({"now": "yesterday"}, "must be a datetime"),
        ({"me": "MEM-0"}, "is no row of members"),
        ({"next": {"loans": "many"}}, "next: must be the number"),
        ({"next": {"rockets": 3}}, "next: must be the number"),
        ({"now": "2026-02-31T10:15"}, "must be a datetime"),
        ({"now": None}, "must be a datetime"),
        ({"tables": {"loans": {"LOA-1": {"loan_id": "LOA-2"}}}}, "another key than the row's"),
        ({"rows": []}, "`rows` is not known"),
    ],
)
def test_what_is_no_state_of_the_world_is_told(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    """With its place; nothing is drawn from it."""
    with pytest.raises(WorldError, match=told):
        StartStates(MACHINE, written(tmp_path, changes))


def test_what_is_computed_is_computed_whatever_leans_on_it(tmp_path: Path) -> None:
    """In the shop the total of an order is a sum of prices of lines, which are computed too."""
    machine = Machine(load_world(WORLDS / "shop.yaml"))
    now, state = StartStates(machine).draw(random.Random(3))
    bare = {
        name: [
            {field: value for field, value in row.items() if field not in entity.derived}
            for row in state["tables"][name].values()
        ]
        for name, entity in machine.entities.items()
    }
    path = tmp_path / "shop.json"
    path.write_text(json.dumps({"now": now, "tables": bare}))
    read = StartStates(machine, path).draw(random.Random(3))[1]
    for name, entity in machine.entities.items():
        for key, row in state["tables"][name].items():
            assert {f: read["tables"][name][key][f] for f in entity.derived} == {
                f: row[f] for f in entity.derived
            }, (name, key)


def test_json_that_says_a_key_twice_is_refused(tmp_path: Path) -> None:
    """One of the two would be lost."""
    path = tmp_path / "state.json"
    path.write_text('{"now": "2026-03-02T10:15", "tables": {"loans": [], "loans": []}}')
    with pytest.raises(WorldError, match="'loans' stands twice"):
        StartStates(MACHINE, path)


def test_a_row_that_the_world_would_refuse_is_told(tmp_path: Path) -> None:
    """A reference to nothing, for example."""
    path = written(tmp_path)
    raw = json.loads(path.read_text())
    raw["tables"]["loans"][0]["member_id"] = "MEM-0"
    path.write_text(json.dumps(raw))
    with pytest.raises(WorldError, match="member_id is MEM-0, which is no row of members"):
        StartStates(MACHINE, path)


def test_given_tasks_are_worded_like_drawn_ones(tmp_path: Path) -> None:
    """Their calls are made first, in the given state, and what these change is the goal."""
    me, loan = lent()
    line = {
        "user": f"wants to keep a book longer: loan {loan}",
        "me": me,
        "calls": [{"name": "renew", "arguments": {"loan_id": loan}}],
    }
    with (server := FakeServer(improvise)).serve_in_thread():
        made = run_recipe(
            recipe(tmp_path, [line], base_url=server.base_url, model="large"), tmp_path / "out"
        )
    path = Path(made.summary.path) / "queries" / "accepted.jsonl"
    (query,) = map(json.loads, path.read_text().splitlines())
    assert query["intent"][0]["arguments"] == {"loan_id": loan}
    assert query["setting"]["goal"]["changes"] and query["scenario"] == "single"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"user": "x", "calls": [{"name": "renew", "arguments": {"loan_id": "LOA-0"}}]}, "fails"),
        ({"user": "x", "calls": [{"name": "fly"}]}, "There is no operation 'fly'"),
        ({"user": "x", "calls": [{"name": "renew"}], "changes": []}, "not both"),
        ({"user": ""}, "line 1: turns.0.user"),
        ({"user": "x", "world": "shop"}, "world: must be one of library"),
        ({"user": "x", "me": "MEM-0"}, "nobody who speaks"),
        ({"user": "x", "now": "tomorrow"}, "now: must be a datetime"),
        ({"user": "x", "changes": []}, "needs `solution: played`"),
    ],
)
def test_a_task_that_cannot_be_so_stops_the_run(
    tmp_path: Path, line: dict[str, Any], told: str
) -> None:
    """Before anything is asked, with its line and the reason."""
    with pytest.raises(WorldError, match=told):
        check_worlds(recipe(tmp_path, [line], base_url="http://127.0.0.1:9", model="large"))


def test_given_tasks_need_a_capable_model(tmp_path: Path) -> None:
    """Nobody else words them."""
    with pytest.raises(RecipeError, match=r"worlds\.tasks"):
        check_worlds(recipe(tmp_path, []))
