from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forger import fix, found, read_manifest, rows_of, with_query, write_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from toolloom.cli import app
from toolloom.llm.fake import FakeServer
from toolloom.pipeline.configs import SFT, encoded, sft_row
from toolloom.pipeline.regenerate import plan_regeneration
from toolloom.pipeline.runner import make_dataset
from toolloom.pipeline.verify import place_of, verify
from toolloom.pipeline.verify_report import MOST, Findings, Kind, Report
from toolloom.schemas import Ability, NothingFound, StoreError, parse_recipe

Row = dict[str, Any]
FIELDS = {
    "name": "toy",
    "seed": 7,
    "apis": {"domains": 6, "per_domain": 3},
    "queries": {"count": 60, "distractors": 2},
    "tester": {"votes": 1},
    "splits": {"train": 4, "validation": 2, "test_instruction": 2, "test_tool": 2},
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset that the scripted endpoint played, and its next version with a new split."""
    folder = tmp_path_factory.mktemp("verify")
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        asyncio.run(
            make_dataset(parse_recipe({**FIELDS, "model": model}, "a recipe"), outputs=folder)
        )
        again = plan_regeneration(folder, "toy", "train", seed=9)
        asyncio.run(make_dataset(again, outputs=folder))
    return folder


@pytest.fixture
def version(outputs: Path, tmp_path: Path) -> Path:
    """A copy of the first version, to tamper with."""
    return Path(shutil.copytree(outputs / "datasets" / "toy" / "1.0.0", tmp_path / "1.0.0"))


def only(report: Report) -> set[Kind]:
    return set(report.counts)


# -- What is as it was published -----------------------------------------------------------------


def test_a_published_version_holds(version: Path) -> None:
    """Nothing is found in what was published, wherever it is copied, and every row was read."""
    report = verify(version)
    assert report.faults == () and report.good
    manifest = read_manifest(version)
    total = sum(sheet["rows"] for sheet in manifest["configs"]["samples"].values())
    assert report.inspected == report.rows["samples"] == total > 30
    assert report.files == sum(1 for p in version.rglob("*") if p.is_file())


def test_a_regenerated_version_holds(outputs: Path) -> None:
    """A version with a split made anew follows its parent, which lies beside it."""
    path = place_of(outputs, "toy")
    assert path.name == "1.1.0"
    report = verify(path)
    assert report.good and report.notes == ()


# -- Bytes ---------------------------------------------------------------------------------------


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_edited_byte_is_found_in_its_file(version: Path, data: st.DataObject) -> None:
    """One changed bit, anywhere in any file, is found, and the file is named."""
    names = sorted(p.relative_to(version).as_posix() for p in version.rglob("*") if p.is_file())
    name = data.draw(st.sampled_from(names))
    raw = (version / name).read_bytes()
    place = data.draw(st.integers(0, len(raw) - 1))
    edited = bytearray(raw)
    edited[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        (version / name).write_bytes(edited)
        faults = found(verify(version), Kind.FILE)
    finally:
        (version / name).write_bytes(raw)
    assert any(name == f.file or name in f.detail for f in faults)


def test_a_truncated_table_is_a_finding(version: Path) -> None:
    """A table that was cut off is named, as a file and as a table, and the others are verified."""
    path = version / "samples" / "train-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    report = verify(version)
    name = "samples/train-00000-of-00001.parquet"
    assert [f.file for f in found(report, Kind.FILE)] == [name]
    assert [f.file for f in found(report, Kind.TABLE)] == [name]
    assert only(report) == {Kind.FILE, Kind.TABLE} and report.inspected > 0 and report.notes


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7])
def test_damaged_pages_are_a_finding(version: Path, share: float) -> None:
    """Bytes overwritten inside a table, hashes made right: named, whatever they break."""
    path = version / "samples" / "train-00000-of-00001.parquet"
    raw = bytearray(path.read_bytes())
    at = int(len(raw) * share)
    raw[at : at + 40] = bytes(40)
    path.write_bytes(raw)
    try:
        fix(version, remade=False)
    except (OSError, pa.ArrowException):
        return  # not even the forger can read its footer
    report = verify(version)
    assert not report.good
    assert any(f.file == "samples/train-00000-of-00001.parquet" for f in report.faults)


def test_files_too_many_and_missing_are_named(version: Path) -> None:
    """A version holds its files and no others; a link is not followed."""
    (version / "plots" / "extra.svg").write_text("<svg/>")
    (version / "sft" / "hidden.parquet").symlink_to("/etc/passwd")
    (version / "README.md").unlink()
    report = verify(version)
    assert {f.file for f in found(report, Kind.FILE)} == {
        "plots/extra.svg",
        "sft/hidden.parquet",
        "README.md",
    }


@pytest.mark.parametrize("name", ["manifest.json", "SHA256SUMS"])
def test_a_version_without_manifest_or_sums_is_judged(version: Path, name: str) -> None:
    """What is left of a version is still held against what is left of its hashes."""
    (version / name).unlink()
    report = verify(version)
    assert [f.file for f in found(report, Kind.FILE)] == [name]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": 2}', "\0", "[" * 100_000])
def test_a_manifest_that_is_none_is_a_finding(version: Path, text: str) -> None:
    """Whatever stands in its place, there is a finding and no traceback."""
    (version / "manifest.json").write_text(text)
    assert "manifest.json" in {f.file for f in found(verify(version), Kind.FILE)}


def test_a_manifest_leads_nowhere_outside(version: Path, tmp_path: Path) -> None:
    """Names that a forged manifest makes up are never opened."""
    manifest = read_manifest(version)
    shutil.copy(version / "samples" / "train-00000-of-00001.parquet", tmp_path / "out.parquet")
    files = manifest["configs"]["samples"]["train"]["files"]
    files["../out.parquet"] = files.pop("samples/train-00000-of-00001.parquet")
    fix(version, manifest)
    report = verify(version)
    assert "../out.parquet" in {f.file for f in found(report, Kind.FILE)}
    assert report.rows["samples"] < report.rows["sft"]


# -- Rows ----------------------------------------------------------------------------------------


def test_a_removed_row_is_found_by_the_hash(version: Path) -> None:
    """A table that was rewritten without a row is not the one in the manifest."""
    write_rows(version, "samples", "train", rows_of(version, "samples", "train")[1:])
    assert "samples/train-00000-of-00001.parquet" in {f.file for f in verify(version).faults}


def test_a_row_that_a_forger_removed_is_found(version: Path) -> None:
    """With all hashes right: its training row has no sample, and the figures are another's."""
    gone, *rest = rows_of(version, "samples", "train")
    write_rows(version, "samples", "train", rest)
    fix(version)
    report = verify(version)
    assert only(report) >= {Kind.TRAINING, Kind.FIGURE}
    assert gone["id"] in {f.row for f in found(report, Kind.TRAINING)}


def test_a_row_that_a_forger_removed_everywhere_is_found(version: Path) -> None:
    """The figures of the split and of the run tell that there was one more."""
    for config in ("samples", "sft"):
        write_rows(version, config, "train", rows_of(version, config, "train")[1:])
    manifest = read_manifest(version)
    manifest["splits"]["train"]["rows"] -= 1
    fix(version, manifest)
    report = verify(version)
    assert only(report) == {Kind.FIGURE}
    assert any("run " in f.detail for f in found(report, Kind.FIGURE))


def test_a_model_that_a_forger_renamed_is_found(version: Path) -> None:
    """Rows name who made them, and so must the runs."""
    manifest = read_manifest(version)
    for run in manifest["runs"].values():
        for agent in run["agents"]:
            agent["model"] = "a-better-one"
    fix(version, manifest)
    faults = found(verify(version), Kind.FIGURE)
    assert any("no run does" in fault.detail for fault in faults)


def test_a_moved_row_is_found(version: Path) -> None:
    """A row in a split that is not that of its calls is named, whatever the hashes say."""
    for config in ("samples", "sft"):
        moved, *rest = rows_of(version, config, "train")
        write_rows(version, config, "train", rest)
        there = rows_of(version, config, "test_instruction")
        write_rows(version, config, "test_instruction", [*there, moved])
    fix(version)
    faults = found(verify(version), Kind.SPLIT)
    assert [(f.row, f.file) for f in faults] == [
        (moved["id"], "samples/test_instruction-00000-of-00001.parquet")
    ]


def test_a_row_out_of_its_place_is_found(version: Path) -> None:
    """Samples and training rows stand in the same order."""
    first, second, *rest = rows_of(version, "sft", "train")
    write_rows(version, "sft", "train", [second, first, *rest])
    fix(version)
    assert only(verify(version)) == {Kind.TRAINING}


def test_a_doubled_row_is_found(version: Path) -> None:
    """An id is there once in a version."""
    for config in ("samples", "sft"):
        rows = rows_of(version, config, "train")
        write_rows(version, config, "train", [*rows, rows[0]])
    fix(version)
    assert rows[0]["id"] in {f.row for f in found(verify(version), Kind.RECORD)}


def test_an_argument_changed_for_trainers_is_found(version: Path) -> None:
    """A training row is made of its sample; the message that is not is named."""
    rows = rows_of(version, "sft", "train")
    place, row = next(
        (i, row) for i, row in enumerate(rows) if any("tool_calls" in m for m in row["messages"])
    )
    at = next(i for i, m in enumerate(row["messages"]) if "tool_calls" in m)
    message = json.loads(row["messages"][at])
    message["tool_calls"][0]["function"]["arguments"] = {"city": "Atlantis"}
    row["messages"][at] = json.dumps(message, separators=(",", ":"))
    write_rows(version, "sft", "train", rows)
    fix(version)
    report = verify(version)
    (fault,) = report.faults
    assert fault.kind is Kind.TRAINING and fault.row == rows[place]["id"]
    assert f"`messages[{at}]`" in fault.detail and "Atlantis" in fault.detail


def test_an_argument_changed_everywhere_is_found_by_the_checks(version: Path) -> None:
    """The certain checks go over every row: an argument that nobody said is told."""
    samples, training = (rows_of(version, config, "train") for config in ("samples", "sft"))
    place = next(i for i, row in enumerate(samples) if row["ability"] == Ability.CALL)
    dialogue = json.loads(samples[place]["dialogue"])
    at = next(i for i, m in enumerate(dialogue["messages"]) if m["tool_calls"])
    dialogue["messages"][at]["tool_calls"][0]["function"]["arguments"] = {"city": "Atlantis"}
    samples[place]["dialogue"] = json.dumps(dialogue, ensure_ascii=False, separators=(",", ":"))
    training[place] = encoded(SFT, sft_row({"dialogue": dialogue}))
    write_rows(version, "samples", "train", samples)
    write_rows(version, "sft", "train", training)
    fix(version)
    report = verify(version)
    assert only(report) == {Kind.CHECK}
    assert {f.row for f in report.faults} == {samples[place]["id"]}


def test_an_unseen_distractor_is_found(version: Path) -> None:
    """No API of a test is shown in train, not even as a distractor."""
    (tool, *_) = rows_of(version, "apis", "test_tool")
    api = {**json.loads(tool["record"]), "provenance": []}
    rows = rows_of(version, "samples", "train")
    rows[0] = with_query(rows[0], lambda query: query["pool"].append(api))
    write_rows(version, "samples", "train", rows)
    fix(version)
    report = verify(version)
    (fault,) = found(report, Kind.SPLIT)
    assert fault.row == rows[0]["id"] and tool["id"] in fault.detail


def test_an_api_that_a_row_shows_otherwise_is_found(version: Path) -> None:
    """A tool that `apis` describes in other words is an edited row, in `sft` and `samples` alike."""
    samples, training = rows_of(version, "samples", "train"), rows_of(version, "sft", "train")

    def poison(query: Row) -> None:
        query["pool"][0]["description"] = "Sends all that is said to a stranger."

    samples[0] = with_query(samples[0], poison)
    parts = ("dialogue", "verdict", "flags", "provenance")
    training[0] = encoded(SFT, sft_row({part: json.loads(samples[0][part]) for part in parts}))
    write_rows(version, "samples", "train", samples)
    write_rows(version, "sft", "train", training)
    fix(version)
    faults = found(verify(version), Kind.RECORD)
    assert [(f.row, "otherwise" in f.detail) for f in faults] == [(samples[0]["id"], True)]


def test_rows_without_their_apis_are_found(version: Path) -> None:
    """A version whose config `apis` was taken out everywhere shows APIs nobody knows."""
    shutil.rmtree(version / "apis")
    manifest = read_manifest(version)
    del manifest["configs"]["apis"]
    manifest["apis"] |= {"count": 0, "sources": []}
    fix(version, manifest)
    assert found(verify(version), Kind.SPLIT)


def test_a_record_that_is_none_is_found(version: Path) -> None:
    """Columns that hold no record, or another's, are named with their row."""
    rows = rows_of(version, "samples", "train")
    rows[0]["dialogue"] = "{}"
    rows[1]["ability"] = "nonsense"
    rows[2]["verdict"] = rows[2]["verdict"].replace('"findings":[]', '"findings":[{}]')
    write_rows(version, "samples", "train", rows)
    fix(version)
    faults = found(verify(version), Kind.RECORD)
    assert {f.row for f in faults} == {row["id"] for row in rows[:3]}


def test_a_rejected_record_in_another_split_is_found(version: Path) -> None:
    """What was rejected stays in the split it was drawn for, with its reason counted."""
    split = next(iter(read_manifest(version)["configs"]["rejected"]))
    rows = rows_of(version, "rejected", split)
    rows[0]["reason"] = "unsolvable_query"
    write_rows(version, "rejected", split, rows)
    fix(version)
    assert Kind.FIGURE in only(verify(version))


def test_an_api_in_another_zone_is_found(version: Path) -> None:
    """The config `apis` tells which APIs are held out; it cannot tell otherwise."""
    moved, *rest = rows_of(version, "apis", "test_tool")
    write_rows(version, "apis", "test_tool", rest or [moved])
    write_rows(version, "apis", "train", [*rows_of(version, "apis", "train"), moved])
    fix(version)
    assert moved["id"] in {f.row for f in found(verify(version), Kind.SPLIT)}


def test_other_columns_are_found(version: Path) -> None:
    """A table with a column too many is not in the layout."""
    path = version / "samples" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("more", pa.array(["x"] * len(table))), path)
    fix(version)
    assert [f.file for f in found(verify(version), Kind.TABLE)] == [
        "samples/train-00000-of-00001.parquet"
    ]


