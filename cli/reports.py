"""The command that writes a report of a version, to be looked at in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, console_on, say


def report(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET", help="NAME, NAME/VERSION, or a version's folder.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Where to write it; else NAME-VERSION.html here."
        ),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Write a report of a dataset: one HTML file that needs no network, with samples to browse.

    It shows the way from domains to accepted dialogues, reasons, distributions, diversity, cost,
    and twenty samples of each kind. All of it is counted from the version's files.

    Example: `toolloom report quickstart`
    """
    from toolloom.pipeline.pages import report as reports
    from toolloom.pipeline.pages.reading import read, rows_of
    from toolloom.pipeline.render.terminal import Ticking
    from toolloom.pipeline.store.version import find_version

    version = find_version(outputs, dataset)
    path = reports.path_of(version, output)
    done, total = 0, rows_of(version)

    def tick() -> None:
        nonlocal done
        done += 1

    def line(seconds: float) -> str:
        return f"{done:,} of {total:,} rows read, {seconds:.0f} s"

    with Ticking(console_on(sys.stderr), line):
        size = reports.write(path, reports.page(version, read(version, tick)))
    say(f"{path}: the report of {version.label}, {size / 1e6:.1f} MB. Open it in a browser.")
