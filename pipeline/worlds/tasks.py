"""Tasks of a world: what somebody wants in a state, with the calls that solve it and what comes of
them. Nothing is worded here; a task says which values and rows each user turn names.

    *_, task = tasks(machine, seed, 3)
    print(as_text(play_of(task)))

A task is planned forwards, so that its calls are right by construction. A scenario draws an
operation with arguments that succeed in a drawn state, or are refused as it wants. Each key among
them is looked up by a read that shows it beside what a person says of its row, the arguments of
that read in the same way; what the policies ask for comes before the call that they are about. What
then is not needed goes, and the difference of the states is the goal.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from toolloom.pipeline.checks.text.words import spaced, stems
from toolloom.pipeline.checks.world.grammar import MOMENTS, Kind
from toolloom.pipeline.checks.world.interpreter import (
    PATTERNS,
    Json,
    Machine,
    Row,
    State,
    difference,
    nodes_of,
)
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.operations import (
    DRAWS,
    ArgumentDrawer,
    FieldOf,
    Lookups,
    Path,
    RowKey,
    ShownKey,
    changed,
    keys_shown,
    leaves,
)
from toolloom.pipeline.worlds.scripts import MadeCall
from toolloom.pipeline.worlds.states import StartStates
from toolloom.schemas import WorldPlan

MOST_TURNS, MOST_CALLS = 4, 8
PER_STATE = 4  # tasks that are drawn from one start state
AT_MOST = WorldPlan(calls=(0, MOST_CALLS), turns=(1, MOST_TURNS))
TRIES = 5  # of a task in one state
KEPT = 15  # tries of a scenario, for what comes seldom
SCENARIOS_TRIED = 5
NAMES = 4  # operations that are tried where few calls will do
QUESTIONS = 0.25  # share of first wants that are questions
LATER_QUESTIONS = 0.5  # share of later ones
NEAR = 0.6  # share of later changes that are about rows which were spoken of
YES = 0.5  # share of confirmations that are given
MOST_FACTS = 10  # that an answer tells
DEEPEST = 3  # lookups for the arguments of lookups
WORDS = 4  # of a name, that are searched for

_MOMENT = re.compile("|".join(pattern.pattern for pattern in PATTERNS.values()))
Label: TypeAlias = tuple[tuple[str, Json], ...]  # what is said of a row, by the field it stands in
Want: TypeAlias = tuple[str, Row]  # an operation and its arguments
T = TypeVar("T")


class NoTask(Exception):
    """What is planned comes to nothing in this state."""


@dataclass(frozen=True)
class NamedRow:
    """How a row is called, and the user turn that says so first."""

    label: Label
    turn: int


@dataclass(frozen=True)
class SaidValue:
    """What a user turn says: the value of an argument, or how a row is called whose key it is."""

    path: Path
    value: Json
    label: Label = ()


@dataclass
class UserTurn:
    """A user turn, and what is said in it."""

    form: str  # ask, agree, decline, answer, retry
    operations: list[str] = field(default_factory=list)
    asks: list[str] = field(default_factory=list)  # fields that a question is about
    said: list[SaidValue] = field(default_factory=list)


@dataclass(frozen=True)
class TaskFact:
    """What a result returned that the answer must tell."""

    operation: str
    row: RowKey | None
    field: str
    value: Json
    turn: int  # the user turn that it answers


@dataclass(frozen=True)
class Avoided:
    """A call that would be wrong: what it breaks, or that the user does not want it after all."""

    name: str
    arguments: Row
    why: str  # declined, missing, or what the policy says


@dataclass(frozen=True, kw_only=True)
class PlayedCall(MadeCall):
    """One call of a task. `agreed`: the user said yes to it, or chose it."""

    turn: int  # the user turn that it answers
    agreed: bool
    before: State
    after: State
    shape: Kind  # of the response
    shown: tuple[ShownKey, ...]

    @property
    def acts(self) -> bool:
        """Whether it changed something, or tried to and failed."""
        return self.after is not self.before or self.error is not None

    def called(self, entity: str, label: Label) -> set[str]:
        """The keys beside which its result shows all that is said of a row."""
        words = {value for _, value in label}
        return {s.key for s in self.shown if s.entity == entity and words <= s.values}


@dataclass
class Task:
    """A start state, what each user turn wants and says, the calls that solve it, and what these
    have to come to: changes, errors, and facts that are told. While it is drawn also the state so
    far, and how it gets to where a call can be made."""

    lookups: Lookups
    start: State
    now: str
    scenario: str
    rng: random.Random
    plan: WorldPlan  # says how many calls and turns it may have
    wanted: str  # the change that is wanted first, if it is said
    turns: list[UserTurn] = field(default_factory=list)
    calls: list[PlayedCall] = field(default_factory=list)
    rows: dict[RowKey, NamedRow] = field(default_factory=dict)
    facts: list[TaskFact] = field(default_factory=list)
    changes: list[list[Any]] = field(default_factory=list)
    errors: list[tuple[str, str | None]] = field(default_factory=list)  # calls that fail, and how
    grounds: dict[str, frozenset[FieldOf]] = field(default_factory=dict)
    """By operation what was seen before it that decides on it; by "" what explains a failure."""
    withheld: dict[tuple[str, Path], int] = field(default_factory=dict)
    """The turn that says an argument, if no other."""
    avoided: Avoided | None = None
    state: State = field(init=False)

    def __post_init__(self) -> None:
        self.state = self.start

    @property
    def machine(self) -> Machine:
        return self.lookups.machine

    @property
    def missing(self) -> str:
        """The operation that the assistant has not."""
        return self.avoided.name if self.avoided and self.avoided.why == "missing" else ""

    def played(
        self, state: State, name: str, args: Row, turn: int, agreed: bool = False
    ) -> PlayedCall:
        """What comes of a call in a state."""
        after, response, error = self.machine.apply(state, name, args, self.now)
        shape = self.machine.world["operations"][name]["shape"]
        return PlayedCall(
            name,
            args,
            response,
            error,
            turn=turn,
            agreed=agreed,
            before=state,
            after=after,
            shape=shape,
            shown=() if error else tuple(keys_shown(shape, response)),
        )

    def replayed(self, calls: Iterable[PlayedCall]) -> list[PlayedCall]:
        """The same calls, made again from the start."""
        made, state = list[PlayedCall](), self.start
        for call in calls:
            made.append(self.played(state, call.name, call.arguments, call.turn, call.agreed))
            state = made[-1].after
        return made

    # --- whether calls solve it

    def shortfalls(self, calls: Sequence[PlayedCall]) -> Iterator[str]:
        """What calls lack to be a solution: keys that nothing showed, facts that nothing told,
        changes missing or made too much, policies broken."""
        for number, made in enumerate(calls):
            yield from self._unseen(calls[:number], made.name, made.arguments)
        why = self.avoided.why if self.avoided else ""
        if self.avoided and (why == "declined" or self.lookups.grounds(self.avoided.name, why)):
            yield from self._unseen(calls, self.avoided.name, self.avoided.arguments)
        failed = [(made.name, made.error) for made in calls if made.error]
        if failed != self.errors:
            yield f"errors: {failed}"
        failing = max((made.turn for made in calls if made.error), default=0)
        until = (made for made in calls if made.turn <= failing)
        if self.grounds.get("", frozenset()) - self.visible(until):
            yield "nothing tells why a call failed"
        for fact in self.facts:
            if not any(self._tells(made, fact) for made in calls):
                yield f"nothing tells {fact.field} {fact.value}"
        end = calls[-1].after if calls else self.start
        if difference(self.machine, self.start, end) != self.changes:
            yield "the goal is missed"
        acts = [Acted(made.name, made.arguments, made.agreed) for made in calls]
        yield from (b.says for b in broken_policies(self.machine, self.start, self.now, acts))

    def _unseen(self, before: Sequence[PlayedCall], name: str, args: Row) -> Iterator[str]:
        """What has to be seen before a call is made, or is not made for good reason."""
        for entity, key in self.lookups.keys(name, args):
            if not self.knows(before, entity, key):
                yield f"{name}: nothing shows {key}"
        if missing := self.grounds.get(name, frozenset()) - self.visible(before):
            yield f"{name}: {missing} was not seen"

    def knows(self, calls: Iterable[PlayedCall], entity: str, key: str) -> bool:
        """Whether results show the key beside all that the user says of its row, and no other."""
        if entity == self.machine.actor and key == self.start["me"]:
            return True
        row = self.rows.get((entity, key))
        return row is not None and any(made.called(entity, row.label) == {key} for made in calls)

    def visible(self, calls: Iterable[PlayedCall]) -> frozenset[FieldOf]:
        """The fields that results have shown, and the entities whose rows were looked at."""
        shown = self.lookups.shown
        return frozenset().union(*(shown[made.name] for made in calls if not made.error))

    def _tells(self, made: PlayedCall, fact: TaskFact) -> bool:
        if made.error or made.name != fact.operation:
            return False
        there = fact.row is None or fact.row in {(s.entity, s.key) for s in made.shown}
        return there and any(
            path[-1:] == (fact.field,) and value == fact.value
            for path, _, value in leaves(made.shape, made.response)
        )

    def prune(self) -> None:
        """Leave out each call that is not needed, the later ones tried first. Raises NoTask if the
        calls are no solution even together."""
        if any(self.shortfalls(self.calls)):
            raise NoTask
        for number in range(len(self.calls) - 1, -1, -1):
            rest = [*self.calls[:number], *self.calls[number + 1 :]]
            if self.calls[number].after is not self.calls[number].before:
                rest = self.replayed(rest)
            if not any(self.shortfalls(rest)):
                self.calls = rest

    # --- the way to a goal, call by call

    @property
    def turn(self) -> int:
        return len(self.turns) - 1

    def begin(self, form: str, *operations: str) -> UserTurn:
        self.turns.append(UserTurn(form, list(operations)))
        return self.turns[-1]

    def tries(self, step: Callable[..., None], *args: Any) -> bool:
        """Whether a step comes to something; nothing is left of it if not."""
        before = self.state, self.calls[:], self.turns[:], self.facts[:], dict(self.rows)
        grounds = dict(self.grounds)
        try:
            step(*args)
        except NoTask:
            self.state, self.calls, self.turns, self.facts, self.rows = before
            self.grounds = grounds
            return False
        return True

    def shuffled(self, values: Any) -> list[Any]:
        return self.rng.sample(values, len(values))

    def pick(self, values: Sequence[T]) -> T:
        if not values:
            raise NoTask
        return self.rng.choice(values)

    def drawer(self, about: Collection[RowKey] = (), beyond: bool = False) -> ArgumentDrawer:
        """Draws arguments in the state so far."""
        here = self.machine, self.state, self.now, self.rng
        return ArgumentDrawer(*here, about=about, beyond=beyond)

    def look(self, name: str, args: Row) -> PlayedCall:
        """What a call would come to, which is not made yet."""
        return self.played(self.state, name, args, self.turn)

    def explains(self, entity: str, name: str, args: Row, error: str) -> bool:
        """Whether rows of one's own bear on an error, where a list shows no others."""
        frame, rows = self.machine.frame(self.state, {}, self.now), self.state["tables"][entity]
        others = {k: r for k, r in rows.items() if not self.machine.owned(frame, entity, r)}
        without = self.machine.apply(changed(self.state, entity, others), name, args, self.now)
        return entity not in self.lookups.own or without[2] != error

    def works(self, name: str, args: Row, state: State | None = None) -> bool:
        """Whether a call succeeds, changes something and breaks no policy: now, or in a state."""
        state = state or self.state
        after, _, error = self.machine.apply(state, name, args, self.now)
        if error is not None or after is state or not difference(self.machine, state, after):
            return False
        return self.lookups.forbidden(state, self.now, name, args) is None

    def run(self, name: str, args: Row, agreed: bool = False) -> PlayedCall:
        """Make a call, or find that it was made before and nothing has changed since."""
        for made in self.calls:
            if (made.name, made.arguments) == (name, args) and made.after is self.state:
                return made
        made = self.played(self.state, name, args, self.turn, agreed)
        self.calls.append(made)
        self.state = made.after
        return made

    def act(self, name: str, args: Row) -> None:
        """Make a call that is wanted, after everything that has to come before it, a yes too."""
        self.prepare(name, args)
        agreed = self.lookups.agrees(name)
        if agreed and self.turns[-1].form not in ("retry", "agree"):
            self.begin("agree", name)
        self.run(name, args, agreed)

    def prepare(self, name: str, args: Row, says: str = "") -> None:
        """Learn the keys among arguments, and look at what policies want looked at; before a
        refusal only what tells that the policy which `says` so does not allow the call."""
        own = self.lookups.own
        if says and not self.lookups.grounds(name, says):  # what is said is enough to refuse it
            for entity, key in self.lookups.keys(name, args):
                label = tuple(self.lookups.label(self.state, self.now, entity, key))
                self.rows.setdefault((entity, key), NamedRow(label, self.turn))
            self.grounds[name] = frozenset()
            return
        for entity, key in sorted(self.lookups.keys(name, args), key=lambda row: row[0] not in own):
            self.learn(entity, key, (name, args))
        for policy in () if says else self.lookups.policies[name]:
            reads = self.shuffled(policy.get("first", ()))
            if reads and not any(self.read_for(read, (name, args)) for read in reads):
                raise NoTask
        grounds = self.lookups.decisive(self.state, self.now, name, args, says)
        for place in sorted(grounds):
            if place not in self.visible(self.calls):
                showing = (read for read in self.lookups.reads if place in self.lookups.shown[read])
                any(self.read_for(read, (name, args)) for read in showing)
        seen = grounds & self.visible(self.calls)
        self.grounds[name] = self.grounds.get(name, seen) & seen

    def read_for(self, read: str, want: Want) -> bool:
        """Make a read with what a want says, or so that it shows a row which the want names."""
        if any(
            read in self.lookups.ways[entity] and self.tries(self.find, read, entity, key, want)
            for entity, key in self.lookups.keys(*want)
        ):
            return True
        kinds = self.lookups.required(read).items()
        given = {argument: self._borrowed(argument, kind, want) for argument, kind in kinds}
        if None in given.values() or self.look(read, given).error:
            return False
        self.run(read, given)
        return True

    def _borrowed(self, argument: str, kind: Kind, want: Want) -> Json:
        """What an argument of a read means, if a want has one that means the same."""
        kinds = self.lookups.kinds(want[0])
        if argument in want[1] and kinds[argument]["type"] == kind["type"]:
            return want[1][argument]
        for other, value in want[1].items():
            if kind["type"] == "date" and kinds[other]["type"] == "datetime":
                return value[:10]
            if kind["type"] == "list" and kind["of"] == kinds[other].get("of"):
                return value
        return None

    # --- keys

    def learn(self, entity: str, key: str, want: Want, depth: int = 0) -> None:
        """Come to know a key: because it was seen, or by a read that shows it."""
        if self.knows(self.calls, entity, key):
            return
        if any(self._name(entity, key, made) for made in reversed(self.calls)):
            return
        if depth >= DEEPEST or len(self.calls) > MOST_CALLS:
            raise NoTask

        def effort(way: str) -> tuple[bool, bool, bool]:
            """How far-fetched a read is: of what the want names, a list of such rows, or others."""
            kinds = self.lookups.kinds(way).items()
            other = {name for name, value in want[1].items() if value != key}
            listed = self.lookups.listed.get(way) == entity
            refs = [(n, k) for n, k in kinds if k["type"] == "ref"]
            near = any(n in other and (listed or not k.get("optional")) for n, k in refs)
            return not near, not listed, bool(self.lookups.required(way))

        ways = sorted(self.shuffled(self.lookups.ways[entity]), key=effort)
        if not any(self.tries(self.find, way, entity, key, want, depth) for way in ways):
            raise NoTask

    def find(self, way: str, entity: str, key: str, want: Want, depth: int = 0) -> None:
        """Make a read that shows a key beside what its row is called."""
        row, args = self.state["tables"][entity][key], Row()
        for argument, kind in self.lookups.required(way).items():
            value = self._borrowed(argument, kind, want)
            args[argument] = row.get(argument) if value is None else value
        if any(value in (None, key) for value in args.values()):  # which would be known already
            raise NoTask
        args = self._narrowed(way, args, entity, key, want)
        for other, inner in self.lookups.keys(way, args):
            self.learn(other, inner, want, depth + 1)
        if not self._name(entity, key, self.run(way, args)):
            raise NoTask

    def _narrowed(self, way: str, args: Row, entity: str, key: str, want: Want) -> Row:
        """Arguments under which a read shows a key: all that is wanted or said of its row, and if
        that does not show it, more. Who comes without a dog does not look for where
        dogs are allowed. Raises NoTask where what is wanted, and will fail, is not among them."""

        def keys(given: Row) -> set[str]:
            return {s.key for s in self.look(way, given).shown if s.entity == entity}

        found, kinds = keys(args), self.lookups.kinds(way)
        row, wants = self.state["tables"][entity][key], self.lookups.kinds(want[0])
        called = [str(value) for _, value in self.lookups.label(self.state, self.now, entity, key)]
        shown = [s.values for s in self.look(way, args).shown if (s.entity, s.key) == (entity, key)]
        if shown:  # what is not, is no part of its name
            called = [value for value in called if value in frozenset().union(*shown)]
        if entity in self.lookups.own:  # by its name alone, if that will do
            called = [v for v in called if not _MOMENT.fullmatch(v)] or called
        moments = [*called, *(v[:10] for v in called if PATTERNS["datetime"].fullmatch(v))]
        seen = {s.key for made in self.calls for s in made.shown} - {key}
        shared, said, others = Row(), list[tuple[str, Json]](), list[tuple[str, Json]]()
        for argument, kind in kinds.items():
            if argument in args or not kind.get("optional"):
                continue
            if argument in want[1] and kind["type"] == wants[argument]["type"] != "ref":
                if want[1][argument] is not False:  # what is not wanted does no harm
                    shared[argument] = want[1][argument]
            elif kind["type"] == "text":
                names = [value.split() for value in called]
                shorter = {" ".join(name[:WORDS]) for name in names if name[WORDS - 1 :]}
                shorter |= {max(name, key=len) for name in names}
                # Nobody types «Shirt, folded».
                said += [(argument, re.split(", | [(/]", text)[0]) for text in sorted(called)]
                others += [(argument, text) for text in sorted(shorter)]
            elif kind["type"] in ("date", "time"):
                said += [(argument, v) for v in moments if PATTERNS[kind["type"]].fullmatch(v)]
            elif kind["type"] == "ref" and row.get(argument) in seen:
                name = self.lookups.label(self.state, self.now, kind["entity"], row[argument])
                if name and all(value in called for _, value in name):
                    said.append((argument, row[argument]))
            elif str(row.get(argument)) in called:
                said.append((argument, row[argument]))
            elif row.get(argument) and not any(
                value is False and stems(spaced(name)) & stems(spaced(argument))
                for name, value in want[1].items()
            ):
                others.append((argument, row[argument]))
        tree = self.machine.world["operations"][way]["returns"]
        exact = {node[2][1] for node in nodes_of(tree, "=") if node[2][0] == "arg"}
        days = {value for argument, value in said if argument in exact}
        said = [(a, v) for a, v in said if a in exact or v not in days]  # no ends of that day too
        if shared and key in keys({**args, **shared}):
            args = {**args, **shared}
            found = keys(args)
        elif shared and self.look(*want).error:
            raise NoTask
        said = sorted(self.shuffled(said), key=lambda part: row.get(part[0]) != part[1])
        trials = [*said, *self.shuffled(others)]
        for number, (argument, value) in enumerate(trials):
            if argument in args or (key in found and number >= len(said)):
                continue
            given = {**args, argument: value}
            there = keys(given)
            again = number >= len(said) or value in [args[a] for a in args if row.get(a) == value]
            if key in there and (there != found or not again):
                args, found = given, there
        if key not in found:
            raise NoTask
        return {argument: args[argument] for argument in kinds if argument in args}

    # --- names

    def _name(self, entity: str, key: str, made: PlayedCall) -> bool:
        """Whether a call shows which row is meant by what the user says of it: its name, of one's
        own without days and times if that will do, or a name of something that it alone has."""
        if (entity, key) in self.rows:
            return self.knows([made], entity, key)
        shown = [s for s in made.shown if (s.entity, s.key) == (entity, key)]
        name = [
            (field, value)
            for field, value in self.lookups.label(self.state, self.now, entity, key)
            if any(value in s.values for s in shown)
        ]
        timeless = [part for part in name if not _MOMENT.fullmatch(part[1])]
        holds = [
            [(".".join(part for part in path if isinstance(part, str)), value)]
            for s in shown
            for path, kind, value in leaves(s.kind, s.item)
            if kind.get("label")
        ]
        names = (timeless, name) if entity in self.lookups.own else (name,)
        for label in map(tuple, (*names, *holds)):
            if label and made.called(entity, label) == {key}:
                self.rows[entity, key] = NamedRow(label, self.turn)
                return True
        return False


