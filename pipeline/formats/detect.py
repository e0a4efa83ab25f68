"""Tells what a file holds, and reads it, or each file of a folder, with the reader of that form.

Python is not among them: describing functions runs their file, which `apis` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from toolloom.pipeline.formats import api_bank, openapi, toolbench, tools
from toolloom.pipeline.formats.import_log import ImportLog, reference
from toolloom.pipeline.formats.rows import UNREAD, in_lines, load, read_text, rows
from toolloom.schemas import Api, ImportFailed

READERS: dict[str, ModuleType] = {  # the one that fits most stands last
    "openapi": openapi,
    "toolbench": toolbench,
    "api-bank": api_bank,
    "openai": tools,
}
KNOWN = (
    "Known are OpenAPI and Swagger documents (JSON or YAML), function tools (JSON), ToolBench's "
    "queries and tools, API-Bank's descriptions, dialogues and scenes, and Python files."
)
_DATA = {".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".txt"}
_MOST_FILES = 20_000


def read(source: Path, wanted: str, ledger: ImportLog, *, category: str = "") -> Iterator[Api]:
    """The APIs of a file or a folder. `wanted`: a format, or `auto`. Raises ImportFailed."""
    if source.is_dir():
        yield from _folder(source, wanted, ledger, category)
        return
    if not source.is_file():  # a pipe or a device may never end
        what = "is neither a file nor a folder" if source.exists() else "does not exist"
        raise ImportFailed(
            f"{source} {what} (looked for in {Path.cwd()}). Name a file, a folder, a pool or a "
            "Python module."
        )
    name, document = _form(source, ledger)
    if wanted not in ("auto", name):
        raise ImportFailed(
            f"{source} is not of the format {wanted}: it looks like {name}. Leave the format out."
        )
    yield from READERS[name].read(source, ledger, category=category, document=document)


def _form(path: Path, ledger: ImportLog) -> tuple[str, Any]:
    """The format of a file by what it holds, and its document, if telling it read it all."""
    document: Any = UNREAD
    if path.suffix.lower() == ".txt":
        if api_bank.fits_text(read_text(path)):
            return "api-bank", UNREAD
        seen = None
    elif in_lines(path):
        first = (row for number, (_, row) in enumerate(rows(path, ImportLog(""))) if number < 20)
        seen = next((row for row in first if row), None)
    else:
        seen = document = load(path, ledger)
    for name, reader in READERS.items():
        if reader.fits(seen):
            return name, document
    raise ImportFailed(f"{path} holds no APIs that can be read: it is {_sight(seen)}. {KNOWN}")


def _sight(seen: Any) -> str:
    if isinstance(seen, dict):
        return f"an object with the keys {', '.join(map(str, list(seen)[:8]))[:200] or '(none)'}"
    if isinstance(seen, list):
        return f"a list of {len(seen)}"
    return "a text" if isinstance(seen, str) else f"a {type(seen).__name__}" if seen else "empty"


def _folder(folder: Path, wanted: str, ledger: ImportLog, category: str) -> Iterator[Api]:
    """Each file by its own format; API-Bank's files together, as they tell of the same APIs."""
    used: set[str] = set()
    versions: set[str] = set()
    bank = api_bank.Bank()
    for path in _files(folder, ledger):
        named, ledger.version = path.relative_to(folder).as_posix(), ""
        try:
            name, document = _form(path, ledger)
            if wanted not in ("auto", name):
                ledger.refuse(named, f"It is of the format {name}.")
                continue
            used.add(name)
            if name == "api-bank":
                bank.take(path, ledger, document)
            else:
                yield from READERS[name].read(path, ledger, category=category, document=document)
                versions |= {ledger.version} - {""}
        except ImportFailed as error:
            ledger.refuse(named, str(error))
    if not used:
        first = "".join(f" {s.what}: {s.why}" for s in ledger.report(imported=0).skipped[:3])
        raise ImportFailed(f"No file in {folder} holds APIs.{first} {KNOWN}")
    yield from bank.apis(ledger, reference(folder), category)
    ledger.format, ledger.version = ", ".join(sorted(used)), ", ".join(sorted(versions))


def _files(folder: Path, ledger: ImportLog) -> list[Path]:
    """The files in it that may hold APIs, of any depth; the others are booked as skipped."""
    root, found = folder.resolve(), list[Path]()
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(names) if not name.startswith(".")):
            named = path.relative_to(folder).as_posix()
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                ledger.refuse(named, "It is a link out of the folder.")
            elif path.suffix.lower() == ".py":
                why = "Describing Python functions runs their file: ask for the format python."
                ledger.refuse(named, why)
            elif path.is_file() and path.suffix.lower() in _DATA:
                found.append(path)
        if len(found) > _MOST_FILES:
            raise ImportFailed(f"{folder} holds more than {_MOST_FILES:,} files. Name a part.")
    return sorted(found)
