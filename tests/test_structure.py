"""The shape of the package: what can be counted. Lists of what does not hold yet may only shrink."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "cli",
    "agents",
    "llm",
    "prompts",
    "schemas",
    "pipeline",
    *(
        f"pipeline/{name}"
        for name in ["orchestration", "pages", "dataset", "apis", "formats", "store"]
    ),
    *(
        f"pipeline/{name}"
        for name in ["render", "checks", "sampling", "templates", "curation", "worlds"]
    ),
)
SILENT_ROOMS: set[str] = set()
"""Rooms whose `__init__` does not yet open with ten lines."""

BUDGET = {"product": 52_444, "modules": 215, "tests": 31_980, "docs": 2_335, "README": 200}
"""Lines at most, and modules: Python outside tests/ with that of benchmarks/, Python below tests/,
Markdown below docs/. There is no law on one file or function, only on the whole: it goes down, and
up only by what a change says it needs."""

TWICE: set[str] = set()
"""Module names that stand more than once below pipeline/: this list only shrinks."""


def package_files() -> list[Path]:
    folders = ("cli", "agents", "llm", "prompts", "schemas", "pipeline")
    return [*ROOT.glob("*.py"), *(p for f in folders for p in (ROOT / f).rglob("*.py"))]


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name, without `toolloom.`."""
    return {name_of(path): ast.parse(path.read_bytes()) for path in package_files()}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(name: str, tree: ast.Module) -> Iterator[str]:
    """The modules that one imports, wherever the statement stands."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("toolloom"):
            continue
        base = (node.module or "").removeprefix("toolloom").removeprefix(".")
        for alias in node.names:
            inner = f"{base}.{alias.name}".lstrip(".")
            target = inner if inner in modules() else base
            if target in modules() and target != name:
                yield target


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of modules each of which reaches all others (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    closed: list[set[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in graph[name]:
            if target not in index:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == index[name]:
            members = set(stack[stack.index(name) :])
            del stack[stack.index(name) :]
            if len(members) > 1:
                closed.append(members)

    for name in graph:
        if name not in index:
            visit(name)
    return closed


def test_no_module_imports_itself_by_way_of_others() -> None:
    """A circle may not hide inside a function either."""
    graph = {name: set(imports(name, tree)) for name, tree in modules().items()}
    assert circles(graph) == []


def test_the_layers_have_no_exceptions() -> None:
    """What import-linter holds, it holds without a single ignored import, in functions too."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contracts = config["contracts"]
    assert any(contract["type"] == "layers" for contract in contracts)
    assert not {"ignore_imports", "exclude_type_checking_imports"} & {*config, *contracts[0]}
    assert not any("ignore_imports" in contract for contract in contracts)


def test_a_room_says_what_lives_in_it() -> None:
    """Ten lines: what lives here, what it may touch, where to begin reading."""
    told = {room: ast.get_docstring(modules()[room.replace("/", ".")]) or "" for room in ROOMS}
    assert {room for room, text in told.items() if len(text.splitlines()) < 10} <= SILENT_ROOMS


def test_the_whole_keeps_within_its_budget() -> None:
    """A ceiling that is raised is raised on purpose."""
    product = [*package_files(), *(ROOT / "benchmarks").glob("*.py")]
    sizes = {
        "product": lines(product),
        "modules": len(product),
        "tests": lines((ROOT / "tests").rglob("*.py")),
        "docs": lines((ROOT / "docs").rglob("*.md")),
        "README": lines([ROOT / "README.md"]),
    }
    assert {name: size for name, size in sizes.items() if size > BUDGET[name]} == {}


def test_a_module_name_stands_once_below_pipeline() -> None:
    """Whoever reads a file's name knows which file is meant."""
    names = Counter(
        path.stem for path in (ROOT / "pipeline").rglob("*.py") if path.stem != "__init__"
    )
    assert {name for name, times in names.items() if times > 1} <= TWICE


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in paths)