# --- scenarios -------------------------------------------------------------------------------


def wish(task: Task, name: str = "", about: Collection[RowKey] = ()) -> Want:
    """A change that works now and is allowed by the policies, and that nobody asked for yet, nor
    for a row that came in the meantime; `about`: rows of which it has to name one."""
    asked = {name for turn in task.turns for name in turn.operations}
    names = [name for name in task.lookups.writes if name not in asked]
    name, old = name if name in names else task.pick(names), task.start["tables"]
    for args in task.drawer(about).draws(name):
        there = all(key in old[entity] for entity, key in task.lookups.keys(name, args))
        if there and task.works(name, args):
            after = task.look(name, args).after
            for argument in task.machine.operations[name].args:
                fewer = {other: value for other, value in args.items() if other != argument}
                optional = task.lookups.kinds(name)[argument].get("optional")
                if optional and task.look(name, fewer).after["tables"] == after["tables"]:
                    args = fewer  # nobody asks for what is so already
            if task.works(name, args):
                return name, args
    raise NoTask


def ask(task: Task, name: str = "") -> Want:
    """A first turn that asks for a change, whose lookups are made."""
    turn = task.begin("ask")
    want = wish(task, name or task.wanted)
    turn.operations.append(want[0])
    task.prepare(*want)
    return want


