"""What an execution returned, as an observation; and the ways in which it can have failed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolloom.schemas import Failure, JsonObject, Observation

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
        return _read_text(texts[0])
    if len(texts) == len(content):
        return Result(Observation(response="\n".join(texts)))
    return Result(Observation(response=[_placed(block) for block in content]))


def _read_text(text: str) -> Result:
    """A single text: JSON if it is an object or a list, else words, which may tell of an error."""
    value = _json(text)
    words = _told_error(value) if isinstance(value, dict) else text if says_error(text) else ""
    if words:
        return failed(Failure.ERROR_TEXT, words)
    return Result(Observation(response=text if value is None else value))


def _json(text: str) -> Any:
    """The object or list that a text is as JSON, else None."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_BESIDE_ERROR = {"error", "message", "detail", "details", "code", "status", "success", "ok"}


def _told_error(value: JsonObject) -> str:
    """The error of an object that tells of nothing else, such as {"error": "no such city"}."""
    error = value.get("error")
    if isinstance(error, str) and error.strip() and set(value) <= _BESIDE_ERROR:
        return error
    return ""


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


_LONGEST_WORDS = 500  # a longer text is a result that happens to begin like an error
_LONGEST_TRACE = 20_000
_TRACE = re.compile(r"traceback \(most recent call last\)", re.IGNORECASE)
_ERROR = re.compile(
    r"""
    (?:mcp\s|internal\s|fatal\s|unexpected\s|server\s|validation\s|api\s|http\s|runtime\s)?
      error (?: \s*[:!] | \s[-–—]\s | \s*$
              | \s(?:occurred|executing|calling|while|when|fetching|reading|writing|processing
                    |parsing|loading|opening|connecting|accessing|code\s|\d{3}\b) )
  | an?\s (?:\w+\s){0,2} error\s (?:has\s)?occurred
  | (?-i: (?:\w+\.)* [A-Z]\w*(?:Error|Exception) ): \s
  | exception (?: \s*: | \s occurred )
  | (?:failed|unable)\s to\s [a-z]+
  | (?:failed|failure|fatal|denied) \s*: \s* [^\s\d]
  | (?:cannot|can't|can\s not|could\s not|couldn't)\s
      (?:access|complete|connect|convert|create|decode|delete|execute|fetch|find|load|locate|open
        |parse|perform|process|read|resolve|retrieve|save|write)\b
  | unknown\s (?:tool|function|method|command|operation|argument|parameter|option)\b
  | unknown\s [\w '-]{1,40}:
  | invalid\s [\w '-]{1,40}:
  | (?:access|permission)\s denied\b
    """,
    re.IGNORECASE | re.VERBOSE,
)


def says_error(text: str) -> bool:
    """Whether a text that claims to be a result says in its first words that the call failed."""
    text = text.strip()
    if _TRACE.match(text):
        return len(text) <= _LONGEST_TRACE
    return len(text) <= _LONGEST_WORDS and _ERROR.match(text) is not None


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
