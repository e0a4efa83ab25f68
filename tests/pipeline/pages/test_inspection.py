"""What the notebook opens: its table, its viewer with the marks, and its copy."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support import toys

from toolloom.pipeline.pages.inspection import (
    FILTERS,
    Inspection,
    Viewer,
    copy_notebook,
    newest_dataset,
    open_dataset,
    wilson,
)
from toolloom.pipeline.run import make_dataset
from toolloom.schemas import NothingFound


async def opened(outputs: Path, **recipe: object) -> Inspection:
    await make_dataset(toys.recipe(**recipe), outputs=outputs, stages=toys.STAGES)
    return open_dataset(outputs, curator="anna")


def press(viewer: Viewer, word: str) -> str:
    """Press the button with this word; what is said then."""
    next(button for name, button in viewer.buttons.items() if word in name).click()
    return str(viewer.said.value)


async def test_filters_choose_what_is_shown(tmp_path: Path) -> None:
    """Values of columns, words, and whether the curator has marked a record. A note stands where its
    curator kept it; before the first record comes the last."""
    viewer = Viewer(await opened(tmp_path))
    viewer.note.value = "why"
    press(viewer, "disagree")
    press(viewer, "next")
    assert (viewer.place.value, viewer.note.value) == ("2 of 5", "")
    press(viewer, "previous")
    assert viewer.note.value == "why"
    press(viewer, "previous")
    assert viewer.place.value == "5 of 5"
    press(viewer, "next")
    for column in FILTERS:
        labels = [label for label, _ in viewer.filters[column].options]
        counts = viewer.data.counts(column)
        assert labels[1:] == [f"{value} ({n})" for value, n in counts.items()]
    assert viewer.place.value == "1 of 5"
    viewer.filters["reason"].value = viewer.data.rows["reason"][0]
    assert len(viewer.rows) < 5
    viewer.filters["reason"].value = ""
    viewer.search.value = "ZÜRICH? (13)"
    assert [*viewer.rows["id"]] == ["q13"]
    assert "Kept: rightly rejected (q13)" in press(viewer, "agree")
    viewer.unmarked.value = True
    assert viewer.place.value == "No rejected record fits."
    assert "No record is shown" in press(viewer, "agree")


async def test_what_cannot_be_read_cannot_be_marked(tmp_path: Path) -> None:
    """The one before it does not stay on the screen, where a mark would seem to be its."""
    data = await opened(tmp_path)
    viewer = Viewer(data)
    for split in data.version.splits("rejected"):
        for file in data.version.files("rejected", split):
            file.write_bytes(b"")
    assert "is damaged" in press(viewer, "next")
    assert "No record is shown" in press(viewer, "agree")
    assert not data.marks_file.exists()


async def test_what_is_said_is_no_markup_and_no_formula(tmp_path: Path) -> None:
    """An id is a model's words where it names an API; so is a category in a table."""
    data = await opened(tmp_path)
    for name in ("id", "category"):
        data.rows[name] = "<b>$x^2$"
    said = press(Viewer(data), "agree")
    assert "(&lt;b&gt;$x^2$)" in said
    assert "mathjax_ignore" in said
    for html in (
        data.counts("category").to_frame().to_html(),
        data.precision("category").to_html(),
    ):
        assert "&lt;b&gt;$x^2$" in html
        assert "<b>$" not in html


async def test_most_curators_decide_and_the_last_mark_counts(tmp_path: Path) -> None:
    """A tie is not judged; a mark may be taken back; equal records count once."""
    data = await opened(tmp_path)
    row = data.rows.iloc[0]

    def judged() -> tuple[int, int]:
        table = data.precision("split")
        return table["judged"].sum(), table["rightly"].sum()

    def mark(curator: str, agrees: bool | None) -> None:
        Inspection(data.version, curator).mark(row, agrees, "«ü» \ud800 <b>\x1b")

    steps: list[Any] = [
        ("anna", False, 0),
        ("anna", True, 1),
        ("ben", False, None),
        ("cem", False, 0),
    ]
    for curator, agrees, rightly in (*steps, ("cem", None, None), ("ben", None, 1)):
        mark(curator, agrees)
        assert judged() == ((0, 0) if rightly is None else (1, rightly))
    assert len(data.marks_file.read_bytes().splitlines()) == 6  # nothing is ever removed
    assert "\x1b" not in data.marks_file.read_text()


async def test_two_curators_may_mark_at_once(tmp_path: Path) -> None:
    """No mark is lost."""
    data = await opened(tmp_path)
    rows = [data.rows.iloc[n] for n in range(5)]
    with ThreadPoolExecutor() as threads:
        for name in ("anna", "ben"):
            other = Inspection(data.version, name)
            for row in rows:
                threads.submit(other.mark, row, True)
    assert [*data.marks.groupby("key")["curator"].agg(set)] == [{"anna", "ben"}] * 5


def test_an_interval_is_honest_for_few_marks() -> None:
    """Figures of Brown, Cai and DasGupta (2001): 3 of 3 right is 44 % to 100 %."""
    assert [*wilson(1.0, 3).values()] == pytest.approx([0.4385, 1.0], abs=1e-4)


async def test_the_newest_dataset_is_opened(tmp_path: Path) -> None:
    """Without a name it is the dataset whose version was published last."""
    with pytest.raises(NothingFound, match="`toolloom run RECIPE` makes one"):
        newest_dataset(tmp_path)
    await opened(tmp_path)
    assert (await opened(tmp_path, name="later")).version.name == "later"


def test_a_copy_is_made_and_never_written_to_again(tmp_path: Path) -> None:
    """The first start makes it; outputs and edits of its user stay, whatever he made of it."""
    path, is_new = copy_notebook(tmp_path)
    assert is_new
    assert json.loads(path.read_bytes())["cells"]
    path.write_bytes(b"mine")
    assert copy_notebook(tmp_path) == (path, False)
    assert path.read_bytes() == b"mine"
