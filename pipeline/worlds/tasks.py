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

import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, TypeVar

from toolloom.pipeline.checks.world.grammar import MOMENTS, Kind, Tree
from toolloom.pipeline.checks.world.interpreter import (
    PATTERNS,
    Json,
    Machine,
    Row,
    State,
    difference,
    names_one,
    nodes,
    state_of,
)
from toolloom.pipeline.checks.world.outcome import Acted, broken_policies
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.arguments import ArgumentDrawer, RowKey
from toolloom.pipeline.worlds.given import StartStates
from toolloom.pipeline.worlds.lookups import (
    FieldOf,
    Lookups,
    Path,
    ShownKey,
    keys_shown,
    leaves,
    lookups_of,
)
from toolloom.pipeline.worlds.scripts import MadeCall, Play
from toolloom.schemas import Need, Told, Turn, canonical

MOST_TURNS, MOST_CALLS = 4, 8
PER_STATE = 4  # tasks that are drawn from one start state
TRIES = 5  # of a task in one state
KEPT = 15  # tries of a scenario, for what comes seldom
SCENARIOS_TRIED = 5
DRAWS = 16  # of arguments until a call succeeds
NAMES = 4  # operations that are tried where few calls will do
QUESTIONS = 0.25  # share of first wants that are questions
LATER_QUESTIONS = 0.5  # share of later ones
NEAR = 0.6  # share of later changes that are about rows which were spoken of
YES = 0.5  # share of confirmations that are given
MOST_FACTS = 10  # that an answer tells
DEEPEST = 3  # lookups for the arguments of lookups
FEW = 4  # rows that are listed without a condition
WORDS = 4  # of a name, that are searched for
LONGEST = 1_500  # characters of a result that are shown to who words a dialogue
BOUNDS = ("<", "<=", ">", ">=")
FORMS = {
    "ask": "wants",
    "agree": "agrees",
    "decline": "would rather not",
    "answer": "answers what the assistant had to ask",
    "retry": "tries another way",
}

Label: TypeAlias = tuple[tuple[str, Json], ...]  # what is said of a row, by the field it stands in
Want: TypeAlias = tuple[str, Row]  # an operation and its arguments
T = TypeVar("T")


class NoTask(Exception):
    """What is planned comes to nothing in this state."""


@dataclass(frozen=True)
class TaskSize:
    """The least and the most calls and user turns of a task."""

    calls: tuple[int, int] = (0, MOST_CALLS)
    turns: tuple[int, int] = (1, MOST_TURNS)

    def fits(self, calls: int, turns: int) -> bool:
        (least, most), (fewest, longest) = self.calls, self.turns
        enough = least <= calls <= min(most, MOST_CALLS)
        return enough and fewest <= turns <= min(longest, MOST_TURNS)


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
    """A user turn of one of the FORMS."""

    form: str
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


