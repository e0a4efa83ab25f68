"""Runs a recipe: all that is not finished yet, then the published version; and previews."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from toolloom.llm import Gateway
from toolloom.llm.cache import address
from toolloom.llm.gateway import Stats
from toolloom.pipeline.basis import Basis
from toolloom.pipeline.cluster.foreman import Foreman, foreman
from toolloom.pipeline.cluster.foreman import check as check_for_cluster
from toolloom.pipeline.cluster.order import Engine
from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.dataset.report import Summary, summarise
from toolloom.pipeline.extend import Ground
from toolloom.pipeline.job import Job, Progress, RunShard, Silent, directly
from toolloom.pipeline.stage import Context, Stage, planned, ready
from toolloom.pipeline.store.mirror import opened
from toolloom.pipeline.store.run import PlannedStage, RunFolder
from toolloom.schemas import (
    Granularity,
    Instruction,
    Recipe,
    Rejected,
    Sample,
    load_recipe,
)

T = TypeVar("T")

# A flow's parameters are JSON, because servers keep them; what a caller in the same process adds
# travels beside them. Not in flows.py: Prefect pickles what it serves, with its globals.
PROGRESS: ContextVar[Progress | None] = ContextVar("PROGRESS", default=None)
STAGES: ContextVar[Sequence[Stage] | None] = ContextVar("STAGES", default=None)
CACHE: ContextVar[str | None] = ContextVar("CACHE", default=None)  # its URL may hold a password


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
    cache, if it is not that of `outputs`: a path or a SQLAlchemy URL. `engine`: opens the cluster
    that works on shards of stages that ask; without one they are worked on here.
    """
    chosen = planned(standard_stages() if stages is None else stages, recipe)
    folder, started = RunFolder(outputs / "runs" / recipe.run_id), time.monotonic()
    basis = Basis.of(recipe, outputs) or Ground.of(recipe, outputs)
    async with folder.held():
        if basis:
            chosen = basis.stages(folder, chosen)
            basis.prepare(folder, chosen)
        unfinished = any(folder.stage(stage.name).mark is None for stage in chosen)
        where = address(outputs, cache)
        if unfinished:
            ready(chosen, recipe)
            if engine:
                check_for_cluster(recipe, where)
        folder.open(
            recipe, [PlannedStage.of(s, basis is not None and basis.gives(s)) for s in chosen]
        )
        watch = progress or Silent()
        watch.planned(recipe, chosen)
        stats = Stats()
        if unfinished:
            async with Gateway(
                where,
                prices=recipe.prices,
                budget=recipe.budget,
                run=recipe.run_id,
            ) as gateway:
                watch.opened(gateway.stats)
                context = Context.of(recipe, gateway)
                async with AsyncExitStack() as stack:
                    hire = engine and Hire(stack, engine, context, where)
                    await Job(folder, context, chosen, run_shard, watch, hire).run()
                stats = gateway.stats
    return summarise(
        folder,
        asked=stats.asked,
        cached=stats.cached,
        tokens=stats.prompt_tokens + stats.completion_tokens,
        cost=stats.cost,
        seconds=time.monotonic() - started,
    )


@dataclass
class Hire:
    """Finds a run's foreman when it is first called, and opens the cluster for him."""

    stack: AsyncExitStack
    engine: Engine
    context: Context
    cache: str | Path
    found: Foreman | None = None

    async def __call__(self) -> Foreman:
        if self.found is None:
            cluster = await self.stack.enter_async_context(self.engine())
            recipe, gateway = self.context.recipe, self.context.gateway
            made = foreman(cluster, recipe, str(self.cache), gateway)
            self.found = await self.stack.enter_async_context(made)
        return self.found


@dataclass(frozen=True)
class Made:
    """A finished run and the version it was published as; None if nothing was accepted."""

    summary: Summary
    published: Published | None


