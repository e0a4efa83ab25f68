"""The commands about versions of a dataset: list them, compare them, regenerate a split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from toolloom.cli.cache import CacheAt
from toolloom.cli.console import HERE, Outputs, say
from toolloom.cli.runs import Address, Engine, LogJson, LogLevel, Way, end, follow

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.")]


def regenerate(
    split: Annotated[str, typer.Argument(metavar="SPLIT", help="The split, such as `test_tool`.")],
    dataset: Annotated[str, typer.Option("--dataset", metavar="NAME", help="The dataset.")],
    version: Annotated[
        str | None,
        typer.Option("--from", metavar="VERSION", help="Version to begin with, not the latest."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the new rows, in place of the one after the last."),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(metavar="RECIPE", help="Models and queries, not those of the last run."),
    ] = None,
    only_rejected: Annotated[
        bool,
        typer.Option(
            "--only-rejected", help="Keep the rows; try the queries that were rejected again."
        ),
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the rows; draw new queries and add what they give.")
    ] = False,
    outputs: Outputs = HERE,
    engine: Annotated[
        Engine,
        typer.Option(
            help="`prefect` records it in Prefect; `local` does without; or a cluster works on it."
        ),
    ] = Engine.PREFECT,
    address: Address = None,
    cache: CacheAt = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make one split anew, or grow it, with the dataset's own APIs, as its next version.

    The other splits are copied byte for byte, and nothing is paid for them. Run the same command
    again to go on after a stop. With --keep each command adds what comes of other queries. Exit
    code 1 if nothing was accepted: then there is no new version.

    Examples: `toolloom regenerate test_tool --dataset quickstart --seed 11`,
    `toolloom regenerate train --dataset quickstart --keep`
    """
    from toolloom.pipeline.regenerate import plan_regeneration
    from toolloom.pipeline.store.locks import version_lock
    from toolloom.schemas import load_recipe

    with version_lock(outputs, dataset, cache):
        planned = plan_regeneration(
            outputs,
            dataset,
            split,
            version=version,
            seed=seed,
            recipe=None if recipe is None else load_recipe(recipe),
            only_rejected=only_rejected,
            keep=keep,
        )
        assert planned.regenerate
        begun = planned.regenerate.version
        what = f"what was rejected of {split}" if only_rejected else split
        task = f"Growing {split} of {begun}" if keep else f"Making {what} of {begun} anew"
        asked = {"split": split, "only_rejected": only_rejected, "keep": keep}
        way = Way(outputs, recipe, engine, address, cache, log_json, log_level)
        made = follow("regenerate", planned, task, way, **asked)
    advice = f"Another --seed than {planned.seed} asks anew."
    if keep and seed is None:
        advice = "The same command draws with the next seed now."
    end(made, outputs, f" {advice}")


def versions(name: Name, outputs: Outputs = HERE) -> None:
    """List the versions of a dataset: what each was made of, its rows, what it took.

    Example: `toolloom versions quickstart`
    """
    from toolloom.pipeline.pages.sections import versions_section
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.version import find_version
    from toolloom.pipeline.store.version import versions as all_of

    latest = find_version(outputs, name)
    say(view([versions_section(all_of(latest.path.parent), latest.number)]))


def diff(
    name: Name,
    before: Annotated[str, typer.Argument(metavar="V1", help="A version, such as 1.0.0.")],
    after: Annotated[str, typer.Argument(metavar="V2", help="Another, or `latest`.")] = "latest",
    n: Annotated[int, typer.Option("-n", min=0, help="Rows of each kind to print.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there too.")
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Compare two versions of a dataset: rows added, removed and changed, and the figures.

    Rows are matched by their ids, and those of other ids by their words and calls.

    Example: `toolloom diff quickstart 1.0.0 2.0.0 -n 2`
    """
    from toolloom.pipeline.dataset.diff import compare
    from toolloom.pipeline.pages.dialogue import examples_view
    from toolloom.pipeline.pages.sections import diff_sections
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.files import write_lines
    from toolloom.pipeline.store.version import find_version

    made = compare(
        *(find_version(outputs, v if "/" in v else f"{name}/{v}") for v in (before, after)), keep=n
    )
    say(view(diff_sections(made)), *examples_view(made.examples))
    if json_file:
        write_lines(json_file, [made.model_dump_json(indent=2).encode() + b"\n"])
