"""How fast requests are sent: toolloom's gateway beside bare loops and beside the ideal.

    python benchmarks/throughput.py                 # every way, latency and concurrency
    python benchmarks/throughput.py --steady --failures --run --start

The endpoint runs in its own process, and so does each measurement: memory and CPU are its own.
The ways alternate; medians are printed. The ideal is requests × latency / concurrency. Wall time
and CPU (a request) are those of sending; `start` is the CPU until the first request is answered.
`chain`: the requests of a run that must follow one another take so long on any client.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from ways import peak  # the script beside this one

Json: TypeAlias = dict[str, Any]

HERE = Path(__file__).parent
ANSWER = '{"name": "Ann Lee", "day": "2026-01-02", "kind": "hotel", "guests": 2}'
TOOLLOOM, SDK, BARE = "toolloom", "AsyncOpenAI, aiohttp", "bare aiohttp"
WAYS = (BARE, "AsyncOpenAI", SDK, TOOLLOOM)
LATENCIES, CONCURRENCIES = (0.0, 0.2, 1.0), (64, 256)
# Latency, concurrency, and the share of the ideal rate that is wanted.
STEADY = ((0.2, 64, 0.93), (0.2, 256, 0.75), (1.0, 256, 0.90))
WELL, FEW, MANY = "no failures", "2 % 429, 2 % 500, ½ % reset, ½ % truncated", "5 % of six kinds"
FAILING: dict[str, Json] = {
    WELL: {},
    FEW: {"failures": "429=0.02,500=0.02,reset=0.005,truncated=0.005"},
    MANY: {"failures": "429=0.05,500=0.05,reset=0.05,truncated=0.05,hang=0.05,html=0.05"},
}
RETRY_AFTER = 1.0
TIMEOUT = 2.0  # for what hangs
TIMES = 1.25  # times the run without failures, and one Retry-After
START = 1.5  # seconds
CONSOLE = Console(width=None if sys.stdout.isatty() else 120)


@contextmanager
def endpoint(**options: Any) -> Iterator[str]:
    """The scripted endpoint in its own process: its address."""
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "toolloom.llm.fake", "--port=0", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def measure(way: str, **task: Any) -> Json:
    """What one way took, in a fresh process."""
    command = [sys.executable, str(HERE / "ways.py"), way, json.dumps(task)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    taken: Json = json.loads(done.stdout)
    wanted = task.get("requests")
    if wanted and taken["sent"] != wanted:
        raise SystemExit(f"{way} sent {taken['sent']} requests for {wanted}")
    return taken


def alternating(rounds: int, tasks: dict[str, Json]) -> dict[str, Json]:
    """The medians of each task's figures; `tasks`: arguments of measure, by a name."""
    taken: dict[str, list[Json]] = {name: [] for name in tasks}
    for number in range(rounds):
        for name, task in tasks.items():
            with CONSOLE.status(f"{name}, {number + 1} of {rounds}"):
                taken[name].append(measure(**task))
    return {name: medians(rows) for name, rows in taken.items()}


def medians(rows: list[Json]) -> Json:
    numbers = {name for name, value in rows[0].items() if isinstance(value, int | float)}
    return {name: statistics.median(row[name] for row in rows) for name in sorted(numbers)}


def compare(chosen: argparse.Namespace) -> Iterator[Json]:
    """Every way at every latency and concurrency."""
    for latency in chosen.latencies:
        with endpoint(latency=latency, answer=ANSWER) as base_url:
            for at_once in chosen.concurrencies:
                load = {"base_url": base_url, "requests": chosen.requests, "concurrency": at_once}
                tasks = {way: {"way": way, **load} for way in WAYS}
                ideal = chosen.requests * latency / at_once
                for way, taken in alternating(chosen.rounds, tasks).items():
                    yield {"latency": latency, "at once": at_once, "way": way, **taken} | times(
                        taken, ideal
                    )


def times(taken: Json, ideal: float) -> Json:
    return {"ideal": ideal, "of ideal": taken["wall"] / ideal if ideal else None}


def steady(chosen: argparse.Namespace) -> Iterator[Json]:
    """The rate of the middle, its share of the ideal; without latency, of the SDK's rate."""
    for latency, at_once, target in (*STEADY, (0.0, 64, 1.0)):
        with endpoint(latency=latency, answer=ANSWER) as base_url:
            load = {"base_url": base_url, "requests": chosen.many, "concurrency": at_once}
            tasks = {way: {"way": way, **load} for way in (BARE, SDK, TOOLLOOM)}
            taken = alternating(chosen.rounds, tasks)
        ideal = at_once / latency if latency else taken[SDK]["rate"]
        for way, row in taken.items():
            share = row["rate"] / ideal
            yield {"latency": latency, "at once": at_once, "way": way, **row} | {
                "share": share,
                "target": target if way == TOOLLOOM else None,
                "met": verdict(share >= target) if way == TOOLLOOM else None,
            }


def failing(chosen: argparse.Namespace) -> Iterator[Json]:
    """A share of requests fails, beside the same without. Every request must come to its end."""
    with ExitStack() as stack:
        tasks = {
            name: {
                "way": TOOLLOOM,
                "base_url": stack.enter_context(endpoint(latency=0.05, answer=ANSWER, **options)),
                "requests": chosen.requests,
                "concurrency": 64,
                "records": 3,  # as a run has, so that who waits for a retry holds up nobody
                "timeout": TIMEOUT,
            }
            for name, options in FAILING.items()
        }
        taken = alternating(chosen.rounds, tasks)
    without = taken[WELL]["wall"]
    target = TIMES * without + RETRY_AFTER
    for name, row in taken.items():
        aimed = {"target": target, "met": verdict(row["wall"] <= target)} if name == FEW else {}
        tries = row["sent"] + row["retries"]
        yield {"server": name, **row, "tries": tries, "times": row["wall"] / without, **aimed}


