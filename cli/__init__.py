"""The command line. What a command needs is imported when it runs, so that --help is quick."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from toolloom.cli import apis, runs
from toolloom.cli.console import INTERRUPTED, MISTAKE, complain


class Commands(TyperGroup):
    """All commands end the same way on errors a user can act on: one message, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            done = super().invoke(ctx)
            sys.stdout.flush()  # while an error can still be told
            return done
        except KeyboardInterrupt:
            complain("Stopped. Run the same command again to go on from here.")
            ctx.exit(INTERRUPTED)
        except Exception as error:
            from toolloom.schemas import ToolloomError

            if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                complain(f"The output cannot be written ({error.strerror}).")
                _silence()
            elif not isinstance(error, ToolloomError):
                raise
            else:
                complain(str(error))
            ctx.exit(MISTAKE)


def _silence() -> None:
    """Forget what standard output could not take: Python would try once more at its end."""
    with suppress(OSError), open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "Make verified training data for tool-using language models.\n\n"
        "A recipe (a YAML file) says what to make and with which models. "
        "`validate` it, `preview` a few rows, `run` it; then `show` what came out and read in "
        "`rejected` what did not, and why. `apis` imports real APIs into pools."
    ),
)
for command in (runs.validate, runs.preview, runs.run, runs.show, runs.rejected):
    app.command()(command)
app.add_typer(apis.app, name="apis")


def main() -> None:
    """The entry point `toolloom`."""
    app()
