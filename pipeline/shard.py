"""A shard of a stage on another machine: `run_shard(task)`, a plain async function.

A worker shares nothing with the run: it is given the records and its part of the limits, and gives
back lines and responses, which the run's own process writes. So a worker that dies may cost its
shard once more, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from toolloom.llm import Gateway
from toolloom.llm.cache import Entry
from toolloom.llm.client import Stats
from toolloom.pipeline.stage import Context, ShardPart, Stage, check, work_on
from toolloom.pipeline.store.secrets import SECRETS, keys_of
from toolloom.schemas import (
    Budget,
    ClusterError,
    Endpoint,
    JsonObject,
    Recipe,
    RecipeError,
    Record,
    ToolloomError,
    Usage,
)

MODULES = {"dask": ("prefect_dask", "distributed"), "ray": ("prefect_ray", "ray")}
LIMITS = ("concurrency", "requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, eq=False)
class ShardTask:
    """What goes to a worker. What may hold a secret, or is long, is not shown."""

    id: str
    shard: int
    stage: Stage = field(repr=False)
    records: Sequence[Record] = field(repr=False)
    recipe: Recipe = field(repr=False)  # with a worker's part of the limits and the budget
    run: str
    code: str = field(repr=False)
    worlds: Sequence[JsonObject] = field(default=(), repr=False)  # those that no file holds
    known: Sequence[Entry] = field(default=(), repr=False)  # embeddings that need not be asked

    def __dask_tokenize__(self) -> str:
        """Its name, so that Dask does not read all of it for one."""
        return self.id


@dataclass(frozen=True)
class ShardResult:
    """What comes back: no `part` where an `error` ended the work. `used` counts lost tries too."""

    part: ShardPart | None
    responses: list[Entry]
    stats: Stats
    used: Usage
    error: Exception | None = None


@dataclass(frozen=True)
class Workers:
    """Machines that work on `slots` shards at once; `run` has one done, and raises ClusterError."""

    slots: int
    run: Callable[[ShardTask], Awaitable[ShardResult]]


Engine: TypeAlias = Callable[[], AbstractAsyncContextManager[Workers]]
"""Starts a cluster, or finds one."""


def check_engine(recipe: Recipe, engine: str, address: str | None) -> bool:
    """Whether a run's shards go to a cluster. Raises RecipeError or ClusterError if they cannot."""
    if engine not in MODULES:
        if address:
            raise ClusterError("--address is that of a cluster: it needs --engine dask or ray.")
        return False
    if any(endpoint.batched for endpoint in recipe.endpoints):
        raise RecipeError(
            "mode: batch has no use for a cluster, as one process can wait for all batches. Leave "
            "out --engine, or set `mode: direct`."
        )
    if not all(map(find_spec, MODULES[engine])):
        raise ClusterError(
            f"The engine {engine} is not installed. Install it on every machine with "
            f"`pip install 'toolloom[{engine}]'`."
        )
    return True


@cache
def code() -> str:
    """What decides a dataset's bytes: the code, as its manifest names it, and the Python."""
    from toolloom.pipeline.dataset.publish import code_hash

    return f"{code_hash()} on Python {sys.version_info.major}.{sys.version_info.minor}"


