"""What the operations of a world show, what has to be seen before them, and arguments for them.

Nobody knows an id. People say "my order of March 3", "the one with the blanket", "Anna Rossi"; a
read that shows the key beside those values turns them into it. All of this follows from a world's
operations and is worked out once (`Lookups`).

Arguments are drawn from a state (`ArgumentDrawer`). Keys are of rows that are one's own or
nobody's, and of rows that go together. What people mean is small or round, or stands in the rows,
on workdays ahead, in texts that the world writes; `loose` values lie at borders and beside what
stands in the state, and some keys name nothing. Whether a call with them succeeds is tried, not
reasoned.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from typing import Any

from toolloom.pipeline.checks.schema import texts_in
from toolloom.pipeline.checks.world.grammar import NUMBERS, Kind, Tree, keys_of
from toolloom.pipeline.checks.world.interpreter import (
    PATTERNS,
    Json,
    Machine,
    Row,
    State,
    Table,
    Term,
    as_term,
    difference,
    names_one,
    nodes,
    nodes_of,
    shifted,
)

RowKey = tuple[str, str]  # an entity and the key of one of its rows
Path = tuple[str | int, ...]
FieldOf = tuple[str, str]
"""An entity and one of its fields; without a field, whether its rows were looked at."""
BOUNDS = ("<", "<=", ">", ">=")

DRAWS = 16  # of arguments until a call succeeds
RELATED = 0.65  # share of keys that go with those named before
OPEN = 0.85  # share of keys of rows that are not over, where there are any
AS_SHOWN = 0.5  # share of amounts that stand in a row
OPTIONAL = 0.5  # share of optional arguments that are given
ITEMS = (1, 1, 2, 2, 3)  # of a list
SMALL = (1, 1, 1, 1, 2, 2, 2, 3, 4)
ROUND = (5, 10, 15, 20, 30, 45, 60, 90, 120)
SOON = (1, 10)  # days ahead, of a moment that nothing bounds
CLOCKS = [f"{hour:02}:{minute}" for hour in range(9, 17) for minute in ("00", "30")]
STRANGE, FOREIGN = 0.03, 0.1  # shares of loose keys: of no row, of anybody's
BESIDE = 0.7  # share of loose values that stand in the state, or lie beside one that does


@dataclass(frozen=True)
class ShownKey:
    """A key in a response: its row's entity, and what is said beside it."""

    entity: str
    key: str
    item: Row  # the object that holds it
    kind: Kind  # of that object
    values: frozenset[str]  # texts of the object, of what it holds and of what holds it


class _ReadRow(dict[str, Json]):
    """A row that notes which of its fields are read."""

    def __init__(self, entity: str, row: Row, read: set[FieldOf]) -> None:
        super().__init__(row)
        self.entity, self.read = entity, read

    def get(self, field: str, other: Json = None) -> Json:
        self.read.add((self.entity, field))
        return super().get(field, other)


class _ReadTable(Table):
    """A table that notes whether its rows are searched, and what is read of them."""

    def __init__(self, entity: str, rows: dict[str, Row], read: set[FieldOf]) -> None:
        super().__init__({key: _ReadRow(entity, row, read) for key, row in rows.items()})
        self.searched = partial(read.add, (entity, ""))

    def values(self) -> Any:
        self.searched()
        return super().values()

    def by(self, field: str) -> dict[Any, list[Row]]:
        self.searched()
        return super().by(field)


