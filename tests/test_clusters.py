"""A run in Prefect's flow, here and on two workers of a real Dask and a real Ray, makes the bytes of
one process without Prefect.

Prefect, Dask and Ray run in processes of their own: they leave sockets open, and here warnings are
errors.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import prefect_loopback, processes
from support.prefect_loopback import PrefectServer
from support.processes import TOOLLOOM, hashes, whole_recipe
from support.waiting import PATIENCE

Run = Callable[..., tuple[int, str]]
Made = tuple[Path, Run, PrefectServer]
AGENTS = {"domain", "api", "query", "simulator", "tester", "rewriter"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A folder in which one process has made `local`, what makes others beside it, and Prefect."""
    folder = tmp_path_factory.mktemp("clusters")
    # A short path, for Ray's sockets.
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "RAY_TMPDIR": "/tmp"}
    with prefect_loopback.server(folder) as server, processes.endpoint(folder) as endpoint:
        recipe = whole_recipe(endpoint.base_url, shard_size=6)
        (folder / "recipe.yaml").write_text(f"{recipe}expand: {{rows: 12}}\nrewrite: {{}}\n")

        def run(engine: str, outputs: str, *more: str) -> tuple[int, str]:
            command = [*TOOLLOOM, "run", "recipe.yaml", "--engine", engine, "-o", outputs, *more]
            done = subprocess.run(
                command,
                cwd=folder,
                env={**server.environment, **quiet},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            return done.returncode, " ".join(done.stderr.split())

        status, told = run("local", "local")
        assert status == 0, told
        yield folder, run, server


@pytest.mark.slow
def test_prefects_flow_asks_all_agents_and_runs_stages_as_tasks(made: Made) -> None:
    """Each stage is task runs, expansion and rewriting among them; the bytes are the same."""
    folder, run, server = made
    status, told = run("prefect", "prefect")
    assert status == 0, told
    assert hashes(folder / "prefect") == hashes(folder / "local")
    runs = folder / "prefect" / "runs"
    records = [
        json.loads(line) for p in runs.rglob("*ed.jsonl") for line in p.read_text().splitlines()
    ]
    booked = [made for record in records for made in record.get("provenance", ())]
    assert {made["agent"] for made in booked if made["requests"]} == AGENTS
    stages = {path.parent.name for path in runs.glob("*/*/done.json")}
    assert {"expanded", "rewritten"} < stages

    def tasks() -> bool:  # recorded from events, a moment after they end
        ended = {"state": {"type": {"any_": ["COMPLETED"]}}}
        found = server.ask("task_runs/filter", limit=200, task_runs=ended)
        return stages <= {task["name"].rpartition("-")[0] for task in found}

    prefect_loopback.look(tasks, "each stage has task runs that completed")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_two_workers_make_the_same_bytes(made: Made, engine: str) -> None:
    """Every file of the dataset is that of one process."""
    folder, run, _ = made
    status, told = run(engine, engine)
    assert status == 0, told
    assert "Traceback" not in told
    assert hashes(folder / engine) == hashes(folder / "local")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("local", "it needs --engine dask or ray"),
        ("dask", "Nobody answers at 127.0.0.1:9"),
        ("ray", "Nobody answers at 127.0.0.1:9"),
    ],
)
def test_what_cannot_work_is_told_at_once(made: Made, engine: str, words: str) -> None:
    """An address without a cluster, and one where nobody answers: of a run that is not finished."""
    _, run, _ = made
    status, told = run(engine, "new", "--address", "127.0.0.1:9")
    assert status == 2
    assert words in told
    assert "Traceback" not in told
