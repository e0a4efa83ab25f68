"""What a whole run will take, worked out from what each record of a sample took."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import Field

from toolloom.pipeline.report import Summary
from toolloom.pipeline.sampling.drawing import counted
from toolloom.pipeline.stage import Stage
from toolloom.pipeline.store import Use
from toolloom.schemas import ApiSource, Budget, Domain, Recipe, Record

REDRAWN = 400  # times the sample is drawn anew from itself, for the range
OUTSIDE = 0.025  # of them below the range, and as many above it
ENOUGH = 4  # records of a kind to go by; with fewer, those like it count too
MEASURES = tuple(Use.model_fields)


class Kind(NamedTuple):
    """What a record is like, as far as its cost goes: a need's ability and scenario, else `of`."""

    of: str = ""
    ability: str = ""
    scenario: str = ""


@dataclass(frozen=True, slots=True)
class Took:
    """What one record of the sample took, and how many records were accepted of it."""

    kind: Kind
    accepted: int
    use: Use


class StageForecast(Record):
    """What a stage will do."""

    name: str
    agent: str
    records: int = Field(description="Records that enter it.")
    accepted: int
    use: Use


class Total(Record):
    """What a whole run takes, and the rows it makes."""

    accepted: int
    use: Use

    @property
    def tokens(self) -> int:
        return self.use.prompt_tokens + self.use.completion_tokens


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


def kind_of(record: Any) -> Kind:
    inner = record
    while inner is not None and not hasattr(inner, "ability"):
        inner = getattr(inner, "query", None) or getattr(inner, "dialogue", None)
    if inner is None:
        return Kind(type(record).__name__)
    return Kind(ability=str(inner.ability), scenario=str(inner.scenario))


@dataclass(frozen=True)
class Sample:
    """What the records of a sample took, by stage; what settling left of those accepted."""

    took: Mapping[str, Sequence[Took]]
    kept: Mapping[str, float]

    def redrawn(self, rng: random.Random) -> Sample:
        """As many records, drawn from these with replacement; sources are all there anyway."""
        drawn: dict[str, list[Took]] = {}
        for name, took in self.took.items():
            given = [t for t in took if t.kind.of == ApiSource.__name__]
            others = [t for t in took if t.kind.of != ApiSource.__name__]
            drawn[name] = [*given, *rng.choices(others, k=len(others))] if others else given
        return Sample(drawn, self.kept)

    def like(self, stage: str, kind: Kind) -> Sequence[Took]:
        """Records of the kind, if there are enough; else also those like it."""
        alike = [t for t in self.took[stage] if t.kind.of == kind.of]
        near: tuple[Callable[[Kind], bool], ...] = (
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
    def use(self) -> Use:
        return _use(self.sums)


def _use(sums: Mapping[str, float]) -> Use:
    return Use.model_validate({m: v if m == "cost" else round(v) for m, v in sums.items()})


def flows(recipe: Recipe, stages: Sequence[Stage], sample: Sample) -> list[Flow]:
    """Send the whole run's records through the stages: what is accepted enters the next.

    Stages that sift let everything pass here.
    """
    found: list[Flow] = []
    entering: Mapping[Kind, float] = {}
    for stage in stages:
        if stage.draw:
            entering = _drawn(stage, recipe, found[-1].accepted if found else 0.0)
        if stage.sift:  # what a few rows have in common says nothing of many
            total = sum(entering.values())
            found.append(Flow(total, total))
            continue
        flow, going_on = Flow(), defaultdict[Kind, float](float)
        for kind, number in entering.items():
            like = sample.like(stage.name, kind)
            going_on[kind] += flow.add(number, like, sample.kept.get(stage.name, 1.0))
        found.append(flow)
        entering = going_on
    return found


def _drawn(stage: Stage, recipe: Recipe, before: float) -> Mapping[Kind, float]:
    """What a stage draws in the whole run, when the one ahead of it accepted `before` records."""
    if stage.name == "queries":
        return {Kind(ability=a, scenario=s): float(n) for (a, s), n in counted(recipe).items()}
    if stage.name == "apis":
        sources = {Kind(ApiSource.__name__): float(len(recipe.apis.sources))}
        return {**sources, Kind(Domain.__name__): before}
    drawn: Iterator[Record] = stage.draw(recipe, ()) if stage.draw else iter(())
    return {kind: float(n) for kind, n in Counter(map(kind_of, drawn)).items()}


def forecast(
    recipe: Recipe, stages: Sequence[Stage], sample: Sample, queries: int, summary: Summary
) -> Forecast:
    """The whole run, and a range: what comes of the sample's records drawn anew, many times."""
    found = flows(recipe, stages, sample)
    rng = random.Random(recipe.seed)
    again = [_sums(flows(recipe, stages, sample.redrawn(rng))) for _ in range(REDRAWN)]
    low, high = _edge(again, OUTSIDE), _edge(again, 1 - OUTSIDE)
    totals = _total(_sums(found)), _total(low), _total(high)
    return Forecast(
        run=recipe.run_id,
        stages=tuple(map(_stage, stages, found)),
        expected=totals[0],
        low=totals[1],
        high=totals[2],
        limits=_limits(recipe.budget, *totals),
        unseen=tuple(_unseen(stages, found, sample)),
        queries=queries,
        sample=summary,
    )


def _unseen(stages: Sequence[Stage], found: Sequence[Flow], sample: Sample) -> Iterator[str]:
    """Stages without a record in the sample, unless they have none in the run either."""
    for stage, flow in zip(stages, found, strict=True):
        nothing = stage.sift or (stage.draw is not None and not flow.entering)
        if not sample.took[stage.name] and not nothing:
            yield stage.name


def _sums(through: Sequence[Flow]) -> dict[str, float]:
    summed = {m: sum(flow.sums[m] for flow in through) for m in MEASURES}
    return {**summed, "accepted": through[-1].accepted}


def _edge(sums: Sequence[Mapping[str, float]], place: float) -> dict[str, float]:
    """Of each measure the value at a place between the lowest (0) and the highest (1)."""
    last = len(sums) - 1
    return {m: sorted(s[m] for s in sums)[round(place * last)] for m in sums[0]}


def _total(sums: Mapping[str, float]) -> Total:
    return Total(accepted=round(sums["accepted"]), use=_use({m: sums[m] for m in MEASURES}))


def _stage(stage: Stage, flow: Flow) -> StageForecast:
    return StageForecast(
        name=stage.name,
        agent=stage.agent,
        records=round(flow.entering),
        accepted=round(flow.accepted),
        use=flow.use,
    )


def _limits(budget: Budget, expected: Total, low: Total, high: Total) -> tuple[Limit, ...]:
    measures: dict[str, Callable[[Total], float]] = {
        "max_cost": lambda total: total.use.cost,
        "max_tokens": lambda total: total.tokens,
        "max_requests": lambda total: total.use.requests,
    }
    return tuple(
        Limit(name=name, limit=limit, low=of(low), expected=of(expected), high=of(high))
        for name, of in measures.items()
        if (limit := getattr(budget, name)) is not None
    )