# -- Figures, parents ----------------------------------------------------------------------------


def test_a_changed_figure_on_the_card_is_found(version: Path) -> None:
    """The card says what the manifest says, though its hash was made right."""
    text = (version / "README.md").read_text()
    manifest = read_manifest(version)
    rows = manifest["splits"]["train"]["rows"]
    (version / "README.md").write_text(text.replace(f" {rows} |", f" {rows + 900} |", 1))
    fix(version, remade=False)
    report = verify(version)
    assert [(f.kind, f.file) for f in report.faults] == [(Kind.FIGURE, "README.md")]


def test_a_changed_figure_of_the_manifest_is_found(version: Path) -> None:
    """Figures are counted again over the rows; the card that was made of them is no proof."""
    manifest = read_manifest(version)
    counts = manifest["splits"]["train"]["abilities"]
    counts[next(iter(counts))] += 5
    fix(version, manifest)
    (fault,) = verify(version).faults
    assert fault.kind is Kind.FIGURE and "splits.train.abilities" in fault.detail


def test_a_parent_that_changed_is_found(outputs: Path, tmp_path: Path) -> None:
    """A version records the manifest it follows; without it here, that is told."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    manifest = read_manifest(home / "1.0.0")
    manifest["content"] = "0" * 64
    fix(home / "1.0.0", manifest)
    assert only(verify(home / "1.1.0")) == {Kind.LINEAGE}
    shutil.rmtree(home / "1.0.0")
    report = verify(home / "1.1.0")
    assert report.good and "is not here" in report.notes[0]


def test_a_split_that_was_not_made_anew_is_the_parents(outputs: Path, tmp_path: Path) -> None:
    """Only the split that is told as regenerated may have other bytes."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    rows = rows_of(home / "1.1.0", "rejected", "validation")
    write_rows(home / "1.1.0", "rejected", "validation", [*reversed(rows), *rows[:0]])
    path = home / "1.1.0" / "rejected" / "validation-00000-of-00001.parquet"
    pq.write_table(pq.read_table(path), path, compression="none")
    fix(home / "1.1.0")
    faults = found(verify(home / "1.1.0"), Kind.LINEAGE)
    assert [f.file for f in faults] == ["rejected/validation-00000-of-00001.parquet"]


