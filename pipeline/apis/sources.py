"""The sources of a recipe, read for a run or into a pool.

Into a pool each source is added as a whole or reported as failed.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.apis.execution.commands import ExecutionSource, function_files, server_name
from toolloom.pipeline.apis.pool import PoolFolder, find_pool, holds_pool
from toolloom.pipeline.formats import detect
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.render.section import Section, first_lines, short
from toolloom.schemas import (
    Api,
    ApiSource,
    ImportFailed,
    ImportReport,
    JsonObject,
    NothingFound,
    StoreError,
)

NOT_WANTED = "The recipe leaves it out."
COLUMNS = ("source", "format", "version", "read", "imported", "replaced")
LOSSES = ("renamed", "cut", "unresolved", "skipped", "notes")
ALWAYS = ("source", "format", "read", "imported", "seconds")
Watch: TypeAlias = Callable[[str, int], None]  # source, APIs read of it so far


def server(given: str, environment: Iterable[str] = ()) -> ApiSource:
    """An MCP server as a user types it: `[NAME=]COMMAND` or `[NAME=]URL`. Raises ImportFailed."""
    named = re.fullmatch(r"(?:([A-Za-z0-9][\w.-]{0,63})=)?(.*)", given, re.DOTALL)
    assert named  # every part may be empty
    if not named[2].strip():
        raise ImportFailed("The command of the MCP server is empty.")
    return ApiSource(mcp=named[2], name=named[1] or "", environment=tuple(environment))


def shown(source: ApiSource) -> str:
    """What reports call a source: of a server its name, as a command may hold secrets."""
    return source.path or server_name(source.mcp, source.name)


@dataclass(frozen=True)
class Failed:
    """A source of which nothing was imported."""

    source: str
    error: str


Outcome: TypeAlias = ImportReport | Failed


def import_into(
    pool: PoolFolder,
    sources: Sequence[ApiSource],
    outputs: Path,
    watch: Watch = lambda source, number: None,
) -> list[Outcome]:
    """Import one source after another; one that fails keeps none of the others back."""
    outcomes: list[Outcome] = []
    for source in sources:
        ledger = ImportLog(shown(source))
        watch(ledger.source, 0)
        try:
            items = _watched(read_source(source, ledger, outputs), ledger, watch)
            outcomes.append(pool.add(items, ledger))
        except ImportFailed as error:
            outcomes.append(Failed(ledger.source, str(error)))
        except OSError as error:  # of the source: those of the pool are StoreErrors
            why = f"It cannot be read ({error.strerror or error})."
            outcomes.append(Failed(ledger.source, why))
    return outcomes


def _watched(items: Iterable[Api], ledger: ImportLog, watch: Watch) -> Iterator[Api]:
    for number, item in enumerate(items, 1):
        watch(ledger.source, number)
        yield item
    if not ledger.bytes and (path := Path(ledger.source)).is_file():
        ledger.bytes = path.stat().st_size


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
        else:
            extra = (source.collection,) if source.collection else ()
            # The recipe's values are examples; an optional parameter it has none for goes.
            needed = item.parameters.get("required", ())
            properties = dict(item.parameters.get("properties", {}))
            for name in source.values.keys() & properties.keys():
                if source.values[name]:
                    properties[name] = {**properties[name], "examples": list(source.values[name])}
                elif name not in needed:
                    del properties[name]
            yield item.model_copy(
                update={
                    "parameters": {**item.parameters, "properties": properties},
                    "collections": tuple(dict.fromkeys((*item.collections, *extra))),
                    "repeatable": item.repeatable and not named(item) & set(source.not_repeatable),
                }
            )
    for field in ("only", "without", "execute", "not_repeatable"):
        _known(field, getattr(source, field), functions)
    for field in ("values", "wrong_values"):
        _known(field, getattr(source, field), parameters)


def _known(field: str, given: Iterable[str], names: set[str]) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, sorted(names), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ImportFailed(f"`{field}` names {name}, which is not there.{hint}")


def _described(source: ApiSource, ledger: ImportLog, outputs: Path) -> Iterator[Api]:
    pool = source.format == "pool" or (source.format == "auto" and _is_pool(source.path, outputs))
    if pool and not source.mcp:
        yield from read_pool(source.path, ledger, outputs, category=source.category)
    elif source.mcp or (files := function_files(source)):
        # Half a second to load.
        from toolloom.pipeline.apis.execution.mcp import read_tools

        for file in [None] if source.mcp else files:
            reading = read_tools(ExecutionSource(source, file), ledger, category=source.category)
            with ThreadPoolExecutor(1) as thread:  # this one may have a loop that runs
                yield from thread.submit(asyncio.run, reading).result()
    else:
        path = Path(source.path)
        yield from detect.read(path, source.format, ledger, category=source.category)


def _is_pool(path: str, outputs: Path) -> bool:
    """A folder that holds a pool; or a pool's name, if there is no file of that name."""
    try:
        if Path(path).exists():
            return holds_pool(Path(path))
        return bool(find_pool(outputs, path))
    except (OSError, ValueError, NothingFound):
        return False


def read_pool(name: str, ledger: ImportLog, outputs: Path, *, category: str = "") -> Iterator[Api]:
    """The APIs of another pool. They keep their sources. Raises ImportFailed."""
    ledger.format = "pool"
    try:
        pool = find_pool(outputs, name)
        for api in pool.apis():
            ledger.read += 1
            changes = {"category": category} if category else {}
            moved = api.model_copy(update=changes)
            function = ledger.function(moved.function, moved.id)
            yield moved.model_copy(update={"function": function})
    except (NothingFound, StoreError) as error:
        raise ImportFailed(str(error)) from error


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


def as_json(pool: str, outcomes: Iterable[Outcome]) -> JsonObject:
    """All of an import, as `--report` writes it."""
    came = list(outcomes)
    imports = [o.model_dump(mode="json") for o in came if not isinstance(o, Failed)]
    failed = [{"source": o.source, "error": o.error} for o in came if isinstance(o, Failed)]
    return {"pool": pool, "imports": imports, "failed": failed}


POOLS = Path("outputs")  # where a pool that is named without its path is looked for


def described(sources: Iterable[ApiSource]) -> tuple[list[str], list[str]]:
    """What is in each source, a line for each, and what is wrong with those that cannot be read.

    No server is started but our own, of Python functions.
    """
    lines: list[str] = []
    faults: list[str] = []
    for source in sources:
        if source.mcp:
            lines.append(f"{shown(source)}: the server's tools are listed when a run begins.")
            continue
        try:
            lines.append(f"{shown(source)}: {len(imported(source)[0]):,} APIs.")
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


def mended_by(report: ImportReport) -> dict[str, tuple[str, ...]]:
    """What an import changed in each API, by its id."""
    lines: dict[str, tuple[str, ...]] = {}
    for cut in report.cut:
        lines[cut.api] = (*lines.get(cut.api, ()), f"{cut.place} was cut ({cut.why})")
    for renamed in report.renamed:
        lines[renamed.api] = (*lines.get(renamed.api, ()), f"renamed from {renamed.old!r}")
    return lines
