"""What the operations of a world show, and what has to be seen before them.

Nobody knows an id. People say "my order of March 3", "the one with the blanket", "Anna Rossi"; a
read that shows the key beside those values turns them into it. All of this follows from a world's
operations and is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from toolloom.pipeline.checks.grounding import texts_in
from toolloom.pipeline.checks.world.grammar import NUMBERS, Kind, Tree, keys_of
from toolloom.pipeline.checks.world.interpreter import (
    Json,
    Machine,
    Row,
    State,
    Term,
    as_term,
    names_one,
    nodes,
)
from toolloom.pipeline.worlds.arguments import RowKey

Path = tuple[str | int, ...]
FieldOf = tuple[str, str]
"""An entity and one of its fields; without a field, whether its rows were looked at."""
BOUNDS = ("<", "<=", ">", ">=")


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
        self.policies = {
            name: [p for p in machine.world["policies"] if name in p["calls"]]
            for name in operations
        }
        # What policies say, and want to be true before a call.
        self.musts: dict[str, list[tuple[str, Tree]]] = {
            name: [
                (policy["says"], tree)
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

    def causes(self, name: str, code: str) -> set[FieldOf]:
        """On what an error depends that no look at what is nobody's own shows; on nothing if it
        says that all is already as it is wanted."""
        steps = self.machine.world["operations"][name]["steps"]
        lets = {node[1]: node[2] for node in nodes(steps) if node[0] == "let"}
        clauses: list[Tree] = [n[1] for n in nodes(steps) if n[0] == "require" and n[2] == code]
        clauses += [n[2] for n in nodes(steps) if n[0] == "find" and n[3] == code]
        for clause in clauses:  # that there are no such rows; before or after others is a clash
            none = clause[0] == "=" and clause[1][0] == "count"
            if clause[0] == "!=" or (none and not any(n[0] in BOUNDS for n in nodes(clause))):
                return set()
        clauses += [tree for let, tree in lets.items() if any(names_one(c, let) for c in clauses)]
        public = {place for place in self.readable if place[0] not in self.own}
        return self.places(name, clauses) - public

    def _grounds(self, name: str, says: str) -> frozenset[FieldOf]:
        """The fields on which policies depend, or the one that says so, those of either side of an
        `if` too; where a yes is wanted, also those of which the change makes its amounts."""
        trees = [tree for said, tree in self.musts[name] if says in ("", said)]
        if not says and self.agrees(name):
            for node in nodes(self.machine.world["operations"][name]["steps"]):
                if node[0] == "let":
                    trees.append(node[2])
                elif node[0] in ("create", "update"):
                    kinds = self.machine.entities[node[1]].fields
                    trees += [t for f, t in node[3].items() if kinds[f]["type"] in NUMBERS]
        return frozenset(self.places(name, trees) & self.readable)

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
