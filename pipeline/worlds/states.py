"""Start states of a world: rows drawn by seed under their fields' ranges, derivations and rules, or
those of a file, a shop's own tables.

    now, state = StartStates(machine, Path("orders.json")).draw(random.Random(0))

Rows that a world writes out come first, whole or with fields left to chance; the other rows are
drawn. References point at rows that exist, derived fields are computed when everything else is
there, and a row against a rule of its entity is drawn again. A file is JSON: `{"now":
"2026-03-02T10:15", "me": "CUS-1", "tables": {"orders": [{…}, …]}}`, with tables as lists of rows or
by key, of any size. It is held to the world before anything is drawn, all mistakes told at once.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.checks.schema import as_dict
from toolloom.pipeline.checks.text.words import table
from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import (
    LARGEST,
    VISITS,
    CallRefused,
    Frame,
    Json,
    Machine,
    Row,
    State,
    Table,
    Term,
    as_term,
    misfit,
    nodes,
    shifted,
    state_of,
)
from toolloom.pipeline.sampling.values import faker_of
from toolloom.pipeline.store.documents import listed
from toolloom.schemas import JsonObject, WorldError

Rule: TypeAlias = tuple[str, Term]  # as it is written, and whether the row keeps it
AMONG, COMPUTED = "among others", "what is computed"  # no names of fields
TRIES = 500  # draws of a row until it keeps its rules
UNLIKELY = 500  # more draws of a row that is partly written, of which nothing need be likely
STARTS = 8  # draws of a state until no row of it is refused too often
STATES = 12  # draws of moment and state until the rules leave one
ROUNDS = 8  # in which what a state leaves out is computed
ROWS = (4, 8)  # of an entity that says nothing
MOMENT = {"type": "datetime"}
AT_BORDER = 0.15  # share of numbers at the low end of their range: sold out, nothing owed
OFFICE = (8, 19)  # hours of the day at which people write
PLAIN = table("days without holidays")
"""From when to when in a year neither the US nor England has a public holiday, nor in the nine days
after: of 2025 and 2026, observed days included."""
_EVERY = (date(2025, 1, 6) + timedelta(days=number) for number in range(730))
DAYS = [day for day in _EVERY if any(low <= f"{day:%m-%d}" <= high for low, high in PLAIN)]
"""Days of these years that no holiday is near, as a world knows of none."""


class Unsatisfied(WorldError):
    """An entity whose rules no drawn row keeps."""

    def __init__(self, entity: str, refused: Counter[str]) -> None:
        (rule, _), *others = refused.most_common(3)
        also = " and ".join(f"`{other}` {times}" for other, times in others)
        super().__init__(
            f"No row of {entity} keeps `{rule}` in {TRIES} draws{f' ({also} times)' * bool(also)}. "
            "Change the rule, or what the fields are drawn from."
        )


def draw_now(rng: random.Random) -> str:
    """A moment on a weekday or weekend of two years, in the hours when people write."""
    return f"{rng.choice(DAYS)}T{rng.randrange(*OFFICE):02}:{rng.choice(range(0, 60, 5)):02}"


def draw_state(machine: Machine, rng: random.Random, now: str) -> State:
    """A state that keeps every rule. Raises Unsatisfied if none of several draws does."""
    for _ in range(STARTS - 1):
        with suppress(Unsatisfied):
            return _Drawer(machine, rng, now).draw()
    return _Drawer(machine, rng, now).draw()


class _Drawer:
    def __init__(self, machine: Machine, rng: random.Random, now: str) -> None:
        self.machine = machine
        self.rng = rng
        self.now = now
        self.state = state_of({name: {} for name in machine.entities}, None, {})
        self.tables: dict[str, Table] = self.state["tables"]
        self.rules = _rules_of(machine)
        self.frame = machine.frame(self.state, {}, now)
        self.numbers: dict[str, int] = {}
        self.written: dict[str, Row] = {}  # what a world says itself of a row, by its key

    def draw(self) -> State:
        for name in _order(self.machine):
            self._fill(name)
        for name in self.machine.entities:  # once more: sums over rows that came later
            for row in self.tables[name].values():
                self._compute(name, row)
        for name, spec in self.machine.world["entities"].items():
            if spec["rising"]:
                self._number(name, spec["rising"])
        me = self.rng.choice(list(self.tables[self.machine.actor])) if self.machine.actor else None
        counters = {name: last + self.rng.randrange(1, 4) for name, last in self.numbers.items()}
        return {**self.state, "me": me, "next": counters}

    def _fill(self, name: str) -> None:
        spec = self.machine.world["entities"][name]
        written: list[Row] = spec["data"]
        low, high, per = spec["rows"] or (*((len(written),) * 2 if written else ROWS), None)
        starts: list[Row] = [{}]
        if per:
            parents = self.tables[self.machine.entities[name].references[per]]
            starts = [{per: key} for key in parents]
        rows = [start for start in starts for _ in range(self.rng.randint(low, high))]
        if len(written) > len(rows):  # in their order, as a catalogue has one
            chosen = sorted(self.rng.sample(range(len(written)), len(rows)))
            written = [written[number] for number in chosen]
        number = spec["first"] + self.rng.randrange(1, 40)
        for index, start in enumerate(rows):
            given = written[index] if index < len(written) else {}
            self._add(name, {**start, **given}, number)
            number += self.rng.choice((1, 1, 1, 2, 3))
        self.numbers[name] = number

    def _add(self, name: str, given: Row, number: int) -> None:
        entity = self.machine.entities[name]
        table, refused = self.tables[name], Counter[str]()
        written = any(field not in entity.references for field in given)
        for turn in range(TRIES + UNLIKELY * written):
            rules = self.rules[name, turn < TRIES]
            key = given.get(entity.key) or entity.keyed(number)
            row: Row = {entity.key: key}
            broken = self._draw(name, row, given, rules)
            if broken is None:
                self.written[key] = given
                table.put(key, row)
                broken = self._broken(rules[AMONG], row)
                if broken is None:
                    self._compute(name, row)
                    broken = self._broken(rules[COMPUTED], row)
                if broken is None:
                    return
                table.put(key, None)
            refused[broken] += 1
        raise Unsatisfied(name, refused)

    def _draw(
        self, name: str, row: Row, given: Row, rules: Mapping[str, Sequence[Rule]]
    ) -> str | None:
        """Draw a row's fields until one breaks a rule, which is returned."""
        entity = self.machine.entities[name]
        for field, kind in entity.fields.items():
            if field in given:
                row[field] = self._moment(kind, given[field])
            elif "derived" in kind:
                row[field] = None
            else:
                row[field] = self._value(kind, name, field)
            if field in rules and (broken := self._broken(rules[field], row)):
                return broken
            if field in entity.unique and row[field] is not None:
                others = (other[field] for other in self.tables[name].values())
                if row[field] in others:
                    return "unique"
        return None

    def _compute(self, name: str, row: Row) -> None:
        entity = self.machine.entities[name]
        for field, term in entity.derived.items():
            if field not in self.written[row[entity.key]]:
                row[field] = term(self._about(row))
                self.tables[name].index.pop(field, None)

    def _number(self, name: str, rising: str) -> None:
        """Give the keys of rows that came one after the other, such as orders, in that order."""
        key, old = self.machine.entities[name].key, self.tables[name]
        rows = sorted(old.values(), key=lambda row: str(row[rising]))
        renamed = dict(zip((row[key] for row in rows), old, strict=True))
        new = {renamed[row[key]]: {**row, key: renamed[row[key]]} for row in rows}
        self.tables[name] = Table({place: new[place] for place in old})
        for other, column in self.machine.entities[name].pointed_at:
            for row in self.tables[other].values():
                row[column] = renamed.get(row[column], row[column])
            self.tables[other].index = {}

    def _broken(self, rules: Sequence[Rule], row: Row) -> str | None:
        """The first of these rules that a row does not keep."""
        frame = self._about(row)
        return next((text for text, clause in rules if not clause(frame)), None)

    def _about(self, row: Row) -> Frame:
        """The frame of the state, about a row; one serves all rows, as the tables stay the same."""
        self.frame.vars = {"this": row}
        self.frame.left = VISITS
        return self.frame

    def _moment(self, kind: Kind, value: Any) -> Any:
        """A written value; `+3` and `-2T09:30` are days from today."""
        if kind["type"] not in ("date", "datetime") or not isinstance(value, str):
            return value
        match = re.fullmatch(r"([+-]\d+)(?:T(\d\d:\d\d))?", value)
        if not match:
            return value
        day = shifted(self.now[:10], int(match[1]), "days")
        return f"{day}T{match[2] or '09:00'}" if kind["type"] == "datetime" else day

    def _value(self, kind: Kind, entity: str, field: str) -> Any:
        if kind.get("optional") and self.rng.random() < 0.4:
            return None
        form = kind["type"]
        if form == "ref":
            keys = list(self.tables[kind["entity"]])
            if not keys and not kind.get("optional"):
                raise WorldError(
                    f"{entity}.{field} refers to {kind['entity']}, of which no row is there: "
                    "references go round in a circle, or none is drawn. Make one optional."
                )
            return self.rng.choice(keys) if keys else None
        if form == "choice":
            return self.rng.choice(kind["choices"])
        if form == "boolean":
            return self.rng.random() < 0.5
        if form == "list":
            return [self._value(kind["of"], entity, field) for _ in range(self.rng.randint(1, 3))]
        if kind.get("role") == "person":
            names = faker_of("en_US")
            names.seed_instance(self.rng.randrange(2**32))
            return f"{names.first_name()} {names.last_name()}"
        if kind.get("role") == "code":
            return re.sub("9", lambda _: self.rng.choice("123456789"), str(kind["pattern"]))
        if form == "text":
            if examples := kind.get("examples"):
                return self.rng.choice(examples)
            return f"{field} {self.rng.randint(1, 99)}"
        return _within(kind, self.rng, self.now)


