"""The commands that make, show and judge runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from toolloom.cli import logs, stopping
from toolloom.cli.cache import CacheAt
from toolloom.cli.console import (
    HERE,
    NOTHING_ACCEPTED,
    Outputs,
    complain,
    console_on,
    known,
    say,
)

if TYPE_CHECKING:
    from toolloom.pipeline.runner import Made
    from toolloom.pipeline.store import RunFolder
    from toolloom.pipeline.versions import Version
    from toolloom.pipeline.watch import Watch
    from toolloom.schemas import Recipe


class Engine(StrEnum):
    PREFECT = "prefect"
    LOCAL = "local"


RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file.")]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed to use in place of the recipe's.")
]
LogJson = Annotated[
    bool,
    typer.Option("--log-json", help="Progress and log as JSON, an object a line, on stderr."),
]
LogLevel = Annotated[
    logs.Level | None,
    typer.Option(help="Least of what is logged: `warning`, or `info` with --log-json."),
]


def validate(recipe: RecipePath) -> None:
    """Check a recipe and all prompts, and say what they amount to. Asks no model.

    Example: `toolloom validate recipes/quickstart.yaml`
    """
    from toolloom.pipeline.catalogue import category
    from toolloom.pipeline.curation import benchmarks
    from toolloom.pipeline.pool.sources import described
    from toolloom.pipeline.screen_recipe import recipe_view
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe)
    for name in chosen.apis.categories:
        category(name)
    sources = [described(source) for source in chosen.apis.sources]
    benchmarks.check(chosen)
    if chosen.expand or chosen.rewrite:
        from toolloom.pipeline.stages_beside import check_seeds, check_templates

        check_templates(chosen)
        check_seeds(chosen)
    say(*recipe_view(chosen))
    count = _compile_prompts()
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
    from toolloom.pipeline import runner, screen
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with watched(chosen, log_json, log_level) as watch:
        seen = stopping.run(runner.preview(chosen, n, progress=watch))
    for row in seen.rejected:
        say(screen.rejected_view(row.model_dump(mode="json")), "")
    for sample in seen.samples:
        say(screen.sample_view(sample), "")
    for told in seen.instructions:
        say(screen.instruction_view(told))
    say(f"{len(seen.samples)} accepted (shown last), {len(seen.rejected)} rejected.")
    if not seen.samples:
        raise typer.Exit(NOTHING_ACCEPTED)


def run(
    recipe: RecipePath,
    outputs: Outputs = HERE,
    seed: Seed = None,
    engine: Annotated[
        Engine,
        typer.Option(
            help="`prefect` records the run in Prefect (10 s more to start); `local` does without."
        ),
    ] = Engine.PREFECT,
    cache: CacheAt = None,
    log_json: LogJson = False,
    log_level: LogLevel = None,
) -> None:
    """Make the dataset. Run the same command again to go on after a stop; nothing is paid twice.

    Ends with the line that loads the dataset. Exit code 1 if nothing was accepted, 2 on a mistake
    in the recipe or the set-up.

    Example: `toolloom run recipes/quickstart.yaml --engine local`
    """
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with watched(chosen, log_json, log_level) as watch:
        watch.say("run", f"Run {chosen.run_id} in {outputs / 'runs'}", run=chosen.run_id)
        if engine is Engine.PREFECT:
            made = _run_in_prefect(recipe, seed, outputs, watch, cache)
        else:
            made = run_here(chosen, outputs, watch, cache)
    end(made, outputs)


def watched(recipe: Recipe, log_json: bool, log_level: logs.Level | None) -> Watch:
    """The run's progress, with its log beside it."""
    from toolloom.pipeline.progress import Journal, Screen

    console = console_on(sys.stderr)
    logs.start(console, log_level, json_lines=log_json, recipe=recipe)
    return Journal() if log_json else Screen(console)


def run_here(recipe: Recipe, outputs: Path, watch: Watch, cache: str | None) -> Made:
    from toolloom.pipeline import runner

    return stopping.run(runner.make_dataset(recipe, outputs=outputs, progress=watch, cache=cache))


