"""A recipe's limits, shared out to workers: together they keep to what one process keeps to."""

from __future__ import annotations

from toolloom.schemas import Endpoint, Recipe

# A minute, for a share. More than a share is sent when nothing else was within the minute, and
# then by each worker; a request is guessed at its prompt and all it may be answered.
LEAST_TOKENS = 32_768


def most_shares(recipe: Recipe) -> int | None:
    """How many workers can have a share of every limit; None: any number."""
    found = [_most(each) for each in recipe.endpoints if not each.local]
    return min(found, default=None)


def _most(endpoint: Endpoint) -> int:
    tokens = endpoint.tokens_per_minute
    limits = (
        endpoint.concurrency,
        endpoint.requests_per_minute,
        tokens and max(1, tokens // LEAST_TOKENS),
    )
    return min(limit for limit in limits if limit)


def share_of(recipe: Recipe, share: int, shares: int) -> Recipe:
    """The recipe with the limits of one share, counted from 0. Its run stays the same."""
    model = recipe.model.model_copy(update=_limits(recipe.model, share, shares))
    agents = {
        agent: {**changes, **_limits(recipe.endpoint(agent), share, shares)}
        for agent, changes in recipe.agents.items()
    }
    search = recipe.search
    if embeds := search.embeddings:
        embeds = embeds.model_copy(update=_limits(embeds, share, shares))
        search = search.model_copy(update={"embeddings": embeds})
    return recipe.model_copy(update={"model": model, "agents": agents, "search": search})


def _limits(endpoint: Endpoint, share: int, shares: int) -> dict[str, int]:
    """Nothing of an embedded model's: each worker has one of its own."""
    if endpoint.local:
        return {}
    names = ("concurrency", "requests_per_minute", "tokens_per_minute")
    limits = {name: getattr(endpoint, name) for name in names}
    return {
        name: limit // shares + (share < limit % shares)
        for name, limit in limits.items()
        if limit is not None
    }