class Lookups:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        operations, entities = machine.world["operations"], machine.entities
        held = {
            name: list(dict.fromkeys(kind["entity"] for kind in keys_of(spec["shape"])))
            for name, spec in operations.items()
        }
        self.writes = [name for name, each in machine.operations.items() if each.changes]
        self.reads = [name for name in operations if name not in self.writes]
        # The reads that show keys of an entity; and of those that list rows, whose key is first.
        self.ways = {e: [name for name in self.reads if e in held[name]] for e in entities}
        self.listed = {
            name: held[name][0]
            for name in self.reads
            if held[name] and operations[name]["shape"]["type"] == "list"
        }
        self.own = {name for name, e in entities.items() if e.owner and name != machine.actor}
        self.labels = {name: self._label(name) for name in entities}
        # The fields that a response repeats, or says something of, and the rows that it looks at.
        self.shown: dict[str, set[FieldOf]] = {n: {(e, "") for e in held[n]} for n in operations}
        for name, found in self.shown.items():
            _read(operations[name]["returns"], {"me": machine.actor or ""}, found, repeated=True)
        self.readable = set[FieldOf]().union(*(self.shown[name] for name in self.reads))
        every = machine.world["policies"]
        self.policies = {name: [p for p in every if name in p["calls"]] for name in operations}
        # What policies say, and want to be true before a call.
        self.musts: dict[str, list[tuple[str, Tree]]] = {
            name: [
                (policy["says"], tree)
                for policy in policies
                for _, tree in policy.get("must", {}).get(name, ())
            ]
            for name, policies in self.policies.items()
        }
        self.causes = cache(self._causes)  # asked for at each call that fails

    def kinds(self, name: str) -> dict[str, Kind]:
        return self.machine.operations[name].args

    def required(self, name: str) -> dict[str, Kind]:
        return {arg: kind for arg, kind in self.kinds(name).items() if not kind.get("optional")}

    def keys(self, name: str, args: Row) -> list[RowKey]:
        """The rows whose keys are among the arguments of an operation."""
        found = leaves({"type": "object", "fields": self.kinds(name)}, args)
        return [(kind["entity"], key) for _, kind, key in found if kind["type"] == "ref"]

    def agrees(self, name: str) -> bool:
        """Whether a policy wants the user's yes."""
        return any(policy.get("consent") for policy in self.policies[name])

    def forbidden(self, state: State, now: str, name: str, args: Row) -> str | None:
        """What the first policy says that does not let a call pass."""
        frame = self.machine.bound(state, name, args, now) if self.musts[name] else None
        broken = (says for says, tree in self.musts[name] if frame and not as_term(tree)(frame))
        return next(broken, None)

    def label(self, state: State, now: str, entity: str, key: str) -> list[tuple[str, Json]]:
        """How a row is called, by field."""
        frame = self.machine.frame(state, {}, now)
        frame.vars["this"] = state["tables"][entity][key]
        values = [(name, term(frame)) for name, term in self.labels[entity]]
        return [(name, value) for name, value in values if value is not None]

    def places(self, name: str, trees: Iterable[Tree], this: str = "") -> set[FieldOf]:
        """The fields on which trees of an operation depend, and the entities that they search;
        `this`: the entity of the row that they write."""
        names = {"me": self.machine.actor or "", "this": this} | {
            kind["as"]: kind["entity"] for kind in self.kinds(name).values() if kind.get("as")
        }
        found, searched = set[FieldOf](), set[str]()
        for tree in trees:
            _read(tree, names, found)
            searched |= {node[1] for node in nodes(tree) if node[0] == "table"}
        keys = {entity.key for entity in self.machine.entities.values()}
        fields = {f for f in found if f[1] not in keys and f[0] not in searched}
        return fields | {(entity, "") for entity in searched}

    def _causes(self, name: str, code: str) -> set[FieldOf]:
        """On what an error depends that no look at what is nobody's own shows; on nothing if it
        says that all is already as it is wanted."""
        steps = self.machine.world["operations"][name]["steps"]
        lets = {node[1]: node[2] for node in nodes(steps) if node[0] == "let"}
        clauses: list[Tree] = [n[1] for n in nodes(steps) if n[0] == "require" and n[2] == code]
        clauses += [n[2] for n in nodes(steps) if n[0] == "find" and n[3] == code]
        for clause in (c[-1] if c[0] == "skip" else c for c in clauses):
            # That there are no such rows; of one's own, before or after others, it is a clash.
            none = clause[0] == "=" and clause[1][0] == "count"
            clash = none and clause[1][1][-1] in self.own and any(nodes_of(clause, *BOUNDS))
            if clause[0] == "!=" or (none and not clash):
                return set()
        clauses += [tree for let, tree in lets.items() if any(names_one(c, let) for c in clauses)]
        public = {place for place in self.readable if place[0] not in self.own}
        return self.places(name, clauses) - public

    def grounds(self, name: str, says: str) -> frozenset[FieldOf]:
        """What has to be seen, as far as a read shows it, before a call, or before it is refused
        for what a policy says: the fields on which policies depend, or that one, those of either
        side of an `if` too; where a yes is wanted, also those that make the amounts of what is
        one's own."""
        trees = [tree for said, tree in self.musts[name] if says in ("", said)]
        found = set[FieldOf]()
        if not says and self.agrees(name):
            steps = self.machine.world["operations"][name]["steps"]
            for _, entity, _, fields, _ in nodes_of(steps, "create", "update"):
                if entity in self.own or entity == self.machine.actor:
                    kinds = self.machine.entities[entity].fields
                    amounts = {f: t for f, t in fields.items() if kinds[f]["type"] in NUMBERS}
                    trees += amounts.values()
                    # What is taken from has to be enough; what is added to may be anything.
                    for field, tree in amounts.items():
                        was = ["field", ["var", "this"], field]
                        if any(node[1] == was for node in nodes_of(tree, "-")):
                            found |= self.places(name, [tree], entity)
            for _, let, tree in reversed(list(nodes_of(steps, "let"))):
                if any(names_one(using, let) for using in trees):
                    trees.append(tree)
        return frozenset((found | self.places(name, trees)) & self.readable)

    def decisive(
        self, state: State, now: str, name: str, args: Row, says: str
    ) -> frozenset[FieldOf]:
        """Of the grounds what a call in this state reads, and of who speaks what it goes by: an
        order without a voucher needs no look at vouchers, one that is early none at an account
        which says what being late costs."""
        grounds, read = self.grounds(name, says), set[FieldOf]()
        if grounds:
            tables = {e: _ReadTable(e, rows, read) for e, rows in state["tables"].items()}
            self.forbidden({**state, "tables": tables}, now, name, args)
            self.machine.apply({**state, "tables": tables}, name, args, now)
        bears = partial(self._bears, state, now, name, args)
        actor = self.machine.actor if state["me"] else None
        return frozenset(p for p in grounds & read if p[0] != actor or not p[1] or bears(p[1]))

    def _bears(self, state: State, now: str, name: str, args: Row, field: str) -> bool:
        """Whether a call would come to something else if another value stood in this field of the
        one who speaks."""
        actor, me = self.machine.actor or "", state["me"]
        rows, kind = state["tables"][actor], self.machine.entities[actor].fields[field]
        values = [row.get(field) for row in rows.values()]
        values += (0, 1, 10**6) if kind["type"] in NUMBERS else kind.get("choices", (True, False))
        ends = set[str]()
        for value in values:
            there = changed(state, actor, {**rows, me: {**rows[me], field: value}})
            after, _, error = self.machine.apply(there, name, args, now)
            forbidden = self.forbidden(there, now, name, args)
            ends.add(repr((error, forbidden, difference(self.machine, there, after))))
        return len(ends) > 1

    def _label(self, entity: str) -> list[tuple[str, Term]]:
        """The values of which a person makes a row's name, without its key and their own name."""
        called = self.machine.world["entities"][entity].get("called")
        parts = called[1:] if called and called[0] == "text" else [called] if called else []
        actor = self.machine.actor
        return [
            (_path_of(part), as_term(part))
            for part in parts
            if part[0] != "value" and part[-1] != self.machine.entities[entity].key
            if entity == actor or not any(n[0] == "hop" and n[2] == actor for n in nodes(part))
        ]


