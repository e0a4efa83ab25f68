"""What the tests of pushes to the Hub and of verifying share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import tampered
from support.hub_server import Hub


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


@pytest.fixture(scope="session")
def grown(built_once: Callable[..., Path]) -> Path:
    """A dataset with instructions and rows of templates, each added to the version before."""
    return built_once("grown", tampered.grow)


@pytest.fixture(scope="session")
def in_a_world(built_once: Callable[..., Path]) -> Path:
    """A small version of dialogues in a world, and the one it grew to."""
    return built_once("worlds", tampered.play_in_a_world)
