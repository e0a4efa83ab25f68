"""What a stage is: a plain async function over one record, and where its records come from; and the
work on a shard's records, the same wherever it is done: here, or on a cluster's worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from toolloom.agents.ask import Job
from toolloom.llm import Gateway, Model
from toolloom.llm.messages import WORK, Work
from toolloom.pipeline.store.files import Rows, read_records, record_line
from toolloom.pipeline.store.run_folder import PlannedStage
from toolloom.schemas import (
    AgentName,
    JsonObject,
    Outcome,
    Recipe,
    Record,
    Rejected,
    Usage,
    seed_for,
)

if TYPE_CHECKING:
    from toolloom.pipeline.apis.search import Finder
    from toolloom.pipeline.environments.executed import Executions
    from toolloom.pipeline.worlds.library import Worlds


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
        from toolloom.pipeline.apis.search import Finder
        from toolloom.pipeline.environments.executed import Executions
        from toolloom.pipeline.worlds.library import Worlds, names

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


T = TypeVar("T")


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
    if work is None:
        raise ValueError(f"the stage {stage.name} has neither `work` nor `sift`")

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
        raise _first(errors) from None
    return [task.result() for task in tasks]


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def use_of(stage: str, outcome: Outcome) -> Usage:
    """What one record's work used. Records that one answer made share an equal provenance."""
    records: chain[Any] = chain(outcome.accepted, outcome.rejected)
    shares = {p for r in records for p in getattr(r, "provenance", ()) if p.stage == stage}
    # Sorted, as sums of costs differ by their order.
    sums = {name: sum(sorted(getattr(p, name) for p in shares)) for name in Usage.model_fields}
    return Usage.model_validate(sums)
