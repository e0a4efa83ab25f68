"""Solved tasks as rows whose words are still what is to be said: drawn ones, a recipe's own, and
those of a need.

A recipe's own tasks are a JSON Lines file: a line says what its user wants, and the calls that
solve it or the changes that these come to. All are held to the world before anything is drawn, and
all mistakes are told at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from toolloom.pipeline.checks.schema import parts_of
from toolloom.pipeline.checks.world.interpreter import Json, Machine, State, misfit, state_of
from toolloom.pipeline.checks.world.outcome import broken_policies
from toolloom.pipeline.environments.environment import moment_of
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.documents import listed
from toolloom.pipeline.store.files import read_lines
from toolloom.pipeline.worlds.scripts import MadeCall, Play, acts
from toolloom.pipeline.worlds.states import MOMENT, StartStates, read_json
from toolloom.pipeline.worlds.tasks import Task, UserTurn
from toolloom.schemas import (
    JsonObject,
    Need,
    Scenario,
    Told,
    Turn,
    WorldError,
    WorldPlan,
    canonical,
)
from toolloom.schemas.base import Record, first_error

LONGEST = 1_500  # characters of a result that are shown to who words a dialogue
FORMS = {
    "ask": "wants",
    "agree": "agrees",
    "decline": "would rather not",
    "answer": "answers what the assistant had to ask",
    "retry": "tries another way",
}


def play_of(task: Task) -> Play:
    """A task as a row whose words are still what is to be said."""
    row = Play("", task.now, task.start, task.calls[-1].after if task.calls else task.start)
    for number, turn in enumerate(task.turns):
        row.messages.append(("user", _wanted(turn)))
        row.messages += [("call", call) for call in task.calls if call.turn == number]
        facts = [_told(fact.field, fact.value) for fact in task.facts if fact.turn == number]
        more = [_must_tell(facts)] if facts else []
        following = task.turns[number + 1].form if number + 1 < len(task.turns) else ""
        if following in ("agree", "decline"):
            more.append("says what it will do and what comes of it, and asks for a yes")
        elif following == "answer":
            more.append("asks for what is missing")
        elif not following and task.avoided:
            why = task.avoided.why
            more.append(
                f"cannot do it: there is no tool {task.avoided.name}"
                if why == "missing"
                else f"does not call {task.avoided.name}: {why}"
            )
        row.messages.append(("assistant", "; ".join(more)))
    row.facts = [_told(fact.field, fact.value) for fact in task.facts]
    return row


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


def _told(field: str, value: Json) -> Told:
    return Told(value=value, said=_text(value), field=field)


def _must_tell(facts: Sequence[Told]) -> str:
    parts = ", ".join(f"{fact.field} = {fact.said}" for fact in facts)
    return parts and f"must tell {parts}"


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
            row.call(machine, name, each.arguments)
        row.messages.append(("assistant", turn.assistant))
    return row


def as_lines(row: Play) -> list[str]:
    """A row as the one who words it sees it."""
    lines, turn = list[str](), 0
    for number, (role, part) in enumerate(row.messages):
        if isinstance(part, MadeCall):
            lines.append(f"→ {part.name}({json.dumps(part.arguments, ensure_ascii=False)})")
            later = [p.arguments for _, p in row.messages[number:] if isinstance(p, MadeCall)]
            came = f"{part.error}: {part.response}" if part.error else _result(part.response, later)
            lines.append(f"← {came}")
        elif isinstance(part, str):
            turn += role == "user"
            lines.append(f"{role.capitalize()} {turn}: {part}".rstrip())
    return lines


def _result(response: Json, later: Sequence[Json]) -> str:
    """A result; of a long list the rows that later calls name, and as many others as there is room
    for."""
    if not isinstance(response, list) or len(canonical(response)) <= LONGEST:
        return canonical(response)
    named = {part for part in parts_of(later) if isinstance(part, str)}
    rows, room = list[int](), LONGEST
    for number in sorted(
        range(len(response)), key=lambda number: named.isdisjoint(_texts(response[number]))
    ):
        room -= len(canonical(response[number]))
        if room < 0 and rows:
            break
        rows.append(number)
    shown = [response[number] for number in sorted(rows)]
    return f"{canonical(shown)} and {len(response) - len(rows)} more"


def _texts(row: Json) -> set[str]:
    return {part for part in parts_of(row) if isinstance(part, str)}


# --- a recipe's own ----------------------------------------------------------------------------


class GivenCall(Record):
    """A call of a solution."""

    name: str
    arguments: JsonObject = Field(default_factory=dict)
    error: str = Field(default="", description="The code with which it is meant to fail.")


class GivenTurn(Record):
    """What the user wants or says in a turn, what is called for it, what they must be told."""

    user: str = Field(min_length=1)
    calls: tuple[GivenCall, ...] = ()
    tells: JsonObject = Field(default_factory=dict, description="Values by field.")


class GivenTask(Record):
    """A line of a file of tasks: one turn, or several in `turns`."""

    world: str = Field(default="", description="Its name; where a recipe has one world, none.")
    scenario: Scenario | None = None
    seed: int = Field(default=0, description="Of its state, where no file says one.")
    now: str = Field(default="", description="Its moment, where it is not the state's.")
    me: str | int | None = Field(default=None, description="Key of who speaks.")
    turns: tuple[GivenTurn, ...] = Field(min_length=1)
    changes: tuple[tuple[Any, ...], ...] | None = Field(
        default=None, description="The goal, where no calls are given."
    )

    @model_validator(mode="before")
    @classmethod
    def _may_be_one_turn(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "turns" in data:
            return data
        turn = {name: data[name] for name in GivenTurn.model_fields if name in data}
        rest = {name: value for name, value in data.items() if name not in turn}
        return {**rest, "turns": [turn]}

    @model_validator(mode="after")
    def _has_a_goal(self) -> Self:
        if self.changes is not None and any(turn.calls for turn in self.turns):
            raise ValueError("`calls` or `changes`, not both: calls say what changes")
        if self.now and (wrong := misfit(MOMENT, self.now)):
            raise ValueError(f"now: {wrong}")
        return self

    @property
    def kind(self) -> Scenario:
        """Its scenario: where it says none, what its turns and calls come to."""
        calls = sum(len(turn.calls) for turn in self.turns)
        if self.scenario or len(self.turns) > 1:
            return self.scenario or Scenario.MULTI_TURN
        if calls > 1:
            return Scenario.SEQUENTIAL
        return Scenario.SINGLE if calls or self.changes else Scenario.IRRELEVANCE


def given_tasks(
    plan: WorldPlan, machines: Mapping[str, Machine]
) -> Iterator[tuple[str, GivenTask, Play]]:
    """World, task and solution of each line of a recipe's file of tasks.

    Raises WorldError with all lines that are no tasks, or whose calls do not do what they should.
    """
    path, faults = Path(plan.tasks).expanduser(), list[str]()
    starts = {name: StartStates(machine, plan.state_of(name)) for name, machine in machines.items()}
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        try:
            task = GivenTask.model_validate(read_json(line.decode("utf-8-sig")))
            name = task.world or next(iter(machines))
            if name not in machines or (not task.world and len(machines) > 1):
                raise WorldError(f"world: must be one of {', '.join(machines)}.")
            if task.changes is not None and plan.solution != "played":
                raise WorldError("changes: without calls a task needs `solution: played`.")
            now, start = starts[name].draw(rng_for(task.seed, "state"))
            row = solved(machines[name], task, start, now)
        except ValidationError as error:
            faults.append(f"line {number}: {first_error(error, 'the task')}")
        except WorldError as error:
            faults.append(f"line {number}: {error}")
        except (ValueError, RecursionError) as error:
            faults.append(f"line {number}: is not JSON ({error}).")
        else:
            yield name, task, row
    if lines := listed(path, faults if number else ["it has no tasks, a line of JSON each."]):
        raise WorldError("\n".join(lines))


def solved(machine: Machine, task: GivenTask, start: State, now: str) -> Play:
    """A task with its calls made in a state, as a row whose words are still what is to be said.

    Raises WorldError for a call that does not come to what it should, and for a broken policy.
    """
    if task.me is not None:
        if machine.actor is None or task.me not in start["tables"][machine.actor]:
            raise WorldError(f"me: {task.me!r} is nobody who speaks in this world.")
        start = {**start, "me": task.me}
    for change in task.changes or ():
        if not _is_change(machine, start, change):
            raise WorldError(f"changes: {json.dumps(change)} is no change of a row that is there.")
    row = Play("", task.now or now, start, start)
    for turn in task.turns:
        row.messages.append(("user", turn.user))
        for call in turn.calls:
            made = row.call(machine, call.name, call.arguments)
            if (made.error or "") != call.error:
                meant = f" instead of {call.error}" if call.error else ""
                came = f"fails with {made.error}{meant}: {made.response}"
                came = came if made.error else f"succeeds{meant}."
                raise WorldError(f"{call.name}({json.dumps(call.arguments)}) {came}")
        facts = [_told(field, value) for field, value in turn.tells.items()]
        row.messages.append(("assistant", _must_tell(facts)))
        row.facts += facts
    for broken in broken_policies(machine, start, row.now, acts(row)):
        raise WorldError(f"call {broken.call + 1} breaks a policy: {broken.says}")
    return row


def _is_change(machine: Machine, start: State, change: tuple[Any, ...]) -> bool:
    """Whether it has one of the forms of `difference`, about what there is."""
    match change:
        case (str(name), "new", dict(row)) if name in machine.entities:
            return row.keys() <= machine.entities[name].fields.keys()
        case (str(name), str() | int() as key, "deleted") if name in machine.entities:
            return key in start["tables"][name]
        case (str(name), str() | int() as key, str(field), _) if name in machine.entities:
            return key in start["tables"][name] and field in machine.entities[name].fields
    return False
