"""The command that audits tool-use data of others."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from toolloom.cli import logs
from toolloom.cli.console import NOTHING_ACCEPTED, known, say

if TYPE_CHECKING:
    from toolloom.pipeline.formats.audit.audit import Report

_EVERY = 5.0  # seconds between two lines of progress


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON, JSON lines or Parquet, or a folder.")
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="trl, openai, sharegpt, hermes, xlam, bfcl, api-bank or toolbench.",
        ),
    ],
    n: Annotated[int, typer.Option("-n", min=0, max=1000, help="Examples of each reason.")] = 3,
    json_file: Annotated[
        str | None,
        typer.Option("--json", metavar="FILE|-", help="Write the report there, or print it (-)."),
    ] = None,
    flagged: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write each flagged row there, a JSON object a line."),
    ] = None,
) -> None:
    """Hold tool-use data that others made to the certain checks, and count what is wrong.

    Ends with status 0 if nothing is found, 1 if something is, 2 if the file cannot be read.

    Example: `toolloom audit train.jsonl --format openai --flagged flagged.jsonl`
    """
    from toolloom.pipeline.formats.audit import audit as audits
    from toolloom.pipeline.formats.audit.writing import Lines, write_report
    from toolloom.pipeline.render.terminal import view

    known("--format", format, [*audits.FORMATS])
    report_path = Path(json_file) if json_file not in (None, "-") else None
    with ExitStack() as stack:
        lines = stack.enter_context(Lines(flagged, file)) if flagged else None
        report = audits.audit(
            file, format, examples=n, flag=lines.write if lines else None, tell=_Watch(sys.stderr)
        )
    if report_path:
        write_report(report_path, report, file)
    if json_file == "-":
        sys.stdout.write(audits.dumped(report.as_json(), indent=2) + "\n")
    else:
        say(view(audits.sections(report)))
    if report.flagged:
        raise typer.Exit(NOTHING_ACCEPTED)


class _Watch:
    """A line of progress now and then."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._next = time.monotonic() + _EVERY

    def __call__(self, report: Report) -> None:
        if report.rows % 50 or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY
        logs.tell(f"{report.rows:,} rows, {report.flagged:,} with findings", "progress")