@dataclass
class Task:
    """A start state, what each user turn wants and says, the calls that solve it, and what these
    have to come to: changes, errors, and facts that are told."""

    lookups: Lookups
    start: State
    now: str
    scenario: str = ""
    turns: list[UserTurn] = field(default_factory=list)
    calls: list[PlayedCall] = field(default_factory=list)
    rows: dict[RowKey, NamedRow] = field(default_factory=dict)
    facts: list[TaskFact] = field(default_factory=list)
    changes: list[list[Any]] = field(default_factory=list)
    errors: list[tuple[str, str | None]] = field(default_factory=list)  # calls that fail, and how
    grounds: dict[str, frozenset[FieldOf]] = field(default_factory=dict)
    """By operation what was seen before it that decides on it."""
    avoided: Avoided | None = None

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
        shown = () if error else tuple(keys_shown(shape, response))
        return PlayedCall(name, args, turn, agreed, response, error, state, after, shown)

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
        if self.avoided and not self.missing:
            yield from self._unseen(calls, self.avoided.name, self.avoided.arguments)
        failed = [(made.name, made.error) for made in calls if made.error]
        if failed != self.errors:
            yield f"errors: {failed}"
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
        return row is not None and any(
            keys_called(made, entity, row.label) == {key} for made in calls
        )

    def visible(self, calls: Iterable[PlayedCall]) -> frozenset[FieldOf]:
        """The fields that results have shown, and the entities whose rows were looked at."""
        shown = self.lookups.shown
        return frozenset().union(*(shown[made.name] for made in calls if not made.error))

    def _tells(self, made: PlayedCall, fact: TaskFact) -> bool:
        if made.error or made.name != fact.operation:
            return False
        shape = self.machine.world["operations"][made.name]["shape"]
        there = fact.row is None or fact.row in {(s.entity, s.key) for s in made.shown}
        return there and any(
            path[-1:] == (fact.field,) and value == fact.value
            for path, _, value in leaves(shape, made.response)
        )

    def solves(self, calls: Sequence[PlayedCall]) -> bool:
        return next(self.shortfalls(calls), None) is None

    def prune(self) -> None:
        """Leave out each call that is not needed, the later ones tried first. Raises NoTask if the
        calls are no solution even together."""
        if not self.solves(self.calls):
            raise NoTask
        for number in range(len(self.calls) - 1, -1, -1):
            rest = [*self.calls[:number], *self.calls[number + 1 :]]
            if self.calls[number].after is not self.calls[number].before:
                rest = self.replayed(rest)
            if self.solves(rest):
                self.calls = rest


def keys_called(made: PlayedCall, entity: str, label: Label) -> set[str]:
    """The keys beside which a result shows all that is said of a row."""
    words = {value for _, value in label}
    return {s.key for s in made.shown if s.entity == entity and words <= s.values}


# --- the way to a goal, call by call ---------------------------------------------------------


