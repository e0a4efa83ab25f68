"""Scripts of worlds as templates: their rows are other start states, in which they are played."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import lending

from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.unfold import TemplateRenderer, accepted, expanded
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import run_recipe
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.version import Version, find_version
from toolloom.pipeline.templates.redraws import Scripts, WorldRows, world_template
from toolloom.pipeline.templates.written.files import mined, preview, worlds_of
from toolloom.pipeline.worlds.shelf import Worlds, world_of
from toolloom.schemas import (
    Dialogue,
    ExpansionPlan,
    Reason,
    Recipe,
    Rejected,
    Sample,
    Split,
    Template,
    World,
    parse_recipe,
)

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
ROWS = 12


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, with two scripts."""
    path = tmp_path_factory.mktemp("world") / "library.yaml"
    path.write_bytes(LIBRARY.read_bytes())
    path.with_suffix(".scripts.yaml").write_text(SCRIPTS)
    return path


def recipe(world: Path, **fields: Any) -> Recipe:
    plan = {"use": [str(world)], "per_script": 2}
    told = {"name": "small", "model": "none", "worlds": plan, "splits": SPLITS}
    return parse_recipe({**told, **fields}, "a recipe")


@pytest.fixture(scope="module")
def outputs(world: Path, built_once: Callable[..., Path]) -> Path:
    """A version with rows of its scripts, and one that has more."""

    def build(folder: Path) -> None:
        run_recipe(recipe(world, expand={"rows": ROWS}), folder)
        run_recipe(
            plan_extension(folder, "small", expand=ExpansionPlan(rows=5, apart=True)), folder
        )

    return built_once("redraws", build)


@pytest.fixture
def run(outputs: Path) -> RunFolder:
    """The first run."""
    version = find_version(outputs, "small/1.0.0")
    return RunFolder(outputs / "runs" / next(iter(version.manifest["runs"])))


def samples(rows: Iterator[Any]) -> list[Sample]:
    return [Sample.model_validate(row) for row in rows]


def test_rows_play_a_script_in_other_states(run: RunFolder, world: Path) -> None:
    """As many as are wanted, numbered on, each of which holds when it is played again; no two start
    alike, or are said alike."""
    rows, whole = samples(expanded(run)), samples(accepted(run))
    assert [row.id.rpartition("-x")[2] for row in rows] == [f"{n:06d}" for n in range(ROWS)]
    machine = Worlds([str(world)]).get(world_of(str(world)).hash)
    assert machine and not any(inspect(row.dialogue, world=machine) for row in rows)
    settings = [row.dialogue.query.setting for row in rows]
    assert {each.script for each in settings if each} == {"renewal"}
    assert len({json.dumps(each.start) for each in settings if each}) == ROWS
    renewals = [r for r in whole if (s := r.dialogue.query.setting) and s.script == "renewal"]
    said = {"".join(m.content or "" for m in row.dialogue.messages[1:]) for row in renewals}
    assert len(said) == len(renewals) > ROWS


def test_a_script_that_is_dry_is_told(run: RunFolder) -> None:
    """It gives fewer rows, the others give more; nothing is said of executed results."""
    [told] = map(Rejected.model_validate, run.stage("expanded").objects("rejected"))
    assert told.reason is Reason.NOTHING_TO_DRAW
    assert told.detail.startswith("0 rows of the script no bus in ")
    Dialogue.model_validate(told.record["dialogue"])
    assert not list(run.stage("templates").objects("rejected"))


def test_a_template_gives_its_sample_back(run: RunFolder) -> None:
    """Its first row is the sample, and a script has one template however many samples it has."""
    by_id = {row["dialogue"]["query"]["id"]: row for row in run.samples()}
    templates = [Template.model_validate(t) for t in run.stage("templates").objects("accepted")]
    assert len({t.sample["dialogue"]["query"]["setting"]["script"] for t in templates}) == 2
    assert len(templates) == 2 < len(by_id)
    for each in templates:
        made = TemplateRenderer(each).sample((0,), each.id, 0)
        whole = Sample.model_validate(by_id[each.id])
        assert made.dialogue.messages == whole.dialogue.messages
        assert made.dialogue.query.setting == whole.dialogue.query.setting
        assert made.dialogue.query.intent == whole.dialogue.query.intent


