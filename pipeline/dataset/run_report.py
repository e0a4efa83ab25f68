"""What a run came to, counted from the files of its stages: what no table of a version can tell.

Records that fell and why, requests, tokens and cost by stage, how much of a pool of APIs queries
and templates cover, what curation found of benchmarks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, cast

from pydantic import Field

from toolloom.pipeline.dataset.figures import EXPANDED, LEVELS, RowCounts, ranked
from toolloom.pipeline.store.run_folder import RunFolder, begun_with
from toolloom.schemas import (
    AgentName,
    ExpansionPlan,
    Instruction,
    JsonObject,
    Level,
    Reason,
    Recipe,
    Record,
    SplitPlan,
    Template,
    Usage,
)
from toolloom.schemas.splits import SEEN, api_id, need_of, split_of, tool_of, zone

API_BANK = 0.1  # US dollars for a dialogue of API-Bank's five agents, as its authors report
DECONTAMINATED = "decontaminated"  # a stage
KINDS = ("mined", "written")  # of templates
SHOWN = 10  # APIs without a template that a screen names
MOST = 1000  # that a manifest names


class Combinations(Record):
    """Different combinations of several APIs at one level (ToolLLM, section 2.2)."""

    drawn: int = Field(default=0, description="That queries were drawn for.")
    accepted: int = Field(default=0, description="In accepted dialogues.")


class Coverage(Record):
    """How many of a run's APIs its queries and its accepted dialogues need."""

    pool: int = Field(description="APIs of the run.")
    drawn: int = Field(description="APIs that queries were drawn for.")
    accepted: int = Field(description="APIs that accepted dialogues need.")
    combinations: dict[str, Combinations] = Field(default={}, description="By level.")


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
    levels: dict[str, Tally] = Field(default={}, description="Instructions by granularity.")
    use: Usage
    priced: bool = Field(default=False, description="Whether the recipe has prices.")
    unpriced: tuple[str, ...] = Field(default=(), description="Models asked, but without a price.")
    coverage: Coverage | None = Field(default=None, description="Of the run's pool of APIs.")

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
        """US dollars for each accepted row, all that was rejected on the way included. None without
        prices or rows."""
        return self.use.cost / self.accepted if self.priced and self.accepted else None

    @property
    def reasons(self) -> dict[str, int]:
        """All stages' rejected records by reason, most first."""
        return dict(sum((Counter(s.reasons) for s in self.stages), Counter[str]()).most_common())


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


def count(folder: RunFolder) -> Counts:
    """Read a run's files once, a record at a time; also of a run that is still going."""
    plan, recipe = folder.plan, folder.recipe
    given = begun_with(recipe.regenerate is not None, [stage.name for stage in plan])
    # What fell on its way to a row: a sample of which no template is made is a row all the same.
    fallen = {kind: Counter[str]() for kind in ("ability", "scenario", "level")}
    stages = list[StageCount]()
    for stage in plan:
        files, reasons = folder.stage(stage.name), Counter[str]()
        rewrites = stage.writes == Instruction.__name__
        for row in files.objects("rejected"):
            reasons[row["reason"]] += 1
            need = row["record"] if rewrites else {} if stage.beside else need_of(row["record"])
            for kind in ("level",) if rewrites else ("ability", "scenario"):
                if kind in need:
                    fallen[kind][need[kind]] += 1
        mark = files.mark
        stages.append(
            StageCount(
                **stage.model_dump(include={"name", "agent", "sifts", "beside"}),
                given=stage.given or stage.name in given,
                accepted=mark.accepted if mark else sum(1 for _ in files.objects("accepted")),
                rejected=reasons.total(),
                finished=mark is not None,
                reasons=ranked(reasons),
                use=mark.use if mark else Usage(),
            )
        )
    seen = RowCounts()
    for row in folder.rows():
        seen.add(row)
    templates = of_templates(folder)
    requests, levels = Counter[str](), Counter[str]()
    for instruction in folder.instructions():
        requests[instruction.sample] += 1
        levels[instruction.level] += 1
    return Counts(
        stages=tuple(stages),
        abilities=_tallies(seen.counts["abilities"], fallen["ability"]),
        scenarios=_tallies(seen.counts["scenarios"], fallen["scenario"]),
        categories=dict(sorted(seen.counts["categories"].items())),
        apis=len(seen.apis),
        several_turns=seen.several_turns,
        expanded=templates.total(),
        templates=len(templates),
        instructions=requests.total(),
        rewritten=len(requests),
        levels=_tallies(levels, fallen["level"], LEVELS),
        use=sum((stage.use for stage in stages), Usage()),
        priced=bool(recipe.identity["prices"]),
        unpriced=_unpriced(recipe, stages),
        coverage=_cover(folder, seen),
    )


