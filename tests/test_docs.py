"""The documents say what the code says. `python tests/documents.py` writes the parts made of it."""

import ast
import importlib
import re
import tomllib
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
import yaml
from documents import MADE, ROOT, block, fields, reason_meanings
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.templates.written import check_files
from toolloom.schemas import Reason, Recipe, load_recipe, parse_recipe

README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXT = {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in PAGES}
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
PACKAGES = [name.split(".")[1:] for name in SETTINGS["tool"]["setuptools"]["packages"]]
ROOMS = ["/".join(parts) for parts in PACKAGES if 0 < len(parts) < 3]
FOLDERS = "agents|benchmarks|cli|docs|llm|outputs|pipeline|prompts|recipes|schemas|tests"


def fences(language: str, names: tuple[str, ...] = tuple(TEXT)) -> list[str]:
    """All code of one language in the documents."""
    return [
        part
        for name in names
        for part in re.findall(rf"```{language}\n(.*?)```", TEXT[name], re.DOTALL)
    ]


def code_words(text: str) -> list[str]:
    """The words in code marks in the first column of Markdown tables."""
    rows = [line.split(" | ")[0] for line in text.splitlines() if line.startswith("| `")]
    return [word for row in rows for word in re.findall(r"`([^`]+)`", row)]


# --- what is made of the code


@pytest.mark.parametrize(("page", "name", "make"), MADE, ids=[made[0] for made in MADE])
def test_what_is_made_of_the_code_is_what_the_code_makes(
    page: str, name: str, make: Callable[[], str]
) -> None:
    """Fields, reasons and commands are those of today; `python tests/documents.py` renews them."""
    assert block(TEXT[page], name) == make()


def test_every_field_and_reason_has_a_meaning() -> None:
    """No field of a recipe is without a description, no reason code without a docstring."""
    assert [path for path, _, _, meaning in fields(Recipe) if not meaning] == []
    assert list(reason_meanings()) == [reason.value for reason in Reason]


# --- sessions


def test_the_validate_session_is_what_it_prints() -> None:
    """The session in the documents is the output of that very command."""
    session = block(TEXT["docs/first-run.md"], "session:validate")
    printed = CliRunner().invoke(app, ["validate", str(ROOT / "recipes" / "quickstart.yaml")])
    _, _, shown = session.removeprefix("```console\n").removesuffix("\n```").partition("\n")
    assert [line.rstrip() for line in printed.stdout.splitlines()] == shown.split("\n")


@pytest.mark.parametrize("name", ["session:run", "session:show"])
def test_the_readme_only_leaves_lines_out(name: str) -> None:
    """Each line of a session in the README stands in the whole one, in that order."""
    whole = iter(block(TEXT["docs/first-run.md"], name).splitlines())
    shown = [line for line in block(TEXT["README.md"], name).splitlines() if line != "…"]
    assert [line for line in shown if line not in whole] == []


# --- what can be copied


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_every_shipped_recipe_is_valid(path: Path) -> None:
    """`toolloom validate` takes it, and its name is that of its file."""
    ran = CliRunner().invoke(app, ["validate", str(path)])
    assert ran.exit_code == 0, ran.output
    assert load_recipe(path).name == path.stem.replace("_", "-")


def test_every_recipe_and_template_shown_is_valid(tmp_path: Path) -> None:
    """YAML in the documents can be copied; that of worlds is run in tests/pipeline/worlds."""
    pages = tuple(name for name in TEXT if name != "docs/worlds.md")
    for number, part in enumerate(fences("yaml", pages)):
        if "templates" in (data := yaml.safe_load(part)):
            path = tmp_path / f"{number}.yaml"
            path.write_text(part, encoding="utf-8")
            check_files([path])
        else:
            parse_recipe({"name": "shown", **data}, "a document")


