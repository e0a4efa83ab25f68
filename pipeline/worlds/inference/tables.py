"""The tables behind a document: records that look alike are rows of one."""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.schema import as_dict, first_type
from toolloom.pipeline.checks.text.words import name_words
from toolloom.pipeline.checks.world.grammar import WORDS
from toolloom.pipeline.sampling.values import NoValue, draw_value, rng_for
from toolloom.pipeline.sampling.vocabulary import DAYS, MOMENTS, by_name
from toolloom.pipeline.worlds.inference.routes import (
    KEYS,
    ApiRoute,
    about,
    alike,
    is_scalar,
    singular,
    snake,
    stem,
)
from toolloom.schemas import JsonObject

ROWS = 14  # written of a table
DRAWN = 8, 12  # of these, in a state
FIELDS = 20  # of a table
WHO, WHOM = "who_id", "whom_id"  # of a table of pairs

_LABELS = (
    *("display_name", "full_name", "name", "title", "label", "subject", "headline", "username"),
    *("summary", "shortcode", "email", "content", "text", "phrase", "comment", "description"),
)
_LATER = {"end", "ends", "expire", "expires", "expiry", "due", "scheduled", "starts", "deadline"}
_FINE = {"lat", "latitude", "lon", "lng", "long", "longitude"}
_RANGES = (
    ({"lat", "latitude"}, (25, 48)),
    ({"lon", "lng", "long", "longitude"}, (-122, -71)),
    ({"count", "total", "size"}, (0, 400)),
    ({"year"}, (2012, 2026)),
    ({"rating", "stars", "score"}, (1, 5)),
    ({"percent", "percentage", "pct"}, (0, 100)),
    ({"price", "amount", "cost", "fee"}, (5, 200)),
)
_ORDERED = (("created", ("updated", "last", "modified", "closed", "ended")), ("start", ("end",)))
_CHOICE = re.compile(r"[\w .:/+-]{1,60}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_THEN = dt.datetime(2026, 3, 16)  # texts of rows are written once


@dataclass(frozen=True)
class DataColumn:
    name: str
    path: tuple[str, ...]  # in a response
    type: str  # as a world's file has it
    schema: JsonObject
    target: str = ""  # the table that it refers to

    @property
    def form(self) -> str:
        return self.type.partition("(")[0]

    @property
    def choices(self) -> list[str]:
        return [str(value) for value in self.schema.get("enum", ()) if value is not None]


@dataclass
class DataTable:
    """An entity on its way: columns by the path that a response has them under."""

    name: str
    about: str = ""
    names: set[str] = field(default_factory=set)  # of its records' properties
    paths: set[tuple[str, ...]] = field(default_factory=set)  # that list or hold its rows
    single: bool = False
    key: tuple[str, ...] = ()  # path of the key; none is shown without
    whole: bool = False  # whether keys are numbers
    columns: dict[tuple[str, ...], DataColumn] = field(default_factory=dict)
    marks: list[str] = field(default_factory=list)  # of rows that another path lists
    of: str = ""  # the table of whose rows each has one: relationships of accounts

    @property
    def noun(self) -> str:
        return singular(self.name)

    @property
    def key_field(self) -> str:
        return f"{self.noun}_id"

    @property
    def taken(self) -> set[str]:
        return {self.key_field, *(column.name for column in self.columns.values())}

    def column(self, name: str) -> DataColumn | None:
        """That of a parameter's name, in any spelling."""
        wanted = snake(name)
        shorter = wanted.removeprefix(f"{self.noun}_")
        for spelled in (wanted, shorter, f"{wanted}_id", wanted.removesuffix("s")):
            for each in self.columns.values():
                if spelled in (each.name, snake(each.path[-1])):
                    return each
        return None

    @property
    def label(self) -> DataColumn | None:
        texts = [c for c in self.columns.values() if c.type == "text" and c.path[-1] in _LABELS]
        return min(texts, key=lambda column: _LABELS.index(column.path[-1]), default=None)

    def truth(self, verb: str) -> DataColumn | None:
        """The truth that a verb sets: `muted` of mute."""
        truths = (c for c in self.columns.values() if c.type == "boolean")
        wanted = stem(verb.rpartition("_")[2])
        return next((c for c in truths if stem(c.path[-1]) == wanted), None)

    def state(self, verb: str) -> tuple[DataColumn, str] | None:
        """The state that a verb leads to: `canceled` of cancel."""
        wanted = stem(verb.rpartition("_")[2])
        for column in self.columns.values():
            for value in column.choices if column.form == "choice" else ():
                if stem(snake(value)) == wanted:
                    return column, value
        return None


class Tables:
    """The tables behind routes; and the table that each route returns rows of."""

    def __init__(self, routes: Sequence[ApiRoute]) -> None:
        self.routes = routes
        self.named: dict[str, DataTable] = {}
        self.returned: dict[str, DataTable] = {}  # by function
        self.pairs: dict[str, tuple[str, str]] = {}  # tables of who has whom
        for group in self._groups():
            table = self._table(group)
            self.returned |= {route.api.function: table for route in group}
        self._facets()
        for table in self.named.values():
            self._columns(table)

    def of(self, route: ApiRoute) -> DataTable | None:
        return self.returned.get(route.api.function)

    def owner(self, route: ApiRoute) -> DataTable | None:
        """The table of the row that a path's last place names."""
        held = (table for table in self.named.values() if route.collection in table.paths)
        return next(held, None) or self.named.get(route.under)

    def returning(self, table: DataTable) -> Iterator[ApiRoute]:
        return (route for route in self.routes if self.of(route) is table)

    def _groups(self) -> list[list[ApiRoute]]:
        """Routes whose records are alike."""
        groups: list[tuple[set[str], list[ApiRoute]]] = []
        for route in self.routes:
            if route.record is None:
                continue
            names = route.record.names
            for known, routes in groups:
                if alike(names, known):
                    known |= names
                    routes.append(route)
                    break
            else:
                groups.append((set(names), [route]))
        return [routes for _, routes in groups]

    def _table(self, routes: Sequence[ApiRoute]) -> DataTable:
        table = DataTable(self._name(routes))
        table.about = next((r.record.about for r in routes if r.record and r.record.about), "")
        table.names.update(*(route.record.names for route in routes if route.record))
        several = [route for route in routes if route.on_item or route.lists]
        listing = [route for route in several if route.method == "GET"]
        table.paths = {r.collection for r in listing if r.on_item or not r.places}
        table.single = not several and any(route.reads for route in routes)
        self.named[table.name] = table
        return table

    def _name(self, routes: Sequence[ApiRoute]) -> str:
        """As most paths call it, those before all that end in one of its rows or list them."""
        votes: Counter[str] = Counter()
        for route in routes:
            weight = 100 if route.on_item else 10 if route.lists else 1
            votes[route.under if route.on_item else route.last] += weight
        best = next((name for name, _ in votes.most_common() if name), "records")
        best = re.sub(r"^(get|list|find|search)_", "", best)[:30].strip("_")
        if not _NAME.fullmatch(best) or best in WORDS:
            best = f"the_{best}".strip("_")
        before = [r.collection[-2] for r in routes if len(r.collection) > 1]
        if best in self.named and before and _NAME.fullmatch(f"{before[0]}_{best}"):
            best = f"{before[0]}_{best}"
        while best in self.named:
            best += "_2"
        return best

    def _facets(self) -> None:
        """Tables that have a row for each of another: what verbs on accounts return."""
        for table in self.named.values():
            own = list(self.returning(table))
            verbs = [r.under for r in own if r.places and not r.on_item and not r.reads]
            owner = next((n for n in self.named if n in verbs and n != table.name), "")
            if owner and len(verbs) > 1 and not any(route.on_item for route in own):
                table.of, table.single = owner, False

    def _columns(self, table: DataTable) -> None:
        fields: dict[tuple[str, ...], JsonObject] = {}
        for route in self.returning(table):
            if route.record:
                fields = {**route.record.fields, **fields}
        keys = [*KEYS, table.key_field, f"{table.noun}id"]
        named = [p for p in fields if snake(p[-1]) in keys and is_scalar(fields[p])]
        if named:
            table.key = min(named, key=lambda path: (len(path), keys.index(snake(path[-1]))))
            table.whole = first_type(fields[table.key]) == "integer"
        for path, schema in fields.items():
            if path != table.key and len(table.columns) < FIELDS:
                column = self._column(table, path, schema)
                table.columns |= {path: column} if column else {}

    def _column(
        self, table: DataTable, path: tuple[str, ...], schema: JsonObject
    ) -> DataColumn | None:
        name = snake(path[-1])
        if not _NAME.fullmatch(name) or name in table.taken:
            name = snake("_".join(path))[:36].strip("_")
        name = f"{name}_" if name in WORDS else name
        if not _NAME.fullmatch(name):
            return None
        if target := self._linked(table, name, schema):
            named = name if name.endswith("_id") else f"{name}_id"
            column = DataColumn(named, path, f"-> {target.name}", schema, target.name)
            return None if named in table.taken or len(named) > 40 else column
        kind = type_of(name, schema)
        secret = name.endswith(("_id", "_ids", "_token", "_secret"))
        if not kind or secret or name in table.taken:
            return None
        column = DataColumn(name, path, kind, schema)
        if "text" in kind and _value(table, column, 1) is None:
            return None  # nothing tells what it might be
        return column

    def _linked(self, table: DataTable, name: str, schema: JsonObject) -> DataTable | None:
        """The table that a field refers to, by its name or its description; never in a circle."""
        nested, plain = first_type(schema) == "object", name.removesuffix("_id")
        if not nested and (plain == name or first_type(schema) not in ("string", "integer")):
            return None
        for other in self.named.values():
            close = plain == other.noun or plain.endswith(f"_{other.noun}")
            told = nested and other.about and other.about == about(schema)
            told = told or alike(as_dict(schema.get("properties")), other.names)
            if (close or told) and other.key and not self._leads(other, table, frozenset()):
                return other
        return None

    def _leads(self, table: DataTable, to: DataTable, seen: frozenset[str]) -> bool:
        """Whether references lead from one table to another."""
        targets = {c.target for c in table.columns.values() if c.target} - seen
        return table is to or any(
            self._leads(self.named[name], to, seen | {table.name}) for name in targets
        )

    # --- as a world's file has them

    def entities(self, said: str) -> JsonObject:
        """Those that operations name in what is `said` in them, and what these refer to."""
        used = {name for name in self.named if re.search(rf"\b{name}\b", said)}
        reached: set[str] = set()
        while used - reached:
            name = min(used - reached)
            reached.add(name)
            used |= {c.target for c in self.named[name].columns.values() if c.target}
            used |= {self.named[name].of} - {""}
        found = {name: self._entity(t) for name, t in self.named.items() if name in used}
        for name, (owner, other) in self.pairs.items():
            if re.search(rf"\b{name}\b", said):
                fields = {WHO: f"-> {owner}", WHOM: f"-> {other}"}
                rows = f"1..3 per {WHO}"
                called = "{pair_id}"
                found[name] = {"key": "pair_id #1", "called": called, "rows": rows} | {
                    "fields": fields
                }
        return found

    def _entity(self, table: DataTable) -> JsonObject:
        start = rng_for("inference", table.name).randrange(10_000, 90_000)
        label, spoken = table.label, table.noun.replace("_", " ")
        rows = [] if table.of else _rows(table, label)
        low, high = (min(most, len(rows) or most) for most in DRAWN)
        fields: dict[str, str] = {}
        if table.of:
            fields[self.named[table.of].key_field] = f"-> {table.of} unique"
        for column in table.columns.values():
            may = " optional" if "text" in column.type or column.target else ""
            fields[column.name] = f"{column.type}{' label' if column is label else ''}{may}"
        many = f"1 per {self.named[table.of].key_field}" if table.of else f"{low}..{high}"
        made: JsonObject = {
            "key": f"{table.key_field} {start if table.whole else f'#{start}'}",
            "noun": table.noun,
            "called": f"{{{label.name}}}" if label else f"{spoken} {{{table.key_field}}}",
            "rows": "1" if table.single else many,
            "fields": fields | dict.fromkeys(table.marks, "boolean"),
            "views": {"full": self._view(table), "brief": self._view(table, brief=True)},
        }
        made |= {"rules": rules} if (rules := _rules(table)) else {}
        return made | ({"data": rows} if rows else {})

    def _view(self, table: DataTable, brief: bool = False) -> str:
        """What is shown of a row, with the nesting that responses have."""
        tree: dict[str, Any] = {}
        owner = self.named[table.of] if table.of else table
        shown = {table.key: f"this.{owner.key_field}"} if table.key else {}
        for column in table.columns.values():
            term = f"this.{column.name}"
            if column.target and first_type(column.schema) == "object":
                term += "[brief]"
            elif column.form == "datetime":
                term = f"stamp({term})"
            if not (column.target and brief):
                shown[column.path] = term
        for path, term in shown.items():
            at = tree
            for name in path[:-1]:
                at = inner if isinstance(inner := at.setdefault(name, {}), dict) else {}
            at.setdefault(path[-1], term)

        def said(part: Any) -> str:
            return part if isinstance(part, str) else f"this[{listed(part)}]"

        def listed(part: Mapping[str, Any]) -> str:
            return ", ".join(f"{said(inner)} as {name}" for name, inner in part.items())

        return listed(tree)


def type_of(name: str, schema: JsonObject) -> str:
    """The type of a field as a world's file says it; nothing for one that it cannot hold."""
    form, words = first_type(schema), set(name_words(name))
    if form == "array":
        return "list of text" if first_type(as_dict(schema.get("items"))) == "string" else ""
    if form in ("integer", "number"):
        usual = next((span for names, span in _RANGES if words & names), (1, 60))
        bounds = [schema.get("minimum"), schema.get("maximum")]
        low, high = (
            told if isinstance(told, int | float) and abs(told) < 10**9 else common
            for told, common in zip(bounds, usual, strict=True)
        )
        step = " by 0.01" if form == "number" and words & _FINE else ""
        return f"{form}({low}..{max(low, high)}{step})"
    if form != "string":
        return "boolean" if form == "boolean" else ""
    choices = [value for value in schema.get("enum", ()) if isinstance(value, str)]
    if choices and all(_CHOICE.fullmatch(value) for value in choices) and len(choices) <= 24:
        return f"choice({', '.join(choices)})"
    moment = name.endswith("_at") or name in MOMENTS
    kind = {"date": "date", "date-time": "datetime"}.get(str(schema.get("format")), "")
    if kind := kind or ("datetime" if moment else "date" if name in DAYS else ""):
        return f"{kind}(1..30)" if words & _LATER else f"{kind}(-60..-1)"
    return "" if schema.get("format") in ("password", "binary", "byte") else "text"


def _rows(table: DataTable, label: DataColumn | None) -> list[JsonObject]:
    """Rows with their texts: what the document or a vocabulary knows of them."""
    texts = [c for c in table.columns.values() if c.type in ("text", "list of text")]
    rows: dict[str, JsonObject] = {}
    for number in range(ROWS * 4 if texts else 0):
        row = {c.name: _value(table, c, number) for c in texts}
        row = {name: value for name, value in row.items() if value is not None}
        rows.setdefault(str(row.get(label.name)) if label else str(number), row)
        if len(rows) == ROWS:
            break
    return list(rows.values())


def _value(table: DataTable, column: DataColumn, number: int) -> Any:
    """A text, or several, as the field's name, format or examples tell; nothing if they do not. The
    name of a customer is one of a person, as a customer is."""
    name = column.path[-1]
    of = table.noun if name == "name" and by_name(table.noun) else name
    rng = rng_for("inference", table.name, column.name, number)
    try:
        value = draw_value(of, column.schema, rng, _THEN)
    except NoValue:
        return None
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def _rules(table: DataTable) -> list[str]:
    """What comes first is no later: created before updated, start before end."""
    moments = [c for c in table.columns.values() if c.form in ("date", "datetime")]
    return [
        f"{one.name} <= {two.name}"
        for before, after in _ORDERED
        for one in moments
        for two in moments
        if one.name.startswith(before) and one.form == two.form and two.name.startswith(after)
    ]
