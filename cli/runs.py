"""`toolloom runs`: the runs in a folder of outputs, listed and removed."""

from __future__ import annotations

import shutil
from datetime import datetime
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, say

app = typer.Typer(rich_markup_mode="markdown", help="List runs, or remove one.")


@app.callback(invoke_without_command=True)
def runs(context: typer.Context, outputs: Outputs = HERE) -> None:
    """List the runs: what each accepted, and whether it is finished. `runs remove ID` removes one.

    Example: `toolloom runs`
    """
    if context.invoked_subcommand is not None:
        return
    from toolloom.pipeline.render.section import Section, size
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
                size(sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file())),
            )
        )
    if not rows:
        say(f"There is no run in {outputs / 'runs'}.")
        return
    head = ("run", "begun", "state", "accepted", "rejected", "size")
    say([Section(head=head, rows=rows)])


@app.command()
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
        for each in sorted(run.path.iterdir(), key=lambda path: path.name != "plan.json"):
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != ".lock":
                each.unlink()
    shutil.rmtree(run.path)
    say(f"Removed {run.path}.")
