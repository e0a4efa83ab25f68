"""The command that forecasts a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from toolloom.cli import logs, stopping
from toolloom.cli.cache import CacheAt
from toolloom.cli.console import HERE, Outputs, console_on, say
from toolloom.cli.runs import RecipePath, Seed


def estimate(
    recipe: RecipePath,
    n: Annotated[int, typer.Option("-n", min=1, max=1000, help="Queries in the sample.")] = 12,
    seed: Seed = None,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the forecast there too.")
    ] = None,
) -> None:
    """Forecast requests, tokens and cost of a run, stage by stage, from a small sample of it.

    The sample asks the recipe's models, within its budget. Its answers stay in the response
    cache: a second forecast costs nothing.

    Example: `toolloom estimate recipes/loopback.yaml -n 24`
    """
    from toolloom.pipeline import estimate as forecasts
    from toolloom.pipeline.pages.plans import forecast_sections
    from toolloom.pipeline.pages.progress import Screen
    from toolloom.pipeline.render.terminal import view
    from toolloom.pipeline.store.files import write_lines
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe, seed=seed)
    console = console_on(sys.stderr)
    logs.start(console, None, json_lines=False, recipe=chosen)
    with Screen(console) as progress:
        made = stopping.run(
            forecasts.estimate(chosen, n, outputs=outputs, cache=cache, progress=progress)
        )
    say(view(forecast_sections(made)))
    if json_file:
        write_lines(json_file, [made.model_dump_json(indent=2).encode() + b"\n"])
