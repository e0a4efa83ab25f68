"""One Prefect server for all tests of this folder, and one process that serves a deployment."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from support import prefect_loopback
from support.prefect_loopback import Served
from support.processes import TOOLLOOM, whole_recipe
from support.waiting import PATIENCE


@pytest.fixture(scope="session")
def prefect_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[prefect_loopback.PrefectServer]:
    with prefect_loopback.server(tmp_path_factory.mktemp("prefect")) as running:
        yield running


@pytest.fixture(scope="module")
def served(
    prefect_server: prefect_loopback.PrefectServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """Ends with Ctrl-C, which must be an end without a traceback."""
    folder = tmp_path_factory.mktemp("served")
    recipe, log = folder / "served.yaml", folder / "log"
    recipe.write_text(whole_recipe("http://127.0.0.1:9/v1", name="served"))
    command = [*TOOLLOOM, "serve", recipe, "--outputs", "out"]
    process = prefect_server.start(*command, log=log, cwd=folder)
    try:
        found = prefect_loopback.look(lambda: prefect_server.deployment("served"), "it is served")
        assert "Ctrl-C ends this" in log.read_text()
        yield Served(prefect_server, found["id"], folder / "out")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in log.read_text()
        assert "Stopped." in log.read_text()
    finally:
        prefect_loopback.kill(process)
