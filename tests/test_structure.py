"""The shape of the package: what can be counted. Lists of what does not hold yet may only shrink."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
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

LINES, MODULES = 72_150, 275
"""Python lines outside tests/, with those of benchmarks/; modules of the package."""

LONG = {"grammar.py", "growth.py", "interpreter.py", "reading.py"}
"""Modules of more than 500 lines: two subjects still, but for the interpreter of worlds, which is
one file so that it can be shipped alone."""

PREFIXES = {"pipeline/dataset/verify"}
"""Prefixes that three files of a folder share: packages in disguise."""


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


def test_a_class_name_stands_once() -> None:
    """Whoever reads a name knows which class is meant."""
    names = Counter(
        node.name
        for tree in modules().values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, times in names.items() if times > 1} == set()


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


def test_a_module_is_one_subject() -> None:
    """Five hundred lines are enough for one."""
    sizes = {path: len(path.read_bytes().splitlines()) for path in package_files()}
    assert {path.name for path, size in sizes.items() if size > 500} <= LONG


def test_a_room_says_what_lives_in_it() -> None:
    """Ten lines: what lives here, what it may touch, where to begin reading."""
    told = {room: ast.get_docstring(modules()[room.replace("/", ".")]) or "" for room in ROOMS}
    assert {room for room, text in told.items() if len(text.splitlines()) < 10} <= SILENT_ROOMS


def test_no_prefix_is_a_package_in_disguise() -> None:
    """Three files of a folder that begin with the same word belong in a package of that name."""
    shared: dict[str, int] = defaultdict(int)
    for path in package_files():
        word = path.stem.split("_")[0]
        shared[f"{path.parent.relative_to(ROOT)}/{word}"] += bool(word)
    assert {prefix for prefix, files in shared.items() if files >= 3} <= PREFIXES


def test_functions_are_short() -> None:
    """Nine of ten have at most 35 lines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = sorted(
        (node.end_lineno or 0) - node.lineno + 1
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    )
    assert lengths[len(lengths) * 9 // 10] <= 35


def test_the_product_does_not_grow_unseen() -> None:
    """A ceiling that is raised is raised on purpose."""
    files = [*package_files(), *(ROOT / "benchmarks").glob("*.py")]
    lines = sum(len(path.read_bytes().splitlines()) for path in files)
    assert lines <= LINES, lines
    assert len(modules()) <= MODULES
