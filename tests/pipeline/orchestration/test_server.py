"""Prefect's API where no server is set, by real runs of the command line."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest
from support.prefect_loopback import family, write_recipe
from support.processes import TOOLLOOM
from support.waiting import wait_for

from toolloom.llm import FakeServer


@pytest.mark.slow
def test_a_killed_run_leaves_no_process(tmp_path: Path) -> None:
    """Prefect's server ends with the run, however that ends, and has what was recorded."""
    with FakeServer(latency=0.5).serve_in_thread() as fake:
        recipe = write_recipe(tmp_path, fake, "killed")
        home = tmp_path / "home"
        unset = {name: v for name, v in os.environ.items() if name != "PREFECT_API_URL"}
        with subprocess.Popen(
            [*TOOLLOOM, "run", recipe, "--engine", "prefect", "-o", tmp_path / "outputs"],
            env={**unset, "PREFECT_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            cache = tmp_path / "outputs" / "cache.sqlite"
            wait_for(lambda: process.poll() is not None or cache.exists(), "the run has begun")
            assert process.poll() is None
            left = family(process.pid)
            process.kill()
    for pid in left:
        wait_for(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"{pid} ends")
    with contextlib.closing(sqlite3.connect(home / "prefect.db")) as database:
        (name,) = database.execute("SELECT name FROM flow_run").fetchone()
    assert name.startswith("killed-")
