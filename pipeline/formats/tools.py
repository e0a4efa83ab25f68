"""Tools as `Api` records: what all readers of tools share, and those that chat requests carry.

`read` takes OpenAI's `tools` and their close relatives: lists, objects with `tools` or `functions`,
whole request bodies and JSON lines of any of these; entries nested under `function` (chat
completions), flat ones (Responses, the older `functions`), and those with `input_schema`
(Anthropic) or `inputSchema` (MCP).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolloom.pipeline.formats.import_log import ImportLog, line, reference, sentence, words
from toolloom.pipeline.formats.json_schema import RETURNS, arguments, plain
from toolloom.pipeline.formats.rows import UNREAD, rows
from toolloom.schemas import Api, Source

LONGEST_TEXT = 1024
SCHEMAS = ("parameters", "input_schema", "inputSchema")
_RETURNS = ("returns", "output_schema", "outputSchema")


def to_api(
    log: ImportLog,
    source: Source,
    *,
    category: str,
    tool: Any,
    name: Any,
    description: Any,
    parameters: Any,
    returns: Any = None,
    wanted: str = "",
    deprecated: bool = False,
) -> Iterator[Api]:
    """The API of what was found, or nothing: a repeat is counted, what has no name booked.

    Every value may be hostile. What its source files under no category is one with its tool.
    `wanted`: the function name, if it is not `name`.
    """
    called, tool = line(name), line(tool)
    if not called:
        return log.refuse(
            ": ".join(filter(None, (tool, line(description)[:60]))), "It has no name."
        )
    path = f"{line(category) or tool or 'unnamed'}/{tool or 'unnamed'}"
    api = log.unrepeated(f"{path}/{called}", [description, parameters, returns], source.reference)
    if not api:
        return None
    log.read += 1
    function = log.function(wanted or called, api)
    text = log.shortened(sentence(description), LONGEST_TEXT, api)
    if parameters is not None and not isinstance(parameters, dict):
        log.cut(api, "parameters", "invalid")
        parameters = None
    taken = arguments(parameters or {}, ledger=log, api=api)
    given = plain(returns or {}, ledger=log, api=api, place="returns", budget=RETURNS)
    yield Api(
        category=line(category) or tool or "unnamed",
        tool=tool or "unnamed",
        name=api[len(path) + 1 :],
        function=function,
        description=text,
        parameters=taken,
        returns=given or None,
        deprecated=deprecated,
        source=source if source.operation else source.model_copy(update={"operation": called}),
    )
    return None


def first(entry: dict[str, Any], *keys: str) -> Any:
    """The first of these fields that says something."""
    return next((entry[key] for key in keys if entry.get(key) is not None), None)


def fits(document: Any) -> bool:
    """Whether a document holds tools in one of these forms."""
    return any(_is_tool(entry) for _, entry in _entries(document, ""))


def read(
    source: Path, ledger: ImportLog, *, category: str = "", document: Any = UNREAD
) -> Iterator[Api]:
    """The APIs of a file. `document`: its content, if it was loaded before."""
    ledger.format = "openai"
    known = Source(kind="openai", reference=reference(source))
    for place, row in rows(source, ledger, document):
        entries = [*_entries(row, place)]
        if not entries:
            ledger.refuse(place, "It holds no tools.")
        for where, entry in entries:
            if not _is_tool(entry):
                kind = line(entry.get("type")) if isinstance(entry, dict) else type(entry).__name__
                why = f"It is not a function tool but `{kind or 'something else'}`."
                ledger.refuse(where, why)
                continue
            inner = entry["function"] if isinstance(entry.get("function"), dict) else entry
            yield from to_api(
                ledger,
                known,
                category=category,
                tool=words(source.stem),
                name=inner["name"],
                description=inner.get("description"),
                parameters=first(inner, *SCHEMAS),
                returns=first(inner, *_RETURNS),
            )


def _entries(row: Any, place: str) -> Iterable[tuple[str, Any]]:
    """What should be a tool, each with its place."""
    lists = [row] if isinstance(row, list) else []
    if isinstance(row, dict):
        lists = [row[key] for key in ("tools", "functions") if isinstance(row.get(key), list)]
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
    described = any(isinstance(entry.get(key), dict) for key in SCHEMAS)
    return isinstance(entry.get("name"), str) and (described or entry.get("type") == "function")
