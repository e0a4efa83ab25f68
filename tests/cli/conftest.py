"""What the tests of several commands share."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from support import toys

from toolloom.pipeline.run import make_dataset


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the version toy/1.0.0, to be copied."""
    folder = tmp_path_factory.mktemp("toy")
    recipe = toys.recipe(queries={"count": 40}, splits={"unseen": ["c1"]})
    asyncio.run(make_dataset(recipe, outputs=folder, stages=toys.SPLIT_STAGES))
    return folder


@pytest.fixture
def outputs(toy: Path, tmp_path: Path) -> Path:
    """A folder of its own with that version."""
    return Path(shutil.copytree(toy, tmp_path / "outputs", symlinks=True))
