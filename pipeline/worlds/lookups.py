"""How somebody comes to a key: the reads of a world that show it, and how people name its row.

Nobody knows an id. People say "my order of March 3", "the one with the blanket", "Anna Rossi"; a
read that shows the key beside those values turns them into it. All of this follows from a world's
operations and is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    nodes,
)

Path = tuple[str | int, ...]
FieldOf = tuple[str, str]
"""An entity and one of its fields; without a field, whether its rows were looked at."""


@dataclass(frozen=True)
class ShownKey:
    """A key in a response: its row's entity, where it stands, and what is said beside it."""

    entity: str
    key: str
    path: Path
    item: Row  # the object that holds it
    kind: Kind  # of that object
    values: frozenset[str]  # texts of the object, of what it holds and of what holds it


class Lookups:
    """What a world's reads show."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        operations = machine.world["operations"]
        self.writes = [name for name, each in machine.operations.items() if each.changes]
        self.reads = [name for name in operations if name not in self.writes]
        self.ways: dict[str, list[str]] = {name: [] for name in machine.entities}
        """Reads by the entity whose keys they show."""
        self.listed: dict[str, str] = {}
        """Of reads that list rows, the entity whose key an item shows first."""
        for name in self.reads:
            shape = operations[name]["shape"]
            entities = list(dict.fromkeys(_entities(shape)))
            for entity in entities:
                self.ways[entity].append(name)
            if shape["type"] == "list" and entities:
                self.listed[name] = entities[0]
        self.labels = {name: self._label(name) for name in machine.entities}
        self.own = {
            name for name, e in machine.entities.items() if e.owner and name != machine.actor
        }
        self.named = self.own | {
            name
            for name, entity in machine.entities.items()
            if any(kind.get("label") for kind in entity.fields.values())
        }
        """Entities whose rows people name before they have seen them listed; of the others they
        choose one from a list."""
        self.shown = {
            name: frozenset(
                _shown_fields(spec["returns"], {"me": machine.actor or ""})
                | {(entity, "") for entity in _entities(spec["shape"])}
            )
            for name, spec in operations.items()
        }
        self.readable = frozenset().union(*(self.shown[name] for name in self.reads))
        self.policies = {
            name: [p for p in machine.world["policies"] if name in p["calls"]]
            for name in operations
        }
        self.musts = {
            name: [
                (policy["says"], as_term(tree))
                for policy in self.policies[name]
                for _, tree in policy.get("must", {}).get(name, ())
            ]
            for name in operations
        }
        self.grounds = {
            (name, why): self._grounds(name, why)
            for name in operations
            for why in ("", "declined", *(policy["says"] for policy in self.policies[name]))
        }
        """What has to be seen, as far as a read shows it, before an operation is called, declined,
        or refused for what a policy says."""

    def agrees(self, name: str) -> bool:
        """Whether a policy wants the user's yes."""
        return any(policy.get("consent") for policy in self.policies[name])

    def _deciding(self, name: str, why: str) -> list[Tree]:
        """What policies, or the one that says so, want to be true before a call."""
        policies = [p for p in self.policies[name] if why in ("", "declined", p["says"])]
        return [tree for p in policies for _, tree in p.get("must", {}).get(name, ())]

    def keys_needed(self, name: str, args: Row, why: str) -> list[tuple[Path, str, str]]:
        """The keys among arguments that must be known before a call is made; before it is refused,
        those that decide."""
        keys, kinds = keys_in(args, self.machine.operations[name].args), self.kinds(name)
        if why in ("", "declined"):
            return keys
        names = {n[1] for t in self._deciding(name, why) for n in nodes(t) if n[0] == "var"}
        return [key for key in keys if kinds[str(key[0][0])].get("as") in names]

    def kinds(self, name: str) -> dict[str, Kind]:
        return self.machine.operations[name].args

    def places(self, name: str, trees: Iterable[Tree]) -> set[FieldOf]:
        """The fields on which trees of an operation depend, and the entities that they search."""
        names = {"me": self.machine.actor or ""} | {
            kind["as"]: kind["entity"] for kind in self.kinds(name).values() if kind.get("as")
        }
        found: set[FieldOf] = set()
        searched: set[str] = set()
        for tree in trees:
            _read(tree, names, found)
            searched |= {node[1] for node in nodes(tree) if node[0] == "table"}
        keys = {entity.key for entity in self.machine.entities.values()}
        fields = {f for f in found if f[1] not in keys and f[0] not in searched}
        return fields | {(entity, "") for entity in searched}

    def _grounds(self, name: str, why: str) -> frozenset[FieldOf]:
        """The fields on which policies depend, those of either side of an `if` too; where a yes is
        wanted, also those of which the change makes its amounts."""
        trees = self._deciding(name, why)
        if why in ("", "declined") and self.agrees(name):
            for node in nodes(self.machine.world["operations"][name]["steps"]):
                if node[0] == "let":
                    trees.append(node[2])
                elif node[0] in ("create", "update"):
                    kinds = self.machine.entities[node[1]].fields
                    trees += [t for f, t in node[3].items() if kinds[f]["type"] in NUMBERS]
        return frozenset(self.places(name, trees) & self.readable)

    def _label(self, entity: str) -> list[tuple[str, Term]]:
        """The values of which a person makes a row's name, without their own name."""
        called = self.machine.world["entities"][entity].get("called")
        parts = called[1:] if called and called[0] == "text" else [called] if called else []
        actor = self.machine.actor
        return [
            (_path_of(part), as_term(part))
            for part in parts
            if part[0] != "value"
            if entity == actor or not any(n[0] == "hop" and n[2] == actor for n in nodes(part))
        ]

    def label(self, entity: str, row: Row, frame: Frame) -> list[tuple[str, Json]]:
        """How a row is called, by field."""
        frame.vars["this"] = row
        values = [(name, term(frame)) for name, term in self.labels[entity]]
        frame.vars.pop("this")
        return [(name, value) for name, value in values if value is not None]


