"""Whether a world is sound: random walks that try every operation, and what the promises say.

Certain checks, by what happens: nothing raises, a failure changes nothing, rules hold, every
operation can succeed and every error can fire, every key can be had from a read, every change can
be seen by one, and each operation does what its promises say, no less and no more. The walks are
drawn by seed, so the same world has the same findings.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from toolloom.pipeline.checks.findings import Findings
from toolloom.pipeline.checks.world.grammar import Kind
from toolloom.pipeline.checks.world.interpreter import (
    BROKEN,
    INVALID,
    TOO_LARGE,
    Frame,
    Json,
    Machine,
    Row,
    State,
    as_term,
    nodes,
    plain,
    shifted,
)
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.states import draw_now, draw_state
from toolloom.schemas import Reason

WALKS, CALLS = 80, 80
STRANGE = 0.03  # share of arguments that name nothing


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

    findings: Findings[str, str] = field(default_factory=lambda: Findings(1))  # first examples
    successes: Counter[str] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)

    causes: dict[str, tuple[str, Reason]] = field(default_factory=dict)
    """Of a finding: the operation, and what it means for the world."""

    def find(self, why: Reason, name: str, what: str, call: TriedCall | None = None) -> None:
        example = f"{call.name}({call.args}) at {call.now}: {call.response}" if call else ""
        self.findings.add(what, example[:300])
        self.causes.setdefault(what, (name, why))


def examine(machine: Machine, seed: int = 0, walks: int = WALKS, calls: int = CALLS) -> Soundness:
    """Every finding of the checks that run a world. Raises Unsatisfied."""
    result = Soundness()
    for call in walk(machine, seed, walks, calls):
        judge(machine, call, result)
    _reached(machine, result)
    _seen(machine, result)
    return result


def walk(
    machine: Machine, seed: int, walks: int = WALKS, calls: int = CALLS
) -> Iterator[TriedCall]:
    """Calls with arguments that mostly fit the state that the calls before them left."""
    names = list(machine.operations)
    for number in range(walks):
        rng = rng_for(seed, "walk", number)
        now = draw_now(rng)
        state = draw_state(machine, rng, now)
        for _ in range(calls):
            name = rng.choice(names)
            args = _ArgumentDrawer(machine, state, rng, now).of(machine.operations[name].args)
            after, response, error = machine.apply(state, name, args, now)
            yield TriedCall(state, name, args, now, after, response, error)
            state = after


class _ArgumentDrawer:
    """What a caller who has seen some of the state might send, border values among it."""

    def __init__(self, machine: Machine, state: State, rng: random.Random, now: str) -> None:
        self.machine, self.state, self.rng, self.now = machine, state, rng, now
        self.frame: Frame = machine.frame(state, {}, now)
        self.rows: list[Row] = []  # rows that arguments before referred to
        self.near_by: set[str] = set()  # what stands in them and in rows that refer to them

    def of(self, kinds: dict[str, Kind]) -> Row:
        args: Row = {}
        for name, kind in kinds.items():
            if kind.get("optional") and self.rng.random() < 0.5:
                continue
            value = self.value(name, kind)
            if value is not None:
                args[name] = value
        return args

    def value(self, name: str, kind: Kind) -> Json:
        rng, form = self.rng, kind["type"]
        if form == "list":
            count = rng.choice((1, 1, 2, 2, 3))
            return [self.value(name, kind["of"]) for _ in range(count)]
        if form == "object":
            return self.of(kind["fields"])
        if form == "ref":
            return self.key(kind)
        if form == "boolean":
            return rng.random() < 0.5
        if form == "choice":
            return rng.choice(kind["choices"])
        near = self.near(name, kind)
        if near and rng.random() < 0.75:
            return self.beside(kind, rng.choice(near))
        if form == "text":
            return rng.choice(("a", "e", "Note", "Some words"))
        if form in ("integer", "number"):
            low, high = kind.get("low", 1), kind.get("high", 20)
            number = rng.choice((low, high, rng.randint(int(low), max(int(low), int(high)))))
            return number if form == "number" else int(number)
        day = shifted(self.now[:10], rng.randint(-10, 30), "days")
        clock = f"{rng.randint(8, 18):02}:{rng.choice((0, 30)):02}"
        return {"date": day, "time": clock, "datetime": f"{day}T{clock}"}[form]

    def key(self, kind: Kind) -> Json:
        """A key: of a row that is one's own mostly, or that goes with the rows named before."""
        table = self.frame.tables[kind["entity"]]
        if self.rng.random() < STRANGE or not table:
            return f"{self.machine.entities[kind['entity']].prefix}0"
        rows = list(table.values())
        own = [row for row in rows if self.machine.owned(self.frame, kind["entity"], row)]
        if own and self.rng.random() < 0.9:
            rows = own
        related = [row for row in rows if self.near_by & set(map(str, row.values()))]
        row = self.rng.choice(related if related and self.rng.random() < 0.6 else rows)
        self._note(kind["entity"], row)
        return row[self.machine.entities[kind["entity"]].key]

    def _note(self, entity: str, row: Row) -> None:
        """A row that an argument named, with those that refer to it: the next may go with it."""
        self.rows.append(row)
        rows = [row]
        for other, column in self.machine.entities[entity].pointed_at:
            key = row[self.machine.entities[entity].key]
            rows += self.frame.tables[other].by(column).get(key, [])
        self.near_by |= {value for r in rows for value in r.values() if isinstance(value, str)}

    def near(self, name: str, kind: Kind) -> list[Json]:
        """Values of the state that an argument of this name and type might repeat."""
        form = kind["type"]
        sources = [self.rows, *([list(t.values()) for t in self.frame.tables.values()])]
        values = []
        for rows in sources:
            for row in rows:
                values += [
                    value
                    for field, value in row.items()
                    if _form(value) == form or (form == "number" and _form(value) == "integer")
                    if form != "text" or field == name or name in ("query", "text", "words")
                ]
            if values and self.rng.random() < 0.7:
                break
        return values

    def beside(self, kind: Kind, value: Json) -> Json:
        """A value or one next to it, inside the bounds of the argument."""
        form = kind["type"]
        if form == "text":
            words = value.split()
            return self.rng.choice([value, value.lower(), *words[:1]])
        if form in ("integer", "number"):
            value += self.rng.choice((-1, 0, 0, 1))
            low, high = kind.get("low", value), kind.get("high", value)
            return min(max(value, low), high)
        unit = "minutes" if form == "time" else "days"
        return shifted(value, self.rng.choice((-1, 0, 0, 1)), unit)


