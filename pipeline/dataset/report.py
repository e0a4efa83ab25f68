"""What a run came to, counted from its files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

from pydantic import Field

from toolloom.pipeline.dataset.coverage import Coverage, Covered
from toolloom.pipeline.dataset.tallies import RowCounts, need_of
from toolloom.pipeline.dataset.unfolding import unfolded
from toolloom.pipeline.store.run import PlannedStage, RunFolder, begun_with
from toolloom.pipeline.store.stage_files import StageFolder
from toolloom.schemas import (
    AgentName,
    Expansion,
    Granularity,
    Instruction,
    JsonObject,
    Recipe,
    Record,
    Usage,
)

API_BANK = 0.1  # US dollars for a dialogue of API-Bank's five agents, as its authors report


class StageCount(Record):
    """How many records a stage accepted and rejected; of templates their rows."""

    name: str
    agent: str = ""
    accepted: int
    rejected: int
    finished: bool
    sifts: bool = Field(default=False, description="It only compares rows with each other.")
    beside: bool = Field(default=False, description="Its records stand beside the rows.")
    given: bool = Field(default=False, description="Its records were published before the run.")
    reasons: dict[str, int] = Field(description="Rejected records by reason, most first.")
    use: Usage


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
    expanded: int = Field(default=0, description="Accepted dialogues that are rows of templates.")
    templates: int = Field(default=0, description="Templates that have rows.")
    instructions: int = Field(default=0, description="Accepted instructions.")
    rewritten: int = Field(default=0, description="Requests that have accepted instructions.")
    levels: dict[str, Tally] = Field(
        default_factory=dict, description="Instructions by how much they tell."
    )
    use: Usage
    priced: bool = Field(default=False, description="Whether the recipe has prices.")
    unpriced: tuple[str, ...] = Field(
        default=(), description="Models that were asked and have no price: `cost` lacks theirs."
    )
    coverage: Coverage | None = Field(
        default=None, description="How much of the run's pool of APIs is covered."
    )

    @property
    def samples(self) -> int:
        """What the last stage accepted, of those whose records do not stand beside the rows.

        Before the end, of the stages that sift the last that is finished counts. Of a run that
        adds to a version there are none.
        """
        rows = [s for s in self.stages if not s.beside and (s.finished or not s.sifts)]
        return rows[-1].accepted if rows and not rows[-1].given else 0

    @property
    def accepted(self) -> int:
        """The rows that the run makes: samples, and rows of templates."""
        return self.samples + self.expanded

    @property
    def made(self) -> int:
        """All that the run adds to its dataset: dialogues and instructions."""
        return self.accepted + self.instructions

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
    recipe = folder.recipe
    given = begun_with(recipe.regenerate is not None, [stage.name for stage in plan])
    stages = tuple(_count_stage(folder, stage, stage.name in given) for stage in plan)
    seen = accepted or RowCounts.of(() if folder.adds else folder.samples())
    beside = _beside(folder, None if accepted else seen)
    fallen = Counter(_kinds(_fallen(folder, plan)))
    tallies = _tally(seen, fallen)
    return Counts(
        stages=stages,
        abilities=tallies["ability"],
        scenarios=tallies["scenario"],
        categories=dict(sorted(seen.counts["categories"].items())),
        apis=len(seen.apis),
        several_turns=seen.several_turns,
        **beside,
        use=sum((stage.use for stage in stages), Usage()),
        priced=bool(recipe.identity["prices"]),
        unpriced=_unpriced(recipe, stages),
        coverage=_cover(folder, seen.covered),
    )


def _fallen(folder: RunFolder, plan: Iterable[PlannedStage]) -> Iterator[JsonObject]:
    """What fell on its way to a row; a sample of which no template is made is one all the same."""
    for stage in plan:
        if not stage.beside:
            yield from (r["record"] for r in folder.stage(stage.name).objects("rejected"))


def _beside(folder: RunFolder, rows: RowCounts | None) -> dict[str, Any]:
    """What stands beside the samples, by the names of Counts' fields.

    `rows`: where rows of templates are counted, one for all of a template.
    """
    templates: Counter[str] = Counter()
    for expansion in folder.expansions():
        templates[expansion.template.id] += len(expansion.rows)
        if rows and expansion.rows:
            rows.add(next(unfolded(expansion, 0)), len(expansion.rows))
    requests: Counter[str] = Counter()
    levels: Counter[str] = Counter()
    for instruction in folder.instructions():
        requests[instruction.sample] += 1
        levels[instruction.level] += 1
    return {
        "expanded": templates.total(),
        "templates": len(templates),
        "instructions": requests.total(),
        "rewritten": len(requests),
        "levels": _levels(folder, levels),
    }


def _levels(folder: RunFolder, accepted: Counter[str]) -> dict[str, Tally]:
    """Instructions by level, from little to all; rejected ones too, as far as they have one."""
    plan = [stage for stage in folder.plan if stage.writes == Instruction.__name__]
    fallen = chain.from_iterable(folder.stage(s.name).objects("rejected") for s in plan)
    rejected = Counter(row["record"].get("level") for row in fallen)
    return {
        level.value: Tally(accepted=accepted[level], rejected=rejected[level])
        for level in Granularity
        if accepted[level] or rejected[level]
    }


def _unpriced(recipe: Recipe, stages: Sequence[StageCount]) -> tuple[str, ...]:
    """Models that were asked without a price. The embedded one costs nothing."""
    agents = {s.agent for s in stages if s.use.requests}
    if "rewriter" in agents:  # the tester rates what it makes
        agents.add("tester")
    asked = (recipe.endpoint(cast(AgentName, agent)) for agent in agents)
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


def _count_stage(folder: RunFolder, stage: PlannedStage, given: bool) -> StageCount:
    files = folder.stage(stage.name)
    reasons = Counter(row["reason"] for row in files.objects("rejected"))
    mark = files.mark
    return StageCount(
        name=stage.name,
        agent=stage.agent,
        sifts=stage.sifts,
        beside=stage.beside,
        given=stage.given or given,
        accepted=_accepted(files, stage),
        rejected=reasons.total(),
        finished=mark is not None,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        use=mark.use if mark else Usage(),
    )


def _accepted(files: StageFolder, stage: PlannedStage) -> int:
    if stage.writes == Expansion.__name__:
        return sum(len(expansion.rows) for expansion in files.so_far(Expansion))
    return mark.accepted if (mark := files.mark) else sum(1 for _ in files.objects("accepted"))


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
