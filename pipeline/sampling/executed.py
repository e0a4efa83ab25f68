"""Which APIs the recipe lets really run."""

from __future__ import annotations

from toolloom.pipeline.execution.places import find_place
from toolloom.schemas import Api, ApiSource, Recipe


def executed_by(recipe: Recipe, api: Api) -> ApiSource | None:
    """The source that really executes an API, by the very rule that execution goes by.

    Raises ToolloomError if a source names it and there is no telling where it is.
    """
    place = find_place(api, recipe.apis.sources)
    return place.source if place else None