@dataclass(kw_only=True)
class Plan(Task):
    """A task while it is drawn: the state so far, and how it gets to where a call can be made."""

    rng: random.Random
    size: TaskSize
    wanted: str = ""  # the change that is wanted first, if it is said
    state: State = field(init=False)
    withheld: dict[tuple[str, Path], int] = field(default_factory=dict)
    """The turn that says an argument, if no other."""

    def __post_init__(self) -> None:
        self.state = self.start

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

    def drawer(self, about: Collection[RowKey] = ()) -> ArgumentDrawer:
        """Draws arguments in the state so far."""
        return ArgumentDrawer(self.machine, self.state, self.now, self.rng, about)

    def look(self, name: str, args: Row) -> PlayedCall:
        """What a call would come to, which is not made yet."""
        return self.played(self.state, name, args, self.turn)

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
        for entity, key in sorted(self.lookups.keys(name, args), key=lambda row: row[0] not in own):
            self.learn(entity, key, (name, args))
        for policy in () if says else self.lookups.policies[name]:
            reads = self.shuffled(policy.get("first", ()))
            if reads and not any(self._reads(read, (name, args)) for read in reads):
                raise NoTask
        grounds = self.lookups.grounds[name, says]
        for place in sorted(grounds):
            if place not in self.visible(self.calls):
                showing = (read for read in self.lookups.reads if place in self.lookups.shown[read])
                any(self._reads(read, (name, args)) for read in showing)
        seen = grounds & self.visible(self.calls)
        self.grounds[name] = self.grounds.get(name, seen) & seen

    def _reads(self, read: str, want: Want) -> bool:
        """Make a read with what a want says, or so that it shows a row which the want names."""
        kinds = self.lookups.kinds(read).items()
        given = {name: self._borrowed(name, k, want) for name, k in kinds if not k.get("optional")}
        if None not in given.values() and not self.look(read, given).error:
            self.run(read, given)
            return True
        return any(
            read in self.lookups.ways[entity] and self.tries(self.find, read, entity, key, want)
            for entity, key in self.lookups.keys(*want)
        )

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
            kinds = self.lookups.kinds(way)
            near = any(name in want[1] for name, kind in kinds.items() if kind["type"] == "ref")
            required = any(not kind.get("optional") for kind in kinds.values())
            return not near, self.lookups.listed.get(way) != entity, required

        ways = sorted(self.shuffled(self.lookups.ways[entity]), key=effort)
        if not any(self.tries(self.find, way, entity, key, want, depth) for way in ways):
            raise NoTask

    def find(self, way: str, entity: str, key: str, want: Want, depth: int = 0) -> None:
        """Make a read that shows a key beside what its row is called."""
        kinds, row = self.lookups.kinds(way), self.state["tables"][entity][key]
        args: Row = {}
        for argument, kind in kinds.items():
            if kind.get("optional"):
                continue
            value = self._borrowed(argument, kind, want)
            args[argument] = row.get(argument) if value is None else value
            if args[argument] in (None, key):  # which would be known already
                raise NoTask
        args = self._narrowed(way, args, entity, key)
        for other, inner in self.lookups.keys(way, args):
            self.learn(other, inner, want, depth + 1)
        if not self._name(entity, key, self.run(way, args)):
            raise NoTask

    def _narrowed(self, way: str, args: Row, entity: str, key: str) -> Row:
        """Arguments under which a read shows a key, among few if it can: by a text if one does."""

        def keys(given: Row) -> set[str]:
            return {s.key for s in self.look(way, given).shown if s.entity == entity}

        whole, kinds = keys(args), self.lookups.kinds(way)
        if key in whole and (entity in self.lookups.own or len(whole) <= FEW):
            return args
        row, trials = self.state["tables"][entity][key], list[tuple[bool, str, Json]]()
        for argument, kind in kinds.items():
            if argument in args or not kind.get("optional"):
                continue
            if kind["type"] == "text":
                names = [str(value).split()[:WORDS] for _, value in self._label(entity, key)]
                texts = {" ".join(name) for name in names} | {max(name, key=len) for name in names}
                trials += [(False, argument, text) for text in sorted(texts)]
            elif row.get(argument):
                trials.append((True, argument, row[argument]))
        for _, argument, value in sorted(self.shuffled(trials), key=lambda trial: trial[0]):
            given = {**args, argument: value}
            there = keys(given)
            if key in there and there != whole:
                return given
        if key not in whole:
            raise NoTask
        return args

    # --- names

    def _label(self, entity: str, key: str) -> list[tuple[str, Json]]:
        frame = self.machine.frame(self.state, {}, self.now)
        return self.lookups.label(entity, self.state["tables"][entity][key], frame)

    def _name(self, entity: str, key: str, made: PlayedCall) -> bool:
        """Whether a call shows which row is meant by what the user says of it: its name, without
        days and times if that will do, or a name of something that it alone has."""
        if (entity, key) in self.rows:
            return self.knows([made], entity, key)
        shown = [s for s in made.shown if (s.entity, s.key) == (entity, key)]
        name = [
            (field, value)
            for field, value in self._label(entity, key)
            if any(value in s.values for s in shown)
        ]
        moments = PATTERNS.values()
        timeless = [part for part in name if not any(m.fullmatch(part[1]) for m in moments)]
        holds = [
            [(".".join(part for part in path if isinstance(part, str)), value)]
            for s in shown
            for path, kind, value in leaves(s.kind, s.item)
            if kind.get("label")
        ]
        for label in map(tuple, (timeless, name, *holds)):
            if label and keys_called(made, entity, label) == {key}:
                self.rows[entity, key] = NamedRow(label, self.turn)
                return True
        return False


# --- scenarios -------------------------------------------------------------------------------


