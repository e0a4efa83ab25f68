"""Arguments of operations, drawn from a state: as people mean them, or as random calls send them.

Keys are of rows that are one's own or nobody's, and of rows that go together. What people mean is
small or round, or stands in the rows, on workdays ahead, in texts that the world writes; `loose`
values lie at borders and beside what stands in the state, and some keys name nothing. Whether a
call with them succeeds is tried, not reasoned.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from datetime import date

from toolloom.pipeline.checks.schema import leaves
from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import (
    PATTERNS,
    Json,
    Machine,
    Row,
    State,
    nodes,
    shifted,
)

RowKey = tuple[str, str]  # an entity and the key of one of its rows

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


class ArgumentDrawer:
    """Draws in one state, each by itself; `about`: rows of which the first that is named has to be
    one."""

    def __init__(
        self,
        machine: Machine,
        state: State,
        now: str,
        rng: random.Random,
        about: Collection[RowKey] = (),
        loose: bool = False,
    ) -> None:
        self.machine, self.rng, self.now = machine, rng, now
        self.about, self.loose = about, loose
        self.frame = machine.frame(state, {}, now)
        self.rows: list[tuple[str, Row]] = []  # rows that arguments before referred to
        self.size = rng.choice(ITEMS)
        self.beyond = False  # whether amounts may be unusual ones

    def draw(self, name: str, beyond: bool = False) -> Row | None:
        """Arguments of an operation; None if a value of one cannot be said."""
        self.rows, self.beyond = [], beyond
        texts = {} if self.loose else self._texts(name)
        return self._fields(self.machine.operations[name].args, texts)

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
            return None if None in items or (_repeats(items) and not self.loose) else items
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
        rows = [
            row
            for row in table.values()
            if kind.get("other") or self.machine.owned(self.frame, entity, row)
        ]
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
            rows = [row for row in rows if not self._over(entity, row)] or rows
        if not rows:
            return None
        row = rng.choice(rows)
        self.rows.append((entity, row))
        return row[spec.key]

    def _over(self, entity: str, row: Row) -> bool:
        """Whether a row has come to where its state changes no more."""
        moves = self.machine.entities[entity].moves
        return any(ways and not ways.get(row[field]) for field, ways in moves.items())

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
        texts: Row = {}
        kinds = self.machine.operations[name].args
        if all(kind["type"] != "text" for kind in kinds.values()):
            return texts
        steps = nodes(self.machine.world["operations"][name]["steps"])
        for _, entity, _, fields, _ in (n for n in steps if n[0] in ("create", "update")):
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


def _repeats(items: list[Json]) -> bool:
    """Whether a list names one row twice."""
    keys = [leaf for leaf in leaves(items) if isinstance(leaf, str)]
    return len(set(keys)) < len(keys)
