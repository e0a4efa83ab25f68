"""What somebody might want: arguments of an operation, drawn from a state as people mean them.

Keys are of rows that are one's own or nobody's, and of rows that go together; amounts are small or
round, or those that stand in the rows; days are workdays ahead; texts are those that the world
writes. Whether a call with them succeeds is tried, not reasoned.
"""

from __future__ import annotations

import random
from collections.abc import Set
from datetime import date

from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import Json, Machine, Row, State, nodes, shifted

RowKey = tuple[str, str]  # an entity and the key of one of its rows

RELATED = 0.65  # share of keys that go with those named before
OPEN = 0.85  # share of keys of rows that are not over, where there are any
AS_SHOWN = 0.5  # share of amounts that stand in a row
OPTIONAL = 0.4  # share of optional arguments of a change that are given
ITEMS = (1, 1, 2, 2, 3)  # of a list
SMALL = (1, 1, 1, 1, 2, 2, 2, 3, 4)
ROUND = (5, 10, 15, 20, 30, 45, 60, 90, 120)
SOON = (1, 10)  # days ahead, of a moment that nothing bounds
CLOCKS = [f"{hour:02}:{minute}" for hour in range(9, 17) for minute in ("00", "30")]


class GoalDrawer:
    """Arguments in one state, each draw by itself; `about`: rows of which the first that is named
    has to be one."""

    def __init__(
        self,
        machine: Machine,
        state: State,
        now: str,
        rng: random.Random,
        about: Set[RowKey] | None = None,
    ) -> None:
        self.machine, self.rng, self.now, self.about = machine, rng, now, about
        self.frame = machine.frame(state, {}, now)
        self.rows: list[tuple[str, Row]] = []  # rows that arguments before referred to
        self.size = rng.choice(ITEMS)
        self.beyond = False  # whether amounts and moments may be unusual ones

    def draw(self, name: str, beyond: bool = False) -> Row | None:
        """Arguments of an operation; None if a value of one cannot be said."""
        self.rows, self.beyond = [], beyond
        spec = self.machine.operations[name].args
        texts = self._texts(name)
        args: Row = {}
        for argument, kind in spec.items():
            if kind.get("optional") and self.rng.random() >= OPTIONAL:
                continue
            value = texts[argument] if argument in texts else self.value(kind)
            if value is None and not kind.get("optional"):
                return None
            if value is not None:
                args[argument] = value
        return args

    def value(self, kind: Kind) -> Json:
        rng, form = self.rng, kind["type"]
        if form == "ref":
            return self._key(kind)
        if form == "list":
            items = [self.value(kind["of"]) for _ in range(self.size)]
            return None if None in items or _repeats(items) else items
        if form == "object":
            item = {name: self.value(inner) for name, inner in kind["fields"].items()}
            return None if None in item.values() else item
        if form == "boolean":
            return rng.random() < 0.5
        if form == "choice":
            return rng.choice(kind["choices"])
        if form in ("integer", "number"):
            return self._amount(kind)
        if form == "text":
            return rng.choice(kind["examples"]) if kind.get("examples") else None
        return self._moment(kind)

    def candidates(self, entity: str, other: bool = False) -> list[Row]:
        """Rows that whoever speaks may name."""
        table = self.frame.tables[entity].values()
        return [row for row in table if other or self.machine.owned(self.frame, entity, row)]

    def _key(self, kind: Kind) -> Json:
        entity = kind["entity"]
        rows = self.candidates(entity, bool(kind.get("other")))
        key = self.machine.entities[entity].key
        if self.about is not None and not self.rows:
            rows = [row for row in rows if (entity, row[key]) in self.about]
        if self.rows and self.rng.random() < RELATED:
            near = self._near(entity)
            rows = [row for row in rows if row[key] in near] or rows
        if self.rng.random() < OPEN:
            rows = [row for row in rows if not self._over(entity, row)] or rows
        if not rows:
            return None
        row = self.rng.choice(rows)
        self.rows.append((entity, row))
        return row[key]

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

    def _amount(self, kind: Kind) -> Json:
        low, high, step = kind.get("low", 1), kind.get("high", 20), kind.get("by", 1)
        if kind["type"] == "number" and self.rng.random() < AS_SHOWN:
            rows = [row for _, row in self.rows] or ([self.frame.me] if self.frame.me else [])
            amounts = [
                value
                for row in rows
                for value in row.values()
                if isinstance(value, (int, float)) and not isinstance(value, bool)
                if low <= value <= high
            ]
            if amounts:
                return self.rng.choice(amounts)
        usual = (
            ROUND if high > 30 or step > 1 else range(1, int(high) + 1) if self.beyond else SMALL
        )
        fitting = [n for n in usual if low <= n <= high and not n % step]
        if step > 1 and fitting:
            return min(self.rng.choice(fitting), self.rng.choice(fitting))
        return self.rng.choice(fitting) if fitting else low

    def _moment(self, kind: Kind) -> Json:
        draw = kind.get("draw") or {}
        if kind["type"] == "time":
            return self.rng.choice(CLOCKS)
        low, high = (draw.get("low", SOON[0]), draw.get("high", SOON[1]))
        day = self._workday(max(0, low), min(high, SOON[1]))
        if kind["type"] == "date":
            return day
        clocks = ["07:30", "08:00", "08:30", "17:30", "18:00"] if self.beyond else CLOCKS
        return f"{day}T{self.rng.choice(clocks)}"

    def _workday(self, low: int, high: int) -> str:
        day = ""
        for _ in range(8):
            day = str(shifted(self.now[:10], self.rng.randint(low, max(low, high)), "days"))
            if date.fromisoformat(day).weekday() < 5:
                break
        return day

    def _texts(self, name: str) -> Row:
        """Texts of a new row, from one of those that the world writes out and the state has not."""
        texts: Row = {}
        steps = nodes(self.machine.world["operations"][name]["steps"])
        for _, entity, _, fields, _ in (n for n in steps if n[0] in ("create", "update")):
            spoken = {
                field: tree[1]
                for field, tree in fields.items()
                if tree[0] == "arg"
                and self.machine.operations[name].args[tree[1]]["type"] == "text"
            }
            written = [
                row
                for row in self.machine.world["entities"][entity]["data"]
                if spoken and all(isinstance(row.get(field), str) for field in spoken)
            ]
            constants = {f: tree[1] for f, tree in fields.items() if tree[0] == "value"}
            alike = [r for r in written if all(r.get(f, v) == v for f, v in constants.items())]
            written = alike or written  # a draft is not worded as what came in
            there = self.frame.tables[entity].values()
            main = next(iter(spoken), "")
            fresh = [row for row in written if all(row[main] != other[main] for other in there)]
            if written:
                row = self.rng.choice(written if constants and len(fresh) < 3 else fresh or written)
                texts |= {argument: row[field] for field, argument in spoken.items()}
        return texts


def _repeats(items: list[Json]) -> bool:
    """Whether a list names one row twice."""
    keys = [
        value
        for item in items
        for value in (item.values() if isinstance(item, dict) else [item])
        if isinstance(value, str)
    ]
    return len(set(keys)) < len(keys)
