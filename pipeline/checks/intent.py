"""What the user says and what is called, held against the drawn intent; the order of calls that
depend on each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.grounding import fixed, leaves, named, same, says
from toolloom.pipeline.checks.text.words import forms
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    asked,
    made,
    once,
    replies,
    said_before,
    shown,
)
from toolloom.schemas import Dialogue, Intention, JsonObject, Query, Reason, Scenario


@dataclass(frozen=True)
class Pairing:
    """Calls by the index of the intention they serve, calls that serve none, what is undue.

    `blocked` are intentions that a lasting fault makes impossible: the faulty one and all that
    need its result.
    """

    calls: dict[int, CallMade] = field(default_factory=dict)
    spare: tuple[CallMade, ...] = ()
    blocked: frozenset[int] = frozenset()


def differences(intention: Intention, call: CallMade) -> Iterator[str]:
    """What sets a call's arguments apart from the intent; references are checked for order."""
    known = call.api.properties if call.api else {}
    for name, value in intention.arguments.items():
        if name in call.arguments:
            if not _same(call.arguments[name], value):
                given = shown(call.arguments[name])
                yield f"{name}={given}, where the user means {shown(value)}"
        elif not fixed(value, known.get(name)):
            yield f"`{name}` is left out, where the user means {shown(value)}"
    for name, value in call.arguments.items():
        told = name in intention.arguments or name in intention.references
        if not told and not fixed(value, known.get(name)):
            yield f"{name}={shown(value)}, which the user did not ask for"


def _same(given: Any, meant: Any) -> bool:
    if isinstance(given, str) and isinstance(meant, str) and forms(given) & forms(meant):
        return True
    return same(given, meant)


def fits(intention: Intention, call: CallMade) -> bool:
    """The call is the intended one, argument by argument."""
    right = call.api is not None and call.api.id == intention.api
    return right and not any(differences(intention, call))


def blocked(query: Query) -> frozenset[int]:
    """Indices of intentions that cannot be served: a lasting fault, and what depends on it."""
    if not query.fault or query.fault.transient:
        return frozenset()
    found = {query.fault.call}
    for index, intention in enumerate(query.due):
        if any(r.call in found for r in intention.references.values()):
            found.add(index)
    return frozenset(found)


@once
def pair(dialogue: Dialogue) -> Pairing:
    """Match successful calls with the intent: exact ones first, then by turn and by API."""
    query = dialogue.query
    undue = blocked(query)
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
    return Pairing(pairs, tuple(spare), undue)


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
        missing = ", ".join(query.withheld)
        detail = f"{missing} is not asked for before the first call"
        yield Fault(Reason.INTENT_MISMATCH, min(first, len(dialogue.messages) - 1), detail)
    elif not asked(dialogue, first) and len(said_before(dialogue, first)) < 2:
        yield Fault(Reason.INTENT_MISMATCH, first, "the call does not wait for the user's answer")
