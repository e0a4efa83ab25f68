"""A world that can be run: its operations, applied to a state.

One file, the standard library only, so that a trainer can replay a row with this file and two JSON
values (a world and a state) and nothing else of toolloom:

    machine = Machine(world)
    state, response, error = machine.apply(state, "renew", {"loan_id": "LOA-1004"}, now)

A world is JSON: its terms and clauses are trees, lists that begin with the name of a form below
(`FORMS`); nothing in it or in a call is ever evaluated as code. `apply` is pure. It never
raises whatever the arguments are, has no clock and no chance, and ends: loops run over tables,
lists and arguments of bounded size only, and `VISITS` bounds the rows that a call may look at. A
call that fails leaves the very state it was given.

A state is {"me": key or null, "next": {entity: number}, "tables": {entity: {key: row}}}; a row is a
flat object that holds its own key. Moments are text: "2026-03-14", "09:30", "2026-03-14T09:30".
Numbers are exact: fractions go through decimals, and only `round` rounds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial, reduce
from itertools import zip_longest
from typing import Any, cast

Json = Any
Row = dict[str, Any]
Tree = Sequence[Any]
State = dict[str, Any]
Term = Callable[["Frame"], Any]  # a step is one, too

VISITS = 200_000  # rows that one call may look at, nested searches included
TEXT = 4_000  # characters of a text argument
LONGEST = 100_000  # of a text that is made
ITEMS = 100  # of a list argument
LARGEST = 10**12  # of numbers, so that no product of a few grows beyond bounds
DIGITS = 34

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PATTERNS = {
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
    "time": re.compile(r"([01]\d|2[0-3]):[0-5]\d"),
    "datetime": re.compile(r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d"),
}
EXACT = Context(prec=DIGITS, traps=[])
_CENT = Decimal("0.01")

INVALID, BROKEN, TOO_LARGE = "invalid_arguments", "rule_broken", "too_large"
"""Errors that no operation declares: arguments that do not fit, an operation that would leave rows
against the world's own rules (it lacks a `require`), a search that looks at too much."""


