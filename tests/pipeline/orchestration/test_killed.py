"""An end in the middle of a scheduled run: the next run goes on with it, and repeats nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import prefect_loopback
from support.prefect_loopback import PrefectServer, write_recipe
from support.processes import TOOLLOOM, committed, hashes
from support.waiting import come_to_rest, wait_for

from toolloom import FakeServer

ASKED = 50  # requests after which a run of 230 is ended
ROOT = Path(__file__).parents[3]
POOL = "toolloom"  # as prefect.yaml names it


@pytest.fixture
def slow() -> Iterator[FakeServer]:
    """An endpoint whose run can be killed in the middle."""
    with FakeServer(latency=0.1).serve_in_thread() as server:
        yield server


@pytest.mark.slow
def test_a_workers_run_survives_its_end(
    prefect_server: PrefectServer, slow: FakeServer, tmp_path: Path
) -> None:
    """`prefect.yaml` deploys the flow to a work pool, as a clone has it. A worker is killed with the
    run that it had begun; the next run, on another worker, repeats no answer that was kept, and its
    bytes are those of a run that was never killed."""
    for name in ("prefect.yaml", "flows.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "recipes").mkdir()
    recipe = write_recipe(tmp_path / "recipes", slow, "killed", 40)
    recipe = recipe.rename(recipe.with_name("quickstart.yaml"))
    for command in (["work-pool", "create", POOL, "--type", "process"], ["deploy", "--all"]):
        subprocess.run(
            [*prefect_loopback.PREFECT, "--no-prompt", *command],
            env=prefect_server.environment,
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    outputs, log = tmp_path / "outputs", tmp_path / "log"
    worker = [*prefect_loopback.PREFECT, "worker", "start", "--pool", POOL, "--name"]
    nightly = prefect_server.deployment("nightly")
    assert nightly
    assert [one["schedule"]["cron"] for one in nightly["schedules"]] == ["0 2 * * *"]
    process = prefect_server.start(*worker, "first", log=log, cwd=tmp_path)
    prefect_server.run(nightly["id"])
    wait_for(lambda: slow.answered >= ASKED, "the run is at work")
    prefect_loopback.kill(process)
    come_to_rest(slow.base_url)
    lost = slow.answered - len(committed(outputs / "cache.sqlite"))
    process = prefect_server.start(*worker, "second", log=log, cwd=tmp_path)
    try:
        ended = prefect_server.ended(prefect_server.run(nightly["id"]))
    finally:
        prefect_loopback.kill(process)
    assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
    assert ended["state"]["message"].startswith("killed/1.0.0: its first ")
    assert slow.repeats <= lost
    whole = tmp_path / "whole"
    command = [*TOOLLOOM, "run", recipe, "--engine", "local", "-o", whole]
    subprocess.run(command, check=True, capture_output=True)
    assert hashes(outputs) == hashes(whole)
