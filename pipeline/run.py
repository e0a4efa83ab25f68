"""Runs a recipe: all that is not finished yet, then the published version; and previews. `Progress`
is how far a run is, in figures.

Stages are taken in segments. A segment begins where a stage needs all of what came before it (it
feeds itself, or the stage before it settled) and reaches as far as records stream: a shard goes
through the segment's stages one after the other, here or on workers of a cluster, without waiting
for other shards; there are as many under way as the endpoints need to be busy. A stage that sifts
is a segment of its own, and all its rows are one shard. What stands beside the rows ends a
segment, as the next stage reads what came before it. A stage's input always comes off the disk, so
that a run that went on after a kill sees what an unbroken one sees.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

from toolloom.llm import Gateway
from toolloom.llm.cache import address
from toolloom.llm.client import Stats
from toolloom.llm.messages import WORK, Work
from toolloom.pipeline.dataset.figures import Summary, count
from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.growth import begin
from toolloom.pipeline.stage import (
    NOTHING,
    Cluster,
    Context,
    Engine,
    Sifted,
    Stage,
    StageInput,
    check,
    main_before,
    planned,
    planned_stage,
    together,
    use_of,
    work_on,
)
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store.files import Stopped
from toolloom.pipeline.store.run_folder import Mark, RunFolder, StageFolder, batches
from toolloom.pipeline.store.sync import local_outputs
from toolloom.pipeline.worlds.library import keep
from toolloom.schemas import (
    Granularity,
    Instruction,
    Outcome,
    Recipe,
    Record,
    Rejected,
    Sample,
    load_recipe,
)

T = TypeVar("T")
SECONDS_BETWEEN_LINES = 20.0

# A flow's parameters are JSON, because servers keep them; what a caller in the same process adds
# travels beside them: `progress`, `stages` and `cache`, whose path may hold a password. Not in
# flows.py: Prefect pickles what it serves, with its globals.
BESIDE: ContextVar[dict[str, Any]] = ContextVar("BESIDE")

RunShard: TypeAlias = Callable[[str, int, Callable[[], Awaitable[Mark]]], Awaitable[Mark]]
"""Called with a stage's name, a shard's number and the work; awaits the work and returns it."""


async def directly(stage: str, shard: int, work: Callable[[], Awaitable[Mark]]) -> Mark:
    """The `run_shard` that adds nothing."""
    return await work()


async def run(
    recipe: Recipe,
    *,
    outputs: Path = Path("outputs"),
    stages: Sequence[Stage] | None = None,
    run_shard: RunShard = directly,
    progress: Progress | None = None,
    cache: str | None = None,
    engine: Engine | None = None,
) -> Summary:
    """Run what is not finished yet and sum up the whole.

    Raises RecipeError at the start if something a stage will need is missing, and EndpointError
    when an endpoint cannot serve the run: what is finished stays, and the same call goes on.
    A run that is finished opens no gateway. One that makes a split of a version anew begins with
    that version's APIs, and one that adds to it with its samples too. `cache`: the response
    cache's path, if it is not that of `outputs`. `engine`: opens the cluster
    that works on shards of stages that ask; without one they are worked on here.
    """
    chosen = planned(STAGES if stages is None else stages, recipe)
    folder, started = RunFolder(outputs / "runs" / recipe.run_id), time.monotonic()
    start = begin(recipe, outputs, chosen) if recipe.regenerate or recipe.extend else None
    with folder.locked():
        if start:
            start.write(folder)
            chosen = start.stages
        unfinished = any(folder.stage(stage.name).mark is None for stage in chosen)
        where = address(outputs, cache)
        if unfinished:
            check(chosen, recipe)
        filled = start.filled if start else frozenset()
        folder.open(recipe, [planned_stage(stage, stage.name in filled) for stage in chosen])
        watch = progress or Progress()
        watch.planned(recipe, chosen)
        stats = Stats()
        if unfinished:
            gateway = Gateway(where, prices=recipe.prices, budget=recipe.budget, run=recipe.run_id)
            async with gateway, AsyncExitStack() as stack:
                watch.opened(gateway.stats)
                known = folder.worlds if start or recipe.writes_worlds else tuple
                context = Context.of(recipe, gateway, known)
                cluster: Cluster | None = None

                async def away() -> Cluster | None:
                    nonlocal cluster
                    if engine and not cluster:
                        workers = await stack.enter_async_context(engine())
                        cluster = Cluster(workers, recipe, gateway, known)
                    return cluster

                await RunJob(folder, context, chosen, run_shard, watch, away).run()
            stats = gateway.stats
    return Summary(
        run=folder.id,
        path=str(folder.path),
        counts=count(folder),
        asked=stats.asked,
        cached=stats.cached,
        tokens=stats.used.tokens,
        cost=stats.used.cost,
        seconds=time.monotonic() - started,
    )


@dataclass(frozen=True)
class Made:
    """A finished run and the version it was published as; None if nothing was accepted."""

    summary: Summary
    published: Published | None


async def make_dataset(recipe: Recipe, *, outputs: Path = Path("outputs"), **options: Any) -> Made:
    """The whole job: run, with its options, then publish. A finished run that is published is only
    summed up."""
    summary = await run(recipe, outputs=outputs, **options)
    folder = RunFolder(Path(summary.path))
    if recipe.writes_worlds and recipe.regenerate is None:
        keep(folder.worlds(), outputs)
    return Made(summary, publish(folder, outputs) if summary.counts.made else None)


class Preview(NamedTuple):
    """A few rows of what a recipe makes: samples, rows of templates after them, instructions."""

    samples: tuple[Sample, ...]
    rejected: tuple[Rejected, ...]
    instructions: tuple[Instruction, ...] = ()


async def preview(recipe: Recipe, n: int = 3, **options: Any) -> Preview:
    """Up to `n` samples and all that was rejected on the way, through the same stages; as many
    rows of templates and requests at five granularities, if the recipe asks for them.

    Works in a folder of its own that is removed: no run sees it, and it sees no run's answers.
    """
    # No more APIs than the pools of its queries need.
    few = max(3, -(-(recipe.queries.distractors + 4) // recipe.apis.per_domain))
    domains = 1 if recipe.writes_worlds else min(recipe.apis.domains, few)
    small = sample_of(
        recipe,
        queries=3 * n,  # as some are rejected
        expanded=n,
        apis=recipe.apis.model_copy(update={"domains": domains}),
        rewrite=recipe.rewrite and recipe.rewrite.model_copy(update={"seeds": ()}),
    )
    with tempfile.TemporaryDirectory(prefix="toolloom-preview-") as name:
        outputs, cache = Path(name), str(Path(name) / "cache.sqlite")
        made = await run(small, outputs=outputs, cache=cache, **options)
        folder = RunFolder(Path(made.path))
        rows = chain(islice(folder.samples(), n), islice(folder.expanded(), n))
        return Preview(
            tuple(map(Sample.model_validate, rows)),
            tuple(map(Rejected.model_validate, folder.rejected())),
            tuple(islice(folder.instructions(), len(Granularity) * n)),
        )


def sample_of(recipe: Recipe, queries: int, expanded: int, **changes: Any) -> Recipe:
    """A recipe that makes no more than so many queries and rows of templates, with `changes`."""
    plan, played = recipe.queries, recipe.worlds
    fewer = played and played.model_copy(update={"rows": min(played.rows or queries, queries)})
    smaller = {
        "queries": plan.model_copy(update={"count": min(plan.count, queries)}),
        "worlds": fewer,
        "expand": recipe.expand and recipe.expand.model_copy(update={"rows": expanded}),
        "regenerate": None,
        "extend": None,
    }
    return recipe.model_copy(update={**smaller, **changes})


def run_recipe(
    recipe: Recipe | str | Path, outputs: str | Path = "outputs", **options: Any
) -> Made:
    """`make_dataset` for callers that do not await; the recipe may be the path of its file."""
    return waited(make_dataset(_loaded(recipe), outputs=local_outputs(outputs), **options))


def preview_recipe(recipe: Recipe | str | Path, n: int = 3, **options: Any) -> Preview:
    """`preview` for callers that do not await; the recipe may be the path of its file."""
    return waited(preview(_loaded(recipe), n, **options))


def waited(work: Coroutine[Any, Any, T]) -> T:
    """The result of async work; in a thread where a loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _loaded(recipe: Recipe | str | Path) -> Recipe:
    return recipe if isinstance(recipe, Recipe) else load_recipe(recipe)


