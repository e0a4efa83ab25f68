"""What the operations of a world show, and what has to be seen before them.

Nobody knows an id. People say "my order of March 3", "the one with the blanket", "Anna Rossi"; a
read that shows the key beside those values turns them into it. All of this follows from a world's
operations and is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from toolloom.pipeline.checks import schema
from toolloom.pipeline.checks.world.grammar import NUMBERS, Kind, Tree
from toolloom.pipeline.checks.world.interpreter import (
    Frame,
    Json,
    Machine,
    Row,
    State,
    Term,
    as_term,
    nodes,
)
from toolloom.pipeline.worlds.arguments import RowKey

Path = tuple[str | int, ...]
FieldOf = tuple[str, str]
"""An entity and one of its fields; without a field, whether its rows were looked at."""


@dataclass(frozen=True)
class ShownKey:
    """A key in a response: its row's entity, and what is said beside it."""

    entity: str
    key: str
    item: Row  # the object that holds it
    kind: Kind  # of that object
    values: frozenset[str]  # texts of the object, of what it holds and of what holds it


class Lookups:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        operations, entities = machine.world["operations"], machine.entities
        held = {n: list(dict.fromkeys(_entities(op["shape"]))) for n, op in operations.items()}
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
        self.shown = {name: self._shown(name) | {(e, "") for e in held[name]} for name in held}
        self.readable = frozenset().union(*(self.shown[name] for name in self.reads))
        self.policies = {
            name: [p for p in machine.world["policies"] if name in p["calls"]]
            for name in operations
        }
        self.musts = {
            name: [
                (str(policy["says"]), as_term(tree))
                for policy in policies
                for _, tree in policy.get("must", {}).get(name, ())
            ]
            for name, policies in self.policies.items()
        }
        # What has to be seen, as far as a read shows it, before a call, or before it is refused for
        # what a policy says.
        self.grounds = {
            (name, says): self._grounds(name, says)
            for name, policies in self.policies.items()
            for says in ("", *(policy["says"] for policy in policies))
        }

    def kinds(self, name: str) -> dict[str, Kind]:
        return self.machine.operations[name].args

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
        if frame is None:
            return None
        return next((says for says, clause in self.musts[name] if not clause(frame)), None)

    def label(self, entity: str, row: Row, frame: Frame) -> list[tuple[str, Json]]:
        """How a row is called, by field."""
        frame.vars["this"] = row
        values = [(name, term(frame)) for name, term in self.labels[entity]]
        frame.vars.pop("this")
        return [(name, value) for name, value in values if value is not None]

    def places(self, name: str, trees: Iterable[Tree]) -> set[FieldOf]:
        """The fields on which trees of an operation depend, and the entities that they search."""
        names = {"me": self.machine.actor or ""} | {
            kind["as"]: kind["entity"] for kind in self.kinds(name).values() if kind.get("as")
        }
        found, searched = set[FieldOf](), set[str]()
        for tree in trees:
            _read(tree, names, found)
            searched |= {node[1] for node in nodes(tree) if node[0] == "table"}
        keys = {entity.key for entity in self.machine.entities.values()}
        fields = {f for f in found if f[1] not in keys and f[0] not in searched}
        return fields | {(entity, "") for entity in searched}

    def _deciding(self, name: str, says: str) -> list[Tree]:
        """What policies, or the one that says so, want to be true before a call."""
        policies = [p for p in self.policies[name] if says in ("", p["says"])]
        return [tree for p in policies for _, tree in p.get("must", {}).get(name, ())]

    def _grounds(self, name: str, says: str) -> frozenset[FieldOf]:
        """The fields on which policies depend, those of either side of an `if` too; where a yes is
        wanted, also those of which the change makes its amounts."""
        trees = self._deciding(name, says)
        if not says and self.agrees(name):
            for node in nodes(self.machine.world["operations"][name]["steps"]):
                if node[0] == "let":
                    trees.append(node[2])
                elif node[0] in ("create", "update"):
                    kinds = self.machine.entities[node[1]].fields
                    trees += [t for f, t in node[3].items() if kinds[f]["type"] in NUMBERS]
        return frozenset(self.places(name, trees) & self.readable)

    def _shown(self, name: str) -> frozenset[FieldOf]:
        """The fields that a response repeats, or says something of."""
        found = set[FieldOf]()
        returns = self.machine.world["operations"][name]["returns"]
        _read(returns, {"me": self.machine.actor or ""}, found, repeated=True)
        return frozenset(found)

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


def texts_in(value: Json) -> Iterator[str]:
    """Every text of a value, those in lists and objects too."""
    return (leaf for leaf in schema.leaves(value) if isinstance(leaf, str))


def _entities(kind: Kind) -> Iterator[str]:
    """The entities whose keys a type holds."""
    if kind["type"] == "ref":
        yield kind["entity"]
    for inner in (kind["of"],) if kind["type"] == "list" else kind.get("fields", {}).values():
        yield from _entities(inner)


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
