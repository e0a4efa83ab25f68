"""The commands that judge recipes, forecast, make and schedule runs, and what all of them share."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from toolloom.cli import signals
from toolloom.cli.cache import CacheAt
from toolloom.cli.console import (
    HERE,
    NOTHING_ACCEPTED,
    JsonFile,
    Level,
    Outlet,
    Outputs,
    complain,
    console_on,
    deliver,
    reopen_log,
    say,
)
from toolloom.pipeline.store.secrets import SECRETS, keys_of

if TYPE_CHECKING:
    from toolloom.pipeline.run import Made, Progress
    from toolloom.pipeline.store.run_folder import RunFolder
    from toolloom.schemas import JsonObject, Recipe


RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed to use in place of the recipe's.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.")]
LogJson = Annotated[
    bool,
    typer.Option("--log-json", help="Write progress and log to stderr as JSON, one object a line."),
]
LogLevel = Annotated[
    Level | None,
    typer.Option(help="Lowest level that is logged: `warning`, or `info` with --log-json."),
]


@dataclass(frozen=True)
class RunOptions:
    """The options of every command that makes a run, as `with_run_options` declares them."""

    outputs: Outputs = HERE
    engine: Annotated[
        Literal["prefect", "local", "dask", "ray"] | None,
        typer.Option(
            help="`local` runs in this process, `prefect` records the run in Prefect as well, "
            "`dask` and `ray` have a cluster work on it. Without it: `prefect` if a Prefect "
            "server is configured, else `local`."
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of a running Dask or Ray cluster; without it one is started here.",
        ),
    ] = None
    cache: CacheAt = None
    log_json: LogJson = False
    log_level: LogLevel = None


@dataclass(frozen=True)
class NextOptions(RunOptions):
    """Those of every command that makes a dataset's next version."""

    version: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="VERSION", help="Version to start from, instead of the latest."
        ),
    ] = None
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the new rows, instead of the next one.")
    ] = None
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="RECIPE",
            help="Recipe whose models and queries to use, instead of the last run's.",
        ),
    ] = None


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that are fields of its `options`, which it is given as such."""
    own = {**signature(command, eval_str=True).parameters}
    kind = own.pop("options").annotation
    more = signature(kind, eval_str=True).parameters

    @wraps(command)
    def called(**given: Any) -> None:
        command(options=kind(**{name: given.pop(name) for name in more}), **given)

    # What only some commands have stands before what all have.
    parameters = [*own.values(), *sorted(more.values(), key=lambda p: hasattr(RunOptions, p.name))]
    del called.__wrapped__
    called.__annotations__ = {p.name: p.annotation for p in parameters}
    called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return called


def server_is_configured() -> bool:
    """Whether Prefect's settings name a server: the environment, or the active profile."""
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect")
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        told = tomllib.loads(path.read_text())
    except (OSError, ValueError):
        return False
    profile = os.environ.get("PREFECT_PROFILE") or told.get("active")
    return bool(told.get("profiles", {}).get(profile, {}).get("PREFECT_API_URL"))


def validate(recipe: RecipePath) -> None:
    """Check a recipe and all prompts, and print the plan. Asks no model.

    Example: `toolloom validate recipes/quickstart.yaml`
    """
    from jinja2 import TemplateSyntaxError

    from toolloom import prompts
    from toolloom.pipeline.apis.search import category
    from toolloom.pipeline.apis.sources import described
    from toolloom.pipeline.pages.sections import recipe_sections
    from toolloom.pipeline.stage import check, planned
    from toolloom.pipeline.stages import STAGES
    from toolloom.schemas import RecipeError, TemplateError, load_recipe

    chosen = load_recipe(recipe)
    for name in chosen.apis.categories:
        category(name)
    sources, faults = described(chosen.apis.sources)
    if faults:
        raise RecipeError("\n".join(faults))
    check(planned(STAGES, chosen), chosen)
    say(recipe_sections(chosen))
    environment = prompts.environment()
    names = environment.list_templates(extensions=["j2"])
    for name in names:
        try:
            environment.get_template(name)
        except TemplateSyntaxError as error:
            raise TemplateError(f"prompts/{name}, line {error.lineno}: {error.message}") from error
    say("", *sources, f"The recipe is valid, and so are the {len(names)} prompt templates.")


def preview(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=100, help="Rows to show.")] = 3,
    seed: Seed = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make a few rows and print them, with what was rejected on the way. Nothing is kept.

    Example: `toolloom preview recipes/quickstart.yaml -n 3`
    """
    from toolloom.pipeline import run as runner
    from toolloom.pipeline.pages.dialogue import rejected_view, sample_view
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with watched(chosen, log_json, log_level) as watch:
        seen = signals.run(runner.preview(chosen, n, progress=watch))
    for row in seen.rejected:
        say(rejected_view(row.model_dump(mode="json")), "")
    for sample in seen.samples:
        say(sample_view(sample), "")
    for told in seen.instructions:
        say(f"{told.id}: {told.text}")
    say(f"{len(seen.samples)} accepted (shown last), {len(seen.rejected)} rejected.")
    if not seen.samples:
        raise typer.Exit(NOTHING_ACCEPTED)


def estimate(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Queries in the sample.")] = 12,
    seed: Seed = None,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
    json_file: JsonFile = None,
) -> None:
    """Forecast requests, tokens and cost of a run, stage by stage, from a small sample of it.

    The sample asks the recipe's models, within its budget. Its answers stay in the response
    cache: a second forecast costs nothing.

    Example: `toolloom estimate recipes/loopback.yaml -n 24`
    """
    from toolloom.pipeline import estimate as forecasts
    from toolloom.pipeline.pages.sections import forecast_sections
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with watched(chosen, False, None) as progress:
        made = signals.run(
            forecasts.estimate(chosen, n, outputs=outputs, cache=cache, progress=progress)
        )
    deliver(made.model_dump_json(indent=2), json_file, forecast_sections(made))


@with_run_options
def run(recipe: RecipePath, options: RunOptions, seed: Seed = None) -> None:
    """Make the dataset. Run the same command again to continue after a stop; nothing is paid twice.

    Ends with the line that loads the dataset. Exit code 1 if nothing was accepted, 2 if the
    recipe or the setup is wrong.

    Example: `toolloom run recipes/quickstart.yaml`
    """
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    message = f"Run {chosen.run_id} in {options.outputs / 'runs'}"
    # The path, not its fields: Prefect keeps parameters.
    end(carry_out(chosen, message, options, recipe=str(recipe.resolve()), seed=seed), options)


def watched(recipe: Recipe, log_json: bool, log_level: Level | None) -> Progress:
    """The run's progress, with its log beside it."""
    from toolloom.pipeline.pages.screen import LogProgress, Screen

    console = console_on(sys.stderr)
    SECRETS.learn(keys_of(recipe))
    Outlet(console, log_level, log_json).begin()
    return LogProgress() if log_json else Screen(console)


