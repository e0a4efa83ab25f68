"""Tasks of a world: what somebody wants in a state, with the calls that solve it and what comes of
them. Nothing is worded here; a task says which values and rows each user turn names.

    task = draw_task(machine, rng_for(seed, number))
    print(task.calls, task.changes)

The goal is computed: an operation is drawn with arguments that succeed in a drawn state, lookups
and what the policies want before it follow (`plans.py`), what is not needed goes (`solutions.py`),
and the difference of the states is the goal.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import Json, Machine, Row, State
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.lookups import Path, form_of, keys_in, leaves, lookups_of
from toolloom.pipeline.worlds.plans import MOST_CALLS, MOST_TURNS, Plan
from toolloom.pipeline.worlds.scenarios import SCENARIOS, ScenarioDrawer, TaskSize
from toolloom.pipeline.worlds.solutions import (
    Avoided,
    Label,
    NamedRow,
    PlayedCall,
    Requirement,
    TaskFact,
    keys_called,
    played,
    pruned,
    shortfalls,
    visible,
)
from toolloom.pipeline.worlds.states import Unsatisfied, draw_now, draw_state

KINDS, TRIES = 8, 5  # scenarios, and goals of each, that are tried until one has a solution
STARTS = 4  # states that are tried
STATES = 16  # draws of a start state until a change can be made in it
PER_STATE = 4  # tasks that are drawn from one start state
DRAWS = 40  # until a task is of the wanted kind
KEPT = 4  # draws of one scenario until another is drawn: else what comes seldom would not come
WISHES = ("single", "multi_turn", "clarification", "confirmation")  # that can begin with a change


@dataclass(frozen=True)
class SaidValue:
    """What a user turn says: the value of an argument, or how a row is called whose key it is."""

    operation: str
    path: Path
    value: Json
    label: Label = ()


@dataclass(frozen=True)
class TaskTurn:
    """A user turn: ask, choose (of what was listed), agree, decline, answer (what the assistant
    had to ask), retry (another way, after an error)."""

    form: str
    operations: tuple[str, ...]
    said: tuple[SaidValue, ...]
    asks: tuple[str, ...] = ()  # the fields that a question is about


@dataclass(frozen=True)
class ArgumentSource:
    """Where an argument comes from: `said` in a turn, `result` of a call, `me`."""

    path: Path
    form: str
    turn: int | None = None
    call: int | None = None
    where: Path = ()  # in the response of that call
    label: Label = ()  # how the user calls the row whose key it is


@dataclass(frozen=True)
class TaskCall:
    name: str
    arguments: Row
    sources: tuple[ArgumentSource, ...]
    turn: int  # the user turn that it answers
    agreed: bool  # whether the user has said yes to it, as a policy wants
    response: Json
    error: str | None


@dataclass(frozen=True)
class Task:
    """A start state, what the user turns say, the calls of a solution, and the goal: what changes
    and what the answer must tell."""

    world: str
    scenario: str
    now: str
    start: State
    turns: tuple[TaskTurn, ...]
    calls: tuple[TaskCall, ...]
    changes: list[list[Json]]
    facts: tuple[TaskFact, ...]
    rows: tuple[NamedRow, ...]
    avoided: Avoided | None
    offered: tuple[str, ...]  # operations that the assistant has


def tasks(
    machine: Machine,
    seed: Any,
    count: int,
    scenario: str | None = None,
    size: TaskSize | None = None,
    among: Collection[str] = SCENARIOS,
    fits: Callable[[Task], bool] = lambda task: True,
) -> Iterator[Task | None]:
    """Tasks by number; None where the world has none of the wanted kind.

    Several share a start state, which is drawn so that the first of them can be about the change
    whose turn it is: so no change is left out because few states allow it.
    """
    changes = lookups_of(machine).writes
    for number in range(count):
        rng = rng_for(seed, "task", number)
        goal = None
        if number % PER_STATE == 0:
            goal = changes[(number // PER_STATE) % len(changes)] if changes else None
            start = start_for(machine, rng_for(seed, "task state", number), goal)
        chosen = scenario or draw_scenario(rng, goal, size, among)
        for attempt in range(DRAWS):
            # After two draws another state may have one, and then another scenario.
            begin = start if attempt < 2 else None
            if attempt >= KEPT:
                chosen = scenario or draw_scenario(rng, None, size, among)
            task = draw_task(machine, rng, chosen, begin, goal if begin else None, size)
            if task and fits(task):
                yield task
                break
        else:
            yield None


def draw_task(
    machine: Machine,
    rng: random.Random,
    scenario: str | None = None,
    start: tuple[State, str] | None = None,
    goal: str | None = None,
    size: TaskSize | None = None,
) -> Task | None:
    """A task, of one scenario, about one change or of a size if they are given; None if none of
    several goals has a solution. `start`: a state and its moment; else several are tried."""
    if start is None:
        starts = (start_for(machine, rng, goal) for _ in range(STARTS))
        drawn = (draw_task(machine, rng, scenario, start, goal, size) for start in starts)
        return next(filter(None, drawn), None)
    size = size or TaskSize()
    for _ in range(1 if scenario else KINDS):
        chosen = scenario or draw_scenario(rng, goal, size)
        for _ in range(TRIES):
            plan = ScenarioDrawer(lookups_of(machine), *start, rng, goal, size).draw(chosen)
            task = _task(plan, chosen) if plan else None
            if task and size.fits(len(task.calls), len(task.turns)):
                return task
    return None


def draw_scenario(
    rng: random.Random,
    goal: str | None = None,
    size: TaskSize | None = None,
    among: Collection[str] = SCENARIOS,
) -> str:
    """A scenario, as often as SCENARIOS says; one that begins with a change if that is named, and
    one of several wants if one want would be too small."""
    if size and size.deep and "multi_turn" in among:
        return "multi_turn"
    kinds = {
        name: often
        for name, often in SCENARIOS.items()
        if name in among and (not goal or name in WISHES)
    }
    return rng.choices(list(kinds), list(kinds.values()))[0]


def start_for(machine: Machine, rng: random.Random, goal: str | None) -> tuple[State, str]:
    """A state and its moment in which a change can be made, or the last of several. Raises
    Unsatisfied if the last moment has no state: some a world's rules may leave without one."""
    for number in range(STATES):
        now = draw_now(rng)
        try:
            state = draw_state(machine, rng, now)
        except Unsatisfied:
            if number == STATES - 1:
                raise
            continue
        drawer = ScenarioDrawer(lookups_of(machine), state, now, rng, goal)
        if goal is None or drawer.wish() is not None:
            break
    return state, now


