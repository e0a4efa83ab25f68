"""What is broken in a version, and the finding: a forger made all hashes right again.

`test_tampered.py` changes whatever there is; here is what the findings say.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.foreign_rows import INSTRUCTION, TREE
from support.tampered import Row, fix, found, only, read_manifest, rows_of, write_rows
from typer.testing import CliRunner, Result

from toolloom import FakeServer
from toolloom.cli import app
from toolloom.pipeline.dataset.configs import INSTRUCTIONS, PLANNING, SFT, is_trained
from toolloom.pipeline.dataset.figures import describe
from toolloom.pipeline.dataset.verify import FaultKind, VerifyReport, verify
from toolloom.pipeline.growth import plan_extension
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.version import find_folder
from toolloom.schemas import (
    Ability,
    JsonObject,
    NothingFound,
    RewritePlan,
    parse_recipe,
)

FILE, TABLE, RECORD, CHECK = FaultKind.FILE, FaultKind.TABLE, FaultKind.RECORD, FaultKind.CHECK
TRAINING, SPLIT = FaultKind.TRAINING, FaultKind.SPLIT
LINEAGE, FIGURE = FaultKind.LINEAGE, FaultKind.FIGURE
SAMPLES = "samples/train-00000-of-00001.parquet"
BOTH = ("samples", "sft")


@pytest.fixture
def home(grown: Path, tmp_path: Path) -> Path:
    """A copy of these versions, to tamper with."""
    return Path(shutil.copytree(grown / "datasets" / "toy", tmp_path / "toy", symlinks=True))


def details(version: Path, kind: FaultKind) -> str:
    return " | ".join(fault.detail for fault in found(verify(version), kind))


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
    assert made.published and made.published.number == "1.0.0"
    report = verify(made.published.path)
    assert report.faults == () and report.rows["instructions"] > 2


# -- Files -----------------------------------------------------------------------------------------


def test_a_truncated_table_is_a_finding(version: Path) -> None:
    """A table that was cut off is named, as a file and as a table, and the others are verified."""
    path = version / SAMPLES
    path.write_bytes(path.read_bytes()[:-100])
    report = verify(version)
    assert [f.file for f in found(report, FILE)] == [SAMPLES]
    assert [f.file for f in found(report, TABLE)] == [SAMPLES]
    assert only(report) == {FILE, TABLE}
    assert report.inspected > 0 and report.notes


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_damaged_pages_are_a_finding(version: Path, share: float) -> None:
    """Bytes overwritten inside a table, hashes made right: named, whatever they break."""
    raw = bytearray((version / SAMPLES).read_bytes())
    at = int(len(raw) * share)
    raw[at : at + 40] = bytes(40)
    (version / SAMPLES).write_bytes(raw)
    try:
        fix(version, remade=False)
    except (OSError, pa.ArrowException):
        return  # not even the forger can read its footer
    assert SAMPLES in {fault.file for fault in verify(version).faults}


def test_files_too_many_and_missing_are_named(version: Path) -> None:
    """A version holds its files and no others; a link is not followed."""
    (version / "sft" / "extra.svg").write_text("<svg/>")
    (version / "sft" / "hidden.parquet").symlink_to("/etc/passwd")
    (version / "README.md").unlink()
    named = {f.file for f in found(verify(version), FILE)}
    assert named == {"sft/extra.svg", "sft/hidden.parquet", "README.md"}


@pytest.mark.parametrize("name", ["manifest.json", "SHA256SUMS"])
def test_a_version_without_manifest_or_sums_is_judged(version: Path, name: str) -> None:
    """What is left of a version is still held against what is left of its hashes."""
    (version / name).unlink()
    assert [f.file for f in found(verify(version), FILE)] == [name]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 3}', "\0", "[" * 100_000])
def test_a_manifest_that_is_none_is_a_finding(version: Path, text: str) -> None:
    """Whatever stands in its place, there is a finding and no traceback."""
    (version / "manifest.json").write_text(text)
    assert "manifest.json" in {f.file for f in found(verify(version), FILE)}


def leads_out(manifest: Row) -> None:
    files = manifest["configs"]["samples"]["train"]["files"]
    files["../out.parquet"] = files.pop(SAMPLES)


@pytest.mark.parametrize(
    "change",
    [
        leads_out,
        *(
            lambda m, odd=odd: m.update(extended=odd)  # type: ignore[misc]
            for odd in ({}, {"run": "x", "rows": {"samples": {"train": -1}}}, [])
        ),
    ],
)
def test_an_odd_manifest_is_told(version: Path, change: Callable[[Row], None]) -> None:
    """Names that lead out of the version are never opened; what says something else in the place of
    a part is told, and nothing is raised."""
    manifest = read_manifest(version)
    (version.parent / "out.parquet").write_bytes((version / SAMPLES).read_bytes())
    change(manifest)
    (version / "manifest.json").write_text(json.dumps(manifest))
    assert "is damaged" in details(version, FILE)


# -- Rows ------------------------------------------------------------------------------------------


def change_rows(version: Path, change: Callable[[list[Row]], list[Row]], *configs: str) -> str:
    """Change the rows of `train` in some configs alike; the id of the first one before."""
    for config in configs:
        rows = rows_of(version, config, "train")
        write_rows(version, config, "train", change(list(rows)))
    return str(rows[0]["id"])


def change_sample(version: Path, place: int, change: Callable[[Row], object]) -> str:
    """Change a dialogue, and its training row with it."""
    samples, training = (rows_of(version, config, "train") for config in BOTH)
    dialogue = json.loads(samples[place]["dialogue"])
    change(dialogue)
    samples[place]["dialogue"] = json.dumps(dialogue, ensure_ascii=False, separators=(",", ":"))
    (training[place],) = map(SFT.columns.encode, SFT.row.of({"dialogue": dialogue}))
    write_rows(version, "samples", "train", samples)
    write_rows(version, "sft", "train", training)
    return str(samples[place]["id"])


def removed_everywhere(version: Path) -> None:
    """The figures with it: only the run's counts tell."""
    change_rows(version, lambda rows: rows[1:], *BOTH)
    manifest = read_manifest(version)
    for split, figures in describe(version)["splits"].items():
        manifest["splits"][split] |= figures
    fix(version, manifest)