def _tallies(
    accepted: Counter[str], rejected: Counter[str], order: Sequence[str] = ()
) -> dict[str, Tally]:
    """By value, as far as there are any: in the order of the alphabet, or in another."""
    return {
        value: Tally(accepted=accepted[value], rejected=rejected[value])
        for value in order or sorted({*accepted, *rejected})
        if accepted[value] or rejected[value]
    }


def _unpriced(recipe: Recipe, stages: Sequence[StageCount]) -> tuple[str, ...]:
    """Models that were asked without a price. The embedded one costs nothing."""
    agents = {s.agent for s in stages if s.use.requests}
    if "rewriter" in agents:  # the tester rates what it makes
        agents.add("tester")
    asked = (recipe.endpoint(cast(AgentName, agent)) for agent in agents)
    return tuple(sorted({e.model for e in asked if not e.local} - set(recipe.prices)))


def _cover(folder: RunFolder, accepted: RowCounts) -> Coverage | None:
    """None of a run whose queries were not drawn from a pool of APIs."""
    if not {"apis", "queries"} <= {stage.name for stage in folder.plan}:
        return None
    drawn, queries = RowCounts(), folder.stage("queries")
    fallen = (row["record"] for row in queries.objects("rejected"))
    for record in chain(queries.objects("accepted"), fallen):
        drawn.add(record)
    wanted, made = drawn.combinations, accepted.combinations
    return Coverage(
        pool=sum(1 for _ in folder.stage("apis").objects("accepted")),
        drawn=len(drawn.apis),
        accepted=len(accepted.apis),
        combinations={
            str(level): Combinations(drawn=len(wanted[level]), accepted=len(made[level]))
            for level in Level
            if wanted[level]
        },
    )


def of_templates(run: RunFolder) -> Counter[str]:
    """The rows of each template, or script of a world, by what their ids begin with."""
    ids = (row["dialogue"]["query"]["id"] for row in run.expanded())
    return Counter(name.rpartition("-x")[0] for name in ids)


def expansion_json(run: RunFolder) -> JsonObject | None:
    """What the manifest tells of a run's templates; None without."""
    coverage = coverage_of(run)
    if coverage is None:
        return None
    fallen = Counter(row["reason"] for row in run.stage(EXPANDED).objects("rejected"))
    plan = run.recipe.splits
    rows = Counter(split_of(plan, row["dialogue"]["query"]).value for row in run.expanded())
    told = coverage.model_dump(mode="json")
    return {
        "templates": {kind: n for kind, n in sorted(coverage.templates.items()) if n},
        "used": len(of_templates(run)),
        "rows": dict(rows),
        "refused": coverage.refused,
        "values": coverage.kept,
        "rejected": ranked(fallen),
        "coverage": {name: told[name] for name in ("apis", "covered", "kinds", "without")},
    }


class TemplateCoverage(Record):
    """How far templates reach over the APIs that may be called in the splits that get rows."""

    apis: int = Field(description="APIs that may be called there.")
    kinds: dict[str, int] = Field(description="APIs with a template of a kind.")
    covered: int = Field(description="APIs with a template of any kind.")
    without: tuple[str, ...] = Field(description="Ids of the APIs without any, the first 1,000.")
    templates: dict[str, int] = Field(description="Templates by kind.")
    samples: int = Field(description="Samples that were looked at: made templates, or refused.")
    refused: dict[str, int] = Field(description="What became no template, by reason.")
    kept: dict[str, int] = Field(description="Values of templates that are no slots, by reason.")
    rows: int = Field(description="Rows that were made of templates.")


