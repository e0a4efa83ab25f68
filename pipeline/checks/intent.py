"""Agreement of the calls with the intent, and the order of calls that depend on each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.grounding import leaves, same
from toolloom.pipeline.checks.pairing import Pairing, differences, fits, pair
from toolloom.pipeline.checks.transcript import CallMade, Fault, asked, made, replies, shown
from toolloom.schemas import Dialogue, Reason, Scenario


def intended_calls(dialogue: Dialogue) -> Iterator[Fault]:
    """Each intended call is made in its turn with the intended values, and no other is made."""
    paired = pair(dialogue)
    for index, wanted in enumerate(dialogue.query.due):
        if index in paired.blocked:
            continue
        call = paired.calls.get(index)
        if call is None:
            yield _missing(dialogue, paired, index)
            continue
        if call.turn != wanted.turn:
            when = f"in user turn {call.turn}, but it is asked for in turn {wanted.turn}"
            yield Fault(Reason.INTENT_MISMATCH, call.place, f"{call.name} is called {when}")
        for difference in differences(wanted, call):
            yield Fault(Reason.INTENT_MISMATCH, call.place, f"{call.name}: {difference}")
    for call in paired.spare:
        if call.api is not None and not _spared(dialogue, call):
            detail = f"{call.name} is called, but no part of the request needs it (again)"
            yield Fault(Reason.UNNEEDED_API_CALL, call.place, detail)
    if dialogue.query.scenario is Scenario.IRRELEVANCE:
        for call in made(dialogue):
            if not call.is_search and call.failed and call.api is not None:
                yield Fault(
                    Reason.UNNEEDED_API_CALL, call.place, f"{call.name} cannot serve the request"
                )


def _spared(dialogue: Dialogue, call: CallMade) -> bool:
    """A call that was to fail for real and worked: `planned_faults` says so."""
    fault, due = dialogue.query.fault, dialogue.query.due
    real = fault is not None and fault.real and fault.call < len(due)
    return fault is not None and real and fits(due[fault.call], call)


def _missing(dialogue: Dialogue, paired: Pairing, index: int) -> Fault:
    wanted = dialogue.query.due[index]
    name = dialogue.query.api(wanted.api).function
    in_turn = [c for c in made(dialogue) if c.turn == wanted.turn and not c.is_search]
    reason = Reason.INTENT_MISMATCH if in_turn else Reason.NO_API_CALL
    detail = f"{name}({shown(wanted.arguments)}) of turn {wanted.turn} is never called"
    return Fault(reason, None, detail)


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
    questions = [t for p, t, final in replies(dialogue) if p < first and final and _asks(t)]
    if not questions:
        missing = ", ".join(query.withheld)
        detail = f"{missing} is not asked for before the first call"
        yield Fault(Reason.INTENT_MISMATCH, min(first, len(dialogue.messages) - 1), detail)
    elif asked(dialogue, first) == 0 and not _after_answer(dialogue, first):
        yield Fault(Reason.INTENT_MISMATCH, first, "the call does not wait for the user's answer")


def _asks(text: str) -> bool:
    """A question, or a demand for something to be told."""
    return "?" in text or any(
        w in text.lower() for w in ("tell me", "let me know", "please provide", "i need", "specify")
    )


def _after_answer(dialogue: Dialogue, place: int) -> bool:
    return sum(m.role == "user" for m in dialogue.messages[:place]) > 1
