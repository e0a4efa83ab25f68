"""How fast requests are sent, and what a run costs: the gateway, bare loops, and the ideal.

    python benchmarks/throughput.py                 # every way, latency and concurrency
    python benchmarks/throughput.py steady failures run
    python benchmarks/throughput.py memory --records 10000 1000000
    python benchmarks/throughput.py worlds --per-script 5 40

The endpoint runs in its own process, and so does each measurement: memory and CPU are its own.
The ways alternate; medians are printed. The ideal is requests × latency / concurrency. Wall time
and CPU (a request) are those of sending; `start` is the CPU until the first request is answered.

`run`: five agents beside a bare loop that sends the same bodies; `chain` are the seconds that the
requests which must follow one another take on any client. `memory`: runs of one stage whose
answers all come from the cache; a million records may take 1.2 times the memory of ten thousand.
`worlds`: runs without a model, and the most memory while rows are drawn, played and tested, while
they are compared, and while they are published: 11,000 rows may take 1.1 times that of 1,400.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from measure import COSTS, Json, alone, answer, endpoint, in_turns, memory, show

ANSWER = '{"name": "Ann Lee", "day": "2026-01-02", "kind": "hotel", "guests": 2}'
GATEWAY, SDK, BARE = "toolloom", "AsyncOpenAI, aiohttp", "bare aiohttp"
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
QUESTIONS = 1000  # of a run for its memory: different ones, so that not all share one answer


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
    figures: Json = field(default_factory=dict)  # what else the way has to tell

    def coming(self) -> Iterator[Json]:
        if not self.bodies:
            return (booking(number) for number in range(self.requests))
        return map(json.loads, Path(self.bodies).read_text().splitlines())

    async def share(self, send: Callable[[Json], Awaitable[Any]]) -> None:
        """Workers on one iterator."""
        coming = self.coming()

        async def work() -> None:
            for body in coming:
                await send(body)
                self.done.append(time.perf_counter())

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


async def bare_aiohttp(task: Task) -> None:
    import aiohttp

    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def send(body: Json) -> None:
            url, content = f"{task.base_url}/chat/completions", json.dumps(body).encode()
            async with session.post(url, data=content, headers=headers) as response:
                json.loads(await response.read())["choices"][0]["message"]["content"]

        await task.share(send)


async def sdk(task: Task, *, aiohttp: bool) -> None:
    import openai

    http = openai.DefaultAioHttpClient() if aiohttp else None
    async with openai.AsyncOpenAI(
        base_url=task.base_url, api_key="none", http_client=http
    ) as client:
        await task.share(lambda body: client.chat.completions.create(**body))


async def gateway(task: Task) -> None:
    """As an agent asks: response cache, JSON Schema, a provenance for each answer."""
    from toolloom.agents.ask import Job, ask
    from toolloom.llm import Gateway
    from toolloom.prompts import Prompt
    from toolloom.schemas import Endpoint

    limits = {"concurrency": task.concurrency, "timeout": task.timeout}
    at = Endpoint.model_validate({"base_url": task.base_url, "model": "fake", **limits})
    with tempfile.TemporaryDirectory() as folder:
        async with Gateway(Path(folder) / "cache.sqlite") as opened:
            model = opened.model(at)

            async def send(body: Json) -> None:
                number = body["seed"]
                prompt = Prompt("booking", "hash-of-booking", tuple(body["messages"]))
                answered = await ask(model, prompt, dict, seed=number, schema=SCHEMA)
                job = Job("bookings", "query", f"booking-{number}", number, model)
                job.provenance(answered.costs)

            await task.share(send)
            task.figures = {"asked": opened.stats.asked, "retries": opened.stats.retries}


async def whole_run(task: Task) -> None:
    """Five agents, without publishing (which loads `datasets`)."""
    from toolloom.pipeline.run import run
    from toolloom.schemas import parse_recipe

    recipe = parse_recipe(task.recipe, "the benchmark")
    with tempfile.TemporaryDirectory() as folder:
        made = await run(recipe, outputs=Path(folder))
    task.figures = {"asked": made.asked}


SENDING: dict[str, Way] = {
    BARE: bare_aiohttp,
    "AsyncOpenAI": partial(sdk, aiohttp=False),
    SDK: partial(sdk, aiohttp=True),
    GATEWAY: gateway,
}


def send(way: str, **fields: Any) -> Json:
    """One way's figures.

    One request goes before: several ways load half of their libraries with the first. The CPU
    seconds until then are the start. It may hang as any other, and is waited for no longer.
    """
    task, sends = Task(**fields), SENDING.get(way, whole_run)
    one = Task(task.base_url, 1, 1, timeout=task.timeout)
    asyncio.run((gateway if task.recipe else sends)(one))  # type: ignore[arg-type]  # a coroutine
    began, start = time.perf_counter(), time.process_time()
    asyncio.run(sends(task))  # type: ignore[arg-type]
    wall, cpu = time.perf_counter() - began, time.process_time() - start
    sent = len(task.done) or task.figures["asked"]
    if task.requests and sent != task.requests:
        raise SystemExit(f"{way} sent {sent} requests for {task.requests}")
    costs = {"wall": wall, "cpu": 1000 * cpu / max(1, sent), "start": start, "sent": sent}
    return {**task.figures, **costs, "rate": rate(task.done, task.concurrency)}


def rate(done: list[float], at_once: int) -> float | None:
    """Requests a second in the middle: without the first two rounds and the last.

    Answers come in rounds of `at_once`, so that whole rounds are counted.
    """
    rounds = (len(done) - 3 * at_once) // at_once
    if rounds < 2:
        return None
    first, last = done[2 * at_once], done[(2 + rounds) * at_once]
    return rounds * at_once / (last - first)


def record(recipe: Json, bodies: str) -> Json:
    """What a run asks: every body it sends, and how many requests must follow one another."""
    from toolloom.llm import FakeServer
    from toolloom.llm.fake import improvise
    from toolloom.pipeline.run import run
    from toolloom.schemas import parse_recipe

    asked: list[Any] = []

    def script(body: Any) -> Any:
        asked.append(body)
        return improvise(body)

    async def make(outputs: Path) -> None:
        async with FakeServer(script) as server:
            model = {**recipe["model"], "base_url": server.base_url}
            parsed = parse_recipe({**recipe, "model": model}, "the benchmark")
            await run(parsed, outputs=outputs)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(make(Path(folder)))
        longest = steps(Path(folder))
    Path(bodies).write_text("".join(f"{json.dumps(body)}\n" for body in asked))
    return {"requests": len(asked), "steps": longest}


def steps(outputs: Path) -> int:
    """The longest chain: one answer waits for another within a record, and of stages for each.

    Votes of one dialogue are cast together, so that a stage of the tester is two steps at most.
    """
    longest = {"domains": 0, "apis": 0}
    chains: dict[str, int] = {}
    for stage in ("domains", "apis", "queries", "dialogues", "tested"):
        for path in outputs.glob(f"runs/*/{stage}/*ted.jsonl"):
            for row in map(json.loads, path.read_text().splitlines()):
                asked = sum(p["requests"] for p in row["provenance"] if p["stage"] == stage)
                if stage in longest:
                    longest[stage] = max(longest[stage], asked)
                    continue
                name = row.get("id") or (row.get("dialogue") or row).get("query", {}).get("id", "")
                one_after_another = asked if stage != "tested" else 1 + (asked > 3)
                chains[name] = chains.get(name, 0) + one_after_another
    return sum(longest.values()) + max(chains.values())


def question(number: int, recipe: Any, opened: Any) -> Awaitable[Any]:
    from toolloom.agents.ask import ask
    from toolloom.prompts import Prompt

    prompt = Prompt("memory", "memory", ({"role": "user", "content": f"c{number % QUESTIONS}"},))
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return ask(opened.model(recipe.model), prompt, dict, seed=0, schema=schema)


def tiny_records(records: int, cache: str) -> Json:
    """A run of one stage, every record of which asks one question that the cache answers."""
    from toolloom.llm import FakeServer, Gateway
    from toolloom.pipeline.run import run
    from toolloom.pipeline.stage import Context, Stage, StageInput
    from toolloom.schemas import Domain, Outcome, Record, parse_recipe

    def draw(_: StageInput) -> Iterator[Record]:
        for number in range(records):
            yield Domain(category=f"c{number}", name=f"d{number}")

    async def work(domain: Domain, context: Context) -> Outcome:
        await question(int(domain.category[1:]), context.recipe, context.gateway)
        return Outcome((domain,))

    async def fill_and_run(outputs: Path) -> tuple[Any, float]:
        async with FakeServer() as server, Gateway(cache) as opened:
            model = {"base_url": server.base_url, "model": "fake"}
            fields = {"name": "memory", "model": model, "shard_size": 1000}
            recipe = parse_recipe(fields, "the benchmark")
            await asyncio.gather(*(question(n, recipe, opened) for n in range(QUESTIONS)))
        stages, began = (Stage("asked", "domain", Domain, Domain, work, draw),), time.perf_counter()
        made = await run(recipe, outputs=outputs, stages=stages, cache=cache)
        return made, time.perf_counter() - began

    with tempfile.TemporaryDirectory() as outputs:
        made, seconds = asyncio.run(fill_and_run(Path(outputs)))
    assert (made.asked, made.counts.accepted) == (0, records), made
    return {"records": records, "rate": records / seconds}


def world_rows(per_script: int) -> Json:
    """A run of the worlds that ship, without a model: the most memory of each part, in MB."""
    from toolloom.pipeline.progress import Silent
    from toolloom.pipeline.run import run_recipe
    from toolloom.pipeline.store.run_folder import Mark
    from toolloom.schemas import parse_recipe

    peaks: Json = {}

    class Peaks(Silent):
        def stage_done(self, stage: str, mark: Mark) -> None:
            peaks[stage] = memory("VmHWM")
            Path("/proc/self/clear_refs").write_text("5")  # the peak counts anew from here

    worlds = {"use": ["shop", "clinic", "calendar"], "per_script": per_script}
    fields = {"name": "memory", "model": "none", "worlds": worlds}
    with tempfile.TemporaryDirectory() as outputs:
        made = run_recipe(parse_recipe(fields, "the benchmark"), outputs, progress=Peaks())
    peaks["published"] = memory("VmHWM")
    return {"records": made.summary.counts.accepted, **peaks, "peak": max(peaks.values())}


def measured(way: str, **task: Any) -> Callable[[], Json]:
    return partial(alone, __file__, "send", way=way, **task)


def compare(chosen: argparse.Namespace) -> Iterator[Json]:
    """Every way at every latency and concurrency."""
    for latency in chosen.latencies:
        with endpoint(latency=latency, answer=ANSWER) as base_url:
            for at_once in chosen.concurrencies:
                load = {"base_url": base_url, "requests": chosen.requests, "concurrency": at_once}
                ways = {way: measured(way, **load) for way in SENDING}
                ideal = chosen.requests * latency / at_once
                for way, taken in in_turns(chosen.rounds, ways).items():
                    yield {"latency": latency, "at once": at_once, "way": way, **taken} | beside(
                        taken, ideal
                    )


def beside(taken: Json, ideal: float) -> Json:
    return {"ideal": ideal, "of ideal": taken["wall"] / ideal if ideal else None}


def steady(chosen: argparse.Namespace) -> Iterator[Json]:
    """The rate of the middle, its share of the ideal; without latency, of the SDK's rate."""
    for latency, at_once, target in (*STEADY, (0.0, 64, 1.0)):
        with endpoint(latency=latency, answer=ANSWER) as base_url:
            load = {"base_url": base_url, "requests": chosen.many, "concurrency": at_once}
            ways = {way: measured(way, **load) for way in (BARE, SDK, GATEWAY)}
            taken = in_turns(chosen.rounds, ways)
        ideal = at_once / latency if latency else taken[SDK]["rate"]
        for way, row in taken.items():
            aimed = {"target": target, "met": row["rate"] / ideal >= target}
            yield {"latency": latency, "at once": at_once, "way": way, **row} | {
                "share": row["rate"] / ideal,
                **(aimed if way == GATEWAY else {}),
            }


