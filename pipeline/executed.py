"""Which APIs the recipe lets really run."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from urllib.parse import urlsplit

from toolloom.schemas import Api, ApiSource, Recipe


def executed_by(recipe: Recipe, api: Api) -> ApiSource | None:
    """The source that really executes an API: one it was read from, that lists it in `execute`."""
    called = {api.name, api.source.operation, api.function} - {""}
    for source in recipe.apis.sources:
        if called & set(source.execute) and _is_from(api, source):
            return source
    return None


def server_name(source: ApiSource) -> str:
    """An MCP server's name: the given one, else its host with the path, else its program."""
    if source.name or not source.mcp:
        return source.name
    if source.mcp.startswith(("http://", "https://")):
        parts = urlsplit(source.mcp)
        return f"{parts.hostname or ''}{parts.path.rstrip('/')}"
    try:
        program = shlex.split(source.mcp)[0]
    except (ValueError, IndexError):  # an open quotation mark, or nothing but spaces
        program = source.mcp.split()[0] if source.mcp.split() else source.mcp
    return PurePath(program).name


def _is_from(api: Api, source: ApiSource) -> bool:
    """Whether an API was read from a source: from its path, or a file in that folder."""
    if source.mcp:
        return api.source.kind == "mcp" and api.source.reference == server_name(source)
    where, path = api.source.reference, source.path
    inside = where.startswith(f"{path.rstrip('/')}/")
    return api.source.kind not in ("mcp", "generated") and (where == path or inside)
