from pathlib import Path

import pytest
from support import toys

from toolloom.pipeline.pages.rejections.inspection import Inspection, newest_dataset, open_dataset
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


async def test_prices_in_tables_are_no_formulas(tmp_path: Path) -> None:
    """Jupyter would set what stands between two dollar signs as mathematics."""
    data = await opened(tmp_path)
    assert "mathjax_ignore" in data.records()._repr_html_()
