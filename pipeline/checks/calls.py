"""Calls: names on offer, arguments that fit and are grounded, search before call; observations that
fit what the API returns; and all of it held against the drawn intent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from toolloom.pipeline.checks.grounding import fixed, founded, named, same, says
from toolloom.pipeline.checks.schema import UncheckableSchema, leaves, violations
from toolloom.pipeline.checks.text.words import forms, plain
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    answered_before,
    asked,
    documented,
    made,
    observed_before,
    once,
    replies,
    said_before,
    shown,
)
from toolloom.schemas import Dialogue, Intention, JsonObject, Query, Reason, Scenario

COPIED = 5  # words in a row of documentation, which nobody hits upon by chance
_WORD = re.compile(r"[^\W_]+")
_NO = re.compile(
    r"n't\b|\bcannot\b|\b(?:un|not )able\b|\bno(?:t|ne|thing|body)?\b|\bfail\w*\b|\berrors?\b"
    r"|\bunfortunate(?:ly)?\b|\bsorry\b|\bapologi[sz]e\b|\bafraid\b|\bproblems?\b|\bissues?\b"
    r"|\bunavailable\b|\bunsuccessful\b|\bwithout success\b|\bregret\b|\bimpossible\b"
    r"|\b(?:beyond|outside) (?:of )?(?:my|the|what)\b|\black\b|\bwent wrong\b|\btimed out\b"
    r"|\bdown\b|\bzero\b|\bempty\b|\binvalid\b|\bdenied\b|\brejected\b|\bneither\b",
    re.IGNORECASE,
)


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
    """In the retrieve abilities an API is found through API Search before it is called, and nothing
    is said of a request before anything is searched for, nor in a turn before its first search."""
    if not dialogue.query.ability.searches:
        return
    calls = made(dialogue)
    for call in calls:
        if not call.is_search and call.name not in documented_before(dialogue, call.place):
            detail = f"{call.name} is called before a search has found it"
            yield Fault(Reason.SEARCH_SKIPPED, call.place, detail)
    start = next((call.place for call in calls), len(dialogue.messages))
    first = {call.turn: call.place for call in reversed(calls) if call.is_search}
    spoken = [place for place, _, _ in replies(dialogue)]
    if early := [at for at in spoken if at < max(start, first.get(asked(dialogue, at), 0))]:
        detail = "something is said of the request before anything is searched for"
        yield Fault(Reason.SEARCH_SKIPPED, early[0], detail)


def documented_before(dialogue: Dialogue, place: int) -> set[str]:
    """Functions whose documentation a search has shown before a message."""
    searches = [call for call in answered_before(dialogue, place) if call.is_search]
    return {name for call in searches for name in documented(call.response)}


def plain_keywords(dialogue: Dialogue) -> Iterator[Fault]:
    """Keywords say the user's need: not the words of documentation that nobody has seen."""
    for call in made(dialogue):
        keywords = call.arguments.get("keywords")
        if not call.is_search or not isinstance(keywords, str) or not _runs(keywords):
            continue
        known = documented_before(dialogue, call.place)
        hidden = [api.description for api in dialogue.query.pool if api.function not in known]
        unseen, said = set[str]().union(*map(_runs, hidden)), said_before(dialogue, call.place)
        for part in sorted(_runs(keywords) & unseen - set[str]().union(*map(_runs, said))):
            detail = f"{shown(part)} stands in documentation that nobody has seen yet"
            yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)


def _runs(text: str) -> set[str]:
    """Each of its words with those that follow it, as many as are copied."""
    words = _WORD.findall(plain(text).lower())
    return {" ".join(words[at : at + COPIED]) for at in range(len(words) - COPIED + 1)}


def fitting_observations(dialogue: Dialogue) -> Iterator[Fault]:
    """A successful response fits the schema its API promises; a search gives documentation of the
    pool as it is."""
    for call in made(dialogue):
        execution = dialogue.messages[call.back].execution if call.back is not None else None
        if execution is not None and execution.kind == "search":
            pool, names = dialogue.query.pool, [*documented(call.response)]
            true = [api.document() for name in names for api in pool if api.function == name]
            if call.failed or true != call.response:
                detail = "a search returned what is no documentation of the pool"
                yield Fault(Reason.OBSERVATION_OFF_SCHEMA, call.back, detail)
            continue
        # Of a response far over the token limit only the beginning of its text is left.
        compressed = execution is not None and execution.whole_tokens is not None
        cut = compressed and isinstance(call.response, str)
        if call.api is None or call.api.returns is None or call.failed or cut:
            continue
        try:
            for fault in violations(call.api.returns, call.response):
                yield Fault(Reason.OBSERVATION_OFF_SCHEMA, call.back, f"{call.name}: {fault}")
        except UncheckableSchema as error:
            yield Fault(Reason.ILLEGAL_SCHEMA, None, f"returns of {call.api.id}: {error}")


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


