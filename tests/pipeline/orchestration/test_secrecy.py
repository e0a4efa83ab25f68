"""Nothing that Prefect keeps holds a secret."""

from __future__ import annotations

import logging

import pytest

from toolloom.pipeline.orchestration.secrecy import Hiding, hidden
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.schemas import EndpointDown

KEY = "sesame-0123456789"


@pytest.fixture(autouse=True)
def known() -> None:
    SECRETS.learn([KEY])


def record(error: Exception) -> logging.LogRecord:
    """A record with a traceback, after the filter."""
    try:
        raise error
    except type(error) as raised:
        info = (type(raised), raised, raised.__traceback__)
    made = logging.LogRecord("x", logging.ERROR, __file__, 1, "failed: %r", (error,), info)
    assert Hiding().filter(made)
    return made


def test_an_error_that_holds_a_secret_is_raised_without_it() -> None:
    """What a user can act on keeps its kind; no traceback leads to the first one."""
    with pytest.raises(EndpointDown, match=r"^\[key\] is refused$") as told, hidden():
        raise EndpointDown(f"{KEY} is refused")
    assert told.value.__suppress_context__
    with pytest.raises(RuntimeError, match=r"^ValueError: a \[key\]$"), hidden():
        raise ValueError(f"a {KEY}")


def test_other_errors_pass_as_they_are() -> None:
    """A fault of ours is seen whole."""
    fault = KeyError("a")
    with pytest.raises(KeyError) as told, hidden():
        raise fault
    assert told.value is fault


def test_log_records_hold_no_secret() -> None:
    """Neither the message nor the traceback."""
    text = logging.Formatter().format(record(ValueError(KEY)))
    assert KEY not in text
    assert "Traceback" in text


def test_what_a_user_can_act_on_has_no_traceback() -> None:
    """The message says what happened, where and what to do."""
    text = logging.Formatter().format(record(EndpointDown("nobody answers")))
    assert text == "failed: EndpointDown('nobody answers')"