class CallRefused(Exception):
    """Why a call changes nothing: a code, and a text for whoever called."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.code, self.text = code, text


class Table(dict[str, Row]):
    """The rows of an entity by key, never changed once a call ended, and so with an index, which
    its copies keep."""

    __slots__ = ("index",)

    def __init__(self, rows: dict[str, Row]) -> None:
        super().__init__(rows)
        known = rows.index if isinstance(rows, Table) else {}
        self.index: dict[str, dict[Any, list[Row]]] = {f: dict(by) for f, by in known.items()}

    def put(self, key: str, row: Row | None) -> None:
        """Set or delete a row. What is known by a field stays known, in the order of the table."""
        old = self.get(key)
        if row is None:
            del self[key]
        else:
            self[key] = row
        for field, rows in self.index.items():
            before = _hashable(old.get(field)) if old else None
            after = _hashable(row.get(field)) if row else None
            if old and row and before == after:
                rows[after] = [row if one is old else one for one in rows[after]]
                continue
            if old:
                rows[before] = [one for one in rows[before] if one is not old]
                if not rows[before]:
                    del rows[before]
            if row and old and after in rows:  # its place is among them
                rows[after] = [one for one in self.values() if _hashable(one.get(field)) == after]
            elif row:
                rows[after] = [*rows.get(after, ()), row]

    def by(self, field: str) -> dict[Any, list[Row]]:
        """The rows by what a field holds."""
        if field not in self.index:
            rows: dict[Any, list[Row]] = {}
            for row in self.values():
                rows.setdefault(_hashable(row.get(field)), []).append(row)
            self.index[field] = rows
        return self.index[field]


class Frame:
    """What one call sees: tables, of which it changes copies, and the values it has named."""

    __slots__ = (
        *("args", "copied", "entities", "left", "me", "next", "now", "old", "tables", "touched"),
        "vars",
    )

    def __init__(self, state: State, args: Row, now: str) -> None:
        self.tables: dict[str, Table] = dict(state["tables"])
        self.next: dict[str, int] = dict(state["next"])
        self.me: Row | None = None
        self.now = now
        self.args = args
        self.vars: dict[str, Any] = {}
        self.copied: set[str] = set()
        self.touched: dict[tuple[str, str], Row | None] = {}  # rows as they were before the call
        self.left = VISITS
        self.entities: dict[str, _Entity] = {}
        self.old: Frame | None = None  # that of the state before a call, for what promises say

    def put(self, entity: str, key: str, row: Row | None) -> None:
        """Set or delete a row; names that stand for it stand for its new values."""
        if entity not in self.copied:
            self.tables[entity] = Table(self.tables[entity])
            self.copied.add(entity)
        table = self.tables[entity]
        old = table.get(key)
        self.touched.setdefault((entity, key), old)
        table.put(key, row)
        if row is None or old is None:
            return
        if self.me is old:
            self.me = row
        for name, value in self.vars.items():
            if value is old:
                self.vars[name] = row

    def visit(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise CallRefused(TOO_LARGE, "The request looks at too many rows. Narrow it down.")


def state_of(
    tables: Mapping[str, dict[str, Row]], me: str | None, counters: dict[str, int]
) -> State:
    """A state that `Machine.apply` takes, of plain JSON tables."""
    return {
        "me": me,
        "next": dict(counters),
        "tables": {
            name: Table({_own(key, row): row for key, row in rows.items()})
            for name, rows in tables.items()
        },
    }


def _own(key: str, row: Row) -> Any:
    """The key of a row as the row holds it: JSON makes texts of those that are numbers."""
    if not key.isdecimal():
        return key
    return next((value for value in row.values() if type(value) is int and str(value) == key), key)


class Machine:
    """A world, ready to run. The world is trusted to have passed `world check`; calls are not."""

    def __init__(self, world: Json) -> None:
        self.world = world
        self.entities = {name: _Entity(name, spec) for name, spec in world["entities"].items()}
        specs = world["operations"]
        self.operations = {name: _Operation(name, spec, self) for name, spec in specs.items()}
        self.actor: str | None = world.get("actor")
        for entity in self.entities.values():
            for field, target in entity.references.items():
                self.entities[target].pointed_at.append((entity.name, field))
        if self.actor:
            self._find_owners(self.entities[self.actor])
        for spec in specs.values():
            for _, entity, _, fields, _ in nodes_of(spec["steps"], "create"):
                self.entities[entity].named |= self.entities[entity].key in fields

    def apply(
        self, state: State, name: str, arguments: Json, now: str
    ) -> tuple[State, Json, str | None]:
        """The state after a call, its response, and the code of its error, if it is one.

        The response of a failure is the text of its error; the state is then the one given.
        """
        operation = self.operations.get(name) if isinstance(name, str) else None
        if operation is None:
            return state, f"There is no operation {str(name)[:80]!r}.", INVALID
        try:
            frame = self.frame(state, operation.arguments(arguments), now)
            response = operation.run(frame)
            self._settle(frame)
        except CallRefused as refusal:
            return state, refusal.text, refusal.code
        if frame.touched:
            state = {"me": state["me"], "next": frame.next, "tables": frame.tables}
        return state, response, None

    def bound(self, state: State, name: str, arguments: Json, now: str) -> Frame | None:
        """The names of a call in a state, before its steps; None if its arguments do not fit or
        name nothing."""
        operation = self.operations.get(name)
        if operation is None:
            return None
        try:
            frame = self.frame(state, operation.arguments(arguments), now)
            operation.bind(frame)
        except CallRefused:
            return None
        return frame

    def frame(self, state: State, args: Row, now: str) -> Frame:
        frame = Frame(state, args, now)
        frame.entities = self.entities
        if self.actor and state["me"] is not None:
            frame.me = frame.tables[self.actor].get(state["me"])
            frame.vars["me"] = frame.me
        return frame

    def owned(self, frame: Frame, entity: str, row: Row) -> bool:
        """Whether a row is of the one who speaks, or of nobody."""
        path = self.entities[entity].owner
        if path is None or frame.me is None:
            return True
        current: Row | None = row
        for field, target in path:
            current = frame.tables[target].get(current[field]) if current else None
        return current is None or current is frame.me

    def broken(self, frame: Frame, entity: str, row: Row) -> str | None:
        """The first rule of its entity that a row does not keep."""
        frame.vars["this"] = row
        rules = self.entities[entity].rules
        return next((text for text, clause in rules if not clause(frame)), None)

    def _find_owners(self, actor: _Entity) -> None:
        """Of each entity the references that lead to the actor who owns a row: the shortest way."""
        actor.owner, near = [], [actor]
        for target in near:  # which grows as it is gone through
            for name, field in target.pointed_at:
                entity = self.entities[name]
                if entity.owner is None and not entity.fields[field].get("other"):
                    entity.owner = [(field, target.name), *(target.owner or ())]
                    near.append(entity)

    def _settle(self, frame: Frame) -> None:
        """Refuse a call that would leave rows against the types, references and rules."""
        for (name, key), before in list(frame.touched.items()):
            entity = self.entities[name]
            row = frame.tables[name].get(key)
            if row is before:
                del frame.touched[name, key]
                continue
            if row is None:
                for other, field in entity.pointed_at:
                    if frame.tables[other].by(field).get(key):
                        raise CallRefused(BROKEN, f"{name} {key} is still used by {other}.")
                continue
            fault = entity.fault(row, before) or self.broken(frame, name, row)
            for field, target in entity.references.items():
                if row.get(field) is not None and row[field] not in frame.tables[target]:
                    fault = fault or f"{field} refers to nothing"
            for field in entity.unique:
                alike = frame.tables[name].by(field)[_hashable(row[field])]
                if row[field] is not None and len(alike) > 1:
                    fault = fault or f"{field} is taken"
            if fault:
                raise CallRefused(BROKEN, f"This would break a rule of {name}: {fault}.")


def difference(machine: Machine, before: State, after: State) -> list[list[Any]]:
    """What changed, in an order of its own: `[entity, key, field, value]` of rows that were there,
    `[entity, "new", row]`, `[entity, key, "deleted"]`. New keys that rows refer to read "new",
    unless whoever calls may choose them."""
    fresh = {
        key
        for name, entity in machine.entities.items()
        if not entity.named
        for key in after["tables"][name].keys() - before["tables"][name].keys()
    }

    def comparable(entity: str, field: str, value: Json) -> Json:
        kind = machine.entities[entity].fields.get(field, {})
        if kind.get("free"):
            return "free"
        return "new" if kind.get("type") == "ref" and value in fresh else value

    changes: list[list[Any]] = []
    for name, entity in machine.entities.items():
        old, new = before["tables"][name], after["tables"][name]
        if old is new:
            continue
        for key, row in new.items():
            if key in old:
                now = {field: value for field, value in row.items() if value != old[key][field]}
                changes += (
                    [name, key, field, comparable(name, field, now[field])] for field in now
                )
            else:
                values = {f: comparable(name, f, v) for f, v in row.items()}
                if not entity.named:
                    del values[entity.key]
                changes.append([name, "new", values])
        changes += ([name, key, "deleted"] for key in old if key not in new)
    return sorted(changes, key=str)


class _Entity:
    """The fields of a table, and what must hold of each row."""

    def __init__(self, name: str, spec: Json) -> None:
        self.name = name
        self.key: str = spec["key"]
        self.prefix: str = spec["prefix"]
        self.whole: bool = spec.get("whole", False)  # whether keys are numbers
        self.named = False  # whether an operation sets the keys of new rows
        self.fields: dict[str, Json] = spec["fields"]
        self.rules = [(text, as_term(tree)) for text, tree in spec.get("rules", ())]
        kinds = self.fields.items()
        self.derived = {
            field: as_term(kind["derived"]) for field, kind in kinds if "derived" in kind
        }
        self.references = {field: kind["entity"] for field, kind in kinds if kind["type"] == "ref"}
        self.unique = [field for field, kind in kinds if kind.get("unique")]
        self.moves = {field: kind["moves"] for field, kind in kinds if kind.get("moves")}
        self.owner: list[tuple[str, str]] | None = None
        self.pointed_at: list[tuple[str, str]] = []

    def keyed(self, number: int) -> Any:
        """The key of the row of a number."""
        return number if self.whole else f"{self.prefix}{number}"

    def fault(self, row: Row, before: Row | None) -> str | None:
        """What is wrong with the values of a row that was created or changed."""
        for field, kind in self.fields.items():
            value = row.get(field)
            if value is None:
                if not kind.get("optional"):
                    return f"{field} is missing"
            elif misfit(kind, value) is not None:
                return f"{field} {misfit(kind, value)}"
        for field, moves in self.moves.items():
            was = before and before[field]
            if before and row[field] not in (was, *moves.get(was, ())):
                return f"{field} cannot go from {was} to {row[field]}"
        return None


class _Operation:
    """One operation: its arguments, its steps, and what it returns."""

    def __init__(self, name: str, spec: Json, machine: Machine) -> None:
        self.name = name
        self.args: dict[str, Json] = spec["args"]
        self._machine = machine
        self.changes = writes(spec["steps"])
        self._steps = [as_term(step) for step in spec["steps"]]
        self._returns = as_term(spec["returns"]) if spec.get("returns") is not None else None
        unknown = spec.get("unknown", {}).items()
        self._unknown = {arg: (code, as_term(text)) for arg, (code, text) in unknown}

    def arguments(self, given: Json) -> Row:
        """The arguments, moments in one form. Raises CallRefused for the first misfit."""
        if not isinstance(given, dict):
            raise CallRefused(INVALID, "Arguments must be an object.")
        for name in given:
            if name not in self.args:
                raise CallRefused(INVALID, f"There is no argument {str(name)[:80]!r}.")
        arguments: Row = {}
        for name, kind in self.args.items():
            value = given.get(name)
            if value is None:
                if not kind.get("optional"):
                    raise CallRefused(INVALID, f"The argument {name!r} is missing.")
                continue
            value = _tidy(kind, value)
            wrong = misfit(kind, value)
            if wrong is not None:
                raise CallRefused(INVALID, f"The argument {name!r} {wrong}.")
            arguments[name] = value
        return arguments

    def run(self, frame: Frame) -> Json:
        self.bind(frame)
        for step in self._steps:
            step(frame)
        if self._returns is None:
            return None
        return plain(self._returns(frame))

    def bind(self, frame: Frame) -> None:
        """Find the rows that arguments name. Raises CallRefused for one that is not there."""
        for name, kind in self.args.items():
            for ref, key in values_of(kind, frame.args.get(name)):
                if ref["type"] != "ref":
                    continue
                entity = ref["entity"]
                row = frame.tables[entity].get(key)
                if row is None or not (ref.get("other") or self._machine.owned(frame, entity, row)):
                    if name in self._unknown:
                        code, text = self._unknown[name]
                        raise CallRefused(code, text(frame))
                    why = f"There is no {ref['noun'].replace('_', ' ')} {key}."
                    raise CallRefused(f"unknown_{ref['noun']}", why)
                if kind.get("as"):
                    frame.vars[kind["as"]] = row


def values_of(kind: Json, value: Json) -> Iterator[tuple[Json, Json]]:
    """The values in an argument that are no list and no object, each with its type."""
    form = kind.get("type")
    if form == "list" and isinstance(value, list):
        for item in value:
            yield from values_of(kind["of"], item)
    elif form == "object" and isinstance(value, dict):
        for name, inner in kind["fields"].items():
            yield from values_of(inner, value.get(name))
    elif value is not None:
        yield kind, value


def nodes(tree: Json) -> Iterator[Any]:
    """Every form in a tree, or in a list of them, from the outside in: each is a list that begins
    with its name, behind which stand forms, lists of forms, names and constants."""
    left = [tree]
    while left:
        part = left.pop()
        inner: Iterable[Any] = ()
        if isinstance(part, dict):
            inner = part.values()
        elif isinstance(part, (list, tuple)):
            form = part[0] if part and isinstance(part[0], str) else ""
            if form:
                yield part
            if form == "view":  # its fields are pairs of a name, which may be any, and a term
                inner = [term for _, term in part[1]]
            elif form == "skip":  # the names of arguments, and a clause
                inner = part[2:3]
            elif form in ("create", "update"):  # beside the terms of fields the names of arguments
                inner = part[2:4]
            elif form == "was":  # beside a term the names that stand for rows
                inner = part[1:2]
            elif form != "value":
                inner = part[1:] if form else part
        left += reversed([*inner])


def nodes_of(tree: Json, *forms: str) -> Iterator[Any]:
    """Those of some forms."""
    return (node for node in nodes(tree) if node[0] in forms)


def writes(steps: Json) -> bool:
    """Whether an operation's steps can change a state."""
    return any(nodes_of(steps, "create", "update", "delete"))