def test_another_shape_is_no_row(run: RunFolder, world: Path) -> None:
    """A row has the messages of the sample, and its scenario."""
    found = world_of(str(world))
    drawn = WorldRows(recipe(world), [found])
    for sample in run.samples():
        template = world_template(sample, Split.TRAIN)
        query = sample["dialogue"]["query"]
        if query["setting"]["script"] == "renewal":
            states = drawn.settle([(template, 3)])[template.id]
            assert len(drawn.of(template).drawn(states).choices[0].rows) == 4
            other = {**sample, "dialogue": {**sample["dialogue"]}}
            other["dialogue"]["query"] = {**query, "scenario": "single"}
            assert not drawn.settle([(world_template(other), 1)])
            return


def test_versions_with_rows_of_worlds_hold(outputs: Path) -> None:
    """Also one that was added to: rows are numbered on, and none comes again."""
    for number, rows in (("1.0.0", ROWS), ("1.1.0", ROWS + 5)):
        version = find_version(outputs, f"small/{number}")
        assert verify(version.path).faults == ()
        told = [row["id"] for row in version.rows("samples") if "-x" in row["id"]]
        assert len(set(told)) == len(told) == rows
    texts = [said(version, row) for row in version.rows("samples")]
    renewals = [text for text in texts if "bus" not in text]
    assert len(set(renewals)) == len(renewals)


def said(version: Version, row: Any) -> str:
    messages = version.parsed(row, "dialogue")["messages"]
    return "".join(m["content"] or "" for m in messages if m["role"] in ("user", "assistant"))


def test_the_same_rows_are_drawn_again(world: Path, run: RunFolder, tmp_path: Path) -> None:
    """Byte for byte; another seed draws others."""
    again = run_recipe(recipe(world, expand={"rows": ROWS}), tmp_path).summary.path
    both = [
        (folder / "expanded" / "accepted.jsonl").read_bytes() for folder in (run.path, Path(again))
    ]
    assert both[0] == both[1]


def test_a_script_that_is_gone_is_no_template(run: RunFolder, world: Path) -> None:
    """It cannot be played again."""
    found: World = world_of(str(world)).model_copy(update={"scripts": ()})
    for sample in run.samples():
        fell = Scripts([found], recipe(world)).template(sample, Split.TRAIN)
        assert isinstance(fell, Rejected) and fell.reason is Reason.NOTHING_TO_VARY


def test_a_dialogue_of_a_task_expands(built_once: Callable[..., Path]) -> None:
    """A script is made of it, and played in other states; where none can be made, why is told. No
    executed result stands against it."""
    version = find_version(built_once("worded", lending.worded), "worded")
    folder = version.path.parents[2]
    run = RunFolder(folder / "runs" / next(iter(version.manifest["runs"])))
    rows = samples(expanded(run))
    assert len(rows) == 6 and verify(version.path).faults == ()
    machine = Worlds([str(LIBRARY)]).get(world_of(str(LIBRARY)).hash)
    assert machine and not any(inspect(row.dialogue, world=machine) for row in rows)
    said = ["".join(m.content or "" for m in row.dialogue.messages[1:]) for row in rows]
    assert len(set(said)) == len(said)
    told = list(map(Rejected.model_validate, run.stage("templates").objects("rejected")))
    assert {each.reason for each in told} == {Reason.NOTHING_TO_VARY}
    assert all(each.detail.startswith("no script can be made of it: ") for each in told)


def test_a_preview_plays_scripts(outputs: Path) -> None:
    """What `toolloom expand preview --dataset` shows: the sample first, then rows of other
    states."""
    version = find_version(outputs, "small/1.0.0")
    worlds = worlds_of(version)
    for template in mined(version):
        assert isinstance(template, Template) and template.kind == "world"
        shown = preview(template, 3, 7, worlds)
        script = template.sample["dialogue"]["query"]["setting"]["script"]
        assert len(shown.rows) == shown.possible == (3 if script == "renewal" else 1)
        assert not any(row.findings for row in shown.rows)


def test_a_world_that_ships_expands(tmp_path: Path) -> None:
    """Two scripts of it give as many rows as are wanted, in the split of each, and hold."""
    plan = {"use": ["calendar"], "rows": 2}
    fields = {"name": "shipped", "model": "none", "worlds": plan, "splits": SPLITS}
    made = run_recipe(parse_recipe({**fields, "expand": {"rows": ROWS}}, "a recipe"), tmp_path)
    folder = RunFolder(Path(made.summary.path))
    assert len(list(folder.samples())) == 2 and len(list(expanded(folder))) == ROWS
    assert not list(folder.stage("templates").objects("rejected"))
    assert made.published and verify(made.published.path).faults == ()