def _run_in_prefect(
    recipe: Path, seed: int | None, outputs: Path, watch: Watch, cache: str | None
) -> Made:
    path = str(recipe.resolve())  # not its fields: Prefect keeps parameters, passwords included
    return in_prefect(
        watch, lambda flows: flows.start(path, outputs, watch, cache=cache, seed=seed)
    )


def in_prefect(watch: Watch, work: Callable[[Any], Coroutine[Any, Any, Made]]) -> Made:
    """Start Prefect, and do work that is given `toolloom.flows`."""
    # Prefect's own log would tear the progress apart; its page and database have all of it.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    began = time.monotonic()

    def begun() -> None:
        stopping.listen()  # Prefect has taken SIGTERM for itself
        seconds = time.monotonic() - began
        message = f"Prefect took {seconds:.1f} s to start; `--engine local` does without."
        watch.say("engine", message, seconds=round(seconds, 1))

    watch.on_start = begun
    watch.say("engine", "Starting Prefect.")
    from toolloom import flows

    logs.open_again()  # Prefect has put handlers of its own in place
    return stopping.run(work(flows))


def end(made: Made, outputs: Path, advice: str = "") -> None:
    """Print what a run came to. Ends with exit code 1 if nothing was accepted."""
    from toolloom.pipeline import screen
    from toolloom.pipeline.store import RunFolder

    say(screen.summary_view(made.summary))
    _tell_templates(RunFolder(Path(made.summary.path)))
    if made.published is None:
        where = "" if outputs == HERE else f" --outputs {outputs}"
        command = f"toolloom rejected {made.summary.run}{where}"
        complain(f"Nothing was accepted. `{command}` shows why.{advice}")
        raise typer.Exit(NOTHING_ACCEPTED)
    state = "New version" if made.published.fresh else "Published before, unchanged"
    say("", f"{state}: {made.published.label}. Load it with:", "")
    say("import datasets", made.published.load_line)


def _tell_templates(run: RunFolder) -> None:
    """Print what templates cover and yield, if the run makes any."""
    if "templates" not in {stage.name for stage in run.plan}:
        return
    from toolloom.pipeline.expansion.coverage import coverage_of, coverage_view

    if coverage := coverage_of(run):
        say("", coverage_view(coverage))


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

    from toolloom.pipeline import screen
    from toolloom.pipeline.report import count
    from toolloom.pipeline.screen_datasets import version_view
    from toolloom.pipeline.versions import Version
    from toolloom.schemas import Sample

    found = _find(outputs, what)
    if isinstance(found, Version):
        say(f"Dataset {found.label}", "", version_view(found))
        samples = found.samples()
    else:
        say(f"Run {found.id}", "", screen.counts_view(count(found)))
        _tell_templates(found)
        samples = map(Sample.model_validate, found.accepted())
    for sample in islice(samples, n):
        say(screen.sample_view(sample), "")
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
    from toolloom.pipeline import screen
    from toolloom.pipeline.store import find_run
    from toolloom.schemas import AgentName, Reason

    known("--reason", reason, list(Reason))
    known("--agent", agent, list(get_args(AgentName)))
    folder, shown, matching = find_run(outputs, run), 0, 0
    for row in folder.rejected():
        if reason in (None, row["reason"]) and agent in (None, row["agent"]):
            matching += 1
            if shown < n:
                shown += 1
                say(screen.rejected_view(row, verbatim=raw), "")
    say(f"{shown} of {matching} rejected records of {folder.id} that match.")


def _find(outputs: Path, what: str) -> RunFolder | Version:
    """The dataset of this name, or else the run."""
    from toolloom.pipeline.store import find_run
    from toolloom.pipeline.versions import find_version
    from toolloom.schemas import NothingFound

    try:
        return find_version(outputs, what)
    except NothingFound as no_dataset:
        try:
            return find_run(outputs, what)
        except NothingFound as no_run:
            raise NothingFound(f"{no_run}\n{no_dataset}") from no_run


def _compile_prompts() -> int:
    """Compile every template. Raises TemplateError with file and line."""
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
    return len(names)
