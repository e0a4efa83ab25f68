"""Calls: known names, arguments that fit the schema and are grounded, search before call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.grounding import founded, named
from toolloom.pipeline.checks.schema import UncheckableSchema, violations
from toolloom.pipeline.checks.transcript import Fault, made, observed_before, said_before, shown
from toolloom.schemas import Dialogue, Reason


def known_names(dialogue: Dialogue) -> Iterator[Fault]:
    """Only APIs on offer are called: the pool's, and API Search where it is given."""
    for call in made(dialogue):
        if call.is_search and not dialogue.query.ability.searches:
            yield Fault(
                Reason.API_HALLUCINATION, call.place, "api_search is not on offer in this ability"
            )
        elif call.api is None:
            offered = ", ".join(sorted(a.function for a in dialogue.query.pool)[:8])
            detail = f"no API is called {shown(call.name)}; the pool has {offered}"
            yield Fault(Reason.API_HALLUCINATION, call.place, detail)


def fitting_arguments(dialogue: Dialogue) -> Iterator[Fault]:
    """Arguments fit the API's JSON Schema; names it does not know count as wrong everywhere."""
    for call in made(dialogue):
        if call.api is None:
            continue
        for name in call.api.required:
            if name not in call.arguments:
                detail = f"{call.name} needs `{name}`"
                yield Fault(Reason.MISSING_INPUT_PARAMETERS, call.place, detail)
        for name, value in call.arguments.items():
            if name not in call.api.properties:
                detail = f"{call.name} has no parameter `{name}` (given {shown(value)})"
                yield Fault(Reason.INVALID_INPUT_PARAMETERS, call.place, detail)
        try:
            faults = violations(call.api.parameters, call.arguments)
        except UncheckableSchema as error:
            yield Fault(Reason.ILLEGAL_SCHEMA, None, f"parameters of {call.api.id}: {error}")
            continue
        for fault in faults:
            missing_below = fault.keyword == "required" and fault.path
            if fault.keyword == "required" and not missing_below:
                continue  # told above
            reason = (
                Reason.MISSING_INPUT_PARAMETERS
                if missing_below
                else Reason.INVALID_INPUT_PARAMETERS
            )
            yield Fault(reason, call.place, f"{call.name}: {fault}")


def grounded_arguments(dialogue: Dialogue) -> Iterator[Fault]:
    """Each argument was said by the user or observed before; the assistant's words do not count.

    API Search's documentation does not count either, and its own keywords need no ground.
    """
    for call in made(dialogue):
        if call.api is None or call.is_search:
            continue
        texts = said_before(dialogue, call.place)
        seen = observed_before(dialogue, call.place)
        for name, value in call.arguments.items():
            schema = named(name, call.api.properties.get(name))
            if not founded(value, texts, seen, schema, dialogue.query.now):
                detail = f"{call.name}: nobody said {name}={shown(value)}"
                yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)


def searched_first(dialogue: Dialogue) -> Iterator[Fault]:
    """In the retrieve abilities an API is found through API Search before it is called."""
    if not dialogue.query.ability.searches:
        return
    calls = made(dialogue)
    for call in calls:
        if call.is_search:
            continue
        found = {
            name
            for search in calls
            if search.is_search and search.back is not None and search.back < call.place
            for name in _documented(search.response)
        }
        if call.name not in found:
            detail = f"{call.name} is called before a search has found it"
            yield Fault(Reason.SEARCH_SKIPPED, call.place, detail)


def _documented(response: Any) -> Iterator[str]:
    """Names of the APIs whose documentation a search returned, in a list or on its own."""
    for document in response if isinstance(response, list) else [response]:
        if isinstance(document, dict) and isinstance(document.get("name"), str):
            yield document["name"]
