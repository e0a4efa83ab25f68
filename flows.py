"""Prefect around the whole job: flows for a dataset, a split and additions, a task for a shard.

Any Prefect server or worker can run it, as `flows.py:make_dataset`:

    prefect deploy flows.py:make_dataset --name nightly --pool my-pool --cron "0 2 * * *" \\
        --param recipe=/data/recipe.yaml --param outputs=/data/outputs

`flows.py:regenerate` makes one split of a version anew; `flows.py:expand` and `flows.py:rewrite`
add to a version. The commands of `toolloom` call them in their own process. The tasks neither
retry nor cache: the runner goes on where it stopped, and requests are tried again in
`toolloom.llm`, the one place that does.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

# Prefect reads these when it is imported. Its own server takes 18 s to start the first time.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run

from toolloom.pipeline import job, runner
from toolloom.pipeline.extend import plan_extension
from toolloom.pipeline.regenerate import plan_regeneration
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store import Mark
from toolloom.schemas import (
    ExpansionPlan,
    Recipe,
    RewritePlan,
    ToolloomError,
    load_recipe,
    parse_recipe,
)

Work = Callable[[], Awaitable[Mark]]


def _run_name() -> str:
    """The run's id, so that Prefect's page and the run's folder bear the same name."""
    parameters: dict[str, Any] = flow_run.parameters
    return read_recipe(parameters["recipe"], parameters.get("seed")).run_id


def read_recipe(recipe: str | dict[str, Any], seed: int | None = None) -> Recipe:
    """A recipe of a flow's parameters: the path of a file, or its fields; `seed` replaces its."""
    if isinstance(recipe, str):
        return load_recipe(recipe, seed=seed)
    changes = {} if seed is None else {"seed": seed}
    return parse_recipe({**recipe, **changes}, "the parameter `recipe`")


@task(
    task_run_name="{stage}-{shard:05d}",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def run_shard(stage: str, shard: int, work: Work) -> Mark:
    """One shard of one stage; skipped shards make no task run."""
    return await work()


@flow(name="make-dataset", flow_run_name=_run_name, retries=0, persist_result=False)
async def make_dataset(
    recipe: str | dict[str, Any], outputs: str = "outputs", seed: int | None = None
) -> runner.Made:
    """Make a dataset of a recipe, given as the path of its file or as its fields.

    A server keeps the parameters: addresses with passwords belong into a file.
    """
    return await _make(read_recipe(recipe, seed), outputs)


@flow(name="regenerate", flow_run_name="{dataset}-{split}", retries=0, persist_result=False)
async def regenerate(
    dataset: str,
    split: str,
    outputs: str = "outputs",
    version: str | None = None,
    seed: int | None = None,
    recipe: str | dict[str, Any] | None = None,
    only_rejected: bool = False,
) -> runner.Made:
    """Make a split of a dataset's version anew, which is its next version.

    Without a version it is the latest, without a seed the next, without a recipe that of the run
    which made the split.
    """
    planned = plan_regeneration(
        Path(outputs),
        dataset,
        split,
        version=version,
        seed=seed,
        recipe=None if recipe is None else read_recipe(recipe),
        only_rejected=only_rejected,
    )
    return await _make(planned, outputs)


@flow(name="expand", flow_run_name="{dataset}-expand", retries=0, persist_result=False)
async def expand(
    dataset: str,
    outputs: str = "outputs",
    plan: dict[str, Any] | None = None,
    version: str | None = None,
    seed: int | None = None,
    recipe: str | dict[str, Any] | None = None,
) -> runner.Made:
    """Add rows of templates to a dataset's version, which makes its next version.

    `plan`: the fields of a recipe's section `expand`. Without a version it is the latest, without
    a seed or a recipe those of its last run.
    """
    planned = plan_extension(
        Path(outputs),
        dataset,
        expand=ExpansionPlan.model_validate(plan or {}),
        version=version,
        seed=seed,
        recipe=None if recipe is None else read_recipe(recipe),
    )
    return await _make(planned, outputs)


@flow(name="rewrite", flow_run_name="{dataset}-rewrite", retries=0, persist_result=False)
async def rewrite(
    dataset: str,
    outputs: str = "outputs",
    plan: dict[str, Any] | None = None,
    version: str | None = None,
    seed: int | None = None,
    recipe: str | dict[str, Any] | None = None,
) -> runner.Made:
    """Rewrite the requests of a dataset's version at five granularities, in its next version.

    `plan`: the fields of a recipe's section `rewrite`; the others as for `expand`.
    """
    planned = plan_extension(
        Path(outputs),
        dataset,
        rewrite=RewritePlan.model_validate(plan or {}),
        version=version,
        seed=seed,
        recipe=None if recipe is None else read_recipe(recipe),
    )
    return await _make(planned, outputs)


async def _make(planned: Recipe, outputs: str) -> runner.Made:
    """Carry out a plan, with what lies beside a flow's parameters."""
    return await runner.make_dataset(
        planned,
        outputs=Path(outputs),
        stages=runner.STAGES.get(),
        progress=runner.PROGRESS.get(),
        run_shard=run_shard,
        cache=runner.CACHE.get(),
    )


def run_here(
    recipe: str | dict[str, Any],
    outputs: Path,
    progress: job.Progress | None = None,
    stages: Sequence[Stage] | None = None,
    cache: str | None = None,
    seed: int | None = None,
) -> runner.Made:
    """Run the flow in this process, against PREFECT_API_URL or a server of its own.

    Raises ToolloomError if Prefect cannot be reached.
    """
    return asyncio.run(start(recipe, outputs, progress, stages, cache, seed))


async def start(
    recipe: str | dict[str, Any],
    outputs: Path,
    progress: job.Progress | None = None,
    stages: Sequence[Stage] | None = None,
    cache: str | None = None,
    seed: int | None = None,
) -> runner.Made:
    """`run_here` for callers that await it."""
    await _reach(progress, stages, cache)
    return await make_dataset(recipe, str(outputs), seed)


async def start_again(
    parameters: dict[str, Any],
    progress: job.Progress | None = None,
    stages: Sequence[Stage] | None = None,
    cache: str | None = None,
) -> runner.Made:
    """Run the flow `regenerate` in this process. Raises ToolloomError as `run_here` does."""
    await _reach(progress, stages, cache)
    made: runner.Made = await regenerate(**parameters)
    return made


async def start_adding(
    command: str,
    parameters: dict[str, Any],
    progress: job.Progress | None = None,
    stages: Sequence[Stage] | None = None,
    cache: str | None = None,
) -> runner.Made:
    """Run the flow `expand` or `rewrite` in this process. Raises ToolloomError as `run_here`."""
    await _reach(progress, stages, cache)
    made: runner.Made = await {"expand": expand, "rewrite": rewrite}[command](**parameters)
    return made


async def _reach(
    progress: job.Progress | None, stages: Sequence[Stage] | None, cache: str | None
) -> None:
    """Make sure that Prefect answers, and lay out what a flow finds beside its parameters."""
    runner.PROGRESS.set(progress)
    runner.STAGES.set(stages)
    runner.CACHE.set(cache)
    try:
        async with get_client() as client:
            failure = await client.api_healthcheck()
    except RuntimeError as error:
        failure = error
    if failure:
        raise ToolloomError(
            f"Prefect's API cannot be reached ({failure}). Start its server, unset "
            "PREFECT_API_URL, or do without it: --engine local."
        ) from failure
