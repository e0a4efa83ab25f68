"""The commands that judge recipes, forecast, make and schedule runs, and what all of them share."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolloom.cli import signals
from toolloom.cli.cache import CacheAt
from toolloom.cli.console import (
    HERE,
    NOTHING_ACCEPTED,
    LevelOption,
    Outputs,
    complain,
    console_on,
    reopen_log,
    say,
    start_log,
    write_json,
)

if TYPE_CHECKING:
    from toolloom.pipeline.progress import Watch
    from toolloom.pipeline.run import Made
    from toolloom.pipeline.store.run_folder import RunFolder
    from toolloom.schemas import Recipe


class EngineOption(StrEnum):
    PREFECT = "prefect"
    LOCAL = "local"
    DASK = "dask"
    RAY = "ray"


Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of a running Dask or Ray cluster; without it one is started here.",
    ),
]

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed to use in place of the recipe's.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="VERSION", help="Version to start from, instead of the latest."),
]
In = Annotated[
    EngineOption,
    typer.Option(
        help="`prefect` records it in Prefect, `local` does not, `dask` and `ray` use a cluster."
    ),
]
LogJson = Annotated[
    bool,
    typer.Option("--log-json", help="Write progress and log to stderr as JSON, one object a line."),
]
LogLevel = Annotated[
    LevelOption | None,
    typer.Option(help="Lowest level that is logged: `warning`, or `info` with --log-json."),
]


def validate(recipe: RecipePath) -> None:
    """Check a recipe and all prompts, and print the plan. Asks no model.

    Example: `toolloom validate recipes/quickstart.yaml`
    """
    from toolloom.pipeline.apis.catalogue import category
    from toolloom.pipeline.apis.sources import described
    from toolloom.pipeline.curation import benchmarks
    from toolloom.pipeline.pages.recipes import recipe_sections
    from toolloom.schemas import RecipeError, load_recipe
    from toolloom.schemas.recipe import readable_sources

    try:
        chosen = load_recipe(recipe)
    except RecipeError as error:
        _, faults = described(readable_sources(recipe))
        raise RecipeError("\n".join((str(error), *faults))) from error
    for name in chosen.apis.categories:
        category(name)
    sources, faults = described(chosen.apis.sources)
    if faults:
        raise RecipeError("\n".join(faults))
    benchmarks.check(chosen)
    if chosen.expand or chosen.rewrite:
        from toolloom.pipeline.stages import check_seeds, check_templates

        check_templates(chosen)
        check_seeds(chosen)
    say(recipe_sections(chosen))
    import jinja2

    from toolloom import prompts
    from toolloom.schemas import TemplateError

    environment = prompts.environment()
    names = environment.list_templates(extensions=["j2"])
    for name in names:
        try:
            environment.get_template(name)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"prompts/{name}, line {error.lineno}: {error.message}") from error
    count = len(names)
    say("", *sources, f"The recipe is valid, and so are the {count} prompt templates.")


def preview(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=100, help="Rows to show.")] = 3,
    seed: Seed = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make a few rows and print them, with what was rejected on the way. Keeps nothing.

    Example: `toolloom preview recipes/quickstart.yaml -n 3`
    """
    from toolloom.pipeline import run as runner
    from toolloom.pipeline.pages.dialogue import instruction_view, rejected_view, sample_view
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with watched(chosen, log_json, log_level) as watch:
        seen = signals.run(runner.preview(chosen, n, progress=watch))
    for row in seen.rejected:
        say(rejected_view(row.model_dump(mode="json")), "")
    for sample in seen.samples:
        say(sample_view(sample), "")
    for told in seen.instructions:
        say(instruction_view(told))
    say(f"{len(seen.samples)} accepted (shown last), {len(seen.rejected)} rejected.")
    if not seen.samples:
        raise typer.Exit(NOTHING_ACCEPTED)


