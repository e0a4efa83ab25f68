from __future__ import annotations

from pathlib import Path

from support import toys

from toolloom.pipeline.pages.rejections.controls import FILTERS, Controls
from toolloom.pipeline.pages.rejections.inspection import Inspection, open_dataset
from toolloom.pipeline.run import make_dataset


async def opened(outputs: Path) -> Inspection:
    await make_dataset(toys.recipe(), outputs=outputs, stages=toys.STAGES)
    return open_dataset(outputs, curator="anna")


def panel(data: Inspection, **filters: str) -> Controls:
    return Controls(data.viewer(**filters), data)


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
    """What the notebook counts by can be looked at: reason, agent, model, ability and so on."""
    assert {"reason", "agent", "model", "ability", "category", "prompt"} <= {*FILTERS}
    data = await opened(tmp_path)
    controls = panel(data)
    filters = {box.description: box for box in controls.box.children[0].children}
    for column in FILTERS:
        labels = [label for label, _ in filters[column].options]
        assert labels[1:] == [f"{k} ({n})" for k, n in data.table(column)["records"].items()]
