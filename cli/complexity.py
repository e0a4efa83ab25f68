"""The command that tells how far the calls of one split are from those of another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, say


def complexity(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME[/VERSION]", help="A dataset, `name/1.0.0`, or a version's path."
        ),
    ],
    test: Annotated[
        str | None,
        typer.Option(metavar="SPLIT", help="The split that is tested; else a line for each."),
    ] = None,
    examples: Annotated[
        str, typer.Option(metavar="SPLIT", help="The split whose samples are the examples.")
    ] = "train",
    demonstrations: Annotated[
        bool,
        typer.Option(
            "--demonstrations", help="Examples are only a few, in which every API occurs."
        ),
    ] = False,
    n: Annotated[int, typer.Option("-n", min=0, help="Farthest combinations to print.")] = 5,
    json_file: Annotated[
        str | None,
        typer.Option(
            "--json", metavar="FILE|-", help="Write the figures there, or print them (-)."
        ),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Tell how hard it is to choose the calls of a split, given the examples of another.

    The score S(T, X, D) is the mean distance to the nearest example, |e| ln 2 + |t - e| ln |D|, of
    multisets of APIs: calls that an example has cost ln 2 each, and others ln |D|. Beside it
    stands the reversed F1, 0 to 100.

    Example: `toolloom complexity shop --test test_tool --examples train`
    """
    from toolloom.pipeline.dataset.complexity import complexity as measured
    from toolloom.pipeline.pages.sections import complexity_sections
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.files import write_lines
    from toolloom.pipeline.store.version import find_version

    version = find_version(outputs, name)
    report = measured(version, test, examples, demonstrations=demonstrations, keep=n)
    text = report.model_dump_json(indent=2) + "\n"
    if json_file == "-":
        sys.stdout.write(text)
        return
    say(view(complexity_sections(report)))
    if json_file:
        write_lines(Path(json_file), [text.encode()])
