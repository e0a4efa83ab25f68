"""A run on two workers of a real Dask and a real Ray makes the bytes of one process.

Prefect, Dask and Ray run in processes of their own: they leave sockets open, and here warnings are
errors.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import prefect_loopback, processes
from support.processes import TOOLLOOM, hashes, whole_recipe
from support.waiting import PATIENCE

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Run]]:
    """A folder in which one process has made `alone`, and what makes others beside it."""
    folder = tmp_path_factory.mktemp("clusters")
    # A short path, for Ray's sockets.
    quiet = {"PREFECT_LOGGING_LEVEL": "CRITICAL", "RAY_TMPDIR": "/tmp"}
    with prefect_loopback.server(folder) as server, processes.endpoint(folder) as endpoint:
        (folder / "recipe.yaml").write_text(whole_recipe(endpoint.base_url, shard_size=6))

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
        yield folder, run


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_two_workers_make_the_same_bytes(made: tuple[Path, Run], engine: str) -> None:
    """Every file of the dataset is that of one process."""
    folder, run = made
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
def test_what_cannot_work_is_told_at_once(made: tuple[Path, Run], engine: str, words: str) -> None:
    """An address without a cluster, and one where nobody answers: of a run that is not finished."""
    _, run = made
    status, told = run(engine, "new", "--address", "127.0.0.1:9")
    assert status == 2
    assert words in told
    assert "Traceback" not in told