def failing(chosen: argparse.Namespace) -> Iterator[Json]:
    """A share of requests fails, beside the same without. Every request must come to its end."""
    # Three records for each request, as a run has: who waits for a retry holds up nobody.
    load = {"requests": chosen.requests, "concurrency": 64, "records": 3, "timeout": TIMEOUT}
    with ExitStack() as stack:
        ways = {}
        for name, options in FAILING.items():
            address = stack.enter_context(endpoint(latency=0.05, answer=ANSWER, **options))
            ways[name] = measured(GATEWAY, base_url=address, **load)
        taken = in_turns(chosen.rounds, ways)
    without = taken[WELL]["wall"]
    target = TIMES * without + RETRY_AFTER
    for name, row in taken.items():
        aimed = {"target": target, "met": row["wall"] <= target} if name == FEW else {}
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
        bodies = str(Path(folder) / "bodies.jsonl")
        recorded = alone(__file__, "record", recipe=recipe, bodies=bodies)
        for spread in (0.0, 0.5):
            with endpoint(latency=0.2, spread=spread) as base_url:
                load = {"base_url": base_url, "requests": recorded["requests"], "concurrency": 64}
                model = {**recipe["model"], "base_url": base_url}
                ways = {
                    SDK: measured(SDK, **load, bodies=bodies),
                    "run": measured("run", **load, recipe={**recipe, "model": model}),
                }
                for way, taken in in_turns(chosen.rounds, ways).items():
                    ideal = recorded["requests"] * 0.2 / 64
                    chain = {"chain": recorded["steps"] * 0.2, "spread": spread, "way": way}
                    yield {**chain, **taken, **beside(taken, ideal)}


