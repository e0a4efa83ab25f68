"""A toy dataset that grows: stages whose records stand beside the samples (templates, their rows,
instructions), stages that note what they work on, and what is read of a version."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from support import finished_runs, toys
from toolloom.pipeline.curation import duplicates
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.growth import plan_growth
from toolloom.pipeline.run import Made, make_dataset
from toolloom.pipeline.stage import Context, Sifted, Stage, StageInput
from toolloom.pipeline.stages import STAGES
from toolloom.pipeline.store.files import record_line, to_line
from toolloom.pipeline.store.version import Version
from toolloom.pipeline.templates.filling import TemplateRenderer
from toolloom.schemas import (
    Domain,
    Granularity,
    Instruction,
    JsonObject,
    Need,
    Outcome,
    Query,
    Reason,
    Recipe,
    Record,
    Rejected,
    Sample,
    Seed,
    Step,
    Template,
)
from toolloom.schemas.splits import split_of

PLAN = {"unseen": ["c1", "c2/t0"], "seen": ["c2", "c3", "c4", "c5"]}


TOYISH = {"check", "record"}


class Maker:
    """The toy stages with the real search for duplicates; notes what is worded and which domains
    get APIs, and may accept nothing."""

    def __init__(
        self,
        accepts_nothing: bool = False,
        says: Callable[[Need], str] = lambda need: need.id,
    ) -> None:
        self.asked: list[str] = []
        self._says, self._accepts_nothing = says, accepts_nothing
        domains, apis, queries, tested = toys.SPLIT_STAGES
        sifted = Stage("deduplicated", "", Sample, Sample, sift=duplicates.deduplicate)
        self.stages = (
            domains,
            dataclasses.replace(apis, work=self._apis),
            dataclasses.replace(queries, work=self._word),
            dataclasses.replace(tested, work=self._test),
            sifted,
            *BESIDE,
        )

    async def _apis(self, domain: Domain, context: Context) -> Outcome:
        self.asked.append(domain.category)
        return await toys.make_apis(domain, context)

    async def _word(self, need: Need, context: Context) -> Outcome:
        self.asked.append(need.id)
        said = self._says(need)
        text = " ".join(hashlib.sha256(f"{said} {n}".encode()).hexdigest() for n in range(3))
        return Outcome((Query(**{**dict(need), "text": text}),))

    async def _test(self, query: Query, context: Context) -> Outcome:
        if self._accepts_nothing:
            return Outcome((), (toys.rejected(query, "tested", Reason.UNHELPFUL_ANSWER),))
        return await toys.test_needs(query, context)


def recipe(**changes: Any) -> Recipe:
    queries = {"count": 60, "distractors": 1}
    fields = {"apis": {"domains": 6}, "queries": queries, "splits": PLAN, "shard_size": 4}
    return toys.recipe(**{**fields, **changes})


async def make(outputs: Path, planned: Recipe, maker: Maker | None = None) -> Made:
    return await make_dataset(planned, outputs=outputs, stages=(maker or Maker()).stages)


def published(made: Made) -> Version:
    assert made.published
    return made.published


async def grow(outputs: Path, maker: Maker | None = None, **changes: Any) -> Version:
    return published(await make(outputs, plan_growth(outputs, recipe(**changes)), maker))


def rows(version: Version, config: str, split: str = "train") -> list[Any]:
    return list(version.rows(config, split))


def files(version: Version, but: str) -> dict[str, str]:
    """Hashes of the tables of all splits but one, as they are on the disk."""
    return {
        path.relative_to(version.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in version.path.rglob("*.parquet")
        if not path.name.startswith(f"{but}-") or path.parent.name == "apis"
    }


def faults(version: Version) -> list[Any]:
    """What verification finds, but for the toy dialogues, which the checks object to."""
    return [fault for fault in verify(version.path).faults if fault.kind.value not in TOYISH]


def template(sample: JsonObject) -> Template:
    """A sample with its city as a slot."""
    made: Template = finished_runs.template(Sample.model_validate(sample))
    return made.model_copy(update={"provenance": (toys.share("templates", made.id),)})


def gather_templates(given: StageInput) -> Iterator[Sifted]:
    """Of every sample a template, but of the first."""
    for number, (_, sample) in enumerate(given.rows.objects()):
        if number:
            yield record_line(template(sample))
        else:
            yield Rejected(
                id=sample["dialogue"]["query"]["id"],
                stage=given.stage,
                agent="",
                reason=Reason.NOTHING_TO_VARY,
                detail="A toy fault.",
                record=sample,
            )


def expand(given: StageInput) -> Iterator[Sifted]:
    """A row of each template, as long as more are wanted; the next city where one is published."""
    assert given.recipe.expand
    known = [row["id"] for _, row in given.known.objects()]
    for number, (_, line) in enumerate(given.earlier("templates").objects()):
        if number == given.recipe.expand.rows:
            return
        made = Template.model_validate(line)
        first = sum(name.startswith(f"{made.id}-x") for name in known)
        yield to_line(TemplateRenderer(made).sample((1 + first,), f"{made.id}-x{first:06d}"))


def gather_seeds(given: StageInput) -> Iterator[Record]:
    """A seed of every sample."""
    for _, sample in given.rows.objects():
        query = sample["dialogue"]["query"]
        split = split_of(given.recipe.splits, query)
        step = Step(category="weather", tool="station", api="current", function="weather_current")
        yield Seed(id=query["id"], split=split, hybrid=query["text"], steps=(step,))


async def tell(seed: Seed, context: Context) -> Outcome:
    """The full request, and the API's level; of every second request this is rejected."""
    hybrid, api = (
        Instruction(
            id=f"{seed.id}-{level}",
            sample=seed.id,
            split=seed.split,
            level=level,
            text=f"{seed.hybrid} ({level})",
            tags=seed.tags,
            path=seed.path,
            provenance=(toys.share("rewritten", f"{seed.id}-{level}"),),
        )
        for level in (Granularity.HYBRID, Granularity.API)
    )
    if int(seed.id[-1]) % 2:
        return Outcome((hybrid, api))
    fallen = toys.rejected(api, "rewritten", Reason.TAG_NOT_NAMED)
    draft = {"split": seed.split, "level": api.level, "text": api.text}
    return Outcome((hybrid,), (fallen.model_copy(update={"record": draft}),))


TOYS: dict[str, dict[str, Any]] = {
    "templates": {"sift": gather_templates},
    "expanded": {"sift": expand},
    "rewritten": {"work": tell, "feed": gather_seeds},
}
BESIDE = tuple(
    dataclasses.replace(stage, check=None, expects=None, **TOYS[stage.name])
    for stage in STAGES
    if stage.name in TOYS
)
TEMPLATES, EXPANDED, REWRITTEN = BESIDE
