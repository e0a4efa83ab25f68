"""What the tests of stores, of pushes to the Hub and of verifying share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import fsspec
import pytest
from support import s3_server, tampered
from support.hub_server import Hub

from toolloom.pipeline.store import outputs as mirrors

NUMBERS = count()


@pytest.fixture
def url() -> str:
    """An empty store of its own."""
    return f"memory://store{next(NUMBERS)}"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Opens a store as on a machine of this name."""

    def open_on(name: str, url: str) -> Path:
        monkeypatch.setenv("TOOLLOOM_MIRROR", str(tmp_path / name))
        return mirrors.opened(url)

    return open_on  # type: ignore[return-value]


@pytest.fixture(scope="session")
def store() -> Iterator[s3_server.Store]:
    """An S3-speaking server for all tests that ask for it."""
    with s3_server.server() as running:
        yield running


@pytest.fixture
def reachable(
    store: s3_server.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """This process can reach that server, and keeps no connection of other tests."""
    from s3fs import S3FileSystem  # it takes a second, and few tests need it

    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOOLLOOM_MIRROR", str(tmp_path))
    # fsspec has read the environment when it was imported.
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": store.endpoint})
    yield
    S3FileSystem.clear_instance_cache()


@pytest.fixture
def hub() -> Iterator[Hub]:
    """An empty Hub on the loopback."""
    with Hub().serve() as serving:
        yield serving


@pytest.fixture(scope="session")
def outputs(built_once: Callable[..., Path]) -> Path:
    """A dataset that the scripted endpoint played, and its next version with a new split."""
    return built_once("played", tampered.play)


@pytest.fixture
def version(outputs: Path, tmp_path: Path) -> Path:
    """A copy of the first version, to tamper with."""
    return Path(shutil.copytree(outputs / "datasets" / "toy" / "1.0.0", tmp_path / "1.0.0"))
