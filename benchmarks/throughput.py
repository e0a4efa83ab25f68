"""How fast requests are sent, the gateway, the SDK in a bare loop, and the ideal; how soon.

    python benchmarks/throughput.py                       # steady
    python benchmarks/throughput.py steady failures
    python benchmarks/throughput.py memory --records 10000 1000000
    python benchmarks/throughput.py start --engines local prefect

The endpoint runs in its own process, and so does each measurement: memory and CPU are its own.
The ways alternate; medians are printed. Wall time and CPU (a request) are those of sending.

`steady`: the rate of the middle of many requests, and its share of the ideal (concurrency /
latency); without latency, its factor over the SDK's. `failures`: a share of requests fails, beside
the same without. `memory`: runs of one stage whose answers all come from the cache; a million
records may take 1.2 times the memory of ten thousand. `start`: seconds from the start of a process
to the first request of its run, and to a help page; a local run is to ask within 1.5 seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from measure import COSTS, TOOLLOOM, Json, alone, answer, endpoint, in_turns, show

ANSWER = '{"name": "Ann Lee", "day": "2026-01-02", "kind": "hotel", "guests": 2}'
GATEWAY, SDK = "toolloom", "AsyncOpenAI, aiohttp"
# Latency, concurrency, and the share of the ideal rate (or of the SDK's) that is wanted.
STEADY = ((0.2, 64, 0.92), (0.2, 256, 0.82), (1.0, 256, 0.97), (0.0, 64, 2.4))
WELL = "no failures"
FAILING = {
    WELL: "",
    "2 % 429, 2 % 500, ½ % reset, ½ % truncated": "429=0.02,500=0.02,reset=0.005,truncated=0.005",
}
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
START = """
name: start
model: {base_url: "http://127.0.0.1:%d/v1", model: none}
queries: {count: 4}
"""


@dataclass
class Task:
    """What is to be sent, and how it went."""

    base_url: str
    requests: int
    concurrency: int
    done: list[float] = field(default_factory=list)  # when each request was

    async def share(self, send: Callable[[Json], Awaitable[Any]]) -> None:
        """Workers on one iterator."""
        coming = map(booking, range(self.requests))

        async def work() -> None:
            for body in coming:
                await send(body)
                self.done.append(time.perf_counter())

        await asyncio.gather(*(work() for _ in range(self.concurrency)))


def booking(number: int) -> Json:
    """A request of about 1.5 kB."""
    user = {"role": "user", "content": f"Write booking number {number}."}
    wrapped = {"name": "answer", "schema": SCHEMA}
    return {
        "model": "fake",
        "messages": [{"role": "system", "content": GUIDE}, user],
        "response_format": {"type": "json_schema", "json_schema": wrapped},
        "max_tokens": 256,
        "temperature": 0.7,
        "seed": number,
    }


async def sdk(task: Task) -> None:
    import openai

    http = openai.DefaultAioHttpClient()
    async with openai.AsyncOpenAI(base_url=task.base_url, api_key="no", http_client=http) as client:
        await task.share(lambda body: client.chat.completions.create(**body))


async def gateway(task: Task) -> None:
    """As an agent asks: response cache, JSON Schema, a provenance for each answer."""
    from toolloom.agents.ask import Job, ask
    from toolloom.llm import Gateway
    from toolloom.prompts import Prompt
    from toolloom.schemas import Endpoint

    at = Endpoint(base_url=task.base_url, model="fake", concurrency=task.concurrency)
    with tempfile.TemporaryDirectory() as folder:
        async with Gateway(Path(folder) / "cache.sqlite") as opened:
            model = opened.model(at)

            async def send(body: Json) -> None:
                number = body["seed"]
                prompt = Prompt("hash-of-booking", tuple(body["messages"]))
                answered = await ask(model, prompt, dict, seed=number, schema=SCHEMA)
                job = Job("bookings", "query", f"booking-{number}", number, model)
                job.provenance(answered.costs)

            await task.share(send)


SENDING: dict[str, Callable[[Task], Coroutine[Any, Any, None]]] = {SDK: sdk, GATEWAY: gateway}


def send(way: str, **fields: Any) -> Json:
    """One way's figures. One request goes before: it loads the libraries."""
    task = Task(**fields)
    asyncio.run(SENDING[way](Task(task.base_url, 1, 1)))
    began, start = time.perf_counter(), time.process_time()
    asyncio.run(SENDING[way](task))
    wall, cpu = time.perf_counter() - began, time.process_time() - start
    costs = {"wall": wall, "cpu": 1000 * cpu / max(1, len(task.done))}
    return {**costs, "rate": rate(task.done, task.concurrency)}


def rate(done: list[float], at_once: int) -> float | None:
    """Requests a second in the middle: without the first two rounds and the last.

    Answers come in rounds of `at_once`, so that whole rounds are counted.
    """
    rounds = (len(done) - 3 * at_once) // at_once
    if rounds < 2:
        return None
    first, last = done[2 * at_once], done[(2 + rounds) * at_once]
    return rounds * at_once / (last - first)