def misfit(kind: Json, value: Json) -> str | None:
    """Why a value is not of a type, as the rest of a sentence; None if it is."""
    form = "integer" if kind.get("whole") else kind["type"]
    if form in ("text", "ref"):
        if not isinstance(value, str) or len(value) > TEXT:
            return "must be a text"
        return None if value.strip() or kind.get("empty") else "must not be empty"
    if form == "boolean":
        return None if isinstance(value, bool) else "must be true or false"
    if form in ("integer", "number"):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return f"must be {'an integer' if form == 'integer' else 'a number'}"
        if not abs(value) <= LARGEST or (form == "integer" and not whole):
            return "must be an integer" if form == "integer" else "is out of bounds"
        low, high = kind.get("low"), kind.get("high")
        if (low is not None and value < low) or (high is not None and value > high):
            if None in (low, high):
                return f"must be {high} or less" if low is None else f"must be {low} or more"
            return f"must be from {low} to {high}"
        return None
    if form == "choice":
        if isinstance(value, str) and value in kind["choices"]:
            return None
        return f"must be one of {', '.join(kind['choices'])}"
    if form in PATTERNS:
        if isinstance(value, str) and PATTERNS[form].fullmatch(value) and _moment(value):
            return None
        shape = {"date": "YYYY-MM-DD", "time": "HH:MM", "datetime": "YYYY-MM-DDTHH:MM"}[form]
        return f"must be a {form} like {shape}"
    if form == "list":
        if not isinstance(value, (list, tuple)) or len(value) > ITEMS:
            return f"must be a list of at most {ITEMS}"
        if not value and not kind.get("empty"):
            return "must not be empty"
        wrongs = (misfit(kind["of"], item) for item in value)
        wrong = next((wrong for wrong in wrongs if wrong is not None), None)
        return wrong and f"holds an item that {wrong}"
    fields = kind["fields"]
    if not isinstance(value, dict):
        return "must be an object"
    for name in value:
        if name not in fields:
            return f"has no field {str(name)[:80]!r}"
    for name, field in fields.items():
        if value.get(name) is None:
            if not field.get("optional"):
                return f"lacks {name!r}"
        else:
            wrong = misfit(field, value[name])
            if wrong is not None:
                return f"holds {name!r}, which {wrong}"
    return None


