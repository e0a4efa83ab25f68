"""Whether a rendered text still has what a conversation says, calls and observes.

Templates drop calls, results or arguments without a word. So all of them are looked for in the
text, in their order: a value that only the user said does not stand in for the argument.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from toolloom.schemas import JsonObject


def lost(text: str, messages: list[JsonObject]) -> str | None:
    """The first thing that is missing, in words; None if nothing is."""
    at, start = 0, 0
    for place, message in enumerate(messages):
        role = message["role"]
        if role in ("system", "developer"):
            continue  # templates move it
        if role != "tool":
            start = at
        content = (message.get("content") or "").strip()
        if content:
            # Results of one turn may stand between its calls.
            end = _after(text, content, start if role == "tool" else at)
            if end is None:
                what = "the observation" if role == "tool" else f"what the {role} says"
                return f"{what} in message {place} is lost"
            at = max(at, end)
        for call in message.get("tool_calls") or ():
            function = call["function"]
            end, why = _call(text, function["name"], function["arguments"], at)
            if why:
                return f"message {place}: {why}"
            at = max(at, end)
    return None


def _call(text: str, name: str, arguments: Any, at: int) -> tuple[int, str | None]:
    """The place after a call, or what of it is missing."""
    # A name of its own: not the beginning of a longer one.
    found = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])").search(text, at)
    if not found:
        return at, f"the call of {name} is lost"
    at = found.end()
    if isinstance(arguments, str):
        return _written(text, name, arguments, at)
    ends = [at]
    for leaf in _leaves(arguments):
        end = _after(text, leaf, at)
        if end is None:
            return at, f"{leaf!r} of the call of {name} is lost"
        ends.append(end)
    return max(ends), None  # templates sort keys: the last one need not come last


def _written(text: str, name: str, arguments: str, at: int) -> tuple[int, str | None]:
    """Arguments as text must stand as they are; quoted, they are no object to the model."""
    places = {text.find(json.dumps(arguments, ensure_ascii=e), at) for e in (True, False)} - {-1}
    found = text.find(arguments, at)
    if places and min(places) <= (found if found >= 0 else min(places)):
        return at, f"the arguments of {name} are written as a quoted text: objects are needed"
    if found < 0:
        return at, f"the arguments of {name} are lost"
    return found + len(arguments), None


def _leaves(value: Any) -> Iterator[str]:
    """Keys and values of arguments, as text."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, str):
        if value.strip():
            yield value.strip()
    else:
        yield json.dumps(value)


def _after(text: str, wanted: str, at: int) -> int | None:
    """The place after the first of the ways to write a text, or None."""
    ends = [found + len(way) for way in _ways(wanted) if (found := text.find(way, at)) >= 0]
    return min(ends, default=None)


def _ways(wanted: str) -> set[str]:
    """As it is, escaped as in JSON, or as Python writes it."""
    python = {"true": "True", "false": "False", "null": "None"}.get(wanted, repr(wanted)[1:-1])
    return {wanted, python, *(json.dumps(wanted, ensure_ascii=e)[1:-1] for e in (True, False))}
