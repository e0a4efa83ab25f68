"""The paths of one record (from draw to Parquet) and of one request (from agent to wire).

`python tests/test_paths.py` prints them as Markdown; `--functions` with every function.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

RECORD_FILES, REQUEST_FILES, PUBLISH_ROOMS = 114, 26, 5
"""Ceilings. They are lowered as the paths become shorter."""

FIELDS = {
    "name": "path",
    "seed": 7,
    "apis": {"domains": 3, "per_domain": 3},
    "queries": {"count": 2},
    "tester": {"votes": 1},
    "splits": dict.fromkeys(("validation", "test_instruction", "test_tool", "test_category"), 0),
}
LEGS = {
    "agents/domain.py": "domains",
    "agents/api.py": "APIs, drawing",
    "agents/query.py": "query",
    "agents/simulator.py": "dialogue",
    "agents/tester.py": "tested",
    "pipeline/curation/duplicates.py": "curated",
    "pipeline/dataset/publish.py": "publish",
}
"""Where a leg of a record's path begins."""
FUNCTION_BODY = 0x1  # CO_OPTIMIZED: not a module's and not a class's


@dataclass
class Leg:
    """Part of a path: the functions that were entered, in the order of their first call."""

    name: str
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    calls: int = 0
    moves: int = 0

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(module for module, _ in self.functions))

    @property
    def rooms(self) -> list[str]:
        return list(dict.fromkeys(module.rpartition("/")[0] for module in self.files))


class Trace:
    """Notes calls of the package's functions, but those of the scripted endpoint."""

    def __init__(self, leg: str) -> None:
        self.legs = [Leg(leg)]
        self._last = ""
        self._known: dict[CodeType, str] = {}

    def _begin(self, name: str) -> None:
        """What comes from now on belongs to this leg; also again, as two records take turns."""
        if self.legs[-1].name != name and self.legs[0].name != "request":
            known = next((leg for leg in self.legs if leg.name == name), Leg(name))
            self.legs = [leg for leg in self.legs if leg is not known] + [known]

    def total(self) -> Leg:
        whole = Leg("all")
        for leg in self.legs:
            whole.functions |= leg.functions
            whole.calls += leg.calls
            whole.moves += leg.moves
        return whole

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        module = self._known.get(code)
        if module is None:
            module = self._known[code] = self._module(frame)
        if not module:
            return
        if module in LEGS:
            self._begin(LEGS[module])
        leg = self.legs[-1]
        leg.functions[module, code.co_qualname] = None
        leg.calls += 1
        leg.moves += module != self._last
        self._last = module

    def _module(self, frame: FrameType) -> str:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith("toolloom.") or not frame.f_code.co_flags & FUNCTION_BODY:
            return ""
        if name.startswith(("toolloom.llm.fake", "toolloom.llm.actor", "toolloom.llm.invent")):
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
    from toolloom.llm import FakeServer, Gateway
    from toolloom.pipeline.run import standard_stages
    from toolloom.pipeline.stage import Context
    from toolloom.schemas import Brief, parse_recipe

    path = Trace("request")

    async def ask(recipe: Any, name: str) -> None:
        async with Gateway(folder / f"{name}.sqlite") as gateway:
            context = Context.of(recipe, gateway)
            stage = next(stage for stage in standard_stages() if stage.name == "domains")
            assert stage.work
            brief = Brief(category="Weather", about="weather and climate", count=1)
            if name == "warm":
                await stage.work(brief, context)
                return
            with path.traced():
                outcome = await stage.work(brief, context)
            assert outcome.accepted

    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 1}
        recipe = parse_recipe({**FIELDS, "model": model}, "a recipe")
        for name in ("warm", "traced"):
            asyncio.run(ask(recipe, name))
    return path


def markdown(path: Trace, functions: bool = False) -> Iterator[str]:
    yield "| leg | calls | files | rooms | functions | moves |"
    yield "|---|--:|--:|--:|--:|--:|"
    for leg in (*path.legs, path.total()):
        counts = (leg.calls, len(leg.files), len(leg.rooms), len(leg.functions), leg.moves)
        yield f"| {leg.name} | " + " | ".join(map(str, counts)) + " |"
    for leg in path.legs:
        yield f"\n**{leg.name}**: " + " → ".join(f"`{file}`" for file in leg.files)
        if functions:
            yield "".join(f"\n- `{file}` {name}" for file, name in leg.functions)


def test_a_record_passes_few_files(tmp_path: Path) -> None:
    """From draw to Parquet, and `publish` in few rooms."""
    path = record_path(tmp_path)
    published = next(leg for leg in path.legs if leg.name == "publish")
    assert len(path.total().files) <= RECORD_FILES
    assert len(published.rooms) <= PUBLISH_ROOMS
    assert any(file.endswith("tables.py") for file in published.files)


def test_a_request_passes_few_files(tmp_path: Path) -> None:
    """From agent to wire and back."""
    path = request_path(tmp_path).total()
    assert path.files[0].startswith("agents/") or path.files[0].startswith("pipeline/")
    assert "llm/wire.py" in path.files
    assert len(path.files) <= REQUEST_FILES


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for title, trace in (("One record", record_path), ("One request", request_path)):
            print(f"### {title}\n")
            print("\n".join(markdown(trace(Path(name)), "--functions" in sys.argv)), "\n")
