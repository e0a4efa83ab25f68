"""What all tests share: no network but loopback, no home but a temporary one."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_socket
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from support.postgres_server import Server

sys.path.insert(0, str(Path(__file__).parent))  # for `support`

# Set before `datasets` is first imported, which reads them once.
_HOME = tempfile.TemporaryDirectory(prefix="toolloom-hf-")  # removed when the tests end
os.environ["HF_HOME"] = _HOME.name
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"


# How long an example takes depends on the machine; what never ends meets pytest's time limit.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


def pytest_runtest_setup() -> None:
    pytest_socket.socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A PostgreSQL server for all tests that ask for it."""
    from support.postgres_server import server

    with server() as running:
        yield running


@pytest.fixture
def postgres_url(postgres_server: Server) -> str:
    """An empty PostgreSQL database."""
    return postgres_server.database()
