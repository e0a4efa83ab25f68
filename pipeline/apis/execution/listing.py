"""The tools of an MCP server, as the server lists them."""

from __future__ import annotations

from collections.abc import Iterator

from toolloom.pipeline.apis.execution.mcp import McpTool, Server
from toolloom.pipeline.formats.importers.intake import ApiBuilder, line
from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import Api, ImportFailed, ToolloomError

CATEGORY = "MCP"


async def read_server(server: Server, ledger: ImportLog, *, category: str = "") -> list[Api]:
    """Its tools as APIs. Starts the server, calls nothing. Raises ImportFailed."""
    ledger.format = "mcp"
    try:
        async with server.session() as session:
            ledger.version = session.version
            listing = await session.list_tools()
    except ToolloomError as error:
        raise ImportFailed(str(error)) from error
    for note in listing.notes:
        ledger.note(note)
    intake = ApiBuilder(ledger, "mcp", server.reference)
    names: set[str] = set()
    found = [a for t in listing.tools for a in _read(t, intake, names, server.name, category)]
    intake.close()
    return found


def _read(
    tool: McpTool, intake: ApiBuilder, names: set[str], server: str, category: str
) -> Iterator[Api]:
    if tool.name in names:  # a call by this name reaches only one of them
        return intake.refuse(tool.name, "The server lists another tool of this name before it.")
    if line(tool.name) != tool.name:
        return intake.refuse(line(tool.name), "Its name is empty, too long or of several lines.")
    names.add(tool.name)
    yield from intake.api(
        category=category or CATEGORY,
        tool=server,
        name=tool.name,
        description=tool.description or tool.title,
        parameters=tool.input_schema,
        returns=tool.output_schema,
        operation=tool.name,
    )
    return None