def coverage_of(run: RunFolder) -> TemplateCoverage | None:
    """The coverage of a run, as far as it came; None if it makes no templates."""
    if EXPANDED not in {stage.name for stage in run.plan}:
        return None
    apis = {*offered(run.recipe, run.stage("apis").objects("accepted"))}
    called = {kind: set[str]() for kind in KINDS}
    made, kept, refused, samples = Counter[str](), Counter[str](), Counter[str](), 0
    for template in map(Template.model_validate, run.stage("templates").objects("accepted")):
        called[template.kind].update(template.apis)
        made[template.kind] += 1
        kept.update(finding.reason.value for finding in template.refused)
    for rejected in run.stage("templates").objects("rejected"):
        refused[rejected["reason"]] += 1
        samples += not rejected["agent"] and "dialogue" in rejected["record"]
    covered = set[str]().union(*called.values()) & apis
    return TemplateCoverage(
        apis=len(apis),
        kinds={kind: len(called[kind] & apis) for kind in KINDS},
        covered=len(covered),
        without=tuple(sorted(apis - covered)[:MOST]),
        templates={kind: made[kind] for kind in KINDS},
        samples=made["mined"] + samples,
        refused=ranked(refused),
        kept=ranked(kept),
        rows=sum(1 for _ in run.expanded()),
    )


def offered(recipe: Recipe, apis: Iterable[JsonObject]) -> Iterator[str]:
    """Ids of the APIs, given as JSON, that may be called in a split that gets rows."""
    wanted = set((recipe.expand or ExpansionPlan()).splits)
    for api in apis:
        place = zone(recipe.splits, *tool_of(api))
        if wanted & ({place} if place.unseen else set(SEEN)):
            yield api_id(api)


def contamination(run: RunFolder) -> Iterator[JsonObject]:
    """Each pair of a run's row and a benchmark's: rows that were dropped, then rows that stay.

    `id`, `split`, `dropped`, `check` (words, text or calls), `benchmark`, `place`, `match`, and
    both texts as `row` and `theirs`.
    """
    recipe = run.recipe
    stages = {stage.name for stage in run.plan if not stage.given}
    for name in (DECONTAMINATED, EXPANDED):
        if name in stages:
            yield from pairs(run.stage(name).objects("rejected"), recipe.splits)
    if DECONTAMINATED in stages and recipe.curation.contaminated == "flag":
        yield from pairs(run.samples(), recipe.splits)


def pairs(rows: Iterable[JsonObject], plan: SplitPlan) -> Iterator[JsonObject]:
    """The pairs in rejected records, or in the flags of samples."""
    for row in rows:
        dropped = "record" in row
        sample = row["record"] if dropped else row
        for finding in row["findings"] if dropped else row["flags"]:
            if finding["reason"] == Reason.CONTAMINATED:
                need = sample["dialogue"]["query"]
                where = {"id": need["id"], "split": split_of(plan, need).value, "dropped": dropped}
                yield {**where, **overlap(finding["check"], finding["detail"])}


def overlap(check: str, detail: str) -> JsonObject:
    """What a finding of `curation.contamination` tells of the two texts. Raises ValueError if it
    tells nothing: the detail holds all of it as JSON strings, in this order."""
    decoder, texts, at = json.JSONDecoder(), list[Any](), 0
    while (at := detail.find('"', at)) >= 0:
        text, at = decoder.raw_decode(detail, at)
        texts.append(text)
    names = ("benchmark", "place", "match", "row", "theirs")
    if len(texts) != len(names):
        raise ValueError(f"not the detail of an overlap: {detail[:200]}")
    return {"check": check.removeprefix("overlap_"), **dict(zip(names, texts, strict=True))}