def single(task: Task) -> None:
    if not task.wanted and task.rng.random() < QUESTIONS:
        task.begin("ask")
        question(task)
    else:
        task.act(*ask(task))


def question(task: Task) -> None:
    """Something that a read tells and nobody has asked: a field or two of a row that people can
    name, of what only its key gives, or of oneself."""
    turn, asked = task.turns[-1], {name for turn in task.turns for name in turn.operations}
    name = task.pick([name for name in task.lookups.reads if name not in asked])
    turn.operations.append(name)
    drawn = task.drawer().draw(name) or {}
    args = {argument: drawn.get(argument) for argument in task.lookups.required(name)}
    if None in args.values():
        raise NoTask
    task.prepare(name, args)
    made, row = task.look(name, args), None
    if made.error:
        raise NoTask
    kind, item, entity = made.shape, made.response, task.lookups.listed.get(name, "")
    if task.lookups.labels.get(entity):
        rows = [(s.entity, s.key) for s in made.shown if s.entity == entity]
        row = task.pick([each for each in rows if each not in task.rows])
        task.find(name, *row, (name, args))
        made = next(call for call in reversed(task.calls) if task.knows([call], *row))
        kind, item = next((s.kind, s.item) for s in made.shown if (s.entity, s.key) == row)
    else:
        task.run(name, args)
    words = [str(value).lower() for named in task.rows.values() for _, value in named.label]
    words += [str(value).lower() for value in made.arguments.values()]
    actor = task.machine.frame(task.state, {}, task.now).me if entity in task.lookups.own else {}
    told = [
        (str(path[-1]), inner["type"], value)
        for path, inner, value in leaves(kind, item)
        if path and inner["type"] != "ref" and not inner.get("label")
        # Nobody asks a boat for its owner's credit, or what kind of thing a shirt is.
        if (actor or {}).get(str(path[-1])) != value
        and path[-1] not in ("kind", "type", "category")
        if len(path) == 1 + (kind["type"] == "list")
        if not any(str(value).lower() in word for word in words)
    ]
    fields = {name for name, form, _ in told if form != "text"} or {name for name, _, _ in told}
    turn.asks = task.rng.sample(sorted(fields), min(len(fields), task.rng.choice((1, 1, 2))))
    facts = [TaskFact(name, row, f, value, task.turn) for f, _, value in told if f in turn.asks]
    if not 0 < len(facts) <= MOST_FACTS:
        raise NoTask
    task.facts += facts


