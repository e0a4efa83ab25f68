"""Calls: known names, arguments that fit and are grounded, search before call; and observations,
which fit the API's `returns` and fail only where a fault was planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.evidence import says_no
from toolloom.pipeline.checks.grounding import founded, named
from toolloom.pipeline.checks.intent import fits
from toolloom.pipeline.checks.schema import UncheckableSchema, violations
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    made,
    observed_before,
    replies,
    said_before,
    shown,
)
from toolloom.schemas import Dialogue, Reason


def known_names(dialogue: Dialogue) -> Iterator[Fault]:
    """Only APIs on offer are called: the pool's, and API Search where it is given."""
    for call in made(dialogue):
        if call.is_search and not dialogue.query.ability.searches:
            detail = "api_search is not on offer in this ability"
            yield Fault(Reason.API_HALLUCINATION, call.place, detail)
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
            reason = Reason.INVALID_INPUT_PARAMETERS
            if fault.keyword == "required":
                if not fault.path:
                    continue  # told above
                reason = Reason.MISSING_INPUT_PARAMETERS
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


def fitting_observations(dialogue: Dialogue) -> Iterator[Fault]:
    """A successful response fits the schema its API promises."""
    for call in made(dialogue):
        if call.api is None or call.api.returns is None or call.failed or _cut(dialogue, call):
            continue
        try:
            for fault in violations(call.api.returns, call.response):
                yield Fault(Reason.OBSERVATION_OFF_SCHEMA, call.back, f"{call.name}: {fault}")
        except UncheckableSchema as error:
            yield Fault(Reason.ILLEGAL_SCHEMA, None, f"returns of {call.api.id}: {error}")


def _cut(dialogue: Dialogue, call: CallMade) -> bool:
    """Of a response far over the token limit only the beginning of its text is left."""
    execution = dialogue.messages[call.back].execution if call.back is not None else None
    compressed = execution is not None and execution.whole_tokens is not None
    return compressed and isinstance(call.response, str)


def planned_faults(dialogue: Dialogue) -> Iterator[Fault]:
    """Only the planned call fails; a passing fault is overcome, a lasting one is admitted."""
    fault = dialogue.query.fault
    due = dialogue.query.due
    planned = due[fault.call] if fault and fault.call < len(due) else None
    failed = [c for c in made(dialogue) if c.observation and c.observation.error is not None]
    for call in failed:
        if not (planned and fits(planned, call)):
            error = call.observation.error if call.observation else None
            detail = f"{call.name} failed where no fault was planned: {shown(error)}"
            yield Fault(Reason.HAS_EXCEPTION, call.back, detail)
    if not (fault and planned):
        return
    hit = [c for c in failed if fits(planned, c)]
    worked = [c for c in made(dialogue) if fits(planned, c) and not c.failed]
    if not hit:
        detail = f"the planned fault of {planned.api} never showed"
        if fault.real and worked:
            detail = f"{planned.api} works with the value on which it was to fail"
        yield Fault(Reason.INTENT_MISMATCH, None, detail)
    elif fault.transient and not any(c.place > hit[0].place for c in worked):
        detail = f"{hit[0].name} failed for once and was not tried again with success"
        yield Fault(Reason.NO_API_CALL, hit[0].place, detail)
    elif not fault.transient and worked:
        detail = f"{worked[0].name} works although its fault is planned to last"
        yield Fault(Reason.INTENT_MISMATCH, worked[0].place, detail)
    elif not fault.transient:
        last = [(place, text) for place, text, _ in replies(dialogue) if place > hit[-1].place]
        if last and dialogue.query.language == "English" and not any(says_no(t) for _, t in last):
            detail = f"does not say that {hit[0].name} failed ({shown(fault.error)})"
            yield Fault(Reason.UNGROUNDED_ANSWER, last[0][0], detail)
