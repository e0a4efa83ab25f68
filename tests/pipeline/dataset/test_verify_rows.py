"""What is broken in a version's rows, and the finding: a forger made all hashes right."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tampered import Row, fix, found, only, read_manifest, rows_of, write_rows

from toolloom.pipeline.dataset.rows import SFT, sft_row
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.dataset.verify_files import FaultKind
from toolloom.schemas import Ability

Broken = str | None
"""The id of the row that is named, if one is."""
BOTH = ("samples", "sft")


def change_rows(
    version: Path, change: Callable[[list[Row]], list[Row]], *configs: str
) -> list[Row]:
    """Change the rows of `train` in some configs alike; those of the last one as they were."""
    for config in configs:
        rows = rows_of(version, config, "train")
        write_rows(version, config, "train", change(list(rows)))
    return rows


def change_sample(version: Path, place: int, change: Callable[[Row], object]) -> str:
    """Change a dialogue, and its training row with it."""
    samples, training = (rows_of(version, config, "train") for config in BOTH)
    dialogue = json.loads(samples[place]["dialogue"])
    change(dialogue)
    samples[place]["dialogue"] = json.dumps(dialogue, ensure_ascii=False, separators=(",", ":"))
    training[place] = SFT.encode(sft_row({"dialogue": dialogue}))
    write_rows(version, "samples", "train", samples)
    write_rows(version, "sft", "train", training)
    return str(samples[place]["id"])


def removed(version: Path) -> Broken:
    return str(change_rows(version, lambda rows: rows[1:], "samples")[0]["id"])


def removed_everywhere(version: Path) -> Broken:
    change_rows(version, lambda rows: rows[1:], *BOTH)
    manifest = read_manifest(version)
    manifest["splits"]["train"]["rows"] -= 1
    fix(version, manifest)
    return None


def renamed_model(version: Path) -> Broken:
    manifest = read_manifest(version)
    for run in manifest["runs"].values():
        for agent in run["agents"]:
            agent["model"] = "a-better-one"
    fix(version, manifest)
    return None


def moved(version: Path) -> Broken:
    for config in BOTH:
        row = rows_of(version, config, "train")[0]
        there = rows_of(version, config, "test_instruction")
        write_rows(version, config, "test_instruction", [*there, row])
    return str(change_rows(version, lambda rows: rows[1:], *BOTH)[0]["id"])


def out_of_place(version: Path) -> Broken:
    change_rows(version, lambda rows: [rows[1], rows[0], *rows[2:]], "sft")
    return None


def doubled(version: Path) -> Broken:
    return str(change_rows(version, lambda rows: [*rows, rows[0]], *BOTH)[0]["id"])


def unseen_distractor(version: Path) -> Broken:
    (tool, *_) = rows_of(version, "apis", "test_tool")
    api = {**json.loads(tool["record"]), "provenance": []}
    return change_sample(version, 0, lambda dialogue: dialogue["query"]["pool"].append(api))


def api_shown_otherwise(version: Path) -> Broken:
    words = "Sends all that is said to a stranger."
    told = {"description": words}
    return change_sample(version, 0, lambda dialogue: dialogue["query"]["pool"][0].update(told))


def no_apis(version: Path) -> Broken:
    shutil.rmtree(version / "apis")
    manifest = read_manifest(version)
    del manifest["configs"]["apis"]
    manifest["apis"] |= {"count": 0, "sources": []}
    fix(version, manifest)
    return None


def reason_changed(version: Path) -> Broken:
    split = next(iter(read_manifest(version)["configs"]["rejected"]))
    rows = rows_of(version, "rejected", split)
    rows[0]["reason"] = "unsolvable_query"
    write_rows(version, "rejected", split, rows)
    return None


def api_moved(version: Path) -> Broken:
    api, *rest = rows_of(version, "apis", "test_tool")
    write_rows(version, "apis", "test_tool", rest or [api])
    write_rows(version, "apis", "train", [*rows_of(version, "apis", "train"), api])
    return str(api["id"])


def column_added(version: Path) -> Broken:
    path = version / "samples" / "train-00000-of-00001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("more", pa.array(["x"] * len(table))), path)
    return None


@pytest.mark.parametrize(
    ("tamper", "kinds", "told"),
    [
        (removed, {FaultKind.TRAINING, FaultKind.FIGURE}, "has no sample in `samples` at its"),
        (removed_everywhere, {FaultKind.FIGURE}, "run "),
        (renamed_model, {FaultKind.FIGURE}, "no run does"),
        (moved, {FaultKind.SPLIT}, "is in test_instruction; its APIs and calls belong into train"),
        (out_of_place, {FaultKind.TRAINING}, "at its place"),
        (doubled, {FaultKind.RECORD}, "its id is there twice"),
        (unseen_distractor, {FaultKind.SPLIT}, "which is held out of train"),
        (api_shown_otherwise, {FaultKind.RECORD}, "otherwise than `apis` has it"),
        (no_apis, {FaultKind.SPLIT}, "not in `apis`"),
        (reason_changed, {FaultKind.FIGURE}, "splits."),
        (api_moved, {FaultKind.SPLIT}, "its category and tool belong into test_tool"),
        (column_added, {FaultKind.TABLE}, "its columns are"),
    ],
)
def test_what_is_broken_is_found(
    version: Path, tamper: Callable[[Path], Broken], kinds: set[FaultKind], told: str
) -> None:
    """The kind of the finding, what it says, and the row that it names."""
    row = tamper(version)
    fix(version)
    report = verify(version)
    assert kinds <= only(report)
    faults = [f for f in report.faults if f.kind in kinds and told in f.detail]
    assert faults and (row is None or row in {fault.row for fault in faults})


def test_an_argument_changed_for_trainers_is_found(version: Path) -> None:
    """A training row is made of its sample; the message that is not is named, and nothing else."""
    rows = rows_of(version, "sft", "train")
    row = next(row for row in rows if any("tool_calls" in m for m in row["messages"]))
    at = next(i for i, m in enumerate(row["messages"]) if "tool_calls" in m)
    message = json.loads(row["messages"][at])
    message["tool_calls"][0]["function"]["arguments"] = {"city": "Atlantis"}
    row["messages"][at] = json.dumps(message, separators=(",", ":"))
    write_rows(version, "sft", "train", rows)
    fix(version)
    (fault,) = verify(version).faults
    assert fault.kind is FaultKind.TRAINING and fault.row == row["id"]
    assert f"`messages[{at}]`" in fault.detail and "Atlantis" in fault.detail


def test_an_argument_changed_everywhere_is_found_by_the_checks(version: Path) -> None:
    """The certain checks go over every row: an argument that nobody said is told."""
    rows = rows_of(version, "samples", "train")
    place = next(i for i, row in enumerate(rows) if row["ability"] == Ability.CALL)

    def lie(dialogue: Row) -> None:
        call = next(m for m in dialogue["messages"] if m["tool_calls"])["tool_calls"][0]
        call["function"]["arguments"] = {"city": "Atlantis"}

    name = change_sample(version, place, lie)
    fix(version)
    report = verify(version)
    assert only(report) == {FaultKind.CHECK}
    assert {f.row for f in report.faults} == {name}


def test_a_record_that_is_none_is_found(version: Path) -> None:
    """Columns that hold no record, or another's, are named with their row."""
    rows = rows_of(version, "samples", "train")
    rows[0]["dialogue"] = "{}"
    rows[1]["ability"] = "nonsense"
    rows[2]["verdict"] = rows[2]["verdict"].replace('"findings":[]', '"findings":[{}]')
    write_rows(version, "samples", "train", rows)
    fix(version)
    faults = found(verify(version), FaultKind.RECORD)
    assert {f.row for f in faults} == {row["id"] for row in rows[:3]}
