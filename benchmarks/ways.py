"""One way to send requests, measured in a process of its own. Started by throughput.py.

A way imports what it needs when it is chosen, so that its memory is its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

SCHEMA: Json = {
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
GUIDE = "You write requests that users send to an assistant with tools. " * 12


@dataclass
class Task:
    """What is to be sent. `bodies`: a file of JSON lines to send instead of bookings."""

    base_url: str
    requests: int
    concurrency: int
    bodies: str = ""
    recipe: Json = field(default_factory=dict)
    timeout: float = 120
    records: int = 1  # under way for each request that may be: three in a run
    done: list[float] = field(default_factory=list)  # when each request was
    found: Json = field(default_factory=dict)  # what else the way has to tell

    def coming(self) -> Iterator[Json]:
        if not self.bodies:
            return (booking(number) for number in range(self.requests))
        return map(json.loads, Path(self.bodies).read_text().splitlines())

    def finish(self) -> None:
        self.done.append(time.perf_counter())

    async def share(self, work: Callable[[], Awaitable[None]]) -> None:
        """Workers on one iterator."""
        await asyncio.gather(*(work() for _ in range(self.concurrency * self.records)))


Way: TypeAlias = Callable[[Task], Awaitable[None]]


def booking(number: int) -> Json:
    """A request of about 1.5 kB."""
    return {
        "model": "fake",
        "messages": [
            {"role": "system", "content": GUIDE},
            {"role": "user", "content": f"Write booking number {number}."},
        ],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA},
        },
        "max_tokens": 256,
        "temperature": 0.7,
        "seed": number,
    }


def bare_aiohttp() -> Way:
    import aiohttp

    async def send(task: Task) -> None:
        coming, headers = task.coming(), {"Content-Type": "application/json"}
        url = f"{task.base_url}/chat/completions"
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def work() -> None:
                for body in coming:
                    content = json.dumps(body).encode()
                    async with session.post(url, data=content, headers=headers) as response:
                        json.loads(await response.read())["choices"][0]["message"]["content"]
                    task.finish()

            await task.share(work)

    return send


def openai_default() -> Way:
    import openai

    return lambda task: _with_client(task, openai.AsyncOpenAI(**_at(task)))


def openai_aiohttp() -> Way:
    import openai

    return lambda task: _with_client(
        task, openai.AsyncOpenAI(**_at(task), http_client=openai.DefaultAioHttpClient())
    )


def _at(task: Task) -> Json:
    return {"base_url": task.base_url, "api_key": "none"}


async def _with_client(task: Task, client: Any) -> None:
    coming = task.coming()
    async with client:

        async def work() -> None:
            for body in coming:
                await client.chat.completions.create(**body)
                task.finish()

        await task.share(work)


def gateway() -> Way:
    """As an agent asks: response cache, JSON Schema, a provenance for each answer."""
    from toolloom.agents.ask import Job, ask
    from toolloom.llm import Gateway
    from toolloom.prompts import Prompt
    from toolloom.schemas import Endpoint

    async def send(task: Task) -> None:
        numbers = iter(range(task.requests))
        endpoint = Endpoint(
            base_url=task.base_url,
            model="fake",
            concurrency=task.concurrency,
            timeout=task.timeout,
        )
        with tempfile.TemporaryDirectory() as folder:
            async with Gateway(Path(folder) / "cache.sqlite") as opened:
                model = opened.model(endpoint)

                async def work() -> None:
                    for number in numbers:
                        messages = tuple(booking(number)["messages"])
                        prompt = Prompt("booking", "hash-of-booking", messages)
                        answer = await ask(model, prompt, dict, seed=number, schema=SCHEMA)
                        job = Job("bookings", "query", f"booking-{number}", number, model)
                        job.provenance(answer.usage)
                        task.finish()

                await task.share(work)
                task.found = {"asked": opened.stats.asked, "retries": opened.stats.retries}

    return send


def whole_run() -> Way:
    """Five agents, without publishing (which loads `datasets`)."""
    from toolloom.pipeline.runner import run
    from toolloom.schemas import parse_recipe

    async def send(task: Task) -> None:
        recipe = parse_recipe(task.recipe, "the benchmark")
        with tempfile.TemporaryDirectory() as folder:
            made = await run(recipe, outputs=Path(folder))
        task.found = {"asked": made.asked, "datasets": "datasets" in sys.modules}

    return send


WAYS: dict[str, Callable[[], Way]] = {
    "bare aiohttp": bare_aiohttp,
    "AsyncOpenAI": openai_default,
    "AsyncOpenAI, aiohttp": openai_aiohttp,
    "toolloom": gateway,
    "run": whole_run,
}


def steady(done: list[float], at_once: int) -> float | None:
    """Requests a second in the middle: without the first two rounds and the last.

    Answers come in rounds of `at_once`, so that whole rounds are counted.
    """
    rounds = (len(done) - 3 * at_once) // at_once
    if rounds < 2:
        return None
    first, last = done[2 * at_once], done[(2 + rounds) * at_once]
    return rounds * at_once / (last - first)


def peak(process: int | str = "self") -> float:
    """Most megabytes a program had in memory. `ru_maxrss` may be that of its parent."""
    status = Path(f"/proc/{process}/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 if sys.platform != "darwin" else 1024**2)


@contextmanager
def quiet() -> Iterator[None]:
    """What a way prints does not belong into its result."""
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)


def main() -> None:
    """`ways.py WAY TASK`: prints what it took, as JSON.

    One request goes before: several ways load half of their libraries with the first. The CPU
    seconds until then are the start. It may hang as any other, and is waited for no longer.
    """
    way, task = WAYS[sys.argv[1]](), Task(**json.loads(sys.argv[2]))
    first = gateway() if task.recipe else way
    with quiet():
        one = Task(task.base_url, 1, 1, timeout=task.timeout)
        asyncio.run(first(one))  # type: ignore[arg-type]  # a coroutine
        wall, start = time.perf_counter(), time.process_time()
        asyncio.run(way(task))  # type: ignore[arg-type]
        wall, cpu = time.perf_counter() - wall, time.process_time() - start
    sent = len(task.done) or task.found["asked"]
    found = {"wall": wall, "cpu": 1000 * cpu / max(1, sent), "peak": peak(), "start": start}
    rate = steady(task.done, task.concurrency)
    print(json.dumps({**task.found, **found, "sent": sent, "rate": rate}))


if __name__ == "__main__":
    main()
