"""Functions of a Python file or module, read as text: nothing is imported or run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolloom.pipeline.formats.importers.hints import Hints
from toolloom.pipeline.formats.importers.intake import ApiBuilder, Seen, reference, words
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.pymodule import Function, Module, find_source, read_module
from toolloom.schemas import Api
from toolloom.schemas.base import JsonObject

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
    for reason, names in _left_out(module).items():
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        ledger.note(f"{named}: left out as {reason}: {len(names)} ({shown}).")
    if seen is None and not module.functions and not any(module.methods.values()):
        ledger.note(f"{named}: no functions are defined in it.")
    yield from _functions(module, named, intake, category or CATEGORY)
    intake.close()


def _left_out(module: Module) -> dict[str, list[str]]:
    """What is no part of the module's interface or cannot be told to be a function, by reason."""
    found: dict[str, list[str]] = {}
    for name in module.functions:
        if not module.is_public(name):
            private = name.startswith("_")
            reason = "private, by their names" if private else "not in `__all__`"
            found.setdefault(reason, []).append(name)
    if module.assigned:
        found["assigned values"] = module.assigned
    return found


def _functions(module: Module, named: str, intake: ApiBuilder, category: str) -> Iterator[Api]:
    for name, function in module.functions.items():
        if not module.is_public(name):
            continue
        if why := _uncallable(function):
            intake.refuse(f"{named}.{name}", why)
        else:
            yield from _api(function, module, named, intake, category)
    for name, methods in module.methods.items():
        for method in methods if module.is_public(name) else ():
            intake.refuse(f"{named}.{name}.{method}", "It is a method: it needs an object.")
    for name in module.foreign:
        intake.refuse(f"{named}.{name}", "It is defined elsewhere: import that module.")


def _uncallable(function: Function) -> str:
    """Why a function cannot be called with named values alone; empty if it can."""
    names = ", ".join(one.arg for one in function.args.posonlyargs)
    return f"Arguments that cannot be given by name: {names}." if names else ""


def _api(
    function: Function, module: Module, named: str, intake: ApiBuilder, category: str
) -> Iterator[Api]:
    about = documentation(function)
    unknown: list[str] = []
    hints = Hints(module.shapes, module.aliases, module.imported, unknown.append)
    parameters, lost = _parameters(function, about, hints)
    for api in intake.api(
        category=category,
        tool=words(named),
        name=f"{named}.{function.name}",
        description=about.text,
        parameters=parameters,
        returns=_returns(function, about, hints),
        wanted=function.name,
        operation=function.name,
        deprecated=about.deprecated or _is_marked(function),
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
        properties[one.arg], told = _parameter(one, default, about, hints)
        lost += [] if told else [f"parameters.{one.arg}.default"]
    required = [one.arg for one, default in pairs if default is None]
    return {"type": "object", "properties": properties, "required": required}, lost


def _parameter(
    one: ast.arg, default: ast.expr | None, about: Documentation, hints: Hints
) -> tuple[JsonObject, bool]:
    """An argument's schema, and whether its default can be told in it."""
    hint = ast.unparse(one.annotation) if one.annotation else about.types.get(one.arg, "")
    made = hints.schema(hint) if hint else {}
    said = about.parameters.get(one.arg)
    if said and "description" not in made:
        made = {**made, "description": said}
    if default is None:
        return made, True
    known, value = hints.value(ast.unparse(default))
    if known and value is not None:
        made = {**made, "default": value}
    return made, known


def _returns(function: Function, about: Documentation, hints: Hints) -> JsonObject | None:
    hint = ast.unparse(function.returns) if function.returns else about.returned
    made = hints.schema(hint) if hint else {}
    if about.returns and "description" not in made:
        made = {**made, "description": about.returns}
    return made or None


def _is_marked(function: Function) -> bool:
    """Whether a decorator says deprecated."""
    marks = (d.func if isinstance(d, ast.Call) else d for d in function.decorator_list)
    return any(ast.unparse(mark).split(".")[-1] == "deprecated" for mark in marks)


def documentation(function: Function) -> Documentation:
    """The docstring in Google's, NumPy's or Sphinx's style, told by itself."""
    written = (ast.get_docstring(function) or "")[:_LONGEST_DOCUMENTATION]
    said = _DEPRECATED.search(written.split("\n\n")[0]) or "\n.. deprecated::" in written
    found = Documentation(deprecated=bool(said))
    for section in _sections(written):
        match section.kind.value:
            case "text" if not found.text:
                found.text = _prose(str(section.value))
            case "parameters" | "other parameters":
                _gather(section.value, found)
            case "returns" if section.value:
                found.returns = section.value[0].description.strip()
                found.returned = _documented(str(section.value[0].annotation or ""))
            case "deprecated":
                found.deprecated = True
    return found


def _prose(text: str) -> str:
    """The paragraphs before the first directive, without sessions of an interpreter."""
    before = re.split(r"\n[ \t]*\.\. \w+::", text)[0]
    paragraphs = re.split(r"\n[ \t]*\n", before)
    return "\n\n".join(p for p in paragraphs if not p.lstrip().startswith(">>>")).strip()


def _gather(parameters: Iterable[Any], found: Documentation) -> None:
    for one in parameters:
        for name in str(one.name).split(","):
            found.parameters[name.strip().lstrip("*")] = one.description.strip()
            if kind := _documented(str(one.annotation or "")):
                found.types[name.strip()] = kind


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
