"""The commands for the response cache."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from toolloom.cli.console import HERE, Outputs, say

if TYPE_CHECKING:
    from toolloom.llm.cache_admin import Stock

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "Look into the response cache, shrink it, copy it.\n\n"
        "It holds every answer that was paid for, so that none is paid twice. It is "
        "`cache.sqlite` in the folder of outputs, or where `--cache` says."
    ),
)

AGES = {"h": 3600, "d": 86_400, "w": 7 * 86_400}
DATABASES = {".sqlite", ".sqlite3", ".db"}

CacheAt = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="PATH|URL",
        envvar="TOOLLOOM_CACHE",
        help="The response cache: a SQLite file's path, or the URL of a PostgreSQL database.",
    ),
]


@app.command()
def stats(outputs: Outputs = HERE, cache: CacheAt = None) -> None:
    """Print what the cache holds, by model and by run: responses, tokens, cost.

    Example: `toolloom cache stats`
    """
    with _stock(outputs, cache) as stock:
        say(stock.sections())


@app.command()
def prune(
    older_than: Annotated[
        str,
        typer.Option(
            "--older-than",
            metavar="AGE",
            help="Only responses of at least this age: 12h, 30d or 8w.",
        ),
    ] = "",
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only responses of this model.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(metavar="RUN", help="Only responses first asked by this run.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
) -> None:
    """Remove responses and free their disk space.

    With several options only responses that match all of them are removed. A run that needs one
    of these asks for it, and pays, again.

    Example: `toolloom cache prune --older-than 30d --dry-run`
    """
    from toolloom.schemas import NothingFound

    if not older_than and model is None and run is None:
        raise NothingFound("Name what to remove with --older-than, --model or --run.")
    before = time.time() - _seconds(older_than) if older_than else None
    with _stock(outputs, cache) as stock:
        removed = stock.prune(before=before, model=model, run=run, dry=dry_run)
    say(removed)


@app.command()
def export(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A .jsonl or .sqlite file, or a URL.")
    ],
    outputs: Outputs = HERE,
    cache: CacheAt = None,
) -> None:
    """Copy all responses to a file of JSON lines, or into another cache.

    A file is replaced; a cache keeps its responses and gets those it lacks.

    Examples: `toolloom cache export responses.jsonl`,
    `toolloom cache export postgresql://me@host/answers`
    """
    from toolloom.llm.cache_admin import Stock
    from toolloom.pipeline.store.files import to_line, write_lines
    from toolloom.schemas import NothingFound

    suffix = "" if "://" in target else Path(target).suffix
    if suffix != ".jsonl" and "://" not in target and suffix not in DATABASES:
        raise NothingFound(f"{target}: name a file that ends in .jsonl or .sqlite, or a URL.")
    with _stock(outputs, cache) as stock:
        if suffix == ".jsonl":
            count, _ = write_lines(Path(target), map(to_line, stock.rows()))
            say(f"{count:,} responses written to {target}.")
            return
        with Stock(target, new=True) as other:
            if stock.same(other):
                raise NothingFound(f"{other.where} is the cache itself: name another target.")
            count, new = stock.copy(other)
            say(f"{count:,} responses copied to {other.where}; {new:,} were new there.")


def _stock(outputs: Path, given: str | None) -> Stock:
    from toolloom.llm.cache import address
    from toolloom.llm.cache_admin import Stock

    return Stock(address(outputs, given))


def _seconds(age: str) -> int:
    """An age such as 30d in seconds. Raises NothingFound."""
    from toolloom.schemas import NothingFound

    if not (found := re.fullmatch(r"(\d{1,6})([hdw])", age)):
        raise NothingFound(f"--older-than {age}: write a number of hours, days or weeks, like 30d.")
    return int(found[1]) * AGES[found[2]]
