"""Start states and tasks that come from outside: a shop's own tables, and what people ask of it.

    now, state = StartStates(machine, Path("orders.json")).draw(random.Random(0))

A state is JSON: `{"now": "2026-03-02T10:15", "me": "CUS-1", "tables": {"orders": [{…}, …]}}`, with
tables as lists of rows or by key, of any size. A task is a line of a JSON Lines file: what its user
wants, and the calls that solve it or the changes that these come to. Both are held to the world
before anything is drawn, and all mistakes are told at once.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.world.interpreter import (
    LARGEST,
    CallRefused,
    Json,
    Machine,
    Row,
    State,
    misfit,
    state_of,
)
from toolloom.pipeline.checks.world.outcome import broken_policies
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.store.documents import listed
from toolloom.pipeline.store.files import read_lines
from toolloom.pipeline.worlds.scripts import MadeCall, Play, acts
from toolloom.pipeline.worlds.states import Unsatisfied, draw_now, draw_state
from toolloom.schemas import JsonObject, Scenario, Told, WorldError, WorldPlan
from toolloom.schemas.base import Record, first_error

ROUNDS = 8  # in which what a state leaves out is computed
MOMENT = {"type": "datetime"}
STATES = 12  # draws of a state until the rules leave one


class StartStates:
    """The start states of a world: drawn, or that of a file, in which who speaks may be drawn."""

    def __init__(self, machine: Machine, path: Path | None = None) -> None:
        """Raises WorldError for a file that holds no state of the world."""
        self.machine = machine
        self.given = read_state(machine, path) if path else None

    def draw(self, rng: random.Random, tries: int = STATES) -> tuple[str, State]:
        """A moment and a state. Some moments a world's rules may leave without one, and then
        another is drawn: raises Unsatisfied if none of several has one."""
        now = draw_now(rng)
        if self.given is None:
            try:
                return now, draw_state(self.machine, rng, now)
            except Unsatisfied:
                if tries == 1:
                    raise
                return self.draw(rng, tries - 1)
        now, state = self.given
        if self.machine.actor and state["me"] is None:
            state = {**state, "me": rng.choice(list(state["tables"][self.machine.actor]))}
        return now, state


def read_state(machine: Machine, path: Path) -> tuple[str, State]:
    """Moment and state of a file.

    Raises WorldError with all that does not fit the world's entities.
    """
    raw = _json(path)
    faults: list[str] = []
    if unknown := raw.keys() - {"now", "me", "next", "tables"}:
        faults.append(f"`{min(unknown)}` is not known: `tables`, `now`, `me` and `next` are.")
    now = raw.get("now")
    if wrong := misfit(MOMENT, now):
        faults.append(f"now: {wrong}.")
    tables: dict[str, dict[str, Row]] = {name: {} for name in machine.entities}
    given = as_dict(raw.get("tables"))
    for name, rows in given.items():
        if name not in tables:
            faults.append(f"tables.{name}: the world has {', '.join(tables)}.")
            continue
        if not isinstance(rows, dict | list):
            faults.append(f"tables.{name}: a list of rows is needed here, or rows by key.")
            continue
        for place, row in rows.items() if isinstance(rows, dict) else enumerate(rows):
            faults += _add(machine, tables[name], name, place, row)
    if not given:
        faults.append("tables: an object is needed here, with the rows of each entity.")
    counters = {name: _next(machine, name, tables[name]) for name in tables}
    counts = raw.get("next", {})
    if isinstance(counts, dict) and all(
        name in tables and type(number) is int and 0 < number <= LARGEST
        for name, number in counts.items()
    ):
        counters |= counts
    else:
        faults.append("next: must be the numbers of the next new rows, by entity.")
    state = state_of(tables, raw.get("me"), counters)
    if machine.actor and state["me"] not in (None, *state["tables"][machine.actor]):
        faults.append(f"me: {state['me']} is no row of {machine.actor}, of whom one speaks.")
    if machine.actor and not tables[machine.actor]:
        faults.append(f"tables.{machine.actor}: a row is needed, of the one who speaks.")
    _refuse(path, faults or _unsound(machine, state, str(now)))
    return str(now), state


def _add(
    machine: Machine, table: dict[str, Row], name: str, where: int | str, raw: Json
) -> list[str]:
    """Put a row into its table; what is wrong with it. `where`: its number, or the key it has in a
    table by key."""
    entity, place = machine.entities[name], f"tables.{name}[{where}]"
    if not isinstance(raw, dict) or raw.get(entity.key) is None:
        return [f"{place}: a row is an object with its key, `{entity.key}`."]
    key = raw[entity.key]
    if isinstance(key, bool) or not isinstance(key, int if entity.whole else str):
        kind = "whole number" if entity.whole else "text"
        return [f"{place}.{entity.key}: keys of {name} are each a {kind}."]
    if isinstance(key, int) and not 0 <= key <= LARGEST:
        return [f"{place}.{entity.key}: must be a number from 0."]
    if isinstance(where, str) and str(key) != where:
        return [f"{place}.{entity.key}: is {key}, another key than the row's."]
    if str(key) in table:
        return [f"{place}: {key} stands twice."]
    known = {entity.key, *entity.fields}
    faults = [f"{place}: {name} has no field `{field}`." for field in raw if field not in known]
    table[str(key)] = {entity.key: key, **{field: raw.get(field) for field in entity.fields}}
    return faults


def _next(machine: Machine, name: str, rows: Mapping[Any, Row]) -> int:
    """The number of the next new row: one above all that keys hold."""
    prefix = "" if machine.entities[name].whole else machine.entities[name].prefix
    found = (re.fullmatch(re.escape(prefix) + r"(\d{1,12})", str(key)) for key in rows)
    first = int(machine.world["entities"][name]["first"])
    return max([first, *(int(each[1]) + 1 for each in found if each)])


def _unsound(machine: Machine, state: State, now: str) -> Iterator[str]:
    """Compute what a state leaves out of what is computed; then each row that the world would
    refuse."""
    tables = state["tables"]
    missing = [
        (name, row, field)
        for name, entity in machine.entities.items()
        for row in tables[name].values()
        for field in entity.derived
        if row[field] is None
    ]
    try:
        for _ in range(ROUNDS):  # what is computed may lean on what is computed later
            changed = False
            for name, row, field in missing:
                frame = machine.frame(state, {}, now)
                frame.vars["this"] = row
                value = machine.entities[name].derived[field](frame)
                if value != row[field]:
                    changed, row[field] = True, value
                    tables[name].index.pop(field, None)
            if not changed:
                break
        else:
            yield "tables: what is computed does not come to rest: write these fields out."
        for name, table in tables.items():
            for key, row in table.items():
                if fault := _fault(machine, state, name, row, now):
                    yield f"tables.{name}, {key}: {fault}."
    except CallRefused as refusal:
        yield f"tables: {refusal.text}"


def _fault(machine: Machine, state: State, name: str, row: Row, now: str) -> str | None:
    """Why a world would not have left a row so."""
    entity = machine.entities[name]
    if fault := entity.fault(row, None):
        return fault
    for field, target in entity.references.items():
        if row[field] is not None and row[field] not in state["tables"][target]:
            return f"{field} is {row[field]}, which is no row of {target}"
    for field in entity.unique:
        if row[field] is not None and len(state["tables"][name].by(field)[row[field]]) > 1:
            return f"{field} is that of another row"
    broken = machine.broken(machine.frame(state, {}, now), name, row)
    return broken and f"breaks the rule {broken}"


# --- tasks -------------------------------------------------------------------------------------


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
            task = GivenTask.model_validate(_once(line.decode("utf-8-sig")))
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
    _refuse(path, faults if number else ["it has no tasks, a line of JSON each."])


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
            row.end, response, error = machine.apply(row.end, call.name, call.arguments, row.now)
            if (error or "") != call.error:
                meant = f" instead of {call.error}" if call.error else ""
                told = f"fails with {error}{meant}: {response}" if error else f"succeeds{meant}."
                raise WorldError(f"{call.name}({json.dumps(call.arguments)}) {told}")
            row.messages.append(("call", MadeCall(call.name, call.arguments, response, error)))
        facts = ", ".join(f"{field} = {_text(value)}" for field, value in turn.tells.items())
        row.messages.append(("assistant", facts and f"must tell {facts}"))
        row.facts += (Told(value=v, said=_text(v), field=f) for f, v in turn.tells.items())
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


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(path: Path) -> JsonObject:
    try:
        raw = _once(path.read_text("utf-8-sig"))
    except OSError as error:
        raise WorldError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise WorldError(f"{path}: is not JSON ({error}).") from error
    if not isinstance(raw, dict):
        raise WorldError(f"{path}: a JSON object is needed, with `tables`.")
    return raw


def _once(text: str) -> Any:
    """JSON in which no object says a key twice. Raises ValueError."""

    def pairs(found: list[tuple[str, Any]]) -> JsonObject:
        made = dict(found)
        if len(made) < len(found):
            twice = next(name for name in made if [key for key, _ in found].count(name) > 1)
            raise ValueError(f"{twice!r} stands twice")
        return made

    return json.loads(text, object_pairs_hook=pairs)


def _refuse(path: Path, faults: Iterator[str] | list[str]) -> None:
    """Raise WorldError with the first mistakes, if there are any."""
    if found := list(faults):
        raise WorldError("\n".join(listed(path, found)))
