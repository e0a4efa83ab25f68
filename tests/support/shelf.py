"""What tests execute for real: `shelf_server.py`, a small MCP server, its source and its tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from toolloom.pipeline.environments.commands import ExecutionSource
from toolloom.schemas import Api, ApiSource, Source

SERVER = Path(__file__).with_name("shelf_server.py")
COMMAND = f"{sys.executable} {SERVER}"
TOOLS = ("add", "count", "fail", "grumble", "nap", "die", "show", "roll", "picture", "listed")


def source(**changes: Any) -> ApiSource:
    fields = {"mcp": COMMAND, "name": "shelf", "execute": TOOLS, "time_limit": 5}
    return ApiSource(**{**fields, **changes})


def place(**changes: Any) -> ExecutionSource:
    return ExecutionSource(source(**changes))


def tool(name: str, reference: str = "shelf", **changes: Any) -> Api:
    """An API as importing it from the server, or from a Python file, makes it."""
    kind: Any = "python" if reference.endswith(".py") else "mcp"
    fields = {
        "category": "Test",
        "tool": "shelf",
        "name": name,
        "function": name.replace(".", "_"),
        "description": "Does what its name says.",
        "parameters": {"type": "object", "properties": {}},
        "source": Source(kind=kind, reference=reference, operation=name),
    }
    return Api(**{**fields, **changes})
