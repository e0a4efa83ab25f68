"""Takes a few records of a run through its stages, and forecasts the whole from them.

The sample draws what the run draws, only less: some of its domains and a few queries. Its answers
go into the run's cache, so a second forecast costs nothing, and what was asked about domains and
APIs the run does not ask again.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolloom.llm.cache import address
from toolloom.pipeline.forecast import (
    OF_ROWS,
    Forecast,
    Gathered,
    Sample,
    Took,
    forecast,
    kind_of,
)
from toolloom.pipeline.job import Progress
from toolloom.pipeline.runner import run, standard_stages
from toolloom.pipeline.shard import use_of
from toolloom.pipeline.stage import Context, Sifting, Stage, planned
from toolloom.pipeline.store.run import RunFolder
from toolloom.schemas import Brief, BudgetReached, Domain, Need, Outcome, Recipe, Record, Usage

QUERIES = 12  # in a sample, unless told otherwise


async def estimate(
    recipe: Recipe,
    n: int = QUERIES,
    *,
    outputs: Path = Path("outputs"),
    cache: str | None = None,
    stages: Sequence[Stage] | None = None,
    progress: Progress | None = None,
) -> Forecast:
    """Take `n` queries through the stages, and forecast the whole run from what they took.

    `cache`: as for a run; by default that of `outputs`. The sample is asked directly, also where
    the run will use batches, which may take a day. Raises what a run raises.
    """
    chosen = planned(standard_stages() if stages is None else stages, recipe)
    took: dict[str, list[Took]] = {stage.name: [] for stage in chosen}
    gathered = {stage.name: Gathered() for stage in chosen if stage.gather}
    small = _direct(_shrunk(recipe, n))
    with tempfile.TemporaryDirectory(prefix="toolloom-estimate-") as name:
        try:
            summary = await run(
                small,
                outputs=Path(name),
                cache=str(address(outputs, cache)),
                stages=[
                    _counted(_watched(stage, recipe, took[stage.name]), gathered, n)
                    for stage in chosen
                ],
                progress=progress,
            )
        except BudgetReached as error:
            raise BudgetReached(f"The sample alone is too much. {error}") from error
        sample = Sample(took, _kept(RunFolder(Path(summary.path)), took), gathered)
    return forecast(recipe, chosen, sample, small.queries.count, summary)


def _shrunk(recipe: Recipe, n: int) -> Recipe:
    """The recipe with the queries of a sample; its domains are still those of the run."""
    changes = {
        "queries": recipe.queries.model_copy(update={"count": min(n, recipe.queries.count)}),
        "expand": recipe.expand and recipe.expand.model_copy(update={"rows": n}),
        "regenerate": None,
        "extend": None,
    }
    return recipe.model_copy(update=changes)


def _direct(recipe: Recipe) -> Recipe:
    """The recipe without batches."""
    direct = {"mode": "direct"}
    agents = {name: {**fields, **direct} for name, fields in recipe.agents.items()}
    model = recipe.model.model_copy(update=direct)
    return recipe.model_copy(update={"model": model, "agents": agents})


def _watched(stage: Stage, recipe: Recipe, took: list[Took]) -> Stage:
    """The stage with less to do, noting what each record takes."""

    given = stage.work
    if given is None:
        return stage

    async def work(record: Record, context: Context) -> Outcome:
        outcome = await given(record, context)
        use = _priced(use_of(stage.name, outcome), recipe, stage)
        took.append(Took(kind_of(record), len(outcome.accepted), use))
        return outcome

    def draw(small: Recipe, earlier: Iterable[Any]) -> Iterator[Record]:
        if stage.draw:
            yield from _fewer(stage.draw(small, earlier), _domains(recipe))

    # How many records a draw of fewer makes is for nobody to expect.
    expects = stage.expects if stage.reads is Need else None
    return dataclasses.replace(stage, work=work, draw=draw if stage.draw else None, expects=expects)


def _counted(stage: Stage, gathered: Mapping[str, Gathered], most: int) -> Stage:
    """The stage, if it gathers, with a note of what that is, and no more of it than `most`.

    What comes of the sample's own rows is little enough.
    """
    gather = stage.gather
    if gather is None:
        return stage
    note = gathered[stage.name]

    def some(given: Sifting) -> Iterator[Record]:
        note.rows, note.apis = given.rows.count, given.earlier("apis").count
        for record in gather(given):
            kind = kind_of(record)
            note.kinds[kind] += 1
            if kind.of in OF_ROWS or note.others() <= most:
                yield record

    return dataclasses.replace(stage, gather=some)


def _priced(use: Usage, recipe: Recipe, stage: Stage) -> Usage:
    """At the prices of the run, which may be those of batches."""
    endpoint = recipe.endpoint(stage.agent) if stage.agent else None
    price = recipe.prices.get(endpoint.model) if endpoint else None
    if endpoint is None or price is None or endpoint.mode != "batch":
        return use
    tokens = use.prompt_tokens, use.completion_tokens, use.cached_tokens
    return use.model_copy(update={"cost": price.cost(*tokens, batch=True)})


def _domains(recipe: Recipe) -> int:
    """Domains of a sample: enough for a query's pool, and three to see how they differ."""
    return max(3, -(-(recipe.queries.distractors + 4) // recipe.apis.per_domain))


def _fewer(records: Iterator[Record], domains: int) -> Iterator[Record]:
    """Briefs and domains evenly from all there are; every other record as it comes."""
    spread: list[Brief | Domain] = []
    for record in records:
        if isinstance(record, Brief | Domain):
            spread.append(record)
        else:
            yield record
    each = sum(getattr(record, "count", 1) for record in spread) / max(1, len(spread))
    number = min(len(spread), max(3, round(domains / max(1, each))))
    yield from (spread[place * len(spread) // number] for place in range(number))


def _kept(folder: RunFolder, took: Mapping[str, Sequence[Took]]) -> dict[str, float]:
    """The share of a stage's accepted records that settling left."""
    made = {name: sum(t.accepted for t in all_of_it) for name, all_of_it in took.items()}
    marks = {name: folder.stage(name).mark for name in took}
    return {name: m.accepted / made[name] for name, m in marks.items() if m and made[name]}
