"""What a run keeps in memory: a million tiny records against ten thousand.

    python benchmarks/memory.py --records 10000 1000000

Each size is a run of one stage in a process of its own: every record asks one question, which
the response cache answers, and is written. The cache is filled with one answer beforehand, so
nothing is sent. Printed are the peak memory of each process, the ratio, and records a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from toolloom.agents.ask import ask
from toolloom.llm import FakeServer, Gateway
from toolloom.pipeline.runner import run
from toolloom.pipeline.stage import Context, Stage
from toolloom.prompts import Prompt
from toolloom.schemas import Domain, JsonObject, Outcome, Recipe, Record, parse_recipe

QUESTIONS = 1000  # different ones, so that records do not all share one answer
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


def recipe(base_url: str) -> Recipe:
    endpoint = {"base_url": base_url, "model": "fake"}
    return parse_recipe({"name": "memory", "model": endpoint, "shard_size": 1000}, "the benchmark")


def stage(records: int) -> Stage:
    def draw(_recipe: Recipe, _before: Iterable[Record]) -> Iterator[Record]:
        for number in range(records):
            yield Domain(category=f"c{number % QUESTIONS}", name=f"d{number}")

    async def work(domain: Domain, context: Context) -> Outcome:
        await question(context.gateway, context.recipe, domain.category)
        return Outcome((domain,))

    return Stage("asked", "domain", Domain, Domain, work, draw)


async def question(gateway: Gateway, of: Recipe, word: str) -> None:
    prompt = Prompt("memory", "memory", ({"role": "user", "content": word},))
    await ask(gateway.model(of.model), prompt, dict, seed=0, schema=SCHEMA)


async def fill(cache: Path) -> str:
    """Ask every question once; the address that answered."""
    async with FakeServer() as server, Gateway(cache) as gateway:
        of = recipe(server.base_url)
        await asyncio.gather(*(question(gateway, of, f"c{n}") for n in range(QUESTIONS)))
        return server.base_url


def measure(records: int, base_url: str, cache: Path) -> JsonObject:
    """A run in this process."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as outputs:
        made = asyncio.run(
            run(
                recipe(base_url),
                outputs=Path(outputs),
                stages=(stage(records),),
                cache=str(cache),
            )
        )
    assert (made.asked, made.counts.accepted) == (0, records), made
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"records": records, "mb": megabytes, "seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--one", nargs=3, metavar=("RECORDS", "URL", "CACHE"), help="internal")
    chosen = parser.parse_args()
    if chosen.one:
        records, base_url, cache = chosen.one
        print(json.dumps(measure(int(records), base_url, Path(cache))))
        return
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.sqlite"
        base_url = asyncio.run(fill(cache))
        found = []
        for records in chosen.records:
            command = [sys.executable, __file__, "--one", str(records), base_url, str(cache)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found.append(json.loads(done.stdout))
            one = found[-1]
            speed = records / one["seconds"]
            print(f"{records:>9,} records: {one['mb']:6.1f} MB, {speed:8,.0f} a second")
        print(f"ratio of memory: {found[-1]['mb'] / found[0]['mb']:.2f} (target 1.2 at most)")


if __name__ == "__main__":
    main()
