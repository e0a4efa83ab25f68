"""Rows of templates, instructions and extensions, verified and tampered with."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import finished_runs
from support.foreign_rows import INSTRUCTION, TREE
from support.tampered import fix, found, read_manifest, rows_of, write_rows

from toolloom.llm.fake import FakeServer
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.figures import InstructionCounts, example
from toolloom.pipeline.dataset.instructions import is_trained, planning_rows
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.rows import PLANNING, instruction_row
from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.dataset.verify_files import FaultKind
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.version import open_version
from toolloom.pipeline.templates.mining.mining import mine
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.schemas import (
    Expansion,
    ExpansionPlan,
    JsonObject,
    RewritePlan,
    Sample,
    Split,
    SplitPlan,
    Template,
    parse_recipe,
)
from toolloom.schemas.splits import split_of_need

Row = dict[str, Any]
FIELDS = {
    "name": "toy",
    "seed": 7,
    "apis": {"domains": 6, "per_domain": 3},
    "queries": {"count": 40, "distractors": 2},
    "tester": {"votes": 1},
    "splits": {"train": 8, "validation": 1, "test_instruction": 1, "test_tool": 1},
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.0.0 of the scripted endpoint, 1.1.0 with instructions, 1.2.0 with rows of templates."""
    folder = tmp_path_factory.mktemp("grown")
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        recipe = parse_recipe({**FIELDS, "model": model}, "a recipe")
        asyncio.run(make_dataset(recipe, outputs=folder))
        again = plan_extension(folder, "toy", rewrite=RewritePlan(votes=1))
        asyncio.run(make_dataset(again, outputs=folder))
    plan = plan_extension(folder, "toy", expand=ExpansionPlan())
    version = open_version(folder / "datasets" / "toy" / "1.1.0")
    samples = [*version.samples("train")]
    publish(finished_runs.run(folder, plan, samples, expansions(samples, plan.splits)), folder)
    return folder


def expansions(samples: list[Sample], plan: SplitPlan) -> list[Expansion]:
    """Rows of all samples that become templates: of each up to five that nothing objects to."""
    known, made = SeenValues(), []
    for sample in samples:
        known.add(sample.model_dump(mode="json"))
    for sample in samples:
        template = mine(sample.model_dump(mode="json"), known, Split.TRAIN)
        if isinstance(template, Template):
            good = [row for row in rows_of_template(template) if is_good(template, row, plan)]
            each = finished_runs.expansion(template)
            made.append(each.model_copy(update={"rows": tuple(good[:5])}))
    return [each for each in made if each.rows]


def rows_of_template(template: Template) -> list[tuple[int, ...]]:
    """Rows that are no sample's: of each choice one after the other."""
    sizes = [len(choice.rows) for choice in template.choices]
    return [tuple(place % size for size in sizes) for place in range(1, min(20, max(sizes)))]


def is_good(template: Template, row: tuple[int, ...], plan: SplitPlan) -> bool:
    sample = TemplateRenderer(template).sample(row, "x", 0)
    in_train = split_of_need(plan, sample.dialogue.query) is Split.TRAIN
    return in_train and not list(inspect(sample.dialogue))


def copy(outputs: Path, number: str, tmp_path: Path) -> Path:
    """A copy of a version, to tamper with, beside the one it follows."""
    shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True)
    return tmp_path / "toy" / number


@pytest.fixture
def rewritten(outputs: Path, tmp_path: Path) -> Path:
    return copy(outputs, "1.1.0", tmp_path)


@pytest.fixture
def expanded(outputs: Path, tmp_path: Path) -> Path:
    return copy(outputs, "1.2.0", tmp_path)


def change_instruction(version: Path, change: Callable[[JsonObject], None], place: int = 0) -> None:
    """Change an instruction's record, its columns, its training rows and the figures with it."""
    rows = rows_of(version, "instructions", "train")
    record = json.loads(rows[place]["record"])
    change(record)
    rows[place] = instruction_row(record)
    write_rows(version, "instructions", "train", rows)
    made = [json.loads(row["record"]) for row in rows]
    trained = [
        PLANNING.encode(row)
        for each in made
        if is_trained(each, 0.5)
        for row in planning_rows(each)
    ]
    write_rows(version, "planning", "train", trained)
    manifest = read_manifest(version)
    counted = InstructionCounts()
    for each in made:
        counted.add(each)
    for row in trained:
        counted.train(row)
    told = manifest["instructions"]["splits"]["train"]
    manifest["instructions"]["splits"]["train"] = {**counted.told(), "rejected": told["rejected"]}
    shown = [row for split in manifest["configs"]["instructions"] for row in all_of(version, split)]
    manifest["instructions"]["example"] = example(shown)
    fix(version, manifest)


def all_of(version: Path, split: str) -> list[Row]:
    return rows_of(version, "instructions", split)


def place_of(version: Path, level: str) -> int:
    """The first instruction of a level."""
    rows = rows_of(version, "instructions", "train")
    return next(place for place, row in enumerate(rows) if row["level"] == level)


