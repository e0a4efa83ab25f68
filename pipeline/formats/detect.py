"""Tells what kind of source something is, and reads it with the importer for that kind."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from toolloom.pipeline.formats import (
    api_bank,
    openai_tools,
    openapi,
    public_apis,
    python,
    toolbench,
)
from toolloom.pipeline.formats.files import LARGEST, UNREAD, in_lines, load, rows
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import Seen, reference
from toolloom.schemas import Api, ImportFailed
from toolloom.schemas.api import PublicApi

Name: TypeAlias = Literal[
    "openapi", "openai", "toolbench", "api-bank", "public-apis", "python", "folder"
]
NAMES: tuple[Name, ...] = get_args(Name)
_TOLD: dict[Name, str] = {
    "openapi": "an OpenAPI or Swagger description (JSON or YAML)",
    "openai": "function tools (JSON)",
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
class DetectedFormat:
    """What a source is."""

    name: Name
    only: Name | None = None  # of a folder: the one format whose files are taken
    document: Any = field(default=UNREAD, repr=False, compare=False)  # if telling it read it all


def detect(source: str) -> DetectedFormat:
    """The format of a file, a folder or a module. Raises ImportFailed where nothing fits."""
    path = Path(source)
    if path.is_dir():
        return DetectedFormat("folder")
    if path.exists():
        if not path.is_file():  # a pipe or a device may never end
            raise ImportFailed(f"{source} is neither a file nor a folder. Name one.")
        found = _file(path)
        if isinstance(found, DetectedFormat):
            return found
        raise ImportFailed(f"{source} holds no APIs that can be read: {found} {_known()}")
    if _DOTTED.fullmatch(source) and path.suffix not in _KNOWN:
        return DetectedFormat("python")
    raise ImportFailed(f"There is no {source}. Name a file or folder that exists, or a module.")


def asked(source: str, name: str) -> DetectedFormat:
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
        return DetectedFormat("folder", only=wanted)
    raise ImportFailed(
        f"{source} is not {_TOLD[wanted]}: it looks like {_TOLD[seen.name]}. "
        f"Leave the format out, or give `{seen.name}`."
    )


def read(
    source: str, form: DetectedFormat | str, ledger: ImportLog, *, category: str = ""
) -> Iterator[Api | PublicApi]:
    """What a source holds. `form`: what it is, or the name a user gives it, such as `auto`."""
    path = Path(source)
    form = asked(source, form) if isinstance(form, str) else form
    if form.document is not UNREAD:
        ledger.bytes += path.stat().st_size
    return _read(path, form, ledger, category)


def _read(
    path: Path, form: DetectedFormat, ledger: ImportLog, category: str, seen: Seen | None = None
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
        case "toolbench":
            return toolbench.read(path, ledger, category=category, document=document, seen=seen)
        case "folder":
            return _mixed(path, ledger, category, form.only)


def _file(path: Path) -> DetectedFormat | str:
    """The format of one file, by its ending and then by what it holds; else what it is."""
    ending = path.suffix.lower()
    if ending == ".py":
        return DetectedFormat("python")
    if ending in _TEXTS:
        content = public_apis.content(path)
        if api_bank.fits_text(content):
            return DetectedFormat("api-bank")
        if public_apis.fits_text(content):
            return DetectedFormat("public-apis")
        return "It is a text without a table of APIs or calls of a scene."
    if in_lines(path):
        ledger, row = ImportLog(path.name), None
        for number, (_, row) in enumerate(rows(path, ledger)):
            if row or number > 20:
                break
        if row is None and ledger.read:
            return "None of its lines is JSON."
        return _fitting(row, UNREAD)
    if _says_openapi(path):
        return DetectedFormat("openapi")
    document = load(path)
    return _fitting(document, document)


def _says_openapi(path: Path) -> bool:
    """Whether the file has a key `openapi` or `swagger` with a version, told without parsing it,
    so that large descriptions are parsed once only, by their importer."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST)
    except OSError:
        return False
    # A list, of tools for instance, may hold such a key in a value.
    return not content[:200].lstrip().startswith(b"[") and bool(_OPENAPI.search(content))


