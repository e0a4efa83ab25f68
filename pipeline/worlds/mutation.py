"""How much of a world its promises hold: faults planted in its operations, and the share found.

Each mutant is the world with one fault: a step or condition dropped, a comparison turned or off by
one, a sign, a constant, a field, an error exchanged. A mutant that behaves like the world in every
call of the walks is none that anybody could tell, and does not count. The others should be found
by the same checks that the world passes; what survives shows which promise is missing.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine
from toolloom.pipeline.worlds.soundness import Soundness, TriedCall, judge, walk

WALKS, CALLS = 12, 60  # of a mutant: the same as of the world beside it
TURNED = {"=": "!=", "!=": "=", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "in": None}
OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
SIGNS = {"+": "-", "-": "+", "*": "/", "/": "*", "least": "most", "most": "least"}


@dataclass
class Score:
    """Mutants by kind: those that walks can tell from the world, and those that checks found."""

    told_apart: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    survivors: list[str] = field(default_factory=list)
    alike: int = 0

    @property
    def share(self) -> float:
        return self.found.total() / max(1, self.told_apart.total())


def score(world: Json, seed: int = 1) -> Score:
    """The mutation score of a sound world."""
    machine, result = Machine(world), Score()
    calls = list(walk(machine, seed, WALKS, CALLS))
    for kind, where, mutant in mutants(world):
        verdict = _verdict(machine, Machine(mutant), calls)
        if verdict is None:
            result.alike += 1
            continue
        result.told_apart[kind] += 1
        if verdict:
            result.found[kind] += 1
        else:
            result.survivors.append(f"{kind} in {where}")
    return result


def _verdict(machine: Machine, mutant: Machine, calls: list[TriedCall]) -> bool | None:
    """Whether the checks find a mutant; None if it does in every call what the world does.

    Each call is made in the state that the world's own walk had: so a fault shows where it is.
    """
    differs = False
    found = Soundness()
    for call in calls:
        after, response, error = mutant.apply(call.before, call.name, call.args, call.now)
        same = error == call.error and response == call.response
        if same and after["tables"] == call.after["tables"]:
            continue
        differs = True
        judge(machine, call._replace(after=after, response=response, error=error), found)
        if found.findings:
            return True
    return False if differs else None


def mutants(world: Json) -> Iterator[tuple[str, str, Json]]:
    """The kind of each fault, where it is, and the world that has it."""
    for name, spec in world["operations"].items():
        for part in ("steps", "returns"):
            if spec[part] is None:
                continue
            for kind, changed in _changed(spec[part], world, part == "steps"):
                operations = {**world["operations"], name: {**spec, part: changed}}
                yield kind, name, {**world, "operations": operations}


def _changed(tree: Any, world: Json, steps: bool) -> Iterator[tuple[str, Any]]:
    """Copies of a tree, each with one fault in it."""
    if steps:
        for number in range(len(tree)):
            if tree[number][0] != "let":
                yield f"{_act(tree[number])} dropped", tree[:number] + tree[number + 1 :]
    for path, node in list(_nodes(tree, ())):
        for kind, other in _faults(node, world):
            yield kind, _put(tree, path, other)


def _act(step: Any) -> str:
    return str(step[2][0] if step[0] == "when" else step[0])


NO_NAMES: dict[str | None, Sequence[int]] = {
    "value": (),
    "skip": (2,),
    "create": range(4),
    "update": range(4),
}
"""Where in a form other forms may be, if not everywhere: lists of arguments' names are none."""


def _nodes(tree: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every form of a tree and the sets of its steps, with the way to each."""
    if isinstance(tree, list):
        if tree and isinstance(tree[0], str):
            yield path, tree
        form = tree[0] if tree and isinstance(tree[0], str) else None
        if form == "view":  # its fields are pairs of a name, which may be any, and a term
            for number, (_, term) in enumerate(tree[1]):
                yield from _nodes(term, (*path, 1, number, 1))
            return
        for number in NO_NAMES.get(form, range(len(tree))):
            yield from _nodes(tree[number], (*path, number))
    elif isinstance(tree, dict):
        for name, part in tree.items():
            yield from _nodes(part, (*path, name))


def _put(tree: Any, path: tuple[Any, ...], node: Any) -> Any:
    changed = copy.deepcopy(tree)
    if not path:
        return node
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = node
    return changed


def _faults(node: list[Any], world: Json) -> Iterator[tuple[str, Any]]:
    form = node[0]
    if form == "and":
        for number in range(1, len(node)):
            rest = node[1:number] + node[number + 1 :]
            yield "condition dropped", rest[0] if len(rest) == 1 else ["and", *rest]
    if form in OPPOSITE:
        yield "comparison off by one", [TURNED[form], *node[1:]]
        yield "comparison turned", [OPPOSITE[form], *node[1:]]
    if form in ("=", "!="):
        yield "comparison turned", [TURNED[form], *node[1:]]
    if form in SIGNS and len(node) > 2:
        yield "sign", [SIGNS[form], *node[1:]]
    if form == "shift":
        yield "sign", [form, node[1], ["-", ["value", 0], node[2]], node[3]]
    if form == "value" and isinstance(node[1], (int, float)) and not isinstance(node[1], bool):
        yield "constant", ["value", node[1] + 1]
    if form == "value" and isinstance(node[1], str):
        others = _other_choices(node[1], world)
        if others:
            yield "constant", ["value", others[0]]
    if form in ("create", "update"):
        fields = node[3]
        for name in fields:
            if form == "update" or len(fields) > 1:
                kept = {n: t for n, t in fields.items() if n != name}
                yield "field not set", [*node[:3], kept, node[4]]
    if form == "require":
        yield "error exchanged", [form, node[1], "other_error", node[3]]
    if form == "list" and node[5] is not None:
        yield "limit dropped", [*node[:5], None, node[6]]
    if form == "list" and node[4]:
        yield "order turned", [*node[:4], [[t, not d] for t, d in node[4]], *node[5:]]
    if form in ("list", "count", "sum", "first") and node[3] is not None and node[3][0] != "and":
        yield "condition dropped", [*node[:3], None, *node[4:]]
    if form == "view":
        for number in range(len(node[1])):
            yield "field not shown", ["view", node[1][:number] + node[1][number + 1 :]]
    if form == "field" and node[1][0] == "var":
        other = _other_field(node[2], world)
        if other:
            yield "other field", [form, node[1], other]


def _other_choices(value: str, world: Json) -> list[str]:
    """The other values of the choice that a constant is one of."""
    for entity in world["entities"].values():
        for kind in entity["fields"].values():
            if value in kind.get("choices", ()):
                return [choice for choice in kind["choices"] if choice != value]
    return []


def _other_field(name: str, world: Json) -> str | None:
    """Another field of the same type in the entity of a field."""
    for entity in world["entities"].values():
        kind = entity["fields"].get(name)
        if kind:
            alike = [
                other
                for other, k in entity["fields"].items()
                if other != name
                and k["type"] == kind["type"]
                and k.get("entity") == kind.get("entity")
            ]
            return alike[0] if alike else None
    return None
