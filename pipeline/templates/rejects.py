"""Rejected records of the stage `expanded`, apart from those of its checks."""

from __future__ import annotations

from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.stage import StageInput
from toolloom.pipeline.templates.composition import Row
from toolloom.schemas import Finding, Reason, Rejected, Template


def rejected(
    mould: TemplateRenderer, row: Row, name: str, findings: list[Finding], given: StageInput
) -> Rejected:
    sample = mould.sample(row, name, given.recipe.seed)
    return Rejected.of(sample, given.stage, findings, id=name, provenance=sample.provenance)


def misfit(template: Template, why: str, given: StageInput) -> Rejected:
    """A template that no row can be made of, with its sample as it is: slots and all."""
    found = Finding(check="mould", reason=Reason.NOTHING_TO_VARY, detail=f"No row fits: {why}.")
    return Rejected.of(
        template.sample, given.stage, [found], id=template.id, provenance=template.provenance
    )
