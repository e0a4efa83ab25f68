from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import finished_runs, toys
from support.finished_runs import more
from support.screen import shown

from toolloom.pipeline.dataset.configs import SAMPLES
from toolloom.pipeline.dataset.diff import SplitDiff, compare
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.growth import plan_regeneration
from toolloom.pipeline.pages.dialogue import examples_view
from toolloom.pipeline.pages.sections import diff_sections
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.store.parquet import VersionWriter
from toolloom.pipeline.store.version import Version, versions
from toolloom.schemas import Granularity, Sample, StoreError

ALL_SEEN = {"validation": 0, "test_instruction": 0, "test_tool": 0, "test_category": 0}


def version(outputs: Path, seed: int, *samples: Sample) -> Version:
    """A version that holds these rows in `train`."""
    run = finished_runs.finished_run(outputs, [*samples], seed=seed, splits=ALL_SEEN)
    return publish(run, outputs)


def row(number: int, answer: str = "It is 7 °C.", **changes: Any) -> Sample:
    return toys.sample(toys.query(number, **changes), answer=answer)


def test_rows_are_matched_by_id_and_by_content(tmp_path: Path) -> None:
    """Same, changed, removed, added; and the same words under another id."""
    one = version(tmp_path, 0, *(row(i) for i in range(5)))
    moved = row(3, id="q77")
    two = version(tmp_path, 1, row(0), row(1, "It is cold."), row(2), moved, row(8), row(9))
    (rows,) = compare(one, two).rows
    counts = {"same": 2, "renamed": 1, "changed": 1, "removed": 1, "added": 2}
    assert rows == SplitDiff(split="train", before=5, after=6, **counts)
    back = compare(two, one).rows[0]
    assert (back.added, back.removed, back.changed, back.renamed) == (1, 2, 1, 1)


def test_who_made_a_row_is_no_difference(tmp_path: Path) -> None:
    """Only words, calls and APIs are compared."""
    other = row(0).model_copy(update={"provenance": (toys.share("tested", "q9"),)})
    made = compare(version(tmp_path, 0, row(0), row(1)), version(tmp_path, 1, other, row(1)))
    assert made.rows[0].same == 2


def test_examples_show_both_sides(tmp_path: Path) -> None:
    """As many of each kind as are asked for."""
    one = version(tmp_path, 0, *(row(i) for i in range(6)))
    two = version(tmp_path, 1, row(0, "Cold."), row(1, "Cold."), row(2), row(8), row(9))
    made = compare(one, two, keep=1)
    examples = [(e.kind, e.id, e.before is None, e.after is None) for e in made.examples]
    assert examples == [
        ("added", "q8", True, False),
        ("removed", "q3", False, True),
        ("changed", "q0", False, False),
    ]
    assert len(compare(one, two, keep=9).examples) == 2 + 3 + 2
    assert compare(one, two, keep=0).examples == ()
    told = shown(diff_sections(made), *examples_view(made.examples))
    assert "changed in train: q0" in told and "It is 7 °C." in told and "Cold." in told


async def test_untouched_splits_are_not_read(tmp_path: Path) -> None:
    """Equal hashes are equal rows: also where a file is not there to be read."""
    recipe = toys.recipe(queries={"count": 40}, splits={"unseen": ["c1"]})
    await make_dataset(recipe, outputs=tmp_path, stages=toys.SPLIT_STAGES)
    again = plan_regeneration(tmp_path, "toy", "test_category")
    await make_dataset(again, outputs=tmp_path, stages=toys.SPLIT_STAGES)
    one, two = versions(tmp_path / "datasets" / "toy")
    for path in two.files("samples", "train"):
        path.unlink()
    made = {rows.split: rows for rows in compare(one, two).rows}
    assert made["train"].same == made["train"].after > 0
    assert made["test_category"].added == made["test_category"].after > 0


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    """What is no JSON, and what is no sample."""
    one = version(tmp_path, 0, row(0))
    for bad in ({"dialogue": "{"}, {"dialogue": '{"query": {}, "messages": []}'}):
        two = version(tmp_path, 1, row(1))
        (made,) = SAMPLES.row.of(row(1).model_dump(mode="json"))
        damaged = {**made, **bad}
        with VersionWriter(tmp_path / "bad") as tables:
            tables.add(SAMPLES, "train", damaged)
            tables.finish()
        (path,) = (tmp_path / "bad").rglob("*.parquet")
        path.replace(two.files("samples", "train")[0])
        with pytest.raises(StoreError, match="the row q1 is damaged"):
            compare(one, two)


def first(outputs: Path) -> Version:
    return publish(finished_runs.run(outputs, toys.recipe(), [toys.sample()]), outputs)


def test_instructions_are_matched_by_id(tmp_path: Path) -> None:
    """Same, changed, removed and added, in numbers."""
    base, levels = first(tmp_path), finished_runs.levels()
    api = finished_runs.instruction(Granularity.API, text="Another request.")
    one = more(tmp_path, base, 1, instructions=[*levels[:3], api])
    two = more(tmp_path, base, 2, instructions=[*levels[:2], *levels[3:]])
    [split] = compare(one, two).instructions
    counts = {"same": 2, "changed": 1, "removed": 1, "added": 1}
    assert split == SplitDiff(split="train", before=4, after=4, **counts)
