"""Whatever is really executed leaves nothing behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.waiting import wait_for


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every working folder is removed, and every process has ended, when a test is over."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []
    ended = lambda: not [p for p in _places_of_processes() if str(tmp_path) in p]  # noqa: E731
    wait_for(ended, "all processes have ended", patience=30)


def _places_of_processes() -> Iterator[str]:
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if each.parent.name != str(os.getpid()):
                yield os.readlink(each)
        except OSError:
            continue


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often something was started that was handed on the variable STARTS."""
    file = tmp_path / "starts.txt"
    monkeypatch.setenv("STARTS", str(file))
    return lambda: len(file.read_text().split()) if file.exists() else 0
