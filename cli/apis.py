"""The commands for pools of APIs: import real ones, look at them, filter them."""

from __future__ import annotations

import asyncio
import difflib
from typing import Annotated, Any, get_args

import typer

from toolloom.cli.console import (
    HERE,
    MISTAKE,
    NOTHING_ACCEPTED,
    Outputs,
    complain,
    deliver,
    known,
    say,
    ticker,
)

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "Import real APIs into a pool, look at them, and filter them.\n\n"
        "A recipe takes a pool under `apis.sources`. No API is called; `--mcp` starts a "
        "server, and asks it what it offers."
    ),
)

PoolName = Annotated[
    str, typer.Argument(metavar="POOL", help="A pool's name, or the path of its folder.")
]


@app.command(name="import")
def import_(
    into: Annotated[
        str, typer.Option("--into", metavar="POOL", help="Pool to add to; created if needed.")
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
            help="What the sources hold: openapi, python, openai, toolbench, api-bank or pool; "
            "`auto` tells by itself.",
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
        typer.Option(
            metavar="NAME",
            help="Environment variable that servers and Python files see; repeatable.",
        ),
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
    from toolloom.pipeline.apis.pool import open_pool
    from toolloom.pipeline.apis.sources import import_into, sections, server
    from toolloom.pipeline.render.section import counted, safe_json
    from toolloom.schemas import ApiSource, Format, NothingFound

    known("--format", form, [name for name in get_args(Format) if name != "mcp"])
    if "" in (sources or ()):
        raise NothingFound("A SOURCE is empty: name a file, a folder, a module or a pool.")
    fields = {"format": form, "environment": environment or ()}
    given = [ApiSource.model_validate({**fields, "path": p}) for p in sources or ()]
    given += [server(command, environment or ()) for command in mcp or ()]
    if not given:
        raise NothingFound("There is nothing to import: name a SOURCE, or a server with --mcp.")
    pool = open_pool(outputs, into)
    marks, tell = {"category": category, "collection": collection}, ticker()
    marked = [source.model_copy(update=marks) for source in given]
    made, failed = import_into(
        pool, marked, outputs, lambda source, n: tell(f"{source}: {n:,} APIs so far")
    )
    imports = [each.model_dump(mode="json") for each in made]
    whole = safe_json({"pool": pool.name, "imports": imports, "failed": failed})
    apis = sum(one.imported for one in made)
    told: list[Any] = [sections(made, str(pool.path / "imports.jsonl")), ""] if made else []
    deliver(whole, report, *told, f"{counted(apis, 'API')} imported into {pool.path}.")
    if failed:
        complain("\n".join(f"{each['source']}: not imported. {each['error']}" for each in failed))
        raise typer.Exit(MISTAKE)
    if not apis:
        raise typer.Exit(NOTHING_ACCEPTED)


@app.command(name="list")
def list_(
    pool: PoolName,
    category: Annotated[str | None, typer.Option(help="Only this category.")] = None,
    tool: Annotated[str | None, typer.Option(help="Only this tool.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="APIs to print.")] = 50,
    outputs: Outputs = HERE,
) -> None:
    """Print the APIs of a pool, a line each.

    Example: `toolloom apis list shop --category Payments`
    """
    from toolloom.pipeline.apis.pool import find_pool, list_section
    from toolloom.pipeline.render.section import counted

    folder = find_pool(outputs, pool)
    apis = list(folder.apis())
    known("--category", category, sorted({api.category for api in apis}))
    known("--tool", tool, sorted({api.tool for api in apis}))
    fitting = [a for a in apis if category in (None, a.category) and tool in (None, a.tool)]
    told = f"{len(fitting[:n]):,} of {counted(len(fitting), 'matching API')} of {folder.name}."
    say([list_section(fitting[:n])], "", told)


@app.command()
def show(
    pool: PoolName,
    api: Annotated[
        str, typer.Argument(metavar="FUNCTION|ID", help="Function name, or category/tool/name.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="As an entry of `tools` in a chat request.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Print an API: what it does, its parameters, what it returns, where it comes from.

    Example: `toolloom apis show shop create_order --json`
    """
    from toolloom.pipeline.apis.pool import api_sections, find_pool
    from toolloom.pipeline.render.section import safe_json
    from toolloom.schemas import NothingFound

    folder = find_pool(outputs, pool)
    apis = list(folder.apis())
    found = next((each for each in apis if api in (each.function, each.id)), None)
    if found is None:
        # As for case, whoever types a name half remembers it.
        folded = {
            name.lower(): name for each in reversed(apis) for name in (each.id, each.function)
        }
        near = [folded[one] for one in difflib.get_close_matches(api.lower(), folded, n=3)]
        within = [name for low, name in folded.items() if api and api.lower() in low]
        hints = ", or ".join(dict.fromkeys([*near, *within[:3]]))
        hint = f"Did you mean {hints}?" if hints else f"`apis list {folder.name}` has all."
        raise NothingFound(f"There is no API {api!r} in the pool {folder.name}. {hint}")
    if as_json:
        print(safe_json(found.as_tool()))
    else:
        say(api_sections(found))


@app.command(name="filter")
def filter_(
    pool: PoolName,
    into: Annotated[
        str, typer.Option("--into", metavar="POOL", help="Pool to make of those that are kept.")
    ] = "",
    rule: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Apply this rule, not the usual ones; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count; needs no --into.")
    ] = False,
    outputs: Outputs = HERE,
) -> None:
    """Make a pool of the APIs that break no rule. Its report names the others.

    The rules look at descriptions only; whether an API answers shows when it is called. Exit code
    1 if no API is left.

    Examples: `toolloom apis filter shop --dry-run`, `toolloom apis filter shop --into good`
    """
    from toolloom.pipeline.apis import pool as pools
    from toolloom.pipeline.render.section import counted
    from toolloom.schemas import NothingFound

    for name in rule or ():
        known("--rule", name, list(pools.RULES))
    if not into and not dry_run:
        raise NothingFound("There is no pool to filter into: name one with --into.")
    chosen, folder = rule or pools.USUAL, pools.find_pool(outputs, pool)
    judged, where = pools.judge(folder.apis(), chosen), "nothing was written"
    if not dry_run:
        target = pools.open_pool(outputs, into)
        pools.filter_pool(folder, judged, target)
        where = f"the pool is {target.path}"
    say([pools.rules_section(chosen, judged)], "")
    if others := [name for name in pools.RULES if name not in chosen]:
        say(f"Not applied: {', '.join(others)}.")
    kept = sum(not broken for _, broken in judged)
    say(f"{counted(kept, 'API')} kept, {len(judged) - kept:,} dropped; {where}.")
    if not kept:
        raise typer.Exit(NOTHING_ACCEPTED)


@app.command()
def search(
    pool: PoolName,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="A few words for what is needed.")],
    k: Annotated[int, typer.Option("-n", min=1, max=1000, help="APIs to print.")] = 5,
    embeddings: Annotated[
        str, typer.Option(metavar="URL", help="Rank by meaning: address of an endpoint with /v1.")
    ] = "",
    model: Annotated[str, typer.Option(metavar="NAME", help="Embedding model there.")] = "",
    key_env: Annotated[
        str, typer.Option(metavar="NAME", help="Environment variable that holds the key.")
    ] = "OPENAI_API_KEY",
    outputs: Outputs = HERE,
) -> None:
    """Search a pool as API Search in a dialogue does: by BM25, or by meaning with --embeddings.

    Exit code 1 if nothing fits.

    Example: `toolloom apis search shop "refund a payment" -n 3`
    """
    from pydantic import ValidationError

    from toolloom.llm import Gateway
    from toolloom.llm.cache import address
    from toolloom.pipeline.apis.pool import find_pool, list_section
    from toolloom.pipeline.apis.search import Finder
    from toolloom.schemas import Api, Endpoint, RecipeError, SearchPlan

    endpoint = None
    if embeddings:
        fields = {"base_url": embeddings, "key_env": key_env, **({"model": model} if model else {})}
        try:
            endpoint = Endpoint.model_validate(fields)
        except ValidationError as error:
            why = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise RecipeError(f"--embeddings {embeddings}: {why}.") from error
    elif model:
        raise RecipeError("--model names a model at the address that --embeddings gives: add it.")
    folder = find_pool(outputs, pool)

    async def ranked() -> list[Api]:
        """By BM25, or by meaning; vectors that were made before come from the cache."""
        apis = list(folder.apis())
        if endpoint is None:
            return await Finder(SearchPlan()).rank(apis, words, k)
        async with Gateway(address(outputs)) as gateway:
            return await Finder(SearchPlan(), gateway.embedder(endpoint)).rank(apis, words, k)

    found = asyncio.run(ranked())
    if not found:
        complain(f"No API of {folder.name} fits these words.")
        raise typer.Exit(NOTHING_ACCEPTED)
    say([list_section(found)])
