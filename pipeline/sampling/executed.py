"""Which APIs the recipe lets really run."""

from __future__ import annotations

from collections.abc import Sequence

from toolloom.pipeline.apis.execution.naming import server_name
from toolloom.pipeline.apis.execution.sources import find_place, place_of
from toolloom.schemas import Api, ApiSource, Recipe, ToolloomError


def executed_by(recipe: Recipe, api: Api) -> ApiSource | None:
    """The source that really executes an API, by the very rule that execution goes by.

    Raises ToolloomError if a source names it and there is no telling where it is.
    """
    place = find_place(api, recipe.apis.sources)
    return place.source if place else None


def check_executed(recipe: Recipe, apis: Sequence[Api]) -> None:
    """Raises ToolloomError for a source whose `execute` lets nothing run: all would be played."""
    for source in recipe.apis.sources:
        if source.execute and not any(place_of(api, source) for api in apis):
            shown = source.path or server_name(source.mcp, source.name)
            raise ToolloomError(
                f"apis.sources: {shown}: `execute` names {', '.join(source.execute)}, of which "
                "nothing can be executed. Only Python functions, named by their file, folder or "
                "module, and tools of MCP servers can: take `execute` out, or move it to such a "
                "source."
            )
