"""The operations behind a document: what methods and paths do to tables.

`GET /pets/{id}` finds a row by its key, `GET /pets` lists rows under the parameters that are
fields; `POST`, `PUT`, `PATCH` and `DELETE` make, change and delete one; `POST
/statuses/{id}/bookmark` sets the field `bookmarked`, and `GET /bookmarks` lists the rows in which
it is set.
"""

from __future__ import annotations

import json
import re
from typing import Any

from toolloom.agents.author import document_of
from toolloom.pipeline.checks.schema import as_dict, first_type
from toolloom.pipeline.worlds.inference.routes import KEYS, PLAIN, ApiRoute, snake
from toolloom.pipeline.worlds.inference.tables import (
    WHO,
    WHOM,
    DataColumn,
    DataTable,
    Tables,
    type_of,
)
from toolloom.schemas import JsonObject

_SEARCH = ("q", "query", "search", "keyword", "keywords", "term", "words", "text")
_LIMITS = ("limit", "per_page", "page_size", "max_results", "count", "size")
_OWN = {"me", "self", "current", "profile", "verify_credentials", "whoami"}
_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


class NotInferred(Exception):
    """Why an operation stays as it is."""


def operation_of(route: ApiRoute, tables: Tables) -> tuple[JsonObject, JsonObject]:
    """An operation as a world's file has it, and its promise. Raises NotInferred."""
    return _OperationDraft(route, tables).made()


