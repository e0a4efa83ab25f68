"""How far templates reach: APIs, templates by kind, and what was refused."""

from __future__ import annotations

import io

from rich.console import Console
from support import mined_dataset, toys
from support.mined_dataset import HOTELS, TABLE

from toolloom.pipeline.dataset.report import TemplateCoverage, offered
from toolloom.pipeline.pages.sections import coverage_sections
from toolloom.pipeline.render.terminal import view
from toolloom.pipeline.templates.mining.mining import mine
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.schemas import Expansion, Reason, Rejected, Split

ROW = mined_dataset.sample(
    "Find me a hotel in Lisbon for 3 nights.",
    (HOTELS, {"city": "Lisbon", "nights": 3}, {"hotel": "Casa Azul", "price": 80.25}),
    "Casa Azul in Lisbon costs 80.25.",
)
FALLEN = mined_dataset.sample("Where is it?", "I cannot say.", scenario="irrelevance")


def told() -> TemplateCoverage:
    template = mined_dataset.template(ROW)
    refused = mine(FALLEN, SeenValues())
    assert isinstance(refused, Rejected)
    rows = ((0,) * len(template.choices), (1,) * len(template.choices))
    expansion = Expansion(
        id="e", template=template, split=Split.TRAIN, first=0, rows=rows, inspected=0
    )
    return TemplateCoverage.of([HOTELS.id, TABLE.id], [template], [refused], [expansion])


def test_apis_are_counted_by_kind() -> None:
    """An API has a template if its calls go there; the others are named."""
    found = told()
    assert (found.apis, found.covered, found.without) == (2, 1, (TABLE.id,))
    assert found.kinds == {"mined": 1, "written": 0, "asked": 0}


def test_samples_become_templates_become_rows() -> None:
    """What was looked at, what was made, and why the rest was not."""
    found = told()
    assert (found.samples, found.templates["mined"], found.rows) == (2, 1, 2)
    assert found.refused == {Reason.NOTHING_TO_VARY.value: 1}
    assert found.kept == {Reason.NOTHING_TO_VARY.value: 1}


def test_only_apis_of_wanted_splits_are_offered() -> None:
    """A held-out API cannot be called in the splits that get rows."""
    apis = [HOTELS.model_dump(mode="json")]
    unseen = {**toys.ALL_IN_TRAIN, "unseen": ["travel"]}
    assert list(offered(toys.recipe(expand={}), apis)) == [HOTELS.id]
    assert not list(offered(toys.recipe(expand={}, splits=unseen), apis))


def test_view_names_what_has_no_template() -> None:
    """A person sees the figures and the names."""
    console = Console(file=io.StringIO(), width=100)
    console.print(view(coverage_sections(told())))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert TABLE.id in shown
    assert "2 samples looked at, 2 rows made." in shown