def _form(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) else "number"
    if not isinstance(value, str):
        return "other"
    for form, length in (("date", 10), ("time", 5), ("datetime", 16)):
        if len(value) == length and value[2 if form == "time" else 4] in ":-":
            return form
    return "text"


# --- what a call shows -----------------------------------------------------------------------


def judge(machine: Machine, call: TriedCall, result: Soundness) -> None:
    if call.error is None:
        result.successes[call.name] += 1
        _rules_held(machine, call, result)
    else:
        result.errors[call.name, call.error] += 1
        if call.after is not call.before:
            result.find(
                Reason.WORLD_UNSOUND, call.name, f"{call.name} fails and changes the state.", call
            )
        if call.error in (BROKEN, TOO_LARGE):
            result.find(
                Reason.WORLD_UNSOUND,
                call.name,
                f"{call.name} ends in {call.error}: it lacks a `require`.",
                call,
            )
    promise = machine.world["promises"].get(call.name)
    if promise and call.error != INVALID:
        _kept(machine, call, promise, result)


def _rules_held(machine: Machine, call: TriedCall, result: Soundness) -> None:
    """A call holds the rules of rows that it changes; here are those of the others."""
    if call.after is call.before:
        return
    before, after = (machine.frame(s, {}, call.now) for s in (call.before, call.after))
    changed = {name for name in machine.entities if before.tables[name] is not after.tables[name]}
    for name, spec in machine.world["entities"].items():
        for text, tree in spec.get("rules", ()):
            if not any(_looked_at(node) in changed for node in nodes(tree)):
                continue
            clause = as_term(tree)
            for key, row in call.after["tables"][name].items():
                before.vars["this"], after.vars["this"] = call.before["tables"][name].get(key), row
                if before.vars["this"] is row and not clause(after) and clause(before):
                    result.find(
                        Reason.WORLD_UNSOUND,
                        call.name,
                        f"{call.name} breaks `{text}` of {name} that it leaves alone.",
                        call,
                    )