class _OperationDraft:
    """An operation on its way: arguments, steps, what it returns, and its promise."""

    def __init__(self, route: ApiRoute, tables: Tables) -> None:
        self.route, self.tables = route, tables
        self.table = tables.of(route)
        self.args: dict[str, str] = {}
        self.steps: list[JsonObject] = []
        self.returns: Any = None
        self.shows: Any = None  # if a promise says it in another way
        self.effects: list[str] = []
        self.after: list[str] = []
        self.only_if: dict[str, str] = {}

    def made(self) -> tuple[JsonObject, JsonObject]:
        api = self.route.api
        if not _TOOL.fullmatch(api.function) or not self.route.method.isalpha():
            raise NotInferred("it has no method and path")
        if not self.route.reads:
            self.write()
        elif self.table is None:
            raise NotInferred("its response has no fields that a row could have")
        elif self.route.lists:
            self.list_rows(self.table)
        else:
            self.show(self.one(self.table))
        for name in api.required:
            if name not in self.args:
                raise NotInferred(f"nothing tells what its argument {name} does")
        spec: JsonObject = {
            "about": api.description or api.function,
            "args": self.args,
            "steps": self.steps,
            "returns": self.returns,
            "document": document_of(api),
        }
        promise: JsonObject = {
            "effects": self.effects,
            "only_if": self.only_if,
            "after": self.after,
            "shows": self.shows or self.returns,
        }
        kept: tuple[JsonObject, JsonObject] = json.loads(json.dumps([_full(spec), _full(promise)]))
        return kept  # nothing of it twice, or the file would have anchors

    # --- reads

    def one(self, table: DataTable) -> str:
        """The row that is returned, as a term: that of the path, the only one, or one's own."""
        route = self.route
        if not route.places:
            if not table.single and not _OWN & set(route.statics):
                raise NotInferred("nothing says which row it returns")
            if route.api.properties:
                raise NotInferred("what it returns depends on its arguments")
            return f"first({table.name})"
        if len(route.places) > 1:
            raise NotInferred("its path names rows of several tables")
        owner, place = self.tables.owner(route), route.places[0]
        if owner is not None and owner is not table:
            if table.of != owner.name:
                raise NotInferred(f"its path is under {owner.name}, and it returns {table.noun}")
            return self.facet(table, owner)
        column = None if snake(place) in (*KEYS, table.key_field) else table.column(place)
        if column is not None and column.type == "text":
            return self.found(table, f"r.{column.name} = {self.argument(place, 'text')}")
        if not table.key:
            raise NotInferred(f"its path names a {table.noun} by what no response shows")
        return self.named_row(table)

    def named_row(self, table: DataTable) -> str:
        """The row that the path's place names."""
        place = self.route.places[-1]
        self.argument(place, f"-> {table.name}")
        return place.removesuffix("_id")

    def facet(self, table: DataTable, owner: DataTable) -> str:
        """The row that goes with the one that the path names."""
        self.named_row(owner)
        return f"first({table.name} as f where f.{owner.key_field} = ${self.route.places[-1]})"

    def found(self, table: DataTable, clause: str) -> str:
        """The row that a clause holds for, and an error where there is none."""
        unknown, rows = f"unknown_{table.noun}", f"{table.name} as r where {clause}"
        text = f"{unknown}: There is no such {table.noun.replace('_', ' ')}."
        self.steps.append({"find": rows, "as": table.noun, "else": text})
        self.only_if[unknown] = f"count({rows}) > 0"
        return f"first({rows})"

    def list_rows(self, table: DataTable) -> None:
        where, limit = [self.part(table)], ""
        if self.route.places:
            where.append(self.below(table))
        for name, schema in self.left():
            if (
                first_type(schema) == "integer"
                and name.lower() in _LIMITS
                and PLAIN.fullmatch(name)
            ):
                limit = f" limit {self.argument(name, 'integer(1..40)')}"
            else:
                where.append(self.filter(table, name, schema))
        said = " and ".join(filter(None, where))
        self.show(f"{table.name} as r{' where ' + said if said else ''}{limit} ")

    def part(self, table: DataTable) -> str:
        """What the rows of a list have in common, where it is not that of all rows: `/mutes`."""
        mark = mark_of(self.route, self.tables)
        if mark:
            return f"r.{mark}"
        if is_part(self.route, self.tables) and (found := held_by(self.route, self.tables)):
            facet, column = found
            key = table.key_field
            return f"count({facet.name} as f where f.{key} = r.{key} and f.{column.name}) > 0"
        return ""

    def below(self, table: DataTable) -> str:
        """What rows have in common that a path lists under another."""
        owner, place = self.tables.owner(self.route), self.route.places[-1]
        if len(self.route.places) > 1:
            raise NotInferred("its path names rows of several tables")
        if owner is None or not owner.key:
            column = table.column(place)
            if column and column.type == "text":
                return f"r.{column.name} = {self.argument(place, 'text')}"
            raise NotInferred("its path names what no response shows")
        self.named_row(owner)
        columns = [each for each in table.columns.values() if each.target == owner.name]
        if len(columns) == 1 and owner is not table:
            return f"r.{columns[0].name} = ${place}"
        pair = f"{owner.noun}_{self.route.last}"[:36].strip("_")
        self.tables.pairs[pair] = (owner.name, table.name)
        return f"count({pair} as p where p.{WHO} = ${place} and p.{WHOM} = r.{table.key_field}) > 0"

    def filter(self, table: DataTable, name: str, schema: JsonObject) -> str:
        """What a parameter asks of rows; nothing if no field tells."""
        kind, plain = type_of(name, schema), snake(name)
        if not PLAIN.fullmatch(name):
            return ""
        if plain in _SEARCH and first_type(schema) == "string" and (label := table.label):
            return f"r.{label.name} has {self.argument(name, 'text')}"
        target = self.tables.named.get(table.of, table)
        if plain.removesuffix("s") in (*KEYS, table.key_field) and (table.key or table.of):
            if kind == "list of text":
                said = self.argument(name, f"list of -> {target.name}")
                return f"r.{target.key_field} in {said}"
            return f"r.{target.key_field} = {self.argument(name, f'-> {target.name}')}"
        column = table.column(name)
        if column is None or (not column.target and not _same_type(column, kind, schema)):
            return ""
        return f"r.{column.name} = {self.argument(name, _asked(column, kind))}"

    # --- writes

    def write(self) -> None:
        route, table = self.route, self.table
        if not route.places:
            if table and (table.single or route.method == "PATCH"):
                self.update(table, f"first({table.name})", {})
            elif route.method == "POST":
                self.create(table or self.tables.named.get(route.last))
                return
            else:
                raise NotInferred("its path names no row of a table")
            self.show(f"first({table.name})")
            return
        target = self.tables.owner(route) or (table if route.on_item else None)
        if target is None or not target.key or len(route.places) > 1:
            raise NotInferred("its path names no row of a table")
        facet = table if table and table.of == target.name else target
        if table not in (None, target, facet):
            raise NotInferred(f"it returns no {target.noun}")
        row = self.named_row(target) if facet is target else self.facet(facet, target)
        mark = self.through(target)
        if mark and (route.method == "DELETE" or not route.on_item):
            self.update(target, row, {mark: "false"})
        elif route.on_item and route.method == "DELETE":
            self.delete(target, row)
        else:
            self.update(facet, row, {} if route.on_item else self.act(facet))
        if table is not None and not (route.on_item and route.method == "DELETE"):
            self.show(row)

    def through(self, table: DataTable) -> str:
        """The mark of the list that a path goes through, where that is no list of all rows."""
        for route in self.tables.returning(table):
            if route.collection == self.route.collection and route.lists and not route.places:
                mark = mark_of(route, self.tables)
                return mark if mark in table.marks else ""
        return ""

    def act(self, table: DataTable) -> dict[str, str]:
        """What a verb on a row sets: `POST /statuses/{id}/bookmark`."""
        verb = self.route.last
        done = not verb.startswith("un") and self.route.method != "DELETE"
        column = table.truth(verb.removeprefix("un"))
        if column is None and (column := table.truth(f"un{verb}")):
            done = not done
        if column:
            return {column.name: str(done).lower()}
        if state := table.state(verb.removeprefix("un")):
            column, value = state
            before = next(each for each in [*column.choices, value] if each != value or done)
            return {column.name: f"'{value if done else before}'"}
        text = table.column(verb)
        texts = [name for name, schema in self.left() if type_of(name, schema) == "text"]
        if text and text.type == "text" and len(texts) == 1:
            return {text.name: self.argument(texts[0], "text")}
        if not any(table.column(name) for name, _ in self.left()):
            raise NotInferred(f"no field tells whether one was to {verb.replace('_', ' ')}")
        return {}

    def update(self, table: DataTable, row: str, sets: dict[str, str]) -> None:
        sets = self.said(table) | sets
        if not sets:
            raise NotInferred("none of its arguments is a field of what it changes")
        self.steps.append({"update": row, "set": sets})
        self.effects += [f"{table.name} {name} set" for name in sets]
        self.after += [f"{row}.{name} = {value}" for name, value in sets.items()]

    def create(self, table: DataTable | None) -> None:
        if table is None or table.of or (self.table is None and self.route.api.returns):
            raise NotInferred("what it makes is in no table")
        sets = self.said(table)
        if not sets:
            raise NotInferred("none of its arguments is a field of what it makes")
        for column in table.columns.values():
            said, otherwise = sets.get(column.name), _at_first(column)
            if said and self.args[said[1:]].endswith(" optional") and otherwise != "nothing":
                sets[column.name] = f"if({said} is given, {said}, {otherwise})"
            elif not said:
                sets[column.name] = otherwise
        sets |= dict.fromkeys(table.marks, "false")
        self.steps.append({"create": table.name, "as": "made", "set": sets})
        self.effects.append(f"{table.name} created")
        count = f"count({table.name})"
        self.after.append(f"{count} = was({count}) + 1")
        if self.table is not None:
            self.show("made")
            self.shows = self.wrapped(f"first({table.name} by {table.key_field} desc)[full]")

    def delete(self, table: DataTable, row: str) -> None:
        """Delete a row, and what leans on it: no reference may be left that leads nowhere."""
        tables = self.tables
        hanging = [(t.name, table.key_field) for t in tables.named.values() if t.of == table.name]
        for pair, ends in tables.pairs.items():
            hanging += [
                (pair, c) for c, t in zip((WHO, WHOM), ends, strict=True) if t == table.name
            ]
        for name, column in hanging:
            self.each_leaning(name, column, {"delete": "leaning"}, f"{name} deleted")
        for each in tables.named.values():
            for column in (c.name for c in each.columns.values() if c.target == table.name):
                change = {"update": "leaning", "set": {column: "nothing"}}
                self.each_leaning(each.name, column, change, f"{each.name} {column} set")
        self.steps.append({"delete": row})
        self.effects.append(f"{table.name} deleted")
        self.after.append(f"count({table.name}) = was(count({table.name})) - 1")

    def each_leaning(self, name: str, column: str, change: JsonObject, effect: str) -> None:
        rows = f"{name} as l where l.{column} = ${self.route.places[-1]}"
        self.steps.append({"each": rows, "as": "leaning", "do": [change]})
        self.effects.append(effect)

    def said(self, table: DataTable) -> dict[str, str]:
        """New values of fields, by the arguments that say them."""
        sets: dict[str, str] = {}
        for name, schema in self.left():
            column, kind = table.column(name) or self.meant(table, name), type_of(name, schema)
            fits = column and (column.target or _same_type(column, kind, schema))
            if column and fits and PLAIN.fullmatch(name):
                sets[column.name] = self.argument(name, _asked(column, kind))
        return sets

    def meant(self, table: DataTable, name: str) -> DataColumn | None:
        """The one reference that an argument can mean: `account_id` of `target_account_id`."""
        nouns = {t.name for t in self.tables.named.values() if f"{t.noun}_id" == snake(name)}
        found = [c for c in table.columns.values() if c.target in nouns]
        return found[0] if len(found) == 1 else None

    # --- what all have

    def left(self) -> list[tuple[str, JsonObject]]:
        properties = self.route.api.properties.items()
        return [(name, as_dict(schema)) for name, schema in properties if name not in self.args]

    def argument(self, name: str, kind: str) -> str:
        """Add an argument. Raises NotInferred for a name that no term can say."""
        if not PLAIN.fullmatch(name):
            raise NotInferred(f"its argument {name} has a name that no term of a world can say")
        self.args[name] = kind if name in self.route.api.required else f"{kind} optional"
        return f"${name}"

    def show(self, row: str) -> None:
        self.returns = self.wrapped(f"{row}[full]")

    def wrapped(self, term: str) -> Any:
        """A term in the objects that a response has around its record."""
        made: Any = term
        for name in reversed(self.route.record.wrap if self.route.record else ()):
            made = {name: made}
        return made


