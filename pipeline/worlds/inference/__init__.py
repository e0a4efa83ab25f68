"""Worlds behind the APIs of a document, as far as paths and schemas tell, without a model.

    found = infer(apis, "petstore")
    found.draft.text()    # a world's file; its operations have the document's names and schemas
    found.left            # why others are none, by name: they stay simulated

`routes.py` reads a path and the record in a response; `tables.py` makes tables of records that are
alike, with rows; `operations.py` says what each method does to them. What nothing tells is not
guessed.

May touch: chance, through sampling; checks, agents' drafts, schemas.
Begin with `routes.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from toolloom.agents.author import Draft
from toolloom.pipeline.worlds.inference.operations import NotInferred, operation_of
from toolloom.pipeline.worlds.inference.routes import ApiRoute
from toolloom.pipeline.worlds.inference.tables import Tables
from toolloom.schemas import Api, JsonObject


@dataclass(frozen=True)
class Inferred:
    """A world of a document, not yet checked, and why it lacks operations."""

    draft: Draft
    left: dict[str, str]


def infer(apis: Sequence[Api], name: str) -> Inferred:
    """A world of APIs of one document; without operations if nothing could be inferred."""
    alone = [ApiRoute(api) for api in apis]
    known = {route.record.names for route in alone if route.record and not route.record.wrap}
    routes = [ApiRoute(api, known) for api in apis]
    tables, left = Tables(routes), dict[str, str]()
    made: dict[str, tuple[JsonObject, JsonObject]] = {}
    for route in sorted(
        routes, key=lambda each: not each.reads
    ):  # these find which lists there are
        try:
            made[route.api.function] = operation_of(route, tables)
        except NotInferred as why:
            left[route.api.function] = str(why)
    draft = Draft({})
    for function in (api.function for api in apis if api.function in made):
        draft.operations[function], draft.promises[function] = made[function]
    tool = apis[0].tool if apis else name
    draft.frame = {
        "world": name,
        "category": apis[0].category if apis else "",
        "tool": tool,
        "about": f"You work with {tool}.",
        "entities": tables.entities(json.dumps([draft.operations, draft.promises])),
    }
    return Inferred(draft, left)
