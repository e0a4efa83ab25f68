"""Rows that were edited, moved, removed or made up are found, though a forger made all hashes right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from forger import Row, fix, found, read_manifest, rows_of, with_query, write_rows
from verifying import only

from toolloom.pipeline.dataset.rows import SFT, sft_row
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.dataset.verify_files import Kind
from toolloom.schemas import Ability


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
    training[place] = SFT.encode(sft_row({"dialogue": dialogue}))
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
    training[0] = SFT.encode(sft_row({part: json.loads(samples[0][part]) for part in parts}))
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
