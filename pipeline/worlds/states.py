"""Start states of a world: rows drawn by seed under their fields' ranges, derivations and rules.

Rows that a world writes out come first, whole or with fields left to chance; the other rows are
drawn. References point at rows that exist, derived fields are computed when everything else is
there, and a row against a rule of its entity is drawn again.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache, lru_cache
from typing import Any, TypeAlias

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import (
    VISITS,
    Frame,
    Machine,
    Row,
    State,
    Table,
    Term,
    as_term,
    nodes,
    shifted,
    state_of,
)
from toolloom.schemas import WorldError

Rule: TypeAlias = tuple[str, Term]  # as it is written, and whether the row keeps it
TRIES = 500  # draws of a row until it keeps its rules
UNLIKELY = 500  # more draws of a row that is partly written, of which nothing need be likely
STARTS = 8  # draws of a state until no row of it is refused too often
ROWS = (4, 8)  # of an entity that says nothing
AT_BORDER = 0.15  # share of numbers at the low end of their range: sold out, nothing owed
OFFICE = (8, 19)  # hours of the day at which people write
PLAIN = (
    ("01-21", "02-05"),
    ("02-18", "03-22"),
    ("05-06", "05-14"),
    ("05-27", "06-08"),
    ("06-20", "06-23"),
    ("07-06", "08-14"),
    ("09-09", "10-02"),
    ("10-14", "10-31"),
    ("11-13", "11-15"),
    ("11-29", "12-12"),
)
"""From when to when in a year neither the US nor England has a public holiday, nor in the nine days
after: of 2025 and 2026, observed days included."""


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
    day = rng.choice(_days())
    return f"{day}T{rng.randrange(*OFFICE):02}:{rng.choice(range(0, 60, 5)):02}"


@cache
def _days() -> list[date]:
    """Days of two years that no public holiday is near, as a world knows of none."""
    every = (date(2025, 1, 6) + timedelta(days=number) for number in range(730))
    return [day for day in every if any(low <= f"{day:%m-%d}" <= high for low, high in PLAIN)]


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
        counters = {
            name: number + self.rng.randrange(1, 4) for name, number in self.numbers.items()
        }
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
                broken = self._broken(rules.searching, row)
                if broken is None:
                    self._compute(name, row)
                    broken = self._broken(rules.computed, row)
                if broken is None:
                    return
                table.put(key, None)
            refused[broken] += 1
        raise Unsatisfied(name, refused)

    def _draw(self, name: str, row: Row, given: Row, rules: _Rules) -> str | None:
        """Draw a row's fields until one breaks a rule, which is returned."""
        entity = self.machine.entities[name]
        for field, kind in entity.fields.items():
            if field in given:
                row[field] = self._moment(kind, given[field])
            elif "derived" in kind:
                row[field] = None
            else:
                row[field] = self._value(kind, name, field)
            if field in rules.by_field and (broken := self._broken(rules.by_field[field], row)):
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
            return person(self.rng)
        if kind.get("role") == "code":
            return "".join(
                self.rng.choice("123456789") if c == "9" else c for c in str(kind["pattern"])
            )
        if form == "text":
            if examples := kind.get("examples"):
                return self.rng.choice(examples)
            return f"{field} {self.rng.randint(1, 99)}"
        return _within(kind, self.rng, self.now)


@dataclass
class _Rules:
    """The rules of an entity by when they can be told: once a field is drawn, the last that they
    need; once the row is among the others; once what is computed is there."""

    by_field: defaultdict[str, list[Rule]] = dataclasses.field(
        default_factory=lambda: defaultdict(list)
    )
    searching: list[Rule] = dataclasses.field(default_factory=list)
    computed: list[Rule] = dataclasses.field(default_factory=list)


@lru_cache(maxsize=64)
def _rules_of(machine: Machine) -> dict[tuple[str, bool], _Rules]:
    """The rules of each entity, with what is likely of rows that are drawn, and without, of rows
    that are written."""
    found = {(name, drawn): _Rules() for name in machine.entities for drawn in (True, False)}
    for (name, drawn), rules in found.items():
        spec, entity = machine.world["entities"][name], machine.entities[name]
        for text, tree in (*spec["rules"], *(spec["likely"] if drawn else ())):
            rule, every = (text, as_term(tree)), list(nodes(tree))
            fields = {node[2] for node in every if node[0] == "field"}
            last = [f for f in entity.fields if ["field", ["var", "this"], f] in every][-1:]
            if fields & set(entity.derived):
                rules.computed.append(rule)
            elif last and all(node[0] != "table" for node in every):
                rules.by_field[last[0]].append(rule)
            else:
                rules.searching.append(rule)
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
        low, high = _minutes(draw.get("low", "09:00")), _minutes(draw.get("high", "17:00"))
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


def _minutes(clock: str) -> int:
    return int(clock[:2]) * 60 + int(clock[3:])


@cache
def _names() -> Any:
    from faker import Faker

    return Faker("en_US")


def person(rng: random.Random) -> str:
    """A first and a last name, as in the US."""
    names = _names()
    names.seed_instance(rng.randrange(2**32))
    return f"{names.first_name()} {names.last_name()}"


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
