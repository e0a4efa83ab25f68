"""The sources of a recipe, told apart by what they hold, and read for a run or into a pool.

Into a pool each source is added as a whole or reported as failed. A file or each file of a folder
is read with the reader of its form; Python only where that is asked for or named, as describing
functions runs their file.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from toolloom.pipeline.apis.pool import PoolFolder, find_pool, holds_pool
from toolloom.pipeline.environments.commands import ExecutionSource, function_files
from toolloom.pipeline.formats import api_bank, chat, openapi, toolbench
from toolloom.pipeline.formats.import_log import ImportLog, reference
from toolloom.pipeline.formats.rows import LARGEST, UNREAD, in_lines, load, rows
from toolloom.pipeline.render.section import Section, counted, first_lines, short
from toolloom.pipeline.store.documents import nearest
from toolloom.pipeline.store.files import file_text
from toolloom.schemas import (
    Api,
    ApiSource,
    ImportFailed,
    ImportReport,
    NothingFound,
    StoreError,
    absent,
    grouped,
)

READERS: dict[str, ModuleType] = {  # the one that fits most stands last
    "openapi": openapi,
    "toolbench": toolbench,
    "api-bank": api_bank,
    "openai": chat,
}
KNOWN = (
    "Known are OpenAPI and Swagger documents (JSON or YAML), function tools (JSON), ToolBench's "
    "queries and tools, API-Bank's descriptions, dialogues and scenes, and Python files."
)
POOLS = Path("outputs")  # where a pool that is named without its path is looked for
NOT_WANTED = "The recipe leaves it out."
_DATA = {".json", ".jsonl", ".ndjson", ".yaml", ".yml", ".txt"}
_MOST_FILES = 20_000


def server(given: str, environment: Iterable[str] = ()) -> ApiSource:
    """An MCP server as a user types it: `[NAME=]COMMAND` or `[NAME=]URL`. Raises ImportFailed."""
    named = re.fullmatch(r"(?:([A-Za-z0-9][\w.-]{0,63})=)?(.*)", given, re.DOTALL)
    assert named  # every part may be empty
    if not named[2].strip():
        raise ImportFailed("The command of the MCP server is empty.")
    return ApiSource(mcp=named[2], name=named[1] or "", environment=tuple(environment))


def shown(source: ApiSource) -> str:
    """What reports call a source: of a server its name, as a command may hold secrets."""
    return source.path or ExecutionSource(source).name


def import_into(
    pool: PoolFolder, sources: Sequence[ApiSource], outputs: Path, watch: Callable[[str, int], None]
) -> tuple[list[ImportReport], list[dict[str, str]]]:
    """Import one source after another; one that fails keeps none of the others back, and is told
    with its error. `watch` hears of each source how many APIs were read so far."""

    def watched(items: Iterable[Api]) -> Iterator[Api]:
        for number, item in enumerate(items, 1):
            watch(ledger.source, number)
            yield item
        if not ledger.bytes and (path := Path(ledger.source)).is_file():
            ledger.bytes = path.stat().st_size

    made, failed = list[ImportReport](), list[dict[str, str]]()
    for source in sources:
        ledger = ImportLog(shown(source))
        watch(ledger.source, 0)
        try:
            made.append(pool.add(watched(read_source(source, ledger, outputs)), ledger))
        except ImportFailed as error:
            failed.append({"source": ledger.source, "error": str(error)})
        except OSError as error:  # of the source: those of the pool are StoreErrors
            why = f"It cannot be read ({error.strerror or error})."
            failed.append({"source": ledger.source, "error": why})
    return made, failed


def named(api: Api) -> set[str]:
    """What a recipe may call an API: its own name, its operation or its function name."""
    return {api.name, api.source.operation, api.function} - {""}


def read_source(source: ApiSource, ledger: ImportLog, outputs: Path) -> Iterator[Api]:
    """What a source describes, whatever it is, as the recipe takes it.

    Raises ImportFailed, also for a name in the recipe that the source does not have: what is
    misspelt in `execute` would be simulated in silence.
    """
    functions: set[str] = set()
    parameters: set[str] = set()
    for item in _described(source, ledger, outputs):
        functions |= named(item)
        parameters |= set(item.properties)
        unwanted = source.only and not named(item) & set(source.only)
        if unwanted or named(item) & set(source.without):
            ledger.skip(item.id, NOT_WANTED)
            continue
        extra = (source.collection,) if source.collection else ()
        # The recipe's values are examples; an optional parameter it has none for goes.
        properties = dict(item.properties)
        for name in source.values.keys() & properties.keys():
            if source.values[name]:
                properties[name] = {**properties[name], "examples": list(source.values[name])}
            elif name not in item.required:
                del properties[name]
        yield item.model_copy(
            update={
                "parameters": {**item.parameters, "properties": properties},
                "collections": tuple(dict.fromkeys((*item.collections, *extra))),
                "repeatable": item.repeatable and not named(item) & set(source.not_repeatable),
            }
        )
    fields = ("only", "without", "execute", "not_repeatable", "values", "wrong_values")
    for number, field in enumerate(fields):
        known = functions if number < 4 else parameters
        for name in getattr(source, field):
            if name not in known:
                hint = nearest(name, known)
                raise ImportFailed(f"`{field}` names {name}, which is not there: {hint}")


def _described(source: ApiSource, ledger: ImportLog, outputs: Path) -> Iterator[Api]:
    path, wanted = Path(source.path), source.format
    if not source.mcp and (wanted == "pool" or (wanted == "auto" and _is_pool(path, outputs))):
        yield from read_pool(source.path, ledger, outputs, category=source.category)
    elif source.mcp or (files := function_files(source)):
        # Half a second to load.
        from toolloom.pipeline.environments.mcp import read_tools

        for file in [None] if source.mcp else files:
            place = ExecutionSource(source, file)
            with ThreadPoolExecutor(1) as thread:  # this one may have a loop that runs
                reading = read_tools(place, ledger, category=source.category)
                yield from thread.submit(asyncio.run, reading).result()
    elif path.is_dir():
        yield from _folder(path, wanted, ledger, source.category)
    elif not path.is_file():  # a pipe or a device may never end
        what = f"{path} is neither a file nor a folder" if path.exists() else absent(path)
        raise ImportFailed(f"{what}. Name a file, a folder, a pool or a Python module.")
    else:
        name, document = _form(path, ledger)
        if wanted not in ("auto", name):
            raise ImportFailed(
                f"{path} is not of the format {wanted}: it looks like {name}. Leave the format out."
            )
        yield from READERS[name].read(path, ledger, category=source.category, document=document)


def _is_pool(path: Path, outputs: Path) -> bool:
    """A folder that holds a pool; or a pool's name, if there is no file of that name."""
    try:
        return holds_pool(path) if path.exists() else bool(find_pool(outputs, str(path)))
    except (OSError, ValueError, NothingFound):
        return False