def _tidy(kind: Json, value: Json) -> Json:
    """An argument as rows hold it: whole floats as integers, moments without seconds."""
    form = "integer" if kind.get("whole") else kind["type"]
    if form in ("integer", "number") and isinstance(value, float) and value.is_integer():
        return int(value) if abs(value) <= LARGEST else value
    if form == "datetime" and isinstance(value, str):
        return re.sub(r"^(.{10})[T ](.{5}):00(\.0+)?(Z|\+00:00)?$", r"\1T\2", value)
    if form == "list" and isinstance(value, list) and len(value) <= ITEMS:
        return [_tidy(kind["of"], item) for item in value]
    if form == "object" and isinstance(value, dict):
        fields = kind["fields"]
        return {n: _tidy(fields[n], v) if n in fields else v for n, v in value.items()}
    return value


def plain(value: Json) -> Json:
    """A response as JSON: no row of a state in it that a caller could change."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return value


def _weighed(frame: Frame, value: Json) -> Json:
    """A value that becomes part of another. What it holds counts as rows that were looked at, so
    that no row of steps can double it for ever."""
    if isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            frame.visit()
            _weighed(frame, inner)
    return value


def _hashable(value: Json) -> Any:
    return str(value) if isinstance(value, (list, dict)) else value


# --- numbers and moments ---------------------------------------------------------------------


def _exact(value: Json) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return Decimal(value) if isinstance(value, int) else Decimal(repr(value))


def _number(value: Decimal) -> int | float | None:
    """A number as JSON holds it: an integer where it is whole, nothing beyond bounds."""
    if not value.is_finite() or abs(value) > LARGEST:
        return None
    return int(value) if value == value.to_integral_value() else float(value)


_SUM = re.compile(r"\s*(?:(\d{1,13}(?:\.\d{1,12})?)|([-+*/()]))\s*")
_RANKS = {"+": 1, "-": 1, "*": 2, "/": 2, "negative": 3}
_SIGNS = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": EXACT.divide,
    "negative": EXACT.subtract,
}


def _calculate(sign: str) -> Callable[[Any, Any], Any]:
    act = _SIGNS[sign]

    def result(left: Json, right: Json) -> Json:
        one, two = _exact(left), _exact(right)
        return None if one is None or two is None else _number(act(one, two))

    return result


def calculated(text: Json) -> Json:
    """What a sum comes to that is written with digits, + - * / and brackets: `2 * (3 + 0.5)`. Null
    if it cannot be read, or not be computed. Two stacks, so that it is read in one pass however
    deep the brackets are."""
    values: list[Decimal] = []
    waiting: list[str] = []  # signs and brackets whose right side is still to come

    def settle(least: int) -> None:
        """Carry out the signs that bind as firmly as this."""
        while waiting and waiting[-1] != "(" and _RANKS[waiting[-1]] >= least:
            sign, right = waiting.pop(), values.pop()
            values.append(_SIGNS[sign](values.pop() if sign != "negative" else Decimal(0), right))

    if not isinstance(text, str):
        return None
    at, complete = 0, False  # `complete`: a value stands before this place
    while match := _SUM.match(text, at):
        at, (number, sign) = match.end(), match.groups()
        if complete == bool(number or sign == "("):  # `2 3`, `2 (`, `* 2`, `()`
            if complete or sign != "-":
                return None
            waiting.append("negative")
        elif number:
            values.append(Decimal(number))
            complete = True
        elif sign == "(":
            waiting.append(sign)
        elif sign == ")":
            settle(0)
            if not waiting:
                return None
            waiting.pop()
        else:
            settle(_RANKS[sign])
            waiting.append(sign)
            complete = False
    if not complete or at < len(text):
        return None
    settle(0)
    return None if waiting else _number(values[0])


def rounded(value: Json, places: int) -> Json:
    """Half up, as people round money."""
    number = _exact(value)
    if number is None:
        return None
    return _number(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT))


def _moment(value: Json) -> datetime | None:
    try:
        if len(value) == 5:
            return datetime.fromisoformat(f"2000-01-01T{value}")
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None


def shifted(value: Json, amount: Json, unit: str) -> Json:
    """A moment so much later (earlier, if negative), in its own form; None beyond the calendar.

    A month later is the same day of the month, or its last if it has fewer.
    """
    moment = _moment(value)
    if moment is None or isinstance(amount, bool) or not isinstance(amount, (int, float)):
        return None
    try:
        if unit == "months":
            months = moment.year * 12 + moment.month - 1 + int(amount)
            year, month = months // 12, months % 12 + 1
            days = (date(year + month // 12, month % 12 + 1, 1) - date(year, month, 1)).days
            moment = moment.replace(year=year, month=month, day=min(moment.day, days))
        else:
            moment += timedelta(**{unit: amount})
    except (OverflowError, ValueError):
        return None
    text = moment.isoformat(timespec="minutes")
    if len(value) == 5:
        return text[11:]
    return text[:10] if len(value) == 10 else text


def _span(seconds: int) -> Callable[[Any, Any], Any]:
    """From the first moment to the second, in whole or broken units."""

    def between(first: Json, second: Json) -> Json:
        one, two = _moment(first), _moment(second)
        if one is None or two is None:
            return None
        if seconds == 86_400:
            return (two.date() - one.date()).days
        gap = int((two - one).total_seconds())
        return _number(EXACT.divide(Decimal(gap), Decimal(seconds)))

    return between


def shown(value: Json) -> str:
    """A value inside a text, as an error or a derived field says it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(shown, value))
    return "" if value is None else str(value)