def kept(chosen: argparse.Namespace) -> Iterator[Json]:
    """What a run keeps in memory, by its records."""
    least = None
    for records in chosen.records:
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache.sqlite"
            taken = alone(__file__, "tiny_records", records=records, cache=cache)
        least = least or taken["peak"]
        yield {**taken, "times": taken["peak"] / least}


def played(chosen: argparse.Namespace) -> Iterator[Json]:
    """What a run of worlds keeps in memory, by its rows."""
    least = None
    for per_script in chosen.per_script:
        taken = alone(__file__, "world_rows", per_script=per_script)
        least = least or taken["peak"]
        yield {**taken, "times": taken["peak"] / least}


PLACE = {"latency": "latency", "at once": "at once", "way": "way"}
SENT = {**COSTS, "cpu": "CPU ms", "start": "start s"}
IDEAL = {"ideal": "ideal s", "of ideal": "× ideal"}
TARGET = {"target": "target", "met": "met"}
RUN = {"spread": "spread", "way": "way", "sent": "requests", "chain": "chain s"}
FAILED = {"server": "server", "wall": "wall s", "times": "× without", "sent": "answered"}
PARTS: dict[str, tuple[str, Callable[[argparse.Namespace], Iterator[Json]], dict[str, str]]] = {
    "compare": ("Ways to send", compare, PLACE | SENT | IDEAL),
    "steady": ("Steady state", steady, PLACE | {"rate": "1/s", "share": "share"} | TARGET | SENT),
    "failures": ("Failures", failing, FAILED | {"tries": "tries"} | TARGET),
    "run": ("A whole run", whole, RUN | SENT | IDEAL),
    "memory": (
        "Records of a run",
        kept,
        {"records": "records", "rate": "1/s", "peak": "MB", "times": "× the first"},
    ),
    "worlds": (
        "Rows of worlds, MB",
        played,
        {
            "records": "rows",
            "wall": "wall s",
            "queries": "drawn, played, tested",
            "deduplicated": "compared",
            "published": "published",
            "times": "× the first",
        },
    ),
}


def main() -> None:
    answer({"send": send, "record": record, "tiny_records": tiny_records, "world_rows": world_rows})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--many", type=int, default=10_000, help="requests of `steady`")
    parser.add_argument("--queries", type=int, default=200, help="records of `run`")
    parser.add_argument("--records", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--per-script", type=int, nargs="+", default=[5, 40], help="of `worlds`")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latencies", type=float, nargs="+", default=(0.0, 0.2, 1.0))
    parser.add_argument("--concurrencies", type=int, nargs="+", default=(64, 256))
    parser.add_argument("--json", type=Path, help="file for all figures")
    chosen = parser.parse_args()
    figures: list[Json] = []
    for part in chosen.parts or ["compare"]:
        title, rows, columns = PARTS[part]
        with closing(rows(chosen)) as measurements:
            figures += show(title, measurements, columns)
    if chosen.json:
        chosen.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
