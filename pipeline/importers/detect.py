"""Tells what kind of source something is, and reads it with the importer for that kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from toolloom.pipeline.importers import (
    api_bank,
    bfcl,
    openai_tools,
    openapi,
    public_apis,
    python,
    toolbench,
)
from toolloom.pipeline.importers.documents import LARGEST, load
from toolloom.pipeline.importers.intake import Seen, reference
from toolloom.pipeline.importers.ledger import Ledger
from toolloom.pipeline.importers.rows import UNREAD, in_lines, rows
from toolloom.schemas import Api, ImportFailed
from toolloom.schemas.catalogue import PublicApi

Name: TypeAlias = Literal[
    "openapi", "openai", "bfcl", "toolbench", "api-bank", "public-apis", "python", "folder"
]
NAMES: tuple[Name, ...] = get_args(Name)
_TOLD: dict[Name, str] = {
    "openapi": "an OpenAPI or Swagger description (JSON or YAML)",
    "openai": "function tools (JSON)",
    "bfcl": "BFCL function documents or questions (JSON lines)",
    "toolbench": "ToolBench queries or tools (JSON)",
    "api-bank": "API-Bank descriptions, dialogues or scenes",
    "public-apis": "a list of public APIs (Markdown or JSON)",
    "python": "a Python file or the name of a module",
    "folder": "a folder of any of these",
}
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_OPENAPI = re.compile(rb"""(?:^|[{,]\s*|\n)["']?(?:openapi|swagger)["']?\s*:\s*["']?[123]\.\d""")
_REFERENCE = re.compile(rb"""\$ref["']?\s*:\s*["']?([^#"'\s,}][^#"'\n,}]{0,300})""")
_DATA = {".json", ".jsonl", ".ndjson", ".yaml", ".yml"}
_TEXTS = {".md", ".markdown", ".txt"}
_KNOWN = _DATA | _TEXTS | {".py"}
_MOST_FILES = 20_000


@dataclass(frozen=True)
class Format:
    """What a source is."""

    name: Name
    only: Name | None = None  # of a folder: the one format whose files are taken
    document: Any = field(default=UNREAD, repr=False, compare=False)  # if telling it read it all


def detect(source: str) -> Format:
    """The format of a file, a folder or a module. Raises ImportFailed where nothing fits."""
    path = Path(source)
    if path.is_dir():
        return Format("folder")
    if path.exists():
        found = _file(path)
        if isinstance(found, Format):
            return found
        raise ImportFailed(f"{source} holds no APIs that can be read: {found} {_known()}")
    if _DOTTED.fullmatch(source) and path.suffix not in _KNOWN:
        return Format("python")
    raise ImportFailed(f"There is no {source}. Name a file or folder that exists, or a module.")


def asked(source: str, name: str) -> Format:
    """The format a user asked for, if the source can be that. Raises ImportFailed."""
    if name == "auto":
        return detect(source)
    wanted = next((one for one in NAMES if one == name), None)
    if wanted is None:
        raise ImportFailed(f"There is no format {name}. Choose one of: {', '.join(NAMES)}.")
    seen = detect(source)
    if wanted == seen.name:
        return seen
    if seen.name == "folder":
        return Format("folder", only=wanted)
    raise ImportFailed(
        f"{source} is not {_TOLD[wanted]}: it looks like {_TOLD[seen.name]}. "
        f"Leave the format out, or give `{seen.name}`."
    )


def read(
    source: str, form: Format | str, ledger: Ledger, *, category: str = ""
) -> Iterator[Api | PublicApi]:
    """What a source holds. `form`: what it is, or the name a user gives it, such as `auto`."""
    path = Path(source)
    form = asked(source, form) if isinstance(form, str) else form
    if form.document is not UNREAD:
        ledger.bytes += path.stat().st_size
    return _read(path, form, ledger, category)


def _read(
    path: Path, form: Format, ledger: Ledger, category: str, seen: Seen | None = None
) -> Iterator[Api | PublicApi]:
    document = form.document
    match form.name:
        case "openapi":
            return openapi.read(path, ledger, category=category)
        case "python":
            return python.read(path, ledger, category=category, seen=seen)
        case "api-bank":
            return api_bank.read(path, ledger, category=category, document=document)
        case "public-apis":
            return public_apis.read(path, ledger, category=category, document=document)
        case "openai":
            return openai_tools.read(path, ledger, category=category, document=document, seen=seen)
        case "bfcl":
            return bfcl.read(path, ledger, category=category, document=document, seen=seen)
        case "toolbench":
            return toolbench.read(path, ledger, category=category, document=document, seen=seen)
        case "folder":
            return _mixed(path, ledger, category, form.only)


def _file(path: Path) -> Format | str:
    """The format of one file, by its ending and then by what it holds; else what it is."""
    ending = path.suffix.lower()
    if ending == ".py":
        return Format("python")
    if ending in _TEXTS:
        return _text(path)
    if in_lines(path):
        return _fitting(_first_row(path), UNREAD)
    if _says_openapi(path):
        return Format("openapi")
    document = load(path)
    return _fitting(document, document)


def _says_openapi(path: Path) -> bool:
    """Whether the file has a key `openapi` or `swagger` with a version, told without parsing it,
    so that large descriptions are parsed once only, by their importer."""
    try:
        with path.open("rb") as file:
            return bool(_OPENAPI.search(file.read(LARGEST)))
    except OSError:
        return False


def _text(path: Path) -> Format | str:
    content = public_apis.content(path)
    if api_bank.fits_text(content):
        return Format("api-bank")
    if public_apis.fits_text(content):
        return Format("public-apis")
    return "It is a text without a table of APIs or calls of a scene."


def _first_row(path: Path) -> Any:
    for number, (_, row) in enumerate(rows(path, Ledger(path.name))):
        if row or number > 20:
            return row
    return None


def _fitting(seen: Any, document: Any) -> Format | str:
    """The first format that a document, or the first of several rows, fits."""
    if openapi.is_openapi(seen):
        return Format("openapi")
    for name, fits in _FITS:
        if fits(seen):
            return Format(name, document=document)
    return f"It is {_sight(seen)}."


_FITS: tuple[tuple[Name, Callable[[Any], bool]], ...] = (
    ("toolbench", toolbench.fits),
    ("bfcl", bfcl.fits),
    ("api-bank", api_bank.fits),
    ("public-apis", public_apis.fits),
    ("openai", openai_tools.fits),  # the widest, so the last
)


def _sight(seen: Any) -> str:
    if isinstance(seen, dict):
        return f"an object with the keys {', '.join(map(str, list(seen)[:8]))[:200] or '(none)'}"
    if isinstance(seen, list):
        return f"a list of {len(seen)}, of which the first is " + (
            _sight(seen[0]) if seen and not isinstance(seen[0], list) else "nothing known"
        )
    return "empty" if seen is None else f"a {type(seen).__name__}"


def _known() -> str:
    return "Known are " + "; ".join(f"{name}: {what}" for name, what in _TOLD.items()) + "."


def _files(folder: Path) -> list[Path]:
    """The files in it that may hold APIs, of any depth; none through links out of it."""
    root = folder.resolve()
    found: list[Path] = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.suffix.lower() not in _KNOWN or not path.is_file():
            continue
        if path.resolve().is_relative_to(root):
            found.append(path)
        if len(found) > _MOST_FILES:
            raise ImportFailed(f"{folder} holds more than {_MOST_FILES:,} files. Name a part.")
    return found


def _mixed(
    folder: Path, ledger: Ledger, category: str, only: Name | None
) -> Iterator[Api | PublicApi]:
    """Each file by its own format; API-Bank's files together, as they tell of the same APIs."""
    files = _files(folder)
    parts = _parts(files)
    used: set[str] = set()
    versions: set[str] = set()
    seen: Seen = {}
    bank = api_bank.Bank()
    for path in files:
        named = path.relative_to(folder)
        try:
            form = _file(path)
            if isinstance(form, str) or (only and form.name != only):
                if path.resolve() not in parts:
                    why = form if isinstance(form, str) else f"It is {_TOLD[form.name]}."
                    _skip(ledger, named, why)
                continue
            used.add(form.name)
            if form.document is not UNREAD:
                ledger.bytes += path.stat().st_size
            if form.name == "api-bank":
                bank.take(path, ledger, form.document)
            elif form.name == "python":
                module = _dotted(named)
                yield from python.read(path, ledger, category=category, named=module, seen=seen)
            else:
                ledger.version = ""
                yield from _read(path, form, ledger, category, seen)
                versions |= {ledger.version} - {""}
        except ImportFailed as error:
            _skip(ledger, named, str(error))
    if not used:
        raise ImportFailed(f"None of the {len(files)} files in {folder} holds APIs. {_known()}")
    yield from bank.apis(ledger, reference(folder), category)
    ledger.format = ", ".join(sorted(used))
    ledger.version = ", ".join(sorted(versions))


def _skip(ledger: Ledger, named: Path, why: str) -> None:
    ledger.read += 1
    ledger.skip(named.as_posix(), why)


def _dotted(path: Path) -> str:
    """`tools/weather.py` as `tools.weather`, so that modules of one name are told apart."""
    parts = [*path.parent.parts, *([] if path.stem == "__init__" else [path.stem])]
    return ".".join(parts) or path.stem


def _none(folder: Path, files: list[Path]) -> str:
    known = "; ".join(f"{name}: {what}" for name, what in _TOLD.items())
    return f"None of the {len(files)} files in {folder} holds APIs. Known are {known}."


def _parts(files: Iterable[Path]) -> set[Path]:
    """Files that others refer to with `$ref`: no sources of their own."""
    found: set[Path] = set()
    for path in files:
        if path.suffix.lower() not in {".json", ".yaml", ".yml"}:
            continue
        try:
            content = path.read_bytes()[:LARGEST]
        except OSError:
            continue
        for match in _REFERENCE.finditer(content):
            named = match[1].decode("utf-8", "replace").strip()
            if ":" not in named and "\0" not in named:
                found.add((path.parent / named).resolve())
    return found
