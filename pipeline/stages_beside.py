"""The stages whose records stand beside the samples: templates, their rows, and instructions.

What they need is imported when a run has them: most have not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolloom.agents.outcome import Job
from toolloom.pipeline.stage import Context, Outcome, Sifted, Sifting, Stage
from toolloom.schemas import (
    Api,
    Expansion,
    Instruction,
    JsonObject,
    Need,
    Recipe,
    RecipeError,
    Record,
    Rejected,
    Seed,
    Template,
    seed_for,
)
from toolloom.schemas.split_plan import split_of


def wants_templates(recipe: Recipe) -> bool:
    return recipe.expand is not None


def wants_levels(recipe: Recipe) -> bool:
    return recipe.rewrite is not None


def check_templates(recipe: Recipe) -> None:
    """Raises RecipeError or TemplateFileError for written templates that are not there or no
    templates, and RecipeError for benchmarks that are not there."""
    if recipe.expand:
        from toolloom.pipeline.curation import benchmarks
        from toolloom.pipeline.templates.written.files import check_files

        _check("expand.templates", recipe.expand.templates)
        check_files(recipe.expand.templates)
        benchmarks.check(recipe)


def check_seeds(recipe: Recipe) -> None:
    """Raises RecipeError if files of solution trees are not there, or hold none."""
    if recipe.rewrite:
        from toolloom.pipeline.formats.toolbench_seeds import check

        _check("rewrite.seeds", recipe.rewrite.seeds)
        check(recipe.rewrite.seeds)


def _check(field: str, named: Iterable[str]) -> None:
    for name in named:
        if not Path(name).expanduser().exists():
            raise RecipeError(f"{field}: there is no {name}.")


def votes_of(recipe: Recipe) -> int:
    """Ratings of each instruction; as many as votes on a dialogue, unless the recipe tells."""
    wanted = recipe.rewrite.votes if recipe.rewrite else None
    return recipe.tester.votes if wanted is None else wanted


def expect_all(_: Recipe, coming: int) -> int:
    """A record of each row: what cannot serve is known when it is read."""
    return coming


def draw_templates(given: Sifting) -> Iterator[Record]:
    from toolloom.pipeline.templates.templates import draw_templates as draw

    yield from draw(given)


async def make_template(record: Template | Rejected | Need, context: Context) -> Outcome:
    from toolloom.pipeline.templates.templates import make_template as make

    return await make(record, context)


def expand_templates(given: Sifting) -> Iterator[Sifted]:
    from toolloom.pipeline.templates.expand import expand

    yield from expand(given)


def draw_seeds(given: Sifting) -> Iterator[Record]:
    """A seed of each sample that calls something, then one of each ToolBench solution tree.

    Only of the splits that are wanted. Samples in which nothing fits the request have no path,
    hence no tag that a level could name: they yield nothing.
    """
    plan = given.recipe.rewrite
    splits = plan.splits if plan else ()
    for seed in _seeds(given):
        if not (splits and isinstance(seed, Seed) and seed.split not in splits):
            yield seed


def _seeds(given: Sifting) -> Iterator[Seed | Rejected]:
    from toolloom.pipeline.dataset.instructions import seed_of
    from toolloom.pipeline.formats.toolbench_seeds import tree_seeds

    plan, wanted = given.recipe.splits, given.recipe.rewrite
    for sample in _samples(given):
        seed = seed_of(sample, split_of(plan, sample["dialogue"]["query"]))
        if seed:
            yield seed
    if wanted and wanted.seeds:
        apis = (Api.model_validate(api) for _, api in given.earlier("apis").objects())
        yield from tree_seeds(wanted.seeds, plan, given.stage, apis, given.rows.check)


def _samples(given: Sifting) -> Iterator[JsonObject]:
    for _, sample in given.rows.objects():
        yield sample
    wanted = given.recipe.rewrite
    if wanted and wanted.expanded:
        from toolloom.pipeline.dataset.unfold import unfolded

        for _, expansion in given.earlier("expanded").objects():
            yield from unfolded(Expansion.model_validate(expansion), given.recipe.seed)


async def rewrite_requests(seed: Seed | Rejected, context: Context) -> Outcome:
    """The five levels of a seed; what cannot be one came rejected."""
    from toolloom.agents import rewriter
    from toolloom.pipeline.checks.instructions.checks import CHECKS

    if isinstance(seed, Rejected):
        return Outcome((), (seed,))
    own = seed_for(context.recipe.seed, "rewritten", seed.id)
    job = Job("rewritten", "rewriter", seed.id, own, context.model("rewriter"))
    rater = dataclasses.replace(job, agent="tester", model=context.model("tester"))
    votes = votes_of(context.recipe)
    return await rewriter.run(seed, job, CHECKS, rater if votes else None, votes)


TEMPLATES = Stage(
    "templates",
    "query",
    Record,
    Template,
    make_template,
    expects=expect_all,
    when=wants_templates,
    ready=check_templates,
    beside=True,
    gather=draw_templates,
)
EXPANDED = Stage(
    "expanded",
    "",
    Template,
    Expansion,
    sift=expand_templates,
    when=wants_templates,
    beside=True,
)
REWRITTEN = Stage(
    "rewritten",
    "rewriter",
    Record,
    Instruction,
    rewrite_requests,
    expects=expect_all,
    when=wants_levels,
    ready=check_seeds,
    beside=True,
    gather=draw_seeds,
)
