from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import finished_runs, toys

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.pages.page import page
from toolloom.pipeline.pages.reading import INSTRUCTED, TEMPLATES, WRITTEN, read, rows_of
from toolloom.pipeline.store.version import Version, open_version
from toolloom.schemas import Reason, StoreError


def version(folder: Path, **kinds: Any) -> Version:
    samples = [toys.sample(toys.query(number)) for number in range(4)]
    return publish(finished_runs.run(folder, toys.recipe(), samples, **kinds), folder).version


def whole(folder: Path) -> Version:
    fallen = [toys.rejected(toys.sample(), "rewritten", Reason.OFF_PATH)]
    kinds: Any = {"expansions": [finished_runs.expansion()], "instructions": finished_runs.levels()}
    return version(folder, rejected=fallen, **kinds)


def test_all_rows_are_counted(tmp_path: Path) -> None:
    """Those that agents wrote and those of templates, what fell, instructions, APIs."""
    made, ticks = whole(tmp_path), [0]
    seen = read(made, lambda: ticks.append(1))
    assert (seen.all.rows, seen.expanded) == (7, 3)
    assert dict(seen.fallen) == {("off_path", "rewritten"): 1}
    assert seen.levels.total() == 5
    assert {*seen.apis.values()} == {"weather"}
    assert {name: draw.seen for name, draw in seen.requests.items()} == {
        WRITTEN: 4,
        TEMPLATES: 3,
        INSTRUCTED: 5,
    }
    assert sum(ticks) == rows_of(made)


def test_lengths_are_measured(tmp_path: Path) -> None:
    """A toy sample has a turn, four messages, and a request of seven words."""
    lengths = read(version(tmp_path)).lengths
    assert dict(lengths["words of the request"]) == {7: 4}
    assert dict(lengths["turns of the user"]) == {1: 4}
    assert dict(lengths["messages"]) == {4: 4}
    # 35 bytes are asked, 61 called, 43 observed, 12 answered; a token is about four of them.
    assert dict(lengths["tokens of the dialogue"]) == {37: 4}


def test_figures_that_the_rows_do_not_have_are_an_error(tmp_path: Path) -> None:
    """A report that contradicts the card would be worse than none."""
    made = whole(tmp_path)
    manifest = json.loads((made.path / "manifest.json").read_text())
    manifest["splits"]["train"]["abilities"]["call"] += 1
    (made.path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match="`abilities` of train is not what the rows have"):
        read(open_version(made.path))


def test_a_damaged_row_is_named(tmp_path: Path) -> None:
    """And the command that tells more."""
    made = whole(tmp_path)
    [path] = made.files("samples", "train")
    table = pq.read_table(path)
    texts = ["{}", *table.column("dialogue").to_pylist()[1:]]
    place = table.schema.get_field_index("dialogue")
    pq.write_table(table.set_column(place, "dialogue", pa.array(texts)), path)
    with pytest.raises(StoreError, match="row q0 is damaged .*toolloom verify toy/1.0.0"):
        read(made)


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("splits", 3),
        ("splits", {"train": [1]}),
        ("runs", {"x": {"recipe": [1]}}),
        ("apis", 3.5),
    ],
)
def test_a_damaged_manifest_is_told(tmp_path: Path, key: str, odd: object) -> None:
    """Of whatever shape it is, there is a message with its name."""
    made = whole(tmp_path)
    made.manifest[key] = odd
    with pytest.raises(StoreError, match="manifest.json: .*damaged"):
        page(made, read(made))


def test_rows_that_cannot_be_counted_are_told(tmp_path: Path) -> None:
    """Before anything is read, as the command counts them for its progress."""
    made = whole(tmp_path)
    made.manifest["configs"]["samples"]["train"]["rows"] = None
    with pytest.raises(StoreError, match="manifest.json: is damaged"):
        rows_of(made)


def test_a_row_without_a_reason_is_told(tmp_path: Path) -> None:
    """What is counted by is never empty."""
    made = whole(tmp_path)
    [path] = made.files("rejected", "train")
    table = pq.read_table(path)
    lost = pa.nulls(len(table), pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index("reason"), "reason", lost), path)
    with pytest.raises(StoreError, match="is damaged .*`reason` is no text"):
        read(made)
