"""How fast worlds run: states drawn, calls interpreted, scripts played and tasks drawn a second.

    python benchmarks/worlds.py                       # all worlds that ship
    python benchmarks/worlds.py recipes/worlds/shop.yaml

All on one core. Calls are those of random walks, made again from the states that they had, failing
ones included. The baseline of the same process is what a call cannot cost less than: its arguments
and response through JSON once. Single tasks are those of one want; of all tasks the share is told
that takes so many calls, each of them needed.

Of a version of all that the world's scripts give: how many rows `toolloom verify` goes through a
second, in CPU time, beside as many rows of `benchmarks/dataset.py`, which play in no world (6 kB,
two calls), in the same process. The first reading is what a command does, but for the time to load
modules; then again, when caches know a part of the texts, and without running calls again.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure import alone, answer, show

from toolloom.pipeline.checks.world.interpreter import Machine
from toolloom.pipeline.sampling.values import rng_for
from toolloom.pipeline.worlds.library import load_scripts, load_world
from toolloom.pipeline.worlds.plans import MOST_CALLS
from toolloom.pipeline.worlds.scripts import play
from toolloom.pipeline.worlds.series import coverage, tasks
from toolloom.pipeline.worlds.soundness import walk
from toolloom.pipeline.worlds.states import draw_now, draw_state

SHIPPED = Path(__file__).parents[1] / "recipes" / "worlds"
SECONDS = 2.0  # of each measurement
TASKS = 800
FEW = 12  # rows of a version that is read to load modules
DEPTHS = range(MOST_CALLS + 1)  # calls of a task


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
    calls = list(walk(machine, 1, 8, 60))
    scripts = load_scripts(path, machine) if path.with_suffix(".scripts.yaml").exists() else []

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
        play(scripts[number % len(scripts)], machine, rng_for("benchmark", number))

    draw_state(machine, rng_for("warm"), "2026-03-14T09:30")
    began = time.perf_counter()
    list(tasks(machine, 1, TASKS, "single"))
    single = TASKS / (time.perf_counter() - began)
    depths = coverage(machine, tasks(machine, 2, TASKS)).depths
    return {
        **{str(depth): 100 * depths[depth] / TASKS for depth in DEPTHS},
        "tasks": single,
        "calls": rate(again) * len(calls),
        "json": rate(through_json) * len(calls),
        "states": rate(state),
        "rows": rate(script) if scripts else 0.0,
    }


def drawn(file: str, folder: str) -> dict[str, float]:
    """Make versions of dialogues: all that the world's scripts give, as many in no world, a few."""
    from dataset import version

    from toolloom.pipeline.run import run_recipe
    from toolloom.schemas import parse_recipe

    recipe = {"name": "benchmark", "model": "none", "worlds": {"use": [file], "per_script": 5}}
    made = run_recipe(parse_recipe(recipe, "a recipe"), Path(folder) / "world").published
    assert made
    count = sum(table["rows"] for table in made.manifest["configs"]["samples"].values())
    for name, rows in (("plain", count), ("few", FEW)):
        version(Path(folder) / name, rows, small=False, topics=max(FEW, rows // 4))
    return {"count": count}


def verified(folder: str) -> dict[str, float]:
    """Rows of these versions that are verified a second."""
    from toolloom.pipeline.checks import inspect
    from toolloom.pipeline.dataset import verify_rows
    from toolloom.pipeline.dataset.verify import verify

    def speed(name: str) -> float:
        (path,) = Path(folder, name).glob("datasets/benchmark/*.0.0")
        began = time.process_time()
        report = verify(path)
        assert not report.faults
        return report.inspected / (time.process_time() - began)

    speed("few")  # loads modules
    figures = {"first": speed("world"), "plain": speed("plain")}
    again, read = [], []
    for _ in range(3):  # in turns
        again.append((speed("world"), speed("plain")))
        verify_rows.inspect = lambda dialogue, **_: inspect(dialogue)
        read.append(speed("world"))
        verify_rows.inspect = inspect
    figures["again"], figures["plain again"] = map(max, zip(*again, strict=True))
    return {**figures, "read": max(read)}


def compared(file: str) -> dict[str, float | str]:
    with TemporaryDirectory() as folder:
        taken = alone(__file__, "drawn", file=file, folder=folder)
        taken |= alone(__file__, "verified", folder=folder)
    ratios = {"ratio": "first", "ratio again": "again"}
    plain = {"first": "plain", "again": "plain again"}
    taken |= {name: taken[way] / taken[plain[way]] for name, way in ratios.items()}
    return {**taken, "world": Path(file).stem}


def main() -> None:
    files = sys.argv[1:] or [
        str(path) for path in sorted(SHIPPED.glob("*.yaml")) if "scripts" not in path.name
    ]
    rows = []
    for file in files:
        taken = alone(__file__, "measured", file=file)
        ratio = taken["calls"] / taken["json"]
        rows.append({**taken, "world": Path(file).stem, "ratio": ratio})
    columns = {"calls": "calls/s", "ratio": "of JSON alone", "states": "states/s"}
    columns |= {"rows": "rows of scripts/s", "tasks": "single tasks/s", "peak": "MB"}
    show("Worlds", rows, {"world": "world", **columns})
    depths = {str(depth): str(depth) for depth in DEPTHS}
    show("Share of tasks by calls, %", rows, {"world": "world", **depths})
    rows = list(map(compared, files))
    ways = {"count": "rows", "first": "rows/s", "plain": "in no world", "ratio": "ratio"}
    ways |= {"again": "again", "plain again": "in no world", "ratio again": "ratio"}
    show("Verified", rows, {"world": "world", **ways, "read": "without replay"})


if __name__ == "__main__":
    answer({"measured": measured, "drawn": drawn, "verified": verified}, cores=1)
    main()
