"""Prefect's server: a deployment of the flow `grow`, served by this process; what the page of a run
shows; and the API that a single run records itself with, where no server is set.

Nothing that Prefect keeps holds a secret: log records, and errors, which become states. Parameters
are kept as they are typed; so recipes are named by their path.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

from prefect import Flow, serve
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.schedules import CronSchedule
from prefect.logging import get_run_logger
from prefect.schedules import Cron
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from toolloom.llm.messages import LOG, note
from toolloom.pipeline.pages.sections import summary_sections
from toolloom.pipeline.render.section import cell, markdown
from toolloom.pipeline.run import Made
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.store.secrets import SECRETS
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import NothingFound, RecipeError, ToolloomError, first_error

MOST_REASONS = 3  # that a message names
NO_SERVER = """\
Prefect's server is not named. Start one, and say where it is:

  prefect server start
  export PREFECT_API_URL=http://127.0.0.1:4200/api"""
AGAIN = 5.0  # seconds until a server that is away is looked for once more
START_SECONDS = 120  # the first time the database is made
END_SECONDS = 5.0  # for what has not been recorded yet


def check_deployment(name: str, cron: str | None, timezone: str) -> None:
    """Raises RecipeError for a name, a zone or a schedule that is none."""
    if not name or set(name) & set("/%"):
        raise RecipeError(f"--name {name!r}: a deployment's name has no `/` and no `%`.")
    if timezone not in available_timezones():
        raise RecipeError(
            f"--timezone {timezone}: there is no such zone. One is `UTC`, another `Europe/Vienna`."
        )
    try:
        if cron is not None:
            CronSchedule(cron=cron, timezone=timezone)
            if (fields := len(cron.split())) > 5:  # a sixth would be seconds
                raise ValueError(f"it has {fields} fields")
    except ValueError as error:
        raise RecipeError(
            f"--cron {cron!r} is not a schedule ({_first_line(error)}). Five fields are minute, "
            'hour, day, month and weekday: "0 2 * * *" is every night at two.'
        ) from error


def serve_flow(
    flow: Flow[..., Any],
    name: str,
    parameters: dict[str, Any],
    cron: str | None,
    timezone: str,
    say: Callable[[str], None],
) -> None:
    """Register `grow/<name>`, whose runs get the parameters, and start its runs until Ctrl-C;
    Prefect pauses the schedule then.

    Raises RecipeError for what cannot be registered, and ToolloomError if no server answers at the
    start; one that goes away is waited for.
    """
    check_deployment(name, cron, timezone)
    asyncio.run(check_server())
    when = f"Start a run on its page or with `prefect deployment run grow/{name}`."
    if cron is not None:
        when = f'It runs at "{cron}" ({timezone}).'
    while True:
        say(f"Serving grow/{name}. {when} Ctrl-C ends this.")
        try:
            deployment: Any = flow.to_deployment(
                name,
                parameters=parameters,
                schedule=Cron(cron, timezone=timezone) if cron else None,
                description=flow.description,
                tags=["toolloom"],
                entrypoint_type=EntrypointType.MODULE_PATH,
            )
            return serve(deployment, print_starting_message=False)
        except Exception:  # of any library on the way to the server
            if asyncio.run(failure_of_api()) is None:
                raise
        say("Prefect's server does not answer. It is waited for.")
        while asyncio.run(failure_of_api()):
            time.sleep(AGAIN)


async def check_server() -> None:
    """Raises ToolloomError if no server is named, or the one that is does not answer."""
    url = PREFECT_API_URL.value()
    if not url:
        raise ToolloomError(NO_SERVER)
    if not url.startswith(("http://", "https://")):
        raise ToolloomError(
            f"PREFECT_API_URL is {url}, which is no server's address: it begins with http:// "
            "and ends with /api, as http://127.0.0.1:4200/api does."
        )
    if failure := await failure_of_api():
        raise ToolloomError(
            f"Prefect's server at {url} does not answer ({_first_line(failure)}). Start it with "
            "`prefect server start`, or set PREFECT_API_URL to one that runs."
        )


async def failure_of_api() -> Exception | None:
    """The error by which the server does not answer; None if it does."""
    async with get_client() as client:
        return await client.api_healthcheck()


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return first_error(error)
    return (str(error).splitlines() or [type(error).__name__])[0]


@contextmanager
def api() -> Iterator[None]:
    """Lets Prefect's clients in the block find an API: that of the server that is set, or one of
    this process. Raises RuntimeError if none starts."""
    if PREFECT_API_URL.value():
        yield
        return
    with temporary_settings({PREFECT_API_URL: _server_here()}):
        yield


@functools.cache
def _server_here() -> str:
    """The API of a server in a thread of this process, which is started once.

    Prefect's own would be a process that imports all of Prefect once more and stays behind where
    this one is killed. Its database is Prefect's usual one, so that `prefect server start` shows
    the run later.
    """
    import uvicorn
    from prefect.server.api.server import create_app

    app = create_app(ephemeral=True, final=True)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise RuntimeError("Prefect's server in this process does not start")
        time.sleep(0.01)

    def end() -> None:
        server.should_exit = True
        thread.join(END_SECONDS)

    atexit.register(end)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/api"


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


def hiding(record: logging.LogRecord) -> bool:
    """Strikes secrets out of a record, its traceback included.

    What a user can act on is told in its own words: it has no traceback at all.
    """
    record.msg, record.args = SECRETS.hide(record.getMessage()), ()
    if record.exc_info and not isinstance(record.exc_info[1], ToolloomError):
        record.exc_text = SECRETS.hide(logging.Formatter().formatException(record.exc_info))
    record.exc_info = None
    return True


def hide_in_logs() -> None:
    """For the rest of the process: Prefect tells of an error after the flow has ended."""
    for name in KEPT:
        logging.getLogger(name).addFilter(hiding)  # once, however often it is told


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