def changed(state: State, entity: str, rows: Mapping[str, Row]) -> State:
    """A state with other rows of an entity."""
    return {**state, "tables": {**state["tables"], entity: Table({**rows})}}


# --- values and their types ------------------------------------------------------------------


def leaves(kind: Kind, value: Json, path: Path = ()) -> Iterator[tuple[Path, Kind, Json]]:
    """Every value of a response, or of arguments, that is no list and no object, with its type."""
    if kind["type"] == "list":
        for number, item in enumerate(value or ()):
            yield from leaves(kind["of"], item, (*path, number))
    elif kind["type"] == "object" and isinstance(value, dict):
        for name, inner in kind["fields"].items():
            if name in value:
                yield from leaves(inner, value[name], (*path, name))
    elif value is not None:
        yield path, kind, value


def keys_shown(kind: Kind, value: Json, above: tuple[str, ...] = ()) -> Iterator[ShownKey]:
    """Every key in a response, those in lists inside lists too; `above`: texts around it."""
    if kind["type"] == "list":
        for item in value or ():
            yield from keys_shown(kind["of"], item, above)
    elif kind["type"] == "object" and isinstance(value, dict):
        texts = frozenset((*above, *texts_in(value)))
        own = tuple(v for v in value.values() if isinstance(v, str))
        for name, inner in kind["fields"].items():
            if value.get(name) is None:
                continue
            if inner["type"] == "ref":
                yield ShownKey(inner["entity"], value[name], value, kind, texts)
            else:
                yield from keys_shown(inner, value[name], (*above, *own))


