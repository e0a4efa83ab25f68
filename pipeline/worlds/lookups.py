"""How somebody comes to a key: the reads of a world that show it, and how people name its row.

Nobody knows an id. People say "my order of March 3", "the one with the blanket", "Anna Rossi"; a
read that shows the key beside those values turns them into it. All of this follows from a world's
operations and is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from toolloom.pipeline.checks.world.grammar import NUMBERS, Kind, Tree
from toolloom.pipeline.checks.world.interpreter import (
    Frame,
    Json,
    Machine,
    Row,
    Term,
    as_term,
    names_one,
    nodes,
)

Path = tuple[str | int, ...]
FieldOf = tuple[str, str]  # an entity and one of its fields

LONGEST = 48  # letters of a value that somebody would say of a row
_SIGNS = {"=": "=", "same": "=", "has": "has", ">=": ">=", ">": ">=", "<=": "<=", "<": "<="}
_TURNED = {">=": "<=", "<=": ">="}


@dataclass(frozen=True)
class ShownKey:
    """A key in a response: its row's entity, where it stands, and what is said beside it."""

    entity: str
    key: str
    path: Path
    item: Row  # the object that holds it
    kind: Kind  # of that object
    values: frozenset[str]  # texts of the object, of what it holds and of what holds it


@dataclass(frozen=True)
class SearchFilter:
    """An argument that narrows a search, and what it is compared with in a row that is found."""

    argument: str
    sign: str  # =, has, >=, <=, some (a key among those of other rows)
    tree: Tree
    values: Term

    def of(self, frame: Frame, alias: str, row: Row) -> list[Json]:
        """What the argument is compared with in a row."""
        frame.vars[alias] = row
        found = self.values(frame)
        del frame.vars[alias]
        return [] if found is None else found if self.sign == "some" else [found]


@dataclass(frozen=True)
class Search:
    """A read that lists rows under conditions."""

    entity: str
    alias: str
    rows: Term  # of the conditions whose arguments are given
    filters: tuple[SearchFilter, ...]
    own: bool  # lists rows of the one who speaks


