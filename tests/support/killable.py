"""A run of toy stages that ask a scripted endpoint, in a process that ends itself with kill -9.

The process dies at the n-th time it comes to a point: `replace` and `fsync` (before a file gets its
name, or reaches the disk), `asked` and `answered` (before a question, and after its answer is
committed), and the parts of a stage: `draw`, `settle` and `sift`. Processes are forked from one that
has loaded what they need.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support import toys
from support.waiting import come_to_rest
from toolloom.llm import Request
from toolloom.pipeline.run import make_dataset
from toolloom.pipeline.stage import Context, Stage
from toolloom.schemas import Outcome, Sample

COUNT = 12


def pass_all(given: Any) -> Any:
    """A stage that looks at all rows and keeps them."""
    return (line for line, _ in given.rows.objects())


STAGES = (*toys.STAGES, Stage("sifted", "", Sample, Sample, sift=pass_all))


def telling(reach: Callable[[str], None], name: str, function: Any) -> Any:
    """The function, which tells that it is called; a draw or a sift tells each record."""

    def whole(*given: Any, **more: Any) -> Any:
        reach(name)
        return function(*given, **more)

    def each(*given: Any) -> Any:
        for one in function(*given):
            reach(name)
            yield one

    return function and (each if name in ("feed", "sift") else whole)


def asking(reach: Callable[[str], None], stage: Stage) -> Any:
    """The work of a stage, which asks a question for every record."""

    async def work(record: Any, context: Context) -> Outcome:
        words = f"{stage.name} {record.id if hasattr(record, 'id') else record.category}"
        message = {"role": "user", "content": words}
        reach("asked")
        await context.model("query").complete(
            Request((message,), schema=None, max_tokens=16, temperature=0.5, seed=1)
        )
        reach("answered")
        assert stage.work
        return await stage.work(record, context)

    return stage.work and work


def work(outputs: str, base_url: str, point: str, times: int) -> None:
    """Make the dataset, or die on the way: at the n-th time at a point; 0: never."""
    left = {point: times}

    def reach(name: str) -> None:
        left[name] = left.get(name, 0) - 1
        if left[name] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    for name in ("replace", "fsync"):
        setattr(os, name, telling(reach, name, getattr(os, name)))
    stages = []
    for stage in STAGES:
        parts = {n: telling(reach, n, getattr(stage, n)) for n in ("feed", "settle", "sift")}
        stages.append(dataclasses.replace(stage, work=asking(reach, stage), **parts))
    model = {"base_url": base_url, "model": "fake", "concurrency": 2}
    recipe = toys.recipe(model=model, queries={"count": COUNT}, shard_size=2)
    made = make_dataset(recipe, outputs=Path(outputs), stages=tuple(stages))
    assert asyncio.run(made).published


def serve() -> None:
    """Fork a process for each line, and tell how it ended."""
    import datasets.packaged_modules.parquet.parquet
    import openai.resources.chat

    loaded = (datasets, openai)
    assert loaded and threading.active_count() == 1
    for line in sys.stdin:
        outputs, base_url, point, times = json.loads(line)
        pid = os.fork()
        if not pid:
            work(outputs, base_url, point, times)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


class Runs:
    """Runs of the toy stages in processes of their own. A context manager."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    def __enter__(self) -> Runs:
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from support.killable import serve; serve()"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *raised: object) -> None:
        self._process.communicate()

    def end(self, outputs: Path, point: str = "", times: int = 0) -> bool:
        """Make a dataset. Whether it came to its end; else it was killed at the point."""
        assert self._process.stdin and self._process.stdout
        print(
            json.dumps([str(outputs), self._base_url, point, times]),
            file=self._process.stdin,
            flush=True,
        )
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        come_to_rest(self._base_url)
        return code == 0
