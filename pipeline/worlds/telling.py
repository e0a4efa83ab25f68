"""How a drawn row is told: what is said and called, which calls go side by side, what a reply
offers, and which scenario it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.worlds.lookups import texts_in
from toolloom.pipeline.worlds.scripts import MadeCall, Play, WorldScript, acts
from toolloom.schemas import Part, Scenario, canonical


def story(row: Play, machine: Machine) -> Iterator[Part]:
    """What is said and called, each text with all alternatives."""
    texts, says = iter(row.choices), iter(row.says or [""] * len(row.choices))
    batch: list[MadeCall] = []
    for place, (role, part) in enumerate(row.messages):
        if isinstance(part, MadeCall):
            beside = bool(batch) and _independent(part, batch, machine)
            batch = [*batch, part] if beside else [part]
            yield Part(
                role="call",
                name=part.name,
                sought=tuple(machine.world["operations"][part.name].get("sought", ())),
                arguments=part.arguments,
                beside=beside,
                result=_result(part) if row.says else "",
            )
        else:
            batch = []
            who: Literal["user", "assistant"] = "user" if role == "user" else "assistant"
            words = next(texts)
            offers = _offered(row, place, words, machine) if who == "assistant" else ()
            yield Part(role=who, words=words, says=next(says), offers=offers)


def _offered(row: Play, place: int, words: Sequence[str], machine: Machine) -> tuple[str, ...]:
    """What a reply asks the user about: the change that the answer leads to. One that wants no yes
    is only offered by a question."""
    following = [part for _, part in row.messages[place + 2 :]]
    spoken = [n for n, part in enumerate(following) if not isinstance(part, MadeCall)]
    calls = [
        part for part in following[: spoken[0] if spoken else None] if isinstance(part, MadeCall)
    ]
    asks = all("?" in text for text in words)
    consent = {n for p in machine.world["policies"] if p.get("consent") for n in p["calls"]}
    names = [call.name for call in calls if machine.operations[call.name].changes]
    return tuple(dict.fromkeys(name for name in names if asks or name in consent))


def _result(call: MadeCall) -> str:
    return f"{call.error}: {call.response}" if call.error else canonical(call.response)


def _independent(call: MadeCall, batch: Sequence[MadeCall], machine: Machine) -> bool:
    """Whether a call may go side by side with those before it: it reads, as they do, or does the
    same to another thing; nothing of theirs is in it; and none of theirs could have made it
    needless. A search after a search may be made because of what the first one found."""
    if (
        call.follows
        or call.error
        or any(other.error or other.response in (None, []) for other in batch)
    ):
        return False
    same = all(other.name == call.name for other in batch)
    keyed = any(kind["type"] == "ref" for kind in machine.operations[call.name].args.values())
    changes = any(machine.operations[other.name].changes for other in (call, *batch))
    if not keyed if same else changes:
        return False
    given = set(texts_in(call.arguments))
    return not given & {text for other in batch for text in texts_in(other.response)}


def scenario_of(script: WorldScript, row: Play, machine: Machine) -> Scenario:
    """What a row exercises: as its writer says, else as its calls tell."""
    if script.scenario:
        return Scenario(script.scenario)
    calls = row.calls
    if not calls:
        return Scenario.IRRELEVANCE
    roles = [role for role, _ in row.messages]
    if any(a.error and not b.error for a, b in pairwise(calls)):
        return Scenario.ERROR_RECOVERY
    if "assistant" in roles[: roles.index("call")]:
        return Scenario.CLARIFICATION
    consent = {n for p in machine.world["policies"] if p.get("consent") for n in p["calls"]}
    if any(act.agreed and act.name in consent for act in acts(row)) and roles.count("user") == 2:
        return Scenario.CONFIRMATION
    if roles.count("user") > 1:
        return Scenario.MULTI_TURN
    if any(part.beside for part in story(row, machine)):
        return Scenario.PARALLEL
    return Scenario.SEQUENTIAL if len(calls) > 1 else Scenario.SINGLE
