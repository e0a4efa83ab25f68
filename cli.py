"""The command line. What a command needs is imported when it runs, so that --help is quick."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from toolloom.pipeline.publish import Published
    from toolloom.pipeline.runner import Made, Progress
    from toolloom.pipeline.store import RunFolder
    from toolloom.schemas import Recipe

NOTHING_ACCEPTED, MISTAKE, INTERRUPTED = 1, 2, 130


class Commands(TyperGroup):
    """All commands end the same way on errors a user can act on: one message, no traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain("Stopped. Run the same command again to go on from here.")
            ctx.exit(INTERRUPTED)
        except Exception as error:
            from toolloom.schemas import ToolloomError

            if not isinstance(error, ToolloomError):
                raise
            _complain(str(error))
            ctx.exit(MISTAKE)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "Make verified training data for tool-using language models.\n\n"
        "A recipe (a YAML file) says what to make and with which models. "
        "`validate` it, `preview` a few rows, `run` it; then `show` what came out and read in "
        "`rejected` what did not, and why."
    ),
)


class Engine(StrEnum):
    PREFECT = "prefect"
    LOCAL = "local"


RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a YAML file.")]
Outputs = Annotated[
    Path,
    typer.Option("--outputs", "-o", envvar="TOOLLOOM_OUTPUTS", help="Folder of runs and datasets."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Seed to use in place of the recipe's.")
]
HERE = Path("outputs")


@app.command()
def validate(recipe: RecipePath) -> None:
    """Check a recipe and all prompts, and say what they amount to. Asks no model.

    Example: `toolloom validate recipes/quickstart.yaml`
    """
    from toolloom.pipeline.catalogue import category
    from toolloom.pipeline.screen import recipe_view
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe)
    for name in chosen.apis.categories:
        category(name)
    _print(*recipe_view(chosen))
    count = _compile_prompts()
    _print("", f"The recipe is valid, and so are the {count} prompt templates.")


@app.command()
def preview(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=100, help="Rows to show.")] = 3,
    seed: Seed = None,
) -> None:
    """Make a few rows and print them, with what was rejected on the way. Keeps nothing.

    Example: `toolloom preview recipes/quickstart.yaml -n 3`
    """
    from toolloom.pipeline import runner, screen
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    with screen.Screen(_console(sys.stderr)) as progress:
        seen = runner.preview_recipe(chosen, n, progress=progress)
    for row in seen.rejected:
        _print(screen.rejected_view(row.model_dump(mode="json")), "")
    for sample in seen.samples:
        _print(screen.sample_view(sample), "")
    _print(f"{len(seen.samples)} accepted (shown last), {len(seen.rejected)} rejected.")
    if not seen.samples:
        raise typer.Exit(NOTHING_ACCEPTED)


@app.command()
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
) -> None:
    """Make the dataset. Run the same command again to go on after a stop; nothing is paid twice.

    Ends with the line that loads the dataset. Exit code 1 if nothing was accepted, 2 on a mistake
    in the recipe or the set-up.

    Example: `toolloom run recipes/quickstart.yaml --engine local`
    """
    from toolloom.pipeline import screen
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    console = _console(sys.stderr)
    console.print(f"Run {chosen.run_id} in {outputs / 'runs'}")
    if engine is Engine.PREFECT:
        console.print("Starting Prefect; `--engine local` does without.")
        given = str(recipe.resolve()) if seed is None else chosen.model_dump(mode="json")
    with screen.Screen(console) as progress:
        if engine is Engine.PREFECT:
            made = _run_in_prefect(given, outputs, progress)
        else:
            made = _run_here(chosen, outputs, progress)
    _end(made, outputs)


def _run_here(recipe: Recipe, outputs: Path, progress: Progress) -> Made:
    from toolloom.pipeline import runner

    return runner.run_recipe(recipe, outputs, progress=progress)


