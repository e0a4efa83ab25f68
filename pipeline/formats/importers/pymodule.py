"""A Python file as a tree: its functions, and the classes and names its type hints use."""

from __future__ import annotations

import ast
import importlib.util
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from typing import TypeAlias

from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.shapes import ClassShape, Member, literal
from toolloom.schemas import ImportFailed

_LARGEST = 4_000_000
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What a file defines at its top level, also under `if`, `try` and `with`."""

    functions: dict[str, Function] = field(default_factory=dict)
    overloads: dict[str, int] = field(default_factory=dict)
    methods: dict[str, list[str]] = field(default_factory=dict)
    shapes: dict[str, ClassShape] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    exports: set[str] | None = None

    def is_public(self, name: str) -> bool:
        return not name.startswith("_") if self.exports is None else name in self.exports

    @property
    def foreign(self) -> list[str]:
        """Names of `__all__` that are imported from elsewhere, perhaps functions."""
        return sorted((self.exports or set()) & set(self.imported) - set(self.functions))

    @property
    def assigned(self) -> list[str]:
        """Names of `__all__` that stand for values, which may be functions or anything."""
        known = {*self.functions, *self.shapes, *self.imported}
        return sorted((self.exports or set()) - known)


def read_module(path: Path, ledger: ImportLog) -> Module:
    """Read a file. Raises ImportFailed, for a syntax error with its line."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ImportFailed(f"{path.name} is larger than {_LARGEST:,} bytes. Split it.")
        with tokenize.open(path) as file:  # by its coding line
            code = file.read()
        ledger.bytes += path.stat().st_size
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of old escapes in strings
            tree = ast.parse(code)
    except SyntaxError as error:
        where = f", line {error.lineno}" if error.lineno else ""
        raise ImportFailed(
            f"{path.name}{where} is no Python that can be read: {error.msg}. Correct it first."
        ) from error
    except OSError as error:
        raise ImportFailed(f"{path.name} cannot be read: {error.strerror}.") from error
    except (LookupError, ValueError, MemoryError, RecursionError) as error:
        raise ImportFailed(f"{path.name} is no Python that can be read: {error}.") from error
    module = Module()
    for statement in _statements(tree.body):
        _take(statement, module)
    return module


def _statements(body: list[ast.stmt], depth: int = 0) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if depth < 5 and isinstance(statement, ast.If | ast.Try | ast.With):
            inner = [*statement.body, *getattr(statement, "orelse", ())]
            for handler in getattr(statement, "handlers", ()):
                inner += handler.body
            yield from _statements(inner, depth + 1)


def _take(statement: ast.stmt, module: Module) -> None:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if _is(statement, "overload"):
                module.overloads[statement.name] = module.overloads.get(statement.name, 0) + 1
            module.functions[statement.name] = statement
        case ast.ClassDef():
            module.shapes[statement.name] = _shape(statement)
            module.methods[statement.name] = [
                each.name
                for each in statement.body
                if isinstance(each, Function)
                and not each.name.startswith("_")
                and not _is(each, "property")
            ]
        case ast.Import() | ast.ImportFrom():
            for name in statement.names:
                module.imported[name.asname or name.name] = name.name.split(".")[-1]
        case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
            module.exports = (module.exports or set()) | _names(value)
        case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
            module.exports = (module.exports or set()) | _names(value)
        case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
            module.exports = _names(value)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            if isinstance(value, ast.Subscript | ast.BinOp | ast.Name | ast.Attribute):
                module.aliases[name] = ast.unparse(value)


def _names(value: ast.expr) -> set[str]:
    """The names a list or tuple of strings holds; `[…] + other.__all__` by its own part."""
    if isinstance(value, ast.BinOp):
        return _names(value.left) | _names(value.right)
    known, names = literal(value)
    return {name for name in names if isinstance(name, str)} if known and names else set()


def _is(node: Function | ast.ClassDef, name: str) -> bool:
    """Whether a decorator has this name, whatever it is imported from."""
    marks = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(ast.unparse(mark).split(".")[-1] == name for mark in marks)


def _shape(node: ast.ClassDef) -> ClassShape:
    members: dict[str, Member] = {}
    for each in node.body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=hint, value=value):
                members[name] = Member(ast.unparse(hint), ast.unparse(value) if value else None)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                members[name] = Member("", ast.unparse(value))
    said = {word.arg: literal(word.value)[1] for word in node.keywords}
    return ClassShape(
        bases=tuple(ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases),
        members=members,
        dataclass=_is(node, "dataclass"),
        total=said.get("total") is not False,
    )


def find_source(dotted: str) -> Path:
    """The file of a module by its dotted name, without importing it. Raises ImportFailed."""
    parts = dotted.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ImportFailed(f"`{dotted}` is neither a file nor the name of a module.")
    if parts[0] in sys.builtin_module_names:
        raise ImportFailed(f"{dotted} is built into Python: it has no Python source to read.")
    spec = _top(parts[0])
    if spec is None:
        raise ImportFailed(
            f"There is no module {parts[0]}. Install it in this environment, or name a file."
        )
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    if len(parts) == 1:
        return _python(dotted, [Path(spec.origin)] if spec.origin else [], folders)
    for part in parts[1:-1]:
        folders = [folder / part for folder in folders if (folder / part).is_dir()]
    last = parts[-1]
    files = [path for folder in folders for path in sorted(folder.glob(f"{last}.*"))]
    return _python(dotted, files, [folder / last for folder in folders])


def _top(name: str) -> ModuleSpec | None:
    """Where a top-level module is, the working folder first. Finding one imports nothing."""
    try:
        here = PathFinder.find_spec(name, [str(Path.cwd())])
        found = here if here and here.origin else importlib.util.find_spec(name)
        if found and found.origin == "frozen":  # `os` and friends are compiled in, with a source
            found = PathFinder.find_spec(name)
    except (ImportError, ValueError, OSError):
        return None
    return found or here


def _python(dotted: str, files: list[Path], packages: list[Path]) -> Path:
    """The one Python file among those a module may be."""
    initial = [package / "__init__.py" for package in packages]
    for path in [*initial, *files]:
        if path.suffix == ".py" and path.is_file():
            return path
    if any(path.name.endswith(tuple(EXTENSION_SUFFIXES)) for path in files):
        raise ImportFailed(f"{dotted} is a compiled module: it has no Python source to read.")
    raise ImportFailed(
        f"There is no Python source of {dotted}. Name one of its modules, or a file."
    )