@lru_cache(maxsize=64)
def _rules_of(machine: Machine) -> dict[tuple[str, bool], dict[str, list[Rule]]]:
    """The rules of each entity, with what is likely of rows that are drawn, and without, of rows
    that are written; by when they can be told: once a field is drawn, the last that they need; once
    the row is AMONG the others; once what is COMPUTED is there."""
    found: dict[tuple[str, bool], dict[str, list[Rule]]] = {
        (name, drawn): defaultdict(list) for name in machine.entities for drawn in (True, False)
    }
    for (name, drawn), rules in found.items():
        spec, entity = machine.world["entities"][name], machine.entities[name]
        for text, tree in (*spec["rules"], *(spec["likely"] if drawn else ())):
            every = list(nodes(tree))
            fields = {node[2] for node in every if node[0] == "field"}
            last = [f for f in entity.fields if ["field", ["var", "this"], f] in every][-1:]
            alone = last and all(node[0] != "table" for node in every)
            when = COMPUTED if fields & set(entity.derived) else last[0] if alone else AMONG
            rules[when].append((text, as_term(tree)))
    return found


def _within(kind: Kind, rng: random.Random, now: str) -> Any:
    """A number or moment of the range that its field says."""
    draw, form = kind.get("draw") or {}, kind["type"]
    if form in ("integer", "number"):
        low, high, step = draw.get("low", 0), draw.get("high", 10), draw.get("by", 1)
        steps = 0 if rng.random() < AT_BORDER else rng.randint(0, int((high - low) / step + 1e-9))
        number = round(low + step * steps, 2)
        return int(number) if float(number).is_integer() else number
    if form == "time":
        ends = draw.get("low", "09:00"), draw.get("high", "17:00")
        low, high = (int(clock[:2]) * 60 + int(clock[3:]) for clock in ends)
        step = int(draw.get("by", 30))
        minutes = low + step * rng.randint(0, (high - low) // step)
        return f"{minutes // 60:02}:{minutes % 60:02}"
    day = shifted(now[:10], rng.randint(draw.get("low", -30), draw.get("high", 30)), "days")
    if form == "date":
        return day
    step = int(draw.get("by", 15))
    minutes = OFFICE[0] * 60 + step * rng.randrange((OFFICE[1] - OFFICE[0]) * 60 // step)
    moment = f"{day}T{minutes // 60:02}:{minutes % 60:02}"
    past = draw.get("high", 1) <= 0
    return min(moment, now) if past else moment


def _order(machine: Machine) -> list[str]:
    """Entities so that what a row refers to is there before it."""
    done: list[str] = []

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name not in done and name not in path:
            for target in machine.entities[name].references.values():
                visit(target, (*path, name))
            done.append(name)

    for name in machine.entities:
        visit(name, ())
    return done


# --- those of a file ---------------------------------------------------------------------------


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

    def speakers(self, state: State) -> Iterator[State]:
        """A drawn state as whoever was drawn to speak in it sees it, then as the others do."""
        yield state
        if self.machine.actor and (self.given is None or self.given[1]["me"] is None):
            for me in state["tables"][self.machine.actor]:
                if me != state["me"]:
                    yield {**state, "me": me}


def read_state(machine: Machine, path: Path) -> tuple[str, State]:
    """Moment and state of a file.

    Raises WorldError with all that does not fit the world's entities.
    """
    try:
        raw = read_json(path.read_text("utf-8-sig"))
    except OSError as error:
        raise WorldError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:
        raise WorldError(f"{path}: is not JSON ({error}).") from error
    if not isinstance(raw, dict):
        raise WorldError(f"{path}: a JSON object is needed, with `tables`.")
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
    if lines := listed(path, faults or list(_unsound(machine, state, str(now)))):
        raise WorldError("\n".join(lines))
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


def read_json(text: str) -> Any:
    """JSON in which no object says a key twice. Raises ValueError."""

    def pairs(found: list[tuple[str, Any]]) -> JsonObject:
        made = dict(found)
        if len(made) < len(found):
            twice = next(name for name in made if [key for key, _ in found].count(name) > 1)
            raise ValueError(f"{twice!r} stands twice")
        return made

    return json.loads(text, object_pairs_hook=pairs)