def says_no(text: str) -> bool:
    """Lexical evidence that something did not work or was not found."""
    return bool(_NO.search(plain(text)))


# The intent


class Pairing(NamedTuple):
    """Calls by the index of the intention they serve, calls that serve none, what is undue.

    `blocked` are intentions that a lasting fault makes impossible: the faulty one and all that
    need its result.
    """

    calls: dict[int, CallMade]
    spare: list[CallMade]
    blocked: set[int]


def differences(intention: Intention, call: CallMade) -> Iterator[str]:
    """What sets a call's arguments apart from the intent; references are checked for order."""
    known = call.api.properties if call.api else {}
    for name, value in intention.arguments.items():
        if name in call.arguments:
            given = call.arguments[name]
            texts = isinstance(given, str) and isinstance(value, str)
            if not (texts and forms(given) & forms(value)) and not same(given, value):
                yield f"{name}={shown(given)}, where the user means {shown(value)}"
        elif not fixed(value, known.get(name)):
            yield f"`{name}` is left out, where the user means {shown(value)}"
    for name, value in call.arguments.items():
        told = intention.arguments.keys() | intention.references.keys()
        if name not in told and not fixed(value, known.get(name)):
            yield f"{name}={shown(value)}, which the user did not ask for"


def fits(intention: Intention, call: CallMade) -> bool:
    """The call is the intended one, argument by argument."""
    right = call.api is not None and call.api.id == intention.api
    return right and not any(differences(intention, call))


@once
def pair(dialogue: Dialogue) -> Pairing:
    """Match successful calls with the intent: exact ones first, then by turn and by API."""
    query = dialogue.query
    undue = set[int]()
    if query.fault and not query.fault.transient:
        undue.add(query.fault.call)
        for index, wanted in enumerate(query.due):
            if any(r.call in undue for r in wanted.references.values()):
                undue.add(index)
    spare = [c for c in made(dialogue) if not c.is_search and not c.failed]
    open_ = [i for i in range(len(query.due)) if i not in undue]
    pairs: dict[int, CallMade] = {}
    for exactly, in_turn in ((True, True), (True, False), (False, True), (False, False)):
        for index in [i for i in open_ if i not in pairs]:
            wanted = query.due[index]
            for call in spare:
                right = call.api is not None and call.api.id == wanted.api
                if in_turn and call.turn != wanted.turn:
                    continue
                if right and (not exactly or fits(wanted, call)):
                    pairs[index] = call
                    spare.remove(call)
                    break
    return Pairing(pairs, spare, undue)


def mentioned_values(dialogue: Dialogue) -> Iterator[Fault]:
    """The user says each intended value by the turn that asks for it."""
    query = dialogue.query
    for intention in query.intent:
        text = "\n".join(
            m.content or ""
            for place, m in enumerate(dialogue.messages)
            if m.role == "user" and asked(dialogue, place + 1) <= intention.turn
        )
        for name, value, schema in _known(query, intention):
            if not says(text, value, schema, query.now):
                detail = f"the user never says {name}={shown(value)} for {intention.api}"
                yield Fault(Reason.VALUE_NOT_MENTIONED, None, detail)


def _known(query: Query, intention: Intention) -> Iterator[tuple[str, Any, JsonObject]]:
    """Values the user must say: not those the schema gives."""
    known = query.api(intention.api).properties
    for name, value in intention.arguments.items():
        schema = known.get(name)
        if name not in intention.references and not fixed(value, schema):
            yield name, value, named(name, schema)


def opening_request(dialogue: Dialogue) -> Iterator[Fault]:
    """The first user turn holds every value of turn 0 but the withheld ones, and is the query's."""
    query = dialogue.query
    first = next((i for i, m in enumerate(dialogue.messages) if m.role == "user"), None)
    if first is None:
        return
    text = dialogue.messages[first].content or ""
    if text.strip() != query.text.strip():
        detail = "the first user message is not the query's text"
        yield Fault(Reason.MALFORMED_DIALOGUE, first, detail)
    for index, intention in enumerate(query.intent):
        for name, value, schema in _known(query, intention) if intention.turn == 0 else ():
            withheld = index == 0 and name in query.withheld
            if withheld and _gives_away(query, text, name, value, schema):
                detail = f"the request already says {name}={shown(value)}, which is to be asked for"
                yield Fault(Reason.VALUE_GIVEN_AWAY, first, detail)
            elif not withheld and not says(text, value, schema, query.now):
                detail = f"the request does not say {name}={shown(value)}"
                yield Fault(Reason.VALUE_NOT_MENTIONED, first, detail)


