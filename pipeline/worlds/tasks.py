"""Tasks of a world: what somebody wants in a state, with the calls that solve it and what comes of
them. Nothing is worded here; a task says which values and rows each user turn names.

    *_, task = tasks(machine, seed, 3)
    print(as_text(play_of(task)))

The goal is computed: an operation is drawn with arguments that succeed in a drawn state, lookups
and what the policies want before it follow (`plans.py`), what is not needed goes (`solutions.py`),
and the difference of the states is the goal.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine, State, state_of
from toolloom.pipeline.checks.world.outcome import difference
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.lookups import Path, leaves, lookups_of
from toolloom.pipeline.worlds.plans import Plan, UserTurn
from toolloom.pipeline.worlds.scenarios import SCENARIOS, TaskSize
from toolloom.pipeline.worlds.scripts import MadeCall, Play
from toolloom.pipeline.worlds.solutions import Goal, Label, PlayedCall, TaskFact, pruned
from toolloom.pipeline.worlds.states import Unsatisfied, draw_now, draw_state
from toolloom.schemas import Need, Told, Turn, canonical

PER_STATE = 4  # tasks that are drawn from one start state
STATES = 12  # draws of a state until the rules leave one
TRIES = 5  # of a task in one state
LONGEST = 1_500  # characters of a result that are shown to who words a dialogue
KEPT = 15  # tries of a scenario, for what comes seldom
SCENARIOS_TRIED = 5
WISHES = ("single", "multi_turn", "clarification", "irrelevance")  # begin with any change
FORMS = {
    "ask": "wants",
    "choose": "chooses",
    "agree": "agrees",
    "decline": "would rather not",
    "answer": "answers what the assistant had to ask",
    "retry": "tries another way",
}


@dataclass(frozen=True)
class SaidValue:
    """What a user turn says: the value of an argument, or how a row is called whose key it is."""

    path: Path
    value: Json
    label: Label = ()


@dataclass(frozen=True)
class Task:
    """A start state, the user turns with what each says, the calls of a solution, and the goal."""

    world: str
    scenario: str
    now: str
    start: State
    turns: tuple[UserTurn, ...]
    said: tuple[tuple[SaidValue, ...], ...]  # in each turn
    calls: tuple[PlayedCall, ...]
    goal: Goal

    @property
    def missing(self) -> str:
        """The operation that the assistant has not."""
        avoided = self.goal.avoided
        return avoided.name if avoided and avoided.why == "missing" else ""


def tasks(
    machine: Machine,
    seed: Any,
    count: int,
    size: TaskSize | None = None,
    among: Collection[str] = tuple(SCENARIOS),
    fits: Callable[[Task], bool] = lambda task: True,
) -> Iterator[Task | None]:
    """Tasks by number; None where the world has none of the wanted kind. Raises Unsatisfied.

    Several share a start state, and no two of these are about the same. Each change has its turn to
    be the one that is wanted first, so that none is left out because few states allow it.
    """
    changes, size = lookups_of(machine).writes, size or TaskSize()
    for number in range(count):
        rng, found = rng_for(seed, "task", number), None
        if number % PER_STATE == 0:
            shared, told = _start(machine, rng_for(seed, "task state", number)), set[str]()
        goal = changes[number // 2 % len(changes)] if changes and number % 2 == 0 else ""
        start, now = shared
        for attempt in range(KEPT * SCENARIOS_TRIED):
            if attempt and attempt % TRIES == 0:
                start, now = _start(machine, rng)
            if attempt % KEPT == 0:
                chosen = draw_scenario(rng, size, among)
            goal = goal if chosen in WISHES and attempt < KEPT else ""
            found = draw_task(machine, start, now, rng, chosen, goal, size)
            if found and repr(found.said) not in told and fits(found):
                told.add(repr(found.said))
                break
            found = None
        yield found


def draw_scenario(rng: random.Random, size: TaskSize, among: Collection[str]) -> str:
    """A scenario, as often as SCENARIOS says; several wants if one is hardly ever enough."""
    if "multi_turn" in among and (size.calls[0] > 4 or size.turns[0] > 2):
        return "multi_turn"
    weights = {name: often for name, (often, _) in SCENARIOS.items() if name in among}
    return rng.choices(list(weights), list(weights.values()))[0]


def _start(machine: Machine, rng: random.Random) -> tuple[State, str]:
    """A state and its moment. Some moments a world's rules may leave without a state."""
    for number in range(STATES):
        now = draw_now(rng)
        try:
            return draw_state(machine, rng, now), now
        except Unsatisfied:
            if number == STATES - 1:
                raise
    raise AssertionError("not reached")


# --- from a plan to a task -------------------------------------------------------------------


