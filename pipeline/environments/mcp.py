"""The one door to what executes calls: MCP servers, as programs that talk over pipes or at an
address. Functions of a Python file stand behind a server of our own, `function_server.py`. The
other side of the door is `serve`: a world as a server, so that any agent can be tried on it.

Three failures of a call look different, and stay different: the tool says that it failed
(`isError`), the server refuses the request (a JSON-RPC error), or a result that claims success
says in words that it failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import IO, Any

import anyio
import mcp_types as wire
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import stdio
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.checks.world.signatures import parameters
from toolloom.pipeline.environments import commands, function_server
from toolloom.pipeline.environments.commands import ExecutionSource, is_address
from toolloom.pipeline.environments.environment import CUT, Result, failed
from toolloom.pipeline.formats.import_log import ImportLog, line, words
from toolloom.pipeline.formats.json_schema import to_api
from toolloom.pipeline.store.secrets import secrets_of
from toolloom.schemas import (
    Api,
    Failure,
    ImportFailed,
    JsonObject,
    Observation,
    Source,
    ToolloomError,
)
from toolloom.schemas.api import SourceKind
from toolloom.schemas.base import first_error

PAGES = 100
TOOLS = 10_000
START = 30.0  # seconds for a server to begin, at least
GRACE = 10.0  # seconds for a server to end; the library kills it before
LARGEST = 8 * 2**20  # bytes of an answer
LONGEST_ERROR = 2_000  # characters
DEPTH = 100  # levels of lists and objects in a response

for _name in ("mcp", "httpx2"):  # they tell of addresses and of every server's noise
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False
stdio.DEFAULT_INHERITED_ENV_VARS.clear()  # a server sees the variables a recipe names, no others


def _command(place: ExecutionSource, allowed: frozenset[str]) -> list[str]:
    """How its program is started. Raises ToolloomError."""
    if place.functions is None:
        return commands.arguments(place.source.mcp, place.name)
    path, module = place.functions.path.absolute(), place.functions.module
    if module:
        up = module.count(".") + (path.name == "__init__.py")
        top = str(path.parents[up])  # holds the module's topmost package
        where: JsonObject = {"module": module, "first": [top], "last": []}
    else:
        where = {"file": str(path), "first": [], "last": [str(path.parent)]}
    limits = {"seconds": place.source.time_limit, "start": _start_limit(place)}
    settings = json.dumps({**where, **limits, "allowed": sorted(allowed)})
    # `-I` would also do away with the seed of hashes; there is nothing to be isolated from
    # in an environment that is empty but for what the recipe names.
    return [sys.executable, "-s", "-P", "-B", str(function_server.__file__), settings]


def _start_limit(place: ExecutionSource) -> float:
    return max(START, place.source.time_limit)


@asynccontextmanager
async def connect(
    place: ExecutionSource, allowed: frozenset[str] = frozenset()
) -> AsyncIterator[McpSession]:
    """A fresh process in a fresh folder, or a new session at an address. `allowed`: functions of
    a Python file that may be called. Raises ToolloomError if the server cannot be used."""
    source, session = place.source, McpSession(place)
    async with AsyncExitStack() as stack:
        if is_address(source.mcp):
            session.hidden = {source.mcp: place.reference}
            transport: Any = streamable_http_client(source.mcp)
        else:
            program, *rest = _command(place, allowed)
            environment = commands.handed_on(source.environment, place.name)
            folder = stack.enter_context(commands.working_folder())
            if source.prepare:
                limit = 3 * source.time_limit
                await commands.prepare(
                    source.prepare, environment, folder, name=place.name, seconds=limit
                )
            session.errors, session.environment = tempfile.TemporaryFile(), environment  # noqa: SIM115 - it is closed by the stack
            stack.enter_context(session.errors)
            session.hidden = {str(folder): ".", **secrets_of(environment)}
            seed = {"PYTHONHASHSEED": "0"} if place.functions else {}
            transport = stdio.stdio_client(
                StdioServerParameters(
                    command=program,
                    args=rest,
                    env={**seed, **environment},
                    cwd=folder,
                    encoding_error_handler="replace",
                ),
                errlog=session.errors,  # type: ignore[arg-type]  # only its number is used
            )
        await stack.enter_async_context(session.opened(transport))
        yield session


@dataclass
class McpSession:
    """A session with a server. Not for several calls at once."""

    place: ExecutionSource
    client: Client | None = None
    errors: IO[bytes] | None = None  # what its program writes to its standard error
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)  # in results, with what is shown

    @asynccontextmanager
    async def opened(self, transport: Any) -> AsyncIterator[None]:
        """The session over a transport. Raises ToolloomError if it does not begin in time.

        The library's contexts must be left by the task that entered them; a session is used by
        whichever task makes a call. So each is kept open in a task of its own. What it complains of
        once it was entered is dropped: whoever used it knows.
        """
        entered: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        leave = asyncio.Event()

        async def keep() -> None:
            async with Client(transport, cache=None) as client:
                entered.set_result(client)
                await leave.wait()

        keeper = asyncio.create_task(keep())
        seconds = _start_limit(self.place)
        try:
            either: set[asyncio.Future[Any]] = {keeper, entered}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not entered.done():
                raise self.trouble(_why_not(keeper, seconds))
            self.client = entered.result()
            yield
        finally:
            leave.set()
            if not entered.done():
                keeper.cancel()
            await asyncio.wait({keeper}, timeout=GRACE)
            keeper.cancel()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await keeper

    async def list_tools(self, ledger: ImportLog) -> list[wire.Tool]:
        """All pages of the list; nobody has checked them. Raises ToolloomError."""
        assert self.client
        tools: list[wire.Tool] = []
        seen: set[str | None] = {None}
        cursor: str | None = None
        while True:
            request = wire.ListToolsRequest(params=wire.PaginatedRequestParams(cursor=cursor))
            try:
                async with asyncio.timeout(_start_limit(self.place)):
                    page = await self.client.session.send_request(request, wire.ListToolsResult)
            except TimeoutError as error:
                raise self.trouble("does not list its tools in time") from error
            except MCPError as error:
                raise self.trouble(f"does not list its tools: {error.message}") from error
            except ValidationError as error:
                what = f"has no readable list of tools: {first_error(error)}"
                raise self.trouble(what) from error
            tools += page.tools
            cursor = page.next_cursor
            if self.place.functions:  # what our own server found to be no tool, and why
                for name, why in (page.meta or {}).get("skipped", ()):
                    ledger.refuse(f"{self.place.functions.named}.{line(name)}", line(why))
            if cursor is None:
                return tools
            if cursor in seen or len(seen) >= PAGES or len(tools) > TOOLS:
                why = "goes round in a circle" if cursor in seen else "has no end"
                read = f"the first {len(tools[:TOOLS])} were read"
                ledger.note(f"Its list of tools {why}: {read}.")
                return tools[:TOOLS]
            seen.add(cursor)

    async def call(self, name: str, arguments: JsonObject) -> Result:
        """What came of a call, whatever the server does."""
        assert self.client
        params = wire.CallToolRequestParams(name=name, arguments=legible(arguments))
        seconds = self.place.source.time_limit
        program = "process" if self.place.functions else "server"
        gone = failed(Failure.CRASH, f"The {program} has ended.")
        try:
            async with asyncio.timeout(seconds):
                found = await self.client.session.send_request(
                    wire.CallToolRequest(params=params), wire.CallToolResult
                )
            result = self._read(found)
        except TimeoutError:
            result = failed(Failure.TIME_LIMIT, f"No answer within {seconds:g} seconds.")
        except MCPError as error:
            closed = error.code == wire.CONNECTION_CLOSED
            result = gone if closed else failed(Failure.PROTOCOL_ERROR, error.message)
        except ValidationError as error:
            words = f"The answer is not a tool result: {first_error(error)}"
            result = failed(Failure.PROTOCOL_ERROR, words)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
            result = gone
        return portable(result, self.hidden)

    def _read(self, found: wire.CallToolResult) -> Result:
        if len(found.model_dump_json()) > LARGEST:
            return failed(Failure.PROTOCOL_ERROR, f"The answer is longer than {LARGEST} bytes.")
        if self.place.functions and isinstance(value := found.structured_content, dict):
            return Result(Observation(response=value.get("result")))
        dumped = found.model_dump(mode="json", by_alias=True, exclude_none=True)
        return read_tool_result(dumped["content"], found.structured_content, found.is_error)

    def trouble(self, what: str) -> ToolloomError:
        """An error of the server as such, with the end of what it wrote to its standard error."""
        words = commands.last_words(self.errors, self.environment) if self.errors else ""
        said = f" It says: {words.rstrip('.')}." if words else ""
        name = self.place.name
        if self.place.functions:
            return ToolloomError(
                f"The functions of {name} cannot be used: the process that imports them "
                f"{what.rstrip('.')}.{said} It is apart, and sees only the variables named in "
                "`environment`."
            )
        what = what.replace(self.place.source.mcp, self.place.reference)[: 2 * commands.WORDS]
        check = "Check its address."
        if self.errors:
            check = "Check its command; it sees only the variables named in `environment`."
        return ToolloomError(f"The MCP server {name} {what.rstrip('.')}.{said} {check}")


def _why_not(keeper: asyncio.Task[None], seconds: float) -> str:
    error = keeper.exception() if keeper.done() and not keeper.cancelled() else None
    if error is None:
        return f"did not begin within {seconds:g} seconds"
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        return f"begins in no known way: {first_error(error)}"
    if isinstance(error, MCPError) and error.code == wire.CONNECTION_CLOSED:
        return "ended before it began"
    return f"cannot be used: {error or type(error).__name__}"


async def read_tools(place: ExecutionSource, ledger: ImportLog, *, category: str = "") -> list[Api]:
    """Its tools as APIs. Starts the server, calls nothing. Raises ImportFailed."""
    module = place.functions
    try:
        async with connect(place) as session:
            tools, called = await session.list_tools(ledger), place.name
            if session.client and not module:
                ledger.version = session.client.protocol_version
                if (itself := session.client.server_info) and not place.source.name:
                    called = line(itself.title or itself.name) or called
    except ToolloomError as error:
        raise ImportFailed(str(error)) from error
    kind: SourceKind = "python" if module else "mcp"
    ledger.format = kind
    named = module.named if module else ""
    names: set[str] = set()
    apis: list[Api] = []
    for tool in tools:
        if tool.name in names:  # a call by this name reaches only one of them
            ledger.refuse(tool.name, "The server lists another tool of this name before it.")
            continue
        if line(tool.name) != tool.name:
            ledger.refuse(line(tool.name), "Its name is empty, too long or of several lines.")
            continue
        names.add(tool.name)
        told, returns = (tool.meta or {}) if module else {}, tool.output_schema
        if module and returns:
            returns = {**returns["properties"]["result"], "$defs": returns.get("$defs", {})}
        for api in to_api(
            ledger,
            Source(kind=kind, reference=place.reference, operation=tool.name),
            category=category or words(named) or called,
            tool=words(named) or called,
            name=f"{named}.{tool.name}" if module else tool.name,
            description=tool.description or tool.title,
            parameters=tool.input_schema,
            returns=returns,
            wanted=tool.name,
            deprecated=told.get("deprecated", False),
        ):
            for where in told.get("lost", ()):
                ledger.cut(api.id, f"parameters.{where}", "invalid")
            apis.append(api)
    if module and not apis:
        ledger.note(f"{named}: no functions are defined in it.")
    return apis


# --- a world as a server -----------------------------------------------------------------------


async def serve(machine: Machine, state: State, now: str, instructions: str) -> None:
    """Answer over standard input and output until they are closed: one session, whose calls change
    its state."""
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    operations, states = machine.world["operations"].items(), [state]
    tools = [
        wire.Tool(name=name, description=spec["about"], input_schema=parameters(spec["args"]))
        for name, spec in operations
    ]

    async def list_tools(_: Any, __: Any) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: Any) -> wire.CallToolResult:
        after, response, error = machine.apply(states[-1], params.name, params.arguments or {}, now)
        states[:] = [after]
        told = f"{error}: {response}" if error else json.dumps(response, ensure_ascii=False)
        content: list[Any] = [wire.TextContent(type="text", text=told)]
        return wire.CallToolResult(content=content, is_error=bool(error))

    server: Server[Any] = Server(
        f"toolloom-{machine.world['name']}",
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


# --- results, read and made the same on every machine ----------------------------------------

_BESIDE_ERROR = {"error", "message", "detail", "details", "code", "status", "success", "ok"}
_ERROR = re.compile(
    r"(?:\w+ )?error\b(?:$|\s*[:!]| \d{3}\b)|[\w.]*(?:Error|Exception): |traceback \(most recent",
    re.IGNORECASE,
)


def read_tool_result(content: Sequence[JsonObject], structured: Any, is_error: bool) -> Result:
    """The result of an MCP tool: content blocks as they are on the wire, structured content."""
    texts = [str(block.get("text", "")) for block in content if block.get("type") == "text"]
    if is_error:
        words = "\n".join(texts) or (json.dumps(structured) if structured is not None else "")
        return failed(Failure.TOOL_ERROR, words)
    if structured is not None:
        return Result(Observation(response=structured))
    if len(content) == 1 and len(texts) == 1:
        value = _json(texts[0])
        # A text that claims to be a result may begin as errors do; a long one is a result.
        said = texts[0] if len(texts[0]) <= 500 and _ERROR.match(texts[0].strip()) else ""
        error: Any = said if value is None else ""
        if isinstance(value, dict) and set(value) <= _BESIDE_ERROR:
            error = value.get("error")  # of an object that tells of nothing else
        if isinstance(error, str) and error.strip():
            return failed(Failure.ERROR_TEXT, error)
        return Result(Observation(response=texts[0] if value is None else value))
    if len(texts) == len(content):
        return Result(Observation(response="\n".join(texts)))
    return Result(Observation(response=[_block(block) for block in content]))


def _json(text: str) -> Any:
    """The object or list that a text is as JSON, else None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