def renamed_model(version: Path) -> None:
    manifest = read_manifest(version)
    for run in manifest["runs"].values():
        for agent in run["agents"]:
            agent["model"] = "a-better-one"
    fix(version, manifest)


def moved(version: Path) -> str:
    for config in BOTH:
        row = rows_of(version, config, "train")[0]
        there = rows_of(version, config, "test_instruction")
        write_rows(version, config, "test_instruction", [*there, row])
    return change_rows(version, lambda rows: rows[1:], *BOTH)


def doubled(version: Path) -> str:
    return change_rows(version, lambda rows: [*rows, rows[0]], *BOTH)


def unseen_distractor(version: Path) -> str:
    (tool, *_) = rows_of(version, "apis", "test_tool")
    api = {**json.loads(tool["record"]), "provenance": []}
    return change_sample(version, 0, lambda dialogue: dialogue["query"]["pool"].append(api))


def api_shown_otherwise(version: Path) -> str:
    told = {"description": "Sends all that is said to a stranger."}
    return change_sample(version, 0, lambda dialogue: dialogue["query"]["pool"][0].update(told))


def no_apis(version: Path) -> None:
    shutil.rmtree(version / "apis")
    manifest = read_manifest(version)
    del manifest["configs"]["apis"]
    manifest["apis"] |= {"count": 0, "sources": []}
    fix(version, manifest)


def reason_changed(version: Path) -> None:
    split = next(iter(read_manifest(version)["configs"]["rejected"]))
    rows = rows_of(version, "rejected", split)
    rows[0]["reason"] = "unsolvable_query"
    write_rows(version, "rejected", split, rows)


def api_moved(version: Path) -> str:
    api, *rest = rows_of(version, "apis", "test_tool")
    write_rows(version, "apis", "test_tool", rest or [api])
    write_rows(version, "apis", "train", [*rows_of(version, "apis", "train"), api])
    return str(api["id"])


def column_added(version: Path) -> None:
    table = pq.read_table(version / SAMPLES)
    pq.write_table(table.append_column("more", pa.array(["x"] * len(table))), version / SAMPLES)


def other_records(version: Path) -> str:
    rows = rows_of(version, "samples", "train")
    rows[0]["dialogue"] = "{}"
    rows[1]["ability"] = "nonsense"
    rows[2]["verdict"] = rows[2]["verdict"].replace('"findings":[]', '"findings":[{}]')
    write_rows(version, "samples", "train", rows)
    return str(rows[2]["id"])


def lie(version: Path) -> str:
    """An argument that nobody said, everywhere."""
    rows = rows_of(version, "samples", "train")
    place = next(i for i, row in enumerate(rows) if row["ability"] == Ability.CALL)

    def change(dialogue: Row) -> None:
        call = next(m for m in dialogue["messages"] if m["tool_calls"])["tool_calls"][0]
        call["function"]["arguments"] = {"city": "Atlantis"}

    return change_sample(version, place, change)


