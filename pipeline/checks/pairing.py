"""Which call serves which part of the intent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.grounding import fixed, same
from toolloom.pipeline.checks.text.aliases import forms
from toolloom.pipeline.checks.transcript import CallMade, made, once, shown
from toolloom.schemas import Dialogue, Intention, Query


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