def estimate(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Queries in the sample.")] = 12,
    seed: Seed = None,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the forecast there too.")
    ] = None,
) -> None:
    """Forecast requests, tokens and cost of a run, stage by stage, from a small sample of it.

    The sample asks the recipe's models, within its budget. Its answers stay in the response
    cache: a second forecast costs nothing.

    Example: `toolloom estimate recipes/loopback.yaml -n 24`
    """
    from toolloom.pipeline import estimate as forecasts
    from toolloom.pipeline.pages.recipes import forecast_sections
    from toolloom.pipeline.pages.screen import Screen
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    console = console_on(sys.stderr)
    start_log(console, None, json_lines=False, recipe=chosen)
    with Screen(console) as progress:
        made = signals.run(
            forecasts.estimate(chosen, n, outputs=outputs, cache=cache, progress=progress)
        )
    say(forecast_sections(made))
    if json_file:
        write_json(json_file, made)


def run(
    recipe: RecipePath,
    outputs: Outputs = HERE,
    seed: Seed = None,
    engine: Annotated[
        EngineOption,
        typer.Option(
            help="`prefect` records the run in Prefect (about 4 s more to start), `local` does "
            "without, `dask` and `ray` have it worked on by a cluster."
        ),
    ] = EngineOption.PREFECT,
    address: Address = None,
    cache: CacheAt = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make the dataset. Run the same command again to continue after a stop; nothing is paid twice.

    Ends with the line that loads the dataset. Exit code 1 if nothing was accepted, 2 on an error
    in the recipe or the set-up.

    Example: `toolloom run recipes/quickstart.yaml --engine local`
    """
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    path = str(recipe.resolve())  # not its fields: Prefect keeps parameters
    way = WayToRun(outputs, recipe, engine, address, cache, log_json, log_level)
    made = carry_out(
        chosen,
        f"Run {chosen.run_id} in {outputs / 'runs'}",
        way,
        lambda flows, watch: flows.start(
            path, outputs, watch, cache=cache, seed=seed, engine=engine, address=address
        ),
    )
    end(made, outputs)


def watched(recipe: Recipe, log_json: bool, log_level: LevelOption | None) -> Watch:
    """The run's progress, with its log beside it."""
    from toolloom.pipeline.pages.screen import LogProgress, Screen

    console = console_on(sys.stderr)
    start_log(console, log_level, json_lines=log_json, recipe=recipe)
    return LogProgress() if log_json else Screen(console)


@dataclass(frozen=True)
class WayToRun:
    """How a plan is to be carried out, as the options of a command say."""

    outputs: Path
    recipe: Path | None
    engine: EngineOption
    address: str | None
    cache: str | None
    log_json: bool
    log_level: LevelOption | None


def follow(flow: str, planned: Recipe, task: str, way: WayToRun, **asked: Any) -> Made:
    """Carry out a plan that begins with a version: in this process, or in the flow of this name.

    `task`: what is done, as people say it. `asked`: parameters that this flow alone has.
    """
    begun = planned.regenerate or planned.extend
    assert begun
    parameters = {
        "dataset": planned.name,
        "outputs": str(way.outputs),
        "version": begun.version.rpartition("/")[2] or None,
        "seed": planned.seed,
        # Not its fields: Prefect keeps parameters, passwords included.
        "recipe": None if way.recipe is None else str(way.recipe.resolve()),
        "engine": way.engine.value,
        "address": way.address,
        **asked,
    }
    where = f"run {planned.run_id} in {way.outputs / 'runs'}"
    return carry_out(
        planned,
        f"{task}: {where}",
        way,
        lambda flows, watch: flows.start_from_version(flow, parameters, watch, cache=way.cache),
    )


def carry_out(
    planned: Recipe,
    message: str,
    way: WayToRun,
    in_flow: Callable[[Any, Watch], Coroutine[Any, Any, Made]],
) -> Made:
    """In this process, or `in_flow`, which is given `toolloom.flows`; `message` begins it."""
    from toolloom.pipeline import run as runner
    from toolloom.pipeline.pages.recipes import too_small
    from toolloom.pipeline.shard import check_engine

    check_engine(planned, way.engine, way.address)  # before anything is started
    with watched(planned, way.log_json, way.log_level) as watch:
        watch.say("run", message, run=planned.run_id)
        if not planned.extend and (warning := too_small(planned)):
            watch.say("model", warning, run=planned.run_id)
        if way.engine is EngineOption.LOCAL:
            return signals.run(
                runner.make_dataset(planned, outputs=way.outputs, progress=watch, cache=way.cache)
            )
        return in_prefect(watch, lambda flows: in_flow(flows, watch))


def in_prefect(watch: Watch, work: Callable[[Any], Coroutine[Any, Any, Made]]) -> Made:
    """Start Prefect, or find its server, and do work that is given `toolloom.flows`."""
    # Prefect's own log would tear the progress apart; its page and database have all of it.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    began = time.monotonic()

    def begun() -> None:
        signals.listen()  # Prefect has taken SIGTERM for itself
        reopen_log()  # and its server has put handlers in place
        seconds = time.monotonic() - began
        message = f"Prefect took {seconds:.1f} s to start; `--engine local` does without."
        watch.say("engine", message, seconds=round(seconds, 1))

    watch.on_start = begun
    away = os.environ.get("PREFECT_API_URL")
    watch.say(
        "engine", "Connecting to Prefect at PREFECT_API_URL." if away else "Starting Prefect."
    )
    from toolloom import flows

    reopen_log()  # Prefect has put handlers of its own in place
    return signals.run(work(flows))


def end(made: Made, outputs: Path, advice: str = "") -> None:
    """Print what a run came to. Ends with exit code 1 if nothing was accepted."""
    from toolloom.pipeline.pages.sections import summary_sections
    from toolloom.pipeline.store.run_folder import RunFolder

    say(summary_sections(made.summary))
    tell_templates(RunFolder(Path(made.summary.path)))
    if made.published is None:
        where = "" if outputs == HERE else f" --outputs {outputs}"
        command = f"toolloom rejected {made.summary.run}{where}"
        complain(f"Nothing was accepted. `{command}` shows why.{advice}")
        raise typer.Exit(NOTHING_ACCEPTED)
    state = "New version" if made.published.fresh else "Published before, unchanged"
    say("", f"{state}: {made.published.label}. Load it with:", "")
    say("import datasets", made.published.load_line)


def tell_templates(run: RunFolder) -> None:
    """Print what templates cover and yield, if the run makes any."""
    if "templates" not in {stage.name for stage in run.plan}:
        return
    from toolloom.pipeline.dataset.report import coverage_of
    from toolloom.pipeline.pages.sections import coverage_sections

    if coverage := coverage_of(run):
        say("", coverage_sections(coverage))


def serve(
    recipe: RecipePath,
    cron: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='When it runs, such as "0 2 * * *": every night at two.'),
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Zone of the schedule, such as `Europe/Vienna`.")
    ] = "UTC",
    name: Annotated[
        str | None, typer.Option(help="Name of the deployment, if not the dataset's.")
    ] = None,
    outputs: Annotated[
        str,
        typer.Option(
            *("--outputs", "-o"),
            envvar="TOOLLOOM_OUTPUTS",
            metavar="FOLDER|URL",
            help="Folder of runs and datasets; or an address such as s3://bucket/folder, to which "
            "they are copied after each run.",
        ),
    ] = "outputs",
    cache: CacheAt = None,
) -> None:
    """Grow a dataset by a schedule: a deployment on a Prefect server, served until Ctrl-C.

    Each run adds what is accepted to the dataset as its next version. It never runs twice at once
    for one dataset, and one that failed or was killed is resumed. Without --cron runs are
    started on the server's page. Needs a server: `prefect server start`, and PREFECT_API_URL.

    Example: `toolloom serve recipes/quickstart.yaml --cron "0 2 * * *"`
    """
    from toolloom.pipeline.store.secrets import SECRETS, keys_of
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe)
    SECRETS.learn(keys_of(chosen))
    if cache:
        os.environ["TOOLLOOM_CACHE"] = cache  # where the processes of its runs look
    from toolloom import flows
    from toolloom.pipeline.orchestration.serving import Deployment, parameters
    from toolloom.pipeline.store.sync import is_address

    where = outputs if is_address(outputs) else str(Path(outputs).absolute())
    deployment = Deployment(name or chosen.name, parameters(recipe, where), cron, timezone)
    deployment.check()
    signals.run(deployment.serve(flows.grow, say))
