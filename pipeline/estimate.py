"""Forecasts what a whole run will take, from a few of its records that go through its stages.

The sample draws what the run draws, only less: some of its domains and a few queries. Its answers
go into the run's cache, so a second forecast costs nothing, and what was asked about domains and
APIs the run does not ask again. What a record took on the average is multiplied by how many will
enter its stage; the range is three standard errors of that, of which a part is that the stages
before may accept more or fewer than those of the sample.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from toolloom.llm.cache import address
from toolloom.pipeline.dataset.figures import Summary
from toolloom.pipeline.run import Progress, run, sample_of
from toolloom.pipeline.stage import Context, Stage, StageInput, planned, use_of
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.schemas import (
    ApiSource,
    Brief,
    BudgetReached,
    Domain,
    Need,
    Outcome,
    Recipe,
    Record,
    Seed,
    Usage,
    World,
    WorldPlan,
)

QUERIES = 12  # in a sample, unless told otherwise
DEVIATIONS = 3.0  # standard errors, on each side of what is expected: samples are small
MEASURES = tuple(Usage.model_fields)


class StageForecast(Record):
    """What a stage will do."""

    name: str
    agent: str
    records: int = Field(description="Records that enter it.")
    accepted: int
    use: Usage


class Total(Record):
    """What a whole run takes, and the rows it makes."""

    accepted: int
    use: Usage


class Limit(Record):
    """A limit of the budget, beside what the run will take of it."""

    name: str
    limit: float
    low: float
    expected: float
    high: float


class Forecast(Record):
    """What a run will do and ask, as a sample of it suggests."""

    run: str
    stages: tuple[StageForecast, ...]
    expected: Total
    low: Total = Field(description="Each number on its own: fewer are unlikely.")
    high: Total = Field(description="Each number on its own: more are unlikely.")
    limits: tuple[Limit, ...] = Field(description="Of the recipe's budget; empty without one.")
    unseen: tuple[str, ...] = Field(description="Stages that no record of the sample reached.")
    queries: int = Field(description="Queries of the sample.")
    sample: Summary = Field(description="What the sample came to, and what it cost.")


@dataclass
class Sampled:
    """What a stage did in a sample. Records that come of no row (sources, worlds, foreign trees)
    are there in a sample as they are in the run: they stand alone."""

    fed: Counter[bool] = field(default_factory=Counter)  # by whether they stand alone
    # What each record took: how many it came to, then as in `Usage`.
    took: dict[bool, list[list[float]]] = field(default_factory=lambda: {True: [], False: []})
    rows: int = 0  # that it was fed from
    kept: float = 1.0  # of what was accepted, after settling


async def estimate(
    recipe: Recipe,
    n: int = QUERIES,
    *,
    outputs: Path = Path("outputs"),
    cache: str | None = None,
    stages: Sequence[Stage] = STAGES,
    progress: Progress | None = None,
) -> Forecast:
    """Take `n` queries through the stages, and forecast the whole run from what they took.

    `cache`: as for a run; by default that of `outputs`. The sample is asked directly, also where
    the run will use batches, which may take a day. Raises what a run raises.
    """
    chosen = planned(stages, recipe)
    sampled, direct = {stage.name: Sampled() for stage in chosen}, {"mode": "direct"}
    # The queries of a sample, without batches; its domains are the run's.
    agents = {name: {**fields, **direct} for name, fields in recipe.agents.items()}
    model = recipe.model.model_copy(update=direct)
    small = sample_of(recipe, queries=n, expanded=n, agents=agents, model=model)
    with tempfile.TemporaryDirectory(prefix="toolloom-estimate-") as name:
        try:
            summary = await run(
                small,
                outputs=Path(name),
                cache=str(address(outputs, cache)),
                stages=[_watched(stage, recipe, sampled[stage.name], n) for stage in chosen],
                progress=progress,
            )
        except BudgetReached as error:
            raise BudgetReached(f"The sample alone is too much. {error}") from error
        folder = RunFolder(Path(summary.path))
        for stage, did in sampled.items():
            accepted = sum(record[0] for kind in did.took.values() for record in kind)
            if accepted and (mark := folder.stage(stage).mark):
                did.kept = mark.accepted / accepted
    return forecast(recipe, chosen, sampled, small.queries.count, summary)


def _watched(stage: Stage, recipe: Recipe, did: Sampled, most: int) -> Stage:
    """The stage with less to do, noting what it is fed and what each record takes."""
    given, source = stage.work, stage.feed
    if given is None:
        return stage
    endpoint = recipe.endpoint(stage.agent) if stage.agent else None
    batched = recipe.prices.get(endpoint.model) if endpoint and endpoint.batched else None

    async def work(record: Record, context: Context) -> Outcome:
        outcome = await given(record, context)
        use = use_of(stage.name, outcome)
        if batched:  # the prices of the run, though the sample is asked directly
            tokens = use.prompt_tokens, use.completion_tokens, use.cached_tokens
            use = use.model_copy(update={"cost": batched.cost(*tokens, batch=True)})
        took = [float(getattr(use, measure)) for measure in MEASURES]
        did.took[_alone(record)].append([len(outcome.accepted), *took])
        return outcome

    def feed(given: StageInput) -> Iterator[Record]:
        assert source
        did.rows = given.rows.count
        # Of domains, enough for a query's pool, and three to see how they differ; of worlds one.
        pool = recipe.queries.distractors + 4
        domains = 1 if stage.beside else max(3, -(-pool // recipe.apis.per_domain))
        spread: list[Brief | Domain] = []
        for record in source(given):
            alone = _alone(record)
            did.fed[alone] += 1
            if isinstance(record, Brief | Domain):
                spread.append(record)
            elif not (isinstance(record, Seed) and alone) or did.fed[alone] <= most:
                yield record
        each = sum(getattr(record, "count", 1) for record in spread) / max(1, len(spread))
        number = min(len(spread), max(1 if stage.beside else 3, round(domains / max(1, each))))
        yield from (spread[place * len(spread) // number] for place in range(number))

    # How many records a feed of fewer makes is for nobody to expect.
    expects = stage.expects if stage.reads is Need else None
    return dataclasses.replace(stage, work=work, feed=source and feed, expects=expects)


def _alone(record: Record) -> bool:
    if isinstance(record, Seed):
        return record.source == "toolbench"
    return isinstance(record, ApiSource | World | WorldPlan)


def forecast(
    recipe: Recipe,
    stages: Sequence[Stage],
    sampled: dict[str, Sampled],
    queries: int,
    summary: Summary,
) -> Forecast:
    """Send the whole run's records through the stages: what is accepted enters the next.

    Stages that sift let everything pass here, as what a few rows have in common says nothing of
    many; and templates get all the rows they are to have.
    """
    told, unseen = list[StageForecast](), list[str]()
    total, variance = np.zeros((2, 1 + len(MEASURES)))  # as in Sampled.took
    expanded = doubt = 0.0  # doubt: the variance of the rows' ratio to what is expected
    for stage in stages:
        did, rows = sampled[stage.name], float(total[0])
        taken, error = np.zeros((2, len(total)))
        if stage.sift:
            entering, taken[0], error[0] = rows, rows, variance[0]
            if stage.name == "expanded" and recipe.expand and rows:
                taken[0] = expanded = recipe.expand.rows
        else:
            drawn = rows
            if stage.beside:
                drawn *= did.fed[False] / did.rows if did.rows else 0.0
            elif stage.expects:
                drawn = max(0.0, stage.expects(recipe, round(rows)) - did.fed[True])
            elif stage.feed:  # a stage of a test's own
                drawn = recipe.queries.count if stage.name == "queries" else did.fed[False]
            entering = did.fed[True] + drawn
            given = 0.0 if stage.reads is Need else doubt  # the recipe says how many queries
            for alone, number, before in ((True, did.fed[True], 0.0), (False, drawn, given)):
                if number and did.took[alone]:
                    values = np.array(did.took[alone]) * [did.kept, *(1 for _ in MEASURES)]
                    mean, own = values.mean(axis=0), values.var(axis=0) / len(values)
                    taken += number * mean
                    error += number**2 * (own + before * mean**2)
            if not any(did.took.values()) and (entering or not stage.feed):
                unseen.append(stage.name)
        total[1:] += taken[1:]
        variance[1:] += error[1:]
        if not stage.beside:
            total[0], variance[0] = taken[0], error[0]
            doubt = error[0] / taken[0] ** 2 if taken[0] else 0.0
        told.append(
            StageForecast(
                name=stage.name,
                agent=stage.agent,
                records=round(entering),
                accepted=round(taken[0]),
                use=_use(taken),
            )
        )
    totals = dict[str, Total]()
    for name, side in (("low", -DEVIATIONS), ("expected", 0.0), ("high", DEVIATIONS)):
        sums = np.maximum(0.0, total + side * np.sqrt(variance))
        totals[name] = Total(accepted=round(sums[0] + expanded), use=_use(sums))
    limits = tuple(
        Limit(
            name=name,
            limit=limit,
            **{side: getattr(t.use, name.removeprefix("max_")) for side, t in totals.items()},
        )
        for name, limit in recipe.budget.model_dump(exclude_none=True).items()
    )
    return Forecast(
        run=recipe.run_id,
        stages=tuple(told),
        **totals,
        limits=limits,
        unseen=tuple(unseen),
        queries=queries,
        sample=summary,
    )


def _use(taken: NDArray[np.float64]) -> Usage:
    sums = dict(zip(MEASURES, map(float, taken[1:]), strict=True))
    return Usage.model_validate({m: v if m == "cost" else round(v) for m, v in sums.items()})
