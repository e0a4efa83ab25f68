"""The way to a goal, call by call: a key that is needed is looked up by a read that shows it beside
what a person says of its row, the arguments of that read in the same way; what the policies ask for
comes before the call that they are about.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, TypeAlias

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import PATTERNS, Json, Row, State
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.worlds.arguments import ArgumentDrawer, RowKey
from toolloom.pipeline.worlds.lookups import FieldOf, Lookups, Path, keys_in, leaves
from toolloom.pipeline.worlds.solutions import (
    Avoided,
    Label,
    NamedRow,
    PlayedCall,
    TaskFact,
    forbidden,
    keys_called,
    known,
    played,
    visible,
)

MOST_TURNS, MOST_CALLS = 4, 8
DEEPEST = 3  # lookups for the arguments of lookups
FEW = 4  # rows that are listed without a condition
LONGEST = 48  # letters of a value that somebody would say of a row
WORDS = 4  # of a name, that are searched for
CLOCK = 5  # letters of a time of day
Want: TypeAlias = tuple[str, Row]  # an operation and its arguments


@dataclass
class UserTurn:
    """A user turn: ask, choose (of what was listed), agree, decline, answer (what the assistant
    had to ask), retry (another way, after an error)."""

    form: str
    operations: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)  # fields that a question is about


class Plan:
    """Calls in the order in which they are made, and what the user has said by then."""

    def __init__(self, lookups: Lookups, start: State, now: str, rng: random.Random) -> None:
        self.lookups, self.machine = lookups, lookups.machine
        self.start, self.state, self.now, self.rng = start, start, now, rng
        self.calls: list[PlayedCall] = []
        self.turns: list[UserTurn] = []
        self.rows: dict[tuple[str, str], NamedRow] = {}
        self.facts: list[TaskFact] = []
        self.avoided: Avoided | None = None
        self.grounds: dict[str, frozenset[FieldOf]] = {}  # what was seen before a change
        self.withheld: dict[tuple[str, Path], int] = {}  # turn that says an argument, if no other

    def begin(self, form: str, *operations: str) -> UserTurn:
        self.turns.append(UserTurn(form, list(operations)))
        return self.turns[-1]

    @property
    def turn(self) -> int:
        return len(self.turns) - 1

    def mark(self) -> tuple[Any, ...]:
        """Where the plan stands, to come back to."""
        return self.state, len(self.calls), len(self.turns), len(self.facts), dict(self.rows)

    def back(self, mark: tuple[Any, ...]) -> None:
        self.state, calls, turns, facts, rows = mark
        self.rows = dict(rows)
        del self.calls[calls:], self.turns[turns:], self.facts[facts:]

    # --- calls

    def run(self, name: str, args: Row, agreed: bool = False) -> PlayedCall:
        """Make a call, or find that it was made before and nothing has changed since."""
        for made in self.calls:
            if (made.name, made.arguments) == (name, args) and made.after is self.state:
                return made
        made = played(self.machine, self.state, self.now, name, args, self.turn, agreed)
        self.calls.append(made)
        self.state = made.after
        return made

    def works(self, name: str, args: Row, state: State | None = None) -> bool:
        """Whether a call succeeds, changes something and breaks no policy: now, or in a state."""
        state = state or self.state
        after, _, error = self.machine.apply(state, name, args, self.now)
        if error is not None or after is state or not difference(self.machine, state, after):
            return False
        return forbidden(self.lookups, state, self.now, name, args) is None

    def act(self, name: str, args: Row) -> bool:
        """Make a call that a goal wants, after everything that has to come before it, a yes too
        unless the user has just chosen what was offered; whether it succeeds."""
        if not self.prepare(name, args):
            return False
        agreed = self.lookups.agrees(name)
        if agreed and self.turns[-1].form not in ("choose", "retry", "agree"):
            self.begin("agree", name)
        return self.run(name, args, agreed).error is None

    def drawer(self, about: set[RowKey] | None = None) -> ArgumentDrawer:
        """Draws arguments in the state so far."""
        return ArgumentDrawer(self.machine, self.state, self.now, self.rng, about)

    def prepare(self, name: str, args: Row, why: str = "") -> bool:
        """Learn the keys among arguments, and look at what policies want looked at; `why`: only
        what tells that this policy does not allow it."""
        keys = self.lookups.keys_needed(name, args, why)
        for path, entity, key in keys_in(args, self.lookups.kinds(name)):
            if (path, entity, key) not in keys and not self.say(entity, key):
                return False
        own = self.lookups.own
        for _, entity, key in sorted(keys, key=lambda k: (k[1] not in own, k[1])):
            if not self.learn(entity, key, (name, args)):
                return False
        for policy in self.lookups.policies[name] if why in ("", "declined") else ():
            reads = self.shuffled(policy.get("first", ()))
            came = not reads or self._came_first(policy, args)
            if not came and not any(self._ask(read, (name, args)) for read in reads):
                return False
        grounds = self.lookups.grounds[name, why]
        for place in sorted(grounds):
            if place not in visible(self.lookups, self.calls):
                showing = (r for r in self.lookups.reads if place in self.lookups.shown[r])
                next((read for read in showing if self._ask(read, (name, args))), None)
        seen = grounds & visible(self.lookups, self.calls)
        self.grounds[name] = self.grounds.get(name, seen) & seen
        return True

    def shuffled(self, values: Any) -> list[Any]:
        return self.rng.sample(values, len(values))

    def _came_first(self, policy: Json, args: Row) -> bool:
        same = {n: args[n] for n in policy.get("same", ()) if n in args}
        return any(
            made.name in policy["first"]
            and not made.error
            and all(made.arguments.get(n, value) == value for n, value in same.items())
            for made in self.calls
        )

    def _ask(self, read: str, goal: Want) -> bool:
        """Make a read with what a goal says, or one that shows a row which the goal names."""
        given = {
            argument: self._borrowed(argument, kind, goal)
            for argument, kind in self.lookups.kinds(read).items()
            if not kind.get("optional")
        }
        if None not in given.values() and not self.run(read, given).error:
            return True
        return any(
            read in self.lookups.ways[entity] and self.find(read, entity, key, goal)
            for _, entity, key in keys_in(goal[1], self.lookups.kinds(goal[0]))
        )

    def _borrowed(self, argument: str, kind: Kind, goal: Want | None) -> Json:
        """What an argument of a read means, if the goal has one that means the same."""
        wanted, kinds = (goal[1], self.lookups.kinds(goal[0])) if goal else ({}, {})
        if argument in wanted and kinds[argument]["type"] == kind["type"]:
            return wanted[argument]
        for other, value in wanted.items():
            if kind["type"] == "date" and kinds[other]["type"] == "datetime":
                return value[:10]
            if kind["type"] == "list" and kind["of"] == kinds[other].get("of"):
                return value
        return None

    # --- keys

    def learn(self, entity: str, key: str, goal: Want | None, depth: int = 0) -> bool:
        """Come to know a key: because it was seen, or by a read that shows it."""
        row = self.rows.get((entity, key))
        if known(self.machine, self.start, self.calls, entity, key, row):
            return True
        if any(self._name(entity, key, made) for made in reversed(self.calls)):
            return True
        if depth >= DEEPEST or len(self.calls) > MOST_CALLS:
            return False
        wanted = goal[1] if goal else {}

        def effort(way: str) -> int:
            """How far-fetched a read is: of what the goal names, a list of such rows, or others."""
            kinds = self.lookups.kinds(way)
            if any(name in wanted for name, kind in kinds.items() if kind["type"] == "ref"):
                return 0
            required = any(not kind.get("optional") for kind in kinds.values())
            return 1 + required + 2 * (self.lookups.listed.get(way) != entity)

        ways = sorted(self.shuffled(self.lookups.ways[entity]), key=effort)
        return any(self.find(way, entity, key, goal, depth) for way in ways)

    def find(
        self, way: str, entity: str, key: str, goal: Want | None = None, depth: int = 0
    ) -> bool:
        """Make a read that shows a key beside what its row is called; nothing is left if not."""
        before = self.mark()
        args = self._read_args(way, entity, key, goal, depth)
        if args is not None and self._name(entity, key, self.run(way, args)):
            return True
        self.back(before)
        return False

    def _read_args(
        self, way: str, entity: str, key: str, goal: Want | None, depth: int
    ) -> Row | None:
        """Arguments with which a read shows a key; None if one cannot be known."""
        args: Row = {}
        kinds, row = self.lookups.kinds(way), self.state["tables"][entity][key]
        for argument, kind in kinds.items():
            if kind.get("optional"):
                continue
            value = self._borrowed(argument, kind, goal)
            if value is None:
                value = row.get(argument)
            if value is None or value == key:  # which would be known already
                return None
            args[argument] = value
        chosen = self._narrowed(way, args, entity, key)
        for _, other, inner in keys_in(chosen or {}, kinds):
            if not self.learn(other, inner, goal, depth + 1):
                return None
        return chosen

    def _narrowed(self, way: str, args: Row, entity: str, key: str) -> Row | None:
        """Arguments under which a read shows a key among few, or at all; None if there are none."""
        whole = self._keys(way, args, entity)
        if key in whole and (entity in self.lookups.own or len(whole) <= FEW):
            return args
        conditions = self._conditions(way, args, entity, key)
        for several in (1, 2):
            trials = [{**args, **dict(each)} for each in combinations(conditions, several)]
            found = [(trial, self._keys(way, trial, entity)) for trial in trials]
            showing = [trial for trial, keys in found if key in keys and keys != whole]
            kinds = self.lookups.kinds(way)
            texts = [t for t in showing if any(kinds[n]["type"] == "text" for n in t)]
            if showing:
                return self.rng.choice(texts or showing)
            if key in whole:
                return args
        return None

    def _keys(self, way: str, args: Row, entity: str) -> set[str]:
        """The keys that a read shows."""
        made = played(self.machine, self.state, self.now, way, args, 0)
        return {s.key for s in made.shown if s.entity == entity}

    def _conditions(self, way: str, args: Row, entity: str, key: str) -> list[tuple[str, Json]]:
        """Optional arguments of a read with values that stand in a row or its name."""
        row = self.state["tables"][entity][key]
        frame = self.machine.frame(self.state, {}, self.now)
        label = [str(v) for _, v in self.lookups.label(entity, row, frame)]
        texts = [value for value in row.values() if isinstance(value, str)]
        columns = self.machine.entities[entity].references.items()
        found: list[tuple[str, Json]] = []
        for argument, kind in self.lookups.kinds(way).items():
            form, values = kind["type"], list[str]()
            if argument in args or not kind.get("optional"):
                continue
            if form == "text":
                names = [name.split() for name in label if not _is_moment(name)]
                values = [" ".join(n[:WORDS]) for n in names] + [max(n, key=len) for n in names]
            elif form == "choice":
                values = [text for text in texts if text in kind["choices"]]
            elif form == "date":
                values = [text[:10] for text in texts if _is_moment(text) and len(text) > CLOCK]
            elif form == "ref":
                values = [row[f] for f, to in columns if to == kind["entity"] and row[f]]
            found += [(argument, value) for value in dict.fromkeys(values)]
        return found

    # --- names

    def say(self, entity: str, key: str) -> bool:
        """Name a row that nobody has to look up."""
        frame = self.machine.frame(self.state, {}, self.now)
        label = self.lookups.label(entity, self.state["tables"][entity][key], frame)
        if (entity, key) not in self.rows and entity in self.lookups.named and label:
            self.rows[entity, key] = NamedRow(entity, key, tuple(label), self.turn)
        return (entity, key) in self.rows or key == self.state["me"]

    def _name(self, entity: str, key: str, made: PlayedCall) -> bool:
        """Settle how the user calls a row that a call shows. One that has no name for them is
        chosen from what the assistant lists."""
        shown = {s.key for s in made.shown if s.entity == entity}
        if key not in shown:
            return False
        if row := self.rows.get((entity, key)):
            return keys_called(made.shown, entity, row.words) == {key}
        label = self._described(entity, key, made)
        if label is None:
            return False
        if entity not in self.lookups.named and made.turn == self.turn:
            if len(shown) < 2:
                return False
            self.begin("choose")
        self.rows[entity, key] = NamedRow(entity, key, label, self.turn)
        return True

    def _described(self, entity: str, key: str, made: PlayedCall) -> Label | None:
        """What a person says of a row so that a response shows which one is meant: its name, as
        short as will do; or something else that it alone has, such as what is in an order."""
        target = next(s for s in made.shown if s.entity == entity and s.key == key)
        others = [s.values for s in made.shown if s.entity == entity and s.key != key]
        frame = self.machine.frame(made.before, {}, self.now)
        row = made.before["tables"][entity].get(key) or made.after["tables"][entity][key]
        name = [
            (n, value)
            for n, value in self.lookups.label(entity, row, frame)
            if isinstance(value, str) and value in target.values
        ]
        for label in ([part for part in name if not _is_moment(part[1])], name):
            words = {value for _, value in label}
            if label and not any(words <= values for values in others):
                return tuple(label)
        if name and entity not in self.lookups.own:
            return None  # two of the same name
        alone = [
            (".".join(str(part) for part in path if isinstance(part, str)), value)
            for path, kind, value in leaves(target.kind, target.item)
            if kind["type"] == "choice" or kind.get("label")
            if isinstance(value, str) and len(value) <= LONGEST
            if not any(value in values for values in others)
        ]
        return (self.rng.choice(alone),) if alone else None


def _is_moment(value: str) -> bool:
    return any(pattern.fullmatch(value) for pattern in PATTERNS.values())
