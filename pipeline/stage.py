"""What a stage is: a plain async function over one record, and where its records come from; and the
work on a shard's records, the same wherever it is done: here, or on a worker of a cluster.

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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, TypeAlias, TypeVar

from toolloom.agents.ask import Job
from toolloom.llm import Gateway, Model
from toolloom.llm.cache import Entry
from toolloom.llm.client import Stats
from toolloom.llm.messages import WORK, Work
from toolloom.pipeline.apis.search import Finder
from toolloom.pipeline.environments.executed import Executions
from toolloom.pipeline.store.files import Rows, read_records, record_line
from toolloom.pipeline.store.run_folder import PlannedStage
from toolloom.pipeline.store.secrets import SECRETS, keys_of
from toolloom.pipeline.worlds.library import Worlds, names
from toolloom.schemas import (
    AgentName,
    Budget,
    ClusterError,
    Endpoint,
    JsonObject,
    Outcome,
    Recipe,
    RecipeError,
    Record,
    Rejected,
    ToolloomError,
    Usage,
    seed_for,
)

T = TypeVar("T")

MODULES = {"dask": ("prefect_dask", "distributed"), "ray": ("prefect_ray", "ray")}
LIMITS = ("concurrency", "requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True)
class Context:
    """What a stage may use: the recipe, the way to the models, search and real execution."""

    recipe: Recipe
    gateway: Gateway
    finder: Finder
    executions: Executions
    worlds: Worlds

    @classmethod
    def of(
        cls, recipe: Recipe, gateway: Gateway, known: Callable[[], Iterable[JsonObject]] = tuple
    ) -> Context:
        """`known`: the worlds of the run, as JSON, once it has them."""
        plan = recipe.search
        embedder = gateway.embedder(plan.embeddings) if plan.embeddings else None
        executions = Executions(recipe.apis.sources, gateway.cache, recipe.seed)
        worlds = Worlds(names(recipe.worlds) if recipe.worlds else (), known)
        return cls(recipe, gateway, Finder(plan, embedder), executions, worlds)

    def model(self, agent: AgentName) -> Model:
        return self.gateway.model(self.recipe.endpoint(agent))


def job_of(context: Context, stage: str, agent: AgentName, record_id: str) -> Job:
    """An agent's work on one record."""
    seed = seed_for(context.recipe.seed, stage, record_id)
    return Job(stage, agent, record_id, seed, context.model(agent))


NOTHING = Rows(Path(), 0)
"""What a stage that is not there accepted."""


@dataclass(frozen=True)
class StageInput:
    """What a stage that feeds itself, or sifts, is given."""

    recipe: Recipe
    stage: str
    rows: Rows = NOTHING  # all that the last stage before it that is not `beside` accepted
    known: Rows = NOTHING  # rows that are published already and stay: id, text, intent and so on
    earlier: Callable[[str], Rows] = lambda stage: NOTHING  # what an earlier stage accepted
    kind: type[Record] = Record  # what `rows` are

    def records(self) -> Iterator[Any]:
        """The rows as records."""
        return read_records(self.rows.path, self.kind) if self.rows.count else iter(())


Sifted: TypeAlias = bytes | Rejected
"""What became of one row: its line, as it came or with flags, or the rejected record."""