def faults(machine: Machine, task: Task, calls: Iterable[TaskCall]) -> list[str]:
    """What calls lack to be a solution of a task: a key that nothing showed, a fact that nothing
    tells, a change that is missing or too much, a policy that is broken."""
    lookups = lookups_of(machine)
    made = _made(machine, task, calls)
    errors = [(fact.operation, str(fact.value)) for fact in task.facts if fact.field == "error"]
    rows = {(row.entity, row.key): row for row in task.rows}
    need = Requirement(task.changes, list(task.facts), rows, task.avoided, errors)
    solved = _made(machine, task, task.calls)
    for number, call in enumerate(solved):
        before = visible(lookups, solved[:number]) & lookups.grounds[call.name, ""]
        need.grounds[call.name] = need.grounds.get(call.name, before) & before
    if task.avoided:
        name, why = task.avoided.name, task.avoided.why
        grounds = lookups.grounds.get((name, why), lookups.grounds[name, ""])
        need.grounds[name] = grounds & visible(lookups, solved)
    return list(shortfalls(lookups, task.start, task.now, made, need))


def _made(machine: Machine, task: Task, calls: Iterable[TaskCall]) -> list[PlayedCall]:
    made, state = list[PlayedCall](), task.start
    for call in calls:
        made.append(
            played(machine, state, task.now, call.name, call.arguments, call.turn, call.agreed)
        )
        state = made[-1].after
    return made


# --- from a plan to a task -------------------------------------------------------------------


