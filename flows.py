"""Prefect around the whole job: flows for a dataset and additions to it, a task for a shard.

`grow` is the flow that schedules run: `toolloom serve` or `prefect.yaml` deploy it, and any Prefect
server and worker can run it, as `flows.py:grow`. `make-dataset` and `extend-dataset` do once what
the commands of `toolloom` do; those call them in their own process. The tasks neither retry nor
cache: the runner goes on where it stopped, and requests are tried again in `toolloom.llm`, the one
place that does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal

# Prefect reads these when it is imported. The last two are for a server in this process alone.
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
os.environ.setdefault("PREFECT_API_BLOCKS_REGISTER_ON_START", "false")
os.environ.setdefault("PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED", "[]")

from prefect import State, flow, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from toolloom.pipeline import run as runner
from toolloom.pipeline.growth import hold_version, plan_change, plan_growth
from toolloom.pipeline.orchestration.server import (
    api,
    ended,
    failure_of_api,
    hidden,
    hide_in_logs,
    on_page,
    publish_summary,
)
from toolloom.pipeline.orchestration.task_runners import opened, work_on_shard
from toolloom.pipeline.stage import check_engine
from toolloom.pipeline.store.files import hold_dataset
from toolloom.pipeline.store.secrets import SECRETS, keys_of
from toolloom.pipeline.store.sync import Synced, is_address, sync, working_folder
from toolloom.schemas import Busy, Recipe, Split, ToolloomError, overridden

EngineName = Literal["prefect", "dask", "ray"]


def _run_name() -> str:
    """The run's id, so that Prefect's page and the run's folder bear the same name."""
    parameters: dict[str, Any] = flow_run.parameters
    return read_recipe(parameters["recipe"], parameters.get("seed")).run_id


def read_recipe(recipe: str | dict[str, Any], seed: int | None = None) -> Recipe:
    """A recipe of a flow's parameters: the path of a file, or its fields; `seed` replaces its."""
    return overridden(recipe, {} if seed is None else {"seed": seed})


@task(name="sync", retries=0, cache_policy=NO_CACHE, persist_result=False)
async def sync_outputs(source: str, target: str) -> Synced:
    """Copy what one of two folders of outputs lacks, one of which is an address."""
    with hidden():
        return await asyncio.to_thread(sync, source, target)


@asynccontextmanager
async def _folder(outputs: str) -> AsyncIterator[Path]:
    """The folder a flow writes to. Where its outputs are an address, what is there comes here
    first, and what was made goes there at the end, also of a run that failed."""
    folder = working_folder(outputs)
    if not is_address(outputs):
        yield folder
        return
    folder.mkdir(parents=True, exist_ok=True)
    await sync_outputs(outputs, str(folder))
    try:
        yield folder
    finally:
        await sync_outputs(str(folder), outputs)


@flow(name="make-dataset", flow_run_name=_run_name, retries=0, persist_result=False)
async def make_dataset(
    recipe: str | dict[str, Any],
    outputs: str = "outputs",
    seed: int | None = None,
    engine: EngineName = "prefect",
    address: str | None = None,
) -> runner.Made:
    """Make a dataset of a recipe, given as the path of its file or as its fields.

    A server keeps the parameters: addresses with passwords belong into a file.
    """
    planned = read_recipe(recipe, seed)
    async with _folder(outputs) as folder:
        return await _make(planned, folder, engine, address)


@flow(name="extend-dataset", flow_run_name="{dataset}", retries=0, persist_result=False)
async def extend_dataset(
    dataset: str,
    change: dict[str, Any],
    outputs: str = "outputs",
    version: str | None = None,
    seed: int | None = None,
    recipe: str | dict[str, Any] | None = None,
    engine: EngineName = "prefect",
    address: str | None = None,
) -> runner.Made:
    """Make the next version of a dataset: a split anew or grown, rows of templates, instructions.

    `change` is one of

        {"regenerate": {"split": "test_tool", "keep": false}}
        {"expand": {"rows": 1000}}       the fields of a recipe's section `expand`
        {"rewrite": {"votes": 1}}        those of `rewrite`

    Without a version it begins with the latest; without a seed or a recipe it takes those that
    follow from the runs which made the version.
    """
    base = None if recipe is None else read_recipe(recipe)
    async with _folder(outputs) as folder:
        with hold_version(folder, dataset):
            planned = plan_change(folder, dataset, change, version=version, seed=seed, recipe=base)
            return await _make(planned, folder, engine, address)


