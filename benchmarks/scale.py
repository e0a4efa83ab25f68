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
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from toolloom.llm.cache import Cache, Entry
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.stage_files import StageFolder
from toolloom.schemas import Sample, Usage

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # for `support`

CONSOLE = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
BODY = 1500  # bytes of a response with an answer of some sentences
AT_ONCE = 256  # callers that wait for the database
RECIPE = """
name: scale
model: {base_url: "%s", model: fake, concurrency: %d}
apis: {domains: 4, per_domain: 3}
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


def say(*cells: object) -> None:
    CONSOLE.print(*cells)


def sample(folder: Path) -> None:
    """What a finished run took and left, for each sample that it accepted."""
    run = RunFolder(folder)
    rows = sum(1 for _ in run.samples())
    use = Usage()
    for stage in run.plan:
        mark = run.stage(stage.name).mark
        files = [f.stat().st_size for f in (folder / stage.name).glob("*.jsonl")]
        say(f"{stage.name:14} {sum(files) / rows:10,.0f} bytes of files a sample")
        use = use + mark.use if mark else use
    tokens = use.prompt_tokens + use.completion_tokens
    say(f"{rows} samples: {use.requests / rows:.1f} requests and {tokens / rows:,.0f} tokens each")


async def _hammer(where: str | Path, count: int, prefix: str) -> tuple[float, float]:
    """Responses written and read a second by one process."""
    cache, body = Cache(where), json.dumps({"text": "x" * BODY})
    waiting = iter(range(count))

    async def write() -> None:
        for number in waiting:
            await cache.write(Entry(f"{prefix}{number:060d}", body, run="r", prompt_tokens=1))

    async def read() -> None:
        for number in waiting:
            assert await cache.read(f"{prefix}{number:060d}")

    speeds = []
    for work in (write, read):
        waiting, began = iter(range(count)), time.monotonic()
        await asyncio.gather(*(work() for _ in range(AT_ONCE)))
        speeds.append(count / (time.monotonic() - began))
    await cache.close()
    return speeds[0], speeds[1]


def database(count: int) -> None:
    import psycopg
    from support import postgres_server

    # Settings with which it waits for the disk.
    postgres_server.QUICK = ("shared_buffers=128MB", "max_connections=40")
    with tempfile.TemporaryDirectory() as name, postgres_server.server() as server:
        url = server.database()
        base = asyncio.run(_hammer(Path(name) / "cache.sqlite", count, "sqlt"))
        say(f"SQLite, 1 process        {base[0]:8,.0f} writes/s {base[1]:8,.0f} reads/s (1.00)")
        for processes in (1, 2, 4):
            script = [sys.executable, __file__, "hammer", url, "--count", str(count)]
            began = [
                subprocess.Popen([*script, "--prefix", f"{processes}{n:03d}"], stdout=-1, text=True)
                for n in range(processes)
            ]
            told = [json.loads(process.communicate()[0]) for process in began]
            writes, reads = (sum(column) for column in zip(*told, strict=True))
            ratio = f"({writes / base[0]:.2f}, {reads / base[1]:.2f})"
            speeds = f"{writes:7,.0f} writes/s {reads:8,.0f} reads/s"
            say(f"PostgreSQL, {processes} process(es) {speeds} {ratio}")
        with psycopg.connect(url) as connection:
            asked = "SELECT pg_total_relation_size('responses') / count(*) FROM responses"
            (size,) = connection.execute(asked).fetchone() or (0,)
            say(f"{size:,} bytes a row, indexes included, of bodies of {BODY + 12:,}")


def driver(count: int) -> None:
    """Writing shards that came back, and joining them, beside writing the same lines once."""
    from support import toys

    line = toys.sample().model_dump_json().encode().ljust(8_000) + b"\n"
    with tempfile.TemporaryDirectory() as name:
        once, began = Path(name) / "once", time.monotonic()
        with once.open("wb") as file:
            for _ in range(count):
                file.write(line)
            os.fsync(file.fileno())
        base = count / (time.monotonic() - began)
        stage, shards = StageFolder(Path(name) / "stage"), count // 64
        began = time.monotonic()
        for index in range(shards):
            stage.write_shard(index, [line] * 64, [], Usage(requests=1))
        wrote, began = count / (time.monotonic() - began), time.monotonic()
        stage.finish(shards, Sample, None)
        joined = count / (time.monotonic() - began)
    say(f"lines of 8 kB written once   {base:9,.0f} rows/s (1.00)")
    say(f"shards written and marked    {wrote:9,.0f} rows/s ({wrote / base:.2f})")
    say(f"shards joined into a stage   {joined:9,.0f} rows/s ({joined / base:.2f})")


@contextmanager
def places(folder: Path, latency: float) -> Iterator[tuple[Any, str, dict[str, str]]]:
    """A database server, an endpoint's address, an environment with a Prefect server."""
    from support import postgres_server

    port = postgres_server.free_port()
    environment = {
        **os.environ,
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
    }
    prefect = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
    fake = [sys.executable, "-m", "toolloom.llm.fake", "--port=0", f"--latency={latency}"]
    with (
        postgres_server.server() as server,
        subprocess.Popen(prefect, env=environment, stdout=-3, stderr=-3) as api,
        subprocess.Popen(fake, stdout=-1, text=True) as endpoint,
    ):
        assert endpoint.stdout
        try:
            address = endpoint.stdout.readline().split()[-1]
            time.sleep(20)  # Prefect makes its database
            yield server, address, environment
        finally:
            api.terminate()
            endpoint.terminate()


