"""Rejected records of the stage `expanded`, apart from those of its checks."""

from __future__ import annotations

from toolloom.pipeline.dataset.unfold import TemplateRenderer
from toolloom.pipeline.stage import Sifting
from toolloom.pipeline.templates.composition import Row
from toolloom.schemas import Finding, Reason, Rejected, Template


def rejected(
    mould: TemplateRenderer, row: Row, name: str, findings: list[Finding], given: Sifting
) -> Rejected:
    sample = mould.sample(row, name, given.recipe.seed)
    return Rejected(
        id=name,
        stage=given.stage,
        agent="",
        reason=findings[0].reason,
        detail=findings[0].detail,
        findings=tuple(findings),
        record=sample.model_dump(mode="json"),
        provenance=sample.provenance,
    )


def misfit(template: Template, why: str, given: Sifting) -> Rejected:
    """A template that no row can be made of, with its sample as it is: slots and all."""
    found = Finding(check="mould", reason=Reason.NOTHING_TO_VARY, detail=f"No row fits: {why}.")
    return Rejected(
        id=template.id,
        stage=given.stage,
        agent="",
        reason=found.reason,
        detail=found.detail,
        findings=(found,),
        record=template.sample,
        provenance=template.provenance,
    )