class Lookups:
    """What a world's reads show."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        operations = machine.world["operations"]
        self.writes = [name for name, each in machine.operations.items() if each.changes]
        self.reads = [name for name in operations if name not in self.writes]
        self.searches = {
            name: search
            for name in self.reads
            if (search := _search(operations[name]["returns"])) is not None
        }
        self.listed = {name: _listed(operations[name]["shape"]) for name in self.searches}
        """The entity whose rows a search lists: the first whose key an item shows."""
        self.ways: dict[str, list[str]] = {name: [] for name in machine.entities}
        for name in self.reads:
            for entity in {entity for entity, _ in _keys_of_shape(operations[name]["shape"])}:
                self.ways[entity].append(name)
        self.labels = {name: self._label(name) for name in machine.entities}
        self.own = {
            name for name, e in machine.entities.items() if e.owner and name != machine.actor
        }
        self.mine = self.own | {
            entity for name, entity in self.listed.items() if self.searches[name].own and entity
        }
        """Entities of which people speak as theirs: owned, or listed for whoever asks."""
        self.named = self.own | {
            name
            for name, entity in machine.entities.items()
            if any(kind.get("label") for kind in entity.fields.values())
        }
        """Entities whose rows people name before they have seen them listed; of the others they
        choose one from a list."""
        self.shown = {
            name: frozenset(_shown_fields(spec["returns"], {"me": machine.actor or ""}))
            for name, spec in operations.items()
        }
        self.policies = {
            name: [p for p in machine.world["policies"] if name in p["calls"]]
            for name in operations
        }
        self.changed = {
            field
            for spec in operations.values()
            for _, entity, _, fields, _ in (n for n in nodes(spec["steps"]) if n[0] == "update")
            for field in fields
            if entity == machine.actor
        }
        """Fields of one's own row that operations change: nobody asks for the others."""
        self.grounds = {
            (name, says): self._grounds(name, says)
            for name in operations
            for says in ("", *(policy["says"] for policy in self.policies[name]))
        }
        """What has to be seen before an operation is called or agreed to; before it is refused, by
        what the policy says."""
        self.musts = {
            name: [
                (policy["says"], as_term(tree), scanned(tree))
                for policy in self.policies[name]
                for _, tree in policy.get("must", {}).get(name, ())
            ]
            for name in operations
        }

    def deciding(self, name: str, says: str = "") -> list[Tree]:
        """What policies, or the one that says so, want to be true before a call."""
        policies = [p for p in self.policies[name] if says in ("", p["says"])]
        return [tree for p in policies for _, tree in p.get("must", {}).get(name, ())]

    def _grounds(self, name: str, says: str) -> frozenset[FieldOf]:
        """The fields on which policies depend, or one does, those of either side of an `if` too;
        where a yes is wanted, also those of which the change makes its amounts. Only such as a
        read shows."""
        spec = self.machine.world["operations"][name]
        names = {"me": self.machine.actor or ""} | {
            kind["as"]: kind["entity"] for kind in spec["args"].values() if kind.get("as")
        }
        trees = self.deciding(name, says)
        if not says and any(policy.get("consent") for policy in self.policies[name]):
            trees += self._amounts(spec["steps"])
        keys = {entity.key for entity in self.machine.entities.values()}
        reads = {field for tree in trees for field in fields_read(tree, names)}
        read = frozenset().union(*(self.shown[each] for each in self.reads))
        searched = {entity for tree in trees for entity in scanned(tree)}
        return frozenset(f for f in reads & read if f[1] not in keys and f[0] not in searched)

    def _amounts(self, steps: Json) -> Iterator[Tree]:
        """What a change computes: named values, and amounts that it sets."""
        for step in steps:
            if step[0] == "let":
                yield step[2]
            elif step[0] == "when":
                yield from self._amounts([step[2]])
            elif step[0] == "each":
                yield from self._amounts(step[4])
            elif step[0] in ("create", "update"):
                kinds = self.machine.entities[step[1]].fields
                yield from (tree for f, tree in step[3].items() if kinds[f]["type"] in NUMBERS)

    def _label(self, entity: str) -> list[tuple[str, Term]]:
        """The values of which a person makes a row's name, without their own name."""
        called = self.machine.world["entities"][entity].get("called")
        parts = called[1:] if called and called[0] == "text" else [called] if called else []
        return [
            (_path_of(part), as_term(part))
            for part in parts
            if part[0] != "value"
            and (
                entity == self.machine.actor
                or not any(n[0] == "hop" and n[2] == self.machine.actor for n in nodes(part))
            )
        ]

    def holders(self, entity: str, other: str, key: str, frame: Frame) -> list[str]:
        """Rows of one's own through which a key is shown, such as the order that holds a line."""
        near: set[str] = set()
        if entity not in self.own:
            return []
        for between, column in self.machine.entities[other].pointed_at:
            for row in frame.tables[between].by(column).get(key, ()):
                references = self.machine.entities[between].references.items()
                near |= {row[f] for f, to in references if to == entity}
        table = frame.tables[entity]
        return sorted(k for k in near if self.machine.owned(frame, entity, table[k]))

    def label(self, entity: str, row: Row, frame: Frame) -> list[tuple[str, Json]]:
        """How a row is called, by field."""
        frame.vars["this"] = row
        values = [(name, term(frame)) for name, term in self.labels[entity]]
        frame.vars.pop("this")
        return [(name, value) for name, value in values if value is not None]


@lru_cache(maxsize=16)
def lookups_of(machine: Machine) -> Lookups:
    return Lookups(machine)


def keys_shown(
    kind: Kind, value: Json, path: Path = (), above: tuple[str, ...] = ()
) -> Iterator[ShownKey]:
    """Every key in a response, those in lists inside lists too."""
    if kind["type"] == "list":
        for number, item in enumerate(value or ()):
            yield from keys_shown(kind["of"], item, (*path, number), above)
    elif kind["type"] == "object" and isinstance(value, dict):
        own = tuple(v for v in value.values() if isinstance(v, str))
        values: frozenset[str] | None = None
        for name, inner in kind["fields"].items():
            if name not in value:
                continue
            if inner["type"] == "ref":
                if values is None:
                    values = frozenset((*above, *texts_in(value)))
                yield ShownKey(inner["entity"], value[name], (*path, name), value, kind, values)
            elif inner["type"] in ("list", "object"):
                yield from keys_shown(inner, value[name], (*path, name), (*above, *own))


