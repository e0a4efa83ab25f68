"""What came of a dialogue in a world: the changes it made, and the policies it kept.

The calls are run again from the start state, so whatever path led there counts. A change is told
without the keys of new rows, which any order of calls may give, and without free text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.checks.world.interpreter import (
    CallRefused,
    Frame,
    Json,
    Machine,
    Row,
    State,
    as_term,
)


@dataclass(frozen=True)
class Acted:
    """One call of a dialogue. `agreed`: the last thing said before it was a user's answer to
    something that the assistant had said."""

    name: str
    arguments: Row
    agreed: bool = False


@dataclass(frozen=True)
class Broken:
    """A policy that a call did not keep."""

    call: int
    says: str


def difference(machine: Machine, before: State, after: State) -> list[list[Any]]:
    """What changed, in an order of its own: `[entity, key, field, value]` of rows that were there,
    `[entity, "new", row]`, `[entity, key, "deleted"]`. New keys that rows refer to read "new"."""
    fresh = {
        key
        for name in machine.entities
        for key in after["tables"][name].keys() - before["tables"][name].keys()
    }

    def plain(entity: str, field: str, value: Json) -> Json:
        kind = machine.entities[entity].fields.get(field, {})
        if kind.get("free"):
            return "free"
        return "new" if kind.get("type") == "ref" and value in fresh else value

    changes: list[list[Any]] = []
    for name, entity in machine.entities.items():
        old, new = before["tables"][name], after["tables"][name]
        if old is new:
            continue
        for key, row in new.items():
            if key in old:
                changes += (
                    [name, key, field, plain(name, field, value)]
                    for field, value in row.items()
                    if value != old[key][field]
                )
            else:
                values = {f: plain(name, f, v) for f, v in row.items() if f != entity.key}
                changes.append([name, "new", values])
        changes += ([name, key, "deleted"] for key in old if key not in new)
    return sorted(changes, key=str)


def broken_policies(
    machine: Machine, start: State, now: str, calls: Sequence[Acted]
) -> Iterator[Broken]:
    """Each policy that a call breaks: calls that fail break none, as nothing comes of them."""
    state = start
    done: list[Acted] = []
    users: dict[str, set[str]] = {}
    for number, call in enumerate(calls):
        after, _, error = machine.apply(state, call.name, call.arguments, now)
        frame = _bound(machine, state, call, now)
        if error is None and frame is not None:
            for policy in machine.world["policies"]:
                if call.name in policy["calls"] and not _kept(policy, call, done, frame, users):
                    yield Broken(number, policy["says"])
        done.append(call)
        state = after


def _bound(machine: Machine, state: State, call: Acted, now: str) -> Frame | None:
    """The rows that a call's arguments name, in the state before it."""
    operation = machine.operations.get(call.name)
    if operation is None:
        return None
    try:
        frame = machine.frame(state, operation.arguments(call.arguments), now)
        operation.bind(frame)
    except CallRefused:
        return None
    return frame


def _kept(
    policy: Json, call: Acted, done: Sequence[Acted], frame: Frame, users: dict[str, set[str]]
) -> bool:
    if policy.get("consent") and not call.agreed:
        return False
    clauses = policy.get("must", {}).get(call.name, ())
    if not all(as_term(tree)(frame) for _, tree in clauses):
        return False
    if policy.get("first"):
        same = [(name, call.arguments.get(name)) for name in policy.get("same", ())]
        looked = (
            earlier
            for earlier in done
            if earlier.name in policy["first"]
            and all(earlier.arguments.get(name, value) == value for name, value in same)
        )
        if next(looked, None) is None:
            return False
    if "once" in policy:
        value = call.arguments.get(policy["once"])
        if any(d.name == call.name and d.arguments.get(policy["once"]) == value for d in done):
            return False
    if "one" in policy:
        row = frame.vars.get(policy["one"])
        seen = users.setdefault(policy["one"], set())
        seen.add(str(row))
        return len(seen) == 1
    return True