def segments(stages: Sequence[Stage], finished: Callable[[Stage], bool]) -> Iterator[list[Stage]]:
    """The unfinished stages, in groups through which a shard can go on its own."""
    segment: list[Stage] = []
    for stage in stages:
        # A stage that settles, sifts or stands beside is complete before the next one begins.
        last = segment[-1] if segment else stage
        ended = last.settle or last.sift or last.beside
        if segment and (finished(stage) or stage.feed or stage.sift or ended):
            yield segment
            segment = []
        if not finished(stage):
            segment.append(stage)
    if segment:
        yield segment


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


def shards_in_flight(recipe: Recipe, stages: Iterable[Stage]) -> int:
    """Shards under way at once: enough records for each endpoint to be busy while others end.

    Three records for each request that may be under way, and two shards in any case.
    """
    requests: dict[tuple[str, str], int] = {}  # agents at one address share its limit
    for endpoint in (recipe.endpoint(stage.agent) for stage in stages if stage.agent):
        place = endpoint.base_url, endpoint.key_env
        requests[place] = max(requests.get(place, 0), endpoint.concurrency)
    return max(2, -(-3 * sum(requests.values()) // recipe.shard_size))


class RunJob(NamedTuple):
    """One process's work on a run."""

    folder: RunFolder
    context: Context
    stages: tuple[Stage, ...]
    run_shard: RunShard
    progress: Progress
    away: Callable[[], Awaitable[Cluster | None]]  # asked once a cluster has work

    async def run(self) -> None:
        for stage in self.stages:
            if mark := self._files(stage).mark:
                self._files(stage).tidy()
                self.progress.stage_done(stage.name, mark)
        for segment in list(segments(self.stages, lambda s: self._files(s).mark is not None)):
            if segment[0].sift:
                await self._sift(segment[0], segment[0].sift)
                continue
            count = await self._run_segment(segment)
            for stage in segment:
                # In a thread: a driver that joins many rows has to tell its workers that it lives.
                mark = await _to_its_end(
                    self._files(stage).finish, count, stage.writes, stage.settle
                )
                self.progress.stage_done(stage.name, mark)

    def _files(self, stage: Stage) -> StageFolder:
        return self.folder.stage(stage.name)

    async def _sift(self, stage: Stage, sift: Callable[[StageInput], Iterator[Sifted]]) -> None:
        """A stage that sifts: all rows at once, in a thread that ends when nobody waits for it."""
        stop, files = Event(), self._files(stage)
        given = self._input(stage, stop)

        async def work() -> Mark:
            WORK.set(Work(self.folder.id, stage.name))
            return await _to_its_end(files.sift, sift(given), stop=stop)

        mark = await self.run_shard(stage.name, 0, work)
        self.progress.shard_done(stage.name, 0, mark, given.rows.count, fresh=True)
        self.progress.stage_done(stage.name, mark)

    def _input(self, stage: Stage, stop: Event) -> StageInput:
        """What a stage that feeds itself or sifts may read."""
        before = main_before(self.stages, stage)
        return StageInput(
            self.context.recipe,
            stage.name,
            self._files(before).accepted(stop) if before else NOTHING,
            self.folder.known(stop),
            lambda name: self.folder.stage(name).accepted(stop),
            before.writes if before else Record,
        )

    async def _run_segment(self, segment: list[Stage]) -> int:
        """Carry all shards through a segment; how many there were."""
        shards = enumerate(self._shards(segment[0]))
        cluster = await self.away() if any(map(self._leaves, segment)) else None
        at_once = cluster.slots if cluster else shards_in_flight(self.context.recipe, segment)
        done: list[int] = []

        async def carry() -> None:
            # They share one iterator, so that no more shards are in memory than are under way.
            for index, records in shards:
                await self._carry(index, records, segment, cluster)
                done.append(index)

        await together(carry() for _ in range(at_once))
        return len(done)

    def _leaves(self, stage: Stage) -> bool:
        """Whether a stage's records may be worked on elsewhere."""
        return not (stage.here and stage.here(self.context.recipe))

    async def _carry(
        self, index: int, records: list[Any], segment: list[Stage], cluster: Cluster | None
    ) -> None:
        """Take one shard through a segment, from where it stands, stage after stage."""
        for stage in segment:
            files, entering = self._files(stage), len(records)
            before = files.shard_mark(index)
            if before:
                mark = before
            elif cluster and self._leaves(stage) and records:
                part = await cluster.run(stage, index, records)
                mark = files.write_shard(index, part.accepted, part.rejected, part.use)
                self.progress.returned(stage.name, entering, mark)
            else:
                mark = await self.run_shard(
                    stage.name, index, partial(self._work, stage, index, records)
                )
            self.progress.shard_done(stage.name, index, mark, entering, fresh=before is None)
            records = files.shard_records(index, stage.writes)

    async def _work(self, stage: Stage, index: int, records: list[Any]) -> Mark:
        part = await work_on(stage, records, self.context, self.folder.id, self.progress.worked)
        return self._files(stage).write_shard(index, part.accepted, part.rejected, part.use)

    def _shards(self, stage: Stage) -> Iterator[list[Any]]:
        """The input of a segment's first stage."""
        size, before = self.context.recipe.shard_size, main_before(self.stages, stage)
        if stage.feed:
            return batches(stage.feed(self._input(stage, Event())), size)
        assert before
        return self._files(before).groups(before.writes, size)


@dataclass
class StageFigures:
    """One stage. `done` counts records that entered it; each may give several, or none."""

    name: str
    expects: Callable[[int], int | None]
    asks: bool = True  # a model
    beside: bool = False  # what it makes stands beside the rows
    late: bool = False  # it feeds itself, so that its total is a forecast until it is finished
    done: int = 0
    accepted: int = 0
    rejected: int = 0
    requests: int = 0  # that the records took which were worked on since this start of the run
    worked: int = 0  # how many these are, on any machine
    finished: bool = False
    total: int | None = None
    sure: bool = False  # `total` is known, not forecast

    def forecast(self, before: StageFigures | None) -> None:
        """Set the total from what the stage before accepted, or will if it goes on like this."""
        if self.finished:
            self.total, self.sure = self.done, True
            return
        coming = before.coming() if before else 0
        total = None if coming is None else self.expects(coming)
        self.total = None if total is None else max(total, self.done)
        known = before is None or before.finished or self.expects(0) == self.expects(1)
        self.sure = known and not self.late

    def coming(self) -> int | None:
        """How many records it will have accepted in the end."""
        if self.finished or self.total is None:
            return self.accepted if self.finished else None
        rate = self.accepted / self.done if self.done else 1.0
        return round(self.accepted + (self.total - self.done) * rate)

    def requests_left(self) -> float | None:
        """None before it is known what a record takes."""
        if self.finished or not self.asks or self.total == self.done:
            return 0.0
        if self.total is None or not self.worked:
            return None
        return (self.total - self.done) * self.requests / self.worked


class Progress:
    """Told of what happens in a run, while it happens, and shows nothing itself: what shows it is
    derived from it, a terminal and log lines in pages/screen.py. `on_start` is called when its work
    begins, after what it needs is started."""

    def __init__(self) -> None:
        self.stages: dict[str, StageFigures] = {}
        self.on_start: Callable[[], None] = lambda: None
        self.run = ""
        self._stats: Stats | None = None
        self._priced = False
        self._began = self._shown = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def say(self, event: str, message: str, **facts: Any) -> None:
        """Show something that happens once."""

    def show(self) -> None:
        """Show how far the run is."""

    def planned(self, recipe: Recipe, stages: Sequence[Stage]) -> None:
        """The run begins."""
        self.on_start()
        self.run, self._priced = recipe.run_id, bool(recipe.prices)
        self.stages = {
            s.name: StageFigures(
                s.name, _expecting(s, recipe), bool(s.agent), s.beside, s.beside and bool(s.feed)
            )
            for s in stages
        }

    def opened(self, stats: Stats) -> None:
        """The gateway's counters, live."""
        self._stats = stats

    def worked(self, stage: str, outcome: Outcome) -> None:
        """A record's outcome, before its shard is on the disk."""
        requests = use_of(stage, outcome).requests
        self._add(stage, 1, len(outcome.accepted), len(outcome.rejected), requests)

    def returned(self, stage: str, entered: int, mark: Mark) -> None:
        """A shard that so many records entered, from another machine: the outcomes of all."""
        self._add(stage, entered, mark.accepted, mark.rejected, mark.use.requests)

    def _add(
        self, stage: str, done: int, accepted: int, rejected: int, requests: int | None = None
    ) -> None:
        """`requests`: None for records of before this start of the run."""
        figures = self.stages[stage]
        figures.done += done
        figures.accepted += accepted
        figures.rejected += rejected
        if requests is not None:
            figures.worked += done
            figures.requests += requests
        if time.monotonic() - self._shown > SECONDS_BETWEEN_LINES:
            self._shown = time.monotonic()
            self.show()

    def shard_done(self, stage: str, shard: int, mark: Mark, records: int, fresh: bool) -> None:
        """A shard of so many records is finished; not `fresh` if an earlier process did it."""
        if not fresh:
            self._add(stage, records, mark.accepted, mark.rejected)

    def stage_done(self, stage: str, mark: Mark) -> None:
        """A stage is complete. Its mark replaces the counts: settling may have rejected some."""
        known = self.stages[stage]
        known.accepted, known.rejected, known.finished = mark.accepted, mark.rejected, True
        known.done = known.done or mark.accepted + mark.rejected
        self._shown = time.monotonic()
        self.show()

    def figures(self) -> list[StageFigures]:
        """The stages with their totals as far as they can be told now."""
        before: StageFigures | None = None
        stages = list(self.stages.values())  # the bars are drawn by another thread
        for stage in stages:
            stage.forecast(before)
            if not stage.beside:
                before = stage
        return stages

    def seconds_left(self) -> float | None:
        """A forecast from the requests that records took so far and the speed so far."""
        stages = self.figures()
        left = [stage.requests_left() for stage in stages]
        answers = self._stats.asked + self._stats.cached if self._stats else 0
        if None in left or not answers:
            return None
        # Requests that no finished record accounts for belong to records under way.
        ahead = max(0, answers - sum(stage.requests for stage in stages))
        return max(0.0, sum(filter(None, left)) - ahead) * self._seconds() / answers

    def _seconds(self) -> float:
        return max(time.monotonic() - self._began, 1e-3)

    def facts(self) -> dict[str, Any]:
        """The counters, the speeds and the time as JSON values; no cost without prices."""
        seconds, stats, left = self._seconds(), self._stats, self.seconds_left()
        if stats is None:
            return {"seconds": round(seconds, 1)}
        return {
            "requests": stats.asked,
            "cached": stats.cached,
            "requests_per_second": round(stats.asked / seconds, 1),
            "tokens_per_second": round(stats.used.completion_tokens / seconds, 1),
            "retries": stats.retries,
            **({"cost": round(stats.used.cost, 6)} if self._priced else {}),
            "seconds": round(seconds, 1),
            **({} if left is None or left < 1 else {"seconds_left": round(left)}),
        }


def _expecting(stage: Stage, recipe: Recipe) -> Callable[[int], int | None]:
    """How many records enter a stage, from how many the stage before accepted."""
    if stage.expects:
        return partial(stage.expects, recipe)
    return lambda coming: None if stage.feed else coming