def parallel(task: Task) -> None:
    """The same for two rows at once; no row is in both."""
    name, args = ask(task)
    keys, drawer = set(task.lookups.keys(name, args)), task.drawer()
    after = task.look(name, args).after
    for other in drawer.draws(name) if keys else ():
        apart = keys.isdisjoint(task.lookups.keys(name, other))
        if apart and task.works(name, other) and task.works(name, other, after):
            task.prepare(name, other)
            task.act(name, args)
            task.act(name, other)
            return
    raise NoTask


def multi_turn(task: Task) -> None:
    """Wants that follow one another, until there are calls enough or no turns left."""
    least, most = (min(number, MOST_CALLS) for number in task.plan.calls)
    enough = task.rng.randint(least, most)
    (parallel if task.rng.random() < enough / MOST_CALLS / 2 else single)(task)
    wants = 1
    while any(task.tries(follow_up, task) for _ in range(DRAWS)):
        wants += 1
        if len(task.calls) >= enough and len(task.turns) >= task.plan.turns[0]:
            break
    if wants < 2:
        raise NoTask


def follow_up(task: Task) -> None:
    """One more turn that asks for something, with calls of its own."""
    turn, calls = task.begin("ask"), len(task.calls)
    if task.rng.random() < LATER_QUESTIONS:
        question(task)
    else:
        want = wish(task, about=task.rows if task.rng.random() < NEAR else ())
        turn.operations.append(want[0])
        task.act(*want)
    within = len(task.calls) <= task.plan.calls[1] and len(task.turns) <= task.plan.turns[1]
    if len(task.calls) == calls or not within:
        raise NoTask