def _growth_name() -> str:
    """As people speak of it: `quickstart grows, 2026-11-21 02:00 UTC`."""
    parameters: dict[str, Any] = flow_run.parameters
    when: datetime = flow_run.scheduled_start_time
    try:
        name = overridden(parameters["recipe"], parameters.get("overrides") or {}).name
    except ToolloomError:
        name = Path(parameters["recipe"]).stem  # the flow will tell what is wrong with it
    return f"{name} grows, {when.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@flow(name="grow", flow_run_name=_growth_name, retries=0, persist_result=False)
async def grow(
    recipe: str,
    overrides: dict[str, Any] = {},  # noqa: B006 - Prefect's form shows it, nobody changes it
    outputs: str = "outputs",
    split: Split = Split.TRAIN,
    engine: EngineName = "prefect",
    address: str = "",
) -> State[Any]:
    """Grow a dataset by a version, if something is accepted.

    The first run makes what the recipe says. Each later one draws more queries with the next seed
    and adds what is accepted to the latest version. A run that finds another at work on the
    dataset is skipped; one that failed or was killed is gone on with by the next.

    Args:
        recipe: Path of the recipe, a YAML file, where the worker sees it. It names the dataset.
        overrides: Fields of the recipe to replace in this run, such as
            {"queries": {"count": 50}}. The server keeps them: no keys or passwords.
        outputs: Folder of runs and datasets where the worker sees it, or an address such as
            s3://bucket/prefix, to which they are copied at the end of each run.
        split: The split that later runs add to. Adding to `train` leaves the tests as they are.
        engine: What carries out the shards: this worker alone (prefect), or a Dask or Ray cluster.
        address: Address of the running cluster. Without one a cluster on this machine is started.
    """
    # SIGTERM cancels this task, which lets go of the dataset in order. Prefect's handler raises
    # wherever the process just stands; in a callback of the event loop that is swallowed, and the
    # run hangs until it is killed half a minute later.
    current = asyncio.current_task()
    if current and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
    hide_in_logs()
    try:
        with hidden():
            wanted = overridden(recipe, overrides)
            async with _folder(outputs) as folder:
                with hold_dataset(folder, wanted.name), on_page():
                    planned = plan_growth(folder, wanted, split)
                    made = await _make(planned, folder, engine, address or None)
                    message = ended(made, folder)
                    await publish_summary(wanted.name, message, made)
    except Busy as error:
        return Completed(name="Skipped", message=str(error))
    except ToolloomError as error:
        return Failed(message=str(error))
    return Completed(message=message)


async def _make(planned: Recipe, outputs: Path, engine: str, address: str | None) -> runner.Made:
    """Carry out a plan, with what lies beside a flow's parameters."""
    SECRETS.learn(keys_of(planned))
    hide_in_logs()
    with hidden():
        is_cluster = check_engine(planned, engine, address)
        return await runner.make_dataset(
            planned,
            outputs=outputs,
            run_shard=work_on_shard,
            engine=partial(opened, engine, address) if is_cluster else None,
            **runner.BESIDE.get({}),
        )


async def start(parameters: dict[str, Any], **beside: Any) -> runner.Made:
    """Run `make-dataset`, or `extend-dataset` where a `change` is among the parameters, in this
    process: against PREFECT_API_URL or a server of its own. `beside`: other options of a run.

    Raises ToolloomError if Prefect cannot be reached.
    """
    runner.BESIDE.set(beside)
    with ExitStack() as stack:
        try:
            stack.enter_context(api())
            failure = await failure_of_api()
        except RuntimeError as error:
            failure = error
        if failure:
            raise ToolloomError(
                f"Prefect's API cannot be reached ({failure}). Start its server, unset "
                "PREFECT_API_URL, or do without it: --engine local."
            ) from failure
        chosen: Any = extend_dataset if "change" in parameters else make_dataset
        made: runner.Made = await chosen(**parameters)
        return made
