"""Nothing that Prefect keeps holds a secret."""

from __future__ import annotations

import logging

import pytest

from toolloom.pipeline.orchestration.artifacts import Hiding, hidden
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.schemas import EndpointDown

KEY = "sesame-0123456789"


@pytest.fixture(autouse=True)
def known() -> None:
    SECRETS.learn([KEY])


def test_an_error_that_holds_a_secret_is_raised_without_it() -> None:
    """What a user can act on keeps its kind; no traceback leads to the first one."""
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
    ("error", "told"),
    [
        (ValueError(KEY), "Traceback"),
        (EndpointDown("nobody answers"), "failed: EndpointDown('nobody answers')"),
    ],
    ids=["a fault has its traceback", "what a user can act on says what to do, and has none"],
)
def test_log_records_hold_no_secret(error: Exception, told: str) -> None:
    """Neither the message nor the traceback."""
    try:
        raise error
    except type(error) as raised:
        info = (type(raised), raised, raised.__traceback__)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed: %r", (error,), info)
    assert Hiding().filter(record)
    text = logging.Formatter().format(record)
    assert told in text and KEY not in text
    assert ("Traceback" in text) is isinstance(error, ValueError)
