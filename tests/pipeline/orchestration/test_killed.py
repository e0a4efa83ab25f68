"""An end in the middle of a scheduled run: the next run goes on with it, and repeats nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support import prefect_loopback
from support.prefect_loopback import PrefectServer, write_recipe
from support.processes import TOOLLOOM, committed, hashes
from support.waiting import PATIENCE, come_to_rest, wait_for

from toolloom.llm import FakeServer

ASKED = 50  # requests after which a run of 230 is ended
ROOT = Path(__file__).parents[3]
POOL = "toolloom"  # as prefect.yaml names it


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """Slow enough to be killed in the middle."""
    with FakeServer(latency=0.1).serve_in_thread() as server:
        yield server


@contextmanager
def at_work(server: PrefectServer, *command: Any, log: Path, cwd: Path) -> Iterator[Any]:
    process = server.start(*command, log=log, cwd=cwd)
    try:
        yield process
    finally:
        prefect_loopback.kill(process)


def end_in_the_middle(
    server: PrefectServer, deployment: str, fake: FakeServer, process: Any, outputs: Path
) -> int:
    """kill -9 all that works on a run of a deployment, at its work; how many answers were lost."""
    server.run(deployment)
    wait_for(lambda: fake.answered >= ASKED, "the run is at work")
    prefect_loopback.kill(process)
    come_to_rest(fake.base_url)
    return fake.answered - len(committed(outputs / "cache.sqlite"))


def check_next(
    server: PrefectServer, deployment: str, fake: FakeServer, recipe: Path, outputs: Path, lost: int
) -> None:
    """The next run ends well, repeats no answer that was kept, which are all but `lost`, and its
    bytes are those of a run that was never killed."""
    ended = server.ended(server.run(deployment))
    assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
    assert ended["state"]["message"].startswith("killed/1.0.0: its first ")
    assert fake.repeats <= lost
    whole = recipe.parent / "whole"
    command = [*TOOLLOOM, "run", recipe, "--engine", "local", "-o", whole]
    subprocess.run(command, check=True, capture_output=True)
    assert hashes(outputs) == hashes(whole)


@pytest.mark.slow
def test_a_served_run_survives_its_end(
    prefect_server: PrefectServer, fake: FakeServer, tmp_path: Path
) -> None:
    """`toolloom serve` is killed with the run that it had begun. Ctrl-C ends it with a sentence."""
    recipe, log = write_recipe(tmp_path, fake, "killed", 40), tmp_path / "log"
    serve = [*TOOLLOOM, "serve", recipe, "--name", "survivor", "-o", "out"]
    outputs, server = tmp_path / "out", prefect_server
    with at_work(server, *serve, log=log, cwd=tmp_path) as process:
        found = prefect_loopback.look(lambda: server.deployment("survivor"), "it is deployed")
        lost = end_in_the_middle(server, found["id"], fake, process, outputs)
    with at_work(server, *serve, log=log, cwd=tmp_path) as process:
        check_next(server, found["id"], fake, recipe, outputs, lost)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
    assert "Stopped." in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.slow
def test_a_workers_run_survives_its_end(
    prefect_server: PrefectServer, fake: FakeServer, tmp_path: Path
) -> None:
    """`prefect.yaml` deploys the flow to a work pool, as a clone has it; another worker goes on."""
    for name in ("prefect.yaml", "flows.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "recipes").mkdir()
    recipe = write_recipe(tmp_path / "recipes", fake, "killed", 40)
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
    with at_work(prefect_server, *worker, "first", log=log, cwd=tmp_path) as process:
        lost = end_in_the_middle(prefect_server, nightly["id"], fake, process, outputs)
    with at_work(prefect_server, *worker, "second", log=log, cwd=tmp_path):
        check_next(prefect_server, nightly["id"], fake, recipe, outputs, lost)