def wish(plan: Plan, name: str = "", about: Collection[RowKey] = ()) -> Want:
    """A change that works now and is allowed by the policies, and that nobody asked for yet, nor
    for a row that came in the meantime; `about`: rows of which it has to name one."""
    asked = {name for turn in plan.turns for name in turn.operations}
    names = [name for name in plan.lookups.writes if name not in asked]
    name, drawer = name if name in names else plan.pick(names), plan.drawer(about)
    old = plan.start["tables"]
    for _ in range(DRAWS):
        args = drawer.draw(name)
        if args is None or not plan.works(name, args):
            continue
        if all(key in old[entity] for entity, key in plan.lookups.keys(name, args)):
            return name, args
    raise NoTask


def ask(plan: Plan, name: str = "") -> Want:
    """A first turn that asks for a change, whose lookups are made."""
    turn = plan.begin("ask")
    want = wish(plan, name or plan.wanted)
    turn.operations.append(want[0])
    plan.prepare(*want)
    return want


def single(plan: Plan) -> None:
    if not plan.wanted and plan.rng.random() < QUESTIONS:
        plan.begin("ask")
        question(plan)
    else:
        plan.act(*ask(plan))


def question(plan: Plan) -> None:
    """Something that a read tells and nobody has asked: a field or two of a row that people can
    name, of what only its key gives, or of oneself."""
    turn, asked = plan.turns[-1], {name for turn in plan.turns for name in turn.operations}
    name = plan.pick([name for name in plan.lookups.reads if name not in asked])
    turn.operations.append(name)
    kinds, drawn = plan.lookups.kinds(name), plan.drawer().draw(name) or {}
    args = {argument: drawn.get(argument) for argument, k in kinds.items() if not k.get("optional")}
    if None in args.values():
        raise NoTask
    plan.prepare(name, args)
    made, row = plan.look(name, args), None
    if made.error:
        raise NoTask
    kind, item = plan.machine.world["operations"][name]["shape"], made.response
    entity = plan.lookups.listed.get(name, "")
    if plan.lookups.labels.get(entity):
        rows = [(s.entity, s.key) for s in made.shown if s.entity == entity]
        row = plan.pick([each for each in rows if each not in plan.rows])
        plan.find(name, *row, (name, args))
        made = next(call for call in reversed(plan.calls) if plan.knows([call], *row))
        kind, item = next((s.kind, s.item) for s in made.shown if (s.entity, s.key) == row)
    else:
        plan.run(name, args)
    words = [str(value).lower() for named in plan.rows.values() for _, value in named.label]
    words += [str(value).lower() for value in made.arguments.values()]
    told = [
        (str(path[-1]), inner["type"], value)
        for path, inner, value in leaves(kind, item)
        if path and inner["type"] != "ref" and not inner.get("label")
        if len(path) == 1 + (kind["type"] == "list")
        if not any(str(value).lower() in word for word in words)
    ]
    fields = {name for name, form, _ in told if form != "text"} or {name for name, _, _ in told}
    turn.asks = plan.rng.sample(sorted(fields), min(len(fields), plan.rng.choice((1, 1, 2))))
    facts = [TaskFact(name, row, f, value, plan.turn) for f, _, value in told if f in turn.asks]
    if not 0 < len(facts) <= MOST_FACTS:
        raise NoTask
    plan.facts += facts


def parallel(plan: Plan) -> None:
    """The same for two rows at once; no row is in both."""
    name, args = ask(plan)
    keys, drawer = set(plan.lookups.keys(name, args)), plan.drawer()
    after = plan.look(name, args).after
    for _ in range(DRAWS if keys else 0):
        other = drawer.draw(name)
        if other is None or keys & set(plan.lookups.keys(name, other)):
            continue
        if plan.works(name, other) and plan.works(name, other, after):
            plan.prepare(name, other)
            plan.act(name, args)
            plan.act(name, other)
            return
    raise NoTask


