from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("agents", "cli", "llm", "pipeline", "prompts", "schemas")
KINDS = {".py", ".j2", ".css", ".js", ".ipynb", ".yaml", ".txt", ".typed"}


def source() -> set[str]:
    """The package's files as they stand in the repository."""
    files = [p for room in ROOMS for p in (ROOT / room).rglob("*") if p.suffix in KINDS]
    files += (ROOT / "recipes" / "worlds").glob("*.yaml")
    files += [ROOT / name for name in ("__init__.py", "flows.py", "py.typed")]
    return {f"toolloom/{p.relative_to(ROOT).as_posix()}" for p in files}


@pytest.mark.slow  # building takes most of a minute
def test_the_wheel_holds_the_package_and_nothing_else(tmp_path: Path) -> None:
    """Code, templates, the catalogue, worlds, the type marker and the licence; no tests, no benchmarks.
    It is built from a copy, so that nothing is left in the repository."""
    skipped = shutil.ignore_patterns(".*", "build", "outputs", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, tmp_path / "copy", ignore=skipped)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, tmp_path / "copy"]
    subprocess.run([*command, *options], check=True)
    (path,) = tmp_path.glob("*.whl")
    wheel = zipfile.ZipFile(path).namelist()
    shipped = {name for name in wheel if ".dist-info/" not in name}
    assert shipped == source() >= {"toolloom/py.typed", "toolloom/prompts/query.j2"}
    assert any(name.endswith("LICENSE") for name in wheel)


def test_every_folder_of_modules_ships() -> None:
    """A package that pyproject.toml does not name is missing where toolloom is installed, and any
    other module at the root would ship."""
    assert {p.name for p in ROOT.glob("*.py")} == {"__init__.py", "flows.py"}
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    there = {p.parent for room in ROOMS for p in (ROOT / room).rglob("*.py")}
    folders = {".".join(("toolloom", *p.relative_to(ROOT).parts)) for p in there}
    assert folders | {"toolloom"} == set(named["tool"]["setuptools"]["packages"])
