"""A real Prefect server on loopback, and the processes that work for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from support.processes import whole_recipe
from support.waiting import wait_for
from toolloom import FakeServer

PREFECT = [sys.executable, "-m", "prefect"]
KEY = "sesame-open-0123"  # what those who work for a server have in PLAIN_NAME
MEMORY = Path("/dev/shm")  # the server's database writes to the disk at every step of every run

look = partial(wait_for, every=0.3)  # each look costs a busy server a request


@dataclass
class PrefectServer:
    """A server that schedules every second, and those who work for it poll every second."""

    url: str
    home: Path
    database: Path
    environment: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, **body: Any) -> Any:
        """POST, or GET without a body; tried again where Prefect's own client does: its database is
        busy on a busy machine."""
        method = "POST" if body else "GET"

        def answered() -> httpx.Response | None:
            try:
                url = f"{self.url}/api/{path}"
                answer = httpx.request(method, url, json=body or None, timeout=60)
            except httpx.TransportError:
                if method == "GET":  # what changes something may have done so
                    return None
                raise
            return None if answer.status_code == 503 else answer

        answer: httpx.Response = look(answered, f"{method} {path} is answered")
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def start(
        self, *command: str | Path, log: Path, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """A process in a session of its own, as another machine would be."""
        with log.open("ab") as out:
            told = {"stdout": out, "stderr": out, "env": self.environment}
            return subprocess.Popen(command, cwd=cwd, start_new_session=True, **told)

    def deployment(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.ask(f"deployments/name/grow/{name}")
        except httpx.HTTPStatusError:
            return None
        return found

    def run(self, deployment: str, **parameters: Any) -> str:
        """Trigger a deployment; the id of the flow run."""
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        return str(self.ask(f"deployments/{deployment}/create_flow_run", **body)["id"])

    def flow_run(self, run: str) -> dict[str, Any]:
        return self.ask(f"flow_runs/{run}")

    def ended(self, run: str) -> dict[str, Any]:
        """The flow run, once it is in a state that is final."""
        final = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

        def final_run() -> dict[str, Any] | None:
            found = self.flow_run(run)
            return found if found["state_type"] in final else None

        return look(final_run, f"{run} ends")

    def everything(self) -> str:
        """All rows of all tables of its database."""
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            return "\n".join(database.iterdump())

    def logs(self, run: str) -> list[str]:
        """The whole log of a flow run that has ended: it is sent a moment later."""
        wanted = {"flow_run_id": {"any_": [run]}}

        def whole() -> list[str]:
            found = [each["message"] for each in self.ask("logs/filter", logs=wanted)]
            ended = [line for line in found if line.startswith("Finished in state")]
            return found if ended else []

        return look(whole, "the log is sent")


@contextlib.contextmanager
def server(home: Path) -> Iterator[PrefectServer]:
    """Start a server, and end it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    folder = tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else home)
    database = Path(folder) / "prefect.db"
    settings = {
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{database}",
        "PREFECT_HOME": str(home),
        "PREFECT_API_URL": f"{url}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "PLAIN_NAME": KEY,
        "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "1",
        "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "1",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }
    running = PrefectServer(url, home, database, {**os.environ, **settings})
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-ui"]
    process = running.start(*PREFECT, "server", "start", *where, log=home / "server.log")
    try:
        running.ask("health")
        yield running
    finally:
        kill(process)
        shutil.rmtree(folder)


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9 for a process and all it has started, at once: none sees another one end."""
    for number in (signal.SIGSTOP, signal.SIGSTOP, signal.SIGKILL):  # for what began meanwhile
        for pid in [process.pid, *family(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    process.wait()


def family(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    found: list[int] = []
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, listed.read_text().split()):
                found += [child, *family(child)]
    return found


def write_recipe(folder: Path, fake: FakeServer, name: str, count: int = 12) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(whole_recipe(fake.base_url, count, name=name))
    return path


@dataclass(frozen=True)
class Served:
    """A deployment that `toolloom serve` serves, and where its runs write."""

    server: PrefectServer
    id: str
    outputs: Path

    def grow(self, recipe: Path, **parameters: Any) -> str:
        """Trigger a run for a recipe; the id of the flow run."""
        return self.server.run(self.id, recipe=str(recipe), **parameters)

    def versions(self, dataset: str) -> list[str]:
        found = (self.outputs / "datasets" / dataset).glob("*/manifest.json")
        return sorted(path.parent.name for path in found if not path.parent.is_symlink())
