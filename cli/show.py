"""The commands that show what came out: in the terminal, as a page, in a notebook. `toolloom runs`
lists the runs in a folder of outputs, and removes them."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, get_args

import typer

from toolloom.cli.console import HERE, Dataset, Outputs, known, say, ticker
from toolloom.cli.run import tell_templates

RUNS = typer.Typer(rich_markup_mode="markdown", help="List runs, or remove one.")


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

    from toolloom.pipeline.dataset.figures import count
    from toolloom.pipeline.pages.dialogue import sample_view
    from toolloom.pipeline.pages.sections import counts_sections, version_sections
    from toolloom.pipeline.store.run_folder import RunFolder, find_run
    from toolloom.pipeline.store.version import Version, find_version
    from toolloom.schemas import NothingFound, Sample

    found: RunFolder | Version
    try:
        found = find_version(outputs, what)
    except NothingFound as no_dataset:
        try:
            found = find_run(outputs, what)
        except NothingFound as no_run:
            raise NothingFound(f"{no_run}\n{no_dataset}") from no_run
    if isinstance(found, Version):
        say(f"Dataset {found.label}", "", version_sections(found), "")
        samples = found.samples()
    else:
        say(f"Run {found.id}", "", counts_sections(count(found)), "")
        tell_templates(found)
        samples = map(Sample.model_validate, found.rows())
    for sample in islice(samples, n):
        say(sample_view(sample), "")
    if isinstance(found, Version):
        say("import datasets", found.load_line)


def rejected(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or its beginning, `latest`, or a path.")
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
    from toolloom.pipeline.render.section import counted
    from toolloom.pipeline.store.run_folder import find_run
    from toolloom.schemas import AgentName, Reason

    known("--reason", reason, list(Reason))
    known("--agent", agent, list(get_args(AgentName)))
    folder, matching = find_run(outputs, run), 0
    for row in folder.rejected():
        if reason in (None, row["reason"]) and agent in (None, row["agent"]):
            matching += 1
            if matching <= n:
                say(rejected_view(row, verbatim=raw), "")
    say(f"{min(n, matching)} of {counted(matching, 'matching rejected record')} of {folder.id}.")


def report(
    dataset: Dataset,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Where to write it, instead of NAME-VERSION.html here."
        ),
    ] = None,
    outputs: Outputs = HERE,
) -> None:
    """Write a report of a dataset: one HTML file that needs no network.

    It shows what each stage accepted and rejected, and why; distributions, diversity and cost; and
    samples of each kind to browse.

    Example: `toolloom report quickstart`
    """
    from toolloom.pipeline.pages import report as reports
    from toolloom.pipeline.store.files import write_lines
    from toolloom.pipeline.store.version import find_version

    version = find_version(outputs, dataset)
    path = reports.path_of(version, output)
    tell = ticker()
    seen = reports.read(version, lambda n, of: tell(f"{n:,} of {of:,} rows read"))
    html = reports.page(version, seen).encode()
    write_lines(path, [html])
    say(f"{path}: the report of {version.label}, {len(html) / 1e6:.1f} MB. Open it in a browser.")


def notebook(
    dataset: Annotated[
        str | None,
        typer.Argument(
            metavar="DATASET", help="A dataset `name` or `name/1.2.0`; else the newest one."
        ),
    ] = None,
    outputs: Outputs = HERE,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port to listen on, instead of the first free one."),
    ] = None,
) -> None:
    """Read in JupyterLab why samples were rejected, and mark where that was right. Ctrl-C ends it.

    The notebook is copied to `notebooks/` in the outputs; a copy that you changed is kept.

    Example: `toolloom notebook quickstart`
    """
    from toolloom.schemas import ToolloomError

    lacking = [name for name in ("jupyterlab", "ipywidgets") if find_spec(name) is None]
    if lacking:
        raise ToolloomError(
            f"The notebook needs {' and '.join(lacking)}: pip install 'toolloom[notebook]'"
        )
    from toolloom.pipeline.pages.inspection import copy_notebook, newest_dataset
    from toolloom.pipeline.store.version import find_version

    wanted = dataset or newest_dataset(outputs)
    version = find_version(outputs, wanted)
    if wanted.rstrip("/") in (version.name, f"{version.name}/latest"):
        opens, asked = f"the newest version of {version.name}, now {version.label}", version.name
    else:
        opens, asked = version.label, str(version.path.resolve())  # it may lie anywhere
    path, is_new = copy_notebook(outputs)
    told = {"TOOLLOOM_OUTPUTS": str(outputs.resolve()), "TOOLLOOM_DATASET": asked}
    # JupyterLab for this machine alone, that asks nobody and nothing on the network.
    chosen = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port or 8888,
        "ServerApp.port_retries": 0 if port else 100,
        "ServerApp.root_dir": path.parent.resolve(),
        "ServerApp.answer_yes": True,
        "ServerApp.log_level": "WARN",
        "ServerApp.open_browser": not no_browser,
        "ServerApp.allow_root": os.geteuid() == 0,  # as in a container
        # Of the asynchronous manager a thread may be left, which keeps the process from its end.
        "ServerApp.contents_manager_class": (
            "jupyter_server.services.contents.largefilemanager.LargeFileManager"
        ),
        "LabApp.default_url": f"/lab/tree/{path.name}",
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": None,
        "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    }
    is_what = "a new copy of toolloom's notebook: change it as you like"
    say(f"{path}: opens {opens}. It is {is_what if is_new else 'your copy, as you left it'}.")
    sys.stdout.flush()
    # From here on the process is Jupyter's: so is Ctrl-C, and nothing is left behind.
    command = [sys.executable, "-m", "jupyterlab", *(f"--{k}={v}" for k, v in chosen.items())]
    os.execve(sys.executable, command, {**os.environ, **told})


@RUNS.callback(invoke_without_command=True)
def runs(context: typer.Context, outputs: Outputs = HERE) -> None:
    """List the runs: what each accepted, and whether it is finished. `runs remove ID` removes one.

    Example: `toolloom runs`
    """
    if context.invoked_subcommand is not None:
        return
    from rich.filesize import decimal

    from toolloom.pipeline.render.section import Section
    from toolloom.pipeline.store.run_folder import RunFolder

    found = sorted((outputs / "runs").glob("*/plan.json"), key=lambda path: path.stat().st_mtime)
    rows = []
    for path in found:
        run = RunFolder(path.parent)
        marks = [run.stage(stage.name).mark for stage in run.plan]
        rows.append(
            (
                run.id,
                datetime.fromtimestamp(path.stat().st_mtime).strftime("%Y-%m-%d %H:%M"),
                "finished" if all(marks) else f"{sum(map(bool, marks))} of {len(marks)} stages",
                sum(1 for _ in run.samples()),
                sum(1 for _ in run.rejected()),
                decimal(sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file())),
            )
        )
    if not rows:
        say(f"There is no run in {outputs / 'runs'}.")
        return
    say([Section(head=("run", "begun", "state", "accepted", "rejected", "size"), rows=rows)])


@RUNS.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="ID", help="Id of the run, or its beginning.")],
    outputs: Outputs = HERE,
) -> None:
    """Remove a run's folder. Versions made of it stay, and so do its answers in the cache.

    The same recipe makes the run again, and asks nothing that is in the cache.

    Example: `toolloom runs remove quickstart-1a2b3c4d`
    """
    from toolloom.pipeline.store.run_folder import find_run
    from toolloom.schemas import NothingFound

    run = find_run(outputs, name)
    folder = outputs / "runs"
    if run.path.is_symlink() or run.path.resolve().parent != folder.resolve():
        raise NothingFound(f"{run.path}: is not a run in {folder}; only such runs are removed.")
    with run.locked():  # raises StoreError where a process is at work on it
        # First: what is left of a removal that is stopped is no run.
        (run.path / "plan.json").unlink(missing_ok=True)
        shutil.rmtree(run.path)
    say(f"Removed {run.path}.")
