"""The stages whose records stand beside the samples: templates, their rows, and instructions.

What they need is imported when a run has them: most have not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolloom.agents.ask import Job
from toolloom.pipeline.stage import Context, Sifted, Sifting, Stage
from toolloom.schemas import (
    Expansion,
    Instruction,
    Need,
    Outcome,
    Recipe,
    RecipeError,
    Record,
    Rejected,
    Seed,
    Template,
    seed_for,
)


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
    """The seeds of the splits that are wanted, and what cannot be one."""
    from toolloom.pipeline.dataset.instructions.seeds import draw_seeds as draw

    splits = given.recipe.rewrite.splits if given.recipe.rewrite else ()
    for seed in draw(given):
        if not (splits and isinstance(seed, Seed) and seed.split not in splits):
            yield seed


async def rewrite_requests(seed: Seed | Rejected, context: Context) -> Outcome:
    """The five levels of a seed; what cannot be one came rejected."""
    from toolloom.agents import rewriter

    if isinstance(seed, Rejected):
        return Outcome((), (seed,))
    own = seed_for(context.recipe.seed, "rewritten", seed.id)
    job = Job("rewritten", "rewriter", seed.id, own, context.model("rewriter"))
    rater = dataclasses.replace(job, agent="tester", model=context.model("tester"))
    votes = votes_of(context.recipe)
    return await rewriter.run(seed, job, rater if votes else None, votes)


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
