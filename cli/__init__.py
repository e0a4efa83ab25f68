"""The command line: parse, call, print. One module for each noun that is typed.

A command reads its options, calls one function of a room below and prints what comes back:
results on standard output, progress and errors on standard error. No words about data are
written here, and nothing is decided. What a command needs is imported when it runs, so that
`--help` is quick. Errors that a user can act on end as one message and exit code 2. `console.py`
has what is said to a terminal or a log, `signals.py` how Ctrl-C and SIGTERM end a command.

May touch: arguments, the environment, the terminal; every room below.
Begin here, with the list of commands; then `cache.py`, whose commands are short.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import signal
import sys
import traceback
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from toolloom.cli import apis, cache, datasets, expand, run, show, signals, world
from toolloom.cli.console import BUG, MISTAKE, close_log, complain


class Commands(TyperGroup):
    """All commands end the same way on errors a user can act on: one message, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()  # while an error can still be told
            return done
        except KeyboardInterrupt:
            signals.end()
        except Exception as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise  # what typer itself ends a command with
            if isinstance(error, BrokenPipeError) and _unread():
                raise  # which `main` ends with
            ctx.exit(_tell(error))
        finally:
            close_log()


def _tell(error: Exception) -> int:
    """Say what went wrong; the exit status it amounts to."""
    from toolloom.schemas import ToolloomError

    if isinstance(error, ToolloomError):
        complain(str(error))
        return MISTAKE
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        complain(f"The output cannot be written ({error.strerror}).")
        _silence()
        return MISTAKE
    # Not Python's own report: what an endpoint repeats of a key would be in it.
    complain("".join(traceback.format_exception(error)).rstrip(), "crash")
    return BUG


def _silence() -> None:
    """Forget what standard output could not take: Python would try once more at its end."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _unread() -> bool:
    """Whether whoever read what we print has gone, as `head` does once it has its lines."""
    looks = select.poll()
    with suppress(OSError, ValueError):  # a stream that is no file, or is closed
        for stream in (sys.stdout, sys.stderr):
            looks.register(stream.fileno(), 0)  # POLLERR is told unasked
    return any(event & select.POLLERR for _, event in looks.poll(0))


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"toolloom {version('toolloom')}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "Make verified training data for tool-using language models.\n\n"
        "A recipe (a YAML file) says what to make and with which models. First `validate` it, "
        "`preview` a few rows and `estimate` its cost; then `run` it. `show` prints rows, "
        "`rejected` the records that were rejected, and why. `apis` imports real APIs into pools."
    ),
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


PANELS: dict[str, tuple[Any, ...]] = {
    "Make a dataset": (run.validate, run.preview, run.estimate, run.run),
    "Look at it": (show.show, show.rejected, show.report, show.notebook, datasets.verify),
    "Change it": (datasets.regenerate, expand.rewrite, datasets.versions, datasets.diff),
    "Use it": (datasets.export, datasets.push, datasets.sync, datasets.complexity, datasets.audit),
    "Operate": (run.serve,),
}
GROUPS = (
    ("expand", expand.app, "Change it"),
    ("apis", apis.app, "APIs and worlds"),
    ("world", world.app, "APIs and worlds"),
    ("runs", show.RUNS, "Operate"),
    ("cache", cache.app, "Operate"),
)
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
for name, group, panel in GROUPS:
    app.add_typer(group, name=name, rich_help_panel=panel)


def main() -> None:
    """The entry point `toolloom`."""
    # Python looks for cycles after every 700 new objects: a tenth of the time of all imports.
    gc.set_threshold(50_000, 20, 100)
    signals.listen()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # Typer and rich end with status 1 where a pipe is closed.
        if not isinstance(end.__context__ if isinstance(end, SystemExit) else end, BrokenPipeError):
            raise
        _silence()
        sys.exit(128 + signal.SIGPIPE)  # as shells report an end by a signal