def whole(chosen: argparse.Namespace) -> Iterator[Json]:
    """Five agents, beside a bare loop that sends the same bodies in any order."""
    recipe: Json = {
        "name": "throughput",
        "model": {"base_url": "http://localhost/v1", "model": "fake", "concurrency": 64},
        "apis": {"domains": 16, "per_domain": 3},
        "queries": {"count": chosen.queries},
    }
    with tempfile.TemporaryDirectory() as folder:
        bodies = Path(folder) / "bodies.jsonl"
        command = [sys.executable, str(HERE / "record_run.py"), json.dumps(recipe), str(bodies)]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        recorded: Json = json.loads(told.stdout)
        for spread in (0.0, 0.5):
            with endpoint(latency=0.2, spread=spread) as base_url:
                load = {"base_url": base_url, "requests": recorded["requests"], "concurrency": 64}
                model = {**recipe["model"], "base_url": base_url}
                tasks = {
                    SDK: {"way": SDK, **load, "bodies": str(bodies)},
                    "run": {"way": "run", **load, "recipe": {**recipe, "model": model}},
                }
                for way, taken in alternating(chosen.rounds, tasks).items():
                    ideal = recorded["requests"] * 0.2 / 64
                    chain = {"chain": recorded["steps"] * 0.2, "spread": spread, "way": way}
                    yield {**chain, **taken, **times(taken, ideal)}


def starting(chosen: argparse.Namespace) -> Iterator[Json]:
    """From the start of `toolloom run` to its first request at the endpoint."""
    rows = [first_request() for _ in range(chosen.rounds)]
    taken = medians(rows)
    yield {"command": "toolloom run --engine local", **taken} | {
        "target": START,
        "met": verdict(taken["seconds"] <= START),
    }


def first_request() -> Json:
    with endpoint(latency=1) as base_url, tempfile.TemporaryDirectory() as folder:
        recipe = Path(folder) / "recipe.yaml"
        model = {"base_url": base_url, "model": "fake"}
        recipe.write_text(json.dumps({"name": "start", "model": model}))  # JSON is YAML
        command = [sys.executable, "-c", "from toolloom.cli import main; main()"]
        began = time.time()
        process = subprocess.Popen(
            [*command, "run", str(recipe), "--engine", "local", "-o", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            while not (first := counters(base_url)["first"]):
                time.sleep(0.05)
                if process.poll() is not None:
                    raise SystemExit("toolloom run ended before it asked anything")
            return {"seconds": first - began, "used": used(process.pid), "peak": peak(process.pid)}
        finally:
            process.kill()
            process.wait()


def used(process: int) -> float:
    """Seconds of CPU: the machine may be busy with something else."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def counters(base_url: str) -> Json:
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/counters", timeout=5) as response:
        found: Json = json.load(response)
        return found


def verdict(met: bool) -> str:
    return "yes" if met else "NO"


def show(title: str, rows: Iterable[Json], columns: dict[str, str]) -> list[Json]:
    """A table, and the rows it was made of; `columns`: headings by name of a figure."""
    kept = list(rows)
    table = Table(title=title, box=SIMPLE_HEAD)
    for name, heading in columns.items():
        words = name in ("way", "server", "command", "met")
        table.add_column(heading, no_wrap=True, justify="left" if words else "right")
    for row in kept:
        table.add_row(*(written(row.get(name)) for name in columns))
    CONSOLE.print(table)
    return [{"part": title, **row} for row in kept]


def written(value: Any) -> str:
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


PLACE = {"latency": "latency", "at once": "at once", "way": "way"}
COSTS = {"cpu": "CPU ms", "peak": "MB", "start": "start s"}
WALL = {"wall": "wall s", "ideal": "ideal s", "of ideal": "× ideal"}
RATE = {"rate": "requests/s", "share": "share"}
TARGET = {"target": "target", "met": "met"}
RUN = {"spread": "spread", "way": "way", "sent": "requests", "chain": "chain s"}
FAILED = {
    "server": "server",
    "wall": "wall s",
    "times": "× without",
    "sent": "answered",
    "tries": "tries",
}
FIRST = {"command": "command", "seconds": "seconds", "used": "of them CPU", "peak": "MB"}
Part: TypeAlias = tuple[str, Callable[[argparse.Namespace], Iterator[Json]], dict[str, str]]
PARTS: dict[str, Part] = {
    "compare": ("Ways to send", compare, PLACE | WALL | COSTS),
    "steady": ("Steady state", steady, PLACE | RATE | TARGET | COSTS),
    "failures": ("Failures", failing, FAILED | TARGET),
    "run": ("A whole run", whole, RUN | WALL | COSTS),
    "start": ("From the start to the first request", starting, FIRST | TARGET),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--many", type=int, default=10_000, help="requests of --steady")
    parser.add_argument("--queries", type=int, default=200, help="records of --run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latencies", type=float, nargs="+", default=LATENCIES)
    parser.add_argument("--concurrencies", type=int, nargs="+", default=CONCURRENCIES)
    parser.add_argument("--json", type=Path, help="file for all figures")
    parts = ("compare", "steady", "failures", "run", "start")
    for part in parts:
        parser.add_argument(f"--{part}", action="store_true", help="this part, and others named")
    chosen = parser.parse_args()
    named = [part for part in parts if getattr(chosen, part)] or ["compare"]
    found: list[Json] = []
    for part in named:
        title, rows, columns = PARTS[part]
        found += show(title, rows(chosen), columns)
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