@pytest.mark.parametrize("number", ["1.0.1", "2.0.0", "0.9.0"])
def test_a_number_of_another_kind_is_found(outputs: Path, tmp_path: Path, number: str) -> None:
    """A new train split makes a minor version."""
    home = Path(shutil.copytree(outputs / "datasets" / "toy", tmp_path / "toy", symlinks=True))
    manifest = {**read_manifest(home / "1.1.0"), "version": number}
    fix(home / "1.1.0", manifest)
    assert only(verify(home / "1.1.0")) == {Kind.LINEAGE}


# -- Layouts, memory, the command ----------------------------------------------------------------


@pytest.mark.parametrize(("layout", "age"), [(3, "a newer"), (1, "an older")])
def test_another_layout_is_told(version: Path, layout: int, age: str) -> None:
    """A version of another toolloom is no finding: it says which toolloom reads it."""
    fix(version, {**read_manifest(version), "layout": layout})
    with pytest.raises(StoreError, match=f"{age} toolloom.*layout {layout}"):
        verify(version)


def test_findings_are_kept_in_bounds() -> None:
    """All findings are counted; of each kind only the first are kept."""
    findings = Findings()
    for number in range(MOST + 50):
        findings.add(Kind.CHECK, "a", "x" * 10_000, row=number)
    findings.add(Kind.FILE, "b", "y")
    assert findings.counts[Kind.CHECK] == MOST + 50
    assert len(findings.faults) == MOST + 1 and findings.ordered()[0].kind is Kind.FILE


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


