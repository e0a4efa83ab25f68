"""What the notebook opens: the viewer, its controls, its charts and its copy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import toys

from toolloom.pipeline.pages.inspection import (
    FILTERS,
    Controls,
    Inspection,
    intervals,
    newest_dataset,
    open_dataset,
    stacked,
)
from toolloom.pipeline.pages.judgements import Precision
from toolloom.pipeline.pages.notebooks import copy_notebook
from toolloom.pipeline.pages.report import MOST, chart
from toolloom.pipeline.render.html import Drawn
from toolloom.pipeline.render.section import Bar, Section
from toolloom.pipeline.run import make_dataset
from toolloom.schemas import NothingFound


async def opened(outputs: Path, **recipe: object) -> Inspection:
    await make_dataset(toys.recipe(**recipe), outputs=outputs, stages=toys.STAGES)
    return open_dataset(outputs, curator="anna")


async def test_filters_choose_what_is_shown(tmp_path: Path) -> None:
    """Values of columns, the curator's own marks and words all narrow what is shown."""
    data = await opened(tmp_path)
    viewer = data.viewer(stage="tested")
    assert {row.id for row in viewer.rows} == {"q5", "q15"}
    viewer.mark(True, " why ")
    assert viewer.mine and viewer.mine.note == "why"
    assert len(viewer.filter(marked="agree").rows) == 1
    assert len(viewer.filter(marked="not marked").rows) == 4
    assert [row.id for row in viewer.filter(text="ZÜRICH? (13)").rows] == ["q13"]
    with pytest.raises(NothingFound, match="Known are: split, stage"):
        viewer.filter(colour="red")


async def test_steps_go_round(tmp_path: Path) -> None:
    """After the last record comes the first; the order is the same each time."""
    data = await opened(tmp_path)
    viewer = data.viewer()
    order = [viewer.step(1).row for _ in range(5)]
    assert viewer.position == "1 of 5"
    assert viewer.step(-1).position == "5 of 5"
    assert len({row.id for row in order if row}) == 5
    assert data.viewer().rows == viewer.rows


async def test_a_record_is_shown_beside_accepted_ones(tmp_path: Path) -> None:
    """The page has the rejected dialogue, its neighbours, and raw responses when asked for."""
    viewer = (await opened(tmp_path)).viewer(stage="tested")
    page = viewer.html()
    assert page.count("<article") == 2  # the toys are all alike: one is enough
    assert page.index("Rejected (1 of 2)") < page.index("Accepted: calls the same API")
    assert "raw response" not in page
    viewer.raw, viewer.show_neighbours = True, False
    assert "raw response" in viewer.html()
    assert viewer.html().count("<article") == 1


async def test_no_record_can_be_marked_where_none_is_shown(tmp_path: Path) -> None:
    """The viewer says that nothing fits, and keeps no mark."""
    viewer = (await opened(tmp_path)).viewer(text="nobody said this")
    assert (viewer.row, viewer.position) == (None, "No rejected record fits.")
    with pytest.raises(NothingFound, match="No record is shown"):
        viewer.mark(True)


async def test_the_newest_dataset_is_opened(tmp_path: Path) -> None:
    """Without a name it is the dataset whose version was published last."""
    with pytest.raises(NothingFound, match="`toolloom run RECIPE` makes one"):
        newest_dataset(tmp_path)
    await opened(tmp_path)
    assert (await opened(tmp_path, name="later")).version.name == "later"


async def test_the_tester_is_held_against_api_bank(tmp_path: Path) -> None:
    """The sentence tells the share, its interval and where 78 % lies; damage is told too."""
    data = await opened(tmp_path)
    assert data.against_api_bank().startswith("Nothing that the tester rejected is judged yet")
    viewer = data.viewer(agent="tester")
    while data.precisions(agent="tester")[0].judged < len(viewer.rows):
        viewer.mark(False)
        viewer.step(1)
    with data.judgements.path.open("a") as file:
        file.write('{"key": "half')
    told = data.against_api_bank()
    assert "5 judged rejections of the tester 0 are right: 0%" in told
    assert "to 43%. API-Bank's 78% lies above that. 1 damaged lines" in told


def panel(data: Inspection, **filters: str) -> Controls:
    return Controls(data.viewer(**filters))


