"""Which APIs have a template, what samples, templates and rows there are, and what was refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from toolloom.schemas import (
    Expansion,
    ExpansionPlan,
    JsonObject,
    Recipe,
    Record,
    Rejected,
    Template,
)
from toolloom.schemas.split_plan import SEEN, api_id, tool_of, zone

if TYPE_CHECKING:
    from toolloom.pipeline.store.run import RunFolder

KINDS = ("mined", "written", "asked")
SHOWN = 10  # APIs without a template that a screen names
MOST = 1000  # that a manifest names


class TemplateCoverage(Record):
    """How far templates reach over the APIs that may be called in the splits that get rows."""

    apis: int = Field(description="APIs that may be called there.")
    kinds: dict[str, int] = Field(description="APIs with a mined, written or asked template.")
    covered: int = Field(description="APIs with a template of any kind.")
    without: tuple[str, ...] = Field(description="Ids of the APIs without any, the first 1,000.")
    templates: dict[str, int] = Field(description="Templates by kind.")
    samples: int = Field(description="Samples that were looked at: made templates, or refused.")
    refused: dict[str, int] = Field(description="What became no template, by reason.")
    kept: dict[str, int] = Field(description="Values of templates that are no slots, by reason.")
    rows: int = Field(description="Rows that were made of templates.")

    @classmethod
    def of(
        cls,
        apis: Iterable[str],
        templates: Iterable[Template],
        refused: Iterable[Rejected],
        expansions: Iterable[Expansion] = (),
    ) -> TemplateCoverage:
        """Counted of records, each read once; `apis` are ids."""
        seen, offered = _Seen(), set(apis)
        for template in templates:
            seen.template(template)
        for rejected in refused:
            seen.rejected(rejected)
        any_kind = set[str]().union(*seen.called.values()) & offered
        return cls(
            apis=len(offered),
            kinds={kind: len(seen.called[kind] & offered) for kind in KINDS},
            covered=len(any_kind),
            without=tuple(sorted(offered - any_kind)[:MOST]),
            templates={kind: seen.made[kind] for kind in KINDS},
            samples=seen.made["mined"] + seen.samples,
            refused=_ranked(seen.refused),
            kept=_ranked(seen.kept),
            rows=sum(len(each.rows) for each in expansions),
        )

    def told(self) -> JsonObject:
        """For a manifest."""
        return self.model_dump(mode="json")


class _Seen:
    """What was counted so far, in memory that grows with the APIs."""

    def __init__(self) -> None:
        self.called: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.made: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.samples = 0

    def template(self, template: Template) -> None:
        self.called[template.kind].update(template.apis)
        self.made[template.kind] += 1
        self.kept.update(finding.reason.value for finding in template.refused)

    def rejected(self, rejected: Rejected) -> None:
        self.refused[rejected.reason.value] += 1
        self.samples += not rejected.agent and "dialogue" in rejected.record


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def coverage_of(run: RunFolder) -> TemplateCoverage | None:
    """The coverage of a run, as far as it came; None if it makes no templates."""
    recipe = run.recipe
    if recipe.expand is None:
        return None
    stage = run.stage("templates")
    return TemplateCoverage.of(
        offered(recipe, run.stage("apis").objects("accepted")),
        map(Template.model_validate, stage.objects("accepted")),
        map(Rejected.model_validate, stage.objects("rejected")),
        run.expansions(),
    )


def offered(recipe: Recipe, apis: Iterable[JsonObject]) -> Iterator[str]:
    """Ids of the APIs, given as JSON, that may be called in a split that gets rows."""
    wanted = set((recipe.expand or ExpansionPlan()).splits)
    for api in apis:
        place = zone(recipe.splits, *tool_of(api))
        if wanted & ({place} if place.unseen else set(SEEN)):
            yield api_id(api)
