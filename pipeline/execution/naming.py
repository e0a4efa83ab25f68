"""What a source of executions is called: in records, in the recipe, in error messages."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from urllib.parse import urlsplit

from toolloom.schemas import Api


def is_address(command: str) -> bool:
    return command.startswith(("http://", "https://"))


def server_name(command: str, name: str = "") -> str:
    """The name it was given, or else its program's or its host's."""
    if name:
        return name
    if is_address(command):
        return urlsplit(command).hostname or "mcp"
    try:
        first = shlex.split(command)[0]
    except (ValueError, IndexError):
        return "mcp"
    return PurePath(first).name


def server_reference(command: str, name: str = "") -> str:
    """What records call a server: an address without what may be secret in it, or its name."""
    if not is_address(command):
        return server_name(command, name)
    parts = urlsplit(command)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def named(api: Api) -> set[str]:
    """What a recipe may call an API: its own name, its operation or its function name."""
    return {api.name, api.source.operation, api.function} - {""}