def money(value: Json) -> str:
    number = _exact(value)
    return "" if number is None else f"{number.quantize(_CENT, ROUND_HALF_UP, EXACT):f}"


# --- terms and clauses -----------------------------------------------------------------------


def as_term(tree: Json) -> Term:
    """A tree as a function of the frame. What cannot be computed is null, which equals only null
    and is less than nothing."""
    form, *parts = tree
    return FORMS[form](*parts)


def _of(act: Callable[..., Any]) -> Callable[..., Term]:
    """A form that comes to what `act` makes of the values of its parts."""

    def form(*trees: Tree) -> Term:
        terms = [as_term(tree) for tree in trees]
        if len(terms) == 1:
            (one,) = terms
            return lambda frame: act(one(frame))
        if len(terms) == 2:  # nearly all
            left, right = terms
            return lambda frame: act(left(frame), right(frame))
        return lambda frame: act(*[term(frame) for term in terms])

    return form


def _parts(act: Callable[..., Any], *names: int) -> Callable[..., Term]:
    """A form that `act` runs with its parts and the frame: terms, but for those at the places
    `names`, which are names or constants."""

    def form(*parts: Any) -> Term:
        terms = (p if p is None or place in names else as_term(p) for place, p in enumerate(parts))
        return partial(act, *terms)

    return form


