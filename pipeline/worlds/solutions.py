"""Whether calls solve a task: the goal is reached, each argument known, each fact told, each policy
kept; and which calls are needed for that.

A key is known when an earlier result shows it beside what a person says of its row, and beside no
other key. Each call is left out in turn: one without which nothing is amiss goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.world.interpreter import (
    Json,
    Machine,
    Row,
    State,
    Table,
    names_one,
)
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies, difference
from toolloom.pipeline.worlds.lookups import (
    FieldOf,
    Lookups,
    ShownKey,
    keys_in,
    keys_shown,
    leaves,
)

Label = tuple[tuple[str, Json], ...]  # what is said of a row, by the field it stands in


@dataclass(frozen=True)
class NamedRow:
    """A row that a user turn names, and how."""

    entity: str
    key: str
    label: Label
    turn: int

    @property
    def words(self) -> frozenset[str]:
        return frozenset(value for _, value in self.label)


@dataclass(frozen=True)
class TaskFact:
    """What a result returned that the answer must tell; of an error, its code as `error`."""

    operation: str
    row: tuple[str, str] | None  # entity and key
    field: str
    value: Json
    turn: int  # the user turn that it answers


@dataclass(frozen=True)
class Avoided:
    """A call that would be wrong: what it breaks, or that the user does not want it after all."""

    name: str
    arguments: Row
    why: str  # declined, missing, or what the policy says


@dataclass(frozen=True)
class PlayedCall:
    """One call and what came of it. `agreed`: the user said yes to it, or chose it."""

    name: str
    arguments: Row
    turn: int
    agreed: bool
    response: Json
    error: str | None
    before: State
    after: State
    shown: tuple[ShownKey, ...]


@dataclass
class Requirement:
    """What a solution has to come to."""

    changes: list[list[Any]]
    facts: list[TaskFact]
    rows: dict[tuple[str, str], NamedRow]
    avoided: Avoided | None = None
    errors: list[tuple[str, str]] = field(default_factory=list)
    grounds: dict[str, frozenset[FieldOf]] = field(default_factory=dict)
    """By operation what was seen before it that decides on it."""


# --- what calls show -------------------------------------------------------------------------


def played(
    machine: Machine, state: State, now: str, name: str, args: Row, turn: int, agreed: bool
) -> PlayedCall:
    after, response, error = machine.apply(state, name, args, now)
    shape = machine.world["operations"][name]["shape"] if name in machine.operations else {}
    shown = () if error else tuple(keys_shown(shape, response)) if shape else ()
    return PlayedCall(name, args, turn, agreed, response, error, state, after, shown)


def keys_called(shown: Iterable[ShownKey], entity: str, words: frozenset[str]) -> set[str]:
    """The keys beside which all that is said of a row is shown."""
    return {s.key for s in shown if s.entity == entity and words <= s.values}


def seen(lookups: Lookups, calls: Iterable[PlayedCall], entity: str) -> bool:
    """Whether the rows of an entity were looked at."""
    return any(
        made.name in lookups.ways[entity] and made.error is None and not made.arguments
        for made in calls
    ) or any(s.entity == entity for made in calls for s in made.shown)


def visible(lookups: Lookups, calls: Iterable[PlayedCall]) -> frozenset[FieldOf]:
    """The fields that results have shown."""
    return frozenset().union(*(lookups.shown[made.name] for made in calls if not made.error))


class _Watched(dict[str, Table]):
    """Tables that note which of them were looked into."""

    def __init__(self, tables: dict[str, Table]) -> None:
        super().__init__(tables)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Table:
        self.used.add(name)
        return super().__getitem__(name)


def looked_at(lookups: Lookups, state: State, now: str, name: str, args: Row) -> set[str]:
    """The entities whose rows decide whether a policy lets a call pass, in this very state."""
    entities: set[str] = set()
    for _, term, searched in lookups.musts[name]:
        if not searched:
            continue
        frame = lookups.machine.bound(state, name, args, now)
        if frame is None:
            return set()
        frame.tables = watched = _Watched(frame.tables)
        term(frame)
        entities |= watched.used & searched
    return entities


def forbidden(lookups: Lookups, state: State, now: str, name: str, args: Row) -> str | None:
    """What the first policy says that does not let a call pass."""
    for says, term, _ in lookups.musts[name]:
        frame = lookups.machine.bound(state, name, args, now)
        if frame is not None and not term(frame):
            return str(says)
    return None


# --- what is needed --------------------------------------------------------------------------


def shortfalls(
    lookups: Lookups, start: State, now: str, calls: Sequence[PlayedCall], need: Requirement
) -> Iterator[str]:
    """What calls lack to be a solution: keys that nothing showed, facts that nothing told, changes
    missing or made too much, policies broken."""
    machine = lookups.machine
    for number, made in enumerate(calls):
        before = calls[:number]
        for _, entity, key in keys_in(made.arguments, machine.operations[made.name].args):
            if not known(machine, start, before, entity, key, need.rows):
                yield f"{made.name}: nothing shows {key}"
        for entity in looked_at(lookups, made.before, now, made.name, made.arguments):
            if lookups.ways[entity] and not seen(lookups, before, entity):
                yield f"{made.name}: no look at {entity}"
        if missing := need.grounds.get(made.name, frozenset()) - visible(lookups, before):
            yield f"{made.name}: {missing} was not seen"
    if need.avoided:
        yield from _unseen(lookups, start, now, calls, need)
    for code in need.errors:
        if not any((made.name, made.error) == code for made in calls):
            yield f"{code[0]} does not fail with {code[1]}"
    failed = [(made.name, made.error) for made in calls if made.error]
    if failed != need.errors:
        yield f"errors: {failed}"
    for fact in need.facts:
        if not any(tells(machine, made, fact) for made in calls):
            yield f"nothing tells {fact.field} {fact.value}"
    end = calls[-1].after if calls else start
    if difference(machine, start, end) != need.changes:
        yield "the goal is missed"
    acts = [Acted(made.name, made.arguments, made.agreed) for made in calls]
    yield from (broken.says for broken in broken_policies(machine, start, now, acts))


def _unseen(
    lookups: Lookups, start: State, now: str, calls: Sequence[PlayedCall], need: Requirement
) -> Iterator[str]:
    """What has to be known before one can say that a call must not be made."""
    avoided, machine = need.avoided, lookups.machine
    if avoided is None or avoided.why == "missing":
        return
    state = calls[-1].after if calls else start
    if missing := need.grounds.get(avoided.name, frozenset()) - visible(lookups, calls):
        yield f"{avoided.name}: {missing} was not seen"
    kinds = machine.operations[avoided.name].args
    for path, entity, key in keys_in(avoided.arguments, kinds):
        alias = kinds[str(path[0])].get("as")
        trees = lookups.deciding(avoided.name, avoided.why)
        used = avoided.why == "declined" or any(names_one(tree, alias) for tree in trees)
        if used and not known(machine, start, calls, entity, key, need.rows):
            yield f"{avoided.name}: nothing shows {key}"
    for entity in looked_at(lookups, state, now, avoided.name, avoided.arguments):
        if lookups.ways[entity] and not seen(lookups, calls, entity):
            yield f"{avoided.name}: no look at {entity}"
    if avoided.why == "declined":
        for policy in lookups.policies[avoided.name]:
            if policy.get("first") and not any(c.name in policy["first"] for c in calls):
                yield str(policy["says"])


def known(
    machine: Machine,
    start: State,
    calls: Iterable[PlayedCall],
    entity: str,
    key: str,
    rows: dict[tuple[str, str], NamedRow],
) -> bool:
    """Whether earlier results show which key is meant by what the user says."""
    if entity == machine.actor and key == start["me"]:
        return True
    row = rows.get((entity, key))
    if row is None:
        return False
    return any(keys_called(made.shown, entity, row.words) == {key} for made in calls)


def tells(machine: Machine, made: PlayedCall, fact: TaskFact) -> bool:
    """Whether a result holds a fact."""
    if fact.field == "error":
        return made.name == fact.operation and made.error == fact.value
    if made.error:
        return False
    if fact.row is None:
        if made.name != fact.operation:
            return False
        shape = machine.world["operations"][made.name]["shape"]
        found = leaves(shape, made.response)
        return any(path[-1:] == (fact.field,) and v == fact.value for path, _, v in found)
    return any(
        path[-1] == fact.field and value == fact.value
        for s in made.shown
        if (s.entity, s.key) == fact.row
        for path, _, value in leaves(s.kind, s.item)
    )


def pruned(
    lookups: Lookups, start: State, now: str, calls: list[PlayedCall], need: Requirement
) -> list[PlayedCall] | None:
    """The calls without those that are not needed, the later ones tried first; None if they are
    no solution even together."""
    machine = lookups.machine
    if next(shortfalls(lookups, start, now, calls, need), None) is not None:
        return None
    for number in range(len(calls) - 1, -1, -1):
        rest = without(machine, start, now, calls, number)
        if next(shortfalls(lookups, start, now, rest, need), None) is None:
            calls = rest
    return calls


def without(
    machine: Machine, start: State, now: str, calls: Sequence[PlayedCall], number: int
) -> list[PlayedCall]:
    """The calls without one of them, made again where that one had changed the state."""
    rest = [*calls[:number], *calls[number + 1 :]]
    if calls[number].after is calls[number].before:
        return rest
    return replayed(machine, start, now, rest)


def replayed(
    machine: Machine, start: State, now: str, calls: Iterable[PlayedCall]
) -> list[PlayedCall]:
    made: list[PlayedCall] = []
    state = start
    for call in calls:
        made.append(played(machine, state, now, call.name, call.arguments, call.turn, call.agreed))
        state = made[-1].after
    return made
