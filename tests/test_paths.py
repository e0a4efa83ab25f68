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

RECORD_FILES, REQUEST_FILES, PUBLISH_ROOMS = 60, 14, 5
"""Ceilings. They are lowered as the paths become shorter."""

FIELDS = {
    "name": "path",
    "seed": 7,
    "apis": {"domains": 3, "per_domain": 3, "worlds": False},
    "queries": {"count": 2},
    "tester": {"votes": 1},
    "splits": dict.fromkeys(("validation", "test_instruction", "test_tool", "test_category"), 0),
}
SEGMENTS = {
    "agents/domain.py": "domains",
    "agents/api.py": "APIs, drawing",
    "agents/query.py": "query",
    "agents/simulator.py": "dialogue",
    "agents/tester.py": "tested",
    "pipeline/curation/duplicates.py": "curated",
    "pipeline/dataset/publish.py": "publish",
}
"""Where a segment of a record's path begins."""
SEGMENT_NAMES = ("start", *SEGMENTS.values())
FUNCTION_BODY = 0x1  # CO_OPTIMIZED: not a module's and not a class's


class Trace:
    """Notes the files whose functions are called, but those of the scripted endpoint: by segment, in
    the order of their first call."""

    def __init__(self, segment: str) -> None:
        self.segments: dict[str, dict[str, None]] = {segment: {}}
        self._at = segment
        self._known: dict[CodeType, str] = {}

    @property
    def files(self) -> list[str]:
        return list({file: None for files in self.segments.values() for file in files})

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        module = self._known.get(code)
        if module is None:
            module = self._known[code] = self._module(frame)
        if not module:
            return
        # What comes from now on belongs to this segment; also again, as two records take turns.
        if module in SEGMENTS and "request" not in self.segments:
            self._at = SEGMENTS[module]
        self.segments.setdefault(self._at, {})[module] = None

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
    from toolloom.llm import FakeServer
    from toolloom.pipeline.run import make_dataset
    from toolloom.schemas import parse_recipe

    path = Trace("start")
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
    from toolloom.agents import domain
    from toolloom.agents.ask import Job
    from toolloom.llm import FakeServer, Gateway
    from toolloom.schemas import Brief, parse_recipe

    path = Trace("request")

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
    """From draw to Parquet, and `publish` in few rooms."""
    published = record_trace.segments["publish"]
    assert len(record_trace.files) <= RECORD_FILES
    assert len({file.rpartition("/")[0] for file in published}) <= PUBLISH_ROOMS
    assert "pipeline/store/parquet.py" in published


def test_a_request_passes_few_files(request_trace: Trace) -> None:
    """From agent to wire and back."""
    assert request_trace.files[0].startswith("agents/")
    assert "llm/messages.py" in request_trace.files
    assert len(request_trace.files) <= REQUEST_FILES


def test_the_paths_in_the_documents_are_those_that_are_passed(
    record_trace: Trace, request_trace: Trace
) -> None:
    """Each file that docs/ARCHITECTURE.md names for a segment is entered in it."""
    page = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    told = {
        line.split(" | ")[0].removeprefix("| "): re.findall(r"`([\w/]+\.py)`", line)
        for line in block(page, "paths").splitlines()
        if line.startswith("|")
    }
    entered = record_trace.segments | request_trace.segments
    named = {name: files for name, files in told.items() if files}
    assert list(named) == [*SEGMENT_NAMES, "request"]
    assert {name: set(files) - set(entered[name]) for name, files in named.items()} == {
        name: set() for name in named
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for trace in (record_path(Path(folder)), request_path(Path(folder))):
            print(len(trace.files), "files")
            for name, files in trace.segments.items():
                print(f"  {name} ({len(files)}): {' → '.join(files)}")
