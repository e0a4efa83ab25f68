"""Forecasts what a whole run will take, from a few of its records that go through its stages.

The sample draws what the run draws, only less: some of its domains and a few queries. Its answers
go into the run's cache, so a second forecast costs nothing, and what was asked about domains and
APIs the run does not ask again.
"""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from toolloom.llm.cache import address
from toolloom.pipeline.dataset.report import Summary
from toolloom.pipeline.progress import Progress
from toolloom.pipeline.run import run, standard_stages
from toolloom.pipeline.sampling.draw import counted
from toolloom.pipeline.stage import Context, Stage, StageInput, planned, use_of
from toolloom.pipeline.store.run_folder import RunFolder
from toolloom.pipeline.worlds.library import expect_rows
from toolloom.schemas import (
    ApiSource,
    Brief,
    Budget,
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
REDRAWN = 400  # times the sample is drawn anew from itself, for the range
OUTSIDE = 0.025  # of them below the range, and as many above it
ENOUGH = 4  # records of a kind to go by; with fewer, those like it count too
MEASURES = tuple(Usage.model_fields)
TOOLBENCH = "ToolBench"  # seeds of the rewriter that are no rows of the run
OF_ROWS = ("Template", "Rejected", "Seed")  # what a stage that gathers makes of each row


class NeedShape(NamedTuple):
    """What a record is like, as far as its cost goes: a need's ability and scenario, else `of`."""

    of: str = ""
    ability: str = ""
    scenario: str = ""


@dataclass(frozen=True, slots=True)
class Took:
    """What one record of the sample took, and how many records were accepted of it."""

    kind: NeedShape
    accepted: int
    use: Usage


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
    fed = {stage.name: SampledRecords() for stage in chosen}
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
                stages=[_watched(s, recipe, took[s.name], fed[s.name], n) for s in chosen],
                progress=progress,
            )
        except BudgetReached as error:
            raise BudgetReached(f"The sample alone is too much. {error}") from error
        folder, kept = RunFolder(Path(summary.path)), dict[str, float]()
        for stage, records in took.items():
            accepted, mark = sum(record.accepted for record in records), folder.stage(stage).mark
            if accepted and mark:
                kept[stage] = mark.accepted / accepted  # what settling left of them
    sample = StageSample(took, kept, fed)
    return forecast(recipe, chosen, sample, small.queries.count, summary)


