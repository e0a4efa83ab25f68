"""The commands for the response cache."""

from __future__ import annotations

import re
import time
from typing import Annotated

import typer

from toolloom.cli.console import HERE, Outputs, say

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help=(
        "Inspect the response cache, and shrink it.\n\n"
        "It holds every answer that was paid for, so that none is paid twice. It is "
        "`cache.sqlite` in the folder of outputs, or where `--cache` says."
    ),
)

AGES = {"h": 3600, "d": 86_400, "w": 7 * 86_400}

CacheAt = Annotated[
    str | None,
    typer.Option(
        "--cache",
        metavar="PATH",
        envvar="TOOLLOOM_CACHE",
        help="The response cache: a SQLite file's path.",
    ),
]


@app.command()
def stats(outputs: Outputs = HERE, cache: CacheAt = None) -> None:
    """Print what the cache holds, by model and by run: responses, tokens, cost.

    Example: `toolloom cache stats`
    """
    from toolloom.llm.cache import Cache, address

    say(Cache(address(outputs, cache), new=False).sections())


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
        str | None,
        typer.Option(metavar="RUN", help="Only responses that this run was the first to ask for."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
) -> None:
    """Remove responses and free their disk space.

    With several options only responses that match all of them are removed. A run that needs one
    of them again asks, and pays, for it again.

    Example: `toolloom cache prune --older-than 30d --dry-run`
    """
    from toolloom.llm.cache import Cache, address
    from toolloom.schemas import NothingFound

    if not older_than and model is None and run is None:
        raise NothingFound("Name what to remove with --older-than, --model or --run.")
    chosen: dict[str, object] = {}
    if older_than:
        if not (age := re.fullmatch(r"(\d{1,6})([hdw])", older_than)):
            raise NothingFound(
                f"--older-than {older_than}: write a number of hours, days or weeks, like 30d."
            )
        chosen["at < ?"] = time.time() - int(age[1]) * AGES[age[2]]
    chosen |= {f"{name} = ?": v for name, v in (("model", model), ("run", run)) if v is not None}
    say(Cache(address(outputs, cache), new=False).prune(chosen, dry=dry_run))