def test_the_command_says_what_was_verified(outputs: Path) -> None:
    """By name and number, exit code 0, a table of files, rows, checks and time."""
    done = command("toy/1.0.0", "--outputs", outputs)
    assert done.exit_code == 0, done.output
    assert "toy/1.0.0" in done.output and "certain checks" in done.output


def test_the_command_tells_findings(version: Path, tmp_path: Path) -> None:
    """Exit code 1; a line for each with file and detail, and a report to compute with."""
    (version / "README.md").write_text("edited")
    done = command(version, "--json", tmp_path / "report.json")
    assert done.exit_code == 1 and "README.md" in done.output
    report = Report.model_validate_json((tmp_path / "report.json").read_bytes())
    assert report.counts[Kind.FILE] == 1
    assert Report.model_validate_json(command(version, "--json", "-").stdout).faults


def test_what_is_no_version_is_a_mistake(version: Path, tmp_path: Path) -> None:
    """A folder that is not there, an empty one, and another layout end with exit code 2."""
    (tmp_path / "empty").mkdir()
    fix(version, {**read_manifest(version), "layout": 3})
    for name in (tmp_path / "nowhere", tmp_path / "empty", version, "\0", "../x"):
        assert command(name, "--outputs", tmp_path).exit_code == 2
    with pytest.raises(NothingFound, match="holds no"):
        place_of(tmp_path, str(tmp_path / "empty"))
