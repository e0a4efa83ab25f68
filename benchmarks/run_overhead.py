"""What a whole run costs: five agents on the scripted endpoint against a bare loop.

    python benchmarks/run_overhead.py --queries 200 --concurrency 64 --rounds 3

The endpoint runs in its own process and answers after 200 ms. A run (`--engine local`, in a
process of its own, empty cache and outputs every time) alternates with a loop of `AsyncOpenAI`
on the aiohttp transport that sends the very same bodies, at the same concurrency, in no order.
The loop does not wait for one answer to ask the next: a run must. How many requests follow one
another at least is the number of steps printed, and what they would take alone is its own ideal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
from overhead import fake_server  # the script beside this one

from toolloom.llm import FakeServer
from toolloom.pipeline.runner import run
from toolloom.schemas import Recipe, parse_recipe

LATENCY = 0.2
STAGES = ("domains", "apis", "queries", "dialogues", "tested")


def recipe(base_url: str, chosen: argparse.Namespace) -> Recipe:
    fields = {
        "name": "overhead",
        "model": {"base_url": base_url, "model": "fake", "concurrency": chosen.concurrency},
        "apis": {"domains": 16, "per_domain": 3},
        "queries": {"count": chosen.queries},
        "shard_size": chosen.shard_size,
    }
    return parse_recipe(fields, "the benchmark")


async def collect(chosen: argparse.Namespace) -> tuple[list[Any], int]:
    """The bodies a run sends, and how many requests of it must follow one another."""
    bodies: list[Any] = []
    from toolloom.llm.fake import improvise

    def script(body: Any) -> Any:
        bodies.append(body)
        return improvise(body)

    with tempfile.TemporaryDirectory() as folder:
        async with FakeServer(script) as server:
            await run(recipe(server.base_url, chosen), outputs=Path(folder))
        return bodies, steps(Path(folder))


def steps(outputs: Path) -> int:
    """The longest chain: one answer waits for another within a record, and of stages for each.

    Votes of one dialogue are cast together, so that a stage of the tester is two steps at most.
    """
    longest: dict[str, int] = {}
    chains: dict[str, int] = {}
    for stage in STAGES:
        for kind in ("accepted", "rejected"):
            (path,) = outputs.glob(f"runs/*/{stage}/{kind}.jsonl")
            for line in path.read_text().splitlines():
                row = json.loads(line)
                asked = sum(p["requests"] for p in row["provenance"] if p["stage"] == stage)
                name = row.get("id") or (row.get("dialogue") or row).get("query", {}).get("id", "")
                made = asked if stage != "tested" else 1 + (asked > 3)
                longest[stage] = max(longest.get(stage, 0), made)
                if stage in STAGES[2:]:
                    chains[name] = chains.get(name, 0) + made
    return longest["domains"] + longest["apis"] + max(chains.values())


def whole_run(base_url: str, chosen: argparse.Namespace, bodies: list[Any]) -> float:
    """Seconds of the run itself; imports and the start of the process are not counted."""
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(run(recipe(base_url, chosen), outputs=Path(folder)))
    assert made.asked == len(bodies), (made.asked, len(bodies))
    return made.seconds


def bare_loop(base_url: str, chosen: argparse.Namespace, bodies: list[Any]) -> float:
    """As good as a loop on the SDK gets: workers on one iterator."""

    async def loop() -> None:
        coming = iter(bodies)
        async with openai.AsyncOpenAI(
            base_url=base_url, api_key="none", http_client=openai.DefaultAioHttpClient()
        ) as client:

            async def work() -> None:
                for body in coming:
                    await client.chat.completions.create(**body)

            await asyncio.gather(*(work() for _ in range(chosen.concurrency)))

    began = time.perf_counter()
    asyncio.run(loop())
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--shard-size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    bodies, longest = asyncio.run(collect(chosen))
    ways: dict[str, Callable[..., float]] = {"bare AsyncOpenAI": bare_loop, "run": whole_run}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    with fake_server(LATENCY) as base_url:
        bare_loop(base_url, chosen, bodies[:64])  # warm up
        for _ in range(chosen.rounds):
            for name, way in ways.items():
                taken[name].append(way(base_url, chosen, bodies))
    least = len(bodies) * LATENCY / chosen.concurrency
    print(f"{len(bodies)} requests, {chosen.concurrency} at once: {least:.2f} s at least")
    print(f"{longest} steps that follow one another: {longest * LATENCY:.2f} s at least for a run")
    medians = {name: statistics.median(times) for name, times in taken.items()}
    for name, median in medians.items():
        shown = ", ".join(f"{t:.2f}" for t in taken[name])
        print(f"{name:17} {median:6.2f} s  ({shown})  {median / least:.2f} of the ideal")
    print(f"ratio             {medians['run'] / medians['bare AsyncOpenAI']:6.2f}")


if __name__ == "__main__":
    main()
