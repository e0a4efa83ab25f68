"""Lists of public APIs, as the public-apis project keeps one: Markdown tables, or JSON entries.

What they hold are no APIs of the pool but examples of real services for the API agent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.files import UNREAD, rows
from toolloom.pipeline.formats.import_log import ImportLog, shortened
from toolloom.pipeline.formats.intake import LONGEST_TEXT, UNSORTED, line, text
from toolloom.schemas import ImportFailed
from toolloom.schemas.api import PublicApi

_LARGEST = 20_000_000
_HEADING = re.compile(r"#{2,4}\s+(.{1,200}?)\s*#*\s*")
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\((?:[^()]|\([^()]{0,200}\)){0,1000}\)")
_CELLS = re.compile(r"(?<!\\)\|")


def fits(document: Any) -> bool:
    """Whether a JSON document holds entries with `API` and `Description`."""
    entries = document.get("entries") if isinstance(document, dict) else document
    return isinstance(entries, list) and any(
        isinstance(entry, dict) and "API" in entry and "Description" in entry
        for entry in entries[:20]
    )


def fits_text(content: str) -> bool:
    """Whether a Markdown text holds a table with the columns `API` and `Description`."""
    return any(_columns(one) for one in content.splitlines())


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[PublicApi]:
    """The public APIs of a list. `document`: its JSON content, if it was loaded before."""
    ledger.format = "public-apis"
    marked = source.suffix.lower() in {".md", ".markdown", ".txt"}
    found = _table(source, ledger) if marked else _entries(source, ledger, document)
    seen: dict[tuple[str, str], list[str]] = {}
    for place, named, filed, does in found:
        ledger.read += 1
        key = (category or line(filed) or UNSORTED, line(named))
        about = text(does).strip()
        known = seen.setdefault(key, [])
        if not key[1]:
            ledger.skip(place, "It has no name.")
        elif about in known:
            ledger.skip(f"{place}: {key[1]}", "Seen before in this category.")
        else:
            known.append(about)
            name = key[1] if len(known) == 1 else f"{key[1]} ({len(known)})"
            if len(about) > LONGEST_TEXT:
                ledger.cut("/".join(key), "does", "text", len(about) - LONGEST_TEXT)
            yield PublicApi(name=name, category=key[0], does=shortened(about, LONGEST_TEXT))


def _entries(source: Path, ledger: ImportLog, document: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    for place, row in rows(source, ledger, document):
        inner = row.get("entries", [row]) if isinstance(row, dict) else row
        for number, entry in enumerate(inner if isinstance(inner, list) else [inner], 1):
            entry = entry if isinstance(entry, dict) else {}
            where = f"{place}, entry {number}"
            yield where, entry.get("API"), entry.get("Category"), entry.get("Description")


def _table(source: Path, ledger: ImportLog) -> Iterator[tuple[str, str, str, str]]:
    """The rows of all tables with the two columns, each under the heading before it."""
    filed, columns = "", None
    for number, one in enumerate(content(source).splitlines(), 1):
        ledger.bytes += len(one) + 1
        if heading := _HEADING.fullmatch(one.strip()):
            filed, columns = _bare(heading[1]), None
        elif "|" not in one:
            columns = None
        elif columns is None:
            columns = _columns(one)
        elif not re.fullmatch(r"[\s|:-]*", one):
            cells = [*_cells(one), *[""] * (max(columns) + 1)]
            yield f"{source.name}:{number}", cells[columns[0]], filed, cells[columns[1]]


def content(source: Path) -> str:
    """The text of a Markdown file. Raises ImportFailed."""
    try:
        if source.stat().st_size > _LARGEST:
            raise ImportFailed(f"{source.name} is larger than {_LARGEST:,} bytes. Split it.")
        return source.read_text("utf-8", "replace")
    except OSError as error:
        raise ImportFailed(f"{source.name} cannot be read: {error.strerror}.") from error


def _columns(one: str) -> tuple[int, int] | None:
    """Where a table's head has the columns `API` and `Description`."""
    if "|" not in one or len(one) > 1000:
        return None
    heads = [cell.lower() for cell in _cells(one)]
    if "api" in heads and "description" in heads:
        return heads.index("api"), heads.index("description")
    return None


def _cells(one: str) -> list[str]:
    """The cells of a row, with or without a mark at its beginning."""
    return [_bare(cell) for cell in _CELLS.split(one.strip().removeprefix("|"))]


def _bare(cell: str) -> str:
    """Text without the marks of Markdown."""
    plain = _LINK.sub(r"\1", cell[:4000]).replace("\\|", "|")
    return re.sub(r"[`*]|<br\s*/?>", "", plain).strip()
