"""The commands for forms of others: export a dataset, audit data of others."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from toolloom.cli.console import (
    HERE,
    NOTHING_ACCEPTED,
    Dataset,
    JsonFile,
    Outputs,
    console_on,
    known,
    say,
)

if TYPE_CHECKING:
    from toolloom.pipeline.formats.audit import AuditReport


def export(
    name: Dataset,
    format_: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="The trainer's format.")
    ],
    arguments: Annotated[
        Literal["object", "string"] | None,
        typer.Option(help="Arguments of calls as objects or as text, where there is a choice."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Only this split, instead of all.")
    ] = None,
    shots: Annotated[
        int | None,
        typer.Option(
            min=0, help="Demonstrations in a prompt, for formats that have some; 3 by default."
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|FILE",
            help="Where to write, instead of `exports/<name>/<version>/<format>` in --outputs.",
        ),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Write a dataset in a trainer's format, and say what that format cannot hold.

    Formats: `trl`, `trl-dpo`, `llamafactory`, `axolotl`, `verl`, `openai`, `hermes`,
    `api-bank`, `toolllama`, `few-shot`, `all-shot`. Exit code 1 if no sample fits it.

    Examples: `toolloom export shop --format trl`,
    `toolloom export shop/1.0.0 --format openai --split train --into shop.jsonl`
    """
    from toolloom.pipeline.dataset.exporting import FORMATS
    from toolloom.pipeline.dataset.exporting import export as write
    from toolloom.pipeline.pages.sections import export_sections
    from toolloom.pipeline.store.version import find_version

    known("--format", format_, [*FORMATS])
    version = find_version(outputs, name)
    place = into or outputs / "exports" / version.name / version.number / format_
    report = write(version, FORMATS[format_], place, arguments, split, shots)
    say(export_sections(report), "")
    say(
        f"{version.label} as {format_}: {report.held:,} of {report.samples:,} samples "
        f"in {report.rows:,} rows."
    )
    for path in report.notes:
        say(f"Also written: {path}")
    if report.hint:
        say("", "For the trainer:", report.hint)
    if not report.rows:
        raise typer.Exit(NOTHING_ACCEPTED)


def audit(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON, JSON lines or Parquet, or a folder.")
    ],
    n: Annotated[int, typer.Option("-n", min=0, max=1000, help="Examples of each reason.")] = 3,
    json_file: JsonFile = None,
    flagged: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the flagged rows to this file, a JSON object a line."
        ),
    ] = None,
) -> None:
    """Check tool-use data from elsewhere with the certain checks, and count what is wrong.

    Rows are OpenAI's messages, ShareGPT's conversations or API-Bank's dialogues; the format is
    detected row by row. Exit code 1 if something is found, 2 if the file cannot be read.

    Example: `toolloom audit train.jsonl --flagged flagged.jsonl`
    """
    from toolloom.pipeline.formats import audit as audits
    from toolloom.pipeline.formats.audit import flagged_rows, write_report
    from toolloom.pipeline.pages.screen import ticking

    with ExitStack() as stack:
        tell = stack.enter_context(ticking(console_on(sys.stderr)))

        def watch(report: AuditReport) -> None:
            if report.rows % 50 == 0:
                tell(f"{report.rows:,} rows, {report.flagged:,} with findings")

        flag = stack.enter_context(flagged_rows(flagged, file)) if flagged else None
        report = audits.audit(file, examples=n, flag=flag, tell=watch)
    if json_file and json_file != "-":
        write_report(Path(json_file), report, file)
    if json_file == "-":
        sys.stdout.write(audits.dumped(report.as_json(), indent=2) + "\n")
    else:
        say(audits.sections(report))
    if report.flagged:
        raise typer.Exit(NOTHING_ACCEPTED)
