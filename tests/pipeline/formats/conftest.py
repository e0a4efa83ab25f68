"""What the tests of several formats share."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support import foreign_rows


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zoo.json"


@pytest.fixture
def take(tmp_path: Path) -> foreign_rows.Take:
    """Reads one row as a format."""
    return partial(foreign_rows.reading, tmp_path)