def details(version: Path, kind: FaultKind) -> str:
    return " | ".join(fault.detail for fault in found(verify(version), kind))


# -- What is as it was published -----------------------------------------------------------------


@pytest.mark.parametrize("number", ["1.0.0", "1.1.0", "1.2.0"])
def test_what_was_added_holds(outputs: Path, number: str) -> None:
    """Nothing is found in a version that grew, nor in those it grew of."""
    report = verify(outputs / "datasets" / "toy" / number)
    assert report.faults == ()
    assert report.notes == ()


def test_there_is_something_to_verify(outputs: Path) -> None:
    """The versions of these tests have instructions of every level, and rows of templates."""
    last = read_manifest(outputs / "datasets" / "toy" / "1.2.0")
    assert len(last["instructions"]["splits"]["train"]["levels"]) == 5
    assert last["extended"]["rows"]["samples"]["train"] > 5


def test_a_version_without_the_new_figures_holds(outputs: Path, tmp_path: Path) -> None:
    """One that was published before there were any of them has none in its manifest."""
    version = copy(outputs, "1.0.0", tmp_path)
    manifest = read_manifest(version)
    for name in ("extended", "expansion", "instructions"):
        del manifest[name]
    fix(version, manifest)
    assert verify(version).faults == ()


def test_a_dataset_of_foreign_requests_alone_holds(tmp_path: Path) -> None:
    """ToolBench's trees make a version without dialogues or APIs, which is verified like any."""
    hybrid = "I fly to Bern tomorrow with my sister. What is the weather there?"
    trees = tmp_path / "trees"
    trees.mkdir()
    for name, row in (("tree", TREE), ("query", [INSTRUCTION])):
        text = json.dumps(row).replace(INSTRUCTION["query"], hybrid)
        (trees / f"{name}.json").write_text(text)
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake"}
        base = parse_recipe({"name": "trees", "model": model}, "a recipe")
        plan = RewritePlan(seeds=(str(trees),), votes=0)
        recipe = plan_extension(tmp_path, "trees", rewrite=plan, recipe=base)
        made = asyncio.run(make_dataset(recipe, outputs=tmp_path))
    assert made.published
    report = verify(made.published.path)
    assert report.faults == ()
    assert report.rows["instructions"] > 2
    assert made.published.version.number == "1.0.0"


# -- What was tampered with ----------------------------------------------------------------------


def put(**fields: Any) -> Callable[[JsonObject], None]:
    return lambda made: made.update(fields)


def add_a_wish(made: JsonObject) -> None:
    made["text"] += " My neighbour's horse is called Waldemar."


def rate_badly(made: JsonObject) -> None:
    for vote in made["ratings"]:
        vote["realness"] = 1


def other_tool(made: JsonObject) -> None:
    made["tags"]["tools"][0] = "Hammer"


@pytest.mark.parametrize(
    ("change", "level", "kind", "told"),
    [
        (other_tool, "", FaultKind.RECORD, "`tags` is not that of its sample"),
        (lambda made: made["path"].insert(0, "hit"), "", FaultKind.RECORD, "`path` is not that of"),
        (put(id="another"), "", FaultKind.RECORD, "its id is not that of its sample and level"),
        (put(ratings=[]), "", FaultKind.RECORD, "has 0 votes, not 1"),
        (put(licence="MIT"), "", FaultKind.RECORD, "`licence` is not that of its sample"),
        (put(source="toolbench"), "", FaultKind.RECORD, "`source` is not that of its sample"),
        (put(provenance=[]), "", FaultKind.RECORD, "its provenance does not name its sample"),
        (
            put(sample="train-7-999999"),
            "",
            FaultKind.RECORD,
            "its sample is not in `samples` of train",
        ),
        (put(split="validation"), "", FaultKind.SPLIT, "is in train; it says validation"),
        (put(text="Do it."), "hybrid", FaultKind.CHECK, "statement_not_contained"),
        (add_a_wish, "statement", FaultKind.CHECK, "statement_not_contained"),
        (rate_badly, "", FaultKind.CHECK, "poorly_rated"),
    ],
)
def test_an_instruction_that_was_changed_is_found(
    rewritten: Path, change: Callable[[JsonObject], None], level: str, kind: FaultKind, told: str
) -> None:
    """Tags, path, words, votes, split, licence, source and name are those of its sample and run."""
    change_instruction(rewritten, change, place_of(rewritten, level) if level else 0)
    assert told in details(rewritten, kind)


def test_levels_stand_without_a_statement_that_votes_rejected(rewritten: Path) -> None:
    """They begin with it, and have votes of their own."""
    rows = rows_of(rewritten, "instructions", "train")
    del rows[place_of(rewritten, "statement")]
    write_rows(rewritten, "instructions", "train", rows)
    change_instruction(rewritten, lambda made: None)  # the figures
    assert details(rewritten, FaultKind.CHECK) == ""


