"""Whether a world is sound: random walks that try every operation, and what the promises say.

Certain checks, by what happens: nothing raises, a failure changes nothing, rules hold, every
operation can succeed and every error can fire, every key can be had from a read, every change can
be seen by one, and each operation does what its promises say, no less and no more. The walks are
drawn by seed, so the same world has the same findings. How much the promises hold is measured by
faults that are planted in the operations (mutation testing).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    INVALID,
    TOO_LARGE,
    Json,
    Machine,
    Row,
    State,
    as_term,
    nodes,
    plain,
)
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.operations import ArgumentDrawer
from toolloom.pipeline.worlds.states import StartStates
from toolloom.schemas import Reason

WALKS, CALLS = 80, 80
MORE = 2  # times as many walks at most, where something has not happened yet
LOOKS = ("table", "hop")
NAMES = ("arg", "var", "given")
OF_MUTANTS = (12, 60)  # walks and calls of a mutant: the same as of the world beside it


class TriedCall(NamedTuple):
    """One call of a walk, and what came of it."""

    before: State
    name: str
    args: Row
    now: str
    after: State
    response: Json
    error: str | None


@dataclass
class Soundness:
    """What walks found: what is wrong, with an example, and how often what happened."""

    findings: dict[str, tuple[str, Reason, str]] = field(default_factory=dict)
    """By what is wrong the operation, what that means for the world, and the first example."""
    successes: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    effects: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    """Operations with effects that they had."""

    def add(
        self, why: Reason, name: str, found: Iterable[str], call: TriedCall | None = None
    ) -> None:
        """Findings on an operation."""
        for what in found:
            example = f"{call.name}({call.args}) at {call.now}: {call.response}" if call else ""
            self.findings.setdefault(what, (name, why, example[:300]))


def examine(machine: Machine, seed: int = 0) -> Soundness:
    """Every finding of the checks that run a world. Raises Unsatisfied."""
    result = Soundness()
    for number, call in enumerate(walk(machine, seed, MORE * WALKS)):
        if number >= WALKS * CALLS and not number % CALLS and not any(_lacking(machine, result)):
            break
        judge(machine, call, result)
    for why, name, what in _lacking(machine, result):
        result.add(why, name, [what])
    return result


def walk(
    machine: Machine, seed: int, walks: int = WALKS, calls: int = CALLS
) -> Iterator[TriedCall]:
    """Calls with arguments that mostly fit the state that the calls before them left."""
    names, starts = list(machine.operations), StartStates(machine)
    for number in range(walks):
        rng = rng_for(seed, "random walk", number)
        now, state = starts.draw(rng)
        for _ in range(calls):
            name = rng.choice(names)
            args = ArgumentDrawer(machine, state, now, rng, loose=True).draw(name) or {}
            after, response, error = machine.apply(state, name, args, now)
            yield TriedCall(state, name, args, now, after, response, error)
            state = after


# --- what a call shows -----------------------------------------------------------------------


def judge(machine: Machine, call: TriedCall, result: Soundness) -> None:
    """Count a call, and note what is wrong with it."""
    if call.error is None:
        result.successes[call.name] += 1
    else:
        result.errors[call.name, call.error] += 1
    result.add(Reason.WORLD_UNSOUND, call.name, _unsound(machine, call), call)
    if call.name in machine.world["promises"] and call.error != INVALID:
        result.add(Reason.PROMISE_BROKEN, call.name, _broken(machine, call, result), call)


def _unsound(machine: Machine, call: TriedCall) -> Iterator[str]:
    """What no call may do. Rules of rows that it changes are held by the machine; here are those of
    the others."""
    if call.error is not None and call.after is not call.before:
        yield f"{call.name} fails and changes the state."
    if call.error in (BROKEN, TOO_LARGE):
        yield f"{call.name} ends in {call.error}: it lacks a `require`."
    if call.error is not None or call.after is call.before:
        return
    before, after = (machine.frame(s, {}, call.now) for s in (call.before, call.after))
    changed = {name for name in machine.entities if before.tables[name] is not after.tables[name]}
    for name, spec in machine.world["entities"].items():
        for text, tree in spec.get("rules", ()):
            # The forms that look at rows beside those they are given.
            looks = (n[1] if n[0] == "table" else n[2] for n in nodes(tree) if n[0] in LOOKS)
            if changed.isdisjoint(looks):
                continue
            clause = as_term(tree)
            for key, row in call.after["tables"][name].items():
                before.vars["this"], after.vars["this"] = call.before["tables"][name].get(key), row
                if before.vars["this"] is row and not clause(after) and clause(before):
                    yield f"{call.name} breaks `{text}` of {name} that it leaves alone."


def _broken(machine: Machine, call: TriedCall, result: Soundness) -> Iterator[str]:
    """How a call breaks its operation's promise."""
    name, promise = call.name, machine.world["promises"][call.name]
    before = machine.bound(call.before, name, call.args, call.now)
    if before is None:
        if call.error is None:
            yield f"{name} succeeds for arguments that name nothing."
        return
    unmet = {code: text for code, text, clause in promise["only_if"] if not as_term(clause)(before)}
    if call.error is not None:
        if call.error not in unmet:
            yield f"{name} fails with {call.error}, and its promises do not say so."
        return
    if unmet:
        yield f"{name} succeeds although `{next(iter(unmet.values()))}` does not hold."
    promised = {tuple(effect) for effect in promise["effects"]}
    for effect in changes(machine, call.before, call.after):
        if not promised & set(effect):
            yield f"{name} has an effect that is not promised: {effect[0]}."
        result.effects |= {(name, one) for one in effect}
    after = machine.bound(call.after, name, call.args, call.now)
    after = after or machine.frame(call.after, before.args, call.now)
    after.old = before
    after.vars = {**before.vars, **after.vars}
    for text, clause in promise["after"]:
        if not as_term(clause)(after):
            yield f"After {name} `{text}` does not hold."
    if promise["shows"]:
        entity, tree = promise["shows"]
        expected, shown = plain(as_term(tree)(after)), call.response
        if entity:
            key = machine.entities[entity].key
            items = shown if isinstance(shown, list) else [shown]
            expected = [row[key] for row in expected]
            shown = [item.get(key) for item in items if isinstance(item, dict)]
        if shown != expected:
            yield f"{name} does not show what is promised: {_unlike(shown, expected)}."


