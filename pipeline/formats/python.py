"""Functions of a Python file or module, and the classes and names their hints use.

The file is read as a tree: nothing is imported or run.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toolloom.pipeline.formats.hints import ClassShape, Hints, Member, literal
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import ApiBuilder, Seen, reference, words
from toolloom.schemas import Api, ImportFailed, JsonObject

if TYPE_CHECKING:
    import griffe


CATEGORY = "Python"
_SILENT: griffe.PerStyleOptions = {  # remarks on style are not ours
    "google": {"warnings": False},
    "numpy": {"warnings": False},
    "sphinx": {"warnings": False},
}
_LONGEST_DOCUMENTATION = 20_000
_DEPRECATED = re.compile(
    r"(?i)^[^\w\n]{0,9}deprecated\b|\bis (?:now )?deprecated\b|\bdeprecated (?:since|in) "
)


@dataclass
class Documentation:
    """What a docstring says."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    returned: str = ""
    deprecated: bool = False


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    named: str = "",
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The public functions of a file, or of a module such as `package.module`.

    `named`: what to call the module. Raises ImportFailed where there is no Python source of it.
    """
    ledger.format = "python"
    path = source if source.suffix == ".py" or source.is_file() else find_source(str(source))
    named = named or (source.stem if path == source else str(source))
    module = read_module(path, ledger)
    intake = ApiBuilder(ledger, "python", reference(source), seen)
    hidden = [name for name in module.functions if not module.is_public(name)]
    for reason, names in (
        ("private, by their names", [name for name in hidden if name.startswith("_")]),
        ("not in `__all__`", [name for name in hidden if not name.startswith("_")]),
        ("assigned values", module.assigned),
    ):
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        if names:
            ledger.note(f"{named}: left out as {reason}: {len(names)} ({shown}).")
    if seen is None and not module.functions and not any(module.methods.values()):
        ledger.note(f"{named}: no functions are defined in it.")
    yield from _functions(module, named, intake, category or CATEGORY)
    intake.close()


def _functions(module: Module, named: str, intake: ApiBuilder, category: str) -> Iterator[Api]:
    for name, function in module.functions.items():
        if not module.is_public(name):
            continue
        if nameless := ", ".join(one.arg for one in function.args.posonlyargs):
            why = f"Arguments that cannot be given by name: {nameless}."
            intake.refuse(f"{named}.{name}", why)
        else:
            yield from _api(function, module, named, intake, category)
    for name, methods in module.methods.items():
        for method in methods if module.is_public(name) else ():
            intake.refuse(f"{named}.{name}.{method}", "It is a method: it needs an object.")
    for name in module.foreign:
        intake.refuse(f"{named}.{name}", "It is defined elsewhere: import that module.")


def _api(
    function: Function, module: Module, named: str, intake: ApiBuilder, category: str
) -> Iterator[Api]:
    about = documentation(function)
    unknown: list[str] = []
    hints = Hints(module.shapes, module.aliases, module.imported, unknown.append)
    parameters, lost = _parameters(function, about, hints)
    returned = ast.unparse(function.returns) if function.returns else about.returned
    returns = hints.schema(returned) if returned else {}
    if about.returns and "description" not in returns:
        returns = {**returns, "description": about.returns}
    for api in intake.api(
        category=category,
        tool=words(named),
        name=f"{named}.{function.name}",
        description=about.text,
        parameters=parameters,
        returns=returns,
        wanted=function.name,
        operation=function.name,
        deprecated=about.deprecated or _is(function, "deprecated"),
    ):
        for place in lost:
            intake.ledger.cut(api.id, place, "invalid")
        if unknown:
            shown = ", ".join(f"`{one}`" for one in dict.fromkeys(unknown))[:300]
            intake.ledger.note(
                f"{api.name}: types left open, as JSON Schema has none for them: {shown}."
            )
        if count := module.overloads.get(function.name):
            intake.ledger.note(f"{api.name}: {count} overloads; its last definition counts.")
        yield api


def _parameters(
    function: Function, about: Documentation, hints: Hints
) -> tuple[JsonObject, list[str]]:
    """The arguments' schema, and the places of what cannot be told in it."""
    given = function.args
    shift = len(given.args) - len(given.defaults)
    defaults: list[ast.expr | None] = [None] * shift + list(given.defaults)
    pairs = [*zip(given.args, defaults, strict=True)]
    pairs += zip(given.kwonlyargs, given.kw_defaults, strict=True)
    properties: JsonObject = {}
    lost = [f"parameters.*{one.arg}" for one in (given.vararg, given.kwarg) if one]
    for one, default in pairs:
        hint = ast.unparse(one.annotation) if one.annotation else about.types.get(one.arg, "")
        schema = hints.schema(hint) if hint else {}
        said = about.parameters.get(one.arg)
        if said and "description" not in schema:
            schema = {**schema, "description": said}
        known, value = hints.value(ast.unparse(default)) if default else (True, None)
        if known and value is not None:
            schema = {**schema, "default": value}
        properties[one.arg] = schema
        lost += [] if known else [f"parameters.{one.arg}.default"]
    required = [one.arg for one, default in pairs if default is None]
    return {"type": "object", "properties": properties, "required": required}, lost


def documentation(function: Function) -> Documentation:
    """The docstring in Google's, NumPy's or Sphinx's style, told by itself."""
    written = (ast.get_docstring(function) or "")[:_LONGEST_DOCUMENTATION]
    said = _DEPRECATED.search(written.split("\n\n")[0]) or "\n.. deprecated::" in written
    about = Documentation(deprecated=bool(said))
    for section in _sections(written):
        match section.kind.value:
            case "text" if not about.text:
                # Up to the first directive, and without sessions of an interpreter.
                before = re.split(r"\n[ \t]*\.\. \w+::", str(section.value))[0]
                paragraphs = re.split(r"\n[ \t]*\n", before)
                prose = (p for p in paragraphs if not p.lstrip().startswith(">>>"))
                about.text = "\n\n".join(prose).strip()
            case "parameters" | "other parameters":
                for one in section.value:
                    for name in str(one.name).split(","):
                        about.parameters[name.strip().lstrip("*")] = one.description.strip()
                        if kind := _documented(str(one.annotation or "")):
                            about.types[name.strip()] = kind
            case "returns" if section.value:
                about.returns = section.value[0].description.strip()
                about.returned = _documented(str(section.value[0].annotation or ""))
            case "deprecated":
                about.deprecated = True
    return about


def _documented(kind: str) -> str:
    """A type as docstrings give it, `int, optional`, if it is one of Python's own."""
    first = re.split(r"[,\n]", kind)[0].strip(" `")
    return first if re.fullmatch(r"(str|int|float|bool|list|dict)(\[\w+\])?", first) else ""


def _sections(written: str) -> list[griffe.DocstringSection]:
    if not written:
        return []
    import griffe  # only where Python is imported: it would cost every start

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return griffe.parse_auto(griffe.Docstring(written), per_style_options=_SILENT)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ):
            return griffe.Docstring(written.split("\n\n")[0]).parse(None)  # no style at all


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
