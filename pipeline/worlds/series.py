"""Tasks of a world, one after another: as unlike as they can be.

for task in tasks(machine, seed, 20):
    ...
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.lookups import keys_in, lookups_of
from toolloom.pipeline.worlds.scenarios import SCENARIOS, TaskSize
from toolloom.pipeline.worlds.tasks import Task, draw_scenario, draw_task, start_for

PER_STATE = 4  # tasks that are drawn from one start state
DRAWS = 5  # of a task, of which the one is taken that is told least
TRIES = 40  # draws until one is of the wanted kind


def tasks(
    machine: Machine,
    seed: Any,
    count: int,
    scenario: str | None = None,
    size: TaskSize | None = None,
    among: Collection[str] = SCENARIOS,
    fits: Callable[[Task], bool] = lambda task: True,
) -> Iterator[Task | None]:
    """Tasks by number; None where the world has none of the wanted kind.

    Several share a start state, which is drawn so that the first of them can be about the change
    whose turn it is: so no change is left out because few states allow it. Of one state no two have
    a want in common, and of several draws that one is taken whose form came up least, if they can
    be had.
    """
    changes = lookups_of(machine).writes
    told: Counter[str] = Counter()
    for number in range(count):
        rng = rng_for(seed, "task", number)
        goal = None
        if number % PER_STATE == 0:
            seen: set[str] = set()
            goal = changes[(number // PER_STATE) % len(changes)] if changes else None
            start = start_for(machine, rng_for(seed, "task state", number), goal)
        chosen = scenario or draw_scenario(rng, goal, size, among)
        best: Task | None = None
        least: tuple[int, int] | None = None
        for attempt in range(TRIES):
            if least == (0, 0) or (best and attempt >= DRAWS):
                break
            # Another state may have one, or another scenario.
            begin = start if attempt in (0, 1, DRAWS - 1) else None
            if attempt >= DRAWS - 1:
                chosen = scenario or draw_scenario(rng, None, size, among)
            task = draw_task(machine, rng, chosen, begin, goal if begin else None, size)
            if task and fits(task):
                rank = len(_wants(machine, task) & seen), told[_form(task)]
                if least is None or rank < least:
                    best, least = task, rank
        if best:
            seen |= _wants(machine, best)
            told[_form(best)] += 1
        yield best


def _wants(machine: Machine, task: Task) -> set[str]:
    """What a task is about, want by want: two that differ in days and amounts are one."""
    asked = {name for turn in task.turns for name in turn.operations}
    acts = [(call.name, call.arguments) for call in task.calls if call.name in asked]
    if task.avoided:
        acts.append((task.avoided.name, task.avoided.arguments))
    return {
        json.dumps([name, sorted(k for _, _, k in keys_in(args, machine.operations[name].args))])
        for name, args in acts
    }


def _form(task: Task) -> str:
    """What two tasks have in common that differ in names, days and amounts alone."""
    turns = [[turn.form, turn.operations, turn.asks] for turn in task.turns]
    calls = [[call.name, sorted(call.arguments), call.error] for call in task.calls]
    avoided = task.avoided and [task.avoided.name, task.avoided.why]
    return json.dumps([turns, calls, avoided])


@dataclass
class TaskCoverage:
    """What tasks were drawn about."""

    depths: Counter[int]
    scenarios: Counter[str]
    undrawn: list[str]  # operations that no task is about
    unmet: list[str]  # errors, as operation.code, that no task meets


def coverage(machine: Machine, drawn: Iterable[Task | None]) -> TaskCoverage:
    """Depths, scenarios, goals never drawn and errors never met over many tasks."""
    operations = machine.world["operations"]
    left = set(operations)
    unmet = {f"{name}.{code}" for name, spec in operations.items() for code in spec["errors"]}
    result = TaskCoverage(Counter(), Counter(), [], [])
    for task in filter(None, drawn):
        result.depths[len(task.calls)] += 1
        result.scenarios[task.scenario] += 1
        left -= {name for turn in task.turns for name in turn.operations}
        unmet -= {f"{call.name}.{call.error}" for call in task.calls if call.error}
    result.undrawn, result.unmet = sorted(left), sorted(unmet)
    return result