class Cluster:
    """The run's side of its workers: shares out its limits, and writes what was answered."""

    def __init__(
        self,
        workers: Workers,
        recipe: Recipe,
        gateway: Gateway,
        known: Callable[[], Iterable[JsonObject]],
    ) -> None:
        """`known`: the worlds of the run, which workers cannot read."""
        self._workers, self._recipe, self._gateway, self._known = workers, recipe, gateway, known
        limits = [getattr(e, name) for e in recipe.endpoints if not e.local for name in LIMITS]
        self.slots = max(1, min([workers.slots, *filter(None, limits)]))  # a part of each
        self._parts: asyncio.Queue[Recipe] = asyncio.Queue()
        for number in range(self.slots):
            self._parts.put_nowait(part_of(recipe, number, self.slots))
        self._ending = asyncio.Lock()
        self._spent: Usage | None = None

    async def run(self, stage: Stage, shard: int, records: Sequence[Record]) -> ShardPart:
        """What becomes of a shard's records. Raises what a worker raised, and ClusterError."""
        run, responses = self._recipe.run_id, self._gateway.cache
        part = await self._parts.get()
        free = self._parts.qsize() + 1
        self._spent = self._spent or await responses.spent(run)
        limits = self._recipe.budget.model_dump(exclude_none=True)
        left = {
            name: max(0, m - getattr(self._spent, name.removeprefix("max_")))
            for name, m in limits.items()
        }
        parts = {name: m / free if name == "max_cost" else m // free for name, m in left.items()}
        budget = Budget.model_construct(**parts)  # it may be nothing, which a recipe's cannot
        held = Usage(
            requests=budget.max_requests or 0,
            prompt_tokens=budget.max_tokens or 0,
            cost=budget.max_cost or 0.0,
        )
        self._spent += held
        used = held  # also where nobody knows
        try:
            embedded = self._recipe.search.embeddings is not None
            done = await self._workers.run(
                ShardTask(
                    f"{run}-{stage.name}-{shard}",
                    shard,
                    stage,
                    records,
                    part.model_copy(update={"budget": budget}),
                    run,
                    code(),
                    tuple(self._known()),
                    await responses.entries("embedding") if embedded else (),
                )
            )
            used = done.used
            await responses.write_all(done.responses)
            answered = sum((_use_of(response) for response in done.responses), Usage())
            if (lost := done.used - answered).requests:
                await responses.lose(run, lost)
            self._gateway.stats.add(done.stats)
        finally:
            self._spent += used - held
            self._parts.put_nowait(part)
        if done.part is None:
            async with self._ending:  # shards under way end first: what they ask is paid for
                for _ in range(self.slots):
                    await self._parts.get()
            raise done.error or ClusterError(f"{stage.name}, shard {shard}: nothing came back.")
        return done.part


async def run_shard(task: ShardTask) -> ShardResult:
    """Do a task on this machine, with a cache of its own. What it tells of holds no secret."""
    SECRETS.learn(keys_of(task.recipe))
    if code() != task.code:
        raise ClusterError(
            "A worker's toolloom or its Python is not that of the run, and would make other bytes. "
            "Install the same version on every machine."
        )
    part: ShardPart | None = None
    failed: Exception | None = None
    with tempfile.TemporaryDirectory(prefix="toolloom-shard-") as folder:
        gateway = Gateway(
            Path(folder) / "cache.sqlite",
            prices=task.recipe.prices,
            budget=task.recipe.budget,
            run=task.run,
        )
        async with gateway:
            await gateway.cache.write_all([replace(each, run="") for each in task.known])
            try:
                check([task.stage], task.recipe)
                context = Context.of(task.recipe, gateway, lambda: task.worlds)
                part = await work_on(task.stage, task.records, context, task.run, lambda *_: None)
            except ToolloomError as error:
                where = f"{socket.gethostname()}, process {os.getpid()}"
                failed = type(error)(SECRETS.hide(f"On the worker {where}: {error}"))
            except Exception as error:  # noqa: BLE001 - the run's process raises it
                failed = RuntimeError(SECRETS.hide("".join(traceback.format_exception(error))))
            old = {response.key for response in task.known}
            responses = [each for each in await gateway.cache.entries() if each.key not in old]
            used = await gateway.cache.spent(task.run)
    return ShardResult(part, responses, gateway.stats, used, failed)


def part_of(recipe: Recipe, number: int, parts: int) -> Recipe:
    """The recipe with one part of its limits, counted from 0."""

    def limits(endpoint: Endpoint) -> dict[str, int]:
        """Nothing of an embedded model's: each worker has one of its own."""
        whole = {} if endpoint.local else {name: getattr(endpoint, name) for name in LIMITS}
        return {
            name: limit // parts + (number < limit % parts)
            for name, limit in whole.items()
            if limit is not None
        }

    search = recipe.search
    if embeddings := search.embeddings:
        changed = embeddings.model_copy(update=limits(embeddings))
        search = search.model_copy(update={"embeddings": changed})
    agents = {
        agent: {**changes, **limits(recipe.endpoint(agent))}
        for agent, changes in recipe.agents.items()
    }
    model = recipe.model.model_copy(update=limits(recipe.model))
    return recipe.model_copy(update={"model": model, "agents": agents, "search": search})


def _use_of(response: Entry) -> Usage:
    """As `Cache.spent` counts it."""
    if response.kind == "execution":
        return Usage()
    return Usage(
        requests=int(response.requests > 0),
        prompt_tokens=response.prompt_tokens,
        completion_tokens=response.completion_tokens,
        cost=response.cost,
    )
