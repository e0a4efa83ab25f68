"""What Prefect's page shows of a run; and that nothing that Prefect keeps holds a secret: log
records, and errors, which become states.

Its parameters are kept as they are typed; so recipes are named by their path.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prefect.artifacts import acreate_markdown_artifact
from prefect.logging import get_run_logger

from toolloom.llm.messages import LOG, note
from toolloom.pipeline.pages.sections import summary_sections
from toolloom.pipeline.render.section import cell, markdown
from toolloom.pipeline.run import Made
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import NothingFound, ToolloomError

MOST_REASONS = 3  # that a message names


def ended(made: Made, outputs: Path) -> str:
    """What a finished run came to, as one line: the message of its flow run's state."""
    counts, run = made.summary.counts, RunFolder(Path(made.summary.path))
    if made.published is not None:
        rows = "rows more" if run.recipe.regenerate else "rows"
        first = "" if run.recipe.regenerate else "its first "
        return f"{made.published.label}: {first}{counts.made:,} {rows}"
    try:
        version = find_version(outputs, run.recipe.name)
        stays = f"{version.name} stays at {version.number}"
    except NothingFound:
        stays = f"{run.recipe.name} has no version yet"
    reasons = [f"{n:,} {reason}" for reason, n in counts.reasons.items()][:MOST_REASONS]
    why = f"{counts.rejected:,} records were rejected ({', '.join(reasons)})"
    return f"{stays}: nothing was accepted, {why if reasons else 'none was drawn'}."


async def publish_summary(dataset: str, message: str, made: Made) -> None:
    """Put the summary of a finished run on its page. Those of a dataset are versions of one."""
    try:
        await acreate_markdown_artifact(
            SECRETS.hide(summary(message, made)), f"toolloom-{dataset}", SECRETS.hide(message)
        )
    except Exception as error:  # noqa: BLE001 - of any library on the way to it
        note(logging.WARNING, "page", f"the summary cannot be put on the page: {error!r}")


def summary(message: str, made: Made) -> str:
    """What a finished run came to, as Markdown."""
    parts = [f"# {cell(message)}"]
    if published := made.published:
        link = published.path.absolute().as_uri()
        parts.append(f"Dataset version [{cell(published.label)}](<{link}>). Load it with:")
        parts.append(f"    import datasets\n    {published.load_line}")
    return "\n\n".join([*parts, markdown(summary_sections(made.summary))])


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
