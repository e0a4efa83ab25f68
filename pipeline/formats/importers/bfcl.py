"""BFCL's function documents, and the questions that carry them in `function`.

A dotted name is split: what stands before its last dot is the tool. The types `dict`, `float`,
`tuple` and `any` are put right with all other foreign schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.importers.intake import (
    UNSORTED,
    ApiBuilder,
    Seen,
    line,
    reference,
    words,
)
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.pipeline.formats.importers.rows import UNREAD, rows
from toolloom.schemas import Api


def fits(document: Any) -> bool:
    """Whether a row, or a list of rows, is a function document or a question with some."""
    if isinstance(document, list):
        return any(fits(row) for row in document[:20] if isinstance(row, dict))
    if not isinstance(document, dict):
        return False
    return _is_question(document) or _is_function(document)


def _is_question(row: dict[str, Any]) -> bool:
    return "question" in row and isinstance(row.get("function"), list | dict)


def _is_function(row: dict[str, Any]) -> bool:
    parameters = row.get("parameters")
    typed = isinstance(parameters, dict) and parameters.get("type") == "dict"
    return typed and isinstance(row.get("name"), str)


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    document: Any = UNREAD,
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The APIs of a file. `document`: its content, if it was loaded before."""
    ledger.format = "bfcl"
    intake = ApiBuilder(ledger, "bfcl", reference(source), seen)
    for place, row in rows(source, ledger, document):
        for entry in row if isinstance(row, list) else [row]:
            yield from _row(entry, place, intake, words(source.stem), category)
    intake.close()


def _row(row: Any, place: str, intake: ApiBuilder, tool: str, category: str) -> Iterator[Api]:
    if not isinstance(row, dict):
        return intake.refuse(place, "It is neither a function nor a question.")
    if "function" not in row and "parameters" not in row:
        return intake.refuse(_label(row, place), "It carries no functions.")
    inner = row.get("function", row)
    functions = inner if isinstance(inner, list) else [inner]
    if not functions:
        return intake.refuse(_label(row, place), "Its list of functions is empty.")
    for function in functions:
        yield from _api(function, _label(row, place), intake, tool, category)
    return None


def _label(row: dict[str, Any], place: str) -> str:
    return f"{place} {line(row.get('id'))}".strip()


def _api(function: Any, place: str, intake: ApiBuilder, tool: str, category: str) -> Iterator[Api]:
    if not isinstance(function, dict):
        return intake.refuse(place, "Its function is no object.")
    called = line(function.get("name"))
    before, _, last = called.rpartition(".")
    yield from intake.api(
        category=category or UNSORTED,
        tool=before or tool,
        name=last or called,
        description=function.get("description"),
        parameters=function.get("parameters"),
        returns=function.get("response"),
        wanted=called,
        operation=called,
    )
    return None