def _field(of: Term, name: str, frame: Frame) -> Any:
    row = of(frame)
    return row.get(name) if isinstance(row, dict) else None


def _was(term: Term, rows: dict[str, Sequence[str]], frame: Frame) -> Any:
    """A value as it was before the call; nothing where there was no call. `rows`: the names that
    stand for rows, each with its entity and the field of its key."""
    if frame.old is None:
        return None
    tables, names = frame.tables, frame.vars
    before = {
        name: frame.old.tables[entity].get(names[name][key])
        for name, (entity, key) in rows.items()
        if isinstance(names.get(name), dict)
    }
    frame.tables, frame.vars = frame.old.tables, {**names, **before, **frame.old.vars}
    value = term(frame)
    frame.tables, frame.vars = tables, names
    return value


def _ordered(act: Callable[[Any, Any], bool]) -> Callable[..., Term]:
    def compare(left: Json, right: Json) -> bool:
        if left is None or right is None or isinstance(left, str) != isinstance(right, str):
            return False
        return act(left, right)

    return _of(compare)


def _and(*clauses: Tree) -> Term:
    tests = [as_term(clause) for clause in clauses]

    def result(frame: Frame) -> bool:
        for test in tests:  # noqa: SIM110 - all() takes twice as long
            if not test(frame):
                return False
        return True

    return result


def _or(*clauses: Tree) -> Term:
    tests = [as_term(clause) for clause in clauses]
    return lambda frame: any(test(frame) for test in tests)


def _skip(names: Sequence[str], clause: Term, frame: Frame) -> bool:
    """A condition that says nothing where one of the arguments that it names is absent."""
    return any(name not in frame.args for name in names) or bool(clause(frame))


def _text(*values: Json) -> str:
    text = "".join(map(shown, values))
    if len(text) > LONGEST:
        raise CallRefused(TOO_LARGE, "The request makes too long a text.")
    return text


def _at(day: Json, hour: Json) -> str | None:
    both = isinstance(day, str) and isinstance(hour, str) and day and hour
    return f"{day[:10]}T{hour[:5]}" if both else None


def _has(whole: Json, part: Json) -> bool:
    if isinstance(whole, str):
        return isinstance(part, str) and part.casefold() in whole.casefold()
    return isinstance(whole, (list, tuple)) and part in whole


def _same(left: Json, right: Json) -> bool:
    if isinstance(left, str) and isinstance(right, str):
        return " ".join(left.casefold().split()) == " ".join(right.casefold().split())
    return bool(left == right)


def _rank(value: Json) -> tuple[Any, ...]:
    """An order of any values: null last, then by what they are."""
    if value is None:
        return (3,)
    return (1, value) if isinstance(value, (int, float)) else (2, shown(value))


# A search goes over a source, which is ["table", entity] or a term that gives a list, and names
# each row in turn for the clause.


def _rows(source: Tree, alias: str, clause: Tree | None) -> Callable[[Frame], Iterator[Row]]:
    """The rows of a source that a clause holds for, each under its name while it is looked at."""
    test = as_term(clause) if clause is not None else None
    table = source[0] == "table"
    near = _nearest(source[1], alias, clause) if table else _of(_items)(source)

    def rows(frame: Frame) -> Iterator[Row]:
        for row in _named(frame, alias, near(frame)):
            frame.visit()
            if test is None or test(frame):
                yield row

    return rows


def _items(value: Json) -> Sequence[Any]:
    """Those of a list; none of what is no list."""
    return value if isinstance(value, (list, tuple)) else ()