def read_pool(name: str, ledger: ImportLog, outputs: Path, *, category: str = "") -> Iterator[Api]:
    """The APIs of another pool. They keep their sources. Raises ImportFailed."""
    ledger.format = "pool"
    try:
        for api in find_pool(outputs, name).apis():
            ledger.read += 1
            yield api.model_copy(update={"category": category or api.category})
    except (NothingFound, StoreError) as error:
        raise ImportFailed(str(error)) from error


# Files


def _form(path: Path, ledger: ImportLog) -> tuple[str, Any]:
    """The format of a file by what it holds, and its document, if telling it read it all."""
    seen = document = UNREAD
    if path.suffix.lower() == ".txt":
        if api_bank.fits_text(file_text(path, LARGEST, ImportFailed)):
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
    what = f"a {type(seen).__name__}" if seen else "empty"
    if isinstance(seen, dict) and seen:
        what = f"an object with the keys {', '.join(list(seen)[:8])[:200]}"
    raise ImportFailed(f"{path} holds no APIs that can be read: it is {what}. {KNOWN}")


def _folder(folder: Path, wanted: str, ledger: ImportLog, category: str) -> Iterator[Api]:
    """Each file by its own format; API-Bank's files together, as they tell of the same APIs."""
    used: set[str] = set()
    versions: set[str] = set()
    bank: list[api_bank.Fact] = []
    for path in _files(folder, ledger):
        named, ledger.version = path.relative_to(folder).as_posix(), ""
        try:
            name, document = _form(path, ledger)
            if wanted not in ("auto", name):
                ledger.refuse(named, f"It is of the format {name}.")
                continue
            used.add(name)
            if name == "api-bank":
                bank += api_bank.evidence(path, ledger, document)
            else:
                yield from READERS[name].read(path, ledger, category=category, document=document)
                versions |= {ledger.version} - {""}
        except ImportFailed as error:
            ledger.refuse(named, str(error))
    if not used:
        first = "".join(f" {s.what}: {s.why}" for s in ledger.report(imported=0).skipped[:3])
        raise ImportFailed(f"No file in {folder} holds APIs.{first} {KNOWN}")
    yield from api_bank.put_together(bank, ledger, reference(folder), category)
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