def tiny_records(records: int) -> Json:
    """A run of one stage, every record of which asks one of 1,000 questions that were answered."""
    from toolloom import FakeServer
    from toolloom.llm import Request
    from toolloom.pipeline.run import run
    from toolloom.pipeline.stage import Context, Stage, StageInput
    from toolloom.schemas import Domain, Outcome, Record, parse_recipe

    def draw(_: StageInput) -> Iterator[Record]:
        for number in range(records):
            yield Domain(category=f"c{number}", name=f"d{number}")

    async def work(domain: Domain, context: Context) -> Outcome:
        words = f"c{int(domain.category[1:]) % 1000}"
        asked = Request(({"role": "user", "content": words},), None, 16, 0.5, 0)
        await context.model("domain").complete(asked)
        return Outcome((domain,))

    async def made(outputs: Path) -> Any:
        async with FakeServer() as server:
            model = {"base_url": server.base_url, "model": "fake"}
            fields = {"name": "memory", "model": model, "shard_size": 1000}
            stages = (Stage("asked", "domain", Domain, Domain, work, draw),)
            return await run(parse_recipe(fields, "memory"), outputs=outputs, stages=stages)

    with tempfile.TemporaryDirectory() as outputs:
        assert asyncio.run(made(Path(outputs))).counts.accepted == records
    return {"records": records}


def steady(chosen: argparse.Namespace) -> Iterator[Json]:
    for latency, at_once, target in STEADY:
        with endpoint(latency=latency, answer=ANSWER) as base_url:
            load = {"base_url": base_url, "requests": chosen.requests, "concurrency": at_once}
            ways = {
                way: partial(alone, __file__, "send", way=way, **load) for way in (SDK, GATEWAY)
            }
            taken = in_turns(chosen.rounds, ways)
        ideal = at_once / latency if latency else taken[SDK]["rate"]
        for way, row in taken.items():
            share = row["rate"] / ideal
            met = {"target": target, "met": share >= target} if way == GATEWAY else {}
            yield {"latency": latency, "at once": at_once, "way": way, **row, "share": share, **met}


def failing(chosen: argparse.Namespace) -> Iterator[Json]:
    with ExitStack() as stack:
        ways = {}
        for name, shares in FAILING.items():
            address = stack.enter_context(endpoint(latency=0.05, answer=ANSWER, failures=shares))
            load = {"base_url": address, "requests": chosen.requests, "concurrency": 192}
            ways[name] = partial(alone, __file__, "send", way=GATEWAY, **load)
        taken = in_turns(chosen.rounds, ways)
    for name, row in taken.items():
        yield {"server": name, **row, "times": row["wall"] / taken[WELL]["wall"]}


def first_request(engine: str) -> Json:
    """Until a server on loopback had the first request of a run, which then is killed."""
    with tempfile.TemporaryDirectory() as home, socket.create_server(("127.0.0.1", 0)) as server:
        recipe = Path(home, "start.yaml")
        recipe.write_text(START % server.getsockname()[1])
        command = [*TOOLLOOM, "run", str(recipe), "-o", f"{home}/outputs", "--engine", engine]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.settimeout(120)
        connection, _ = server.accept()
        connection.recv(1)
        taken = {"wall": time.monotonic() - began}
        process.terminate()
        process.wait()
        connection.close()
    return taken


def help_page() -> Json:
    began = time.monotonic()
    subprocess.run([*TOOLLOOM, "--help"], stdout=subprocess.DEVNULL, check=True)
    return {"wall": time.monotonic() - began}


def starting(chosen: argparse.Namespace) -> Iterator[Json]:
    runs = {f"run --engine {e}": partial(first_request, e) for e in chosen.engines}
    for run in runs.values():
        run()  # what only the first start ever does
    for command, row in in_turns(chosen.rounds, {**runs, "--help": help_page}).items():
        yield {"command": command, **row}


SENT = {**COSTS, "cpu": "CPU ms"}
PLACE = {"latency": "latency", "at once": "at once", "way": "way"}
PARTS: dict[str, tuple[str, Callable[[argparse.Namespace], Iterator[Json]], dict[str, str]]] = {
    "steady": (
        "Steady state",
        steady,
        {**PLACE, "rate": "1/s", "share": "share", "target": "target", "met": "met", **SENT},
    ),
    "failures": ("Failures", failing, {"server": "server", "times": "× without", **SENT}),
    "memory": (
        "Records of a run",
        lambda chosen: (alone(__file__, "tiny_records", records=n) for n in chosen.records),
        {"records": "records", "peak": "MB"},
    ),
    "start": ("Start", starting, {"command": "command", "wall": "seconds"}),
}


def main() -> None:
    answer({"send": send, "tiny_records": tiny_records})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", default=["local"])
    chosen = parser.parse_args()
    for part in chosen.parts or ["steady"]:
        title, rows, columns = PARTS[part]
        show(title, rows(chosen), columns)


if __name__ == "__main__":
    main()