# --- trees -----------------------------------------------------------------------------------


def _read(tree: Json, names: dict[str, str], found: set[FieldOf], repeated: bool = False) -> str:
    """Note the fields of rows on which a tree depends; the entity of the row that it gives, or "".
    `names`: the entities of named rows; `repeated`: without what only chooses the rows of a list,
    which a response does not repeat."""
    if not isinstance(tree, list) or not tree or tree[0] == "value":
        return ""
    form = tree[0]
    if form == "var":
        return names.get(tree[1], "")
    if form == "table":
        return str(tree[1])
    if form == "field":
        if entity := _read(tree[1], names, found):
            found.add((entity, tree[2]))
        return ""
    if form == "hop":
        _read(tree[1], names, found)
        return str(tree[2])
    if form in ("list", "count", "sum", "min", "max", "first"):
        repeated &= form == "list"
        _, source, alias, *rest = tree
        entity = _read(source, names, set() if repeated else found)
        found |= {(entity, "")} if repeated else set()
        for part in rest[-1:] if repeated else rest:
            _read(part, {**names, alias: entity}, found, repeated)
        return entity
    if form == "shown":
        entity = _read(tree[2], names, set() if repeated else found)
        _read(tree[3], {**names, tree[1]: entity}, found, repeated)
        return ""
    if form == "view":
        for _, term in tree[1]:
            _read(term, names, found, repeated)
        return ""
    entities = [_read(part, names, found) for part in tree if isinstance(part, list)]
    return next(filter(None, entities), "") if form == "if" else ""


def _path_of(tree: Json) -> str:
    """A term as people read it: `product.name`."""
    if tree[0] == "hop":
        return _path_of(tree[1]).removesuffix("_id")
    if tree[0] == "field":
        before = _path_of(tree[1])
        return f"{before}.{tree[2]}" if before else str(tree[2])
    return "" if tree[0] == "var" else next((_path_of(t) for t in tree if isinstance(t, list)), "")


# --- arguments -------------------------------------------------------------------------------


