"""Versions of a dataset: how they are found and numbered, and what their splits hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import curation_rows, toys
from support.finished_runs import finished_run, published

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import (
    NothingFound,
    PublishError,
    Sample,
    Split,
    SplitPlan,
    StoreError,
)

NAMES = ["toy", "toy/1.0.0", "toy/latest", "toy/"]
PATHS = ["{outputs}/datasets/toy/1.0.0", "{outputs}/datasets/toy/latest"]


@pytest.mark.parametrize("name", NAMES + PATHS)
def test_a_dataset_is_found_by_what_people_type(tmp_path: Path, name: str) -> None:
    """By name, name and version, or path."""
    published(tmp_path, toys.sample())
    assert find_version(tmp_path, name.format(outputs=tmp_path)).label == "toy/1.0.0"


@pytest.mark.parametrize("name", ["tox", "toy/1.0.1", "", "../datasets/toy", "a\x00b", "a" * 5_000])
def test_a_dataset_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    """The error lists what there is."""
    published(tmp_path, toys.sample())
    with pytest.raises(NothingFound, match="toy/1.0.0"):
        find_version(tmp_path, name)


PLAN = {
    "train": 0.75,
    "test_instruction": 0.25,
    **dict.fromkeys(("validation", "test_tool", "test_category"), 0),
}


def in_split(split: Split, count: int) -> list[Sample]:
    """Samples that are in a split, of three quarters train and one quarter test."""
    names = [f"{split}{number}" for number in range(count)]
    return [curation_rows.in_split(split, n, f"Tell {n}.", SplitPlan(**PLAN)) for n in names]


@pytest.mark.parametrize(
    ("train", "test", "plan", "number"),
    [
        (3, 2, PLAN, "1.0.1"),  # nothing but the description
        (4, 2, PLAN, "1.1.0"),
        (3, 1, PLAN, "2.0.0"),
        (3, 0, PLAN, "2.0.0"),
        (3, 2, {**PLAN, "train": 0.7500001}, "2.0.0"),
    ],
)
def test_a_number_tells_what_changed(
    tmp_path: Path, train: int, test: int, plan: dict[str, float], number: str
) -> None:
    """The last part: no rows; the second: what is trained on; the first: a test or the plan."""
    seen, new = in_split(Split.TRAIN, 4), in_split(Split.TEST_INSTRUCTION, 2)
    first = publish(finished_run(tmp_path, [*seen[:3], *new], splits=PLAN), tmp_path)
    rows = [*seen[:train], *new[:test]]
    changes = {"splits": plan, "description": "another"}
    made = publish(finished_run(tmp_path, rows, **changes), tmp_path)
    assert (first.number, made.number) == ("1.0.0", number)
    assert made.manifest["parent"]["version"] == "1.0.0"
    assert (tmp_path / "datasets" / "toy" / "latest").readlink() == Path(number)


def test_a_row_that_shows_a_held_out_api_is_not_published(tmp_path: Path) -> None:
    """Not even as a distractor; the error names the row and the API."""
    shown = toys.query(pool=(toys.api(), toys.api("music")))
    plan = {**PLAN, "test_tool": 0.1, "unseen": ["music/station"]}
    with pytest.raises(PublishError, match="q0: is of the split .* shows music/station/current"):
        publish(finished_run(tmp_path, [toys.sample(shown)], splits=plan), tmp_path)
    assert not list((tmp_path / "datasets" / "toy").glob("[0-9.]*.*"))


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (4, r"a newer toolloom \(layout 4; this one reads 3\)\. Update toolloom"),
        (2, r"an older toolloom \(layout 2; this one reads 3\)\. Run its recipe again"),
    ],
)
def test_a_dataset_of_another_layout_is_refused(tmp_path: Path, layout: int, said: str) -> None:
    """It says so and what to do; a run makes none beside a newer one, and the next after an older."""
    made = published(tmp_path, toys.sample())
    manifest = {**made.manifest, "layout": layout}
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=said):
        find_version(tmp_path, "toy")
    run = finished_run(tmp_path, [toys.sample(toys.query(1))], seed=1)
    if layout < 3:
        assert publish(run, tmp_path).label == "toy/2.0.0"
        return
    with pytest.raises(StoreError, match=said):
        publish(run, tmp_path)
    assert sorted(p.name for p in made.path.parent.iterdir()) == [".lock", "1.0.0", "latest"]


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    """Reading it raises an error that says which file."""
    version = published(tmp_path, toys.sample())
    [file] = version.files("samples", "train")
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(StoreError, match=r"samples/train-00000-of-00001\.parquet: is damaged"):
        list(version.samples())


FILE = {"rows": 1, "sha256": "", "bytes": 1}


@pytest.mark.parametrize(
    ("field", "odd"),
    [
        ("name", "../elsewhere"),
        ("name", "/tmp/x"),
        ("version", "1.0.0/../../x"),
        ("configs", []),
        ("configs", {"sft": []}),
        ("configs", {"sft": {"train": {"rows": 1}}}),
        *(
            ("configs", {"sft": {"train": {"rows": 1, "files": {name: FILE}}}})
            for name in ("../other/x.parquet", "/etc/passwd", "samples/train.parquet")
        ),
    ],
)
def test_a_manifest_names_nothing_outside_its_version(tmp_path: Path, field: str, odd: Any) -> None:
    """Versions are copied between machines: a path that leads out of one is never followed, and
    who opens it is told what to do. Nor are reports and next versions written outside."""
    made = published(tmp_path, toys.sample())
    manifest = {**made.manifest, field: odd}
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=rf"is damaged \({field}.* Bring the file back"):
        find_version(tmp_path, "toy")
