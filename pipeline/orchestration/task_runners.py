"""Dask and Ray, as Prefect's own task runners: a shard of a stage is a task run of the flow run.

A runner is opened within a running flow, so that the engine can be a parameter of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL, temporary_settings

from toolloom.llm.client import is_loopback
from toolloom.pipeline.orchestration.server import hidden, hide_in_logs
from toolloom.pipeline.stage import ShardResult, ShardTask, Workers, run_shard
from toolloom.schemas import ClusterError

PORTS = {"dask": 8786, "ray": 6379}
REACH_SECONDS = 5.0
WORKERS_SECONDS = 60.0  # for a cluster to have its first worker
OBJECT_STORE = 128 * 2**20  # bytes of shared memory for a Ray of our own: shards under way
LOCAL = max(2, os.cpu_count() or 1)  # workers of a cluster of our own


@task(
    name="shard",
    task_run_name="{stage}-{shard:05d}",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def work_on_shard(stage: str, shard: int, work: Callable[[], Awaitable[Any]]) -> Any:
    """A shard, here or on a worker: Dask and Ray give it to another one if that dies. Prefect is
    told of a failure without the secrets that came with it; skipped shards make no task run."""
    hide_in_logs()
    with hidden():
        return await work()


@flow(name="toolloom")
async def elsewhere() -> None:
    """Stands for the running flow on workers, which need not have the file it was loaded from."""


@asynccontextmanager
async def opened(name: str, address: str | None) -> AsyncIterator[Workers]:
    """The cluster, as long as the block lasts. Raises ClusterError."""
    api = str(get_client().api_url)
    if address and address != "auto":
        await asyncio.to_thread(_reach, name, address, api)
    try:
        runner = await asyncio.to_thread(_dask if name == "dask" else _ray, address)
        slots = await asyncio.to_thread(_slots, name, runner)
    except ClusterError:
        raise
    except Exception as error:
        where = address or "on this machine"
        why = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(
            f"The {name} cluster {where} cannot be used: {why}. Is it one of {name}'s, of the "
            "versions that are installed here?"
        ) from error
    # Ray puts a handler in C before ours, which prints a trace of the stack.
    ours = signal.getsignal(signal.SIGTERM)
    if ours is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, ours)
    waiting = ThreadPoolExecutor(slots)
    try:
        yield Workers(slots, partial(submitted, runner, api, waiting))
    finally:
        await asyncio.to_thread(runner.__exit__, None, None, None)
        waiting.shutdown(wait=False)


async def submitted(
    runner: Any, api: str, waiting: ThreadPoolExecutor, given: ShardTask
) -> ShardResult:
    """What comes of a shard that a task runner of Prefect's is given, within the running flow."""
    context = FlowRunContext.get()
    if context is None:
        raise RuntimeError("a cluster is used within a flow")
    parameters = {
        "stage": given.stage.name,
        "shard": given.shard,
        "work": partial(run_shard, given),
    }
    # The server by its address, also if this process started it, and a flow that can be
    # imported everywhere.
    stand_in = context.model_copy(update={"flow": elsewhere, "parameters": {}})
    with temporary_settings({PREFECT_API_URL: api}), stand_in:
        future = runner.submit(work_on_shard, parameters)
    await asyncio.get_running_loop().run_in_executor(waiting, future.wait)
    state = future.state
    if not (state.is_completed() or state.is_failed()):
        raise ClusterError(
            f"{given.stage.name}, shard {given.shard} cannot be worked on: "
            f"{' '.join((state.message or 'its workers died').split())}. Check that every "
            "worker has the same Python and packages as this machine, and memory enough for "
            "`shard_size` records; run the same command again to go on."
        )
    done: ShardResult = await state.aresult()
    return done


def _dask(address: str | None) -> Any:
    import dask.config
    from prefect_dask.task_runners import DaskTaskRunner

    # Its profiler now and then stops a Python 3.11 for good (python/cpython#106883).
    dask.config.set({"distributed.worker.profile.enabled": False})
    ours = {
        "n_workers": LOCAL,
        "threads_per_worker": 1,
        "host": "127.0.0.1",
        "dashboard_address": None,
        "silence_logs": logging.CRITICAL,
    }
    how: dict[str, Any] = {"address": address} if address else {"cluster_kwargs": ours}
    # Its own silence ends before its processes do.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    runner: Any = DaskTaskRunner(**how, client_kwargs={"timeout": REACH_SECONDS})
    runner.__enter__()
    _ = runner.client  # it connects when it is first asked for
    return runner


def _ray(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not address:  # its name for: keep to the loopback address
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    from prefect_ray import RayTaskRunner

    ours = {
        "address": "local",
        "num_cpus": LOCAL,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE,
        "_node_ip_address": "127.0.0.1",
    }
    # Not as the runner's own `address`: without one it looks for any cluster that runs here.
    where = {"address": address} if address else ours
    runner: Any = RayTaskRunner(
        init_kwargs={"log_to_driver": False, "logging_level": logging.CRITICAL, **where}
    )
    runner.__enter__()
    return runner


def _slots(name: str, runner: Any) -> int:
    """How many tasks the cluster works on at once. Raises ClusterError if it gets no workers."""
    until = time.monotonic() + WORKERS_SECONDS
    while time.monotonic() < until:
        if name == "dask":
            slots: int = sum(runner.client.nthreads().values())
        else:
            import ray

            slots = int(ray.cluster_resources().get("CPU", 0))
        if slots:
            return slots
        time.sleep(0.5)
    raise ClusterError("The cluster has no workers. Start some.")


def _reach(name: str, address: str, api: str) -> None:
    """Raises ClusterError if nobody listens, or workers would not find Prefect's server."""
    where = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, at = where.hostname or "", where.port or PORTS[name]
        socket.create_connection((host, at), REACH_SECONDS).close()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ClusterError(
            f"Nobody answers at {address} ({why}). Start the cluster, or correct --address."
        ) from error
    if is_loopback(api) and not is_loopback(f"//{host}"):
        raise ClusterError(
            "The cluster's workers tell Prefect what they do, and cannot reach its server on this "
            "machine alone. Start one with `prefect server start --host 0.0.0.0`, and set "
            "PREFECT_API_URL to its address."
        )
