"""What the page is given, without a server."""

from __future__ import annotations

import pytest
from support import toys

from toolloom.pipeline.orchestration.artifacts import summary
from toolloom.pipeline.run import Made, run_recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return run_recipe(toys.recipe(), tmp_path_factory.mktemp("made"), stages=toys.STAGES)


def test_the_summary_tells_counts_reasons_and_how_to_load(made: Made) -> None:
    """Each stage and each reason is a row, and no cost is told without prices."""
    assert made.published
    text = summary("toy/1.0.0: its first 17 rows", made)
    assert "| tested | 17 | 2 |" in text
    assert "| value_not_mentioned | 2 |" in text
    assert made.published.load_line in text
    assert f"](<{made.published.path.as_uri()}>)" in text
    assert "$" not in text.replace("datasets.", "")


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
    assert f"| {shown} |" in text
    assert "<img" not in text.replace(r"\<img", "")
