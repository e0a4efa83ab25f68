"""Forecasts what a whole run will take, from a few of its records that go through its stages.

The sample draws what the run draws, only less: some of its domains and a few queries. Its answers
go into the run's cache, so a second forecast costs nothing, and what was asked about domains and
APIs the run does not ask again. What a record took on the average is multiplied by how many will
enter its stage; the range is three standard errors of that.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from statistics import fmean, pvariance

from pydantic import Field

from toolloom.llm.cache import address
from toolloom.pipeline.dataset.run_report import Summary
from toolloom.pipeline.progress import Progress
from toolloom.pipeline.run import run, standard_stages
from toolloom.pipeline.stage import Context, Stage, StageInput, planned, use_of
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
class Kind:
    """What records took, and how many there were."""

    fed: int = 0
    accepted: list[int] = field(default_factory=list)
    uses: list[Usage] = field(default_factory=list)


@dataclass
class Sampled:
    """What a stage did in a sample. Records that come of no row (sources, worlds, foreign trees)
    are there in a sample as they are in the run: they stand alone."""

    alone: Kind = field(default_factory=Kind)
    drawn: Kind = field(default_factory=Kind)
    rows: int = 0  # that it was fed from
    kept: float = 1.0  # of what was accepted, after settling

    def of(self, record: Record) -> Kind:
        stands = isinstance(record, ApiSource | World | WorldPlan)
        if isinstance(record, Seed):
            stands = record.source == "toolbench"
        return self.alone if stands else self.drawn


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
    sampled = {stage.name: Sampled() for stage in chosen}
    direct = {"mode": "direct"}
    # The queries of a sample, without batches; its domains are the run's.
    small = recipe.model_copy(
        update={
            "queries": recipe.queries.model_copy(update={"count": min(n, recipe.queries.count)}),
            "worlds": recipe.worlds and recipe.worlds.at_most(n),
            "expand": recipe.expand and recipe.expand.model_copy(update={"rows": n}),
            "regenerate": None,
            "extend": None,
            "agents": {name: {**fields, **direct} for name, fields in recipe.agents.items()},
            "model": recipe.model.model_copy(update=direct),
        }
    )
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
            accepted, mark = sum(did.alone.accepted + did.drawn.accepted), folder.stage(stage).mark
            if accepted and mark:
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
        kind = did.of(record)
        kind.accepted.append(len(outcome.accepted))
        kind.uses.append(use)
        return outcome

    def feed(given: StageInput) -> Iterator[Record]:
        assert source
        did.rows = given.rows.count
        # Of domains, enough for a query's pool, and three to see how they differ; of worlds one.
        pool = recipe.queries.distractors + 4
        domains = 1 if stage.beside else max(3, -(-pool // recipe.apis.per_domain))
        spread: list[Brief | Domain] = []
        for record in source(given):
            kind = did.of(record)
            kind.fed += 1
            if isinstance(record, Brief | Domain):
                spread.append(record)
            elif not isinstance(record, Seed) or kind is did.drawn or kind.fed <= most:
                yield record
        each = sum(getattr(record, "count", 1) for record in spread) / max(1, len(spread))
        number = min(len(spread), max(1 if stage.beside else 3, round(domains / max(1, each))))
        yield from (spread[place * len(spread) // number] for place in range(number))

    # How many records a feed of fewer makes is for nobody to expect.
    expects = stage.expects if stage.reads is Need else None
    return dataclasses.replace(stage, work=work, feed=source and feed, expects=expects)


@dataclass
class Through:
    """What goes through a stage: numbers of records, and what they take, with its variance."""

    entering: float = 0.0
    accepted: float = 0.0
    doubt: float = 0.0  # of what is accepted: the variance of its ratio to what is expected
    use: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))
    variance: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))

    def send(self, number: float, kind: Kind, kept: float, doubt: float) -> None:
        """Records, which take what those of the sample took; their number is in doubt itself."""
        self.entering += number
        if not kind.accepted or not number:
            return
        self.accepted += kept * number * (mean := fmean(kind.accepted))
        if mean:
            self.doubt = doubt + pvariance(kind.accepted) / len(kind.accepted) / mean**2
        for measure in MEASURES:
            values = [float(getattr(use, measure)) for use in kind.uses]
            mean = fmean(values)
            self.use[measure] += number * mean
            error = pvariance(values) / len(values) + doubt * mean**2
            self.variance[measure] += number**2 * error


def through(
    recipe: Recipe, stages: Sequence[Stage], sampled: dict[str, Sampled]
) -> dict[str, Through]:
    """Send the whole run's records through the stages: what is accepted enters the next.

    Stages that sift let everything pass here, as what a few rows have in common says nothing of
    many; and templates get all the rows they are to have.
    """
    found: dict[str, Through] = {}
    rows = Through()
    for stage in stages:
        did, flow = sampled[stage.name], Through()
        if stage.sift and stage.beside:  # templates, then all of their rows that are wanted
            wanted = float(recipe.expand.rows) if recipe.expand and rows.accepted else 0.0
            expanded = stage.name == "expanded"
            flow = Through(rows.accepted, wanted if expanded else rows.accepted)
        elif stage.sift:
            flow = Through(rows.accepted, rows.accepted, rows.doubt)
        else:
            others = rows.accepted
            if stage.beside:
                others *= did.drawn.fed / did.rows if did.rows else 0.0
            elif stage.expects:
                others = max(0.0, stage.expects(recipe, round(others)) - did.alone.fed)
            elif stage.feed:  # a stage of a test's own
                others = recipe.queries.count if stage.name == "queries" else did.drawn.fed
            flow.send(did.alone.fed, did.alone, did.kept, 0.0)
            doubt = 0.0 if stage.reads is Need else rows.doubt
            flow.send(others, did.drawn, did.kept, doubt)
        found[stage.name] = flow
        if not stage.beside:
            rows = flow
    return found


def forecast(
    recipe: Recipe,
    stages: Sequence[Stage],
    sampled: dict[str, Sampled],
    queries: int,
    summary: Summary,
) -> Forecast:
    """The whole run, and a range."""
    found = through(recipe, stages, sampled)
    last = [found[stage.name] for stage in stages if not stage.beside][-1]
    expanded = found["expanded"].accepted if "expanded" in found else 0.0
    use = {m: sum(flow.use[m] for flow in found.values()) for m in MEASURES}
    error = {m: sqrt(sum(flow.variance[m] for flow in found.values())) for m in MEASURES}

    def total(side: float) -> Total:
        accepted = max(0.0, last.accepted * (1 + side * sqrt(last.doubt)))
        sums = {m: max(0.0, use[m] + side * error[m]) for m in MEASURES}
        return Total(accepted=round(accepted + expanded), use=_use(sums))

    expected, low, high = total(0.0), total(-DEVIATIONS), total(DEVIATIONS)
    sides = {"low": low, "expected": expected, "high": high}
    return Forecast(
        run=recipe.run_id,
        stages=tuple(
            StageForecast(
                name=stage.name,
                agent=stage.agent,
                records=round(found[stage.name].entering),
                accepted=round(found[stage.name].accepted),
                use=_use(found[stage.name].use),
            )
            for stage in stages
        ),
        expected=expected,
        low=low,
        high=high,
        limits=tuple(
            Limit(name=name, limit=limit, **{s: _taken(t, name) for s, t in sides.items()})
            for name, limit in recipe.budget.model_dump(exclude_none=True).items()
        ),
        unseen=tuple(  # those that have no record in the run either are left out
            stage.name
            for stage in stages
            if not (sampled[stage.name].alone.accepted or sampled[stage.name].drawn.accepted)
            and not (stage.sift or (stage.feed and not found[stage.name].entering))
        ),
        queries=queries,
        sample=summary,
    )


def _taken(total: Total, limit: str) -> float:
    """What a run takes of a limit of its budget."""
    return float(getattr(total.use, limit.removeprefix("max_")))


def _use(sums: dict[str, float]) -> Usage:
    return Usage.model_validate({m: v if m == "cost" else round(v) for m, v in sums.items()})
