"""The one door to MCP servers: a program of ours that talks over pipes, or an address.

Three failures of a call look different, and stay different: the tool says that it failed
(`isError`), the server refuses the request (a JSON-RPC error), or a result that claims success
says in words that it failed.

The library's contexts must be left by the task that entered them; a session of ours is used by
whichever task makes a call. So each is kept open in a task of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ListToolsRequest,
    ListToolsResult,
    PaginatedRequestParams,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from toolloom.pipeline.apis.execution import process
from toolloom.pipeline.apis.execution.process import GRACE, Child
from toolloom.pipeline.apis.execution.results import (
    Result,
    failed,
    is_address,
    legible,
    portable,
    read_tool_result,
    server_name,
    server_reference,
    too_late,
)
from toolloom.pipeline.formats.import_log import ImportLog
from toolloom.pipeline.formats.intake import ApiBuilder, line
from toolloom.schemas import Api, ApiSource, Failure, ImportFailed, JsonObject, ToolloomError
from toolloom.schemas.base import first_error

PAGES = 100
TOOLS = 10_000
START = 30.0  # seconds for a server to begin, at least

Transport: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]

for _name in ("mcp", "httpx2"):  # they tell of addresses and of every server's noise
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


@dataclass(frozen=True)
class McpTool:
    """A tool as its server describes it: nothing here has been checked."""

    name: str
    title: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None


@dataclass(frozen=True)
class Listing:
    """All tools of a server, and what is to be said about the list."""

    tools: tuple[McpTool, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Server:
    """An MCP server that can be started, or reached, as often as needed."""

    command: str  # with its arguments, or an address
    name: str = ""
    environment: tuple[str, ...] = ()
    prepare: str = ""
    time_limit: float = 10

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", server_name(self.command, self.name))

    @classmethod
    def of(cls, source: ApiSource) -> Server:
        """The server a recipe names."""
        return cls(source.mcp, source.name, source.environment, source.prepare, source.time_limit)

    @property
    def reference(self) -> str:
        """What records call it."""
        return server_reference(self.command, self.name)

    @property
    def start_limit(self) -> float:
        return max(START, self.time_limit)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[McpSession]:
        """A fresh process in a fresh folder, or a new session at an address.

        Raises ToolloomError if the server cannot be used.
        """
        async with AsyncExitStack() as stack:
            if is_address(self.command):
                session = McpSession(self)
            else:
                program = process.running(
                    process.arguments(self.command, self.name),
                    self.environment,
                    name=self.name,
                    before=self.prepare,
                    time_limit=self.time_limit,
                )
                session = McpSession(self, *await stack.enter_async_context(program))
            talk = kept_open(session.talk, seconds=self.start_limit, grace=GRACE)
            try:
                session.client = await stack.enter_async_context(talk)
            except NotOpened as error:
                raise session.trouble(await session.fate() or str(error)) from error
            yield session


class McpSession:
    """A session with a server. Not for several calls at once."""

    def __init__(
        self, server: Server, child: Child | None = None, folder: Path | None = None
    ) -> None:
        self.server = server
        self.client: Client | None = None
        self._child = child
        self._folder = folder

    def talk(self) -> Client:
        """The library's client, not yet entered."""
        if self._child:
            return Client(_streams(self._child), cache=None)
        return Client(streamable_http_client(self.server.command), cache=None)

    @property
    def version(self) -> str:
        """The version of the protocol that was agreed on."""
        assert self.client
        return self.client.protocol_version

    async def list_tools(self) -> Listing:
        """All pages of the list. Raises ToolloomError."""
        tools: list[McpTool] = []
        seen: set[str | None] = {None}
        cursor: str | None = None
        while True:
            page = await self._page(cursor)
            tools += [
                McpTool(t.name, t.title or "", t.description or "", t.input_schema, t.output_schema)
                for t in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(tools), ())
            if cursor in seen or len(seen) >= PAGES or len(tools) > TOOLS:
                why = "goes round in a circle" if cursor in seen else "has no end"
                note = f"Its list of tools {why}: the first {len(tools[:TOOLS])} were read."
                return Listing(tuple(tools[:TOOLS]), (note,))
            seen.add(cursor)

    async def _page(self, cursor: str | None) -> ListToolsResult:
        assert self.client
        request = ListToolsRequest(params=PaginatedRequestParams(cursor=cursor))
        try:
            async with asyncio.timeout(self.server.start_limit):
                return await self.client.session.send_request(request, ListToolsResult)
        except TimeoutError as error:
            raise self.trouble("does not list its tools in time") from error
        except MCPError as error:
            raise self.trouble(f"does not list its tools: {error.message}") from error
        except ValidationError as error:
            raise self.trouble(f"has no readable list of tools: {first_error(error)}") from error

    async def call(self, name: str, arguments: JsonObject) -> Result:
        """What came of a call, whatever the server does."""
        assert self.client
        params = CallToolRequestParams(name=name, arguments=arguments)
        request = CallToolRequest(params=params)
        try:
            async with asyncio.timeout(self.server.time_limit):
                found = await self.client.session.send_request(request, CallToolResult)
            result = _read(found)
        except TimeoutError:
            if self._child:
                self._child.hangs = True
            result = too_late(self.server.time_limit)
        except MCPError as error:
            closed = error.code == CONNECTION_CLOSED
            refusal = failed(Failure.PROTOCOL_ERROR, error.message)
            result = await self._gone() if closed else refusal
        except ValidationError as error:
            words = f"The answer is no tool result: {first_error(error)}"
            result = failed(Failure.PROTOCOL_ERROR, words)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            result = await self._gone()
        # No observation may hold the server's tokens, or the rest of its address.
        address = {self.server.command: self.server.reference}
        return portable(result, self._folder, self._child.secrets if self._child else address)

    async def _gone(self) -> Result:
        how = await self._child.ended() if self._child else "no longer answers"
        return failed(Failure.CRASH, f"The server {how}.")

    async def fate(self) -> str:
        """How its process ended, if it did."""
        return await self._child.ended() if self._child and self._child.has_ended() else ""

    def trouble(self, what: str) -> ToolloomError:
        """An error of the server as such, with the end of what it wrote to its standard error."""
        what = what.replace(self.server.command, self.server.reference)[: 2 * process.WORDS]
        words = self._child.last_words() if self._child else ""
        said = f" It says: {words.rstrip('.')}." if words else ""
        check = "Check its address."
        if self._child:
            check = "Check its command; it sees only the variables named in `environment`."
        return ToolloomError(f"The MCP server {self.server.name} {what.rstrip('.')}.{said} {check}")