def _gives_away(query: Query, text: str, name: str, value: Any, schema: JsonObject) -> bool:
    """Said, and not only because another argument, which may be told, has the same value."""
    if isinstance(value, bool) or value is None:
        return False
    told = [
        leaf
        for index, intention in enumerate(query.intent)
        for other, v in intention.arguments.items()
        if index or (other != name and other not in query.withheld)
        for leaf in leaves(v)
    ]
    return says(text, value, schema, query.now) and not any(same(value, v) for v in told)


def intended_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """Each intended call is made in its turn with the intended values, and no other is made."""
    paired, query, calls = pair(dialogue), dialogue.query, made(dialogue)
    for index, wanted in enumerate(query.due):
        if index in paired.blocked:
            continue
        call = paired.calls.get(index)
        if call is None:
            in_turn = any(c.turn == wanted.turn and not c.is_search for c in calls)
            reason = Reason.INTENT_MISMATCH if in_turn else Reason.NO_API_CALL
            name = query.api(wanted.api).function
            detail = f"{name}({shown(wanted.arguments)}) of turn {wanted.turn} is never called"
            yield Fault(reason, None, detail)
            continue
        if call.turn != wanted.turn:
            when = f"in user turn {call.turn}, but it is asked for in turn {wanted.turn}"
            yield Fault(Reason.INTENT_MISMATCH, call.place, f"{call.name} is called {when}")
        for difference in differences(wanted, call):
            yield Fault(Reason.INTENT_MISMATCH, call.place, f"{call.name}: {difference}")
    fault = query.fault
    due = query.due[fault.call] if fault and fault.real and fault.call < len(query.due) else None
    for call in paired.spare:
        # One that was to fail for real and worked: `planned_faults` says so.
        if call.api is not None and not (due and fits(due, call)):
            detail = f"{call.name} is called, but no part of the request needs it (again)"
            yield Fault(Reason.UNNEEDED_API_CALL, call.place, detail)
    if query.scenario is Scenario.IRRELEVANCE:
        for call in calls:
            if not call.is_search and call.failed and call.api is not None:
                detail = f"{call.name} cannot serve the request"
                yield Fault(Reason.UNNEEDED_API_CALL, call.place, detail)


def dependent_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """A call that needs another's result comes after it, and takes its value from it."""
    paired = pair(dialogue)
    failed = [c for c in made(dialogue) if c.failed and c.api is not None]
    for index, wanted in enumerate(dialogue.query.due):
        tried = [c for c in failed if c.api and c.api.id == wanted.api]
        for call in [*tried, *([paired.calls[index]] if index in paired.calls else [])]:
            for name, reference in wanted.references.items():
                before = paired.calls.get(reference.call)
                if before and (fault := _off_reference(call, name, before, reference.field)):
                    yield Fault(Reason.WRONG_ORDER, call.place, fault)


def _off_reference(call: CallMade, name: str, before: CallMade, field: str) -> str | None:
    """What is wrong with an argument that another call's result should give; None if nothing."""
    if before.back is None or before.back > call.place:
        return f"{call.name} needs {before.name}'s {field}, but comes before it"
    values = list(_field(before.response, field))
    if name in call.arguments and any(same(call.arguments[name], v) for v in values):
        return None
    seen = shown(values[0] if len(values) == 1 else values)
    given = shown(call.arguments.get(name))
    return f"{call.name}: {name}={given} is not the {field} of {before.name} ({seen})"


def _field(response: Any, field: str) -> Iterator[Any]:
    """A field of a response; of each item where the response is a list; one item of a list."""
    for item in response if isinstance(response, list) else [response]:
        if isinstance(item, dict) and field in item:
            yield item[field]
            if isinstance(item[field], list):
                yield from leaves(item[field])


def asked_first(dialogue: Dialogue) -> Iterator[Fault]:
    """Clarification: the assistant asks for what is missing before it calls."""
    query = dialogue.query
    if not query.withheld:
        return
    first = next((c.place for c in made(dialogue) if not c.is_search), len(dialogue.messages))
    demands = ("?", "tell me", "let me know", "please provide", "i need", "specify")
    before = [text.lower() for place, text, final in replies(dialogue) if place < first and final]
    if not any(demand in text for text in before for demand in demands):
        detail = f"{', '.join(query.withheld)} is not asked for before the first call"
        yield Fault(Reason.INTENT_MISMATCH, min(first, len(dialogue.messages) - 1), detail)
    elif not asked(dialogue, first) and len(said_before(dialogue, first)) < 2:
        yield Fault(Reason.INTENT_MISMATCH, first, "the call does not wait for the user's answer")
