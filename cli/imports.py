"""The command that imports real APIs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from toolloom.cli.console import (
    HERE,
    MISTAKE,
    NOTHING_ACCEPTED,
    Outputs,
    complain,
    console_on,
    known,
    say,
)

if TYPE_CHECKING:
    from toolloom.pipeline.apis.pool.folder import PoolFolder
    from toolloom.pipeline.apis.pool.importing import Outcome


def import_(
    into: Annotated[
        str, typer.Option("--into", metavar="POOL", help="Pool to add to; made if need be.")
    ],
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="SOURCE", help="Files, folders, Python modules, pools."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="What the sources hold: openapi, python, openai, bfcl, toolbench, api-bank, "
            "public-apis or pool; `auto` tells by itself.",
        ),
    ] = "auto",
    mcp: Annotated[
        list[str] | None,
        typer.Option(
            "--mcp",
            metavar="[NAME=]COMMAND|URL",
            help="An MCP server to start or reach, and what to call it; repeatable.",
        ),
    ] = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Environment variable that MCP servers see; repeatable."),
    ] = None,
    category: Annotated[
        str, typer.Option(metavar="NAME", help="Category of the APIs, in place of their own.")
    ] = "",
    collection: Annotated[
        str, typer.Option(metavar="NAME", help="A collection that the APIs belong to.")
    ] = "",
    report: Annotated[
        str, typer.Option(metavar="FILE", help="Also write the report here, as JSON; `-`: print.")
    ] = "",
    outputs: Outputs = HERE,
) -> None:
    """Import real APIs, and say what was renamed, cut, unresolved or skipped on the way.

    Importing a source again brings its APIs up to date and keeps their function names. Exit
    code 2 if a source cannot be read (the others are imported), 1 if nothing was imported.

    Examples: `toolloom apis import openapi.yaml --into shop`,
    `toolloom apis import --mcp "mcp-server-git" --into work`
    """
    from toolloom.pipeline.apis.pool.folder import open_pool
    from toolloom.pipeline.apis.pool.importing import import_into, server
    from toolloom.pipeline.render.terminal import Ticking
    from toolloom.schemas import ApiSource, Format, NothingFound

    known("--format", form, [name for name in get_args(Format) if name != "mcp"])
    if "" in (sources or ()):
        raise NothingFound("A SOURCE is empty: name a file, a folder, a module or a pool.")
    given = [ApiSource.model_validate({"path": p, "format": form}) for p in sources or ()]
    given += [server(command, environment or ()) for command in mcp or ()]
    if not given:
        raise NothingFound("There is nothing to import: name a SOURCE, or a server with --mcp.")
    pool = open_pool(outputs, into)
    now = ("", 0)

    def seen(source: str, number: int) -> None:
        nonlocal now
        now = source, number

    def line(seconds: float) -> str:
        source, number = now
        return f"{source}: {number:,} APIs so far, {seconds:.0f} s"

    with Ticking(console_on(sys.stderr), line):
        marks = {"category": category, "collection": collection}
        marked = [source.model_copy(update=marks) for source in given]
        outcomes = import_into(pool, marked, outputs, seen)
    _tell(outcomes, pool, report)


def _tell(outcomes: list[Outcome], pool: PoolFolder, report: str) -> None:
    """Print, write and exit with what an import came to."""
    from toolloom.pipeline.apis.pool.importing import Failed, as_json, sections
    from toolloom.pipeline.render.section import safe_json
    from toolloom.pipeline.render.terminal import view

    failed = [one for one in outcomes if isinstance(one, Failed)]
    made = [one for one in outcomes if not isinstance(one, Failed)]
    whole = safe_json(as_json(pool.name, outcomes))
    file = sys.stderr if report == "-" else sys.stdout
    if made:
        say(view(sections(made, str(pool.path / "imports.jsonl"))), "", file=file)
    apis, examples = sum(one.imported for one in made), sum(one.examples for one in made)
    listed = f" and {_counted(examples, 'example')} for the API agent" if examples else ""
    say(f"{_counted(apis, 'API')}{listed} imported into {pool.path}.", file=file)
    if failed:
        complain("\n".join(f"{one.source}: not imported. {one.error}" for one in failed))
    if report == "-":
        print(whole)
    elif report:
        _write(Path(report), whole.encode() + b"\n")
    if failed:
        raise typer.Exit(MISTAKE)
    if not apis + examples:
        raise typer.Exit(NOTHING_ACCEPTED)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _write(path: Path, content: bytes) -> None:
    """A file appears when it is whole; a device, such as /dev/stderr, is written to as it is."""
    from toolloom.pipeline.store.files import explain, write_lines

    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
            return
    except OSError as error:
        raise explain(path, error, "written") from error
    write_lines(path, [content])