async def make_dataset(
    recipe: Recipe,
    *,
    outputs: Path = Path("outputs"),
    stages: Sequence[Stage] | None = None,
    run_shard: RunShard = directly,
    progress: Progress | None = None,
    cache: str | None = None,
    engine: Engine | None = None,
) -> Made:
    """The whole job: run, then publish. A finished run that is published is only summed up."""
    summary = await run(
        recipe,
        outputs=outputs,
        stages=stages,
        run_shard=run_shard,
        progress=progress,
        cache=cache,
        engine=engine,
    )
    if not summary.counts.made:
        return Made(summary, None)
    return Made(summary, publish(RunFolder(Path(summary.path)), outputs))


@dataclass(frozen=True)
class Preview:
    """A few rows of what a recipe makes: samples, rows of templates after them, instructions."""

    samples: tuple[Sample, ...]
    rejected: tuple[Rejected, ...]
    instructions: tuple[Instruction, ...] = ()


async def preview(
    recipe: Recipe,
    n: int = 3,
    *,
    stages: Sequence[Stage] | None = None,
    progress: Progress | None = None,
) -> Preview:
    """Up to `n` samples and all that was rejected on the way, through the same stages; as many
    rows of templates and requests at five granularities, if the recipe asks for them.

    Works in a folder of its own that is removed: no run sees it, and it sees no run's answers.
    """
    from toolloom.pipeline.dataset.unfold import expanded  # late: few recipes have templates

    with tempfile.TemporaryDirectory(prefix="toolloom-preview-") as name:
        outputs, cache = Path(name), str(Path(name) / "cache.sqlite")
        made = await run(
            shrunk(recipe, n), outputs=outputs, stages=stages, progress=progress, cache=cache
        )
        folder = RunFolder(Path(made.path))
        rows = chain(islice(folder.samples(), n), islice(expanded(folder), n))
        return Preview(
            tuple(map(Sample.model_validate, rows)),
            tuple(map(Rejected.model_validate, folder.rejected())),
            tuple(islice(folder.instructions(), len(Granularity) * n)),
        )


def shrunk(recipe: Recipe, n: int) -> Recipe:
    """A recipe for about `n` rows: three times the queries, as some are rejected, and no more
    APIs than their pools need."""
    apis, queries = recipe.apis, recipe.queries
    pool = queries.distractors + 4
    domains = min(apis.domains, max(3, -(-pool // apis.per_domain)))
    changes = {
        "apis": apis.model_copy(update={"domains": domains}),
        "queries": queries.model_copy(update={"count": min(queries.count, 3 * n)}),
        "regenerate": None,
        "extend": None,
        # No more of what its few APIs and samples need.
        "expand": recipe.expand and recipe.expand.model_copy(update={"rows": n, "ask": False}),
        "rewrite": recipe.rewrite and recipe.rewrite.model_copy(update={"seeds": ()}),
    }
    return recipe.model_copy(update=changes)


def run_recipe(
    recipe: Recipe | str | Path,
    outputs: str | Path = "outputs",
    *,
    stages: Sequence[Stage] | None = None,
    progress: Progress | None = None,
    cache: str | None = None,
) -> Made:
    """`make_dataset` for callers that do not await; the recipe may be the path of its file."""
    return waited(
        make_dataset(
            _loaded(recipe), outputs=opened(outputs), stages=stages, progress=progress, cache=cache
        )
    )


def preview_recipe(
    recipe: Recipe | str | Path,
    n: int = 3,
    *,
    stages: Sequence[Stage] | None = None,
    progress: Progress | None = None,
) -> Preview:
    """`preview` for callers that do not await; the recipe may be the path of its file."""
    return waited(preview(_loaded(recipe), n, stages=stages, progress=progress))


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


def standard_stages() -> tuple[Stage, ...]:
    """The stages; imported late, because tests and tools bring their own."""
    from toolloom.pipeline.stages import STAGES

    return STAGES
