"""The command that previews templates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolloom.cli.console import HERE, NOTHING_ACCEPTED, Outputs, say

if TYPE_CHECKING:
    from toolloom.schemas import Rejected, Template

SHOWN = 10  # templates mined of a dataset


def preview(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files of templates, or folders of them."),
    ] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|NAME[/VERSION]",
            help="Take the APIs of this dataset; without a PATH, its samples become templates.",
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=1, max=100, help="Rows of each template.")] = 3,
    seed: Annotated[int, typer.Option(help="Values are drawn by it.")] = 0,
    outputs: Outputs = HERE,
) -> None:
    """Check files of templates, and show what they would make: values, and a few rows, checked.

    Writes nothing and asks no model. Exit code 1 if no row of a template passes the certain
    checks, 2 if there is a mistake in a file.

    Examples: `toolloom expand preview recipes/templates/household.yaml`,
    `toolloom expand preview --dataset quickstart`
    """
    from toolloom.pipeline.pages.dialogue import preview_view
    from toolloom.pipeline.pages.plans import previews_in_words
    from toolloom.pipeline.templates.written import preview as previews
    from toolloom.schemas import NothingFound

    if not paths and dataset is None:
        raise NothingFound("There is nothing to preview: name a PATH, or a dataset with --dataset.")
    templates, refused = _templates(paths or [], dataset, seed, outputs)
    shown = [
        previews.preview(each, n, seed) for each in (templates if paths else templates[:SHOWN])
    ]
    for each in shown:
        say(preview_view(each), "")
    say(previews_in_words(shown, len(templates), refused))
    if not shown or any(each.fails for each in shown):
        raise typer.Exit(NOTHING_ACCEPTED)


def _templates(
    paths: list[Path], dataset: str | None, seed: int, outputs: Path
) -> tuple[list[Template], list[Rejected]]:
    """The templates that are asked for, and the samples that make none."""
    from toolloom.pipeline.store.version import find_version
    from toolloom.pipeline.templates.written.files import Given, load_templates
    from toolloom.pipeline.templates.written.preview import apis_of, mined
    from toolloom.schemas import Rejected, Template

    version = find_version(outputs, dataset) if dataset is not None else None
    if not paths and version is not None:
        found = mined(version)
        made = [one for one in found if isinstance(one, Template)]
        return made, [one for one in found if isinstance(one, Rejected)]
    apis = apis_of(version) if version is not None else None
    return load_templates(paths, Given(apis, seed=seed)), []