@pytest.mark.parametrize(
    ("tamper", "kind", "told"),
    [
        (removed_everywhere, FIGURE, "run toy-"),
        (renamed_model, FIGURE, "no run does"),
        (moved, SPLIT, "is in test_instruction; its APIs and calls belong into train"),
        (doubled, RECORD, "its id is there twice"),
        (unseen_distractor, SPLIT, "which is held out of train"),
        (api_shown_otherwise, RECORD, "otherwise than `apis` has it"),
        (no_apis, SPLIT, "not in `apis`"),
        (reason_changed, FIGURE, "splits."),
        (api_moved, SPLIT, "its category and tool belong into test_tool"),
        (column_added, TABLE, "its columns are"),
        (other_records, RECORD, "holds no sample"),
        (lie, CHECK, "Atlantis"),
    ],
)
def test_what_is_broken_is_found(
    version: Path, tamper: Callable[[Path], str | None], kind: FaultKind, told: str
) -> None:
    """The kind of the finding, what it says, and the row that it names."""
    row = tamper(version)
    fix(version)
    faults = [f for f in verify(version).faults if f.kind is kind and told in f.detail]
    assert faults and (row is None or kind is FIGURE or row in {fault.row for fault in faults})


# -- Instructions ----------------------------------------------------------------------------------


def change_instruction(
    version: Path, change: Callable[[JsonObject], None], level: str = ""
) -> None:
    """Change the first instruction of a level: its record, its columns, its training rows, and the
    figures with them."""
    rows = rows_of(version, "instructions", "train")
    place = next(n for n, row in enumerate(rows) if level in ("", row["level"]))
    record = json.loads(rows[place]["record"])
    change(record)
    (rows[place],) = map(INSTRUCTIONS.columns.encode, INSTRUCTIONS.row.of(record))
    write_rows(version, "instructions", "train", rows)
    made = [json.loads(row["record"]) for row in rows]
    trained = [row for each in made if is_trained(each, 0.5) for row in PLANNING.row.of(each)]
    write_rows(version, "planning", "train", [*map(PLANNING.columns.encode, trained)])
    fix(version, {**read_manifest(version), "instructions": describe(version)["instructions"]})


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
    home: Path, change: Callable[[JsonObject], None], level: str, kind: FaultKind, told: str
) -> None:
    """Tags, path, words, votes, split, licence, source and name are those of its sample and run."""
    change_instruction(home / "1.1.0", change, level)
    assert told in details(home / "1.1.0", kind)


def test_levels_stand_without_a_statement_that_votes_rejected(home: Path) -> None:
    """They begin with it, and have votes of their own."""
    version = home / "1.1.0"
    rows = rows_of(version, "instructions", "train")
    del rows[next(n for n, row in enumerate(rows) if row["level"] == "statement")]
    write_rows(version, "instructions", "train", rows)
    change_instruction(version, lambda made: None)  # the figures
    assert details(version, CHECK) == ""


def test_a_foreign_instruction_is_in_the_zone_of_its_tools(home: Path) -> None:
    """One that names no sample of the version is still held to the plan of the splits."""
    version = home / "1.1.0"
    tags = json.loads(rows_of(version, "instructions", "train")[0]["record"])["tags"]
    change_instruction(version, put(source="toolbench", sample="b1"))
    manifest = read_manifest(version)
    manifest["plan"]["unseen"] = [f"{tags['categories'][0]}/{tags['tools'][0]}"]
    fix(version, manifest)
    assert "its tools belong into test_tool" in details(version, SPLIT)


# -- Training rows, figures, parents ---------------------------------------------------------------


def ratings(manifest: Row) -> Row:
    return manifest["instructions"]["splits"]["train"]["ratings"]


@pytest.mark.parametrize(
    ("number", "config", "change", "faults"),
    [
        # means that are too good, an example that nobody wrote
        ("1.1.0", "", lambda m: ratings(m)["hybrid"].update(realness=999), [(FIGURE, "instructions.splits.train.ratings")]),
        ("1.1.0", "", lambda m: m["instructions"]["example"]["levels"].update(hybrid="Nice"), [(FIGURE, "instructions.example.levels")]),
        # votes that are no number
        ("1.1.0", "", lambda m: [r["recipe"]["rewrite"].update(votes=[[]]) for r in m["runs"].values() if r["recipe"]["rewrite"]], [(RECORD, "votes, not 0")]),
        # the parent's rows in another order, under the added ones
        ("1.2.0", "sft", lambda rows: rows.insert(0, rows.pop(1)), [(LINEAGE, "no longer the rows of 1.1.0")]),
        # a config that got no rows is the parent's file
        ("1.2.0", "apis", lambda rows: rows[0].update(licence="MIT"), [(LINEAGE, "no rows were added to it")]),
        # other rows were added than are told, or made by the run
        ("1.2.0", "", lambda m: m["extended"]["rows"]["samples"].update(train=1), [(FIGURE, "extended.rows.samples.train"), (FIGURE, "its splits have")]),
        # a figure, and the order in which they are told
        ("1.2.0", "", lambda m: m["splits"]["train"]["abilities"].update(call=1), [(FIGURE, "splits.train.abilities.call is 1, the data have")]),
    ],
)  # fmt: skip
def test_what_was_tampered_with_is_found(
    home: Path, number: str, config: str, change: Any, faults: Any
) -> None:
    """Training rows, figures and the parent's rows are made or read again, whatever hashes say."""
    version, manifest = home / number, read_manifest(home / number)
    if config:
        rows = rows_of(version, config, "train")
        change(rows)
        write_rows(version, config, "train", rows)
    else:
        change(manifest)
    fix(version, manifest)
    for kind, told in faults:
        assert told in details(version, kind)


