"""What the gateway costs: bare `AsyncOpenAI` against cache, validation and limits.

    python benchmarks/overhead.py --requests 1000 --concurrency 64 --rounds 3

The fake endpoint runs in its own process and answers after 200 ms. The two ways alternate, each
round with an empty cache; medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import openai

from toolloom.llm import Gateway, ask
from toolloom.prompts import Prompt
from toolloom.schemas import Endpoint, JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "day": {"type": "string", "format": "date"},
        "kind": {"enum": ["hotel", "flight", "train"]},
        "guests": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["name", "day", "kind", "guests"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
GUIDE = "You write requests that users send to an assistant with tools. " * 12


def messages(number: int) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": GUIDE},
        {"role": "user", "content": f"Write booking number {number}."},
    ]


async def bare(base_url: str, requests: int, concurrency: int) -> None:
    """As good as a loop on the SDK gets: the aiohttp transport, workers on one iterator."""
    numbers = iter(range(requests))
    async with openai.AsyncOpenAI(
        base_url=base_url, api_key="none", http_client=openai.DefaultAioHttpClient()
    ) as client:

        async def work() -> None:
            for number in numbers:
                await client.chat.completions.create(
                    model="fake",
                    messages=messages(number),  # type: ignore[arg-type]  # plain dictionaries do
                    response_format=FORMAT,  # type: ignore[arg-type]
                    max_tokens=256,
                    temperature=0.7,
                    seed=number,
                )

        await asyncio.gather(*(work() for _ in range(concurrency)))


async def through_gateway(base_url: str, requests: int, concurrency: int) -> None:
    numbers = iter(range(requests))
    with tempfile.TemporaryDirectory() as folder:
        async with Gateway(Path(folder) / "cache.sqlite") as gateway:
            endpoint = Endpoint(base_url=base_url, model="fake", concurrency=concurrency)
            model = gateway.model(endpoint)

            async def work() -> None:
                for number in numbers:
                    prompt = Prompt("bench", "bench", tuple(messages(number)))
                    await ask(model, prompt, dict, seed=number, schema=SCHEMA)

            await asyncio.gather(*(work() for _ in range(concurrency)))
            if gateway.stats.asked != requests:
                raise SystemExit(f"asked {gateway.stats.asked} times for {requests} requests")


def timed(run: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Wall seconds and CPU seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(run())  # type: ignore[arg-type]  # it is a coroutine
    return time.perf_counter() - wall, time.process_time() - cpu


@contextlib.contextmanager
def fake_server(latency: float) -> Iterator[str]:
    command = [sys.executable, "-m", "toolloom.llm.fake", "--port=0", f"--latency={latency}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    ways = {"bare AsyncOpenAI": bare, "Gateway and ask": through_gateway}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with fake_server(chosen.latency) as base_url:
        for way in ways.values():  # warm up: imports and the server's first requests
            timed(lambda way=way: way(base_url, 64, 64))  # type: ignore[misc]
        for _ in range(chosen.rounds):
            for name, way in ways.items():
                args = (base_url, chosen.requests, chosen.concurrency)
                taken[name].append(timed(lambda way=way, args=args: way(*args)))  # type: ignore[misc]
    ideal = chosen.requests * chosen.latency / chosen.concurrency
    print(f"{chosen.requests} requests, {chosen.concurrency} at once; ideal {ideal:.2f} s")
    medians = {
        n: [statistics.median(column) for column in zip(*t, strict=False)] for n, t in taken.items()
    }
    for name, (wall, cpu) in medians.items():
        print(f"{name:18} {wall:6.2f} s  {1000 * cpu / chosen.requests:5.2f} CPU ms a request")
    first, second = medians.values()
    print(f"ratio              {second[0] / first[0]:6.2f}    {second[1] / first[1]:5.2f}")


if __name__ == "__main__":
    main()
