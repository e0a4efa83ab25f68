"""Dask and Ray: how each is started or found, counts its workers, and takes a task."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from toolloom.pipeline.cluster import WorkerLost
from toolloom.schemas import ClusterError

if TYPE_CHECKING:  # the command line looks whether they are there, and Prefect takes its time
    from prefect import Task
    from prefect.client.schemas.objects import State

    Shard: TypeAlias = Task[..., Coroutine[Any, Any, Any]]

REACH_SECONDS = 10
WORKERS_SECONDS = 60.0  # for a cluster to have its first worker
OBJECT_STORE = 128 * 2**20  # bytes of shared memory for a Ray of our own: orders under way
LOCAL = max(2, os.cpu_count() or 1)  # workers of a cluster of our own


class Machines(ABC):
    """A cluster at an address, or one of our own on this machine."""

    name: ClassVar[str]
    modules: ClassVar[tuple[str, ...]]
    port: ClassVar[int]

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._runner: Any = None

    @classmethod
    def check(cls) -> None:
        """Raises ClusterError if it is not installed."""
        if not all(map(find_spec, cls.modules)):
            raise ClusterError(
                f"The engine {cls.name} is not installed. Install it on every machine with "
                f"`pip install 'toolloom[{cls.name}]'`."
            )

    def start(self) -> None:
        """Enter it. Raises ClusterError."""
        try:
            self._start()
        except ClusterError:
            raise
        except Exception as error:
            where = self._address or "on this machine"
            why = " ".join(str(error).split()) or type(error).__name__
            raise ClusterError(
                f"The {self.name} cluster {where} cannot be used: {why}. Is it one of "
                f"{self.name}'s, of the versions that are installed here?"
            ) from error
        until = time.monotonic() + WORKERS_SECONDS
        while not self.slots():
            if time.monotonic() > until:
                raise ClusterError(f"The cluster {self._address} has no workers. Start some.")
            time.sleep(0.5)

    def stop(self) -> None:
        """Leave it; one of our own ends."""
        if self._runner is not None:
            self._runner.__exit__(None, None, None)

    def submit(self, task: Shard, parameters: dict[str, Any]) -> Awaitable[State[Any]]:
        """Send a task off at once; awaits the state it ends in. Raises WorkerLost, ClusterError."""
        return self._ended(self._runner.submit(task, parameters).wrapped_future)

    @abstractmethod
    def slots(self) -> int:
        """Tasks it works on at once."""

    @abstractmethod
    def _start(self) -> None:
        """Enter the engine's task runner."""

    @abstractmethod
    async def _ended(self, future: Any) -> State[Any]:
        """The state a task ends in."""


class Dask(Machines):
    """A scheduler with workers; each thread of a worker is a slot."""

    name = "dask"
    modules = ("prefect_dask", "distributed")
    port = 8786

    def _start(self) -> None:
        from prefect_dask.task_runners import DaskTaskRunner

        ours = {
            "n_workers": LOCAL,
            "threads_per_worker": 1,
            "host": "127.0.0.1",
            "dashboard_address": None,
            "silence_logs": logging.CRITICAL,
        }
        how = {"address": self._address} if self._address else {"cluster_kwargs": ours}
        # Its own silence ends before its processes do.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._runner = DaskTaskRunner(**how, client_kwargs={"timeout": REACH_SECONDS})
        self._runner.__enter__()
        _ = self._runner.client  # it connects when it is first asked for

    def slots(self) -> int:
        return sum(self._runner.client.nthreads().values())

    async def _ended(self, future: Any) -> State[Any]:
        from distributed.scheduler import KilledWorker

        loop, done = asyncio.get_running_loop(), asyncio.Event()
        future.add_done_callback(lambda _: _soon(loop, done.set))
        try:
            await done.wait()
        except asyncio.CancelledError:
            future.cancel()
            raise
        state: State[Any]
        state, error = await asyncio.to_thread(_result, future)
        if isinstance(error, KilledWorker):
            raise WorkerLost(str(error)) from error
        if error is not None:
            raise _unworkable("Dask", error) from error
        return state


class Ray(Machines):
    """Nodes with CPUs; each CPU is a slot."""

    name = "ray"
    modules = ("prefect_ray", "ray")
    port = 6379

    def _start(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        if not self._address:  # its name for: keep to the loopback address
            os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        elif has_token():  # `ray start` asks for it then; whoever connects does not show it unasked
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        from prefect_ray import RayTaskRunner

        if self._address and self._address != "auto":
            _expect_grpc(self._address, self.port)
        quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        ours = {
            "address": "local",
            "num_cpus": LOCAL,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE,
            "_node_ip_address": "127.0.0.1",
        }
        given = {"address": self._address} if self._address else ours
        # Not as its own `address`: without one it looks for any cluster that runs here.
        runner = RayTaskRunner(init_kwargs={**quiet, **given})
        runner.__enter__()
        self._runner = runner  # not before: leaving one that was not entered starts a Ray

    def slots(self) -> int:
        import ray

        return int(ray.cluster_resources().get("CPU", 0))

    async def _ended(self, future: Any) -> State[Any]:
        import ray
        from ray.exceptions import NodeDiedError, ObjectLostError, WorkerCrashedError

        try:
            state: State[Any] = await asyncio.wrap_future(future.future())
        except asyncio.CancelledError:
            with suppress(Exception):
                ray.cancel(future)
            raise
        except (WorkerCrashedError, NodeDiedError, ObjectLostError) as error:
            raise WorkerLost(str(error)) from error
        except Exception as error:
            raise _unworkable("Ray", error) from error
        return state


def _expect_grpc(address: str, port: int) -> None:
    """Raises ClusterError if what listens is no Ray: Ray itself asks it for minutes."""
    import grpc

    if os.environ.get("RAY_USE_TLS") == "1":
        return  # it would need Ray's certificates
    where = urlsplit(address if "://" in address else f"//{address}")
    with grpc.insecure_channel(f"{where.hostname}:{where.port or port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=REACH_SECONDS)
        except grpc.FutureTimeoutError as error:
            raise ClusterError(
                f"What listens at {address} is no Ray cluster. Correct --address."
            ) from error


def has_token() -> bool:
    """Whether there is a token for clusters of Ray, at one of the places where Ray looks."""
    given = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    return bool(given) or (Path.home() / ".ray" / "auth_token").is_file()


KINDS: dict[str, type[Machines]] = {kind.name: kind for kind in (Dask, Ray)}


def _result(future: Any) -> tuple[Any, BaseException | None]:
    """What a future of Dask's holds; its own cancellation is not ours."""
    try:
        return future.result(), None
    except BaseException as error:  # noqa: BLE001 - whoever asked judges it
        return None, error


def _unworkable(name: str, error: BaseException) -> ClusterError:
    last = (str(error).strip() or type(error).__name__).splitlines()[-1]  # of a traceback
    return ClusterError(
        f"{name} cannot have a shard worked on: {last}. Check that every worker has the same "
        "Python and packages as this machine, and that the cluster runs; run the same command "
        "again to go on."
    )


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)
