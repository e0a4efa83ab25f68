"""What tests of versions share: the Hub, a played dataset, and one that is to grow."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import growing_dataset, tampered
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


@pytest.fixture
def begun(built_once: Callable[..., Path], tmp_path: Path) -> Path:
    """A folder of its own with the run and the version toy/1.0.0 of the dataset that grows."""

    def build(folder: Path) -> None:
        asyncio.run(growing_dataset.make(folder, growing_dataset.recipe()))

    return Path(
        shutil.copytree(built_once("growing", build), tmp_path, symlinks=True, dirs_exist_ok=True)
    )
