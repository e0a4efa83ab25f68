"""The command that grows a dataset by a schedule."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from toolloom.cli import signals
from toolloom.cli.cache import CacheAt
from toolloom.cli.console import HERE, Outputs, say
from toolloom.cli.run import RecipePath


def serve(
    recipe: RecipePath,
    cron: Annotated[
        str | None,
        typer.Option(metavar="CRON", help='When it runs, such as "0 2 * * *": every night at two.'),
    ] = None,
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Zone of the schedule, such as `Europe/Vienna`.")
    ] = "UTC",
    name: Annotated[
        str | None, typer.Option(help="Name of the deployment, if not the dataset's.")
    ] = None,
    outputs: Outputs = HERE,
    cache: CacheAt = None,
) -> None:
    """Grow a dataset by a schedule: a deployment on a Prefect server, served until Ctrl-C.

    Each run adds what is accepted to the dataset as its next version. It never runs twice at once
    for one dataset, and one that failed or was killed is gone on with. Without --cron runs are
    started on the server's page. Needs a server: `prefect server start`, and PREFECT_API_URL.

    Example: `toolloom serve recipes/quickstart.yaml --cron "0 2 * * *"`
    """
    from toolloom.pipeline.store.mirror import shown
    from toolloom.pipeline.store.secrets import SECRETS, keys_of
    from toolloom.schemas import load_recipe

    chosen = load_recipe(recipe)
    SECRETS.learn(keys_of(chosen))
    if cache:
        os.environ["TOOLLOOM_CACHE"] = cache  # where the processes of its runs look
    from toolloom import flows
    from toolloom.pipeline.orchestration.serving import Deployment, parameters

    deployment = Deployment(
        name or chosen.name, parameters(recipe, shown(outputs.absolute())), cron, timezone
    )
    deployment.check()
    signals.run(deployment.serve(flows.grow, say))