@lru_cache(maxsize=16)
def lookups_of(machine: Machine) -> Lookups:
    return Lookups(machine)


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


def keys_in(args: Row, kinds: dict[str, Kind]) -> list[tuple[Path, str, str]]:
    """Every key among arguments: where it stands, of which entity, and itself."""
    found = leaves({"type": "object", "fields": kinds}, args)
    return [(path, kind["entity"], key) for path, kind, key in found if kind["type"] == "ref"]


def keys_shown(
    kind: Kind, value: Json, path: Path = (), above: tuple[str, ...] = ()
) -> Iterator[ShownKey]:
    """Every key in a response, those in lists inside lists too."""
    if kind["type"] == "list":
        for number, item in enumerate(value or ()):
            yield from keys_shown(kind["of"], item, (*path, number), above)
    elif kind["type"] == "object" and isinstance(value, dict):
        texts = frozenset((*above, *texts_in(value)))
        own = tuple(v for v in value.values() if isinstance(v, str))
        for name, inner in kind["fields"].items():
            if value.get(name) is None:
                continue
            if inner["type"] == "ref":
                yield ShownKey(inner["entity"], value[name], (*path, name), value, kind, texts)
            else:
                yield from keys_shown(inner, value[name], (*path, name), (*above, *own))


def texts_in(value: Json) -> Iterator[str]:
    """Every text of a value, those in lists and objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_in(inner)


def _entities(kind: Kind) -> Iterator[str]:
    """The entities whose keys a type holds."""
    if kind["type"] == "ref":
        yield kind["entity"]
    for inner in (kind["of"],) if kind["type"] == "list" else kind.get("fields", {}).values():
        yield from _entities(inner)


# --- trees -----------------------------------------------------------------------------------


def _read(tree: Json, names: dict[str, str], found: set[FieldOf]) -> str:
    """Note the fields of rows on which a tree depends; the entity of the row that it gives, or "".
    `names`: the entities of named rows."""
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
        _, source, alias, *rest = tree
        entity = _read(source, names, found)
        for part in rest:
            _read(part, {**names, alias: entity}, found)
        return entity
    if form == "shown":
        _read(tree[3], {**names, tree[1]: _read(tree[2], names, found)}, found)
        return ""
    parts = [term for _, term in tree[1]] if form == "view" else tree
    entities = [_read(part, names, found) for part in parts if isinstance(part, list)]
    return next(filter(None, entities), "") if form == "if" else ""


def _shown_fields(tree: Json, names: dict[str, str]) -> set[FieldOf]:
    """The fields that a response repeats, or says something of."""
    found: set[FieldOf] = set()
    if not isinstance(tree, list) or not tree:
        return found
    if tree[0] == "list":
        view = {**names, tree[2]: _read(tree[1], names, set())}
        return _shown_fields(tree[6], view)
    if tree[0] == "shown":
        return _shown_fields(tree[3], {**names, tree[1]: _read(tree[2], names, set())})
    if tree[0] == "view":
        return found.union(*(_shown_fields(part, names) for _, part in tree[1]))
    _read(tree, names, found)
    return found


def _path_of(tree: Json) -> str:
    """A term as people read it: `product.name`."""
    if tree[0] == "hop":
        return _path_of(tree[1]).removesuffix("_id")
    if tree[0] == "field":
        before = _path_of(tree[1])
        return f"{before}.{tree[2]}" if before else str(tree[2])
    return "" if tree[0] == "var" else next((_path_of(t) for t in tree if isinstance(t, list)), "")