# What came of it

COLUMNS = ("source", "format", "version", "read", "imported", "replaced")
LOSSES = ("renamed", "cut", "unresolved", "skipped", "notes")
ALWAYS = ("source", "format", "read", "imported", "seconds")


def sections(reports: Sequence[ImportReport], where: str) -> list[Section]:
    """A table of imports, then what was lost or changed. `where`: the file with all of it."""
    rows = []
    for report in reports:
        losses = {kind: len(getattr(report, kind)) for kind in LOSSES}
        rows.append({**dict(report), **losses, "seconds": f"{report.seconds:.1f}"})
    # A table of all columns is too wide for most terminals, and most would hold zeros.
    columns = (*COLUMNS, *LOSSES[:4], "seconds")
    head = [name for name in columns if name in ALWAYS or any(row[name] for row in rows)]
    tables = [Section(head=head, rows=[[row[name] for name in head] for row in rows])]
    for kind in LOSSES:
        lines = [_loss(kind, loss) for report in reports for loss in getattr(report, kind)]
        if lines:
            tables.append(Section(f"{kind}:", items=first_lines(lines, f", all in {where}")))
    return tables


def _loss(kind: str, loss: Any) -> str:
    if kind == "renamed":
        return f"{short(loss.api)}: {short(loss.old)} is now {loss.new} ({loss.why})"
    if kind == "cut":
        size = f", {loss.bytes:,} bytes" if loss.bytes else ""
        return f"{short(loss.api)}: {short(loss.place)} ({loss.why}{size})"
    if kind == "unresolved":
        return f"{short(loss.place)}: {short(loss.reference)} ({loss.why})"
    if kind == "skipped":
        return f"{short(loss.what)}: {short(loss.why, 200)}"
    return short(str(loss), 300)


def described(sources: Iterable[ApiSource]) -> tuple[list[str], list[str]]:
    """What is in each source, a line for each, and what is wrong with those that cannot be read.

    No server is started but our own, of Python functions.
    """
    lines: list[str] = []
    faults: list[str] = []
    for source in sources:
        try:
            told = "the server's tools are listed when a run begins"
            if not source.mcp:
                told = counted(len(imported(source)[0]), "API")
            lines.append(f"{shown(source)}: {told}.")
        except ImportFailed as error:
            faults.append(str(error))
    return lines, faults


def imported(source: ApiSource) -> tuple[list[Api], ImportReport]:
    """What a source describes, with the report. Raises ImportFailed that names the source."""
    ledger = ImportLog(shown(source))
    try:
        items = list(read_source(source, ledger, POOLS))
    except ImportFailed as error:
        raise ImportFailed(f"apis.sources: {shown(source)}: {error}") from error
    return items, ledger.report(imported=len(items))


def mended_by(report: ImportReport) -> Mapping[str, Sequence[str]]:
    """What an import changed in each API, by its id."""
    cut = ((each.api, f"{each.place} was cut ({each.why})") for each in report.cut)
    renamed = ((each.api, f"renamed from {each.old!r}") for each in report.renamed)
    return grouped(chain(cut, renamed))
