"""Functions of Python files and modules, never imported."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.formats import python
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.schemas import Api, ImportFailed

SHOP = Path(__file__).parents[2] / "golden" / "apis" / "shop.py.txt"
NUMPY = '''
def mix(first, parts=2):
    """Mix colours.

    Parameters
    ----------
    first : str
        The colour to begin with.
    parts : int, optional
        How many parts of it.

    Returns
    -------
    str
        The new colour.
    """
'''
SPHINX = '''
def mix(first, parts=2):
    """Mix colours.

    .. deprecated:: 2.0

    :param str first: The colour to begin with.
    :param parts: How many parts of it.
    :type parts: int
    :returns: The new colour.
    :rtype: str
    """
'''


def gather(path: Path, code: str) -> tuple[dict[str, Api], ImportLog]:
    path.write_text(code)
    ledger = ImportLog(path.name)
    return {api.source.operation: api for api in python.read(path, ledger)}, ledger


def test_signatures_and_docstrings_become_apis(tmp_path: Path) -> None:
    """Names, hints, defaults and texts of a function are all kept; nothing is run."""
    found, _ = gather(tmp_path / "book_shop.py", SHOP.read_text())
    api = found["order"]
    assert (api.id, api.function) == ("Python/book shop/book_shop.order", "order")
    assert api.description == "Order an item. It is sent at once."
    assert api.required == ("item", "note")
    assert api.properties["item"] == {
        "type": "string",
        "description": "What to order, by its name.",
    }
    assert api.properties["size"] == {"type": "string", "enum": ["s", "l"], "default": "s"}
    assert api.properties["when"] == {"type": ["string", "null"], "format": "date"}
    assert api.properties["gift"]["description"] == "Wrap it."
    assert api.returns is not None and api.returns["description"] == "Prices by part."
    assert (api.source.kind, api.source.reference) == ("python", "book_shop.py")


@pytest.mark.parametrize("code", [NUMPY, SPHINX])
def test_styles_of_docstrings(tmp_path: Path, code: str) -> None:
    """NumPy's and Sphinx's style give descriptions, and types where there are no hints."""
    found, _ = gather(tmp_path / "colours.py", code)
    api = found["mix"]
    assert api.description == "Mix colours."
    assert api.properties["first"] == {
        "type": "string",
        "description": "The colour to begin with.",
    }
    assert api.properties["parts"]["default"] == 2
    assert api.returns == {"type": "string", "description": "The new colour."}
    assert api.deprecated is (code is SPHINX)


def test_exports_decide(tmp_path: Path) -> None:
    """With `__all__`, what it names is public and nothing else is."""
    code = "from os import getcwd\n__all__ = ['_a', 'getcwd']\ndef _a(): ...\ndef b(): ...\n"
    found, ledger = gather(tmp_path / "shop.py", code)
    assert set(found) == {"_a"}
    (skipped,) = ledger.report(imported=1).skipped
    assert skipped.what == "shop.getcwd" and "elsewhere" in skipped.why


def test_functions_under_conditions_are_found(tmp_path: Path) -> None:
    """What `if` and `try` define at the top of a file belongs to it."""
    code = "try:\n    import x\nexcept ImportError:\n    def a(): ...\nelse:\n    def b(): ...\n"
    assert set(gather(tmp_path / "shop.py", code)[0]) == {"a", "b"}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\ndef f(:\n", "shop.py, line 2 is no Python"),
        ("\0", "null bytes"),
        ("# coding: nowhere\n", "no Python that can be read"),
        ("# coding: rot13\n", "no Python that can be read"),
        ("(" * 3000, "no Python that can be read"),
    ],
)
def test_broken_files_say_where(tmp_path: Path, code: str, message: str) -> None:
    """A file that is no Python is refused with its line."""
    with pytest.raises(ImportFailed, match=message):
        gather(tmp_path / "shop.py", code)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the working folder, which may not be imported."""
    folder = tmp_path / "loomshop" / "parts"
    folder.mkdir(parents=True)
    (tmp_path / "loomshop" / "__init__.py").write_text("raise SystemExit('never run')\n")
    (folder / "__init__.py").write_text("def weave(): ...\n")
    (folder / "dyes.py").write_text("def dye(colour: str): ...\n")
    (folder / "fast.so").write_bytes(b"\x7fELF")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_modules_are_found_without_importing_them(package: Path) -> None:
    """A dotted name leads to its file; neither it nor its package is imported."""
    ledger = ImportLog("loomshop.parts.dyes")
    (api,) = python.read(Path("loomshop.parts.dyes"), ledger)
    assert (api.tool, api.name) == ("loomshop parts dyes", "loomshop.parts.dyes.dye")
    assert api.source.reference == "loomshop.parts.dyes"
    (weave,) = python.read(Path("loomshop.parts"), ledger)
    assert weave.source.operation == "weave"
    assert "loomshop" not in sys.modules


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sys", "built into Python"),
        ("loomshop.parts.fast", "compiled"),
        ("loomshop.parts.none", "no Python source"),
        ("loomshop_none", "no module loomshop_none"),
        ("loomshop..parts", "neither a file nor"),
    ],
)
def test_modules_without_a_source_are_refused(package: Path, name: str, message: str) -> None:
    """Built-in, compiled and missing modules are told apart."""
    with pytest.raises(ImportFailed, match=message):
        list(python.read(Path(name), ImportLog(name)))


def test_modules_of_python_itself(package: Path) -> None:
    """The standard library has sources, also of what is frozen into the program."""
    found: list[Any] = list(python.read(Path("textwrap"), ImportLog("textwrap")))
    assert {"dedent", "fill"} <= {api.source.operation for api in found}
    assert list(python.read(Path("os"), ImportLog("os")))


def test_a_file_without_functions_says_so(tmp_path: Path) -> None:
    """Nothing read is told, so that it is not taken for a success."""
    (tmp_path / "empty.py").write_text("")
    ledger = ImportLog("empty.py")
    assert list(python.read(tmp_path / "empty.py", ledger)) == []
    assert ledger.report(imported=0).notes == ("empty: no functions are defined in it.",)
