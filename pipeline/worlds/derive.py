"""A dialogue that was worded for a solved task, as a script: values become slots, and conditions
hold what its words lean on.

    spec = derive(dialogue, machine)    # as in a file of scripts; raises Underivable

Rows whose keys are called, or whose names the user says, are looked for; arguments are terms over
them, over earlier results, or over today. What a text says in the form of a slot becomes one. What
stays plain is held by a condition: the kinds and states of the rows, which numbers are none, one or
more, whether days are past, how many a list shows, which of two told values is the larger. So the
conditions are narrow rather than wide. A text that says what nothing here accounts for is refused.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.worlds.conditions import (
    Conditions,
    Underivable,
    chunks,
    parts_of,
    start_of,
)
from toolloom.pipeline.worlds.results import ResultParts
from toolloom.pipeline.worlds.scripts import MadeCall, Play, WorldScript, play_in, read_scripts
from toolloom.pipeline.worlds.telling import scenario_of
from toolloom.pipeline.worlds.texts import TextSlots
from toolloom.schemas import Dialogue, JsonObject


@dataclass(frozen=True)
class Derived:
    """A script that was made of a dialogue, as written; and the rows that it finds in the
    dialogue's own start state, in order."""

    spec: JsonObject
    picks: tuple[str, ...]

    def read(self, machine: Machine) -> WorldScript:
        """The script. Raises Underivable with its first mistake."""
        mistakes: list[str] = []
        (script,) = read_scripts([self.spec], machine, lambda place, what: mistakes.append(what))
        if mistakes:
            raise Underivable(f"it would be no script: {mistakes[0]}")
        return script

    def again(self, dialogue: Dialogue, machine: Machine) -> Play:
        """The script played where it comes from. Raises Underivable if it says or calls anything
        else there."""
        start, now = start_of(dialogue)
        row = play_in(self.read(machine), machine, start, now, _Chosen(self.picks))
        if row is None:
            raise Underivable(
                f"it would not hold where it comes from: {self._falls(start, machine, now)}"
            )
        for (_, part), (_, there) in zip(row.messages, parts_of(dialogue, machine), strict=True):
            if part != there and _called(part) != _called(there):
                raise Underivable(f"it would be another dialogue in its own start state: {part}")
        return row

    def _falls(self, start: State, machine: Machine, now: str) -> str:
        """The first entry at which the script ends in its own start state."""
        script = self.read(machine)
        cuts = [
            replace(script, opening=script.opening[:n], turns=())
            for n in range(1, len(script.opening) + 1)
        ]
        cuts += [replace(script, turns=script.turns[:n]) for n in range(1, len(script.turns) + 1)]
        entries = [*self.spec.get("find", ()), *self.spec["turns"]]
        for entry, cut in zip(entries, cuts, strict=True):
            if play_in(cut, machine, start, now, _Chosen(self.picks)) is None:
                return str(entry)
        return ""

    def needing(
        self, clauses: Sequence[str], dialogue: Dialogue, machine: Machine
    ) -> tuple[Derived, list[str]]:
        """With conditions that somebody adds, before its last words; and those that are left out,
        as they cannot be read or do not hold where the script comes from."""
        made, refused = self, list[str]()
        for clause in clauses:
            turns = list(made.spec["turns"])
            turns.insert(len(turns) - 1, {"need": clause})
            more = Derived({**made.spec, "turns": turns}, self.picks)
            try:
                more.again(dialogue, machine)
                made = more
            except Underivable:
                refused.append(clause)
        return made, refused


def derive(dialogue: Dialogue, machine: Machine, name: str = "") -> Derived:
    """The script of a dialogue. Raises Underivable, also where it does not play to the very
    dialogue in its own start state."""
    found, whys = list[tuple[int, Derived]](), list[Underivable]()
    for british in (False, True):
        of = Conditions(dialogue, machine, british)
        try:
            spec, said = _script(of)
        except Underivable as why:
            whys.append(why)
        else:
            found.append((said, Derived({"name": name, **spec}, tuple(of.picks))))
    if not found:
        raise whys[0]
    _, derived = max(found, key=lambda pair: pair[0])  # more values are said in its dialect
    row = derived.again(dialogue, machine)
    scenario = dialogue.query.scenario
    if scenario_of(derived.read(machine), row, machine) is not scenario:
        derived = Derived({**derived.spec, "scenario": scenario.value}, derived.picks)
    return derived


class _Chosen(random.Random):
    """Chooses these rows, in order; of texts the first."""

    def __init__(self, picks: Sequence[str]) -> None:
        super().__init__(0)
        self.picks = iter(picks)

    def choice(self, seq: Any) -> Any:
        if not isinstance(seq[0], dict):
            return seq[0]
        key = next(self.picks, "")
        return next((row for row in seq if key in row.values()), seq[0])


def _called(part: str | MadeCall) -> Any:
    return part if isinstance(part, str) else (part.name, part.arguments, part.response)


def _script(of: Conditions) -> tuple[JsonObject, int]:
    """A script as it is written, without a name; and how many letters of its texts are in slots.
    Raises Underivable."""
    if any(sign in part for _, part in of.parts if isinstance(part, str) for sign in "{}"):
        raise Underivable("a text holds a brace, as slots do")
    of.look_for()
    calls, texts = ResultParts(of), TextSlots(of)
    made: dict[int, list[JsonObject]] = {}
    heard: dict[int, int] = {}  # how much of the results is known at each text
    for place, (_, part) in enumerate(of.parts):
        heard[place] = len(of.results)
        if isinstance(part, MadeCall):
            made[place] = list(calls.call(part, f"r{len(made) + 1}", place))
    turns: list[JsonObject] = []
    for place, (form, part) in enumerate(of.parts):
        if isinstance(part, MadeCall):
            turns += made[place]
        else:
            turns.append({form: texts.text(form, part, of.results[: heard[place]])})
    texts.relations()
    for chunk in chunks(list(of.needs)):
        turns.insert(len(turns) - 1, {"need": chunk})
    find = of.find()
    spec: JsonObject = {"dialect": "uk"} if of.voice.british else {}
    return {**spec, **({"find": find} if find else {}), "turns": turns}, texts.said
