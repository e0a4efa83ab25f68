"""One process's work on a run: shard by shard, several at once.

Stages are taken in legs. A leg begins where a stage needs all of what came before it (it draws,
or the stage before it settled) and reaches as far as records stream: a shard goes through the
leg's stages without waiting for other shards, and a record without waiting for others of its
shard. A stage that sifts is a leg of its own, and all its rows are one shard. What stands beside
the rows ends a leg, as the next stage reads what came before it. With a cluster a shard goes
through the stages of a leg one after the other, each on any worker. A stage's input always comes
off the disk or as if it did, so that a run that went on after a kill sees what an unbroken one
sees.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from threading import Event
from typing import Any, Protocol, TypeAlias, TypeVar

from toolloom.llm.log import WORK, Work
from toolloom.llm.shared import Stats
from toolloom.pipeline.cluster.foreman import Foreman
from toolloom.pipeline.shard import Part, together, work_on
from toolloom.pipeline.stage import Context, Sifted, Sifting, Stage, main_before, nothing_of
from toolloom.pipeline.store.files import Rows, Stopped
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.stage_files import Mark, StageFolder, StageMark, batches
from toolloom.schemas import Outcome, Recipe, Record, Usage

T = TypeVar("T")

RunShard: TypeAlias = Callable[[str, int, Callable[[], Awaitable[Mark]]], Awaitable[Mark]]
"""Called with a stage's name, a shard's number and the work; awaits the work and returns it."""


class Progress(Protocol):
    """Told of what happens in a run, while it happens."""

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        """The run begins."""

    def opened(self, stats: Stats) -> None:
        """The gateway's counters, live."""

    def worked(self, stage: str, outcome: Outcome) -> None:
        """A record's outcome, before its shard is on the disk."""

    def returned(self, stage: str, entered: int, mark: Mark) -> None:
        """A shard that so many records entered, from another machine: the outcomes of all."""

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        """A shard of so many records is finished; not `fresh` if an earlier process did it."""

    def stage_done(self, stage: str, mark: Mark) -> None:
        """A stage is complete; its mark counts what settling moved."""


class Silent:
    """Progress nobody looks at."""

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None: ...
    def opened(self, stats: Stats) -> None: ...
    def worked(self, stage: str, outcome: Outcome) -> None: ...
    def returned(self, stage: str, entered: int, mark: Mark) -> None: ...
    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None: ...
    def stage_done(self, stage: str, mark: Mark) -> None: ...


async def directly(stage: str, shard: int, work: Callable[[], Awaitable[Mark]]) -> Mark:
    """The `run_shard` that adds nothing."""
    return await work()


def legs(stages: Sequence[Stage], finished: Callable[[Stage], bool]) -> Iterator[list[Stage]]:
    """The unfinished stages, in groups through which a shard can go on its own."""
    leg: list[Stage] = []
    for stage in stages:
        if leg and (finished(stage) or stage.draws or stage.sift or _ends(leg[-1])):
            yield leg
            leg = []
        if not finished(stage):
            leg.append(stage)
    if leg:
        yield leg


async def _to_its_end(work: Callable[..., T], *given: Any, stop: Event | None = None) -> T:
    """What a function gives, called in a thread. Whoever is cancelled meanwhile sets `stop` and
    waits for it all the same: the run's folder is let go after it."""
    thread = asyncio.create_task(asyncio.to_thread(work, *given))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        if stop:
            stop.set()
        await asyncio.wait([thread])
        with suppress(Stopped):
            thread.result()
        raise


def _ends(stage: Stage) -> bool:
    """Whether a stage is complete before the next one begins, whatever that one is."""
    return bool(stage.settle or stage.sift or stage.beside)