def _run_in_prefect(recipe: Any, outputs: Path, progress: Progress) -> Made:
    # Prefect's own log would tear the progress apart; its page and database have all of it.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_INTERNAL_LEVEL", "CRITICAL")
    from toolloom import flows

    return flows.run_here(recipe, outputs, progress)


def _end(made: Made, outputs: Path) -> None:
    from toolloom.pipeline import screen

    _print(screen.summary_view(made.summary))
    if made.published is None:
        where = "" if outputs == HERE else f" --outputs {outputs}"
        command = f"toolloom rejected {made.summary.run}{where}"
        _complain(f"Nothing was accepted. `{command}` shows why.")
        raise typer.Exit(NOTHING_ACCEPTED)
    state = "New version" if made.published.fresh else "Published before, unchanged"
    _print("", f"{state}: {made.published.label}. Load it with:", "")
    _print("import datasets", made.published.load_line)


@app.command()
def show(
    what: Annotated[
        str,
        typer.Argument(
            metavar="RUN|DATASET",
            help="A run's id or its beginning, `latest`, a dataset's `name` or `name/v2`, a path.",
        ),
    ] = "latest",
    n: Annotated[int, typer.Option("-n", min=0, help="Dialogues to print.")] = 1,
    outputs: Outputs = HERE,
) -> None:
    """Print the counts of a run or dataset, and a dialogue of it.

    Examples: `toolloom show`, `toolloom show quickstart/v1 -n 3`
    """
    from itertools import islice

    from toolloom.pipeline import screen
    from toolloom.pipeline.publish import Published
    from toolloom.pipeline.report import Counts, count
    from toolloom.pipeline.tables import read_samples
    from toolloom.schemas import Sample

    found = _find(outputs, what)
    if isinstance(found, Published):
        counts = Counts.model_validate(found.manifest["counts"])
        samples = read_samples(found.path)
        _print(f"Dataset {found.label}", "")
    else:
        counts = count(found)
        samples = map(Sample.model_validate, found.accepted())
        _print(f"Run {found.id}", "")
    _print(screen.counts_view(counts))
    for sample in islice(samples, n):
        _print(screen.sample_view(sample), "")
    if isinstance(found, Published):
        _print("import datasets", found.load_line)


@app.command()
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

    _known("--reason", reason, list(Reason))
    _known("--agent", agent, list(get_args(AgentName)))
    folder, shown, matching = find_run(outputs, run), 0, 0
    for row in folder.rejected():
        if reason in (None, row["reason"]) and agent in (None, row["agent"]):
            matching += 1
            if shown < n:
                shown += 1
                _print(screen.rejected_view(row, verbatim=raw), "")
    _print(f"{shown} of {matching} rejected records of {folder.id} that match.")


def _known(option: str, value: str | None, names: Sequence[str]) -> None:
    """Raises NothingFound that names the nearest, or all, for a value that does not exist."""
    if value is None or value in names:
        return
    from toolloom.schemas import NothingFound

    near = difflib.get_close_matches(value, names, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known are: {', '.join(names)}."
    raise NothingFound(f"{option} {value}: there is no such value; {hint}")


def _find(outputs: Path, what: str) -> RunFolder | Published:
    """The dataset of this name, or else the run."""
    from toolloom.pipeline.publish import find_dataset
    from toolloom.pipeline.store import find_run
    from toolloom.schemas import NothingFound

    try:
        return find_dataset(outputs, what)
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


def _console(file: Any) -> Console:
    """Output to a terminal is wrapped to its width, other output not at all."""
    from rich.console import Console

    width = None if file.isatty() else 100_000
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def _print(*things: RenderableType) -> None:
    from toolloom.pipeline.screen import text

    console = _console(sys.stdout)
    for thing in things:
        # Lines of ours are left whole, so that they can be copied.
        whole = isinstance(thing, str)
        console.print(text(thing) if whole else thing, soft_wrap=whole)


def _complain(message: str) -> None:
    from toolloom.pipeline.screen import safe

    print(safe(message), file=sys.stderr)


def main() -> None:
    """The entry point `toolloom`."""
    app()
