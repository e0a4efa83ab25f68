"""The commands that add to a version: rows of templates, and requests at five granularities."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from toolloom.cli.console import HERE, NOTHING_ACCEPTED, Outputs, known, say
from toolloom.cli.run import Name, NextOptions, extend, with_run_options

if TYPE_CHECKING:
    from toolloom.pipeline.store.version import Version
    from toolloom.schemas import JsonObject, Rejected, Template


DATASET = "dataset"  # the command that is meant where none is named


class OfDataset(TyperCommand):
    """A command that is typed by its group's name alone."""

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **more: Any) -> Any:
        return super().make_context(parent.info_name, args, parent=parent.parent, **more)


class OrDataset(TyperGroup):
    """Commands, and a dataset where none of them is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and args[0] in self.commands and args[0] != DATASET
        return super().parse_args(ctx, args if named else [DATASET, *args])


app = typer.Typer(
    cls=OrDataset,
    rich_markup_mode="markdown",
    help="Add rows of templates to a dataset, or preview what written templates make.",
)

Splits = Annotated[
    list[str] | None, typer.Option("--split", metavar="SPLIT", help="A split; may be repeated.")
]


@app.command(name=DATASET, cls=OfDataset, hidden=True)
@with_run_options
def expand(
    dataset: Name,
    options: NextOptions,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows to make, 100 by default.")] = None,
    templates: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Written templates: a file or folder; repeatable."),
    ] = None,
    no_mine: Annotated[
        bool, typer.Option("--no-mine", help="Make no templates of accepted samples.")
    ] = False,
    split: Splits = None,
) -> None:
    """Add checked rows of templates to a dataset, as its next version.

    Accepted samples become templates, and their values slots; scripts of worlds are played in more
    states. No model is asked. The rows of the version stay as they are. `toolloom expand preview`
    shows what written templates make. Run the same command again to continue after a stop, or,
    once it is finished, to add more. Exit code 1 if there is nothing to add.

    Example: `toolloom expand quickstart --rows 1000`
    """
    asked = {
        "rows": rows,
        "templates": [str(path) for path in templates or ()] or None,
        "mine": False if no_mine else None,
    }
    _add("expand", asked, dataset, options, split)


@with_run_options
def rewrite(
    dataset: Name,
    options: NextOptions,
    seeds: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="ToolBench solution trees, or a folder; repeatable."),
    ] = None,
    votes: Annotated[
        int | None, typer.Option(min=0, max=15, help="Ratings of each text: odd, or 0.")
    ] = None,
    coarse: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Share of the two vaguest levels to train on; 0.5 by default."
        ),
    ] = None,
    split: Splits = None,
) -> None:
    """Rewrite requests at five granularities, in the dataset's next version.

    Each request that needs a call is worded five times: in full, as a situation only, and with the
    names of categories, of tools and of APIs. With --seeds and a new NAME, a dataset is made of
    ToolBench queries alone. Requests that already have instructions are skipped. Run the same
    command again to continue after a stop. Exit code 1 if there is nothing to add.

    Example: `toolloom rewrite quickstart --votes 1`
    """
    asked = {"seeds": [str(path) for path in seeds or ()] or None, "votes": votes, "coarse": coarse}
    _add("rewrite", asked, dataset, options, split)


def _add(
    command: str, asked: JsonObject, dataset: str, options: NextOptions, splits: list[str] | None
) -> None:
    """Add to a dataset what was asked for, with defaults for the rest."""
    from toolloom.pipeline.growth import parsed_plan
    from toolloom.schemas import ExpansionPlan, Split

    for name in splits or ():
        known("--split", name, list(Split))
    asked = {**asked, "splits": splits or None}
    given = {name: value for name, value in asked.items() if value is not None}
    plan = parsed_plan(command, given, "--")
    task = "Rewriting requests, for {version}"
    advice = "Requests that have instructions already are not rewritten."
    if isinstance(plan, ExpansionPlan):
        task = f"Adding {plan.rows:,} rows, for {{version}}"
        advice = "Another --seed, or more --templates, may add rows."
    extend(dataset, {command: plan.model_dump(mode="json")}, task, advice, options)


SHOWN = 10  # templates mined of a dataset
MINED = 1_000  # samples of a split that are read for them


@app.command()
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
    seed: Annotated[int, typer.Option(help="Seed for the values.")] = 0,
    outputs: Outputs = HERE,
) -> None:
    """Check files of templates, and show what they would make: values, and a few rows, checked.

    Writes nothing and asks no model. Exit code 1 if no row of a template passes the certain
    checks, 2 if there is a mistake in a file.

    Examples: `toolloom expand preview recipes/templates/household.yaml`,
    `toolloom expand preview --dataset quickstart`
    """
    from toolloom.pipeline.pages.dialogue import preview_view
    from toolloom.pipeline.pages.sections import previews_in_words
    from toolloom.pipeline.store.version import find_version
    from toolloom.pipeline.templates.filling import preview as shown_of
    from toolloom.schemas import NothingFound

    if not paths and dataset is None:
        raise NothingFound("There is nothing to preview: name a PATH, or a dataset with --dataset.")
    version = find_version(outputs, dataset) if dataset is not None else None
    templates, refused = _templates(paths or [], version, seed)
    shown = [shown_of(each, n, seed) for each in (templates if paths else templates[:SHOWN])]
    for each in shown:
        say(preview_view(each), "")
    say(previews_in_words(shown, len(templates), refused))
    if not shown or any(each.fails for each in shown):
        raise typer.Exit(NOTHING_ACCEPTED)


def _templates(
    paths: list[Path], version: Version | None, seed: int
) -> tuple[list[Template], list[Rejected]]:
    """The templates that are asked for, else those of the first samples of each split; and the
    samples that make none."""
    from toolloom.pipeline.templates.mine import SeenValues, mine
    from toolloom.pipeline.templates.written import Given, load_templates
    from toolloom.schemas import Api, Rejected, Split, Template

    if not paths and version is not None:
        made: list[Template | Rejected] = []
        for split in version.splits("samples"):
            samples = islice(version.samples(split), MINED)
            # In worlds scripts are played instead.
            dumped = [s.model_dump(mode="json") for s in samples if not s.dialogue.query.setting]
            seen = SeenValues()  # of its split alone: no value crosses over
            for sample in dumped:
                seen.add(sample)
            made += (mine(sample, seen, Split(split)) for sample in dumped)
        refused = [one for one in made if isinstance(one, Rejected)]
        return [one for one in made if isinstance(one, Template)], refused
    if version is None:
        return load_templates(paths, Given(seed=seed)), []
    apis = []
    for row in version.rows("apis"):
        with version.readable(row):
            apis.append(Api.model_validate_json(row["record"]))
    return load_templates(paths, Given(apis, seed=seed)), []
