"""The parts of the documents that are made of the code. `python tests/documents.py` writes them."""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from toolloom.cli import app
from toolloom.schemas import Reason, Recipe

ROOT = Path(__file__).parent.parent
KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
DESCRIBED_ELSEWHERE = {"search.embeddings", "regenerate", "extend"}  # as `model`; or by commands
LIMITS = {
    "ge": "≥ {}",
    "gt": "> {}",
    "le": "≤ {}",
    "lt": "< {}",
    "min_length": "at least {}",
    "pattern": "`{}`",
}


def table(header: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = (header, ("---",) * len(header), *rows)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# --- docs/recipe.md: every field of the model


def kind_of(annotation: Any) -> str:
    """A field's type in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if type(None) in inner:
        return f"{kind_of(inner[0])}, or none"
    if origin is Annotated:
        return kind_of(inner[0]) + (limits_of(inner[1]) if isinstance(inner[1], FieldInfo) else "")
    if origin is Union:
        return " or ".join(map(kind_of, inner))
    if origin is tuple:
        return f"list of {kind_of(inner[0])}".replace("of section", "of sections")
    if origin is dict:
        values = "fields" if get_origin(inner[1]) is dict else kind_of(inner[1])
        return f"mapping of {kind_of(inner[0])} to {values}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return KINDS[annotation]


def limits_of(field: FieldInfo) -> str:
    """The bounds of a field, such as `, ≥ 1, ≤ 32`."""
    return "".join(
        f", {words.format(value)}"
        for rule in field.metadata
        for name, words in LIMITS.items()
        if (value := getattr(rule, name, None)) is not None
    )


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    return "–" if isinstance(default, BaseModel) else f"`{json.dumps(default, ensure_ascii=False)}`"


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, default and meaning of every field of a recipe, sections before their fields."""
    for name, field in model.model_fields.items():
        path, kind, inner = f"{prefix}{name}", kind_of(field.annotation), get_args(field.annotation)
        yield f"`{path}`", kind + limits_of(field), default_of(field), field.description or ""
        if kind == "section":
            yield from fields(field.annotation, f"{path}.")  # type: ignore[arg-type]
        elif kind == "section, or none" and path not in DESCRIBED_ELSEWHERE:
            yield from fields(inner[0], f"{path}.")
        elif kind == "list of sections":
            yield from fields(inner[0], f"{path}[].")
        elif kind == "mapping of text to section":
            yield from fields(inner[1], f"{path}.<name>.")


def recipe_fields() -> str:
    return table(("Path", "Type", "Default", "Meaning"), fields(Recipe))


# --- docs/reasons.md: the docstring below each code


def reason_meanings() -> dict[str, str]:
    """The string that stands below each member of `Reason`."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(Reason))).body
    assert isinstance(definition, ast.ClassDef)
    code, meanings = "", dict[str, str]()
    for line in definition.body:
        if isinstance(line, ast.Assign):
            code = ast.literal_eval(line.value)
        elif code and isinstance(line, ast.Expr):
            meanings[code] = " ".join(ast.literal_eval(line.value).split())
    return meanings


def reasons() -> str:
    rows = ((f"`{code}`", meaning) for code, meaning in reason_meanings().items())
    return table(("Reason", "What it means"), rows)


# --- docs/commands.md: the first sentence of each command's help


def commands(group: Any = None, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command by what is typed; a hidden one is typed by its group's name alone."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield (before.strip() if command.hidden else f"{before}{name}"), command


def command_table() -> str:
    rows = list[tuple[str, ...]]()
    for name, command in commands():
        arguments = (
            parameter.metavar if parameter.required else f"[{parameter.metavar}]"
            for parameter in command.params
            if parameter.param_type_name == "argument"
        )
        usage = " ".join(["toolloom", name, *arguments]).replace("|", "\\|")
        first = inspect.cleandoc(command.help).split("\n\n")[0]
        rows.append((f"`{usage}`", first.replace("\n", " ")))
    return table(("Command", "What it does"), iter(rows))


# Page, name of the block, what makes it.
MADE: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("docs/recipe.md", "dials", recipe_fields),
    ("docs/reasons.md", "reasons", reasons),
    ("docs/commands.md", "commands", command_table),
)


def block(text: str, name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`."""
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    assert match, f"there is no block {name}"
    return match[1]


if __name__ == "__main__":
    for page, name, make in MADE:
        text = (ROOT / page).read_text(encoding="utf-8")
        new = text.replace(
            f"\n{block(text, name)}\n<!-- /{name} -->", f"\n{make()}\n<!-- /{name} -->"
        )
        (ROOT / page).write_text(new, encoding="utf-8")