def test_every_python_example_imports_what_exists() -> None:
    """Python in the documents can be parsed, and the names it imports from toolloom are there."""
    for part in fences("python"):
        for node in ast.walk(ast.parse(part)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("toolloom"):
                module = importlib.import_module(str(node.module))
                assert all(hasattr(module, name.name) for name in node.names), part


# --- what is named is there


def test_every_path_that_is_named_exists() -> None:
    """A path of the repository that a document or a room's docstring names is a file or folder."""
    rooms = {f"{room}/__init__.py": room_docstring(room) for room in ROOMS}
    for page, text in (TEXT | rooms).items():
        for path in re.findall(rf"(?<![\w/.<-])(?:{FOLDERS})/[\w./-]*\w(?![\w<*])", text):
            known = (ROOT / path).exists() or path.startswith("outputs/")
            assert known, f"{page}: {path}"


def test_every_class_that_the_architecture_names_exists() -> None:
    """Names in capitals in code marks are classes or constants of the package."""
    source = "\n".join(
        path.read_text(encoding="utf-8")
        for room in PACKAGES
        for path in ROOT.joinpath(*room).glob("*.py")
    )
    for name in re.findall(r"`([A-Z]\w+)`", TEXT["docs/ARCHITECTURE.md"]):
        assert re.search(rf"^(?:class )?{name}\b *[(:=]", source, re.MULTILINE), name


def test_links_between_documents_lead_somewhere() -> None:
    """A relative link in a document is a file that exists, and a heading in it."""
    for page in PAGES:
        for target, heading in re.findall(
            r"\]\(([^)#:]*)(?:#([^)]*))?\)", TEXT[page.relative_to(ROOT).as_posix()]
        ):
            file = page.parent / target if target else page
            assert file.exists(), f"{page.name}: {target}"
            headings = (
                re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.M) if heading else []
            )
            slugs = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]
            assert not heading or heading in slugs, f"{page.name}: #{heading}"


def test_every_page_can_be_found_from_the_readme() -> None:
    """The README links each page of docs/."""
    linked = set(re.findall(r"\]\((docs/[\w.-]+)", TEXT["README.md"]))
    assert sorted({name for name in TEXT if name.startswith("docs/")} - linked) == []


def test_the_tree_has_a_line_for_every_room() -> None:
    """Each line of the README's tree is a path, indented below its folder; no room is missing."""
    folders: list[str] = []
    seen = []
    for line in block(TEXT["README.md"], "tree").splitlines()[1:-1]:
        depth = (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [line.split()[0].rstrip("/")]
        seen.append("/".join(folders))
        assert (ROOT / seen[-1]).exists(), line
    assert sorted(set(ROOMS) - set(seen)) == []


def room_docstring(room: str) -> str:
    tree = ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))
    return ast.get_docstring(tree) or ""


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_what_it_is(room: str) -> None:
    """A room opens with about ten lines: what lives there, what it may touch, where to begin."""
    text = room_docstring(room)
    assert 10 <= len(text.splitlines()) <= 16
    assert "May touch" in text and "Begin" in text
    for module in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        assert (ROOT / room / module).exists(), module


def test_every_dependency_has_its_reason() -> None:
    """docs/dependencies.md has a line for each direct dependency, and for no other."""
    groups = PROJECT["optional-dependencies"] | SETTINGS.get("dependency-groups", {})
    named = chain(PROJECT["dependencies"], *groups.values())
    listed = set(code_words(TEXT["docs/dependencies.md"]))
    assert listed == {re.split(r"[\[<>=!~; ]", line)[0] for line in named}


def test_the_changelog_has_this_version() -> None:
    """What is installed has its section."""
    assert re.search(
        rf"^## \[?{re.escape(PROJECT['version'])}\b", TEXT["CHANGELOG.md"], re.MULTILINE
    )


def test_the_readme_is_short() -> None:
    """A stranger understands it in two minutes."""
    assert len(TEXT["README.md"].splitlines()) <= 200
