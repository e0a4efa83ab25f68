"""What all benchmarks share: a process for each measurement, ways that take turns, medians, tables.

A script gives its ways to `answer`, first thing, and has them measured with `alone`. What it
imports at its top is loaded before the clock starts; what only one way needs is imported by it, so
that the memory of each is its own.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

TOOLLOOM = [sys.executable, "-c", "from toolloom.cli import main; main()"]
COSTS = {"wall": "wall s", "cpu": "CPU s", "peak": "MB"}

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # for `support`


def alone(script: str, what: str, **task: Any) -> Json:
    """What one way took, in a fresh process."""
    command = [sys.executable, script, "--alone", what, json.dumps(task, default=str)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken: Json = json.loads(done.stdout)
    return taken


def answer(ways: dict[str, Callable[..., Json | None]], cores: int | None = None) -> None:
    """In a process that `alone` started: measure the way, on so many cores, print, and end.

    Figures that the way returns stand beside wall and CPU seconds and peak memory, or for them.
    """
    if sys.argv[1:2] != ["--alone"]:
        return
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-cores:])
    gc.set_threshold(20_000, 20, 20)  # as `toolloom` sets it
    stdout = os.dup(1)
    os.dup2(2, 1)  # what a way prints does not belong into its result
    wall, cpu = time.perf_counter(), time.process_time()
    figures = ways[sys.argv[2]](**json.loads(sys.argv[3])) or {}
    taken = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    sys.stdout.flush()
    os.dup2(stdout, 1)
    # In MB. Not `ru_maxrss`: a process inherits it from the one that started it.
    peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
    print(json.dumps({**taken, "peak": peak, **figures}))
    sys.exit()


def in_turns(rounds: int, ways: dict[str, Callable[[], Json]]) -> dict[str, Json]:
    """The medians of each way's figures."""
    taken: dict[str, list[Json]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            taken[name].append(way())
    return {
        name: {
            figure: statistics.median(row[figure] for row in rows)
            for figure, value in rows[0].items()
            if isinstance(value, int | float)
        }
        for name, rows in taken.items()
    }


@contextmanager
def endpoint(**options: Any) -> Iterator[str]:
    """The scripted endpoint in its own process: its address."""
    words = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "toolloom.llm.scripted", "--port=0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def show(title: str, rows: Iterable[Json], columns: dict[str, str]) -> None:
    """Print a table; `columns`: headings by name of a figure."""
    from toolloom.pipeline.render.section import Section, markdown

    cells = [[_written(row.get(name)) for name in columns] for row in rows]
    print(markdown([Section(title, [*columns.values()], cells)]))


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "–" if value is None else str(value)
