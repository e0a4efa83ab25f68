from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import toys
from support.finished_runs import finished_run
from support.tampered import rows_of, write_rows

from toolloom.pipeline.dataset.diff import SplitDiff, compare
from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.store.version import Version
from toolloom.schemas import Sample, StoreError


def version(outputs: Path, seed: int, *samples: Sample) -> Version:
    """A version that holds these rows in `train`."""
    return publish(finished_run(outputs, [*samples], seed=seed), outputs)


def row(number: int, answer: str = "It is 7 °C.", **changes: Any) -> Sample:
    return toys.sample(toys.query(number, **changes), answer=answer)


def test_rows_are_matched_by_id_and_by_content(tmp_path: Path) -> None:
    """Same, changed, removed, added; and the same words under another id. Who made a row is no
    difference."""
    one = version(tmp_path, 0, *(row(i) for i in range(5)))
    moved = row(3, id="q77")
    other = row(0).model_copy(update={"provenance": (toys.share("tested", "q9"),)})
    two = version(tmp_path, 1, other, row(1, "It is cold."), row(2), moved, row(8), row(9))
    (rows,) = compare(one, two).rows
    counts = {"same": 2, "renamed": 1, "changed": 1, "removed": 1, "added": 2}
    assert rows == SplitDiff(split="train", before=5, after=6, **counts)
    back = compare(two, one).rows[0]
    assert (back.added, back.removed, back.changed, back.renamed) == (1, 2, 1, 1)


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    """What is no JSON, and what is no sample."""
    one = version(tmp_path, 0, row(0))
    two = version(tmp_path, 1, row(1))
    for bad in ("{", '{"query": {}, "messages": []}'):
        (damaged,) = rows_of(two.path, "samples", "train")
        write_rows(two.path, "samples", "train", [{**damaged, "dialogue": bad}])
        with pytest.raises(StoreError, match="the row q1 is damaged"):
            compare(one, two)
