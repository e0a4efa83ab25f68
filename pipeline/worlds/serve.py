"""A world as an MCP server over pipes: each start is a fresh session in the state of its seed.

The server's instructions hold the moment, who speaks, and the world's policies, so that any agent
can be tried on it.
"""

from __future__ import annotations

import json
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool

from toolloom.pipeline.checks.world.interpreter import Machine, State
from toolloom.pipeline.checks.world.signatures import parameters
from toolloom.pipeline.worlds.library import briefing


def server_of(machine: Machine, state: State, now: str) -> Server[Any]:
    """A server with one session's state, which calls change."""
    states = [state]

    async def list_tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(name=name, description=spec["about"], input_schema=parameters(spec["args"]))
                for name, spec in machine.world["operations"].items()
            ]
        )

    async def call_tool(_: Any, params: Any) -> CallToolResult:
        after, response, error = machine.apply(states[-1], params.name, params.arguments or {}, now)
        states[:] = [after]
        told = f"{error}: {response}" if error else json.dumps(response, ensure_ascii=False)
        return CallToolResult(content=[TextContent(type="text", text=told)], is_error=bool(error))

    return Server(
        f"toolloom-{machine.world['name']}",
        instructions="\n".join([f"Now: {now}.", *briefing(machine, state)]),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve(machine: Machine, state: State, now: str) -> None:
    """Answer over standard input and output until they are closed."""
    server = server_of(machine, state, now)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