def said(controls: Controls) -> str:
    return str(controls.box.children[2].children[-1].value)


def page(controls: Controls) -> str:
    return str(controls.box.children[-1].value)


async def test_a_note_stays_while_one_looks_closer(tmp_path: Path) -> None:
    """Raw responses and neighbours belong to the same record; only another one clears the note."""
    controls = panel(await opened(tmp_path))
    controls.note.value = "half a thought"
    for box in controls.box.children[1].children[-2:]:
        box.value = not box.value
    assert "raw response" in page(controls)
    assert controls.note.value == "half a thought"
    controls.buttons["next"].click()
    assert controls.note.value == ""


async def test_a_record_that_cannot_be_read_cannot_be_marked(tmp_path: Path) -> None:
    """The one before it does not stay on the screen, where a mark would seem to be its."""
    data = await opened(tmp_path)
    controls = panel(data, stage="tested")
    [file] = data.version.files("rejected", "train")
    file.write_bytes(b"")
    controls.buttons["next"].click()
    assert page(controls) == ""
    assert "is damaged" in said(controls)
    controls.buttons["agree"].click()
    assert "No record is shown" in said(controls)
    assert not data.judgements.path.exists()


async def test_what_is_said_is_no_markup_and_no_formula(tmp_path: Path) -> None:
    """An id is a model's words where it names an API."""
    data = await opened(tmp_path)
    data.rows = [data.rows[0].model_copy(update={"id": "<b>$x^2$"})]
    controls = panel(data)
    controls.buttons["agree"].click()
    assert "Kept: agree (&lt;b&gt;$x^2$)." in said(controls)
    assert "mathjax_ignore" in said(controls)


async def test_there_is_a_filter_for_each_table(tmp_path: Path) -> None:
    """What the notebook counts by can be looked at: reason, agent, model, ability and so on. What
    stands between the dollar signs of two prices is no formula in its tables."""
    assert {"reason", "agent", "model", "ability", "category", "prompt"} <= {*FILTERS}
    data = await opened(tmp_path)
    controls = panel(data)
    filters = {box.description: box for box in controls.box.children[0].children}
    for column in FILTERS:
        labels = [label for label, _ in filters[column].options]
        assert labels[1:] == [f"{k} ({n})" for k, n in data.table(column)["records"].items()]
    assert "mathjax_ignore" in data.records()._repr_html_()


ODD = {"$x_{": 3, "_hidden": 2, "日本語": 1, "<b>\u202e": 1, "x" * 300: 1}


@pytest.mark.parametrize(
    "section",
    [
        chart("By category", ODD, 8),
        stacked("By version", {"1.0.0": ODD, "1.1.0": {}}),
        intervals(
            "Right", [Precision(group=k, rejected=9, judged=v, agreed=1) for k, v in ODD.items()]
        ),
        chart("Nothing", {}, 0),
        stacked("Nothing", {}),
        intervals("Nothing", []),
    ],
    ids=lambda section: section.title,
)
def test_any_labels_can_be_drawn(section: Section) -> None:
    """Formulas, markup, foreign letters and nothing at all make a chart, and are no markup."""
    html = Drawn(section)._repr_html_()
    assert html.count("<tr>") == max(1, len(section.rows))
    assert "mathjax_ignore" in html
    assert "<b>" not in html and "\u202e" not in html
    assert repr(Drawn(section)).startswith(section.title)


def test_what_has_no_bar_of_its_own_is_added_up() -> None:
    """The parts of a chart add up to all records, however many values there are."""
    many = {f"v{n:03}": 1 for n in range(100)}
    assert chart("Many", many, 100).note == f"And {100 - MOST} more, with {100 - MOST}."
    [(_, bar, number)] = stacked("Many", {"1.0.0": many}).rows
    assert isinstance(bar, Bar)
    assert (sum([amount for _, amount in bar.parts]), number) == (100, "100")


def test_a_copy_is_made_and_never_written_to_again(tmp_path: Path) -> None:
    """The first start makes it; outputs and edits of its user stay, whatever he made of it."""
    path, is_new = copy_notebook(tmp_path)
    assert is_new
    assert json.loads(path.read_bytes())["cells"]
    path.write_bytes(b"mine")
    assert copy_notebook(tmp_path) == (path, False)
    assert path.read_bytes() == b"mine"