def _fitting(seen: Any, document: Any) -> DetectedFormat | str:
    """The first format that a document, or the first of several rows, fits."""
    if openapi.is_openapi(seen):
        return DetectedFormat("openapi")
    for name, fits in _FITS:
        if fits(seen):
            return DetectedFormat(name, document=document)
    return f"It is {_sight(seen)}."


_FITS: tuple[tuple[Name, Callable[[Any], bool]], ...] = (
    ("toolbench", toolbench.fits),
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
    if isinstance(seen, str):
        return "a text that is neither JSON nor YAML of objects"
    return "empty" if seen is None else f"a {type(seen).__name__}"


def _known() -> str:
    return "Known are " + "; ".join(f"{name}: {what}" for name, what in _TOLD.items()) + "."


def _files(folder: Path, ledger: ImportLog) -> list[Path]:
    """The files in it that may hold APIs, of any depth. What cannot be reached is booked."""

    def locked(error: OSError) -> None:
        if Path(error.filename) == folder:
            raise ImportFailed(f"{folder} cannot be read: {error.strerror}. Check its rights.")
        named = Path(error.filename).relative_to(folder).as_posix()
        ledger.refuse(named, f"{error.strerror}.")

    root = folder.resolve()
    found: list[Path] = []
    others: Counter[str] = Counter()
    for parent, folders, names in os.walk(folder, onerror=locked):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in (*folders, *names) if name[0] != "."):
            if path.is_symlink() and not _leads_into(root, path):
                named = path.relative_to(folder).as_posix()
                ledger.refuse(named, "It is a link out of the folder.")
            elif path.is_file() and path.suffix.lower() in _KNOWN:
                found.append(path)
            elif not path.is_dir():
                others[path.suffix.lower() or path.name] += 1
        if len(found) > _MOST_FILES:
            raise ImportFailed(f"{folder} holds more than {_MOST_FILES:,} files. Name a part.")
    if others:
        kinds = ", ".join(f"{number:,} {kind}" for kind, number in others.most_common(5))
        more = ", …" if len(others) > 5 else ""
        ledger.note(f"Files that were not looked at, by their endings: {kinds}{more}.")
    return sorted(found)


def _leads_into(root: Path, link: Path) -> bool:
    try:
        return link.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # to nothing, or in a circle
        return False


def _mixed(
    folder: Path, ledger: ImportLog, category: str, only: Name | None
) -> Iterator[Api | PublicApi]:
    """Each file by its own format; API-Bank's files together, as they tell of the same APIs."""
    files = _files(folder, ledger)
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
                    ledger.refuse(named.as_posix(), why)
                continue
            used.add(form.name)
            if form.document is not UNREAD:
                ledger.bytes += path.stat().st_size
            if form.name == "api-bank":
                bank.take(path, ledger, form.document)
            elif form.name == "python":
                module = _dotted(named, folder)
                yield from python.read(path, ledger, category=category, named=module, seen=seen)
            else:
                ledger.version = ""
                yield from _read(path, form, ledger, category, seen)
                versions |= {ledger.version} - {""}
        except ImportFailed as error:
            ledger.refuse(named.as_posix(), str(error))
    if not used:
        report = ledger.report(imported=0)
        first = "".join(f" {one.what}: {one.why}" for one in report.skipped[:3])
        notes = "".join(f" {note}" for note in report.notes)
        raise ImportFailed(f"No file in {folder} holds APIs.{first}{notes} {_known()}")
    yield from bank.apis(ledger, reference(folder), category)
    ledger.format = ", ".join(sorted(used))
    ledger.version = ", ".join(sorted(versions))


def _dotted(path: Path, folder: Path) -> str:
    """`tools/weather.py` as `tools.weather`, so that modules of one name are told apart."""
    parts = [*path.parent.parts, *([] if path.stem == "__init__" else [path.stem])]
    return ".".join(parts) or folder.resolve().name


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
