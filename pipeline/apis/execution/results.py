"""What executes a call, what it is called, and what came of it as an observation.

A model, a Python process and an MCP server share the protocol, and the ways to fail.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeAlias
from urllib.parse import urlsplit

from toolloom.pipeline.formats.import_log import legal
from toolloom.schemas import (
    API_SEARCH,
    Api,
    Execution,
    Failure,
    JsonObject,
    Message,
    Observation,
)

Search: TypeAlias = Callable[[Sequence[Api], str], Awaitable[list[JsonObject]]]
"""Documentation of the APIs that fit keywords best, best first."""
Shorten: TypeAlias = Callable[[Any, JsonObject | None], tuple[Any, int | None]]
"""A response within the token limit, and how long it was if it is not whole any more."""


@dataclass(frozen=True)
class Executed:
    """What came of a call, and how."""

    observation: Observation
    execution: Execution

    def message(self, call: str, api: Api, shorten: Shorten) -> Message:
        """The tool message that answers a call of this id, no longer than the limit."""
        response, whole = self.observation.response, None
        if api is not API_SEARCH:
            response, whole = shorten(response, api.returns)
        return Message(
            role="tool",
            tool_call_id=call,
            name=api.function,
            content=self.observation.model_copy(update={"response": response}).model_dump_json(),
            execution=self.execution.model_copy(update={"whole_tokens": whole}),
        )


class Executor(Protocol):
    """Executes the calls of one sample, from a state that is fresh when the sample begins."""

    def runs(self, api: Api) -> bool:
        """Whether this API is one it executes."""

    async def run(self, api: Api, arguments: JsonObject) -> Executed:
        """The observation of a call. A failure of the call is an observation with an error."""


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


LONGEST_ERROR = 2_000  # characters
DEPTH = 100  # levels of lists and objects in a response


@dataclass(frozen=True)
class Result:
    """What came of a call."""

    observation: Observation
    failure: Failure | None = None

    @property
    def ended(self) -> bool:
        """Whether it took the process with it, so that the next call needs a new one."""
        return self.failure in (Failure.TIME_LIMIT, Failure.CRASH)


def failed(why: Failure, words: str) -> Result:
    """A failure, in the words of whoever noticed it."""
    return Result(Observation(error=words.strip() or "It failed."), why)


def too_late(seconds: float) -> Result:
    return failed(Failure.TIME_LIMIT, f"No answer within {seconds:g} seconds.")


def read_tool_result(content: Sequence[JsonObject], structured: Any, is_error: bool) -> Result:
    """The result of an MCP tool: content blocks as they are on the wire, structured content."""
    texts = [str(block.get("text", "")) for block in content if block.get("type") == "text"]
    if is_error:
        words = "\n".join(texts) or (json.dumps(structured) if structured is not None else "")
        return failed(Failure.TOOL_ERROR, words)
    if structured is not None:
        return Result(Observation(response=structured))
    if len(content) == 1 and len(texts) == 1:
        text = texts[0]
        value = _json(text)
        error: Any = text if value is None and says_error(text) else ""
        if isinstance(value, dict) and set(value) <= _BESIDE_ERROR:
            error = value.get("error")  # of an object that tells of nothing else
        if isinstance(error, str) and error.strip():
            return failed(Failure.ERROR_TEXT, error)
        return Result(Observation(response=text if value is None else value))
    if len(texts) == len(content):
        return Result(Observation(response="\n".join(texts)))
    return Result(Observation(response=[_placed(block) for block in content]))


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


_BESIDE_ERROR = {"error", "message", "detail", "details", "code", "status", "success", "ok"}


def _placed(block: JsonObject) -> JsonObject | str:
    """A block of several kinds of content: text as it is, of others only what they are."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    resource = block.get("resource")
    held = resource if isinstance(resource, dict) else block
    if isinstance(held.get("text"), str):
        size = len(held["text"].encode("utf-8", "replace"))
    else:
        encoded = str(held.get("data") or held.get("blob") or "").rstrip("=")
        size = len(encoded) * 3 // 4  # of base64
    kind = held.get("mimeType") or block.get("mimeType") or ""
    return {"type": str(block.get("type", "")), "mimeType": str(kind), "bytes": size}


_ERROR = re.compile(
    r"(?:\w+ )?error\b(?:$|\s*[:!]| \d{3}\b)|[\w.]*(?:Error|Exception): |traceback \(most recent",
    re.IGNORECASE,
)


def says_error(text: str) -> bool:
    """Whether a text that claims to be a result begins as errors do; a long one is a result."""
    return len(text) <= 500 and _ERROR.match(text.strip()) is not None


def portable(
    result: Result, folder: Path | None, secrets: Mapping[str, str] | None = None
) -> Result:
    """The same on every machine: the working folder as `.`, only what JSON and UTF-8 can hold.

    `secrets`: what nobody may read, with what stands in its place.
    """
    changes = {**({str(folder): "."} if folder else {}), **(secrets or {})}
    seen = result.observation
    error = seen.error
    return Result(
        Observation(
            response=_portable(seen.response, changes, DEPTH),
            # Cut last, so that a longer path elsewhere does not move the cut.
            error=error if error is None else _portable(error, changes, 1)[:LONGEST_ERROR],
        ),
        result.failure,
    )


def legible(value: Any) -> Any:
    """A value of JSON with what JSON or UTF-8 cannot hold put right, such as half a character."""
    return _portable(value, {}, DEPTH)


def _portable(value: Any, changes: Mapping[str, str], depth: int) -> Any:
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        for old, new in changes.items():
            text = text.replace(old, new)
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict | list) and not depth:
        return "…"
    if isinstance(value, dict):
        return {
            _portable(k, changes, 1): _portable(v, changes, depth - 1) for k, v in value.items()
        }
    if isinstance(value, list):
        return [_portable(v, changes, depth - 1) for v in value]
    return value
