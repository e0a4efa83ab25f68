"""A small real MCP server for the tests: over pipes, or with `http` on loopback.

Each start adds a line to the file that the variable STARTS names, if it is handed on.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ImageContent,
    ListToolsResult,
    TextContent,
    Tool,
)

MEMORY: list[str] = []
ENDLESS = "--endless" in sys.argv
TOOLS = ["add", "count", "fail", "grumble", "nap", "die", "show", "roll", "picture", "listed"]


def schema(**properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


INPUTS = {"add": schema(a="integer", b="integer"), "nap": schema(seconds="number")}
OUTPUT = {
    "type": "object",
    "properties": {"sum": {"$ref": "#/$defs/Number"}},
    "$defs": {"Number": {"type": "integer", "description": "A whole number."}},
}


async def list_tools(_: Any, params: Any) -> ListToolsResult:
    """Four tools a page; an endless server begins again after its last page."""
    start = int(params.cursor) if params and params.cursor else 0
    tools = [
        Tool(
            name=name,
            description=f"Does what {name} says.",
            input_schema=INPUTS.get(name, schema()),
            output_schema=OUTPUT if name == "add" else None,
        )
        for name in [*TOOLS, "count"][start : start + 4]
    ]
    after = start + 4 if start + 4 <= len(TOOLS) else (4 if ENDLESS else None)
    return ListToolsResult(tools=tools, next_cursor=None if after is None else str(after))


def text(*words: str, error: bool = False) -> CallToolResult:
    blocks = [TextContent(type="text", text=word) for word in words]
    return CallToolResult(content=blocks, is_error=error)


async def call_tool(_: Any, params: Any) -> CallToolResult:
    arguments = params.arguments or {}
    if params.name == "add":
        total = {"sum": arguments["a"] + arguments["b"]}
        return CallToolResult(content=[], structured_content=total)
    if params.name not in TOOLS:
        raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    return ACTS[params.name](arguments)


def add_line(path: Path) -> None:
    with path.open("a") as file:
        file.write("line\n")


def count(_: Any) -> CallToolResult:
    MEMORY.append("called")
    add_line(Path("calls.txt"))
    lines = len(Path("calls.txt").read_text().split())
    return text(json.dumps({"memory": len(MEMORY), "file": lines}))


def nap(arguments: Any) -> CallToolResult:
    time.sleep(arguments["seconds"])
    return text("rested")


def die(_: Any) -> CallToolResult:
    os.kill(os.getpid(), signal.SIGKILL)
    return text("unreachable")


def picture(_: Any) -> CallToolResult:
    image = ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")
    return CallToolResult(content=[TextContent(type="text", text="a square"), image])


ACTS: dict[str, Any] = {
    "count": count,
    "fail": lambda _: text(f"no such page in {os.getcwd()}/book", error=True),
    "grumble": lambda _: text("Error: the shelf is empty"),
    "nap": nap,
    "die": die,
    "show": lambda _: text("\n".join([f"cwd={os.getcwd()}", *os.listdir(), *os.environ])),
    "roll": lambda _: text(str(random.random())),
    "picture": picture,
    "listed": lambda _: text("one", "two"),
}


async def over_pipes(server: Any) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def over_http(server: Any) -> None:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(server.streamable_http_app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listening])


def greet_strangely() -> None:
    """Answer the greeting with what is no answer to it."""
    for line in sys.stdin:
        request = json.loads(line)
        reply: dict[str, Any] = {"error": {"code": -32601, "message": ""}}
        if request["method"] == "initialize":
            reply = {"result": {"shelf": "full"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request.get("id"), **reply}), flush=True)


if __name__ == "__main__":
    if starts := os.environ.get("STARTS"):
        add_line(Path(starts))
    if "--strange" in sys.argv:
        greet_strangely()
    if "--broken" in sys.argv:
        sys.exit("the shelf has no books")
    print("a stray line")
    server = Server("shelf", on_list_tools=list_tools, on_call_tool=call_tool)
    over_http(server) if "http" in sys.argv else anyio.run(over_pipes, server)