def test_a_foreign_instruction_is_in_the_zone_of_its_tools(rewritten: Path) -> None:
    """One that names no sample of the version is still held to the plan of the splits."""

    def change(made: JsonObject) -> None:
        made.update(source="toolbench", sample="b1")

    rows = rows_of(rewritten, "instructions", "train")
    manifest = read_manifest(rewritten)
    tags = json.loads(rows[0]["record"])["tags"]
    manifest["plan"]["unseen"] = [f"{tags['categories'][0]}/{tags['tools'][0]}"]
    change_instruction(rewritten, change)
    fix(rewritten, {**read_manifest(rewritten), "plan": manifest["plan"]})
    assert "its tools belong into test_tool" in details(rewritten, FaultKind.SPLIT)


def test_training_rows_are_those_of_the_instructions(rewritten: Path) -> None:
    """A changed answer is found, with the column."""
    rows = rows_of(rewritten, "planning", "train")
    rows[0]["messages"][-1] = '{"role":"assistant","content":"Path: []"}'
    write_rows(rewritten, "planning", "train", rows)
    fix(rewritten)
    assert "`messages[2]` has" in details(rewritten, FaultKind.TRAINING)


@pytest.mark.parametrize("place", [0, -1])
def test_a_training_row_that_lacks_is_found(rewritten: Path, place: int) -> None:
    """An instruction has both of its rows, or none."""
    rows = rows_of(rewritten, "planning", "train")
    del rows[place]
    write_rows(rewritten, "planning", "train", rows)
    fix(rewritten)
    assert "rows in `planning` at its place" in details(rewritten, FaultKind.TRAINING)
    assert "planning" in details(rewritten, FaultKind.FIGURE)


def test_the_share_of_coarse_rows_holds(rewritten: Path) -> None:
    """Rows that the share leaves out are found: the recipe of the run says what it is."""
    made = [json.loads(row["record"]) for row in rows_of(rewritten, "instructions", "train")]
    rows = [PLANNING.encode(row) for each in made for row in planning_rows(each)]
    write_rows(rewritten, "planning", "train", rows)
    fix(rewritten)
    assert "has 2 rows in `planning` at its place, not 0" in details(rewritten, FaultKind.TRAINING)


def test_figures_and_the_example_are_those_of_the_rows(rewritten: Path) -> None:
    """Means that are too good, and an example that nobody wrote, are found."""
    manifest = read_manifest(rewritten)
    told = manifest["instructions"]
    told["splits"]["train"]["ratings"]["hybrid"]["realness"] += 1
    told["example"]["levels"]["hybrid"] = "Something nicer."
    fix(rewritten, manifest)
    faults = details(rewritten, FaultKind.FIGURE)
    assert "instructions.train.ratings" in faults
    assert "instructions.example.levels" in faults


def test_the_parents_rows_are_all_there(expanded: Path) -> None:
    """A row that was exchanged under the added ones is found, whatever the hashes say."""
    rows = rows_of(expanded, "sft", "train")
    rows[0], rows[1] = rows[1], rows[0]
    write_rows(expanded, "sft", "train", rows)
    fix(expanded)
    assert "no longer the rows of 1.1.0" in details(expanded, FaultKind.LINEAGE)


def test_a_split_without_new_rows_is_the_parents_file(expanded: Path) -> None:
    """What the manifest does not say it added to is as it was."""
    rows = rows_of(expanded, "samples", "validation")
    write_rows(expanded, "samples", "validation", [{**row, "flags": "[ ]"} for row in rows])
    fix(expanded)
    assert "no rows were added to it" in details(expanded, FaultKind.LINEAGE)


def test_more_added_than_told_is_found(expanded: Path) -> None:
    """The number of rows that were added is that of the run, and of the rows."""
    manifest = read_manifest(expanded)
    manifest["extended"]["rows"]["samples"]["train"] += 1
    fix(expanded, manifest)
    faults = details(expanded, FaultKind.FIGURE)
    assert "extended.rows.samples.train" in faults
    assert "its splits have" in faults


def test_rows_of_templates_are_counted_again(expanded: Path) -> None:
    """The rows that are told are those whose provenance says so."""
    manifest = read_manifest(expanded)
    [told] = manifest["expansion"].values()
    told["rows"]["train"] -= 1
    fix(expanded, manifest)
    assert "expansion rows of train" in details(expanded, FaultKind.FIGURE)


def test_a_damaged_parent_is_told_and_not_held_against_the_version(expanded: Path) -> None:
    """Its rows cannot be compared."""
    path = expanded.parent / "1.1.0" / "samples" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    report = verify(expanded)
    assert report.faults == ()
    assert any("is damaged: not compared" in note for note in report.notes)


@pytest.mark.parametrize(
    "odd", [{}, {"run": 1, "rows": {}}, {"run": "x", "rows": {"samples": {"train": -1}}}, []]
)
def test_an_odd_extension_is_a_damaged_manifest(expanded: Path, odd: Any) -> None:
    """A manifest that says something else in its place is told, and nothing is raised."""
    fix(expanded, {**read_manifest(expanded), "extended": odd}, remade=False)
    assert found(verify(expanded), FaultKind.FILE)
