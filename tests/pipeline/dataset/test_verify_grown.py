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
from support.tampered import FIELDS, Row, fix, found, read_manifest, rows_of, write_rows

from toolloom.llm.scripted import FakeServer
from toolloom.pipeline.checks import inspect
from toolloom.pipeline.dataset.figures import InstructionCounts, example
from toolloom.pipeline.dataset.instructions import is_trained, planning_rows
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.dataset.rows import PLANNING, instruction_row
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.dataset.verify_files import FaultKind
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.version import open_version
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.pipeline.templates.mine import SeenValues, mine
from toolloom.schemas import (
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

RECORD, CHECK, SPLIT = FaultKind.RECORD, FaultKind.CHECK, FaultKind.SPLIT
SPLITS = {"train": 8, "validation": 1, "test_instruction": 1, "test_tool": 1}
TRAINING, FIGURE, LINEAGE = FaultKind.TRAINING, FaultKind.FIGURE, FaultKind.LINEAGE


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.0.0 of the scripted endpoint, 1.1.0 with instructions, 1.2.0 with rows of templates."""
    folder = tmp_path_factory.mktemp("grown")
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        small = {"queries": {"count": 40, "distractors": 2}, "splits": SPLITS}
        recipe = parse_recipe({**FIELDS, **small, "model": model}, "a recipe")
        asyncio.run(make_dataset(recipe, outputs=folder))
        again = plan_extension(folder, "toy", rewrite=RewritePlan(votes=1))
        asyncio.run(make_dataset(again, outputs=folder))
    plan = plan_extension(folder, "toy", expand=ExpansionPlan())
    version = open_version(folder / "datasets" / "toy" / "1.1.0")
    samples = [*version.samples("train")]
    publish(finished_runs.run(folder, plan, samples, expanded_rows(samples, plan.splits)), folder)
    return folder


def expanded_rows(samples: list[Sample], plan: SplitPlan) -> list[Sample]:
    """Rows of all samples that become templates: of each up to five that nothing objects to."""
    known, made = SeenValues(), list[Sample]()
    for sample in samples:
        known.add(sample.model_dump(mode="json"))
    for sample in samples:
        template = mine(sample.model_dump(mode="json"), known, Split.TRAIN)
        if isinstance(template, Template):
            # Rows that are no sample's: of each choice one after the other.
            sizes = [len(choice.rows) for choice in template.choices]
            steps = range(1, min(20, max(sizes)))
            rows = [tuple(step % size for size in sizes) for step in steps]
            renderer = TemplateRenderer(template)
            drawn = (
                renderer.sample(row, f"{template.id}-x{number:06d}")
                for number, row in enumerate(rows)
            )
            good = [s for s in map(Sample.model_validate, drawn) if is_good(s, plan)]
            made += good[:5]
    return made


def is_good(sample: Sample, plan: SplitPlan) -> bool:
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
    splits = manifest["configs"]["instructions"]
    rows = [row for split in splits for row in rows_of(version, "instructions", split)]
    manifest["instructions"]["example"] = example(rows)
    fix(version, manifest)


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
    assert (report.faults, report.notes) == ((), ())
    manifest = read_manifest(outputs / "datasets" / "toy" / "1.2.0")
    assert len(manifest["instructions"]["splits"]["train"]["levels"]) == 5
    assert manifest["extended"]["rows"]["samples"]["train"] > 5


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
        (other_tool, "", RECORD, "`tags` is not that of its sample"),
        (lambda made: made["path"].insert(0, "hit"), "", RECORD, "`path` is not that of"),
        (put(id="another"), "", RECORD, "its id is not that of its sample and level"),
        (put(ratings=[]), "", RECORD, "has 0 votes, not 1"),
        (put(licence="MIT"), "", RECORD, "`licence` is not that of its sample"),
        (put(source="toolbench"), "", RECORD, "`source` is not that of its sample"),
        (put(provenance=[]), "", RECORD, "its provenance does not name its sample"),
        (put(sample="train-7-999999"), "", RECORD, "not in `samples` of train"),
        (put(split="validation"), "", SPLIT, "is in train; it says validation"),
        (put(text="Do it."), "hybrid", CHECK, "statement_not_contained"),
        (add_a_wish, "statement", CHECK, "statement_not_contained"),
        (rate_badly, "", CHECK, "poorly_rated"),
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


def broken(rule: str, number: str, config: str, change: Any, *faults: tuple[FaultKind, str]) -> Any:
    """A change of the rows of a config in `train`, or of the manifest, and what is found."""
    return pytest.param(number, config, change, faults, id=rule)


ANSWER = '{"role":"assistant","content":"Path: []"}'
LACKS = (TRAINING, "rows in `planning` at its place")


@pytest.mark.parametrize(
    ("number", "config", "change", "faults"),
    [
        broken(
            "a changed answer of a training row",
            *("1.1.0", "planning", lambda rows: rows[0]["messages"].__setitem__(-1, ANSWER)),
            (TRAINING, "`messages[2]` has"),
        ),
        broken(
            "an instruction has both of its training rows, or none",
            *("1.1.0", "planning", lambda rows: rows.pop(0)),
            *(LACKS, (FIGURE, "planning")),
        ),
        broken("and so has the last", "1.1.0", "planning", lambda rows: rows.pop(-1), LACKS),
        broken(
            "means that are too good",
            *("1.1.0", "", lambda m: ratings(m)["hybrid"].update(realness=999)),
            (FIGURE, "instructions.train.ratings"),
        ),
        broken(
            "an example that nobody wrote",
            *("1.1.0", "", lambda m: m["instructions"]["example"]["levels"].update(hybrid="Nice")),
            (FIGURE, "instructions.example.levels"),
        ),
        broken(
            "the parent's rows in another order, under the added ones",
            *("1.2.0", "sft", lambda rows: rows.insert(0, rows.pop(1))),
            (LINEAGE, "no longer the rows of 1.1.0"),
        ),
        broken(
            "a config that got no rows is the parent's file",
            *("1.2.0", "apis", lambda rows: rows[0].update(licence="MIT")),
            (LINEAGE, "no rows were added to it"),
        ),
        broken(
            "other rows were added than are told, or made by the run",
            *("1.2.0", "", lambda m: m["extended"]["rows"]["samples"].update(train=1)),
            *((FIGURE, "extended.rows.samples.train"), (FIGURE, "its splits have")),
        ),
        broken(
            "rows of templates are counted by their provenance",
            *("1.2.0", "", lambda m: next(iter(m["expansion"].values()))["rows"].update(train=1)),
            (FIGURE, "expansion rows of train"),
        ),
    ],
)
def test_what_was_tampered_with_is_found(
    outputs: Path, tmp_path: Path, number: str, config: str, change: Any, faults: Any
) -> None:
    """Training rows, figures and the parent's rows are made or read again, whatever hashes say."""
    version = copy(outputs, number, tmp_path)
    manifest = read_manifest(version)
    if config:
        rows = rows_of(version, config, "train")
        change(rows)
        write_rows(version, config, "train", rows)
    else:
        change(manifest)
    fix(version, manifest)
    for kind, told in faults:
        assert told in details(version, kind)


def ratings(manifest: Row) -> Row:
    return manifest["instructions"]["splits"]["train"]["ratings"]


def test_the_share_of_coarse_rows_holds(rewritten: Path) -> None:
    """Rows that the share leaves out are found: the recipe of the run says what it is."""
    made = [json.loads(row["record"]) for row in rows_of(rewritten, "instructions", "train")]
    rows = [PLANNING.encode(row) for each in made for row in planning_rows(each)]
    write_rows(rewritten, "planning", "train", rows)
    fix(rewritten)
    assert "has 2 rows in `planning` at its place, not 0" in details(rewritten, TRAINING)


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
