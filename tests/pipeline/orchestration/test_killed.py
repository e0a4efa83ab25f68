"""An end in the middle of a scheduled run: another process goes on, and repeats nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
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
AWAY = "Prefect's server does not answer. It is waited for"
ROOT = Path(__file__).parents[3]
POOL = "toolloom"  # as prefect.yaml names it


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    """Slow enough to be killed in the middle."""
    with FakeServer(latency=0.1).serve_in_thread() as server:
        yield server


def made(outputs: Path) -> dict[str, str]:
    """SHA-256 of every file of runs and versions; of what else lies beside versions none."""
    found = hashes(outputs).items()
    return {path: h for path, h in found if path.startswith("runs/") or "/1.0.0/" in path}


def in_the_middle(fake: FakeServer, before: int, end: Callable[[], Any]) -> None:
    """End something once a run is at work, which began after so many answers."""
    wait_for(lambda: fake.answered >= before + ASKED, "the run is at work")
    end()


def lost(outputs: Path, fake: FakeServer) -> int:
    """How many answers were on their way when all that asks was ended."""
    come_to_rest(fake.base_url)
    return fake.answered - len(committed(outputs / "cache.sqlite"))


def check_end(
    server: PrefectServer, run: str, fake: FakeServer, recipe: Path, outputs: Path, most: int
) -> None:
    """The same flow run ends well, repeats no answer that was kept, which are all but `most`, and
    its bytes are those of a run that was never killed."""
    ended = server.ended(run)
    assert ended["state_type"] == "COMPLETED", ended["state"]["message"]
    assert ended["state"]["message"].startswith("killed/1.0.0: its first ")
    assert ended["run_count"] >= 2  # more on a machine where to begin took a minute
    assert fake.repeats <= most
    whole, asked = recipe.parent / "whole", fake.answered
    command = [*TOOLLOOM, "run", recipe, "--engine", "local", "-o", whole]
    subprocess.run(command, check=True, capture_output=True)
    assert made(outputs) == made(whole)
    known = committed(outputs / "cache.sqlite")
    assert known == committed(whole / "cache.sqlite") and len(known) == fake.answered - asked


@contextmanager
def at_work(server: PrefectServer, *command: Any, log: Path, cwd: Path) -> Iterator[Any]:
    process = server.start(*command, log=log, cwd=cwd)
    try:
        yield process
    finally:
        prefect_loopback.kill(process)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C, which ends well."""
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_served_run_survives_all_ends(
    prefect_server: PrefectServer, fake: FakeServer, tmp_path: Path
) -> None:
    """kill -9, Ctrl-C, and a server that is away: the next process, or the same, goes on.

    `toolloom serve` finds at its start what was killed and schedules the same flow run again; after
    Ctrl-C it is cancelled, and the next run does its work.
    """
    recipe, log = write_recipe(tmp_path, fake, "killed", 40), tmp_path / "log"
    serve = [*TOOLLOOM, "serve", recipe, "--name", "survivor", "-o", "out"]
    outputs, server = tmp_path / "out", prefect_server
    with at_work(server, *serve, log=log, cwd=tmp_path) as process:
        found = prefect_loopback.look(lambda: server.deployment("survivor"), "it is deployed")
        run = server.run(found["id"])
        in_the_middle(fake, 0, lambda: prefect_loopback.kill(process))
    before = fake.answered
    assert server.flow_run(run)["state_type"] == "RUNNING"  # as the server believes
    with at_work(server, *serve, log=log, cwd=tmp_path) as process:
        in_the_middle(fake, before, lambda: interrupt(process))
    before, ended = fake.answered, server.ended(run)
    assert (ended["state_type"], ended["run_count"]) == ("CANCELLED", 2)
    with at_work(server, *serve, log=log, cwd=tmp_path):
        run = server.run(found["id"])
        in_the_middle(fake, before, server.end)
        wait_for(lambda: AWAY in log.read_text(), "it is noticed")
        known_lost = lost(outputs, fake)
        server.begin()
        check_end(server, run, fake, recipe, outputs, known_lost)
    assert log.read_text().count("was killed, and goes on.") == 2


@pytest.fixture
def clone(prefect_server: PrefectServer, fake: FakeServer, tmp_path: Path) -> Path:
    """What `prefect deploy --all` needs of a clone, deployed."""
    for name in ("prefect.yaml", "flows.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "recipes").mkdir()
    recipe = write_recipe(tmp_path / "recipes", fake, "killed", 40)
    recipe.rename(recipe.with_name("quickstart.yaml"))
    for command in (["work-pool", "create", POOL, "--type", "process"], ["deploy", "--all"]):
        subprocess.run(
            [*prefect_loopback.PREFECT, "--no-prompt", *command],
            env=prefect_server.environment,
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
    return tmp_path


@pytest.mark.slow
def test_another_worker_ends_the_run_of_a_killed_one(
    prefect_server: PrefectServer, fake: FakeServer, clone: Path
) -> None:
    """A worker that starts triggers `unfinished`, which schedules the same flow run again."""
    outputs, log = clone / "outputs", clone / "log"
    worker = [*prefect_loopback.PREFECT, "worker", "start", "--pool", POOL]
    nightly = prefect_server.deployment("nightly")
    assert nightly
    assert [one["schedule"]["cron"] for one in nightly["schedules"]] == ["0 2 * * *"]
    with at_work(prefect_server, *worker, "--name", "first", log=log, cwd=clone) as process:
        run = prefect_server.run(nightly["id"])
        in_the_middle(fake, 0, lambda: prefect_loopback.kill(process))
    known_lost = lost(outputs, fake)
    with at_work(prefect_server, *worker, "--name", "second", log=log, cwd=clone):
        recipe = clone / "recipes" / "quickstart.yaml"
        check_end(prefect_server, run, fake, recipe, outputs, known_lost)
    names = {each["name"].split(",")[0] for each in prefect_server.runs(nightly["id"])}
    assert {"killed grows", "killed goes on if it was killed"} <= names