def extend(dataset: str, change: JsonObject, task: str, advice: str, options: NextOptions) -> None:
    """Make a dataset's next version by a `change`, as flows know it, and tell what came of it.
    `task` says what is done to its `{version}`, `advice` what to do where nothing is accepted;
    the run has its `{seed}`."""
    from toolloom.pipeline.growth import hold_version, plan_change
    from toolloom.schemas import load_recipe

    outputs, recipe = options.outputs, options.recipe
    with hold_version(outputs, dataset):
        base = load_recipe(recipe) if recipe else None
        given = {"version": options.version, "seed": options.seed, "recipe": base}
        planned = plan_change(outputs, dataset, change, **given)
        begun = planned.regenerate or planned.extend
        assert begun
        told = task.format(version=begun.version or f"{planned.name}, which is new")
        made = carry_out(
            planned,
            f"{told}: run {planned.run_id} in {outputs / 'runs'}",
            options,
            dataset=planned.name,
            change=change,
            version=begun.version.rpartition("/")[2] or None,
            seed=planned.seed,
            recipe=str(recipe.resolve()) if recipe else None,
        )
    end(made, options, f" {advice.format(seed=planned.seed)}")


def carry_out(planned: Recipe, message: str, options: RunOptions, **parameters: Any) -> Made:
    """In this process, or in the flow that has these parameters; `message` begins it."""
    from toolloom.pipeline import run as runner
    from toolloom.pipeline.pages.sections import too_small
    from toolloom.pipeline.stage import check_engine

    engine = options.engine or ("prefect" if server_is_configured() else "local")
    outputs, cache = options.outputs, options.cache
    check_engine(planned, engine, options.address)  # before anything is started
    with watched(planned, options.log_json, options.log_level) as watch:
        watch.say("run", message, run=planned.run_id)
        if not planned.extend and (warning := too_small(planned)):
            watch.say("model", warning, run=planned.run_id)
        if engine == "local":
            return signals.run(
                runner.make_dataset(planned, outputs=outputs, progress=watch, cache=cache)
            )
        where = {"outputs": str(outputs), "engine": engine, "address": options.address}
        return in_prefect(watch, {**parameters, **where}, cache)


def in_prefect(watch: Progress, parameters: dict[str, Any], cache: str | None) -> Made:
    """Start Prefect, or find its server, and run a flow with these parameters."""
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
    there = server_is_configured()
    watch.say("engine", "Connecting to Prefect's server." if there else "Starting Prefect.")
    from toolloom import flows

    reopen_log()  # Prefect has put handlers of its own in place
    return signals.run(flows.start(parameters, progress=watch, cache=cache))


def end(made: Made, options: RunOptions, advice: str = "") -> None:
    """Print what a run came to. Ends with exit code 1 if nothing was accepted."""
    from toolloom.pipeline.pages.sections import summary_sections
    from toolloom.pipeline.store.run_folder import RunFolder

    say(summary_sections(made.summary))
    tell_templates(RunFolder(Path(made.summary.path)))
    if made.published is None:
        where = "" if options.outputs == HERE else f" --outputs {options.outputs}"
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
    from toolloom.pipeline.dataset.figures import coverage_of
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
        str,
        typer.Option(metavar="ZONE", help="Time zone of the schedule, such as `Europe/Vienna`."),
    ] = "UTC",
    name: Annotated[
        str | None, typer.Option(help="Name of the deployment, instead of the dataset's.")
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
    """Grow a dataset on a schedule: a deployment on a Prefect server, served until Ctrl-C.

    Each run adds what is accepted to the dataset as its next version. It never runs twice at once
    for one dataset, and one that failed or was killed is resumed. Without --cron runs are
    started on the server's page. Needs a server: `prefect server start`, and PREFECT_API_URL.

    Example: `toolloom serve recipes/quickstart.yaml --cron "0 2 * * *"`
    """
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe)
    SECRETS.learn(keys_of(chosen))
    if cache:
        os.environ["TOOLLOOM_CACHE"] = cache  # where the processes of its runs look
    from toolloom import flows
    from toolloom.pipeline.orchestration.server import serve_flow
    from toolloom.pipeline.store.sync import is_address

    where = outputs if is_address(outputs) else str(Path(outputs).absolute())
    given = {"recipe": str(recipe.resolve()), "outputs": where}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Prefect ends what it serves itself
    serve_flow(flows.grow, name or chosen.name, given, cron, timezone, say)
    say("Stopped. The schedule is paused until it is served again.")