def _block(block: JsonObject) -> JsonObject | str:
    """A block of several kinds of content: text as it is, of others only what they are."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    held = resource if isinstance(resource, dict) else block
    size = len(str(held.get("data") or held.get("blob") or "").rstrip("=")) * 3 // 4  # of base64
    if isinstance(held.get("text"), str):
        size = len(held["text"].encode("utf-8", "replace"))
    kind = held.get("mimeType") or block.get("mimeType") or ""
    return {"type": str(block.get("type", "")), "mimeType": str(kind), "bytes": size}


def portable(result: Result, changes: Mapping[str, str]) -> Result:
    """The same on every machine. `changes`: texts that nobody may read, such as the path of the
    working folder, with what stands in their place."""
    seen = result.observation
    response, error = (legible(value, changes) for value in (seen.response, seen.error))
    # Cut last, so that a longer path elsewhere does not move the cut.
    told = Observation(response=response, error=error if error is None else error[:LONGEST_ERROR])
    return Result(told, result.failure)


def legible(value: Any, changes: Mapping[str, str] | None = None, depth: int = DEPTH) -> Any:
    """A value of JSON without what JSON or UTF-8 cannot hold, such as half a character."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        for old, new in (changes or {}).items():
            text = text.replace(old, new)
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict | list) and not depth:
        return CUT
    if isinstance(value, dict):
        return {legible(k, changes): legible(v, changes, depth - 1) for k, v in value.items()}
    return [legible(v, changes, depth - 1) for v in value] if isinstance(value, list) else value
