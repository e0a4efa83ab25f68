"""The work on a shard's records, the same wherever it is done: here, or on a cluster's worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from toolloom.llm.log import WORK, Work
from toolloom.pipeline.stage import Context, Stage
from toolloom.pipeline.store.files import record_line
from toolloom.schemas import Outcome, Record, Usage

T = TypeVar("T")


@dataclass(frozen=True)
class ShardPart:
    """A shard or a part of one, as its lines: they take a fifth of the memory of records."""

    entered: int
    accepted: list[bytes]
    rejected: list[bytes]
    uses: list[Usage]  # of each record: sums of costs differ by how they are grouped

    @classmethod
    def of(cls, stage: Stage, outcomes: Sequence[Outcome]) -> ShardPart:
        return cls(
            len(outcomes),
            [record_line(record) for outcome in outcomes for record in outcome.accepted],
            [record_line(record) for outcome in outcomes for record in outcome.rejected],
            [use_of(stage.name, outcome) for outcome in outcomes],
        )

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

    async def one(record: Record) -> Outcome:
        named = getattr(record, "id", "") or getattr(record, "name", "")  # a source has no id
        WORK.set(Work(run, stage.name, stage.agent, named))
        outcome = await _worker(stage)(record, context)
        told(stage.name, outcome)
        return outcome

    return ShardPart.of(stage, await together(one(record) for record in records))


def _worker(stage: Stage) -> Callable[[Any, Context], Awaitable[Outcome]]:
    if stage.work is None:
        raise ValueError(f"the stage {stage.name} has neither `work` nor `sift`")
    return stage.work


async def together(jobs: Iterable[Awaitable[T]]) -> list[T]:
    """Results in order; the first error ends the other jobs and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(job)) for job in jobs]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


async def _awaited(job: Awaitable[T]) -> T:
    return await job


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def use_of(stage: str, outcome: Outcome) -> Usage:
    """What one record's work used. Records that one answer made share an equal provenance."""
    records: chain[Any] = chain(outcome.accepted, outcome.rejected)
    shares = {p for r in records for p in getattr(r, "provenance", ()) if p.stage == stage}
    return Usage(
        requests=sum(p.requests for p in shares),
        prompt_tokens=sum(p.prompt_tokens for p in shares),
        cached_tokens=sum(p.cached_tokens for p in shares),
        completion_tokens=sum(p.completion_tokens for p in shares),
        cost=sum(sorted(p.cost for p in shares)),
    )