def _unlike(shown: Json, expected: Json) -> str:
    """In what a response is not the promised one; without values, as each call has others."""
    if isinstance(shown, dict) and isinstance(expected, dict):
        other = [name for name in expected if shown.get(name) != expected[name]]
        other += [f"{name} (not promised)" for name in shown if name not in expected]
        return ", ".join(other)
    if isinstance(shown, list) and isinstance(expected, list):
        lost = [item for item in expected if item not in shown]
        more = [item for item in shown if item not in expected]
        if lost and more and isinstance(lost[0], dict) and isinstance(more[0], dict):
            return f"of an item {_unlike(more[0], lost[0])}"
        return "items are missing" if lost else "there are more items" if more else "the order"
    return "another value"


def changes(machine: Machine, before: State, after: State) -> Iterator[list[tuple[str, ...]]]:
    """The effects of a call: for each changed thing the ways in which it can be promised."""
    for name in machine.entities:
        old, new = before["tables"][name], after["tables"][name]
        if old is new:
            continue
        if new.keys() - old.keys():
            yield [(name, "", "created")]
        if old.keys() - new.keys():
            yield [(name, "", "deleted")]
        for key in old.keys() & new.keys():
            for column, value in new[key].items():
                was = old[key][column]
                if was == value:
                    continue
                ways: list[tuple[str, ...]] = [(name, column, "set")]
                if isinstance(value, (int, float)) and isinstance(was, (int, float)):
                    ways.append((name, column, "up" if value > was else "down"))
                yield ways


# --- what all calls show ---------------------------------------------------------------------


def _lacking(machine: Machine, result: Soundness) -> Iterator[tuple[Reason, str, str]]:
    """What never happened; a key that an operation takes, or a field that it changes, and no read
    shows."""
    operations = machine.world["operations"].items()
    views = (node for _, spec in operations for node in nodes(spec["returns"]))
    shown = {node[2] for node in views if node[0] == "field"}
    for name, spec in operations:
        found = [f"never fails with {c}." for c in spec["errors"] if not result.errors[name, c]]
        found += [] if result.successes[name] else ["never succeeds."]
        for arg, kind in spec["args"].items():
            key = machine.entities[kind["entity"]].key if kind["type"] == "ref" else None
            if key and key not in shown:
                found.append(f"takes {arg}, and nothing shows {key}.")
        for node in nodes(spec["steps"]):
            if node[0] in ("create", "update"):
                lost = sorted(node[3].keys() - shown)
                found += [f"changes {node[1]}.{column}, and nothing shows it." for column in lost]
        for what in found:
            yield Reason.WORLD_UNREACHABLE, name, f"{name} {what}"
        promise = machine.world["promises"].get(name)
        if promise is None:
            yield Reason.PROMISE_BROKEN, name, f"{name} has no promises."
        for effect in promise["effects"] if promise and result.successes[name] else ():
            if (name, tuple(effect)) not in result.effects:
                what = f"{name} never has its effect {' '.join(filter(None, effect))}."
                yield Reason.PROMISE_BROKEN, name, what


def ignored(world: Json) -> Iterator[tuple[str, str]]:
    """Operations with a parameter of theirs that neither steps nor response look at."""
    for name, spec in world["operations"].items():
        used = {node[1] for node in nodes([spec["steps"], spec["returns"]]) if node[0] in NAMES}
        for argument, kind in spec["args"].items():
            if not {argument, kind.get("as", argument)} & used:
                yield name, argument


# --- planted faults --------------------------------------------------------------------------

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
    """The mutation score of a sound world. A mutant that behaves like the world in every call is
    none that anybody could tell, and does not count; each call is made in the state that the
    world's own walk had, so that a fault shows where it is."""
    machine, result = Machine(world), Score()
    calls = list(walk(machine, seed, *OF_MUTANTS))
    for what, mutated in mutants(world):
        mutant, found, differs = Machine(mutated), Soundness(), False
        for call in calls:
            after, response, error = mutant.apply(call.before, call.name, call.args, call.now)
            same = error == call.error and response == call.response
            if not same or after["tables"] != call.after["tables"]:
                differs = True
                judge(machine, call._replace(after=after, response=response, error=error), found)
            if found.findings:
                break
        result.told_apart += differs
        result.survivors += [what] if differs and not found.findings else []
    return result


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
