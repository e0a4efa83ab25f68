"""The paths of one record (from draw to Parquet) and of one request (from agent to wire).

`python tests/test_paths.py` prints them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from documents import ROOT, block

RECORD_FILES, REQUEST_FILES = 45, 11
"""Ceilings. They are lowered as the paths become shorter."""

FIELDS = {
    "name": "path",
    "seed": 7,
    "apis": {"domains": 3, "per_domain": 3, "worlds": False},
    "queries": {"count": 2},
    "tester": {"votes": 1},
    "splits": dict.fromkeys(("validation", "test_instruction", "test_tool", "test_category"), 0),
}
FUNCTION_BODY = 0x1  # CO_OPTIMIZED: not a module's and not a class's


class Trace:
    """Notes the files whose functions are called, but those of the scripted endpoint."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}  # in the order of their first call
        self._known: dict[CodeType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            if code not in self._known:
                self._known[code] = self._module(frame)
            if self._known[code]:
                self.files[self._known[code]] = None

    def _module(self, frame: FrameType) -> str:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("toolloom.") or not frame.f_code.co_flags & FUNCTION_BODY:
            return ""
        if name == "toolloom.llm.scripted":
            return ""
        file = Path(str(frame.f_globals.get("__file__") or ""))
        folders = name.split(".")[1:] if file.stem == "__init__" else name.split(".")[1:-1]
        return "/".join([*folders, file.name])

    @contextmanager
    def traced(self) -> Iterator[None]:
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def record_path(folder: Path) -> Trace:
    """A run of two queries, of which the first is accepted, and its publication."""
    from toolloom import FakeServer
    from toolloom.pipeline.run import make_dataset
    from toolloom.schemas import parse_recipe

    path = Trace()
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 1}
        recipe = parse_recipe({**FIELDS, "model": model}, "a recipe")
        asyncio.run(make_dataset(recipe, outputs=folder / "warm"))  # imports are none of the path
        with path.traced():
            made = asyncio.run(make_dataset(recipe, outputs=folder / "traced"))
    assert made.published
    return path


def request_path(folder: Path) -> Trace:
    """The domain agent asks for one domain."""
    from toolloom import FakeServer, Gateway
    from toolloom.agents import domain
    from toolloom.agents.ask import Job
    from toolloom.schemas import Brief, parse_recipe

    path = Trace()

    async def ask(recipe: Any, name: str) -> None:
        async with Gateway(folder / f"{name}.sqlite") as gateway:
            job = Job("domains", "domain", "Weather", 7, gateway.model(recipe.model))
            brief = Brief(category="Weather", about="weather and climate", count=1)
            if name == "warm":
                await domain.run(brief, job)
                return
            with path.traced():
                outcome = await domain.run(brief, job)
            assert outcome.accepted

    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 1}
        recipe = parse_recipe({**FIELDS, "model": model}, "a recipe")
        for name in ("warm", "traced"):
            asyncio.run(ask(recipe, name))
    return path


@pytest.fixture(scope="module")
def record_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return record_path(tmp_path_factory.mktemp("record"))


@pytest.fixture(scope="module")
def request_trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return request_path(tmp_path_factory.mktemp("request"))


def test_a_record_passes_few_files(record_trace: Trace) -> None:
    """From draw to Parquet."""
    assert len(record_trace.files) <= RECORD_FILES
    assert "pipeline/store/version.py" in record_trace.files


def test_a_request_passes_few_files(request_trace: Trace) -> None:
    """From agent to wire and back."""
    assert "llm/messages.py" in request_trace.files
    assert len(request_trace.files) <= REQUEST_FILES


def test_the_paths_in_the_documents_are_those_that_are_passed(
    record_trace: Trace, request_trace: Trace
) -> None:
    """Each file that docs/ARCHITECTURE.md names is entered."""
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = [line for line in block(page, "paths").splitlines() if line.startswith("| ")][2:]
    for line in table:
        told = set(re.findall(r"`([\w/]+\.py)`", line))
        entered = request_trace if line.startswith("| request") else record_trace
        assert told and told <= {*entered.files}, line


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for trace in (record_path(Path(folder)), request_path(Path(folder))):
            print(len(trace.files), "files:", " → ".join(trace.files))