def _watched(
    stage: Stage, recipe: Recipe, took: list[Took], fed: SampledRecords, most: int
) -> Stage:
    """The stage with less to do, noting what it is fed and what each record takes.

    Of what stands beside the rows no more is made than `most`, besides what comes of the sample's
    own rows, which is little enough.
    """
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
        took.append(Took(kind_of(record), len(outcome.accepted), use))
        return outcome

    def feed(given: StageInput) -> Iterator[Record]:
        if source and not stage.beside:
            # Enough for a query's pool, and three to see how they differ.
            pool = recipe.queries.distractors + 4
            yield from _fewer(source(given), max(3, -(-pool // recipe.apis.per_domain)))
            return
        fed.rows, fed.apis = given.rows.count, given.earlier("apis").count
        for record in source(given) if source else ():
            kind = kind_of(record)
            fed.kinds[kind] += 1
            if isinstance(record, Domain) and fed.kinds[kind] > 1:
                continue  # one world tells what one takes
            if kind.of in OF_ROWS or fed.others() <= most:
                yield record

    # How many records a feed of fewer makes is for nobody to expect.
    expects = stage.expects if stage.reads is Need else None
    return dataclasses.replace(stage, work=work, feed=source and feed, expects=expects)


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


def kind_of(record: Any) -> NeedShape:
    inner = record
    while inner is not None and not hasattr(inner, "ability"):
        inner = getattr(inner, "query", None) or getattr(inner, "dialogue", None)
    if inner is None:
        foreign = isinstance(record, Seed) and record.source == "toolbench"
        return NeedShape(TOOLBENCH if foreign else type(record).__name__)
    return NeedShape(ability=str(inner.ability), scenario=str(inner.scenario))


@dataclass
class SampledRecords:
    """What a stage gathered in a sample: from so many rows and APIs, records of these kinds."""

    rows: int = 0
    apis: int = 0
    kinds: Counter[NeedShape] = field(default_factory=Counter)

    def others(self) -> int:
        """Records that come of no row."""
        return sum(number for kind, number in self.kinds.items() if kind.of not in OF_ROWS)

    def whole(self, rows: float, apis: float) -> dict[NeedShape, float]:
        """What it will gather from the rows and APIs of a whole run."""
        needs = sum(number for kind, number in self.kinds.items() if not kind.of)
        more = rows / self.rows if self.rows else 0.0
        left = self._lacking(needs, rows, apis) / needs if needs else 0.0
        factors = {TOOLBENCH: 1.0, "": left}
        return {kind: n * factors.get(kind.of, more) for kind, n in self.kinds.items()}

    def _lacking(self, needs: int, rows: float, apis: float) -> float:
        """APIs of the whole run that no row calls, if each row calls any of them as likely."""
        if not (self.rows and self.apis and apis):
            return apis
        return float(apis * min(1.0, needs / self.apis) ** (rows / apis * self.apis / self.rows))


@dataclass(frozen=True)
class StageSample:
    """What the records of a sample took, by stage; what settling left of those accepted."""

    took: Mapping[str, Sequence[Took]]
    kept: Mapping[str, float]
    gathered: Mapping[str, SampledRecords] = field(default_factory=dict)

    def redrawn(self, rng: random.Random) -> StageSample:
        """As many records, drawn from these with replacement; sources are all there anyway."""
        drawn: dict[str, list[Took]] = {}
        for name, took in self.took.items():
            given = [t for t in took if t.kind.of == ApiSource.__name__]
            others = [t for t in took if t.kind.of != ApiSource.__name__]
            drawn[name] = [*given, *rng.choices(others, k=len(others))] if others else given
        return StageSample(drawn, self.kept, self.gathered)

    def like(self, stage: str, kind: NeedShape) -> Sequence[Took]:
        """Records of the kind, if there are enough; else also those like it."""
        alike = [t for t in self.took[stage] if t.kind.of == kind.of]
        near: tuple[Callable[[NeedShape], bool], ...] = (
            lambda k: k == kind,
            lambda k: k.scenario == kind.scenario,
            lambda k: k.ability == kind.ability,
        )
        for is_near in near:
            found = [t for t in alike if is_near(t.kind)]
            if len(found) >= ENOUGH:
                return found
        return alike


@dataclass
class Flow:
    """What goes through a stage, in fractions of records."""

    entering: float = 0.0
    accepted: float = 0.0
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MEASURES, 0.0))

    def add(self, number: float, like: Sequence[Took], kept: float) -> float:
        """Send `number` records through, to take what those `like` them took. The accepted."""
        self.entering += number
        if not like:
            return 0.0
        each = number / len(like)
        for measure in MEASURES:
            self.sums[measure] += each * sum(getattr(t.use, measure) for t in like)
        accepted = kept * each * sum(t.accepted for t in like)
        self.accepted += accepted
        return accepted

    @property
    def use(self) -> Usage:
        return _use(self.sums)


def _use(sums: Mapping[str, float]) -> Usage:
    return Usage.model_validate({m: v if m == "cost" else round(v) for m, v in sums.items()})


def flows(recipe: Recipe, stages: Sequence[Stage], sample: StageSample) -> list[Flow]:
    """Send the whole run's records through the stages: what is accepted enters the next.

    Stages that sift let everything pass here, and templates get all the rows they are to have.
    """
    found: dict[str, Flow] = {}
    rows: Mapping[NeedShape, float] = {}  # what the last stage not beside accepted, or draws
    before = 0.0
    for stage in stages:
        if stage.beside:
            found[stage.name] = _beside(stage, recipe, sample, before, found)
            continue
        if stage.feed:
            rows = _drawn(stage, recipe, before, sample, found)
        flow = Flow(sum(rows.values()), sum(rows.values())) if stage.sift else Flow()
        if not stage.sift:  # what a few rows have in common says nothing of many
            rows = _sent(flow, rows, stage, sample)
        found[stage.name], before = flow, flow.accepted
    return list(found.values())


def _sent(
    flow: Flow, entering: Mapping[NeedShape, float], stage: Stage, sample: StageSample
) -> Mapping[NeedShape, float]:
    """Send records through a stage; what it accepts of each kind."""
    going_on = defaultdict[NeedShape, float](float)
    for kind, number in entering.items():
        like = sample.like(stage.name, kind)
        going_on[kind] += flow.add(number, like, sample.kept.get(stage.name, 1.0))
    return going_on


def _beside(
    stage: Stage, recipe: Recipe, sample: StageSample, rows: float, found: Mapping[str, Flow]
) -> Flow:
    """A stage whose records stand beside the rows."""
    if stage.sift:  # templates, then their rows: all that are wanted, if there are any
        wanted = float(recipe.expand.rows) if recipe.expand and rows else 0.0
        return Flow(rows, wanted if stage.name == "expanded" else rows)
    if stage.writes is World:
        flow, named = Flow(), bool(recipe.worlds and recipe.worlds.use)
        subjects = {NeedShape(WorldPlan.__name__): float(named)}
        if recipe.writes_worlds:
            subjects[NeedShape(Domain.__name__)] = found["domains"].accepted
        _sent(flow, subjects, stage, sample)
        return flow
    flow, apis = Flow(), found["apis"].accepted if "apis" in found else 0.0
    gathered = sample.gathered.get(stage.name, SampledRecords())
    _sent(flow, gathered.whole(rows, apis), stage, sample)
    return flow


def _drawn(
    stage: Stage,
    recipe: Recipe,
    before: float,
    sample: StageSample,
    found: Mapping[str, Flow],
) -> Mapping[NeedShape, float]:
    """What a stage draws in the whole run, when the one ahead of it accepted `before` records."""
    if stage.name == "queries" and recipe.played:  # of the kinds that the sample has
        generated = recipe.apis.domains and not recipe.writes_worlds
        others = recipe.queries.count if recipe.apis.sources or generated else 0
        took = sample.took[stage.name]
        each = (expect_rows(recipe) + others) / max(1, len(took))
        return {kind: n * each for kind, n in Counter(t.kind for t in took).items()}
    if stage.name == "queries":
        return {NeedShape(ability=a, scenario=s): float(n) for (a, s), n in counted(recipe).items()}
    if stage.name == "apis":
        sources = {
            NeedShape(ApiSource.__name__): float(len(recipe.apis.sources)),
            NeedShape(World.__name__): found["worlds"].accepted if "worlds" in found else 0.0,
        }
        return sources if recipe.writes_worlds else {**sources, NeedShape(Domain.__name__): before}
    drawn = stage.feed(StageInput.none(recipe, stage.name)) if stage.feed else iter(())
    return {kind: float(n) for kind, n in Counter(map(kind_of, drawn)).items()}


def forecast(
    recipe: Recipe, stages: Sequence[Stage], sample: StageSample, queries: int, summary: Summary
) -> Forecast:
    """The whole run, and a range: what comes of the sample's records drawn anew, many times."""
    found = flows(recipe, stages, sample)
    rng = random.Random(recipe.seed)
    again = [_sums(stages, flows(recipe, stages, sample.redrawn(rng))) for _ in range(REDRAWN)]
    low, high = _edge(again, OUTSIDE), _edge(again, 1 - OUTSIDE)
    expected, lowest, highest = _total(_sums(stages, found)), _total(low), _total(high)
    pairs = list(zip(stages, found, strict=True))
    return Forecast(
        run=recipe.run_id,
        stages=tuple(
            StageForecast(
                name=stage.name,
                agent=stage.agent,
                records=round(flow.entering),
                accepted=round(flow.accepted),
                use=flow.use,
            )
            for stage, flow in pairs
        ),
        expected=expected,
        low=lowest,
        high=highest,
        limits=_limits(recipe.budget, expected, lowest, highest),
        unseen=tuple(  # those that have no record in the run either are left out
            stage.name
            for stage, flow in pairs
            if not (sample.took[stage.name] or stage.sift or (stage.feed and not flow.entering))
        ),
        queries=queries,
        sample=summary,
    )


def _sums(stages: Sequence[Stage], through: Sequence[Flow]) -> dict[str, float]:
    """What all stages take; as accepted the rows: of the last stage, and those of templates."""
    summed = {m: sum(flow.sums[m] for flow in through) for m in MEASURES}
    main = [flow for stage, flow in zip(stages, through, strict=True) if not stage.beside]
    both = zip(stages, through, strict=True)
    expanded = [flow.accepted for stage, flow in both if stage.name == "expanded"]
    return {**summed, "accepted": main[-1].accepted + sum(expanded)}


def _edge(sums: Sequence[Mapping[str, float]], place: float) -> dict[str, float]:
    """Of each measure the value at a place between the lowest (0) and the highest (1)."""
    last = len(sums) - 1
    return {m: sorted(s[m] for s in sums)[round(place * last)] for m in sums[0]}


def _total(sums: Mapping[str, float]) -> Total:
    return Total(accepted=round(sums["accepted"]), use=_use({m: sums[m] for m in MEASURES}))


def _limits(budget: Budget, expected: Total, low: Total, high: Total) -> tuple[Limit, ...]:
    measures: dict[str, Callable[[Total], float]] = {
        "max_cost": lambda total: total.use.cost,
        "max_tokens": lambda total: total.use.tokens,
        "max_requests": lambda total: total.use.requests,
    }
    return tuple(
        Limit(name=name, limit=limit, low=of(low), expected=of(expected), high=of(high))
        for name, of in measures.items()
        if (limit := getattr(budget, name)) is not None
    )
