"""What a person sees of a recipe."""

from __future__ import annotations

import os
from collections import Counter
from typing import get_args

from rich.console import RenderableType

from toolloom.pipeline.dataset.report import dollars
from toolloom.pipeline.render.terminal import grid
from toolloom.schemas import AgentName, ApiSource, Recipe
from toolloom.schemas.endpoint import public


def recipe_view(recipe: Recipe) -> list[RenderableType]:
    """What a recipe amounts to."""
    from toolloom.pipeline.sampling.drawing import counted  # loads all checks, 2 s

    apis, queries = recipe.apis, recipe.queries
    head = f"{recipe.name}, run {recipe.run_id}, seed {recipe.seed}, {', '.join(recipe.languages)}"
    domains = f"{apis.domains:,} domains with {apis.per_domain} APIs each, then "
    plan = (
        f"{domains if apis.domains else ''}{queries.count:,} queries with {queries.distractors} "
        f"distractors, each judged by {recipe.tester.votes or 'no'} votes, in shards of "
        f"{recipe.shard_size:,}."
    )
    about = [recipe.description] if recipe.description else []
    lines: list[RenderableType] = [head, *about, "", plan, *_beside(recipe), "", *_sources(recipe)]
    lines += [grid(("agent", "asks", "requests at once"), _agents(recipe))]
    kinds = counted(recipe)
    for title, place in (("ability", 0), ("scenario", 1)):
        sums: Counter[str] = Counter()
        for kind, number in kinds.items():
            sums[kind[place]] += number
        lines += ["", grid((title, "queries"), list(sums.items()))]
    return [*lines, *_budget(recipe), *_missing_keys(recipe)]


def _budget(recipe: Recipe) -> list[str]:
    """What the run may use, if the recipe says it."""
    budget = recipe.budget
    limits = [
        *([dollars(budget.max_cost)] if budget.max_cost is not None else []),
        *([f"{budget.max_tokens:,} tokens"] if budget.max_tokens is not None else []),
        *([f"{budget.max_requests:,} requests"] if budget.max_requests is not None else []),
    ]
    return ["", f"The run stops before it passes {' or '.join(limits)}."] if limits else []


def _sources(recipe: Recipe) -> list[RenderableType]:
    rows = [
        (s.path or s.name or s.mcp.split()[0], "MCP server" if s.mcp else s.format, _executed(s))
        for s in recipe.apis.sources
    ]
    return [grid(("real APIs from", "format", "really executed"), rows), ""] if rows else []


def _executed(source: ApiSource) -> str:
    return ", ".join(source.execute) or "none: played by the model"


def _beside(recipe: Recipe) -> list[str]:
    """What is made beside the samples, if the recipe says it."""
    lines = []
    if plan := recipe.expand:
        lines.append(f"Then {plan.rows:,} rows of templates, in {', '.join(plan.splits)}.")
    if recipe.rewrite:
        wanted = recipe.rewrite.votes
        votes = recipe.tester.votes if wanted is None else wanted
        lines.append(f"Then requests at five granularities, each rated by {votes or 'no'} votes.")
    return lines


def _agents(recipe: Recipe) -> list[tuple[str, str, int]]:
    endpoints = {name: recipe.endpoint(name) for name in _asked(recipe)}
    where = {True: "the embedded model's server"}
    return [
        (name, f"{e.model} at {where.get(e.local, public(e.base_url))}", e.concurrency)
        for name, e in endpoints.items()
    ]


def _asked(recipe: Recipe) -> list[AgentName]:
    """The agents that a recipe has work for."""
    return [name for name in get_args(AgentName) if recipe.rewrite or name != "rewriter"]


def _missing_keys(recipe: Recipe) -> list[str]:
    endpoints = [recipe.endpoint(name) for name in _asked(recipe)]
    wanted = sorted({e.key_env for e in endpoints if not e.local and e.key_env not in os.environ})
    return [
        f"Note: {name} is not set; endpoints that ask for a key will refuse." for name in wanted
    ]