def is_part(route: ApiRoute, tables: Tables) -> bool:
    """Whether a list is not that of all rows of its table."""
    table = tables.of(route)
    if table is None or route.places or route.last in ("", table.name, "search"):
        return False
    lists = [r for r in tables.returning(table) if r.lists and not r.places]
    whole = [r for r in lists if r.last == table.name] or lists
    return route is not whole[0]


def held_by(route: ApiRoute, tables: Tables) -> tuple[DataTable, DataColumn] | None:
    """A truth in the table that goes with a list's own: `/blocks` of the relationships."""
    table = tables.of(route)
    facets = (each for each in tables.named.values() if table and each.of == table.name)
    found = ((facet, column) for facet in facets if (column := facet.truth(route.last)))
    return next(found, None)


def mark_of(route: ApiRoute, tables: Tables) -> str:
    """The truth that the rows of a list have in common, where it is not that of all rows."""
    table = tables.of(route)
    if table is None or not is_part(route, tables) or held_by(route, tables):
        return ""
    if column := table.truth(route.last):
        return column.name
    mark = f"in_{route.last}"[:36].strip("_")
    if mark not in table.marks:
        table.marks.append(mark)
    return mark


def _full(parts: JsonObject) -> JsonObject:
    """Without what is empty, but for those that must be there."""
    return {name: part for name, part in parts.items() if part or name in ("args", "effects")}


def _same_type(column: DataColumn, kind: str, schema: JsonObject) -> bool:
    """Whether a parameter has the values of a field."""
    form = kind.partition("(")[0]
    if form == "choice" == column.form:
        return set(schema["enum"]) <= set(column.choices)
    return bool(form) and form == column.form


def _asked(column: DataColumn, kind: str) -> str:
    """The type of an argument that is a field: its bounds say nothing of what may be asked."""
    if column.target:
        return f"-> {column.target}"
    return kind if kind.startswith("choice") else kind.partition("(")[0]


def _at_first(column: DataColumn) -> str:
    """What a field of a new row is, where nobody says it."""
    if column.form == "choice":
        return f"'{column.choices[0]}'"
    constants = {"boolean": "false", "integer": "0", "number": "0", "date": "today"}
    return {**constants, "datetime": "now"}.get(column.form, "nothing")
