"""What Prefect's page is given, without a server: what a run made, and never a secret."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support import toys

from toolloom.pipeline.orchestration.artifacts import Hiding, hidden, summary
from toolloom.pipeline.run import Made, run_recipe
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.schemas import EndpointDown

KEY = "sesame-0123456789"


def test_the_summary_tells_counts_reasons_and_how_to_load(tmp_path: Path) -> None:
    """Each stage and each reason is a row, and no cost is told without prices. Whatever stands in a
    message or the name of a stage is shown as it is."""
    made = run_recipe(toys.recipe(), tmp_path, stages=toys.STAGES)
    assert made.published
    text = summary("toy/1.0.0: its first 17 rows", made)
    assert "| tested | 17 | 2 |" in text
    assert "| value_not_mentioned | 2 |" in text
    assert made.published.load_line in text
    assert f"](<{made.published.path.as_uri()}>)" in text
    assert "$" not in text.replace("datasets.", "")
    hostile = "<img src=x> | [a](javascript:b)\n# c"
    counts = made.summary.counts
    stage = counts.stages[-1].model_copy(update={"name": hostile})
    counts = counts.model_copy(update={"stages": (*counts.stages[:-1], stage)})
    told = made.summary.model_copy(update={"counts": counts})
    text = summary(hostile, Made(told, made.published))
    shown = r"\<img src=x\> \| \[a\](javascript:b) # c"
    assert text.startswith(f"# {shown}\n")
    assert f"| {shown} |" in text
    assert "<img" not in text.replace(r"\<img", "")


def test_an_error_that_holds_a_secret_is_raised_without_it() -> None:
    """What a user can act on keeps its kind; no traceback leads to the first one."""
    SECRETS.learn([KEY])
    with pytest.raises(EndpointDown, match=r"^\[key\] is refused$") as told, hidden():
        raise EndpointDown(f"{KEY} is refused")
    assert told.value.__suppress_context__
    with pytest.raises(RuntimeError, match=r"^ValueError: a \[key\]$"), hidden():
        raise ValueError(f"a {KEY}")
    fault = KeyError("a")  # a fault of ours is seen whole
    with pytest.raises(KeyError) as seen, hidden():
        raise fault
    assert seen.value is fault


@pytest.mark.parametrize(
    ("error", "traceback"), [(ValueError(KEY), True), (EndpointDown("nobody answers"), False)]
)
def test_log_records_hold_no_secret(error: Exception, traceback: bool) -> None:
    """Neither the message nor the traceback, which is for our faults alone."""
    SECRETS.learn([KEY])
    try:
        raise error
    except type(error) as raised:
        info = (type(raised), raised, raised.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed: %r", (error,), info)
    assert Hiding().filter(record)
    text = logging.Formatter().format(record)
    assert text.startswith("failed: ") and KEY not in text
    assert ("Traceback" in text) is traceback