def draw_task(
    machine: Machine,
    start: State,
    now: str,
    rng: random.Random,
    scenario: str,
    wanted: str,
    size: TaskSize,
) -> Task | None:
    """A task of a scenario, about a change if one is wanted; None if that came to nothing."""
    lookups = lookups_of(machine)
    plan = Plan(lookups, start, now, rng)
    if not SCENARIOS[scenario][1](plan, wanted, size):
        return None
    goal = Goal(
        difference(machine, start, plan.state),
        tuple(plan.facts),
        plan.rows,
        [(made.name, made.error) for made in plan.calls if made.error],
        plan.grounds,
        plan.avoided,
    )
    calls = pruned(lookups, start, now, plan.calls, goal)
    if calls is None or not size.fits(len(calls), len(plan.turns)):
        return None
    if sum(c.acts for c in calls) < sum(c.acts for c in plan.calls):
        return None  # one of several wants came to nothing
    wants = [number for number, turn in enumerate(plan.turns) if turn.form == "ask"]
    spans = zip(wants, [*wants[1:], len(plan.turns)], strict=True)
    called = all(any(first <= c.turn < after for c in calls) for first, after in spans)
    if not called and not (plan.avoided and len(plan.turns) == 1):
        return None  # earlier results answer all that a turn asks for
    for row in plan.rows.values():
        if plan.turns[row.turn].form == "choose":
            shown = {(s.entity, s.key) for c in calls if c.turn < row.turn for s in c.shown}
            if (row.entity, row.key) not in shown:
                return None
    if scenario == "single" and len(calls) > 1:
        scenario = "sequential"
    said = _said(plan, calls)
    told = tuple(_told(plan, calls, said))
    goal = Goal(goal.changes, goal.facts + told, goal.rows, goal.errors, goal.grounds, goal.avoided)
    turns = tuple(plan.turns)
    name = machine.world["name"]
    return Task(name, scenario, now, start, turns, tuple(map(tuple, said)), tuple(calls), goal)


def _said(plan: Plan, calls: list[PlayedCall]) -> list[list[SaidValue]]:
    """What each turn has to say, so that each argument is known when it is needed."""
    said: list[list[SaidValue]] = [[] for _ in plan.turns]
    goals = {n for turn in plan.turns for n in turn.operations if n in plan.lookups.writes}
    acts = [(call.name, call.arguments, call.turn, number) for number, call in enumerate(calls)]
    if plan.avoided:
        acts.append((plan.avoided.name, plan.avoided.arguments, 0, len(calls)))
    acts.sort(key=lambda act: act[0] not in goals)  # what is wanted says best what a row is for
    named = set[tuple[str, str]]()

    def name_row(name: str, path: Path, place: tuple[str, str], turn: int) -> None:
        """Say how a row is called where it is said first; and again in a later want, where more
        than one was spoken of."""
        row = plan.rows[place]
        if place not in named:
            named.add(place)
            said[row.turn].append(SaidValue(path, None, row.label))
        others = [p for p, other in plan.rows.items() if p[0] == place[0] and other.turn <= turn]
        unclear = row.turn < turn and len(others) > 1 and name in plan.turns[turn].operations
        if unclear and all(part.label != row.label for part in said[turn]):
            said[turn].append(SaidValue(path, None, row.label))

    for fact in plan.facts:
        if fact.row:
            name_row(fact.operation, (), fact.row, fact.turn)
    for name, args, turn, number in acts:
        while turn and plan.turns[turn].form not in ("ask", "retry"):
            turn -= 1  # to the turn that wants something
        kinds = plan.lookups.kinds(name)
        for path, kind, value in leaves({"type": "object", "fields": kinds}, args):
            if kind["type"] == "ref":
                if (kind["entity"], value) in plan.rows:
                    name_row(name, path, (kind["entity"], value), turn)
                continue
            when = plan.withheld.get((name, path), turn)
            heard = [part for each in said[: when + 1] for part in each]
            texts = [str(v) for part in heard for _, v in (*part.label, ("", part.value))]
            if name not in goals:  # who looks something up reads results too
                texts += [t for call in calls[:number] for s in call.shown for t in s.values]
            stands = any(
                value in text if isinstance(value, str) else str(value) == text for text in texts
            )
            if not stands or (name in goals and plan.turns[when].form != "retry"):
                said[when].append(SaidValue(path, value))
    return said


def _told(plan: Plan, calls: list[PlayedCall], said: list[list[SaidValue]]) -> Iterator[TaskFact]:
    """What the results of changes say that nobody has said yet: sums, dates."""
    known = {str(part.value) for turn in said for part in turn} | {plan.now, plan.now[:10]}
    known |= {str(value) for row in plan.rows.values() for _, value in row.label}
    for made in calls:
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
    avoided = task.goal.avoided
    for number, turn in enumerate(task.turns):
        row.messages.append(("user", _wanted(turn, task.said[number])))
        row.messages += [
            ("call", MadeCall(call.name, call.arguments, call.response, call.error))
            for call in task.calls
            if call.turn == number
        ]
        facts = [f"{f.field} = {_text(f.value)}" for f in task.goal.facts if f.turn == number]
        more = [f"must tell {', '.join(facts)}"] if facts else []
        following = task.turns[number + 1].form if number + 1 < len(task.turns) else ""
        if following in ("agree", "decline"):
            more.append("says what it will do and what comes of it, and asks for a yes")
        elif following in ("choose", "answer"):
            more.append("asks which one, or for what is missing")
        elif not following and avoided:
            more.append(f"does not call {avoided.name}: {avoided.why}")
        row.messages.append(("assistant", "; ".join(more)))
    row.facts = [Told(value=f.value, said=_text(f.value), field=f.field) for f in task.goal.facts]
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


def _wanted(turn: UserTurn, said: tuple[SaidValue, ...]) -> str:
    """What the user of a turn wants and says, in the world's own names."""
    parts = [FORMS[turn.form], *turn.operations]
    parts += [f"asks about {', '.join(turn.asks)}"] if turn.asks else []
    values = []
    for each in said:
        name = ".".join(map(str, each.path)) or "a row"
        label = ", ".join(f"{field} {_text(value)}" for field, value in each.label)
        values.append(
            f"{name} is the one with {label}" if label else f"{name} = {_text(each.value)}"
        )
    return " ".join(parts) + (f": {'; '.join(values)}" if values else "")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