def late(name: str, given: StageInput) -> Iterator[Sifted]:
    """What a function gives, named by `module:name`: its module is imported when it is called."""
    found: Iterator[Sifted] = resolve_name(name)(given)
    return found


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    `work` takes one record to its outcome. `feed` makes the stage's records of all that was
    accepted before it, which it may read as often as it wants; without it the rows stream through,
    shard by shard. `settle` holds what only the whole stage can tell (near-duplicates, unique
    names): it is given every accepted record, in order, and parts them again. A stage that settles,
    or whose successor feeds itself, is complete before the next begins. `expects` tells from how
    many records the stage before accepted how many will enter, for those who watch; without it,
    all of them will.

    A stage that asks no model but compares rows with each other has no agent and no `work`: it
    has a `sift`, which reads all rows as often as it wants, in bounded memory, and gives back
    what became of each in order. It begins when the stage before is complete.

    A stage that is `beside` makes records that stand beside the rows and do not replace them: a
    stage after it reads what the last one that is not `beside` accepted.

    `here` tells whether its records must be worked on where the run began, not on other machines,
    as they name files. `when` tells whether a recipe wants the stage. `check` raises RecipeError if
    something that the stage will need is not there, and is called before the first stage begins.
    """

    name: str
    agent: AgentName | Literal[""]
    reads: type[Record]
    writes: type[Record]
    work: Callable[[Any, Context], Awaitable[Outcome]] | None = None
    feed: Callable[[StageInput], Iterator[Record]] | None = None
    settle: Callable[[Sequence[Any]], Outcome] | None = None
    expects: Callable[[Recipe, int], int] | None = None
    sift: Callable[[StageInput], Iterator[Sifted]] | None = None
    beside: bool = False
    when: Callable[[Recipe], bool] | None = None
    check: Callable[[Recipe], None] | None = None
    here: Callable[[Recipe], bool] | None = None


def planned(stages: Iterable[Stage], recipe: Recipe) -> tuple[Stage, ...]:
    """The stages that a recipe wants."""
    return tuple(stage for stage in stages if stage.when is None or stage.when(recipe))


def planned_stage(stage: Stage, given: bool = False) -> PlannedStage:
    """A stage's line in plan.json. `given`: its records are those of the version added to."""
    return PlannedStage(
        name=stage.name,
        agent=stage.agent,
        writes=stage.writes.__name__,
        sifts=stage.sift is not None,
        beside=stage.beside,
        given=given,
    )


def main_before(stages: Sequence[Stage], stage: Stage) -> Stage | None:
    """The stage whose accepted records are a stage's rows: the last that is not `beside`."""
    earlier = stages[: [each.name for each in stages].index(stage.name)]
    return next((each for each in reversed(earlier) if not each.beside), None)


def check(stages: Iterable[Stage], recipe: Recipe) -> None:
    """Raises RecipeError if something is missing that a stage will need."""
    for stage in stages:
        if stage.check:
            stage.check(recipe)


@dataclass(frozen=True)
class ShardPart:
    """A shard or a part of one, as its lines: they take a fifth of the memory of records."""

    accepted: list[bytes]
    rejected: list[bytes]
    uses: list[Usage]  # of each record: sums of costs differ by how they are grouped

    @property
    def use(self) -> Usage:
        return sum(self.uses, Usage())


async def work_on(
    stage: Stage,
    records: Iterable[Record],
    context: Context,
    run: str,
    told: Callable[[str, Outcome], None],
) -> ShardPart:
    """What becomes of records, all at once; `told` hears of each outcome as it comes."""
    work = stage.work
    assert work

    async def one(record: Record) -> Outcome:
        named = getattr(record, "id", "") or getattr(record, "name", "")  # a source has no id
        WORK.set(Work(run, stage.name, stage.agent, named))
        outcome = await work(record, context)
        told(stage.name, outcome)
        return outcome

    outcomes = await together(one(record) for record in records)
    return ShardPart(
        [record_line(record) for outcome in outcomes for record in outcome.accepted],
        [record_line(record) for outcome in outcomes for record in outcome.rejected],
        [use_of(stage.name, outcome) for outcome in outcomes],
    )


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; the first error ends the other jobs and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as errors:
        first: BaseException = errors
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None
    return [task.result() for task in tasks]


def use_of(stage: str, outcome: Outcome) -> Usage:
    """What one record's work used. Records that one answer made share an equal provenance."""
    records: chain[Any] = chain(outcome.accepted, outcome.rejected)
    shares = {p for r in records for p in getattr(r, "provenance", ()) if p.stage == stage}
    # Sorted, as sums of costs differ by their order.
    sums = {name: sum(sorted(getattr(p, name) for p in shares)) for name in Usage.model_fields}
    return Usage.model_validate(sums)


@dataclass(frozen=True, eq=False)
class ShardTask:
    """What goes to a worker. What may hold a secret, or is long, is not shown."""

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
        return f"{self.run}-{self.stage.name}-{self.shard}"


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
            await gateway.cache.write_all([each._replace(run="") for each in task.known])
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
