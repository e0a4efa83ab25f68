"""The shape of the package: what can be counted."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("cli", "agents", "llm", "prompts", "schemas", "pipeline")

BUDGET = {"product": 45_000, "modules": 145, "tests": 27_000, "docs": 2_387, "README": 200}
"""Lines at most, and modules: Python outside tests/ with that of benchmarks/, Python below tests/,
Markdown below docs/. There is no law on one file or function, only on the whole: it goes down, and
up only by what a change says it needs."""


def package_files() -> list[Path]:
    return [*ROOT.glob("*.py"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.py"))]


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


def test_no_module_imports_itself_by_way_of_others() -> None:
    """A circle may not hide inside a function either."""
    graph = {name: set(imports(name, tree)) for name, tree in modules().items()}
    TopologicalSorter(graph).prepare()  # an error names the modules of a circle


def test_the_layers_have_no_exceptions() -> None:
    """What import-linter holds, it holds without a single ignored import, in functions too."""
    config = (ROOT / "pyproject.toml").read_text()
    assert 'type = "layers"' in config
    assert "ignore_imports" not in config and "exclude_type_checking_imports" not in config


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
    assert [name for name, times in names.items() if times > 1] == []


def lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in paths)