class ArgumentDrawer:
    """Draws in one state, each by itself; `about`: rows of which the first that is named has to be
    one; `loose`: as random calls send them; `beyond`: amounts may be unusual ones."""

    def __init__(
        self,
        machine: Machine,
        state: State,
        now: str,
        rng: random.Random,
        about: Collection[RowKey] = (),
        loose: bool = False,
        beyond: bool = False,
    ) -> None:
        self.machine, self.rng, self.now = machine, rng, now
        self.about, self.loose, self.beyond = about, loose, beyond
        self.frame = machine.frame(state, {}, now)
        self.rows: list[tuple[str, Row]] = []  # rows that arguments before referred to
        self.size = rng.choice(ITEMS)

    def draw(self, name: str) -> Row | None:
        """Arguments of an operation; None if a value of one cannot be said."""
        self.rows = []
        texts = {} if self.loose else self._texts(name)
        return self._fields(self.machine.operations[name].args, texts)

    def draws(self, name: str) -> Iterator[Row]:
        """Arguments of an operation, several times, as far as they can be said."""
        return (args for _ in range(DRAWS) if (args := self.draw(name)) is not None)

    def _fields(self, kinds: dict[str, Kind], texts: Row) -> Row | None:
        args: Row = {}
        for name, kind in kinds.items():
            if kind.get("optional") and self.rng.random() >= OPTIONAL:
                continue
            value = texts[name] if name in texts else self.value(kind, name)
            if value is not None:
                args[name] = value
            elif not kind.get("optional"):
                return None
        return args

    def value(self, kind: Kind, name: str = "") -> Json:
        """A value of a type, for an argument of this name."""
        rng, form = self.rng, kind["type"]
        if form == "ref":
            return self._key(kind)
        if form == "list":
            items = [self.value(kind["of"], name) for _ in range(self.size)]
            named = list(texts_in(items))
            twice = len(set(named)) < len(named) and not self.loose
            return None if None in items or twice else items
        if form == "object":
            return self._fields(kind["fields"], {})
        if form == "boolean":
            return rng.random() < 0.5
        if form == "choice":
            return rng.choice(kind["choices"])
        if self.loose:
            return self._loose(name, kind)
        if form in ("integer", "number"):
            return self._amount(kind)
        if form == "text":
            return rng.choice(kind["examples"]) if kind.get("examples") else None
        return self._moment(kind)

    # --- keys

    def _key(self, kind: Kind) -> Json:
        entity, rng = kind["entity"], self.rng
        spec, table = self.machine.entities[entity], self.frame.tables[entity]
        rows = list(table.values())
        if not kind.get("other"):
            rows = [row for row in rows if self.machine.owned(self.frame, entity, row)]
        if self.loose:
            if rng.random() < STRANGE or not table:
                return f"{spec.prefix}0"
            if rng.random() < FOREIGN or not rows:
                rows = list(table.values())
        elif self.about and not self.rows:
            rows = [row for row in rows if (entity, row[spec.key]) in self.about]
        if self.rows and rng.random() < RELATED:
            near = self._near(entity)
            rows = [row for row in rows if row[spec.key] in near] or rows
        if not self.loose and rng.random() < OPEN:
            moves = spec.moves.items()  # a row is over where one of its fields changes no more
            going = [row for row in rows if all(not to or to.get(row[f]) for f, to in moves)]
            rows = going or rows
        if not rows:
            return None
        row = rng.choice(rows)
        self.rows.append((entity, row))
        return row[spec.key]

    def _near(self, entity: str) -> set[str]:
        """Keys of an entity in rows named before, and in rows that refer to those."""
        keys: set[str] = set()
        for name, row in self.rows:
            around = [(name, row)]
            key = row[self.machine.entities[name].key]
            for other, column in self.machine.entities[name].pointed_at:
                around += [(other, r) for r in self.frame.tables[other].by(column).get(key, ())]
            for near, found in around:
                spec = self.machine.entities[near]
                keys |= {found[f] for f, to in spec.references.items() if to == entity}
                if near == entity and near != name:
                    keys.add(found[spec.key])
        return keys

    # --- as people mean them

    def _amount(self, kind: Kind) -> Json:
        """One that stands in a row which is named, or a small or round one."""
        low, high, step = kind.get("low", 1), kind.get("high", 20), kind.get("by", 1)
        if kind["type"] == "number" and self.rng.random() < AS_SHOWN:
            values = [value for _, row in self.rows for value in row.values()]
            amounts = [v for v in values if _form(v) in ("integer", "number") and low <= v <= high]
            if amounts:
                return self.rng.choice(amounts)
        usual = range(1, int(high) + 1) if self.beyond else SMALL
        usual = ROUND if high > 30 or step > 1 else usual
        return self.rng.choice([n for n in usual if low <= n <= high and not n % step] or [low])

    def _moment(self, kind: Kind) -> str:
        """On a workday ahead, at a full or half hour."""
        clock, draw = self.rng.choice(CLOCKS), kind.get("draw") or {}
        if kind["type"] == "time":
            return clock
        low, high = max(0, draw.get("low", SOON[0])), min(draw.get("high", SOON[1]), SOON[1])
        days = [str(shifted(self.now[:10], n, "days")) for n in range(low, max(low, high) + 1)]
        workdays = [day for day in days if date.fromisoformat(day).weekday() < 5]
        day = self.rng.choice(workdays or days)
        return day if kind["type"] == "date" else f"{day}T{clock}"

    def _texts(self, name: str) -> Row:
        """Texts of a new row, from one of those that the world writes out and the state has not."""
        texts, kinds = Row(), self.machine.operations[name].args
        if all(kind["type"] != "text" for kind in kinds.values()):
            return texts
        steps = self.machine.world["operations"][name]["steps"]
        for _, entity, _, fields, _ in nodes_of(steps, "create", "update"):
            taken = {
                field: tree[1]
                for field, tree in fields.items()
                if tree[0] == "arg" and kinds[tree[1]]["type"] == "text"
            }
            constants = {field: tree[1] for field, tree in fields.items() if tree[0] == "value"}
            data = self.machine.world["entities"][entity]["data"]
            rows = [row for row in data if all(isinstance(row.get(field), str) for field in taken)]
            if not taken or not rows:
                continue
            # A draft is not worded as what came in.
            rows = [r for r in rows if all(r.get(f, v) == v for f, v in constants.items())] or rows
            there = {row[next(iter(taken))] for row in self.frame.tables[entity].values()}
            fresh = [row for row in rows if row[next(iter(taken))] not in there]
            row = self.rng.choice(rows if constants and len(fresh) < 3 else fresh or rows)
            texts |= {argument: row[field] for field, argument in taken.items()}
        return texts

    # --- as random calls send them

    def _loose(self, name: str, kind: Kind) -> Json:
        """A value of the state or one beside it, inside the bounds of the argument; or a border."""
        rng, form = self.rng, kind["type"]
        near = self._values(name, form)
        value = rng.choice(near) if near and rng.random() < BESIDE else None
        if form == "text":
            value = value or rng.choice(("a", "e", "Note", "Some words"))
            return rng.choice([value, value.lower(), *value.split()[:1]])
        if form in ("integer", "number"):
            if value is not None:
                value += rng.choice((-1, 0, 0, 1))
                return min(max(value, kind.get("low", value)), kind.get("high", value))
            low, high = kind.get("low", 1), kind.get("high", 20)
            value = rng.choice((low, high, rng.randint(int(low), max(int(low), int(high)))))
            return value if form == "number" else int(value)
        if value is not None:
            unit = "minutes" if form == "time" else "days"
            return shifted(value, rng.choice((-1, 0, 0, 1)), unit)
        day = shifted(self.now[:10], rng.randint(-10, 30), "days")
        clock = f"{rng.randint(6, 21):02}:{rng.choice((0, 30)):02}"
        return {"date": day, "time": clock, "datetime": f"{day}T{clock}"}[form]

    def _values(self, name: str, form: str) -> list[Json]:
        """Values of the state that an argument of this name and type might repeat: of rows that
        were named before, or of any."""
        tables = [list(table.values()) for table in self.frame.tables.values()]
        values: list[Json] = []
        for rows in ([row for _, row in self.rows], *tables):
            for row in rows:
                values += [
                    value
                    for field, value in row.items()
                    if _form(value) == form or (form == "number" and _form(value) == "integer")
                    if form != "text" or field == name or name in ("query", "text", "words")
                ]
            if values and self.rng.random() < 0.7:
                break
        return values


def _form(value: Json) -> str:
    if isinstance(value, (bool, int, float)):
        return {bool: "boolean", int: "integer"}.get(type(value), "number")
    if not isinstance(value, str):
        return "other"
    return next((form for form, like in PATTERNS.items() if like.fullmatch(value)), "text")
