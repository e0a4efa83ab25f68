"""The commands about versions of a dataset: list them, compare them, make a split anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolloom.cli.cache import CacheAt
from toolloom.cli.console import HERE, Outputs, say
from toolloom.cli.runs import Engine, LogJson, LogLevel, end, in_prefect, run_here, watched

if TYPE_CHECKING:
    from toolloom.pipeline.runner import Made

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
    outputs: Outputs = HERE,
    engine: Annotated[
        Engine,
        typer.Option(help="`prefect` records it in Prefect; `local` does without."),
    ] = Engine.PREFECT,
    cache: CacheAt = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make one split anew, with the dataset's own APIs, as its next version.

    The other splits are copied byte for byte, and nothing is paid for them. Run the same command
    again to go on after a stop. Exit code 1 if nothing was accepted: then there is no new version.

    Example: `toolloom regenerate test_tool --dataset quickstart --seed 11`
    """
    from toolloom.pipeline.regenerate import plan_regeneration
    from toolloom.schemas import load_recipe

    planned = plan_regeneration(
        outputs,
        dataset,
        split,
        version=version,
        seed=seed,
        recipe=None if recipe is None else load_recipe(recipe),
        only_rejected=only_rejected,
    )
    assert planned.regenerate
    begun = planned.regenerate.version
    parameters: dict[str, Any] = {
        "dataset": planned.name,
        "split": split,
        "outputs": str(outputs),
        "version": begun.rpartition("/")[2],
        "seed": planned.seed,
        # Not its fields: Prefect keeps parameters, passwords included.
        "recipe": None if recipe is None else str(recipe.resolve()),
        "only_rejected": only_rejected,
    }
    with watched(planned, log_json, log_level) as watch:
        what = f"what was rejected of {split}" if only_rejected else split
        where = f"run {planned.run_id} in {outputs / 'runs'}"
        watch.say("run", f"Making {what} of {begun} anew: {where}", run=planned.run_id)
        made: Made
        if engine is Engine.PREFECT:
            made = in_prefect(
                watch, lambda flows: flows.start_again(parameters, watch, None, cache)
            )
        else:
            made = run_here(planned, outputs, watch, cache)
    end(made, outputs, f" Another --seed than {planned.seed} asks anew.")


def versions(name: Name, outputs: Outputs = HERE) -> None:
    """List the versions of a dataset: what each was made of, its rows, what it took.

    Example: `toolloom versions quickstart`
    """
    from toolloom.pipeline.screen_versions import versions_view
    from toolloom.pipeline.versions import find_version
    from toolloom.pipeline.versions import versions as all_of

    latest = find_version(outputs, name)
    say(versions_view(all_of(latest.path.parent), latest.number))


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
    from toolloom.pipeline.diff import compare
    from toolloom.pipeline.jsonl import write_lines
    from toolloom.pipeline.screen_versions import diff_view
    from toolloom.pipeline.versions import find_version

    made = compare(
        *(find_version(outputs, v if "/" in v else f"{name}/{v}") for v in (before, after)), keep=n
    )
    say(*diff_view(made))
    if json_file:
        write_lines(json_file, [made.model_dump_json(indent=2).encode() + b"\n"])
