"""The stage `templates`: mined of samples, and written."""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.stage import Sifted, StageInput
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.templates.mining.mining import mine
from toolloom.pipeline.templates.mining.survey import SeenValues
from toolloom.pipeline.templates.written.files import Given, load_templates
from toolloom.schemas import Api, ExpansionPlan, JsonObject, Rejected, Split
from toolloom.schemas.splits import split_of


def draw_templates(given: StageInput) -> Iterator[Sifted]:
    """Templates of the samples of the wanted splits, but for those in worlds, whose scripts are
    played again; then written ones.

    Reads the samples twice: other samples of a split tell what its values may be. Raises
    TemplateFileError for written templates that do not fit the APIs of the run.
    """
    plan = given.recipe.expand or ExpansionPlan()
    if plan.mine:
        known: dict[Split, SeenValues] = {split: SeenValues() for split in plan.splits}
        for split, sample in _samples(given, plan):
            known[split].add(sample)
        for split, sample in _samples(given, plan):
            made = mine(sample, known[split], split)
            yield made if isinstance(made, Rejected) else record_line(made)
    recipe = given.recipe
    apis = [Api.model_validate(row) for _, row in given.earlier("apis").objects()]
    language, distractors = recipe.languages[0], recipe.queries.distractors
    of = Given(apis, recipe.seed, language, distractors, recipe.splits)
    yield from map(
        record_line, load_templates(plan.templates, of)
    )  # read once what is mined was taken


def _samples(given: StageInput, plan: ExpansionPlan) -> Iterator[tuple[Split, JsonObject]]:
    for _, sample in given.rows.objects():
        query = sample["dialogue"]["query"]
        split = split_of(given.recipe.splits, query)
        if split in plan.splits and not query.get("setting"):
            yield split, sample