def clarification(task: Task) -> None:
    """A value is withheld that nobody can do without, no own row has, and may be another one."""
    name, args = ask(task)
    said = tuple(str(value) for made in task.calls for value in made.arguments.values())
    shown = [s for made in task.calls for s in made.shown if s.entity in task.lookups.own]
    seen = {field for s in shown for field in s.item}  # which would stay
    open_ones = [
        argument
        for argument, kind in task.lookups.required(name).items()
        if kind["type"] not in ("ref", "list", "text")
        if argument not in seen and not str(args[argument]).startswith(said)
        if sum(task.works(name, {**args, argument: v}) for v in kind.get("choices", ())) != 1
    ]
    withheld = task.pick(open_ones)
    task.begin("answer", name)
    task.withheld[name, (withheld,)] = task.turn
    task.act(name, args)


def irrelevance(task: Task) -> None:
    """What is wanted cannot be done with the operations that are there."""
    task.avoided = Avoided(*ask(task), "missing")


def refusal(task: Task) -> None:
    """A policy does not allow what the world would let pass."""
    turn, drawer = task.begin("ask"), task.drawer(beyond=True)
    names = [name for name in task.lookups.writes if task.lookups.musts[name]]
    for name in task.shuffled(names)[:NAMES]:
        for args in drawer.draws(name):
            says = task.lookups.forbidden(task.state, task.now, name, args)
            if says and not task.look(name, args).error:
                turn.operations.append(name)
                task.avoided = Avoided(name, args, says)
                return task.prepare(name, args, says)
    raise NoTask


