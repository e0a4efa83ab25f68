"""The documents say what the code says. `python tests/test_docs.py` writes the recipe's table."""

import ast
import importlib
import json
import re
import tomllib
from collections.abc import Iterator
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
import typer
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.templates.written.files import check_files
from toolloom.schemas import Reason, Recipe, load_recipe, parse_recipe

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RECIPE_PAGE = ROOT / "docs" / "recipe.md"
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
SETUP = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETUP["project"]
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", Any: "anything"}
TOLD_ELSEWHERE = {"search.embeddings", "regenerate", "extend"}  # as `model`; or by commands
LIMITS = (
    ("ge", "≥ {}"),
    ("gt", "> {}"),
    ("le", "≤ {}"),
    ("lt", "< {}"),
    ("min_length", "at least {}"),
    ("pattern", "`{}`"),
)


def block(text: str, name: str) -> str:
    """What stands between `<!-- name -->` and `<!-- /name -->`."""
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    assert found, f"there is no block {name}"
    return found[1]


def fences(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def kind_of(annotation: Any) -> str:
    """A field's type in words."""
    inner = get_args(annotation)
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in inner)
    if type(None) in inner:
        return f"{kind_of(inner[0])}, or none"
    if get_origin(annotation) is Annotated:
        return kind_of(inner[0]) + limits_of(inner[1])
    if get_origin(annotation) is Union:
        return " or ".join(map(kind_of, inner))
    if get_origin(annotation) is tuple:
        return f"list of {kind_of(inner[0])}".replace("of section", "of sections")
    if get_origin(annotation) is dict:
        values = "fields" if get_origin(inner[1]) is dict else kind_of(inner[1])
        return f"mapping of {kind_of(inner[0])} to {values}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{one.value}`" for one in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return WORDS[annotation]


def limits_of(field: FieldInfo) -> str:
    """The bounds of a field, such as `, ≥ 1, ≤ 32`."""
    shown = [
        form.format(value)
        for rule in field.metadata
        for name, form in LIMITS
        if (value := getattr(rule, name, None)) is not None
    ]
    return "".join(f", {one}" for one in shown)


