"""The commands for pools of APIs."""

from __future__ import annotations

import asyncio
import difflib
from typing import TYPE_CHECKING, Annotated

import typer

from toolloom.cli.console import HERE, NOTHING_ACCEPTED, Outputs, complain, known, say
from toolloom.cli.imports import import_

if TYPE_CHECKING:
    from pathlib import Path

    from toolloom.pipeline.apis.pool.folder import PoolFolder
    from toolloom.schemas import Api, Endpoint

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


app.command(name="import")(import_)


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
    from toolloom.pipeline.apis.pool.counts import list_section
    from toolloom.pipeline.apis.pool.folder import find_pool
    from toolloom.pipeline.render.terminal import view

    folder = find_pool(outputs, pool)
    if category is not None:
        known("--category", category, sorted({api.category for api in folder.apis()}))
    if tool is not None:
        known("--tool", tool, sorted({api.tool for api in folder.apis()}))
    shown: list[Api] = []
    matching = 0
    for api in folder.apis():
        if category in (None, api.category) and tool in (None, api.tool):
            matching += 1
            if matching <= n:
                shown.append(api)
    say(
        view([list_section(shown)]),
        "",
        f"{len(shown):,} of {matching:,} APIs of {folder.name} that match.",
    )


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
    from toolloom.pipeline.apis.pool.counts import api_sections
    from toolloom.pipeline.apis.pool.folder import find_pool
    from toolloom.pipeline.render.section import safe_json
    from toolloom.pipeline.render.terminal import view

    folder = find_pool(outputs, pool)
    found = _find(folder, api)
    if as_json:
        print(safe_json(found.as_tool()))
    else:
        say(view(api_sections(found)))


def _find(pool: PoolFolder, wanted: str) -> Api:
    """The API of this function name or id. Raises NothingFound with those that are near."""
    from toolloom.schemas import NothingFound

    names: list[str] = []
    for api in pool.apis():
        if wanted in (api.function, api.id):
            return api
        names += (api.function, api.id)
    # As for case, whoever types a name half remembers it.
    folded = {name.lower(): name for name in reversed(names)}
    near = difflib.get_close_matches(wanted.lower(), folded, n=3)
    within = [name for low, name in folded.items() if wanted and wanted.lower() in low]
    hints = list(dict.fromkeys([*(folded[one] for one in near), *within[:3]]))
    hint = f"Did you mean {', or '.join(hints)}?" if hints else f"`apis list {pool.name}` has all."
    raise NothingFound(f"There is no API {wanted!r} in the pool {pool.name}. {hint}")


@app.command()
def stats(pool: PoolName, outputs: Outputs = HERE) -> None:
    """Print what is in a pool: counts by source, category, tool and collection.

    Example: `toolloom apis stats shop`
    """
    from toolloom.pipeline.apis.pool.counts import count_pool, sections
    from toolloom.pipeline.apis.pool.folder import find_pool
    from toolloom.pipeline.render.terminal import view

    folder = find_pool(outputs, pool)
    say(f"Pool {folder.name}", "", view(sections(count_pool(folder))))


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
    """Make a pool of the APIs that break no rule. The others go to its `dropped.jsonl`.

    The rules judge descriptions; whether an API answers, only executing it can tell. Exit code
    1 if no API is left.

    Examples: `toolloom apis filter shop --dry-run`, `toolloom apis filter shop --into good`
    """
    from toolloom.pipeline.apis.pool import quality
    from toolloom.pipeline.apis.pool.folder import find_pool, open_pool
    from toolloom.pipeline.render.terminal import view
    from toolloom.schemas import NothingFound

    for name in rule or ():
        known("--rule", name, quality.NAMES)
    if not into and not dry_run:
        raise NothingFound("There is no pool to filter into: name one with --into.")
    chosen, folder = rule or quality.USUAL, find_pool(outputs, pool)
    if dry_run:
        counted, where = quality.count_broken(folder, chosen), "nothing was written"
    else:
        target = open_pool(outputs, into)
        counted, where = quality.filter_pool(folder, chosen, target), f"written to {target.path}"
    rules = [rule for rule in quality.ALL if rule.name in chosen]
    say(view([quality.section(rules, counted)]), "")
    if others := [name for name in quality.NAMES if name not in chosen]:
        say(f"Not applied: {', '.join(others)}.")
    say(f"{counted.kept:,} APIs kept, {counted.dropped:,} dropped; {where}.")
    if not counted.kept:
        raise typer.Exit(NOTHING_ACCEPTED)


@app.command()
def search(
    pool: PoolName,
    words: Annotated[str, typer.Argument(metavar="WORDS", help="A few words for what is needed.")],
    k: Annotated[int, typer.Option("-n", min=1, max=1000, help="APIs to print.")] = 5,
    embeddings: Annotated[
        str,
        typer.Option(metavar="URL", help="Rank by meaning: address of an endpoint with /v1."),
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
    from toolloom.pipeline.apis.pool.counts import list_section
    from toolloom.pipeline.apis.pool.folder import find_pool
    from toolloom.pipeline.render.terminal import view

    endpoint = _endpoint(embeddings, model, key_env)
    folder = find_pool(outputs, pool)
    found = asyncio.run(_rank(list(folder.apis()), words, k, endpoint, outputs))
    if not found:
        complain(f"No API of {folder.name} fits these words.")
        raise typer.Exit(NOTHING_ACCEPTED)
    say(view([list_section(found)]))


def _endpoint(url: str, model: str, key_env: str) -> Endpoint | None:
    """The endpoint of embeddings, if there is to be one. Raises RecipeError."""
    from pydantic import ValidationError

    from toolloom.schemas import Endpoint, RecipeError

    if not url and not model:
        return None
    if not url:
        raise RecipeError("--model names a model at the address that --embeddings gives: add it.")
    fields = {"base_url": url, "key_env": key_env, **({"model": model} if model else {})}
    try:
        return Endpoint.model_validate(fields)
    except ValidationError as error:
        why = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise RecipeError(f"--embeddings {url}: {why}.") from error


async def _rank(
    apis: list[Api], words: str, k: int, endpoint: Endpoint | None, outputs: Path
) -> list[Api]:
    """By BM25, or by meaning; vectors that were made before come from the cache."""
    from toolloom.pipeline.apis.search import Finder
    from toolloom.schemas.recipe import SearchPlan

    if endpoint is None:
        return await Finder(SearchPlan()).rank(apis, words, k)
    from toolloom.llm import Gateway
    from toolloom.llm.cache import address

    async with Gateway(address(outputs)) as gateway:
        return await Finder(SearchPlan(), gateway.embedder(endpoint)).rank(apis, words, k)