def shards_in_flight(recipe: Recipe, stages: Iterable[Stage]) -> int:
    """Shards under way at once: enough records for each endpoint to be busy while others end.

    Three records for each request that may be under way, and two shards in any case.
    """
    requests: dict[tuple[str, str], int] = {}  # agents at one address share its limit
    for endpoint in (recipe.endpoint(stage.agent) for stage in stages if stage.agent):
        # Batches go through the endpoint's own address alone.
        for place in endpoint.places[: 1 if endpoint.batched else None]:
            requests[place] = max(requests.get(place, 0), endpoint.concurrency)
    return max(2, -(-3 * sum(requests.values()) // recipe.shard_size))


@dataclass(frozen=True)
class Job:
    """One process's work on a run."""

    folder: RunFolder
    context: Context
    stages: tuple[Stage, ...]
    run_shard: RunShard
    progress: Progress
    hire: Callable[[], Awaitable[Foreman]] | None = None  # asked once there is work for a cluster

    async def run(self) -> None:
        for stage in self.stages:
            if mark := self._files(stage).mark:
                self._files(stage).tidy()
                self.progress.stage_done(stage.name, mark)
        for leg in list(legs(self.stages, lambda s: self._files(s).mark is not None)):
            if leg[0].sift:
                await self._sift(leg[0], leg[0].sift)
                continue
            count = await self._run_leg(leg)
            for stage in leg:
                # In a thread: a driver that joins many rows has to tell its workers that it lives.
                mark = await _to_its_end(
                    self._files(stage).finish, count, stage.writes, stage.settle
                )
                self.progress.stage_done(stage.name, mark)

    def _files(self, stage: Stage) -> StageFolder:
        return self.folder.stage(stage.name)

    async def _sift(self, stage: Stage, sift: Callable[[Sifting], Iterator[Sifted]]) -> None:
        """A stage that sifts: all rows at once, in a thread that ends when nobody waits for it."""
        stop, files = Event(), self._files(stage)
        given = self._given(stage, stop)
        made: list[StageMark] = []

        async def work() -> Mark:
            WORK.set(Work(self.folder.id, stage.name))
            made.append(await _to_its_end(files.sift, sift(given), stop=stop))
            return made[0]

        mark = await self.run_shard(stage.name, 0, work)
        self.progress.shard_done(stage.name, 0, mark, given.rows.count, fresh=True)
        self.progress.stage_done(stage.name, mark)

    def _given(self, stage: Stage, stop: Event) -> Sifting:
        """What a stage that sifts or gathers may read."""
        names = {each.name for each in self.stages[: self.stages.index(stage)]}
        before = main_before(self.stages, stage)

        def earlier(name: str) -> Rows:
            return self.folder.stage(name).accepted(stop) if name in names else nothing_of(name)

        return Sifting(
            self.context.recipe,
            stage.name,
            earlier(before.name) if before else nothing_of(""),
            self.folder.known(stop),
            self._files(stage).path,
            earlier,
        )

    async def _run_leg(self, leg: list[Stage]) -> int:
        """Carry all shards through a leg; how many there were."""
        shards = enumerate(self._shards(leg[0]))
        away = None if self._stays(leg) or not self.hire else await self.hire()
        at_once = away.slots if away else shards_in_flight(self.context.recipe, leg)
        done: list[int] = []

        async def carry() -> None:
            # Workers share one iterator, so that no more shards are in memory than workers.
            for index, records in shards:
                if away:
                    await self._send(index, records, leg, away)
                else:
                    await self._carry(index, records, leg)
                done.append(index)

        await together(carry() for _ in range(at_once))
        return len(done)

    def _stays(self, leg: list[Stage]) -> bool:
        """Whether records of a leg, or of a later one, must be worked on here: what this process
        sends under the limits is told to the others once, when they are hired."""
        later = self.stages[self.stages.index(leg[0]) :]
        return any(stage.here and stage.here(self.context.recipe) for stage in later)

    async def _send(self, index: int, records: list[Any], leg: list[Stage], away: Foreman) -> None:
        """Have one shard taken through a leg, from where it stands, stage by stage."""
        given: Sequence[Any] = records
        reads: type[Record] | None = None
        for stage in leg:
            files = self._files(stage)
            if mark := files.shard_mark(index):
                self.progress.shard_done(stage.name, index, mark, len(given), fresh=False)
                given, reads = files.shard_records(index, stage.writes), None
                continue
            part = await away.work(stage, index, given, reads)
            mark = files.write_shard(index, part.accepted, part.rejected, part.use)
            self.progress.returned(stage.name, part.entered, mark)
            self.progress.shard_done(stage.name, index, mark, part.entered, fresh=True)
            given, reads = part.accepted, stage.writes

    def _shards(self, stage: Stage) -> Iterator[list[Any]]:
        """The input of a leg's first stage."""
        size, before = self.context.recipe.shard_size, main_before(self.stages, stage)
        if stage.gather:
            return batches(stage.gather(self._given(stage, Event())), size)
        if stage.draw:
            earlier = self._files(before).records(before.writes) if before else iter(())
            return batches(stage.draw(self.context.recipe, earlier), size)
        if before is None:
            raise ValueError(f"the first stage, {stage.name}, has nothing to draw from")
        return self._files(before).groups(before.writes, size)

    async def _carry(self, index: int, records: list[Any], leg: list[Stage]) -> None:
        """Take one shard through a leg, from where it stands; each record goes at its own pace."""
        coming: list[Coming] = [_known([record]) for record in records]
        works: list[Awaitable[None]] = []
        entering = len(records)
        for stage in leg:
            if mark := self._files(stage).shard_mark(index):
                self.progress.shard_done(stage.name, index, mark, entering, fresh=False)
                found = self._files(stage).shard_records(index, stage.writes)
                coming, entering = [_known([record]) for record in found], mark.accepted
            else:
                leaving: list[Coming] = [_open() for _ in coming]
                works.append(self._work_shard(stage, index, coming, leaving))
                coming = leaving
        await together(works)

    async def _work_shard(
        self, stage: Stage, index: int, coming: list[Coming], leaving: list[Coming]
    ) -> None:
        entering = 0

        async def work() -> Mark:
            nonlocal entering
            ways = zip(coming, leaving, strict=True)
            parts = await together(self._pass(stage, *way) for way in ways)
            entering = sum(part.entered for part in parts)
            return self._files(stage).write_shard(
                index,
                chain.from_iterable(part.accepted for part in parts),
                chain.from_iterable(part.rejected for part in parts),
                sum((use for part in parts for use in part.uses), Usage()),
            )

        mark = await self.run_shard(stage.name, index, work)
        self.progress.shard_done(stage.name, index, mark, entering, fresh=True)

    async def _pass(self, stage: Stage, coming: Coming, leaving: Coming) -> Part:
        """What becomes of the records that one place of the stage before accepted."""
        # Whoever gives up here must not cancel what the stage before will put there.
        records = list(await asyncio.shield(coming))
        coming.result().clear()  # they are large, and nobody else wants them
        part = await work_on(stage, records, self.context, self.folder.id, self.progress.worked)
        # As if off the disk: a run that went on after a kill reads it from there.
        leaving.set_result([stage.writes.model_validate(json.loads(x)) for x in part.accepted])
        return part


Coming: TypeAlias = "asyncio.Future[list[Any]]"
"""The records that enter or leave at one place of a shard, as soon as there are any."""


def _open() -> Coming:
    return asyncio.get_running_loop().create_future()


def _known(records: list[Any]) -> Coming:
    known = _open()
    known.set_result(records)
    return known
