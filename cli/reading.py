"""The commands that print what runs and datasets hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from toolloom.cli.console import HERE, Outputs, known, say
from toolloom.cli.runs import tell_templates

if TYPE_CHECKING:
    from toolloom.pipeline.store.run import RunFolder
    from toolloom.pipeline.store.version import Version


def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|DATASET",
            help="A run's id or its beginning, `latest`, a dataset `name` or `name/1.2.0`, a path.",
        ),
    ] = "latest",
    n: Annotated[int, typer.Option("-n", min=0, help="Dialogues to print.")] = 1,
    outputs: Outputs = HERE,
) -> None:
    """Print the counts of a run or dataset, and a dialogue of it.

    Examples: `toolloom show`, `toolloom show quickstart/1.0.0 -n 3`
    """
    from itertools import islice

    from toolloom.pipeline.dataset.report import count
    from toolloom.pipeline.pages.dialogue import sample_view
    from toolloom.pipeline.pages.sections import counts_sections, version_sections
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.version import Version
    from toolloom.schemas import Sample

    found = _find(outputs, what)
    if isinstance(found, Version):
        say(f"Dataset {found.label}", "", view(version_sections(found)), "")
        samples = found.samples()
    else:
        say(f"Run {found.id}", "", view(counts_sections(count(found))), "")
        tell_templates(found)
        samples = map(Sample.model_validate, found.accepted())
    for sample in islice(samples, n):
        say(sample_view(sample), "")
    if isinstance(found, Version):
        say("import datasets", found.load_line)


def rejected(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or its beginning, `latest`, a path.")
    ] = "latest",
    reason: Annotated[
        str | None, typer.Option(help="Only this reason, such as `ungrounded_argument`.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="Only this agent's work, such as `simulator`.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Records to print.")] = 5,
    raw: Annotated[
        bool, typer.Option("--raw", help="Whole responses, not only the model's text in them.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Print rejected records: the finding, the dialogue, the model's responses.

    Example: `toolloom rejected latest --reason ungrounded_argument -n 3`
    """
    from toolloom.pipeline.pages.dialogue import rejected_view
    from toolloom.pipeline.store.run import find_run
    from toolloom.schemas import AgentName, Reason

    known("--reason", reason, list(Reason))
    known("--agent", agent, list(get_args(AgentName)))
    folder, shown, matching = find_run(outputs, run), 0, 0
    for row in folder.rejected():
        if reason in (None, row["reason"]) and agent in (None, row["agent"]):
            matching += 1
            if shown < n:
                shown += 1
                say(rejected_view(row, verbatim=raw), "")
    say(f"{shown} of {matching} rejected records of {folder.id} that match.")


def _find(outputs: Path, what: str) -> RunFolder | Version:
    """The dataset of this name, or else the run."""
    from toolloom.pipeline.store.run import find_run
    from toolloom.pipeline.store.version import find_version
    from toolloom.schemas import NothingFound

    try:
        return find_version(outputs, what)
    except NothingFound as no_dataset:
        try:
            return find_run(outputs, what)
        except NothingFound as no_run:
            raise NothingFound(f"{no_run}\n{no_dataset}") from no_run