def keys_in(args: Row, kinds: dict[str, Kind], path: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Every key among arguments: where it stands, of which entity, and itself."""
    for name, kind in kinds.items():
        if name in args:
            yield from _keys_of(args[name], kind, (*path, name))


def _keys_of(value: Json, kind: Kind, path: Path) -> Iterator[tuple[Path, str, str]]:
    if kind["type"] == "ref":
        yield path, kind["entity"], value
    elif kind["type"] == "list":
        for number, item in enumerate(value):
            yield from _keys_of(item, kind["of"], (*path, number))
    elif kind["type"] == "object":
        yield from keys_in(value, kind["fields"], path)


def leaves(kind: Kind, value: Json, path: Path = ()) -> Iterator[tuple[Path, Kind, Json]]:
    """Every value of a response that is no list and no object, with its type."""
    if kind["type"] == "list":
        for number, item in enumerate(value or ()):
            yield from leaves(kind["of"], item, (*path, number))
    elif kind["type"] == "object" and isinstance(value, dict):
        for name, inner in kind["fields"].items():
            if name in value:
                yield from leaves(inner, value[name], (*path, name))
    elif value is not None:
        yield path, kind, value


def scanned(tree: Json) -> set[str]:
    """The entities whose rows a tree searches."""
    return {node[1] for node in nodes(tree) if node[0] == "table"}


def fields_read(tree: Json, names: dict[str, str]) -> set[FieldOf]:
    """The fields of rows on which a tree depends; `names`: the entities of named rows."""
    found: set[FieldOf] = set()
    _walk(tree, names, found)
    return found


def form_of(one: SearchFilter, kind: Kind) -> str:
    """What a condition is about, for whoever chooses conditions."""
    form = kind["type"]
    if one.sign == "has":
        return "words" if form == "text" else "choice"
    if form == "ref":
        return "key"
    if form == "choice" and one.tree[0] == "field" and one.tree[1][0] == "hop":
        return "subject"
    if form == "choice":
        return "weekday" if one.tree[0] == "weekday" else "choice"
    return {"date": "day", "datetime": "day", "time": "clock"}.get(form, "other")


def alike(kind: Kind, other: Kind) -> bool:
    """Whether two lists hold the same kind of keys."""
    if other["type"] != "list":
        return False
    one, two = kind["of"], other["of"]
    if one["type"] == "object" and two["type"] == "object":
        return {n: f.get("entity") for n, f in one["fields"].items()} == {
            n: f.get("entity") for n, f in two["fields"].items()
        }
    return bool(one["type"] == two["type"] and one.get("entity") == two.get("entity"))


def spoken(shown: ShownKey) -> list[tuple[str, str]]:
    """Names and choices in an item, by which somebody might tell it from others."""
    found = {}
    for path, kind, value in leaves(shown.kind, shown.item):
        spoken = kind["type"] == "choice" or kind.get("label")
        if spoken and isinstance(value, str) and len(value) <= LONGEST:
            found[value] = ".".join(str(part) for part in path if isinstance(part, str))
    return [(name, value) for value, name in found.items()]


def flat(values: list[Json]) -> list[Json]:
    """Values, and those that stand in lists among them."""
    return [v for value in values for v in (value if isinstance(value, list) else [value])]


# --- trees -----------------------------------------------------------------------------------


def _walk(tree: Json, names: dict[str, str], found: set[FieldOf]) -> str:
    """Note the fields that a tree reads; the entity of the row that it gives, or ""."""
    if not isinstance(tree, list) or not tree:
        return ""
    form = tree[0]
    if form == "value":
        return ""
    if form == "var":
        return names.get(tree[1], "")
    if form == "field":
        entity = _walk(tree[1], names, found)
        if entity:
            found.add((entity, tree[2]))
        return ""
    if form == "hop":
        _walk(tree[1], names, found)
        return str(tree[2])
    if form in ("list", "count", "sum", "min", "max", "first"):
        _, source, alias, *rest = tree
        entity = source[1] if source[0] == "table" else _walk(source, names, found)
        for part in rest:
            _walk(part, {**names, alias: entity}, found)
        return entity
    if form == "shown":
        entity = _walk(tree[2], names, found)
        _walk(tree[3], {**names, tree[1]: entity}, found)
        return ""
    entities = [_walk(part, names, found) for part in tree if isinstance(part, list)]
    return next(filter(None, entities), "") if form in ("if", "first") else ""


def _shown_fields(tree: Json, names: dict[str, str]) -> Iterator[FieldOf]:
    """The fields that a response repeats, or says something of."""
    if not isinstance(tree, list) or not tree:
        return
    if tree[0] == "list" and tree[6] is not None:
        entity = tree[1][1] if tree[1][0] == "table" else ""
        yield from _shown_fields(tree[6], {**names, tree[2]: entity})
    elif tree[0] == "shown":
        entity = _walk(tree[2], names, set())
        yield from _shown_fields(tree[3], {**names, tree[1]: entity})
    elif tree[0] == "view":
        for _, part in tree[1]:
            if part[0] == "field":
                entity = _walk(part[1], names, set())
                if entity:
                    yield entity, part[2]
            elif part[0] in ("list", "shown", "view"):
                yield from _shown_fields(part, names)
            else:
                yield from fields_read(part, names)


def _hops(tree: Json) -> set[str]:
    """The entities to whose rows a tree follows references."""
    return {node[2] for node in nodes(tree) if node[0] == "hop"}


def _path_of(tree: Json) -> str:
    """A term as people read it: `product.name`."""
    if tree[0] == "hop":
        return _path_of(tree[1]).removesuffix("_id")
    if tree[0] == "field":
        before = _path_of(tree[1])
        return f"{before}.{tree[2]}" if before else str(tree[2])
    return "" if tree[0] == "var" else next((_path_of(t) for t in tree if isinstance(t, list)), "")


def _search(returns: Json) -> Search | None:
    if not returns or returns[0] != "list" or returns[1][0] != "table":
        return None
    _, source, alias, clause, *_ = returns
    conjuncts = clause[1:] if clause and clause[0] == "and" else [clause] if clause else []
    filters = [found for part in conjuncts if (found := _filter(part, alias)) is not None]
    rows = as_term(["list", source, alias, clause, [], None, None])
    return Search(source[1], alias, rows, tuple(filters), names_one(clause, "me"))


def _filter(part: Tree, alias: str) -> SearchFilter | None:
    if part[0] == "skip":
        part = part[2]
    if part[0] == "or":
        found = [_filter(inner, alias) for inner in part[1:]]
        return next((f for f in found if f and f.sign == "has"), None)
    if part[0] == ">" and part[1][0] == "count" and part[2] == ["value", 0]:
        return _some(part[1])
    if part[0] not in _SIGNS:
        return None
    sign = _SIGNS[part[0]]
    for side, other, turned in (
        (part[2], part[1], sign),
        (part[1], part[2], _TURNED.get(sign, sign)),
    ):
        if side[0] == "arg" and names_one(other, alias):
            return SearchFilter(side[1], turned, other, as_term(other))
    return None


def _some(count: Tree) -> SearchFilter | None:
    """Of `count(rows where key = $argument) > 0`."""
    _, source, alias, clause = count
    conjuncts = clause[1:] if clause and clause[0] == "and" else [clause] if clause else []
    for number, part in enumerate(conjuncts):
        inner = part[2] if part[0] == "skip" else part
        if inner[0] == "=" and inner[2][0] == "arg":
            rest = ["and", *conjuncts[:number], *conjuncts[number + 1 :]]
            rows = as_term(["list", source, alias, rest, [], None, inner[1]])
            return SearchFilter(inner[2][1], "some", inner[1], rows)
    return None


def _listed(shape: Kind) -> str:
    item = shape["of"]
    fields = item["fields"].values() if item["type"] == "object" else ()
    return next((str(kind["entity"]) for kind in fields if kind["type"] == "ref"), "")


def _keys_of_shape(kind: Kind) -> Iterator[tuple[str, Kind]]:
    if kind["type"] == "list":
        yield from _keys_of_shape(kind["of"])
    elif kind["type"] == "object":
        for inner in kind["fields"].values():
            if inner["type"] == "ref":
                yield inner["entity"], kind
            else:
                yield from _keys_of_shape(inner)


def texts_in(value: Json) -> Iterator[str]:
    """Every text of a value, those in lists and objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_in(inner)