@asynccontextmanager
async def _streams(child: Child) -> AsyncIterator[Any]:
    """The process as a transport of the library."""
    into, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, out = anyio.create_memory_object_stream[SessionMessage](0)

    async def receive() -> None:
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async with into:
                while (line := await child.receive()) is not None:
                    if (message := _message(line)) is not None:
                        await into.send(SessionMessage(message))

    async def send() -> None:
        async with out:
            async for each in out:
                try:
                    await child.send(
                        each.message.model_dump_json(by_alias=True, exclude_unset=True)
                    )
                except OSError:  # it has ended: whoever waits for an answer is told
                    await into.aclose()
                    return

    async with anyio.create_task_group() as group, into, read, write, out:
        group.start_soon(receive)
        group.start_soon(send)
        try:
            yield read, write
        finally:
            group.cancel_scope.cancel()


def _message(line: str) -> Any:
    """The message in a line; None if there is none, but a stray print."""
    with contextlib.suppress(ValidationError):
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    try:  # servers cut texts in the middle of a character
        return jsonrpc_message_adapter.validate_python(legible(json.loads(line)), by_name=False)
    except (ValueError, RecursionError):  # pydantic's errors are ValueErrors
        return None


def _read(found: CallToolResult) -> Result:
    size = len(found.model_dump_json())
    if size > process.MESSAGE:  # over HTTP nothing else bounds it
        words = f"The answer is longer than {process.MESSAGE} bytes."
        return failed(Failure.PROTOCOL_ERROR, words)
    blocks = [b.model_dump(mode="json", by_alias=True, exclude_none=True) for b in found.content]
    return read_tool_result(blocks, found.structured_content, found.is_error)


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
    apis: list[Api] = []
    for tool in listing.tools:
        if tool.name in names:  # a call by this name reaches only one of them
            intake.refuse(tool.name, "The server lists another tool of this name before it.")
        elif line(tool.name) != tool.name:
            intake.refuse(line(tool.name), "Its name is empty, too long or of several lines.")
        else:
            names.add(tool.name)
            apis += intake.api(
                category=category or CATEGORY,
                tool=server.name,
                name=tool.name,
                description=tool.description or tool.title,
                parameters=tool.input_schema,
                returns=tool.output_schema,
                operation=tool.name,
            )
    intake.close()
    return apis


Held = TypeVar("Held")


class NotOpened(Exception):
    """A context that could not be entered, or not in time."""


@asynccontextmanager
async def kept_open(
    make: Callable[[], AbstractAsyncContextManager[Held]], *, seconds: float, grace: float
) -> AsyncIterator[Held]:
    """What `make` gives, entered. `seconds`: for entering; `grace`: for leaving.

    Raises NotOpened. What it complains of once it was entered is dropped: whoever used it knows.
    """
    entered: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
    leave = asyncio.Event()

    async def keep() -> None:
        async with make() as held:
            entered.set_result(held)
            await leave.wait()

    keeper = asyncio.create_task(keep())
    try:
        either: set[asyncio.Future[Any]] = {keeper, entered}
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not entered.done():
            raise NotOpened(_why_not(keeper, seconds))
        yield entered.result()
    finally:
        leave.set()
        await asyncio.wait({keeper}, timeout=grace)
        keeper.cancel()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await keeper


def _why_not(keeper: asyncio.Task[None], seconds: float) -> str:
    error = keeper.exception() if keeper.done() and not keeper.cancelled() else None
    if error is None:
        return f"did not begin within {seconds:g} seconds"
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return f"begins in no known way: {first_error(error)}"
    return f"cannot be used: {error or type(error).__name__}"