def _named(frame: Frame, alias: str, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows, each under its name while it is looked at."""
    names, shadowed = frame.vars, frame.vars.get(alias)
    try:
        for row in rows:
            names[alias] = row
            yield row
    finally:
        names.pop(alias, None)
        if shadowed is not None:
            names[alias] = shadowed


def _nearest(entity: str, alias: str, clause: Tree | None) -> Callable[[Frame], Iterable[Row]]:
    """The rows of a table that can meet a clause: those that an index gives, or all."""
    conjuncts = clause[1:] if clause and clause[0] == "and" else [clause] if clause else []
    for conjunct in conjuncts:
        names: Sequence[str] = ()
        if conjunct[0] == "skip":
            names, conjunct = conjunct[1:]
        if conjunct[0] != "=":
            continue
        for own, other in (conjunct[1:], conjunct[:0:-1]):
            if own[0] == "field" and own[1] == ["var", alias] and not names_one(other, alias):
                return partial(_indexed, entity, own[2], as_term(other), names)
    return lambda frame: frame.tables[entity].values()


def _indexed(
    entity: str, field: str, value: Term, names: Sequence[str], frame: Frame
) -> Iterable[Row]:
    table = frame.tables[entity]
    if any(name not in frame.args for name in names):
        return table.values()
    return table.by(field).get(_hashable(value(frame)), ())


def names_one(tree: Json, alias: str) -> bool:
    """Whether a tree uses what has this name."""
    return any(node[1] == alias for node in nodes_of(tree, "var"))


def _count(source: Tree, alias: str, clause: Tree | None) -> Term:
    rows = _rows(source, alias, clause)
    return lambda frame: sum(1 for _ in rows(frame))


def _over(act: Callable[[list[Any]], Any]) -> Callable[..., Term]:
    """What comes of the values that a term has in the rows of a search."""

    def form(source: Tree, alias: str, clause: Tree | None, of: Tree) -> Term:
        rows, value = _rows(source, alias, clause), as_term(of)
        return lambda frame: act([v for v in (value(frame) for _ in rows(frame)) if v is not None])

    return form


def _list(
    source: Tree,
    alias: str,
    clause: Tree | None,
    order: Sequence[tuple[Tree, bool]],
    limit: Tree | None = None,
    view: Tree | None = None,
) -> Term:
    """Rows in an order, at most so many, each as a view or as it is."""
    rows = _rows(source, alias, clause)
    keys = [(as_term(tree), falling) for tree, falling in order]
    most = as_term(limit) if limit is not None else None
    shape = as_term(view) if view is not None else None

    def result(frame: Frame) -> Any:
        if keys:
            ranks = [([_rank(key(frame)) for key, _ in keys], row) for row in rows(frame)]
            for place in range(len(keys) - 1, -1, -1):
                ranks.sort(key=lambda pair: pair[0][place], reverse=keys[place][1])
            chosen = [row for _, row in ranks]
        else:
            chosen = list(rows(frame))
        cut = most(frame) if most else None
        if isinstance(cut, int):
            chosen = chosen[: max(0, cut)]
        if shape is None:
            return chosen
        return [_weighed(frame, shape(frame)) for _ in _named(frame, alias, chosen)]

    return result


def _first(*search: Any) -> Term:
    rows = _list(*search)
    return lambda frame: next(iter(rows(frame)), None)


def _view(fields: Sequence[tuple[str, Tree]]) -> Term:
    """An object; a field that has no value is left out, unless it may be null."""
    terms = [(name, as_term(tree), tree[0] == "nullable") for name, tree in fields]

    def result(frame: Frame) -> Row:
        values = ((name, _weighed(frame, term(frame)), kept) for name, term, kept in terms)
        return {name: value for name, value, kept in values if kept or value is not None}

    return result


def _keyed(pairs: Term, frame: Frame) -> Row:
    """An object of the pairs `key` and `value` that a search gives; one without either is left
    out."""
    return {shown(pair["key"]): pair["value"] for pair in pairs(frame) if len(pair) == 2}


def _zip(columns: Tree) -> Term:
    """Lists side by side: an object for the items at each place; null is what a shorter list
    lacks."""
    names = [name for name, _ in columns[1]]

    def rows(*values: Json) -> list[Row]:
        places = zip_longest(*map(_items, values))
        return [dict(zip(names, items, strict=True)) for items in places]

    term = _of(rows)(*(tree for _, tree in columns[1]))
    return lambda frame: _weighed(frame, term(frame))


def _shown(alias: str, of: Term, view: Term, frame: Frame) -> Row | None:
    """A view of one row; nothing if there is none."""
    row = of(frame)
    if not isinstance(row, dict):
        return None
    frame.vars[alias] = row
    shape: Row = view(frame)
    del frame.vars[alias]
    return shape


# --- steps -----------------------------------------------------------------------------------


def _when(clause: Term, step: Term, frame: Frame) -> None:
    if clause(frame):
        step(frame)


def _require(clause: Term, code: str, text: Term, frame: Frame) -> None:
    if not clause(frame):
        raise CallRefused(code, text(frame))


def _find(name: str, row: Term, code: str, text: Term, frame: Frame) -> None:
    """The first row of a search under a name, or an error."""
    found = row(frame)
    if found is None:
        raise CallRefused(code, text(frame))
    frame.vars[name] = found


def _let(name: str, term: Term, frame: Frame) -> None:
    frame.vars[name] = term(frame)


def _sets(fields: dict[str, Tree], names: dict[str, Sequence[str]]) -> Callable[[Frame], Row]:
    """New values of fields, but for those whose arguments are absent."""
    terms = [(field, as_term(tree), names.get(field, ())) for field, tree in fields.items()]

    def values(frame: Frame) -> Row:
        return {
            field: _weighed(frame, term(frame))
            for field, term, args in terms
            if all(name in frame.args for name in args)
        }

    return values


def _create(
    entity: str, name: str | None, fields: dict[str, Tree], names: dict[str, Sequence[str]]
) -> Term:
    values = _sets(fields, names)

    def run(frame: Frame) -> None:
        kind, given = frame.entities[entity], values(frame)
        key: Any = given.get(kind.key)
        if key is None:
            number = frame.next[entity]
            while (key := kind.keyed(number)) in frame.tables[entity]:
                number += 1
            frame.next[entity] = number + 1
        elif wrong := misfit({"type": "ref", "whole": kind.whole}, key):
            raise CallRefused(BROKEN, f"The key of a new row of {entity} {wrong}.")
        elif key in frame.tables[entity]:
            raise CallRefused(BROKEN, f"There is a row of {entity} with the key {key} already.")
        row: Row = {kind.key: key, **dict.fromkeys(kind.fields), **given, kind.key: key}
        frame.put(entity, key, row)
        frame.vars["this"] = row
        for field, term in kind.derived.items():
            if row[field] is None:
                row[field] = term(frame)
                frame.tables[entity].index.pop(field, None)  # what was known by it until now
        del frame.vars["this"]
        if name:
            frame.vars[name] = row

    return run


def _key_of(frame: Frame, entity: str, row: Json, act: str) -> str:
    """The key of the row that a step changes."""
    key = row[frame.entities[entity].key] if isinstance(row, dict) else ""
    if key not in frame.tables[entity]:
        raise CallRefused(BROKEN, f"There is no row of {entity} to {act}.")
    return cast(str, key)


def _update(
    entity: str, of: Tree, fields: dict[str, Tree], names: dict[str, Sequence[str]]
) -> Term:
    target, values = as_term(of), _sets(fields, names)

    def run(frame: Frame) -> None:
        key = _key_of(frame, entity, target(frame), "change")
        row = frame.tables[entity][key]  # a list may still hold what it was
        frame.vars["this"] = row
        changed = {**row, **values(frame)}
        del frame.vars["this"]
        frame.put(entity, key, changed)

    return run


def _delete(entity: str, of: Term, frame: Frame) -> None:
    frame.put(entity, _key_of(frame, entity, of(frame), "delete"), None)


def _each(name: str, of: Tree, entity: str | None, steps: Sequence[Tree]) -> Term:
    """Steps for each item of a list, or for each row of an entity that a search gave."""
    items, acts = _of(_items)(of), [as_term(step) for step in steps]

    def run(frame: Frame) -> None:
        for item in list(items(frame)):
            frame.visit()
            if entity:  # an earlier turn of the loop may have changed or deleted it
                item = frame.tables[entity].get(item[frame.entities[entity].key])
                if item is None:
                    continue
            frame.vars[name] = item
            for act in acts:
                act(frame)
        frame.vars.pop(name, None)

    return run


FORMS: dict[str, Callable[..., Term]] = {
    "value": lambda constant: lambda frame: constant,
    "arg": lambda name: lambda frame: frame.args.get(name),
    "var": lambda name: lambda frame: frame.vars.get(name),
    "given": lambda name: lambda frame: name in frame.args,
    "now": lambda: lambda frame: frame.now,
    "today": lambda: lambda frame: frame.now[:10],
    "field": _parts(_field, 1),
    "hop": _parts(lambda of, entity, frame: frame.tables[entity].get(_hashable(of(frame))), 1),
    "was": _parts(_was, 1),
    **{sign: _of(_calculate(sign)) for sign in "+-*/"},
    "shift": _parts(lambda of, amount, unit, frame: shifted(of(frame), amount(frame), unit), 2),
    "days": _of(_span(86_400)),
    "hours": _of(_span(3_600)),
    "minutes": _of(_span(60)),
    "date": _of(lambda moment: moment[:10] if isinstance(moment, str) else None),
    "time": _of(lambda moment: moment[11:16] if isinstance(moment, str) else None),
    "at": _of(_at),
    "weekday": _of(lambda value: (m := _moment(value)) and WEEKDAYS[m.weekday()]),
    "hour": _of(lambda value: (m := _moment(value)) and m.hour),
    "calculate": _of(calculated),
    "round": _parts(lambda of, places, frame: rounded(of(frame), places), 1),
    "money": _of(money),
    "size": _of(lambda value: len(value) if isinstance(value, (str, list, tuple)) else 0),
    "least": _of(lambda *values: None if None in values else min(values)),
    "most": _of(lambda *values: None if None in values else max(values)),
    "if": _parts(lambda test, yes, no, frame: yes(frame) if test(frame) else no(frame)),
    "text": _of(_text),
    "view": _view,
    "nullable": as_term,
    "keyed": _parts(_keyed),
    "zip": _zip,
    "shown": _parts(_shown, 0),
    "list": _list,
    "first": _first,
    "count": _count,
    "sum": _over(lambda values: reduce(_calculate("+"), values, 0)),
    "min": _over(lambda values: min(values, key=_rank, default=None)),
    "max": _over(lambda values: max(values, key=_rank, default=None)),
    "=": _of(lambda left, right: left == right),
    "!=": _of(lambda left, right: left != right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
    "in": _of(lambda part, whole: isinstance(whole, (list, tuple)) and part in whole),
    "has": _of(_has),
    "same": _of(_same),
    "and": _and,
    "or": _or,
    "not": _of(lambda value: not value),
    "skip": _parts(_skip, 0),
    # steps
    "when": _parts(_when),
    "require": _parts(_require, 1),
    "find": _parts(_find, 0, 2),
    "let": _parts(_let, 0),
    "create": _create,
    "update": _update,
    "delete": _parts(_delete, 0),
    "each": _each,
}