def cluster(queries: int, latency: float) -> None:
    """The same run in one process and on clusters, with 16 requests at once for each worker; then
    once more with all answers in the cache, which shows what a shard costs."""
    with tempfile.TemporaryDirectory() as name, places(Path(name), latency) as found:
        server, address, environment = found
        script, recipe, base = Path(name) / "drive.py", Path(name) / "recipe.yaml", 0.0
        script.write_text(DRIVE)
        for engine, workers in (("local", 1), ("local", 2), *MACHINES):
            recipe.write_text(RECIPE % (address, 16 * workers, queries))
            told, cache = [], server.database()
            for out in ("asked", "cached"):
                there = Path(name) / f"{engine}{workers}{out}"
                command = [sys.executable, str(script), str(workers), "run", str(recipe)]
                command += ["--engine", engine, "-o", str(there), "--cache", cache, "--log-json"]
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stdout + done.stderr)
                told.append(_asking(done.stderr))
            asked, cached = told
            base = base or asked
            tasks = 3 * -(-queries // 32)
            fast = f"{asked:6.1f} s ({base / asked:.2f} times one process)"
            each = f"{cached:5.1f} s, {1000 * cached / tasks:,.0f} ms a task"
            say(f"{engine:6} {16 * workers} requests at once: {fast}; from the cache {each}")


MACHINES = tuple((engine, workers) for engine in ("dask", "ray") for workers in (1, 2))


def _asking(log: str) -> float:
    """Seconds between the ends of the stages `apis` and `tested`: without the start of anything."""
    ends = {}
    for line in log.splitlines():
        told = json.loads(line) if line.startswith("{") else {}
        if told.get("event") == "stage":
            ends[told["stage"]] = datetime.fromisoformat(told["time"])
    return (ends["tested"] - ends["apis"]).total_seconds()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", choices=("sample", "database", "driver", "cluster", "hammer"))
    parser.add_argument("where", nargs="?", default="")
    parser.add_argument("--count", type=int, default=20_000, help="rows")
    parser.add_argument("--prefix", default="aaaa", help=argparse.SUPPRESS)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--latency", type=float, default=0.5)
    given = parser.parse_args()
    if given.what == "sample":
        sample(Path(given.where))
    elif given.what == "database":
        database(given.count)
    elif given.what == "driver":
        driver(given.count)
    elif given.what == "hammer":
        print(json.dumps(asyncio.run(_hammer(given.where, given.count, given.prefix))))
    else:
        cluster(given.queries, given.latency)


if __name__ == "__main__":
    main()
