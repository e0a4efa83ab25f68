"""How much of a world its promises hold: faults planted in its operations, and the share found.

Each mutant is the world with one fault: a step or condition dropped, a comparison turned or off by
one, a sign, a constant, a shown or set field, an error exchanged. A mutant that behaves like the
world in every call of the walks is none that anybody could tell, and does not count. The others
should be found by the checks that the world passes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Json, Machine, nodes
from toolloom.pipeline.worlds.soundness import Soundness, TriedCall, judge, walk

WALKS, CALLS = 12, 60  # of a mutant: the same as of the world beside it
EXCHANGED = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "=": ("!=",),
    "!=": ("=",),
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "least": ("most",),
    "most": ("least",),
}
"""Forms that take each other's place: comparisons turned or off by one, signs."""


@dataclass
class Score:
    """Faults that walks can tell from the world, and those that the checks did not find."""

    told_apart: int = 0
    survivors: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return 1 - len(self.survivors) / max(1, self.told_apart)


def score(world: Json, seed: int = 1) -> Score:
    """The mutation score of a sound world."""
    machine, result = Machine(world), Score()
    calls = list(walk(machine, seed, WALKS, CALLS))
    for what, mutant in mutants(world):
        found = _found(machine, Machine(mutant), calls)
        if found is not None:
            result.told_apart += 1
            result.survivors += [] if found else [what]
    return result


def _found(machine: Machine, mutant: Machine, calls: list[TriedCall]) -> bool | None:
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


def mutants(world: Json) -> Iterator[tuple[str, Json]]:
    """What each fault is, with the operation that has it, and the world with it."""
    for name, spec in world["operations"].items():
        for part in ("steps", "returns"):
            for what, changed in _changed(spec[part], world) if spec[part] else ():
                operations = {**world["operations"], name: {**spec, part: changed}}
                yield f"{what} in {name}", {**world, "operations": operations}


def _changed(tree: Any, world: Json) -> Iterator[tuple[str, Any]]:
    """Copies of a tree, each with one fault in it."""
    if isinstance(tree[0], list):
        for number, step in enumerate(tree):
            if step[0] != "let":
                yield f"a step ({step[0]}) dropped", tree[:number] + tree[number + 1 :]
    for place, node in enumerate(nodes(tree)):
        for what, other in _faults(node, world):
            changed = copy.deepcopy(tree)
            next(n for at, n in enumerate(nodes(changed)) if at == place)[:] = other
            yield what, changed


def _faults(node: list[Any], world: Json) -> Iterator[tuple[str, list[Any]]]:
    """What one form can be instead."""
    form, *parts = node
    for other in EXCHANGED.get(form, ()) if len(parts) > 1 else ():
        yield f"{form} exchanged", [other, *parts]
    if form == "and":
        for number in range(1, len(node)):
            yield "condition dropped", node[:number] + node[number + 1 :]
    elif form == "shift":
        yield "sign", [form, parts[0], ["-", ["value", 0], parts[1]], parts[2]]
    elif form == "value" and isinstance(parts[0], (int, float)) and not isinstance(parts[0], bool):
        yield "constant", [form, parts[0] + 1]
    elif form == "value" and isinstance(parts[0], str):
        kinds = (k for e in world["entities"].values() for k in e["fields"].values())
        every = next((k["choices"] for k in kinds if parts[0] in k.get("choices", ())), ())
        yield from (("constant", [form, c]) for c in [c for c in every if c != parts[0]][:1])
    elif form in ("create", "update"):
        for name in parts[2] if form == "update" or len(parts[2]) > 1 else ():
            kept = {n: tree for n, tree in parts[2].items() if n != name}
            yield "field not set", [*node[:3], kept, parts[3]]
    elif form == "require":
        yield "error exchanged", [form, parts[0], "other_error", parts[2]]
    elif form in ("list", "count", "sum", "first") and parts[2] is not None:
        yield "condition dropped", [*node[:3], None, *node[4:]]
    if form == "list" and parts[3]:
        yield "order turned", [*node[:4], [[t, not down] for t, down in parts[3]], *node[5:]]
    elif form == "view":
        for number in range(len(parts[0])):
            yield "field not shown", [form, parts[0][:number] + parts[0][number + 1 :]]
