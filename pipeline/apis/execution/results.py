"""What came of a call, as an observation: read, the same on every machine, and short enough.

A model, a Python process and an MCP server share the protocol, and the ways to fail. Long
observations are made short without a model (after ToolLLM, appendix A.2); tokens are estimated:
UTF-8 bytes of the compact JSON, divided by 4 and rounded up.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from toolloom.pipeline.checks.schema import as_dict, fits
from toolloom.schemas import API_SEARCH, Api, Execution, Failure, JsonObject, Message, Observation

Search: TypeAlias = Callable[[Sequence[Api], str], Awaitable[list[JsonObject]]]
"""Documentation of the APIs that fit keywords best, best first."""
Shorten: TypeAlias = Callable[[Any, JsonObject | None], tuple[Any, int | None]]
"""A response within the token limit, and how long it was if it is not whole any more."""

LONGEST_ERROR = 2_000  # characters
DEPTH = 100  # levels of lists and objects in a response
CUT = "…"


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


# Reading

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
        error: Any = texts[0] if value is None and says_error(texts[0]) else ""
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


def says_error(text: str) -> bool:
    """Whether a text that claims to be a result begins as errors do; a long one is a result."""
    return len(text) <= 500 and _ERROR.match(text.strip()) is not None


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


# Shortening

STEPS = ((50, 800), (20, 400), (10, 200), (5, 200), (3, 100), (1, 100), (1, 50))
"""First items of a list that stay, and characters of a text, step by step."""
DEEPEST = 60


def tokens(value: Any) -> int:
    """How many tokens a value's JSON is, about."""
    return math.ceil(len(_compact(value).encode("utf-8", "surrogatepass")) / 4)


def compress(response: Any, schema: JsonObject | None, limit: int) -> tuple[Any, int | None]:
    """A response of at most `limit` tokens, and how many the whole one had if it was longer.

    Lists keep their first items, and long texts are cut, further step by step. What is left fits
    its schema if the whole one did. If all that is not enough, the beginning of the JSON is kept,
    as text.
    """
    whole = tokens(response)
    if whole <= limit:
        return response, None
    if isinstance(response, str):
        return beginning(response, limit), whole
    known = as_dict(schema)
    strict = bool(known) and fits(known, response)
    for items, letters in STEPS:
        value = _short(response, items, letters)
        if tokens(value) <= limit and (not strict or fits(known, value)):
            return value, whole
    return beginning(_compact(response), limit), whole


def beginning(text: str, limit: int) -> str:
    """As much of a text as `limit` tokens hold, written as JSON."""
    if tokens(text) <= limit:
        return text
    low, high = 0, min(len(text), 4 * limit)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle] + CUT) <= limit else (low, middle - 1)
    return text[:low] + CUT if tokens(text[:low] + CUT) <= limit else ""


def _short(value: Any, items: int, letters: int, depth: int = 0) -> Any:
    """A copy, of JSON alone and not too deep, with its first items and the beginnings of texts."""
    if isinstance(value, str):
        return value if len(value) <= letters else value[: letters - 1] + CUT
    if isinstance(value, int | float) or value is None:
        return value
    if depth >= DEEPEST or not isinstance(value, dict | list | tuple):
        return CUT
    if isinstance(value, dict):
        return {str(k): _short(v, items, letters, depth + 1) for k, v in value.items()}
    return [_short(v, items, letters, depth + 1) for v in value[:items]]


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):  # too deep, or no JSON: only a copy is
        return _compact(_short(value, 10**9, 10**9))
