"""The sources of a recipe, as a run takes them: APIs, and examples for the API agent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from toolloom.pipeline.apis.pool.importing import Item, read_source, shown
from toolloom.pipeline.formats.importers import detect
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import (
    Api,
    ApiSource,
    Format,
    ImportFailed,
    ImportReport,
)
from toolloom.schemas.api import PublicApi

ApiList: TypeAlias = tuple[str, Format]
POOLS = Path("outputs")  # where a pool that is named without its path is looked for


def described(source: ApiSource) -> str:
    """What is in a source that can be read without starting anything. Raises ImportFailed."""
    if source.mcp:
        return f"{shown(source)}: the server's tools are listed when a run begins."
    found, _ = imported(source)
    apis = sum(isinstance(item, Api) for item in found)
    return f"{shown(source)}: {apis:,} APIs" + (
        f" and {len(found) - apis:,} examples." if len(found) > apis else "."
    )


def imported(source: ApiSource) -> tuple[list[Item], ImportReport]:
    """What a source describes, with the report. Raises ImportFailed that names the source."""
    try:
        return _import(source)
    except ImportFailed as error:
        raise ImportFailed(f"apis.sources: {shown(source)}: {error}") from error


def _import(source: ApiSource) -> tuple[list[Item], ImportReport]:
    ledger = ImportLog(shown(source))
    found = list(read_source(source, ledger, POOLS))
    return found, ledger.report(imported=sum(isinstance(item, Api) for item in found))


def mended_by(report: ImportReport) -> dict[str, tuple[str, ...]]:
    """What an import changed in each API, by its id."""
    lines: dict[str, tuple[str, ...]] = {}
    for cut in report.cut:
        lines[cut.api] = (*lines.get(cut.api, ()), f"{cut.place} was cut ({cut.why})")
    for renamed in report.renamed:
        lines[renamed.api] = (*lines.get(renamed.api, ()), f"renamed from {renamed.old!r}")
    return lines


def lists_among(sources: Iterable[ApiSource]) -> tuple[ApiList, ...]:
    """The sources that may hold public APIs: pools with examples, and what lists are kept in."""
    return tuple(
        (source.path, source.format)
        for source in sources
        if source.format in ("auto", "public-apis", "pool") and _may_list(source.path)
    )


def listed(lists: Iterable[ApiList]) -> Iterator[PublicApi]:
    """The public APIs of lists and pools: they ground the API agent. Raises ImportFailed."""
    for path, form in lists:
        items = read_source(ApiSource(path=path, format=form), ImportLog(path), POOLS)
        yield from (item for item in items if isinstance(item, PublicApi))


def _may_list(path: str) -> bool:
    """Told from the beginning of a file: a large specification is not read for its examples."""
    where = Path(path)
    if not where.is_file():
        return (where / "examples.jsonl").is_file()
    return detect.detect(path).name == "public-apis"
