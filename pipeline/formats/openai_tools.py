"""Function tools as chat requests carry them: OpenAI's `tools`, and their close relatives.

Read are lists, objects with `tools` or `functions`, whole request bodies and JSON lines of any of
these; entries nested under `function` (chat completions), flat ones (Responses, the older
`functions`), and those with `input_schema` (Anthropic) or `inputSchema` (MCP).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.files import UNREAD, rows
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import ApiBuilder, Seen, line, reference, words
from toolloom.schemas import Api

_SCHEMAS = ("parameters", "input_schema", "inputSchema")
_RETURNS = ("returns", "output_schema", "outputSchema")
_LISTS = ("tools", "functions")


def fits(document: Any) -> bool:
    """Whether a document holds tools in one of these forms."""
    return any(_is_tool(entry) for _, entry in _entries(document, ""))


def read(
    source: Path,
    ledger: ImportLog,
    *,
    category: str = "",
    document: Any = UNREAD,
    seen: Seen | None = None,
) -> Iterator[Api]:
    """The APIs of a file. `document`: its content, if it was loaded before."""
    ledger.format = "openai"
    intake = ApiBuilder(ledger, "openai", reference(source), seen)
    for place, row in rows(source, ledger, document):
        found = False
        for where, entry in _entries(row, place):
            found = True
            yield from _api(entry, where, intake, words(source.stem), category)
        if not found:
            intake.refuse(place, "It holds no tools.")
    intake.close()


def _entries(row: Any, place: str) -> Iterator[tuple[str, Any]]:
    """What should be a tool, each with its place."""
    lists = [row] if isinstance(row, list) else []
    if isinstance(row, dict):
        lists = [row[key] for key in _LISTS if isinstance(row.get(key), list)]
        if not lists and _is_tool(row):
            yield place, row
    for several in lists:
        for number, entry in enumerate(several, 1):
            yield f"{place}, tool {number}", entry


def _is_tool(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    inner = entry.get("function")
    if entry.get("type") == "function" and isinstance(inner, dict):
        return isinstance(inner.get("name"), str)
    described = any(isinstance(entry.get(key), dict) for key in _SCHEMAS)
    return isinstance(entry.get("name"), str) and (described or entry.get("type") == "function")


def _api(entry: Any, where: str, intake: ApiBuilder, tool: str, category: str) -> Iterator[Api]:
    if not _is_tool(entry):
        kind = line(entry.get("type")) if isinstance(entry, dict) else type(entry).__name__
        return intake.refuse(where, f"It is no function tool but `{kind or 'something else'}`.")
    inner = entry["function"] if isinstance(entry.get("function"), dict) else entry
    yield from intake.api(
        category=category,
        tool=tool,
        name=inner["name"],
        description=inner.get("description"),
        parameters=_first(inner, _SCHEMAS),
        returns=_first(inner, _RETURNS),
    )
    return None


def _first(entry: dict[str, Any], keys: Iterable[str]) -> Any:
    return next((entry[key] for key in keys if entry.get(key) is not None), None)
