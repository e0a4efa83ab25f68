"""How fast worlds run: states drawn, calls interpreted, scripts played and tasks drawn a second.

    python benchmarks/worlds.py                       # all worlds that ship
    python benchmarks/worlds.py recipes/worlds/shop.yaml

All on one core. Calls are those of random walks, made again from the states that they had, failing
ones included. The baseline of the same process is what a call cannot cost less than: its arguments
and response through JSON once. Single tasks are those of one want.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import alone, answer, show

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import load_scripts, load_world, shipped
from toolloom.pipeline.worlds.scripts import proofs
from toolloom.pipeline.worlds.soundness import walk
from toolloom.pipeline.worlds.states import draw_now, draw_state
from toolloom.pipeline.worlds.tasks import tasks
from toolloom.schemas import WorldPlan

SECONDS = 2.0  # of each measurement
TASKS = 800


def rate(act: Callable[[int], Any]) -> float:
    """How often a second, over at least SECONDS."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        act(count)
        count += 1
    return count / (time.perf_counter() - began)


def measured(file: str) -> dict[str, float]:
    path = Path(file)
    machine = Machine(load_world(path))
    calls = list(walk(machine, seed=1, walks=8, calls=60))
    scripts = load_scripts(path, machine)[1] if path.with_suffix(".scripts.yaml").exists() else []

    def through_json(_: int) -> None:
        for call in calls:
            json.loads(json.dumps([call.args, call.response]))

    def again(_: int) -> None:
        for call in calls:
            machine.apply(call.before, call.name, call.args, call.now)

    def state(number: int) -> None:
        rng = rng_for("benchmark", number)
        draw_state(machine, rng, draw_now(rng))

    def script(number: int) -> None:
        proofs([scripts[number % len(scripts)]], machine, number, 1)

    draw_state(machine, rng_for("warm"), "2026-03-14T09:30")
    began = time.perf_counter()
    list(tasks(machine, 1, TASKS, WorldPlan(scenarios=("single", "sequential"))))
    single = TASKS / (time.perf_counter() - began)
    return {
        "tasks": single,
        "calls": rate(again) * len(calls),
        "json": rate(through_json) * len(calls),
        "states": rate(state),
        "rows": rate(script) if scripts else 0.0,
    }


def main() -> None:
    rows = []
    for file in sys.argv[1:] or shipped().values():
        taken = alone(__file__, "measured", file=file)
        world = {"world": Path(file).stem, "ratio": taken["calls"] / taken["json"]}
        rows.append({**taken, **world})
    columns = {"calls": "calls/s", "ratio": "of JSON alone", "states": "states/s"}
    columns |= {"rows": "rows of scripts/s", "tasks": "single tasks/s", "peak": "MB"}
    show("Worlds", rows, {"world": "world", **columns})


if __name__ == "__main__":
    answer({"measured": measured}, cores=1)
    main()
