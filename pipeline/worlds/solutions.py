"""Whether calls solve a task: the goal is reached, each argument known, each fact told, each policy
kept; and which calls are needed for that.

A key is known when an earlier result shows it beside what a person says of its row, and beside no
other key. Each call is left out in turn: one without which nothing is amiss goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine, Row, State
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies, difference
from toolloom.pipeline.worlds.lookups import FieldOf, Lookups, ShownKey, keys_shown, leaves

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
    """What a result returned that the answer must tell."""

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
    turn: int  # the user turn that it answers
    agreed: bool
    response: Json
    error: str | None
    before: State
    after: State
    shown: tuple[ShownKey, ...]

    @property
    def acts(self) -> bool:
        """Whether it changed something, or tried to and failed."""
        return self.after is not self.before or self.error is not None


@dataclass(frozen=True)
class Goal:
    """What a solution has to come to."""

    changes: list[list[Any]]
    facts: tuple[TaskFact, ...]
    rows: dict[tuple[str, str], NamedRow]
    errors: list[tuple[str, str | None]]  # calls that fail, and how
    grounds: dict[str, frozenset[FieldOf]]  # by operation what was seen before it that decides
    avoided: Avoided | None = None


def played(
    machine: Machine, state: State, now: str, name: str, args: Row, turn: int, agreed: bool = False
) -> PlayedCall:
    after, response, error = machine.apply(state, name, args, now)
    shown = () if error else keys_shown(machine.world["operations"][name]["shape"], response)
    return PlayedCall(name, args, turn, agreed, response, error, state, after, tuple(shown))


def replayed(
    machine: Machine, start: State, now: str, calls: Iterable[PlayedCall]
) -> list[PlayedCall]:
    """The same calls, made again from a state."""
    made: list[PlayedCall] = []
    for call in calls:
        state = made[-1].after if made else start
        made.append(played(machine, state, now, call.name, call.arguments, call.turn, call.agreed))
    return made


def keys_called(shown: Iterable[ShownKey], entity: str, words: frozenset[str]) -> set[str]:
    """The keys beside which all that is said of a row is shown."""
    return {s.key for s in shown if s.entity == entity and words <= s.values}


def visible(lookups: Lookups, calls: Iterable[PlayedCall]) -> frozenset[FieldOf]:
    """The fields that results have shown, and the entities whose rows were looked at."""
    return frozenset().union(*(lookups.shown[made.name] for made in calls if not made.error))


def forbidden(lookups: Lookups, state: State, now: str, name: str, args: Row) -> str | None:
    """What the first policy says that does not let a call pass."""
    for says, term in lookups.musts[name]:
        frame = lookups.machine.bound(state, name, args, now)
        if frame is not None and not term(frame):
            return str(says)
    return None


def shortfalls(
    lookups: Lookups, start: State, now: str, calls: Sequence[PlayedCall], goal: Goal
) -> Iterator[str]:
    """What calls lack to be a solution: keys that nothing showed, facts that nothing told, changes
    missing or made too much, policies broken."""
    machine, avoided = lookups.machine, goal.avoided
    for number, made in enumerate(calls):
        yield from _unseen(lookups, start, calls[:number], made.name, made.arguments, "", goal)
    if avoided and avoided.why != "missing":
        yield from _unseen(
            lookups, start, calls, avoided.name, avoided.arguments, avoided.why, goal
        )
        for policy in lookups.policies[avoided.name] if avoided.why == "declined" else ():
            if policy.get("first") and not any(c.name in policy["first"] for c in calls):
                yield str(policy["says"])
    failed = [(made.name, made.error) for made in calls if made.error]
    if failed != goal.errors:
        yield f"errors: {failed}"
    for fact in goal.facts:
        if not any(_tells(machine, made, fact) for made in calls):
            yield f"nothing tells {fact.field} {fact.value}"
    if difference(machine, start, calls[-1].after if calls else start) != goal.changes:
        yield "the goal is missed"
    acts = [Acted(made.name, made.arguments, made.agreed) for made in calls]
    yield from (broken.says for broken in broken_policies(machine, start, now, acts))


def _unseen(
    lookups: Lookups,
    start: State,
    before: Sequence[PlayedCall],
    name: str,
    args: Row,
    why: str,
    goal: Goal,
) -> Iterator[str]:
    """What has to be known before a call is made, or can be said not to be made."""
    for _, entity, key in lookups.keys_needed(name, args, why):
        if not known(lookups.machine, start, before, entity, key, goal.rows.get((entity, key))):
            yield f"{name}: nothing shows {key}"
    if missing := goal.grounds.get(name, frozenset()) - visible(lookups, before):
        yield f"{name}: {missing} was not seen"


def known(
    machine: Machine,
    start: State,
    calls: Iterable[PlayedCall],
    entity: str,
    key: str,
    row: NamedRow | None,
) -> bool:
    """Whether earlier results show which key is meant by what the user says."""
    if entity == machine.actor and key == start["me"]:
        return True
    return row is not None and any(
        keys_called(made.shown, entity, row.words) == {key} for made in calls
    )


def _tells(machine: Machine, made: PlayedCall, fact: TaskFact) -> bool:
    """Whether a result holds a fact."""
    if made.error:
        return False
    items = [(s.kind, s.item) for s in made.shown if (s.entity, s.key) == fact.row]
    if fact.row is None and made.name == fact.operation:
        items = [(machine.world["operations"][made.name]["shape"], made.response)]
    return any(
        path[-1:] == (fact.field,) and value == fact.value
        for kind, item in items
        for path, _, value in leaves(kind, item)
    )


def pruned(
    lookups: Lookups, start: State, now: str, calls: Sequence[PlayedCall], goal: Goal
) -> list[PlayedCall] | None:
    """The calls without those that are not needed, the later ones tried first; None if they are
    no solution even together."""

    def solves(some: Sequence[PlayedCall]) -> bool:
        return next(shortfalls(lookups, start, now, some, goal), None) is None

    if not solves(calls):
        return None
    needed = list(calls)
    for number in range(len(calls) - 1, -1, -1):
        rest = [*needed[:number], *needed[number + 1 :]]
        if needed[number].after is not needed[number].before:
            rest = replayed(lookups.machine, start, now, rest)
        if solves(rest):
            needed = rest
    return needed