def _task(plan: Plan, scenario: str) -> Task | None:
    lookups, machine = plan.lookups, plan.machine
    errors = [(made.name, made.error) for made in plan.calls if made.error]
    changes = difference(machine, plan.start, plan.state)
    facts = [
        *plan.facts,
        *(TaskFact(c.name, None, "error", c.error, c.turn) for c in plan.calls if c.error),
    ]
    need = Requirement(changes, facts, plan.rows, plan.avoided, errors, plan.grounds)
    calls = pruned(lookups, plan.start, plan.now, plan.calls, need)
    if calls and len([c for c in calls if _acts(c)]) < len([c for c in plan.calls if _acts(c)]):
        return None  # one of several wants came to nothing
    if calls is None or len(calls) > MOST_CALLS or len(plan.turns) > MOST_TURNS:
        return None
    if not calls and not plan.avoided:
        return None
    if scenario == "multi_turn" and _idle(plan, calls):
        return None
    if plan.avoided and len(plan.turns) > 1 and not calls:
        return None  # what was chosen from is not even looked up
    if scenario == "single":
        scenario = "single" if len(calls) == 1 else "sequential"
    if any(not _offered(plan, calls, row) for row in plan.rows.values()):
        return None
    _said_in_time(plan, calls, facts)
    writer = _Sources(plan, calls)
    for fact in facts:
        if fact.row:
            writer.name(fact.operation, (), *fact.row)
    order = sorted(range(len(calls)), key=lambda n: (calls[n].name not in writer.goals, n))
    traced = {number: writer.call(number) for number in order}
    made = tuple(traced[number] for number in range(len(calls)))
    if plan.avoided:
        writer.said_of(plan.avoided.name, plan.avoided.arguments, 0)
    facts += _told(plan, calls, writer)
    offered = tuple(
        name
        for name in machine.operations
        if not (plan.avoided and plan.avoided.why == "missing" and plan.avoided.name == name)
    )
    turns = tuple(
        TaskTurn(turn.form, tuple(turn.operations), writer.said_in(number), tuple(turn.asks))
        for number, turn in enumerate(plan.turns)
    )
    rows = tuple(writer.rows.values())
    return Task(
        machine.world["name"],
        scenario,
        plan.now,
        plan.start,
        turns,
        made,
        changes,
        tuple(facts),
        rows,
        plan.avoided,
        offered,
    )


def _offered(plan: Plan, calls: Iterable[PlayedCall], row: NamedRow) -> bool:
    """Whether a row that the user chooses was shown in a turn before."""
    shown = ((s.entity, s.key) for c in calls if c.turn < row.turn for s in c.shown)
    chosen = any(turn.form == "choose" for turn in plan.turns[row.turn : row.turn + 1])
    return not chosen or (row.entity, row.key) in shown


def _said_in_time(plan: Plan, calls: Sequence[PlayedCall], facts: Iterable[TaskFact]) -> None:
    """Rows are named no later than the first call or fact that needs them."""
    needed = [(fact.row, fact.turn) for fact in facts if fact.row]
    for made in calls:
        keys = keys_in(made.arguments, plan.machine.operations[made.name].args)
        needed += [((entity, key), made.turn) for _, entity, key in keys]
    for place, turn in needed:
        if place in plan.rows and plan.rows[place].turn > turn:
            plan.rows[place] = replace(plan.rows[place], turn=turn)


def _idle(plan: Plan, calls: list[PlayedCall]) -> bool:
    """Whether earlier results answer all that one of several turns asks for."""
    asks = [number for number, turn in enumerate(plan.turns) if turn.form == "ask"]
    spans = zip(asks, [*asks[1:], len(plan.turns)], strict=True)
    return not all(any(first <= c.turn < after for c in calls) for first, after in spans)


def _acts(made: PlayedCall) -> bool:
    return made.after is not made.before or made.error is not None


