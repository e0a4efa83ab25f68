"""The records of a file: one JSON or YAML document, or one JSON value a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from toolloom.pipeline.formats.importers.documents import load
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas.errors import ImportFailed

LONGEST_LINE = 16 * 1024 * 1024
UNREAD: Final = object()  # stands for a document nobody has loaded yet


def rows(path: Path, ledger: ImportLog, document: Any = UNREAD) -> Iterator[tuple[str, Any]]:
    """(place, value) of each record. A line that cannot be read is booked as skipped.

    `document`: what the file holds, if it was loaded before. Raises ImportFailed.
    """
    if document is not UNREAD:
        yield path.name, document
    elif in_lines(path):
        yield from _lines(path, ledger)
    else:
        yield path.name, load(path, ledger)


def in_lines(path: Path) -> bool:
    """Whether it is named so, or its first line is a whole JSON object or list and one follows."""
    if path.suffix.lower() in {".jsonl", ".ndjson"}:
        return True
    try:
        with path.open("rb") as file:
            first = file.readline(LONGEST_LINE).strip()
            while not first and file.peek(1):
                first = file.readline(LONGEST_LINE).strip()
            if not first.startswith((b"{", b"[")) or not file.readline(LONGEST_LINE).strip():
                return False
        json.loads(first)
    except (OSError, ValueError, RecursionError):
        return False
    return True


def _lines(path: Path, ledger: ImportLog) -> Iterator[tuple[str, Any]]:
    try:
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(LONGEST_LINE):
                number += 1
                ledger.bytes += len(raw)
                place = f"{path.name}:{number}"
                if len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                    _book(place, f"The line has more than {LONGEST_LINE:,} bytes.", ledger)
                    while raw and not raw.endswith(b"\n"):
                        raw = file.readline(LONGEST_LINE)
                elif raw.strip():
                    yield from _line(raw, place, ledger)
    except OSError as error:
        raise ImportFailed(
            f"{path.name} cannot be read: {error.strerror}. Check the path and its rights."
        ) from error


def _line(raw: bytes, place: str, ledger: ImportLog) -> Iterator[tuple[str, Any]]:
    try:
        yield place, json.loads(raw, parse_constant=str)
    except (ValueError, RecursionError):
        _book(place, "The line is no JSON.", ledger)


def _book(place: str, why: str, ledger: ImportLog) -> None:
    ledger.read += 1
    ledger.skip(place, why)