def multi_turn(plan: Plan) -> None:
    """Wants that follow one another, until there are calls enough or no turns left."""
    least, most = (min(number, MOST_CALLS) for number in plan.size.calls)
    enough = plan.rng.randint(least, most)
    (parallel if plan.rng.random() < enough / MOST_CALLS / 2 else single)(plan)
    wants = 1
    while any(plan.tries(follow_up, plan) for _ in range(DRAWS)):
        wants += 1
        if len(plan.calls) >= enough and len(plan.turns) >= plan.size.turns[0]:
            break
    if wants < 2:
        raise NoTask


def follow_up(plan: Plan) -> None:
    """One more turn that asks for something, with calls of its own."""
    turn, calls = plan.begin("ask"), len(plan.calls)
    if plan.rng.random() < LATER_QUESTIONS:
        question(plan)
    else:
        want = wish(plan, about=plan.rows if plan.rng.random() < NEAR else ())
        turn.operations.append(want[0])
        plan.act(*want)
    within = len(plan.calls) <= plan.size.calls[1] and len(plan.turns) <= plan.size.turns[1]
    if len(plan.calls) == calls or not within:
        raise NoTask


def clarification(plan: Plan) -> None:
    """A value is withheld without which nobody could go on, and that no row of one's own has."""
    name, args = ask(plan)
    said = tuple(str(value) for made in plan.calls for value in made.arguments.values())
    shown = [s for made in plan.calls for s in made.shown if s.entity in plan.lookups.own]
    seen = {field for s in shown for field in s.item}  # which would stay
    open_ones = [
        argument
        for argument, kind in plan.lookups.kinds(name).items()
        if not kind.get("optional") and kind["type"] not in ("ref", "list", "text")
        if argument not in seen and not str(args[argument]).startswith(said)
    ]
    withheld = plan.pick(open_ones)
    plan.begin("answer", name)
    plan.withheld[name, (withheld,)] = plan.turn
    plan.act(name, args)


def irrelevance(plan: Plan) -> None:
    """What is wanted cannot be done with the operations that are there."""
    plan.avoided = Avoided(*ask(plan), "missing")


def refusal(plan: Plan) -> None:
    """A policy does not allow what the world would let pass."""
    turn, drawer = plan.begin("ask"), plan.drawer()
    names = [name for name in plan.lookups.writes if plan.lookups.musts[name]]
    for name in plan.shuffled(names)[:NAMES]:
        for _ in range(DRAWS):
            args = drawer.draw(name, beyond=True)
            says = args and plan.lookups.forbidden(plan.state, plan.now, name, args)
            if args and says and not plan.look(name, args).error:
                turn.operations.append(name)
                plan.avoided = Avoided(name, args, says)
                return plan.prepare(name, args, says)
    raise NoTask


def confirmation(plan: Plan) -> None:
    """A policy wants consent: it is given, or it is not."""
    agreeing = [name for name in plan.lookups.writes if plan.lookups.agrees(name)]
    want = ask(plan, plan.wanted if plan.wanted in agreeing else plan.pick(agreeing))
    if plan.rng.random() < YES:
        plan.act(*want)
    else:
        plan.begin("decline", want[0])
        plan.avoided = Avoided(*want, "declined")


def error_recovery(plan: Plan) -> None:
    """A call fails although nothing had shown why, and somebody takes another way."""
    turn, drawer = plan.begin("ask"), plan.drawer()
    for name in plan.shuffled(plan.lookups.writes)[:NAMES]:
        known = plan.machine.world["operations"][name]["errors"]
        for _ in range(DRAWS):
            args = drawer.draw(name)
            error = plan.look(name, args).error if args else None
            if error in known and plan.tries(recover, plan, name, args, error, drawer):
                turn.operations.append(name)
                return
    raise NoTask


def recover(plan: Plan, name: str, args: Row, error: str, drawer: ArgumentDrawer) -> None:
    """Make a call that fails for what nothing had shown, and then one that works."""
    hidden = causes(plan.lookups, name, error)
    if not hidden or plan.lookups.forbidden(plan.state, plan.now, name, args):
        raise NoTask
    plan.prepare(name, args)
    others = (other for other in ways_out(plan, name, args, drawer) if plan.works(name, other))
    other = next(others, None)
    if other is None or hidden <= plan.visible(plan.calls):
        raise NoTask
    plan.act(name, args)
    plan.begin("retry", name)
    plan.act(name, other)


