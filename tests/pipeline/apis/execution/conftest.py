"""Sources for real execution: a small MCP server and a file of Python functions."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.waiting import wait_for

from toolloom.pipeline.apis.execution.mcp import Server
from toolloom.schemas import Api, ApiSource, Source

SERVER = Path(__file__).with_name("server.py")
COMMAND = f"{sys.executable} {SERVER}"
TOOLS = ("add", "count", "fail", "grumble", "nap", "die", "show", "roll")


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every working folder is removed, and every process has ended, when a test is over."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    # How a process ended is waited for, however busy the machine is.
    monkeypatch.setattr("toolloom.pipeline.apis.execution.process.GRACE", 60.0)
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
def server() -> Server:
    return Server(COMMAND, "shelf", time_limit=5)


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often something was started that was handed on the variable STARTS."""
    file = tmp_path / "starts.txt"
    monkeypatch.setenv("STARTS", str(file))
    return lambda: len(file.read_text().split()) if file.exists() else 0


@pytest.fixture
def shelf() -> Callable[..., ApiSource]:
    def make(**changes: Any) -> ApiSource:
        fields = {"mcp": COMMAND, "name": "shelf", "execute": TOOLS, "time_limit": 5}
        return ApiSource(**{**fields, **changes})

    return make


@pytest.fixture
def tool() -> Callable[..., Api]:
    """An API as importing it from the server, or from a Python file, makes it."""

    def make(name: str, reference: str = "shelf", **changes: Any) -> Api:
        kind: Any = "python" if reference.endswith(".py") else "mcp"
        fields = {
            "category": "Test",
            "tool": "shelf",
            "name": name,
            "function": name.replace(".", "_"),
            "description": "Does what its name says.",
            "parameters": {"type": "object", "properties": {}},
            "source": Source(kind=kind, reference=reference, operation=name),
        }
        return Api(**{**fields, **changes})

    return make
