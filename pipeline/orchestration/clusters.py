"""Dask and Ray, through Prefect's task runners: a shard of a stage is a task run of the flow run.

A cluster is opened within a running flow, so that the engine can be a parameter of it.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from urllib.parse import urlsplit

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_API_URL, temporary_settings

from toolloom.llm.connection import is_loopback
from toolloom.llm.database import address_of
from toolloom.pipeline.cluster import Cluster, Engine, ShardJob, ShardResult, WorkerLost, work_shard
from toolloom.pipeline.orchestration.machines import KINDS, Machines
from toolloom.pipeline.orchestration.secrecy import hidden, hide_in_logs
from toolloom.pipeline.store.secrets import SECRETS, keys_of
from toolloom.schemas import ClusterError

REACH_SECONDS = 5.0


def engine(name: str, address: str | None = None) -> Engine | None:
    """What opens the cluster of this name at an address, or one on this machine.

    None where the run is to be worked on in this process. Raises ClusterError.
    """
    if name not in KINDS:
        if address:
            raise ClusterError("--address is that of a cluster: it needs --engine dask or ray.")
        return None
    KINDS[name].check()
    return partial(opened, name, address)


@task(
    name="shard",
    task_run_name="{stage}-{shard:05d}",
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
async def work_on_shard(
    stage: str, shard: int, work: Callable[[], Awaitable[ShardResult]]
) -> ShardResult:
    """An order on a worker. Dask and Ray give it to another one if this one dies."""
    return await work()


async def work_without_secrets(order: ShardJob) -> ShardResult:
    """An order, of whose failure Prefect is told without the secrets that came with it."""
    SECRETS.learn([*keys_of(order.recipe), address_of(order.cache).password or ""])
    hide_in_logs()
    with hidden():
        return await work_shard(order)


@flow(name="toolloom")
async def elsewhere() -> None:
    """Stands for the running flow on workers, which need not have the file it was loaded from."""


@asynccontextmanager
async def opened(name: str, address: str | None) -> AsyncIterator[Cluster]:
    """The cluster, as long as the block lasts. Raises ClusterError."""
    api = str(get_client().api_url)
    if address:
        await asyncio.to_thread(_reach, KINDS[name].port, address, api)
    machines = KINDS[name](address)
    try:
        await asyncio.to_thread(machines.start)
        # Ray puts a handler in C before ours, which prints a trace of the stack.
        ours = signal.getsignal(signal.SIGTERM)
        if ours is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, ours)
        yield PrefectCluster(machines, api)
    finally:
        await asyncio.to_thread(machines.stop)


class PrefectCluster:
    """Gives orders to machines as task runs of the running flow."""

    def __init__(self, machines: Machines, api: str) -> None:
        self._machines = machines
        self._api = api

    def slots(self) -> int:
        return self._machines.slots()

    async def work(self, order: ShardJob) -> ShardResult:
        work = partial(work_without_secrets, order)
        parameters = {"stage": order.stage.name, "shard": order.shard, "work": work}
        with _seen_from_workers(self._api):
            state = self._machines.submit(work_on_shard, parameters)
        ended = await state
        if not (ended.is_completed() or ended.is_failed()):
            raise WorkerLost(ended.message)
        done: ShardResult = await ended.aresult()
        return done


@contextmanager
def _seen_from_workers(api: str) -> Iterator[None]:
    """The context that goes with a task: the server by its address, also if this process started
    it, and a flow that can be imported everywhere."""
    context = FlowRunContext.get()
    if context is None:
        raise RuntimeError("a cluster is opened within a flow")
    stand_in = context.model_copy(update={"flow": elsewhere, "parameters": {}})
    with temporary_settings({PREFECT_API_URL: api}), stand_in:
        yield


def _reach(port: int, address: str, api: str) -> None:
    """Raises ClusterError if nobody listens, or workers would not find Prefect's server."""
    if address == "auto":
        return
    where = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, at = where.hostname or "", where.port or port
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
