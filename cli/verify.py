"""The command that verifies a version of a dataset."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolloom.cli.console import FOUND, HERE, Outputs, console_on, say

if TYPE_CHECKING:
    from toolloom.pipeline.dataset.verify import Progress

SOON, EVERY = 3, 20  # seconds until progress is told, and between its lines where there is no bar


def verify(
    what: Annotated[
        str, typer.Argument(metavar="FOLDER|NAME[/VERSION]", help="A version of a dataset.")
    ],
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Write the report there, or print it (-)."),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Check a version again, offline: every byte, every row, its splits, parent and figures.

    Runs all certain checks over each dialogue. Exit code 1 if something is found, 2 if there is
    no such version or it is of another toolloom.

    Example: `toolloom verify quickstart`
    """
    from toolloom.pipeline.dataset.verify import place_of
    from toolloom.pipeline.dataset.verify import verify as verified
    from toolloom.pipeline.pages.sections import verify_sections
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.files import write_lines

    report = verified(place_of(outputs, what), _progress())
    text = report.model_dump_json(indent=2) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
    else:
        say(view(verify_sections(report)))
    if json_file not in (None, "-"):
        write_lines(Path(json_file), [text.encode()])
    if not report.good:
        raise typer.Exit(FOUND)


def _progress() -> Progress:
    """Tells how far it is on standard error: one line that changes, or a line now and then."""
    console = console_on(sys.stderr)
    told = time.monotonic() + SOON - EVERY

    def tell(done: int, total: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told < (1 if console.is_terminal else EVERY):
            return
        told = now
        line = f"{done:,} of {total:,} rows verified"
        console.print(line, end="\r" if console.is_terminal else "\n")

    return tell
