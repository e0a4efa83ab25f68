"""Nothing that Prefect keeps holds a secret: log records, and errors, which become states.

Its parameters are kept as they are typed; so recipes are named by their path.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.logging import get_run_logger

from toolloom.llm.messages import LOG
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.schemas import ToolloomError

KEPT = ("prefect.flow_runs", "prefect.task_runs")  # loggers whose records the server keeps


class Hiding(logging.Filter):
    """Strikes secrets out of each record, its traceback included.

    What a user can act on is told in its own words: it has no traceback at all.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = SECRETS.hide(record.getMessage()), ()
        if record.exc_info and not isinstance(record.exc_info[1], ToolloomError):
            record.exc_text = SECRETS.hide(logging.Formatter().formatException(record.exc_info))
        record.exc_info = None
        return True


def hide_in_logs() -> None:
    """For the rest of the process: Prefect tells of an error after the flow has ended."""
    for name in KEPT:
        logger = logging.getLogger(name)
        if not any(isinstance(known, Hiding) for known in logger.filters):
            logger.addFilter(Hiding())


@contextmanager
def hidden() -> Iterator[None]:
    """Errors that pass through hold no secret: another one is raised instead of one that does."""
    try:
        yield
    except Exception as error:
        text = SECRETS.hide(str(error))
        if text == str(error):
            raise
        if isinstance(error, ToolloomError):
            raise type(error)(text) from None
        raise RuntimeError(f"{type(error).__name__}: {text}") from None


class OnPage(logging.Handler):
    """Takes toolloom's own log to the page of the flow run."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._page = get_run_logger()

    def emit(self, record: logging.LogRecord) -> None:
        self._page.log(record.levelno, "%s", record.getMessage())


@contextmanager
def on_page() -> Iterator[None]:
    """While it lasts, what a run warns of is told on its page too."""
    handler, before = OnPage(), LOG.level
    LOG.addHandler(handler)
    LOG.setLevel(min(before or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)