class _Sources:
    """Where each argument comes from, and so what each turn has to say."""

    def __init__(self, plan: Plan, calls: list[PlayedCall]) -> None:
        self.plan, self.calls = plan, calls
        self.said: list[list[SaidValue]] = [[] for _ in plan.turns]
        self.rows: dict[tuple[str, str], NamedRow] = {}
        self.goals = {name for turn in plan.turns for name in turn.operations}

    def call(self, number: int) -> TaskCall:
        made = self.calls[number]
        kinds = self.plan.machine.operations[made.name].args
        sources = [
            self.key(number, made.name, path, entity, key)
            for path, entity, key in keys_in(made.arguments, kinds)
        ]
        for path, kind, value in _plain(made.arguments, kinds):
            sources.append(self.value(number, made, path, kind, value))
        return TaskCall(
            made.name,
            made.arguments,
            tuple(sources),
            made.turn,
            made.agreed,
            made.response,
            made.error,
        )

    def key(self, number: int, name: str, path: Path, entity: str, key: str) -> ArgumentSource:
        if entity == self.plan.machine.actor and (entity, key) not in self.plan.rows:
            return ArgumentSource(path, "me")
        self.name(name, path, entity, key)
        row = self.plan.rows[entity, key]
        self._again(name, path, row, self.request(self.calls[number].turn))
        for earlier, made in enumerate(self.calls[:number]):
            if keys_called(made.shown, entity, row.words) == {key}:
                where = next(s.path for s in made.shown if s.entity == entity and s.key == key)
                return ArgumentSource(path, "result", row.turn, earlier, where, row.label)
        raise AssertionError(f"nothing shows {key}")

    def name(self, name: str, path: Path, entity: str, key: str) -> None:
        """Say how a row is called, where it is said first."""
        row = self.plan.rows[entity, key]
        if (row.entity, row.key) not in self.rows:
            self.rows[row.entity, row.key] = row
            self.said[row.turn].append(SaidValue(name, path, None, row.label))

    def _again(self, name: str, path: Path, row: NamedRow, turn: int) -> None:
        """Say in a later want which row is meant, where more than one was spoken of."""
        others = {
            key
            for (entity, key), other in self.plan.rows.items()
            if entity == row.entity and other.turn <= turn
        }
        said = SaidValue(name, path, None, row.label)
        unclear = row.turn < turn and len(others) > 1 and name in self.plan.turns[turn].operations
        if unclear and not any(part.label == row.label for part in self.said[turn]):
            self.said[turn].append(said)

    def value(
        self, number: int, made: PlayedCall, path: Path, kind: Kind, value: Json
    ) -> ArgumentSource:
        """A value is said where it is asked for, unless a name that was said holds it, or a result
        showed it."""
        turn, lookups = self.request(made.turn), self.plan.lookups
        if made.name not in self.goals and isinstance(value, str):
            for row in self.plan.rows.values():
                words = (said for _, said in row.label if isinstance(said, str))
                if row.turn <= made.turn and any(value in said for said in words):
                    return ArgumentSource(path, "said", row.turn, label=row.label)
            for earlier, shown in enumerate(self.calls[:number]):
                implied = made.name in lookups.searches and any(
                    one.argument == path[0] and form_of(one, kind) in ("subject", "words")
                    for one in lookups.searches[made.name].filters
                )
                if implied and any(value in s.values for s in shown.shown):
                    return ArgumentSource(path, "result", call=earlier)
        turn = self.plan.withheld.get((made.name, path), turn)
        said = SaidValue(made.name, path, value)
        names = [str(v) for s in self.said[turn] for _, v in s.label]
        named = isinstance(value, str) and any(value in name for name in names)
        before = self.said[:turn] if self.plan.turns[turn].form == "retry" else []
        there = [s for said_before in before for s in said_before]
        there += [s for s in self.said[turn] if s.operation != made.name]
        if not named and not any(_covers(s, said) for s in there):
            self.said[turn].append(said)
        return ArgumentSource(path, "said", turn)

    def said_in(self, turn: int) -> tuple[SaidValue, ...]:
        """What a turn says; the words of a search that a name in it holds are said with that."""
        names = [str(value) for part in self.said[turn] for _, value in part.label]
        searches = self.plan.lookups.searches
        return tuple(
            part
            for part in self.said[turn]
            if part.operation not in searches
            or not isinstance(part.value, str)
            or not any(part.value in name for name in names)
        )

    def said_of(self, name: str, args: Row, turn: int) -> None:
        """What is said of a call that is not made."""
        kinds = self.plan.machine.operations[name].args
        for path, entity, key in keys_in(args, kinds):
            if (entity, key) in self.plan.rows:
                self.name(name, path, entity, key)
        for path, _, value in _plain(args, kinds):
            self.said[turn].append(SaidValue(name, path, value))

    def request(self, turn: int) -> int:
        """The turn that wants something, at or before another."""
        forms = ("ask", "retry", "answer")
        while turn and self.plan.turns[turn].form not in forms[:2]:
            turn -= 1
        return turn


def _covers(one: SaidValue, other: SaidValue) -> bool:
    """Whether what is said says another value too: a moment its day, a number its like."""
    if isinstance(other.value, str) and isinstance(one.value, str):
        return one.value.startswith(other.value)
    return one.value == other.value and one.path[-1:] == other.path[-1:] and not other.path[1:]


def _plain(args: Row, kinds: dict[str, Kind]) -> Iterator[tuple[Path, Kind, Json]]:
    """The values among arguments that are no keys."""
    for path, kind, value in leaves({"type": "object", "fields": kinds}, args):
        if kind["type"] != "ref":
            yield path, kind, value


def _told(plan: Plan, calls: list[PlayedCall], writer: _Sources) -> Iterator[TaskFact]:
    """What the results of changes say that nobody has said yet: sums, dates, names."""
    said = [str(s.value) for turn in writer.said for s in turn]
    said += [str(value) for row in plan.rows.values() for _, value in row.label]
    for made in calls:
        if made.after is made.before:
            continue
        shape = plan.machine.world["operations"][made.name]["shape"]
        for path, kind, value in leaves(shape, made.response):
            if kind["type"] in ("ref", "choice", "text", "boolean") or len(path) > 1:
                continue
            if str(value) not in said and str(value) not in (plan.now, plan.now[:10]):
                yield TaskFact(made.name, None, str(path[-1]), value, made.turn)
