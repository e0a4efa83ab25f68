"""What a run came to, counted from its files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from pydantic import Field

from toolloom.pipeline.coverage import Coverage, Covered
from toolloom.pipeline.store import PlannedStage, RunFolder, Use
from toolloom.pipeline.tallies import RowCounts, need_of
from toolloom.schemas import AgentName, JsonObject, Recipe, Record

API_BANK = 0.1  # US dollars for a dialogue of API-Bank's five agents, as its authors report


class StageCount(Record):
    """How many records a stage accepted and rejected."""

    name: str
    agent: str = ""
    accepted: int
    rejected: int
    finished: bool
    sifts: bool = Field(default=False, description="It only compares rows with each other.")
    reasons: dict[str, int] = Field(description="Rejected records by reason, most first.")
    use: Use


class Tally(Record):
    """Dialogues of one kind."""

    accepted: int = 0
    rejected: int = 0


class Counts(Record):
    """What is in a run's files. Equal for equal runs."""

    stages: tuple[StageCount, ...]
    abilities: dict[str, Tally]
    scenarios: dict[str, Tally]
    categories: dict[str, int] = Field(description="Accepted dialogues by category of their APIs.")
    apis: int = Field(description="APIs that accepted dialogues need, each counted once.")
    several_turns: int = Field(description="Accepted dialogues with more than one user turn.")
    use: Use
    priced: bool = Field(default=False, description="Whether the recipe has prices.")
    unpriced: tuple[str, ...] = Field(
        default=(), description="Models that were asked and have no price: `cost` lacks theirs."
    )
    coverage: Coverage | None = Field(
        default=None, description="How much of the run's pool of APIs is covered."
    )

    @property
    def accepted(self) -> int:
        """What the last stage accepted: the rows of the dataset.

        Before the end, of the stages that sift the last that is finished counts.
        """
        known = [s.accepted for s in self.stages if s.finished or not s.sifts]
        return known[-1] if known else 0

    @property
    def rejected(self) -> int:
        return sum(stage.rejected for stage in self.stages)

    @property
    def cost_of_one(self) -> float | None:
        """US dollars for each accepted row, all that was rejected on the way included.

        None without prices or rows.
        """
        return self.use.cost / self.accepted if self.priced and self.accepted else None

    @property
    def reasons(self) -> dict[str, int]:
        """All stages' rejected records by reason, most first."""
        total: Counter[str] = Counter()
        for stage in self.stages:
            total.update(stage.reasons)
        return dict(total.most_common())


class Summary(Record):
    """A run's counts, and what this process did for them."""

    run: str
    path: str
    counts: Counts
    asked: int = Field(default=0, description="Requests this process sent to models.")
    cached: int = Field(default=0, description="Requests the cache answered.")
    tokens: int = Field(default=0, description="Tokens this process sent and received.")
    cost: float = Field(default=0.0, description="US dollars this process spent, where known.")
    seconds: float = Field(default=0.0, description="Wall time of this process's part.")


def summarise(folder: RunFolder, **spent: float) -> Summary:
    """`spent`: what this process did, by the names of Summary's fields."""
    return Summary(run=folder.id, path=str(folder.path), counts=count(folder), **cast(Any, spent))


def count(folder: RunFolder, accepted: RowCounts | None = None) -> Counts:
    """Read a run's files once, a record at a time; also of a run that is still going.

    `accepted`: what is in its accepted rows, if they were counted already.
    """
    plan = folder.plan
    stages = tuple(_count_stage(folder, stage) for stage in plan)
    recipe = folder.recipe
    seen = accepted or RowCounts.of(folder.accepted())
    fallen = Counter(_kinds(row["record"] for row in folder.rejected()))
    tallies = _tally(seen, fallen)
    return Counts(
        stages=stages,
        abilities=tallies["ability"],
        scenarios=tallies["scenario"],
        categories=dict(sorted(seen.counts["categories"].items())),
        apis=len(seen.apis),
        several_turns=seen.several_turns,
        use=sum((stage.use for stage in stages), Use()),
        priced=bool(recipe.identity["prices"]),
        unpriced=_unpriced(recipe, stages),
        coverage=_cover(folder, seen.covered),
    )


def _unpriced(recipe: Recipe, stages: Sequence[StageCount]) -> tuple[str, ...]:
    """Models that were asked without a price. The embedded one costs nothing."""
    asked = (recipe.endpoint(cast(AgentName, s.agent)) for s in stages if s.use.requests)
    return tuple(sorted({e.model for e in asked if not e.local} - set(recipe.prices)))


def dollars(value: float) -> str:
    """US dollars: cents above one, three digits that say something below."""
    digits = 2 if value >= 1 or value <= 0 else min(9, 2 - math.floor(math.log10(value)))
    return f"${value:,.{digits}f}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _cover(folder: RunFolder, accepted: Covered) -> Coverage | None:
    """None of a run whose queries were not drawn from a pool of APIs."""
    if not {"apis", "queries"} <= {stage.name for stage in folder.plan}:
        return None
    drawn, queries = Covered(), folder.stage("queries")
    for row in queries.objects("accepted"):
        drawn.add(need_of(row))
    for row in queries.objects("rejected"):
        drawn.add(need_of(row["record"]))
    pool = sum(1 for _ in folder.stage("apis").objects("accepted"))
    return Coverage.of(pool, drawn, accepted)


def _count_stage(folder: RunFolder, stage: PlannedStage) -> StageCount:
    files = folder.stage(stage.name)
    reasons = Counter(row["reason"] for row in files.objects("rejected"))
    mark = files.mark
    return StageCount(
        name=stage.name,
        agent=stage.agent,
        sifts=stage.sifts,
        accepted=mark.accepted if mark else sum(1 for _ in files.objects("accepted")),
        rejected=reasons.total(),
        finished=mark is not None,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        use=mark.use if mark else Use(),
    )


def _kinds(rows: Iterable[JsonObject]) -> Iterator[tuple[str, str]]:
    """("ability", "call"), ("scenario", "single") and so on, of each row that has them."""
    for row in rows:
        need = need_of(row)
        yield from ((kind, need[kind]) for kind in ("ability", "scenario") if kind in need)


def _tally(accepted: RowCounts, rejected: Counter[tuple[str, str]]) -> dict[str, dict[str, Tally]]:
    found: dict[str, dict[str, Tally]] = {}
    for kind, name in (("ability", "abilities"), ("scenario", "scenarios")):
        good = accepted.counts[name]
        values = {*good, *(value for which, value in rejected if which == kind)}
        found[kind] = {
            value: Tally(accepted=good[value], rejected=rejected[kind, value])
            for value in sorted(values)
        }
    return found
