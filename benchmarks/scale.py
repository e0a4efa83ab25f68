"""What docs/scale.md reckons with: figures of one machine, each beside a baseline of the same run.

    python benchmarks/scale.py sample RUN       # a run's folder: requests, tokens, bytes a sample
    python benchmarks/scale.py database         # PostgreSQL beside SQLite, writes and reads
    python benchmarks/scale.py driver           # rows a second that the driver writes and joins
    python benchmarks/scale.py cluster          # Dask and Ray beside one process, 1 and 2 workers

`database` and `cluster` start a PostgreSQL server of their own, as the tests do; `cluster` starts
the scripted endpoint and a Prefect server too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise, product
from pathlib import Path

from measure import Json, alone, answer, endpoint, show

from toolloom.llm.cache import Cache, Entry
from toolloom.pipeline.store.run import RunFolder, StageFolder
from toolloom.schemas import Sample, Usage

BODY = 1500  # bytes of a response with an answer of some sentences
AT_ONCE = 256  # callers that wait for the database
RECIPE = """
name: scale
model: {base_url: "%s", model: fake, concurrency: %d}
apis: {domains: 4, per_domain: 3, worlds: false}
queries: {count: %d}
shard_size: 32
"""
# Asked of a cluster in a process of its own: how many workers it has is fixed when it starts.
DRIVE = """
import sys
if __name__ == "__main__":
    from toolloom.pipeline.orchestration import machines
    machines.LOCAL = int(sys.argv.pop(1))
    from toolloom.cli import main
    main()
