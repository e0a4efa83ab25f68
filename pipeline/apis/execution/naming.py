"""What a source of executions is called: in records, in the recipe, in error messages."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from urllib.parse import urlsplit

from toolloom.pipeline.formats.importers.ledger import legal
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


def operation(api: Api) -> str:
    """What an API is called by whatever executes it."""
    return api.source.operation or api.name


def executable_names(api: Api) -> set[str]:
    """The names in `execute` that let an API run: those of what runs, its operation.

    A record may be anyone's, and pair any operation with any name: its own name and its function
    name count only as far as they are the operation's.
    """
    runs = operation(api)
    found = {runs, legal(runs)}
    if api.name.endswith(f".{runs}") or re.fullmatch(rf"{re.escape(runs)} \(\d+\)", api.name):
        found.add(api.name)
    renamed = re.fullmatch(r"(.+)_\d+", api.function)
    if renamed and renamed[1] in (legal(runs), legal(runs)[:60], legal(runs)[:62]):
        found.add(api.function)
    return found
