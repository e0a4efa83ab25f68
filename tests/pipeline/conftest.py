"""What the tests of stores, of pushes to the Hub and of verifying share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from support import played_dataset
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


@pytest.fixture
def hub() -> Iterator[Hub]:
    """An empty Hub on the loopback."""
    with Hub().serve() as serving:
        yield serving


@pytest.fixture(scope="session")
def outputs(built_once: Callable[..., Path]) -> Path:
    """A dataset that the scripted endpoint played, and its next version with a new split."""
    return built_once("played", played_dataset.play)


@pytest.fixture
def version(outputs: Path, tmp_path: Path) -> Path:
    """A copy of the first version, to tamper with."""
    return Path(shutil.copytree(outputs / "datasets" / "toy" / "1.0.0", tmp_path / "1.0.0"))