"""


def sample(chosen: argparse.Namespace) -> None:
    """What a finished run took and left, for each sample that it accepted."""
    folder = Path(chosen.where)
    run = RunFolder(folder)
    rows = sum(1 for _ in run.samples())
    use, stages = Usage(), []
    for stage in run.plan:
        mark = run.stage(stage.name).mark
        size = sum(file.stat().st_size for file in (folder / stage.name).glob("*.jsonl"))
        stages.append({"stage": stage.name, "size": size / rows})
        use = use + mark.use if mark else use
    show("Bytes of files a sample", stages, {"stage": "stage", "size": "bytes"})
    tokens = use.prompt_tokens + use.completion_tokens
    print(
        f"{rows} samples: {use.requests / rows:.1f} requests and {tokens / rows:,.0f} tokens each"
    )


def hammer(where: str, count: int, prefix: str) -> Json:
    """Responses written and read a second by one process."""

    async def both() -> Json:
        cache, body = Cache(where), json.dumps({"text": "x" * BODY})
        waiting = iter(range(count))

        async def write() -> None:
            for number in waiting:
                await cache.write(Entry(f"{prefix}{number:060d}", body, run="r", prompt_tokens=1))

        async def read() -> None:
            for number in waiting:
                assert await cache.read(f"{prefix}{number:060d}")

        speeds = {}
        for name, work in (("writes", write), ("reads", read)):
            waiting, began = iter(range(count)), time.monotonic()
            await asyncio.gather(*(work() for _ in range(AT_ONCE)))
            speeds[name] = count / (time.monotonic() - began)
        await cache.close()
        return speeds

    return asyncio.run(both())


def database(chosen: argparse.Namespace) -> None:
    import psycopg
    from support import postgres_server

    # Settings with which it waits for the disk.
    postgres_server.QUICK = ("shared_buffers=128MB", "max_connections=40")
    with tempfile.TemporaryDirectory() as name, postgres_server.server() as server:
        url, task = server.database(), {"count": chosen.count}
        base = alone(__file__, "hammer", where=Path(name) / "cache.sqlite", prefix="sqlt", **task)
        rows = [{"database": "SQLite, 1 process", **base, "times": 1.0}]
        for processes in (1, 2, 4):
            with ThreadPoolExecutor(processes) as pool:
                prefixes = [f"{processes}{number:03d}" for number in range(processes)]
                taken = list(
                    pool.map(
                        lambda prefix: alone(__file__, "hammer", where=url, prefix=prefix, **task),
                        prefixes,
                    )
                )
            speeds = {name: sum(one[name] for one in taken) for name in ("writes", "reads")}
            times = speeds["writes"] / base["writes"]
            rows.append(
                {"database": f"PostgreSQL, {processes} process(es)", **speeds, "times": times}
            )
        heads = {"writes": "writes/s", "reads": "reads/s", "times": "writes × SQLite's"}
        show("The cache's database", rows, {"database": "database", **heads})
        with psycopg.connect(url) as connection:
            asked = "SELECT pg_total_relation_size('responses') / count(*) FROM responses"
            (size,) = connection.execute(asked).fetchone() or (0,)
            print(f"{size:,} bytes a row, indexes included, of bodies of {BODY + 12:,}")


def driver(chosen: argparse.Namespace) -> None:
    """Writing shards that came back, and joining them, beside writing the same lines once."""
    from support import toys

    line = toys.sample().model_dump_json().encode().ljust(8_000) + b"\n"
    count, moments = chosen.count, [time.monotonic()]
    with tempfile.TemporaryDirectory() as name:
        with (Path(name) / "once").open("wb") as file:
            for _ in range(count):
                file.write(line)
            os.fsync(file.fileno())
        moments.append(time.monotonic())
        stage, shards = StageFolder(Path(name) / "stage"), count // 64
        for index in range(shards):
            stage.write_shard(index, [line] * 64, [], Usage(requests=1))
        moments.append(time.monotonic())
        stage.finish(shards, Sample, None)
        moments.append(time.monotonic())
    steps = ("lines of 8 kB written once", "shards written and marked", "shards joined")
    rates = [count / (end - start) for start, end in pairwise(moments)]
    rows = [
        {"step": step, "rate": rate, "times": rate / rates[0]}
        for step, rate in zip(steps, rates, strict=True)
    ]
    show("The driver", rows, {"step": "step", "rate": "rows/s", "times": "× the first"})


def cluster(chosen: argparse.Namespace) -> None:
    """The same run in one process and on clusters, with 16 requests at once for each worker; then
    once more with all answers in the cache, which shows what a shard costs."""
    from support import postgres_server

    port = postgres_server.free_port()
    prefect = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    rows: list[Json] = []
    with tempfile.TemporaryDirectory() as name:
        environment = {
            **os.environ,
            "PREFECT_HOME": f"{name}/prefect",
            "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
            "PREFECT_LOGGING_LEVEL": "CRITICAL",
        }
        script, recipe = Path(name) / "drive.py", Path(name) / "recipe.yaml"
        script.write_text(DRIVE)

        def asking(engine: str, workers: int, cache: str, out: str) -> float:
            """Seconds between the ends of the stages `apis` and `tested`."""
            command = [sys.executable, str(script), str(workers), "run", str(recipe), "--log-json"]
            command += ["--engine", engine, "-o", f"{name}/{out}", "--cache", cache]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(done.stdout + done.stderr)
            lines = (json.loads(x) for x in done.stderr.splitlines() if x.startswith("{"))
            ends = {
                line["stage"]: datetime.fromisoformat(line["time"])
                for line in lines
                if line.get("event") == "stage"
            }
            return (ends["tested"] - ends["apis"]).total_seconds()

        with (
            postgres_server.server() as server,
            subprocess.Popen(prefect, env=environment, stdout=-3, stderr=-3) as api,
            endpoint(latency=chosen.latency) as address,
        ):
            time.sleep(20)  # Prefect makes its database
            for engine, workers in product(("local", "dask", "ray"), (1, 2)):
                recipe.write_text(RECIPE % (address, 16 * workers, chosen.queries))
                cache, out = server.database(), f"{engine}{workers}"
                asked = asking(engine, workers, cache, f"{out}asked")
                cached = asking(engine, workers, cache, f"{out}cached")
                each = 1000 * cached / (3 * -(-chosen.queries // 32))
                first = rows[0]["asked"] if rows else asked
                row = {"engine": engine, "at once": 16 * workers, "asked": asked}
                rows.append({**row, "times": first / asked, "cached": cached, "task": each})
            api.terminate()
    heads = {"engine": "engine", "at once": "at once", "asked": "seconds"}
    heads |= {"times": "× as fast as one process", "cached": "from the cache", "task": "ms a task"}
    show("A run on clusters", rows, heads)


SUBJECTS = {"sample": sample, "database": database, "driver": driver, "cluster": cluster}


def main() -> None:
    answer({"hammer": hammer})
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=SUBJECTS)
    parser.add_argument("where", nargs="?", default="", help="the folder of a run")
    parser.add_argument("--count", type=int, default=20_000, help="rows")
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--latency", type=float, default=0.5)
    chosen = parser.parse_args()
    SUBJECTS[chosen.what](chosen)


if __name__ == "__main__":
    main()
