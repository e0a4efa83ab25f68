"""A run on two workers of a real Dask and a real Ray, with PostgreSQL, killed in the middle.

Prefect, Dask and Ray run in processes of their own: they leave sockets open, and here warnings are
errors.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support import prefect_loopback, processes
from support.processes import TOOLLOOM, Endpoint, hashes, whole_recipe
from support.waiting import PATIENCE, wait_for


@dataclass(frozen=True)
class Place:
    """What a run needs, and what it did."""

    folder: Path
    endpoint: Endpoint
    environment: dict[str, str]
    cache: str = ""
    skip: int = 0  # answers that earlier runs were sent

    def start(self, engine: str, outputs: str, *more: str) -> subprocess.Popen[str]:
        command = [*TOOLLOOM, "run", "recipe.yaml", "--engine", engine, "-o", outputs, *more]
        command += ["--cache", self.cache] if self.cache else []
        with (self.folder / f"{outputs}.log").open("w") as told:
            options: Any = {"cwd": self.folder, "env": self.environment, "text": True}
            return subprocess.Popen(command, stdout=told, stderr=told, **options)

    def told(self, outputs: str) -> str:
        return (self.folder / f"{outputs}.log").read_text()

    def answered(self) -> list[str]:
        """The requests that the endpoint has answered since earlier runs, as `Endpoint` tells."""
        return self.endpoint.answered()[self.skip :]

    def committed(self) -> set[str]:
        """Answers in the response cache, by the beginning of their request's hash."""
        with psycopg.connect(self.cache) as connection:
            if not connection.execute("SELECT to_regclass('responses')").fetchone()[0]:  # type: ignore[index]
                return set()
            rows = connection.execute("SELECT body FROM responses WHERE kind = 'chat'").fetchall()
        return {json.loads(body)["id"].removeprefix("chatcmpl-") for (body,) in rows}

    def repeated(self, known: set[str]) -> list[str]:
        """Those that have been answered more than once."""
        return [
            key for key, times in Counter(self.answered()).items() if times > 1 and key in known
        ]

    def wait_for(self, answers: int, run: subprocess.Popen[str], outputs: str) -> None:
        def reached() -> bool:
            assert run.poll() is None, self.told(outputs)
            return len(self.answered()) >= answers

        wait_for(reached, "the run is at work")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A Prefect server and an endpoint for all runs here, and what one machine makes."""
    folder = tmp_path_factory.mktemp("clusters")
    short = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "RAY_TMPDIR": "/tmp"}  # for its sockets' paths
    with prefect_loopback.server(folder) as server, processes.endpoint(folder) as endpoint:
        (folder / "recipe.yaml").write_text(whole_recipe(endpoint.base_url, shard_size=6))
        place = Place(folder, endpoint, {**server.environment, **short})
        alone = place.start("local", "alone")
        assert alone.wait(PATIENCE) == 0, place.told("alone")
        yield place


@pytest.fixture
def place(home: Place, postgres_url: str) -> Place:
    """With a cache of its own."""
    return Place(home.folder, home.endpoint, home.environment, postgres_url, len(home.answered()))


def workers(driver: int, title: str) -> list[int]:
    """The processes below a driver whose command line holds a title."""
    found = []
    for pid in prefect_loopback.family(driver):
        with suppress(OSError):  # it has just ended
            if title.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" "):
                found.append(pid)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "title"), [("dask", "spawn_main"), ("ray", "ray::shard")])
def test_a_killed_worker_costs_no_record_and_no_repeated_request(
    place: Place, engine: str, title: str
) -> None:
    """Two workers make the bytes of one machine; one of them is killed in the middle. No answer
    that was in the cache by then is asked for again."""
    run = place.start(engine, engine)
    place.wait_for(150, run, engine)
    # Ray names a worker while it has a task, which may be short.
    victims = wait_for(lambda: workers(run.pid, title), "a worker has a task", every=0)
    os.kill(victims[0], signal.SIGKILL)
    known, before = place.committed(), len(place.answered())
    assert run.wait(PATIENCE) == 0, place.told(engine)
    assert len(place.answered()) - before > 100
    assert place.repeated(known) == []
    assert hashes(place.folder / engine) == hashes(place.folder / "alone")
    assert "Traceback" not in place.told(engine)
    assert "Connecting to Prefect at PREFECT_API_URL." in place.told(engine)


@pytest.mark.slow
def test_a_killed_driver_goes_on(place: Place) -> None:
    """With another engine as well: what its workers answered is in the cache, and they end."""
    run = place.start("dask", "killed")
    place.wait_for(200, run, "killed")
    left = workers(run.pid, "spawn_main")
    run.kill()
    run.wait()
    assert left
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), "its workers end")
    known = place.committed()
    again = place.start("local", "killed")
    assert again.wait(PATIENCE) == 0, place.told("killed")
    assert place.repeated(known) == []
    assert hashes(place.folder / "killed") == hashes(place.folder / "alone")


@pytest.mark.slow
def test_what_cannot_work_is_told_at_once(home: Place, postgres_url: str) -> None:
    """A cache of one machine and an address without a cluster are named before anything starts, and
    an address where nobody answers in seconds."""
    place = Place(home.folder, home.endpoint, home.environment, postgres_url)
    for engine, outputs, more, told in (
        ("local", "one", ["--address", "127.0.0.1:9"], "it needs --engine dask or ray"),
        ("dask", "two", ["--address", "127.0.0.1:9"], "Nobody answers at 127.0.0.1:9"),
        ("ray", "three", ["--address", "127.0.0.1:9"], "Nobody answers at 127.0.0.1:9"),
    ):
        assert place.start(engine, outputs, *more).wait(PATIENCE) == 2
        assert told in " ".join(place.told(outputs).split())
        assert "Traceback" not in place.told(outputs)
    assert home.start("ray", "four").wait(PATIENCE) == 2
    assert "--cache postgresql://" in home.told("four")