def _looked_at(node: Json) -> str:
    """The entity whose rows a form looks at, beside those it is given."""
    return str({"table": node[1:2], "hop": node[2:3]}.get(node[0], [""])[0])


def _kept(machine: Machine, call: TriedCall, promise: Json, result: Soundness) -> None:
    before = machine.bound(call.before, call.name, call.args, call.now)
    if before is None:
        if call.error is None:
            result.find(
                Reason.WORLD_UNSOUND,
                call.name,
                f"{call.name} succeeds for arguments that name nothing.",
                call,
            )
        return
    unmet = {code: text for code, text, clause in promise["only_if"] if not as_term(clause)(before)}
    if call.error is None and unmet:
        text = next(iter(unmet.values()))
        result.find(
            Reason.PROMISE_BROKEN,
            call.name,
            f"{call.name} succeeds although `{text}` does not hold.",
            call,
        )
    if call.error is not None and call.error not in unmet:
        result.find(
            Reason.PROMISE_BROKEN,
            call.name,
            f"{call.name} fails with {call.error}, and its promises do not say so.",
            call,
        )
    if call.error is not None:
        return
    promised = {tuple(effect) for effect in promise["effects"]}
    for effect in changes(machine, call.before, call.after):
        if not promised & set(effect):
            result.find(
                Reason.PROMISE_BROKEN,
                call.name,
                f"{call.name} has an effect that is not promised: {effect[0]}.",
                call,
            )
        for one in effect:
            result.errors[call.name, f"effect {one}"] += 1
    after = machine.bound(call.after, call.name, call.args, call.now)
    after = after or machine.frame(call.after, before.args, call.now)
    after.old = before
    for name, value in before.vars.items():
        after.vars.setdefault(name, value)
    for text, clause in promise["after"]:
        if not as_term(clause)(after):
            result.find(
                Reason.PROMISE_BROKEN, call.name, f"After {call.name} `{text}` does not hold.", call
            )
    if promise["shows"]:
        entity, tree = promise["shows"]
        expected, shown = plain(as_term(tree)(after)), call.response
        if entity:
            key = machine.entities[entity].key
            expected = [row[key] for row in expected]
            shown = [item.get(key) for item in _items(call.response)]
        if shown != expected:
            result.find(
                Reason.PROMISE_BROKEN,
                call.name,
                f"{call.name} does not show what is promised.",
                call,
            )


def _items(response: Json) -> list[Row]:
    values = response if isinstance(response, list) else [response]
    return [value for value in values if isinstance(value, dict)]


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


def _reached(machine: Machine, result: Soundness) -> None:
    for name, spec in machine.world["operations"].items():
        if not result.successes[name]:
            result.find(Reason.WORLD_UNREACHABLE, name, f"{name} never succeeds.")
        for code in spec["errors"]:
            if not result.errors[name, code]:
                result.find(Reason.WORLD_UNREACHABLE, name, f"{name} never fails with {code}.")
        promise = machine.world["promises"].get(name)
        if promise is None:
            result.find(Reason.PROMISE_BROKEN, name, f"{name} has no promises.")
            continue
        for effect in promise["effects"]:
            if result.successes[name] and not result.errors[name, f"effect {tuple(effect)}"]:
                result.find(
                    Reason.PROMISE_BROKEN,
                    name,
                    f"{name} never has its effect {' '.join(e for e in effect if e)}.",
                )


def _seen(machine: Machine, result: Soundness) -> None:
    """Every key that an operation takes, and every field that one changes, is shown by a read."""
    shown: set[str] = set()
    for spec in machine.world["operations"].values():
        shown |= {node[2] for node in nodes(spec["returns"]) if node[0] == "field"}
    for name, spec in machine.world["operations"].items():
        for arg, kind in spec["args"].items():
            key = machine.entities[kind["entity"]].key if kind["type"] == "ref" else None
            if key and key not in shown:
                result.find(
                    Reason.WORLD_UNREACHABLE, name, f"{name} takes {arg}, and nothing shows {key}."
                )
        changing = (node for node in nodes(spec["steps"]) if node[0] in ("create", "update"))
        for _, entity, _, fields, _ in changing:
            for column in fields.keys() - shown:
                result.find(
                    Reason.WORLD_UNREACHABLE,
                    name,
                    f"{name} changes {entity}.{column}, and nothing shows it.",
                )