def test_the_share_of_coarse_rows_holds(home: Path) -> None:
    """Rows that the share leaves out are found: the recipe of the run says what it is."""
    version = home / "1.1.0"
    made = [json.loads(row["record"]) for row in rows_of(version, "instructions", "train")]
    rows = [PLANNING.columns.encode(row) for each in made for row in PLANNING.row.of(each)]
    write_rows(version, "planning", "train", rows)
    fix(version)
    assert "is there, though the recipe leaves it out" in details(version, TRAINING)


def test_a_changed_figure_on_the_card_is_found(version: Path) -> None:
    """The card says what the manifest says, though its hash was made right."""
    text = (version / "README.md").read_text()
    rows = read_manifest(version)["splits"]["train"]["rows"]
    (version / "README.md").write_text(text.replace(f" {rows} |", f" {rows + 900} |", 1))
    fix(version, remade=False)
    assert [(f.kind, f.file) for f in verify(version).faults] == [(FIGURE, "README.md")]


def test_a_parent_that_changed_is_found(home: Path) -> None:
    """A version records the manifest it follows; without it here, that is told, as is one whose
    rows cannot be compared."""
    parent, version = home / "1.1.0", home / "1.2.0"
    raw = (parent / SAMPLES).read_bytes()
    (parent / SAMPLES).write_bytes(raw[:-1])
    report = verify(version)
    assert report.faults == () and "is damaged: not compared" in report.notes[0]
    (parent / SAMPLES).write_bytes(raw)
    fix(parent, {**read_manifest(parent), "content": "0" * 64}, remade=False)
    assert only(verify(version)) == {LINEAGE}
    shutil.rmtree(parent)
    report = verify(version)
    assert report.good and "is not here" in report.notes[0]


def test_a_split_that_was_not_made_anew_is_the_parents(outputs: Path, tmp_path: Path) -> None:
    """A version with a split made anew holds, and all of it was read; only the split that is told
    as regenerated may have other bytes."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    report = verify(home / "1.1.0")
    assert report.good and report.notes == ()
    assert report.inspected == report.rows["samples"] > 30
    path = home / "1.1.0" / "rejected" / "validation-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    fix(home / "1.1.0")
    faults = found(verify(home / "1.1.0"), LINEAGE)
    assert [f.file for f in faults] == ["rejected/validation-00000-of-00001.parquet"]


@pytest.mark.parametrize("number", ["1.0.1", "2.0.0", "0.9.0"])
def test_a_number_of_another_kind_is_found(home: Path, number: str) -> None:
    """More rows to train on make a minor version."""
    fix(home / "1.2.0", {**read_manifest(home / "1.2.0"), "version": number})
    assert LINEAGE in only(verify(home / "1.2.0"))


# -- Layouts, the command --------------------------------------------------------------------------


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_the_command_tells_findings(version: Path, tmp_path: Path) -> None:
    """Exit code 1; a line for each with file and detail, and a report to compute with."""
    (version / "README.md").write_text("edited")
    done = command(version, "--json", tmp_path / "report.json")
    assert done.exit_code == 1 and "README.md" in done.output
    report = VerifyReport.model_validate_json((tmp_path / "report.json").read_bytes())
    assert report.counts[FILE] == 1
    assert VerifyReport.model_validate_json(command(version, "--json", "-").stdout).faults


def test_what_is_no_version_is_a_mistake(version: Path, tmp_path: Path) -> None:
    """A folder that is not there, an empty one, and another layout end with exit code 2."""
    (tmp_path / "empty").mkdir()
    fix(version, {**read_manifest(version), "layout": 4})
    for name in (tmp_path / "nowhere", tmp_path / "empty", version, "\0", "../x"):
        assert command(name, "--outputs", tmp_path).exit_code == 2
    with pytest.raises(NothingFound, match="There is no"):
        find_folder(tmp_path, str(tmp_path / "empty"))