def confirmation(task: Task) -> None:
    """A policy wants consent: it is given, or it is not."""
    agreeing = [name for name in task.lookups.writes if task.lookups.agrees(name)]
    want = ask(task, task.wanted if task.wanted in agreeing else task.pick(agreeing))
    if task.rng.random() < YES:
        task.act(*want)
    else:
        task.begin("decline", want[0])
        task.avoided = Avoided(*want, "declined")


def error_recovery(task: Task) -> None:
    """A call fails although nothing had shown why, and somebody takes another way."""
    turn, drawer = task.begin("ask"), task.drawer()
    for name in task.shuffled(task.lookups.writes)[:NAMES]:
        known = task.machine.world["operations"][name]["errors"]
        for args in drawer.draws(name):
            error = task.look(name, args).error
            if error in known and task.tries(recover, task, name, args, error, drawer):
                turn.operations.append(name)
                return
    raise NoTask


def recover(task: Task, name: str, args: Row, error: str, drawer: ArgumentDrawer) -> None:
    """Make a call that fails for what nothing had shown, and then one that works."""
    hidden = task.lookups.causes(name, error)
    if not hidden or task.lookups.forbidden(task.state, task.now, name, args):
        raise NoTask
    task.prepare(name, args)
    for entity, key in task.lookups.keys(name, args):
        # What is wanted was seen among what there is, and not on a list of what one has already.
        lists = [read for read, rows in task.lookups.listed.items() if rows == entity]
        if (
            lists
            and entity not in task.lookups.own
            and not task.knows((c for c in task.calls if c.name in lists), entity, key)
        ):
            raise NoTask
    others = (other for other in ways_out(task, name, args, drawer) if task.works(name, other))
    other = next(others, None)
    if other is None or hidden <= task.visible(task.calls):
        raise NoTask
    seen = {str(s.key): s.item for made in task.calls for s in made.shown}
    most = max((value for value in args.values() if type(value) is int), default=0)

    def short(value: Json) -> bool:
        return value <= most if type(value) is int else not value

    for argument, value in args.items():  # nobody takes what a list shows to be full, or too few
        wanted, taken = (seen.get(str(key), {}) for key in (value, other.get(argument)))
        if any(short(wanted.get(field, each)) and not short(each) for field, each in taken.items()):
            raise NoTask
    task.act(name, args)
    for read in task.lookups.reads:  # what stood against it
        telling = task.lookups.shown[read] & hidden - task.visible(task.calls)
        if any(task.explains(entity, name, args, error) for entity, _ in telling):
            task.read_for(read, (name, args))
    task.grounds[""] = frozenset(hidden) & task.visible(task.calls)
    task.begin("retry", name)
    task.act(name, other)