def default_of(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return "–"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def dials(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Path, type, default and meaning of every field of a recipe, sections before their fields."""
    for name, field in model.model_fields.items():
        kind = kind_of(field.annotation)
        path = f"{prefix}{name}"
        yield f"`{path}`", kind + limits_of(field), default_of(field), field.description or ""
        if kind == "section":
            yield from dials(field.annotation, f"{path}.")  # type: ignore[arg-type]
        elif kind == "section, or none" and path not in TOLD_ELSEWHERE:
            yield from dials(get_args(field.annotation)[0], f"{path}.")
        elif kind == "list of sections":
            yield from dials(get_args(field.annotation)[0], f"{path}[].")
        elif kind == "mapping of text to section":
            yield from dials(get_args(field.annotation)[1], f"{path}.<name>.")


def recipe_table() -> str:
    rows = [("Path", "Type", "Default", "Meaning"), ("---",) * 4, *dials(Recipe)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def write_recipe_table() -> None:
    before, start, rest = RECIPE_PAGE.read_text(encoding="utf-8").partition("<!-- dials -->\n")
    _, end, after = rest.partition("\n<!-- /dials -->")
    text = "".join((before, start, recipe_table(), end, after))
    RECIPE_PAGE.write_text(text, encoding="utf-8")


def table_cells(text: str, place: int = 0) -> list[str]:
    """The words in code marks in one column of a Markdown table."""
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row[place])]


def test_every_dial_is_in_the_recipe_table() -> None:
    """docs/recipe.md holds the table made of the model; `python tests/test_docs.py` renews it."""
    assert block(RECIPE_PAGE.read_text(encoding="utf-8"), "dials") == recipe_table()


def test_every_dial_has_a_meaning() -> None:
    """No field of a recipe is without a description."""
    assert [path for path, _, _, meaning in dials(Recipe) if not meaning] == []


def test_every_reason_code_is_in_the_readme() -> None:
    """The table of checks names each reason code once, and no other."""
    listed = table_cells(block(README.read_text(encoding="utf-8"), "reasons"))
    assert sorted(listed) == sorted(reason.value for reason in Reason)


def flattened(commands: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command by what is typed, such as `apis import`; a hidden one is typed by its group's
    name alone."""
    for name, command in commands.items():
        if command.hidden:
            yield before.strip(), command
        elif inner := getattr(command, "commands", None):
            yield from flattened(inner, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_and_option_is_in_the_readme() -> None:
    """The table of commands names each command with all of its options, and no other."""
    text = block(README.read_text(encoding="utf-8"), "commands")
    commands = dict(flattened(typer.main.get_command(app).commands))  # type: ignore[attr-defined]
    lines = re.findall(
        r"^\| `toolloom ([a-z]+(?:-[a-z]+)?(?: [a-z]+)?)(.*?)` \|", text, re.MULTILINE
    )
    documented = {
        (name, option)
        for name, rest in lines
        for option in re.findall(r"(?<![\w-])--?[a-z]+(?:-[a-z]+)*", rest)
    }
    known = {
        (name, parameter.opts[0])
        for name, command in commands.items()
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name != "help"
    }
    assert documented == known
    assert sorted(name for name, _ in lines) == sorted(commands)


def test_the_validate_session_is_what_it_prints() -> None:
    """The session in the README is the output of that very command."""
    session = block(README.read_text(encoding="utf-8"), "session:validate")
    printed = CliRunner().invoke(app, ["validate", str(ROOT / "recipes" / "quickstart.yaml")])
    _, _, shown = session.removeprefix("```console\n").removesuffix("\n```").partition("\n")
    assert [line.rstrip() for line in printed.stdout.splitlines()] == shown.split("\n")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    """`toolloom validate` takes it, and its name is that of its file."""
    ran = CliRunner().invoke(app, ["validate", str(path)])
    assert ran.exit_code == 0, ran.output
    assert load_recipe(path).name == path.stem.replace("_", "-")


def yaml_shown() -> list[str]:
    """All YAML in the documents."""
    pages = [README, *sorted((ROOT / "docs").glob("*.md"))]
    return [part for page in pages for part in fences(page.read_text(encoding="utf-8"), "yaml")]


def test_every_recipe_shown_is_valid() -> None:
    """YAML in the documents can be copied."""
    recipes = [data for part in yaml_shown() if "templates" not in (data := yaml.safe_load(part))]
    assert recipes
    for data in recipes:
        parse_recipe({"name": "shown", **data}, "a document")


def test_every_template_shown_is_valid(tmp_path: Path) -> None:
    """So can templates: the file is read without a mistake."""
    shown = [part for part in yaml_shown() if "templates" in yaml.safe_load(part)]
    assert shown
    for number, part in enumerate(shown):
        path = tmp_path / f"{number}.yaml"
        path.write_text(part, encoding="utf-8")
        check_files([path])


def test_every_python_example_imports_what_exists() -> None:
    """Python in the README can be parsed, and the names it imports from toolloom are there."""
    for part in fences(README.read_text(encoding="utf-8"), "python"):
        for node in ast.walk(ast.parse(part)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("toolloom"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, name.name) for name in node.names), part


def test_the_tree_names_only_what_exists() -> None:
    """Each line of the README's tree is a path, indented below its folder."""
    folders: list[str] = []
    for line in block(README.read_text(encoding="utf-8"), "tree").splitlines()[1:-1]:
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        assert (ROOT.joinpath(*folders[:depth]) / name).exists(), line
        folders[depth:] = [name]


def test_the_tree_names_every_room() -> None:
    """No folder of the package is missing from the README's tree."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    packages = tomllib.loads(text)["tool"]["setuptools"]["packages"]
    tree = block(README.read_text(encoding="utf-8"), "tree")
    below = [package.split(".")[1:] for package in packages]
    rooms = {parts[-1] for parts in below if 0 < len(parts) < 3}
    assert {room for room in rooms if f"{room}/" not in tree} == set()


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md has a line for each direct dependency, and for no other."""
    sections = (PROJECT["optional-dependencies"], SETUP["dependency-groups"])
    named = chain(PROJECT["dependencies"], *chain(*(one.values() for one in sections)))
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    listed = set(table_cells(page))
    assert listed == {re.split(r"[\[<>=!~; ]", line)[0] for line in named}


def test_the_changelog_has_this_version() -> None:
    """What is installed has its section."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(PROJECT['version'])}\b", text, re.MULTILINE)


def test_links_between_documents_lead_somewhere() -> None:
    """A relative link in a document is a file that exists."""
    for page in (README, ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


if __name__ == "__main__":
    write_recipe_table()
