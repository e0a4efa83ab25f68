"""Which APIs the recipe lets really run."""

from __future__ import annotations

from toolloom.pipeline.execution.places import place_of
from toolloom.schemas import Api, ApiSource, Recipe


def executed_by(recipe: Recipe, api: Api) -> ApiSource | None:
    """The source that really executes an API, by the very rule that execution goes by.

    Raises ToolloomError if a source names it and there is no telling where it is.
    """
    return next((source for source in recipe.apis.sources if place_of(api, source)), None)
