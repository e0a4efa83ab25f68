"""Ctrl-C and SIGTERM, sent to real runs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import committed
from support.waiting import wait_for

from toolloom import FakeServer
from toolloom.llm.scripted import Scripted, improvise
from toolloom.schemas import JsonObject

LONGEST = 15  # seconds to the end: two, on a machine that has other things to do
# A shell's background jobs ignore SIGINT, and so would what they start.
TOOLLOOM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from toolloom.cli import main
main()
"""
RECIPE = """
name: stopped
model: {base_url: "%s", model: fake, concurrency: 16}
apis: {domains: 3, per_domain: 3, worlds: false}
queries: {count: 4}
"""


async def slow(body: JsonObject) -> Scripted:
    """A script whose answers take a second."""
    await asyncio.sleep(1)
    return improvise(body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FakeServer]:
    with FakeServer(slow).serve_in_thread() as serving:
        (tmp_path / "stopped.yaml").write_text(RECIPE % serving.base_url)
        yield serving


def start(folder: Path, engine: str = "local") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TOOLLOOM, "run", "stopped.yaml", "--engine", engine],
        cwd=folder,
        env={**os.environ, "PREFECT_HOME": str(folder / "prefect")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped(run: subprocess.Popen[str], number: int, times: int) -> tuple[float, str]:
    """Seconds from the signal to the end of the process, and what it said."""
    began = time.monotonic()
    for _ in range(times):
        run.send_signal(number)
        time.sleep(0.05)
    _, said = run.communicate()
    return time.monotonic() - began, said


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 3), pytest.param(signal.SIGTERM, 1, marks=pytest.mark.slow)],
)
def test_a_stopped_run_ends_soon(
    server: FakeServer, tmp_path: Path, number: int, times: int
) -> None:
    """It says how to go on, ends as shells expect, and has kept what was answered."""
    run = start(tmp_path)
    wait_for(lambda: server.answered >= 4, "the run is at work")
    seconds, said = stopped(run, number, times)
    assert seconds < LONGEST
    assert run.returncode == 128 + number
    assert said.endswith("Stopped. Run the same command again to go on from here.\n")
    assert "Traceback" not in said
    assert len(committed(tmp_path / "outputs" / "cache.sqlite")) >= 3


@pytest.mark.slow
def test_with_prefect_a_run_ends_as_soon(server: FakeServer, tmp_path: Path) -> None:
    """Neither its engine nor its server, which ends too, makes it longer."""
    run = start(tmp_path, "prefect")
    wait_for(lambda: server.answered >= 3, "the run is at work")
    seconds, said = stopped(run, signal.SIGTERM, 2)
    assert seconds < LONGEST  # the server's end too, as it holds the same pipe
    assert run.returncode == 128 + signal.SIGTERM
    assert "Prefect took " in said
    assert said.endswith("Stopped. Run the same command again to go on from here.\n")