def ways_out(task: Task, name: str, args: Row, drawer: ArgumentDrawer) -> Iterator[Row]:
    """The same call with one thing changed that may be as welcome: a moment, a choice, a row of
    nobody's that was shown, one item less."""
    for argument, kind in task.lookups.kinds(name).items():
        value, form = args.get(argument), kind["type"]
        others: list[Json] = []
        if form == "list" and value and len(value) > 1:
            others = [[each for each in value if each is not item] for item in value]
        elif form == "ref" and kind["entity"] not in task.lookups.own:
            shown = [s for made in task.calls for s in made.shown if s.entity == kind["entity"]]
            others = sorted({s.key for s in shown})
        elif value is not None and form in (*MOMENTS, "choice"):
            others = [drawer.value(kind) for _ in range(DRAWS // 2)]
        yield from ({**args, argument: other} for other in others if other not in (None, value))


SCENARIOS: dict[str, tuple[int, Callable[[Task], None]]] = {
    "single": (10, single),  # sequential, where it takes more than one call
    "parallel": (2, parallel),
    "multi_turn": (5, multi_turn),
    "clarification": (3, clarification),
    "irrelevance": (2, irrelevance),
    "error_recovery": (4, error_recovery),
    "refusal": (2, refusal),
    "confirmation": (2, confirmation),
}
"""How often each is drawn among all, and what writes it into a task, or raises NoTask."""
WISHES = ("single", "multi_turn", "clarification", "irrelevance")  # begin with any change


# --- drawing ---------------------------------------------------------------------------------


def tasks(
    machine: Machine,
    seed: Any,
    count: int,
    plan: WorldPlan = AT_MOST,
    starts: StartStates | None = None,
) -> Iterator[Task | None]:
    """Tasks by number, of the scenarios, calls and turns that a plan lets in; None where the world
    has none of that kind. Raises Unsatisfied.

    Several share a start state, and no two of these are about the same. Each change has its turn to
    be the one that is wanted first, so that none is left out because few states allow it.
    """
    lookups, starts = Lookups(machine), starts or StartStates(machine)
    changes = lookups.writes
    for number in range(count):
        rng = rng_for(seed, "task", number)
        if number % PER_STATE == 0:
            shared, told = starts.draw(rng_for(seed, "task state", number)), set[str]()
        wanted = changes[number // 2 % len(changes)] if changes and number % 2 == 0 else ""
        now, start = shared
        for attempt in range(KEPT * SCENARIOS_TRIED):
            if attempt and attempt % TRIES == 0:
                now, start = starts.draw(rng)
            if attempt % KEPT == 0:
                scenario = _scenario(rng, plan)
            first = wanted if scenario in WISHES and attempt < KEPT else ""
            task = Task(lookups, start, now, scenario, rng, plan, first)
            try:
                SCENARIOS[scenario][1](task)
                finish(task)
            except NoTask:
                continue
            said = repr([turn.said for turn in task.turns])
            if said not in told and (not plan.scenarios or task.scenario in plan.scenarios):
                told.add(said)
                yield task
                break
        else:
            yield None


def _scenario(rng: random.Random, plan: WorldPlan) -> str:
    """A scenario, as often as SCENARIOS says; several wants if one is hardly ever enough."""
    names = {"single" if name == "sequential" else name for name in plan.scenarios or SCENARIOS}
    if "multi_turn" in names and (plan.calls[0] > 4 or plan.turns[0] > 2):
        return "multi_turn"
    weights = {name: often for name, (often, _) in SCENARIOS.items() if name in names}
    return rng.choices(list(weights), list(weights.values()))[0]


def finish(task: Task) -> None:
    """Prune a task, and say what its turns say and what the answers must tell."""
    task.changes = difference(task.machine, task.start, task.state)
    task.errors = [(made.name, made.error) for made in task.calls if made.error]
    acts = sum(call.acts for call in task.calls)
    task.prune()
    if not all(plan.lets_in(len(task.calls), len(task.turns)) for plan in (task.plan, AT_MOST)):
        raise NoTask
    if sum(call.acts for call in task.calls) < acts:
        raise NoTask  # one of several wants came to nothing
    wants = [number for number, turn in enumerate(task.turns) if turn.form == "ask"]
    met = {max(number for number in wants if number <= call.turn) for call in task.calls}
    if len(met) < len(wants) and not (task.avoided and len(task.turns) == 1):
        raise NoTask  # earlier results answer all that a turn asks for
    if task.scenario == "single" and len(task.calls) > 1:
        task.scenario = "sequential"
    say_values(task)
    task.facts += told_facts(task)


def say_values(task: Task) -> None:
    """Let each turn say what it has to, so that each argument is known when it is needed."""
    turns, lookups = task.turns, task.lookups
    goals = {name for turn in turns for name in turn.operations if name in lookups.writes}
    acts = [(call.name, call.arguments, call.turn, n) for n, call in enumerate(task.calls)]
    if task.avoided:
        acts.append((task.avoided.name, task.avoided.arguments, 0, len(task.calls)))
    acts.sort(key=lambda act: act[0] not in goals)  # what is wanted says best what a row is for

    def say_row(path: Path, place: RowKey, turn: int) -> None:
        """Say how a row is called where it comes up, and anew in each later want for it."""
        row = task.rows[place]
        for number in {row.turn, turn if turns[turn].form == "ask" else row.turn}:
            if all(part.label != row.label for part in turns[number].said):
                turns[number].said.append(SaidValue(path, None, row.label))

    for fact in task.facts:
        if fact.row:
            say_row((), fact.row, fact.turn)
    for name, args, turn, number in acts:
        while turns[turn].form not in ("ask", "retry"):
            turn -= 1  # to the turn that wants something
        for path, kind, value in leaves({"type": "object", "fields": lookups.kinds(name)}, args):
            if kind["type"] == "ref":
                if (place := (kind["entity"], value)) in task.rows:
                    wants = name in turns[turn].operations
                    say_row(path, place, turn if wants else task.rows[place].turn)
                continue
            when = task.withheld.get((name, path), turn)
            heard = [part for each in turns[: when + 1] for part in each.said]
            is_text = isinstance(value, str)
            texts = [
                str(v)
                for part in heard
                for _, v in (*part.label, ("", part.value))
                if is_text or part.path[-1:] == path[-1:]
            ]
            if name not in goals:  # who looks something up reads results too
                results = (s for call in task.calls[:number] for s in call.shown)
                texts += (text for shown in results for text in shown.values)
            stands = any(value in text if is_text else str(value) == text for text in texts)
            if not stands or (name in goals and turns[when].form != "retry"):
                turns[when].said.append(SaidValue(path, value))


def told_facts(task: Task) -> Iterator[TaskFact]:
    """What the results of changes say that nobody has said yet: sums, dates. Of what is counted
    (places, copies left) nobody has to hear who did not ask."""
    known = {str(part.value) for turn in task.turns for part in turn.said}
    known |= {str(value) for row in task.rows.values() for _, value in row.label}
    known |= {task.now, task.now[:10]}
    telling = {"money", "number", "person", "code", *MOMENTS}
    changes = [made for made in task.calls if made.after is not made.before]
    several = Counter((made.turn, made.name) for made in changes)
    for made in changes:
        named = set(task.lookups.keys(made.name, made.arguments))
        left = [  # as it was, in what changed, and in one's own rows that are named
            (name, value)
            for entity, rows in made.after["tables"].items()
            for key, row in rows.items()
            if (old := made.before["tables"][entity].get(key))
            if old is not row or key == made.before["me"] or (entity, key) in named
            for name, value in row.items()
            if old.get(name) == value
        ]
        for path, kind, value in leaves(made.shape, made.response):
            exact = kind["type"] in telling and len(path) == 1
            # Of several changes at once nobody tells each balance in between.
            exact &= kind["type"] in MOMENTS or several[made.turn, made.name] == 1
            exact &= (path[0], value) not in left and value not in (0, None, "")
            if exact and str(value) not in known:
                known.add(f"{made.name} {made.turn} {value}")
                yield TaskFact(made.name, None, str(path[-1]), value, made.turn)