def ways_out(plan: Plan, name: str, args: Row, drawer: ArgumentDrawer) -> Iterator[Row]:
    """The same call with one thing changed that may be as welcome: a moment, a choice, a row of
    nobody's that was shown, one item less."""
    for argument, kind in plan.lookups.kinds(name).items():
        value, form = args.get(argument), kind["type"]
        others: list[Json] = []
        if form == "list" and value and len(value) > 1:
            others = [[each for each in value if each is not item] for item in value]
        elif form == "ref" and kind["entity"] not in plan.lookups.own:
            shown = [s for made in plan.calls for s in made.shown if s.entity == kind["entity"]]
            others = sorted({s.key for s in shown})
        elif value is not None and form in (*MOMENTS, "choice"):
            others = [drawer.value(kind) for _ in range(DRAWS // 2)]
        yield from ({**args, argument: other} for other in others if other not in (None, value))


@cache
def causes(lookups: Lookups, name: str, code: str) -> set[FieldOf]:
    """On what an error depends that no look at what is nobody's own shows; on nothing if it says
    that all is already as it is wanted."""
    steps = lookups.machine.world["operations"][name]["steps"]
    lets = {node[1]: node[2] for node in nodes(steps) if node[0] == "let"}
    clauses: list[Tree] = [n[1] for n in nodes(steps) if n[0] == "require" and n[2] == code]
    clauses += [n[2] for n in nodes(steps) if n[0] == "find" and n[3] == code]
    for clause in clauses:  # that there are no such rows; before or after others is a clash
        none = clause[0] == "=" and clause[1][0] == "count"
        if clause[0] == "!=" or (none and not any(n[0] in BOUNDS for n in nodes(clause))):
            return set()
    clauses += [tree for let, tree in lets.items() if any(names_one(c, let) for c in clauses)]
    public = {place for place in lookups.readable if place[0] not in lookups.own}
    return lookups.places(name, clauses) - public


SCENARIOS: dict[str, tuple[int, Callable[[Plan], None]]] = {
    "single": (10, single),  # sequential, where it takes more than one call
    "parallel": (2, parallel),
    "multi_turn": (5, multi_turn),
    "clarification": (3, clarification),
    "irrelevance": (2, irrelevance),
    "error_recovery": (4, error_recovery),
    "refusal": (2, refusal),
    "confirmation": (2, confirmation),
}
"""How often each is drawn among all, and how: it writes turns and calls into a plan, or raises
NoTask."""
WISHES = ("single", "multi_turn", "clarification", "irrelevance")  # begin with any change


# --- drawing ---------------------------------------------------------------------------------


def tasks(
    machine: Machine,
    seed: Any,
    count: int,
    size: TaskSize | None = None,
    among: Collection[str] = (),
    starts: StartStates | None = None,
) -> Iterator[Task | None]:
    """Tasks by number, of any scenarios or those `among` which they shall be; None where the world
    has none of the wanted kind. Raises Unsatisfied.

    Several share a start state, and no two of these are about the same. Each change has its turn to
    be the one that is wanted first, so that none is left out because few states allow it.
    """
    lookups, size, starts = lookups_of(machine), size or TaskSize(), starts or StartStates(machine)
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
                scenario = _scenario(rng, size, among)
            first = wanted if scenario in WISHES and attempt < KEPT else ""
            plan = Plan(lookups, start, now, scenario, rng=rng, size=size, wanted=first)
            try:
                SCENARIOS[scenario][1](plan)
                finish(plan)
            except NoTask:
                continue
            said = repr([turn.said for turn in plan.turns])
            if said not in told and (not among or plan.scenario in among):
                told.add(said)
                yield plan
                break
        else:
            yield None


def _scenario(rng: random.Random, size: TaskSize, among: Collection[str]) -> str:
    """A scenario, as often as SCENARIOS says; several wants if one is hardly ever enough."""
    names = {"single" if name == "sequential" else name for name in among} or set(SCENARIOS)
    if "multi_turn" in names and (size.calls[0] > 4 or size.turns[0] > 2):
        return "multi_turn"
    weights = {name: often for name, (often, _) in SCENARIOS.items() if name in names}
    return rng.choices(list(weights), list(weights.values()))[0]


def finish(plan: Plan) -> None:
    """Prune a plan, and say what its turns say and what the answers must tell."""
    plan.changes = difference(plan.machine, plan.start, plan.state)
    plan.errors = [(made.name, made.error) for made in plan.calls if made.error]
    acts = sum(call.acts for call in plan.calls)
    plan.prune()
    if not plan.size.fits(len(plan.calls), len(plan.turns)):
        raise NoTask
    if sum(call.acts for call in plan.calls) < acts:
        raise NoTask  # one of several wants came to nothing
    wants = [number for number, turn in enumerate(plan.turns) if turn.form == "ask"]
    met = {max(number for number in wants if number <= call.turn) for call in plan.calls}
    if len(met) < len(wants) and not (plan.avoided and len(plan.turns) == 1):
        raise NoTask  # earlier results answer all that a turn asks for
    if plan.scenario == "single" and len(plan.calls) > 1:
        plan.scenario = "sequential"
    say_values(plan)
    plan.facts += told_facts(plan)


def say_values(plan: Plan) -> None:
    """Let each turn say what it has to, so that each argument is known when it is needed."""
    turns, lookups = plan.turns, plan.lookups
    goals = {name for turn in turns for name in turn.operations if name in lookups.writes}
    acts = [(call.name, call.arguments, call.turn, n) for n, call in enumerate(plan.calls)]
    if plan.avoided:
        acts.append((plan.avoided.name, plan.avoided.arguments, 0, len(plan.calls)))
    acts.sort(key=lambda act: act[0] not in goals)  # what is wanted says best what a row is for

    def say_row(path: Path, place: RowKey, turn: int) -> None:
        """Say how a row is called where it comes up, and anew in each later want for it."""
        row = plan.rows[place]
        for number in {row.turn, turn if turns[turn].form == "ask" else row.turn}:
            if all(part.label != row.label for part in turns[number].said):
                turns[number].said.append(SaidValue(path, None, row.label))

    for fact in plan.facts:
        if fact.row:
            say_row((), fact.row, fact.turn)
    for name, args, turn, number in acts:
        while turns[turn].form not in ("ask", "retry"):
            turn -= 1  # to the turn that wants something
        for path, kind, value in leaves({"type": "object", "fields": lookups.kinds(name)}, args):
            if kind["type"] == "ref":
                if (place := (kind["entity"], value)) in plan.rows:
                    wants = name in turns[turn].operations
                    say_row(path, place, turn if wants else plan.rows[place].turn)
                continue
            when = plan.withheld.get((name, path), turn)
            heard = [part for each in turns[: when + 1] for part in each.said]
            texts = [str(v) for part in heard for _, v in (*part.label, ("", part.value))]
            if name not in goals:  # who looks something up reads results too
                results = (s for call in plan.calls[:number] for s in call.shown)
                texts += (text for shown in results for text in shown.values)
            stands = any(
                value in text if isinstance(value, str) else str(value) == text for text in texts
            )
            if not stands or (name in goals and turns[when].form != "retry"):
                turns[when].said.append(SaidValue(path, value))


def told_facts(plan: Plan) -> Iterator[TaskFact]:
    """What the results of changes say that nobody has said yet: sums, dates."""
    known = {str(part.value) for turn in plan.turns for part in turn.said}
    known |= {str(value) for row in plan.rows.values() for _, value in row.label}
    known |= {plan.now, plan.now[:10]}
    for made in plan.calls:
        shape = plan.machine.world["operations"][made.name]["shape"]
        changed = made.after is not made.before
        for path, kind, value in leaves(shape, made.response) if changed else ():
            if kind["type"] in ("ref", "choice", "text", "boolean") or len(path) != 1:
                continue
            if str(value) not in known:
                yield TaskFact(made.name, None, str(path[-1]), value, made.turn)


# --- a task as a dialogue ----------------------------------------------------------------------


def play_of(task: Task) -> Play:
    """A task as a row whose words are still what is to be said."""
    row = Play("", task.now, task.start, task.calls[-1].after if task.calls else task.start)
    for number, turn in enumerate(task.turns):
        row.messages.append(("user", _wanted(turn)))
        row.messages += [
            ("call", MadeCall(call.name, call.arguments, call.response, call.error))
            for call in task.calls
            if call.turn == number
        ]
        facts = [f"{f.field} = {_text(f.value)}" for f in task.facts if f.turn == number]
        more = [f"must tell {', '.join(facts)}"] if facts else []
        following = task.turns[number + 1].form if number + 1 < len(task.turns) else ""
        if following in ("agree", "decline"):
            more.append("says what it will do and what comes of it, and asks for a yes")
        elif following == "answer":
            more.append("asks for what is missing")
        elif not following and task.avoided:
            more.append(f"does not call {task.avoided.name}: {task.avoided.why}")
        row.messages.append(("assistant", "; ".join(more)))
    row.facts = [Told(value=f.value, said=_text(f.value), field=f.field) for f in task.facts]
    return row


def replayed_need(need: Need, machine: Machine, words: Sequence[Turn]) -> Play:
    """A solved task with what is said in each turn, its calls made again. A turn that calls what no
    turn before it called, or nothing, is searched for in whatever keywords are given then."""
    assert need.setting
    given = need.setting.start
    start = state_of(given["tables"], given["me"], given["next"])
    row, known = Play("", moment_of(need), start, start), set[str]()
    for number, turn in enumerate(words):
        row.messages.append(("user", turn.user))
        calls = [each for each in need.intent if each.turn == number]
        names = [need.api(each.api).source.operation for each in calls]
        if not set(names) <= known or not names:
            row.messages.append(("search", ()))
        known |= set(names)
        for name, each in zip(names, calls, strict=True):
            row.end, response, error = machine.apply(row.end, name, each.arguments, row.now)
            row.messages.append(("call", MadeCall(name, each.arguments, response, error)))
        row.messages.append(("assistant", turn.assistant))
    return row


def as_lines(row: Play) -> list[str]:
    """A row as the one who words it sees it."""
    lines, turn = list[str](), 0
    for role, part in row.messages:
        if isinstance(part, MadeCall):
            lines.append(f"→ {part.name}({json.dumps(part.arguments, ensure_ascii=False)})")
            told = f"{part.error}: {part.response}" if part.error else canonical(part.response)
            lines.append(f"← {told[:LONGEST]}")
        elif isinstance(part, str):
            turn += role == "user"
            lines.append(f"{role.capitalize()} {turn}: {part}".rstrip())
    return lines


def _wanted(turn: UserTurn) -> str:
    """What the user of a turn wants and says, in the world's own names."""
    parts = [FORMS[turn.form], *turn.operations]
    parts += [f"asks about {', '.join(turn.asks)}"] if turn.asks else []
    values = []
    for each in turn.said:
        name = ".".join(map(str, each.path)) or "a row"
        label = ", ".join(f"{field} {_text(value)}" for field, value in each.label)
        values.append(
            f"{name} is the one with {label}" if label else f"{name} = {_text(each.value)}"
        )
    return " ".join(parts) + (f": {'; '.join(values)}" if values else "")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
