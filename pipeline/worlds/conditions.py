"""What a script that is made of a dialogue looks for, and what it needs to hold.

Rows whose keys are called, or whose names the user says, are looked for; `find` writes the searches
for them, with what holds of them in the dialogue's own start state as far as words may lean on it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from toolloom.pipeline.checks.text.words import fold
from toolloom.pipeline.checks.world.grammar import DATE, DATETIME, NUMBERS, Kind
from toolloom.pipeline.checks.world.interpreter import Json, Machine, Row, State, state_of
from toolloom.pipeline.checks.world.wording import Voice
from toolloom.pipeline.worlds.lookups import keys_in, leaves
from toolloom.pipeline.worlds.mentions import LONG, Sayable
from toolloom.pipeline.worlds.scripts import MadeCall
from toolloom.schemas import API_SEARCH, Dialogue, JsonObject

RowKey: TypeAlias = tuple[str, str]  # an entity and a key of it

A_NEED = 6  # conditions of one line
_KEY = re.compile(r"\b[A-Z]{2,}-\d+\b")


class Underivable(Exception):
    """Why no script is made of a dialogue."""


def start_of(dialogue: Dialogue) -> tuple[State, str]:
    setting = dialogue.query.setting
    assert setting
    start = setting.start
    return state_of(
        start["tables"], start["me"], start["next"]
    ), f"{dialogue.query.now:%Y-%m-%dT%H:%M}"


def parts_of(dialogue: Dialogue, machine: Machine) -> Iterator[tuple[str, str | MadeCall]]:
    """What is said and called, without searches for tools; calls with what they return."""
    state, now = start_of(dialogue)
    operations = {api.function: api.source.operation for api in dialogue.query.pool}
    for message in dialogue.messages[1:]:
        for call in message.tool_calls:
            if call.function.name == API_SEARCH.function:
                continue
            name = operations.get(call.function.name, "")
            arguments: Any = call.function.arguments
            if name not in machine.operations:
                raise Underivable(f"it calls {call.function.name}, which is not of its world")
            state, response, error = machine.apply(state, name, arguments, now)
            yield "call", MadeCall(name, arguments, response, error)
        if message.role in ("user", "assistant") and message.content:
            yield message.role, message.content


class Conditions:
    """Of one dialogue: the rows that its script looks for, the values that its words may say, and
    what has to hold of them."""

    def __init__(self, dialogue: Dialogue, machine: Machine, british: bool) -> None:
        self.machine = machine
        self.state, self.now = start_of(dialogue)
        self.today = dt.date.fromisoformat(self.now[:10])
        self.voice = Voice(self.now, machine.world["currency"], british)
        self.parts = list(parts_of(dialogue, machine))
        self.frame = machine.frame(self.state, {}, self.now)
        setting = dialogue.query.setting
        rules = [*(setting.told if setting else ())]
        rules += [spec["about"] for spec in machine.world["operations"].values()]
        self.rules = "\n".join(rules)
        self.rows: dict[RowKey, str] = {}  # names of the rows that are looked for
        self.picks: list[str] = []  # their keys, of those that are picked
        self.held: dict[str, dict[str, None]] = {}  # conditions on rows, with {} for the way there
        self.needs: dict[str, None] = {}  # conditions on results, in order
        self.opening: dict[str, None] = {}  # conditions on the state
        self.results: list[Sayable] = []
        self.ours: list[Sayable] = []  # of rows, and of moments that the user names
        self.sizes: dict[str, int] = {}  # of lists that results show
        self.constants: dict[Json, None] = {}  # that calls pass as the user says them
        self.leaned_on: list[Sayable] = []  # values of results that words may lean on

    def look_for(self) -> None:
        """Name the rows whose keys are called, those that the user names, and what links them."""
        actor = self.machine.actor
        me = (actor, self.state["me"])
        for _, part in self.parts:
            if isinstance(part, MadeCall):
                for _, entity, key in keys_in(
                    part.arguments, self.machine.operations[part.name].args
                ):
                    if key in self.state["tables"][entity] and (entity, key) != me:
                        self._name(entity, key)
        said = "\n".join(
            part for form, part in self.parts if form == "user" and isinstance(part, str)
        )
        failed = [
            part.response for _, part in self.parts if isinstance(part, MadeCall) and part.error
        ]
        for entity, table in self.state["tables"].items():
            for key in _KEY.findall(said):
                if key in table:
                    self._name(entity, key)
        for row in (*self._spoken_of(said, True), *self._spoken_of("\n".join(failed), False)):
            self._name(*row)
        for kind, spec in self.machine.entities.items():
            for key, row in self.state["tables"][kind].items():
                refs = [(target, row[f]) for f, target in spec.references.items()]
                both = [ref for ref in refs if ref in self.rows]
                if len(both) > 1 and not any(self._joined(*pair) for pair in combinations(both, 2)):
                    self._name(kind, key)
        for (entity, key), name in self.rows.items():
            self.ours += self._fields(entity, self.state["tables"][entity][key], name, key)
        if self.frame.me and actor:
            own = self._fields(actor, self.frame.me, "me", str(self.state["me"]))
            # Calls change its numbers.
            self.ours += (one for one in own if one.kind["type"] not in NUMBERS)
        for _, part in self.parts:
            if isinstance(part, MadeCall):
                takes = {"type": "object", "fields": self.machine.operations[part.name].args}
                for _, inner, value in leaves(takes, part.arguments):
                    if inner["type"] != "ref":
                        self.literal(value, inner)  # so that the words before it may say it

    def _joined(self, one: RowKey, other: RowKey) -> bool:
        """Whether one of two rows leads to the other, or a row that is named to both."""
        way = self._way
        return bool(way(one, other) or way(other, one)) or any(
            way(link, one) and way(link, other) for link in self.rows
        )

    def _way(self, one: RowKey, other: RowKey, steps: int = 2) -> str:
        """The references that lead from a row to another, as a path; "" if none do."""
        row = self.row(one)
        for f, target in self.machine.entities[one[0]].references.items():
            if row[f] is None or one == other:
                continue
            if (target, row[f]) == other:
                return str(f.removesuffix("_id"))
            further = self._way((target, str(row[f])), other, steps - 1) if steps > 1 else ""
            if further and target != self.machine.actor:
                return f"{f.removesuffix('_id')}.{further}"
        return ""

    def _name(self, entity: str, key: str) -> None:
        if (entity, key) not in self.rows:
            noun = self.machine.entities[entity].key.removesuffix("_id")
            number = sum(each == entity for each, _ in self.rows) + 1
            self.rows[entity, key] = f"{noun}_{number}"

    def _spoken_of(self, text: str, alone: bool) -> Iterator[RowKey]:
        """Rows that a text names whole, longer names first; `alone`: if no other has the name."""
        named = [
            (str(row[f]), name, key)
            for name, entity in self.machine.entities.items()
            if name != self.machine.actor
            for f, kind in entity.fields.items()
            if kind.get("label") and kind["type"] == "text"
            for key, row in self.state["tables"][name].items()
            if self.machine.owned(self.frame, name, row)
        ]
        for label, name, key in sorted(named, key=lambda each: -len(each[0])):
            # A plural names it too: «one of my glass teapots».
            there = re.search(rf"(?<!\w){re.escape(label)}(?=s?(?!\w))", text, re.IGNORECASE)
            if there and not (alone and sum(each[0] == label for each in named) > 1):
                text = re.sub(re.escape(label), " ", text, flags=re.IGNORECASE)
                yield name, key

    def _fields(self, entity: str, row: Row, name: str, key: str) -> Iterator[Sayable]:
        """What a row holds, and how rows that it refers to are called."""
        spec = self.machine.entities[entity]
        yield Sayable(f"{name}.{spec.key}", {"type": "ref", "entity": entity}, key, name, key)
        for f, kind in spec.fields.items():
            if kind.get("secret"):
                continue
            if kind["type"] != "ref":
                yield Sayable(f"{name}.{f}", kind, row[f], name, key)
            elif row[f] is not None and (kind["entity"], row[f]) not in self.rows:
                other = self.state["tables"][kind["entity"]][row[f]]
                for g, inner in self.machine.entities[kind["entity"]].fields.items():
                    told = inner["type"] in ("text", "boolean") and not inner.get("secret")
                    if told and kind["entity"] != self.machine.actor:
                        term = f"{name}.{f.removesuffix('_id')}.{g}"
                        yield Sayable(term, inner, other[g], name, row[f])

    def find(self) -> list[JsonObject]:
        """Searches for the rows, one after the other, and what holds of the state."""
        parents: dict[str, tuple[str, str]] = {}  # the row that refers to a row, and by which field
        for one, name in self.rows.items():
            for other, referrer in self.rows.items():
                if name not in parents and (way := self._way(other, one)):
                    parents[name] = referrer, way
        entries: list[JsonObject] = []
        known: list[str] = []
        for (entity, key), name in self.rows.items():
            if name in parents:
                continue
            within = self._within(name, "", parents)
            clauses = dict.fromkeys(
                clause
                for row, path in within.items()
                for clause in self._conditions(row, path, [*known, *within])
            )
            where = f" where {' and '.join(clauses)}" if clauses else ""
            entries.append({name: f"{entity}{where}"})
            self.picks.append(key)
            entries += [
                {row: f"{parents[row][0]}.{parents[row][1]}"} for row in within if row != name
            ]
            known += within
        return entries + [{"need": chunk} for chunk in chunks(list(self.opening))]

    def _within(self, name: str, path: str, parents: dict[str, tuple[str, str]]) -> dict[str, str]:
        """A row and those that it leads to, by the way from it."""
        found = {name: path}
        for row, (referrer, f) in parents.items():
            if referrer == name:
                found |= self._within(row, f"{path}{f}.", parents)
        return found

    def row(self, row: RowKey) -> Row:
        found: Row = self.state["tables"][row[0]][row[1]]
        return found

    def _conditions(self, name: str, path: str, known: Sequence[str]) -> Iterator[str]:
        """What holds of a row wherever the script is played; `known`: the rows it may refer to."""
        (entity, key) = next(row for row, other in self.rows.items() if other == name)
        spec, row = self.machine.entities[entity], self.row((entity, key))
        owner = spec.owner or []
        if len(owner) > 1 and self.machine.owned(self.frame, entity, row):
            way = ".".join([*(f.removesuffix("_id") for f, _ in owner[:-1]), owner[-1][0]])
            yield f"{path}{way} = me"
        for f, kind in spec.fields.items():
            value, term = row[f], f"{path}{f}"
            if kind["type"] == "ref":
                other = self.rows.get((kind["entity"], value), "")
                if value is None:
                    yield f"{term} = nothing"
                elif (kind["entity"], value) == (self.machine.actor, self.state["me"]):
                    yield f"{term} = me"
                elif other in known and known.index(other) < known.index(name):
                    yield f"{term} = {other}"
            elif kind["type"] not in ("boolean", *NUMBERS):  # those are held where they are shown
                yield from self.class_of(Sayable(term, kind, value))
        for clause in self.held.get(name, ()):
            yield clause.replace("{}", path)
        for (other_entity, _), other in self.rows.items():
            if other_entity == entity and other in known and known.index(other) < known.index(name):
                yield f"{path}{spec.key} != {other}"

    def class_of(self, one: Sayable, told: bool = True) -> Iterator[str]:
        """What words lean on without saying it: a choice, a truth, whether a number is none, and
        of one that is told whether it is one; whether a moment is past, or there is a value."""
        kind, value, term = one.kind, one.value, one.term
        form = kind["type"]
        if value is None:
            yield f"{term} = nothing"
        elif form in ("choice", "boolean"):
            yield f"{term} = {_constant(value)}"
        elif form in NUMBERS:
            single = told and form == "integer"
            few = value == 0 or (single and value == 1)
            yield f"{term} = {value}" if few else f"{term} > {1 if single else 0}"
        elif form in ("date", "datetime"):
            now = self.now[:10] if form == "date" else self.now
            sign = "=" if value == now else "<" if value < now else ">"
            yield f"{term} {sign} {'today' if form == 'date' else 'now'}"
        elif kind.get("optional"):
            yield f"{term} != nothing"

    def literal(self, value: Json, kind: Kind) -> str:
        """What the user says, as the field of a row that holds it, else as it is; days are counted
        from today."""
        form = kind["type"]
        said_of = any(one.kind["type"] == "choice" and one.value == value for one in self.ours)
        if form == "text" and not said_of:
            for one in self.ours:
                if one.kind["type"] == "text" and isinstance(one.value, str):
                    if one.value == value:
                        return one.term
                    if len(one.value) <= LONG and fold(value) in fold(one.value):
                        self.hold(one)
        if form in ("date", "datetime"):
            for one in self.ours:
                if one.kind["type"] == form and one.value == value:
                    return one.term
                if one.kind["type"] == "datetime" and str(one.value)[:10] == value:
                    return f"date({one.term})"
            day = _from_today(value, self.today)
            weekend = "in" if dt.date.fromisoformat(value[:10]).weekday() > 4 else "not in"
            free = "" if weekend == "in" else "not "
            self.opening[f"{free}weekday({day}) in ['Saturday', 'Sunday']"] = None
            term = day if form == "date" else f"at({day}, '{value[11:]}')"
            if not any(one.term == term for one in self.ours):
                self.ours.append(
                    Sayable(term, DATE if form == "date" else DATETIME, value, term, term)
                )
            if form == "datetime":
                self.constants[value[11:]] = None
            return term
        self.constants[value] = None
        return _constant(value)

    def hold(self, one: Sayable, how: str = "") -> None:
        """Keep a value as it is in every state: `how` it is said, a day as so many from today."""
        form, value, term = one.kind["type"], one.value, one.term
        if value is None or form in ("list", "object"):
            return
        name = next((n for n in self.rows.values() if term.startswith(f"{n}.")), "")
        inner = f"{{}}{term.removeprefix(f'{name}.')}" if name else term
        if form in ("date", "datetime"):
            gap = (dt.date.fromisoformat(value[:10]) - self.today).days
            clauses = [f"days(today, {inner}) = {gap}"] if how != "time" else []
            clauses += (
                [f"time({inner}) = '{value[11:]}'"] if form == "datetime" and how != "day" else []
            )
        else:
            clauses = [f"{inner} = {_constant(value)}"]
        for clause in clauses:
            if name:
                self.held.setdefault(name, {})[clause] = None
            else:
                self.needs[clause] = None


def chunks(needs: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(needs), A_NEED):
        yield " and ".join(needs[start : start + A_NEED])


def _constant(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value)


def _from_today(value: str, today: dt.date) -> str:
    gap = (dt.date.fromisoformat(value[:10]) - today).days
    return f"today {'-' if gap < 0 else '+'} {abs(gap)} days" if gap else "today"
