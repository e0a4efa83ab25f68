"""What the page is given, without a server."""

from __future__ import annotations

import pytest
from support import toys

from toolloom.pipeline.orchestration.artifacts import described, percent, summary
from toolloom.pipeline.progress import StageFigures
from toolloom.pipeline.run import Made, run_recipe


def figures(name: str, done: int, total: int | None, asks: bool = True) -> StageFigures:
    return StageFigures(name, lambda coming: total, asks, done=done, total=total)


def test_progress_is_the_mean_of_stages_that_ask() -> None:
    """What compares rows takes no time; what is not forecast yet has not begun."""
    stages = [figures("a", 5, 10), figures("b", 0, None), figures("sifted", 9, 9, asks=False)]
    assert percent(stages) == 25.0
    assert percent([]) == 0.0


def test_a_card_begins_with_the_counters() -> None:
    """The page's card of an artifact shows the first line of its description alone."""
    lines = described([figures("queries", 5, 10)], {"seconds": 3.0}).splitlines()
    assert lines[0] == "3 s"
    assert lines[-1].startswith("- queries: 0 accepted, 0 rejected (5 of ")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return run_recipe(toys.recipe(), tmp_path_factory.mktemp("made"), stages=toys.STAGES)


def test_the_summary_tells_counts_reasons_and_how_to_load(made: Made) -> None:
    """Each stage and each reason is a row."""
    assert made.published
    text = summary("toy/1.0.0: its first 17 rows", made)
    assert "| tested | tester | 17 | 2 | 38 |" in text
    assert "| value_not_mentioned | 2 |" in text
    assert made.published.load_line in text
    assert f"](<{made.published.path.as_uri()}>)" in text
    assert "$" not in text.replace("datasets.", "")  # no prices, no cost


def test_the_summary_tells_the_cost(made: Made) -> None:
    """Where the recipe has prices; and whose cost is not in it."""
    priced = {"priced": True, "unpriced": ("a|b",)}
    told = made.summary.model_copy(
        update={"counts": made.summary.counts.model_copy(update=priced), "cost": 1.5}
    )
    text = summary("toy", Made(told, made.published))
    assert "| Cost |" in text
    assert "| $1.50 |" in text
    assert r"The cost lacks that of a\|b:" in text


def test_text_cannot_break_out_of_the_summary(made: Made) -> None:
    """Whatever stands in a message or the name of a stage is shown as it is."""
    counts = made.summary.counts
    hostile = "<img src=x> | [a](javascript:b)\n# c"
    stage = counts.stages[-1].model_copy(update={"name": hostile})
    changed = counts.model_copy(update={"stages": (*counts.stages[:-1], stage)})
    told = made.summary.model_copy(update={"counts": changed})
    text = summary(hostile, Made(told, made.published))
    shown = r"\<img src=x\> \| \[a\](javascript:b) # c"
    assert text.startswith(f"# {shown}\n")
    assert f"| {shown} | tester |" in text
    assert "<img" not in text.replace(r"\<img", "")
