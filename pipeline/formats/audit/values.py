"""Values in text, and text in values: JSON as others write it, read within bounds.

Rows are hostile: nothing in them is evaluated, and neither depth nor size may cost much.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

from toolloom.llm.parsing import readings as repaired
from toolloom.pipeline.checks.text.call_text import CallTextError, parse
from toolloom.schemas import JsonObject

DEEPEST = 64  # nesting of a row, and again of JSON text in it
PARTS = 200_000  # values of a row
MOST_TURNS = 500
_LITERAL = 400_000  # letters that are read as Python writes them
_MENDED = 2_000  # letters that are mended: the time that takes grows with their square
_PRESENT = re.compile(
    r"\b(?:present moment|current (?:date|time|date and time|datetime)|today(?:'s date)?)\s*"
    r"(?:is|:)\s*(?:[A-Za-z]+,? )?(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d))?",
    re.IGNORECASE,
)


def excess(value: Any) -> str | None:
    """What makes a value too deep or too large to be looked at, or None."""
    stack, parts = [(value, 0)], 0
    while stack:
        item, depth = stack.pop()
        parts += 1
        if depth > DEEPEST:
            return f"it is nested deeper than {DEEPEST} levels"
        if isinstance(item, dict):
            stack += [(part, depth + 1) for part in item.values()]
        elif isinstance(item, list | tuple):
            stack += [(part, depth + 1) for part in item]
        if parts + len(stack) > PARTS:
            return f"it has more than {PARTS:,} parts"
    return None


def opened(value: Any, mend: bool = False) -> tuple[Any, str]:
    """The value of a text that is JSON, or nearly, and how it was read if it is not JSON.

    Anything else, and text that cannot be read, is given back. Python's way to write values is
    parsed, never evaluated. `mend`: also what json_repair makes of it.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in {"{", "["}:
        return value, ""
    for read, how in _WAYS:
        found = read(value)
        if isinstance(found, dict | list):
            return (value, "") if excess(found) else (found, how)
    if mend and len(value) <= _MENDED:
        found, how = next(repaired(value), (None, ""))
        if isinstance(found, dict | list) and not excess(found):
            return found, "is no JSON and was mended"
    return value, ""


def _json(written: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError):
        return None


def _loose(written: str) -> Any:
    try:
        return json.loads(written, strict=False)
    except (ValueError, RecursionError):
        return None


def _literal(written: str) -> Any:
    if len(written) > _LITERAL:
        return None
    try:
        call, *others = parse(f"value(it={written.strip()})")
    except (CallTextError, ValueError, RecursionError):
        return None
    single = not others and isinstance(call.arguments, dict) and call.arguments.keys() == {"it"}
    return call.arguments["it"] if single and isinstance(call.arguments, dict) else None


_WAYS = (
    (_json, ""),
    (_loose, "has line breaks in its strings"),
    (_literal, "is written as Python, not as JSON"),
)


def turns(value: Any) -> list[JsonObject] | str:
    """The turns of a column, of which each may be JSON text, or why they are none."""
    listed, _ = opened(value)
    if not isinstance(listed, list) or not listed:
        return "it has no turns"
    if len(listed) > MOST_TURNS:
        return f"it has more than {MOST_TURNS} turns"
    found = [opened(turn)[0] for turn in listed]
    wrong = next((n for n, turn in enumerate(found, 1) if not isinstance(turn, dict)), 0)
    return f"its turn {wrong} is no object" if wrong else found


def tagged(written: str, tag: str) -> tuple[str, list[str]]:
    """A text without its `<tag>…</tag>`, and what stands in them. One without an end stays."""
    start, end = f"<{tag}>", f"</{tag}>"
    outside, inside, at = list[str](), list[str](), 0
    while (opening := written.find(start, at)) >= 0:
        closing = written.find(end, opening)
        if closing < 0:
            break
        outside.append(written[at:opening])
        inside.append(written[opening + len(start) : closing])
        at = closing + len(end)
    return "".join([*outside, written[at:]]), inside


def joined(content: Any) -> Any:
    """Content in parts as one text, if all its parts are texts."""
    if isinstance(content, list) and content:
        parts = [p.get("text") if isinstance(p, dict) and "type" in p else p for p in content]
        words = [part for part in parts if isinstance(part, str)]
        return "".join(words) if len(words) == len(parts) else content
    return content


def present(told: str) -> dt.datetime | None:
    """The present a system turn tells, as ours do or in words much used for it."""
    found = _PRESENT.search(told)
    try:
        return dt.datetime.fromisoformat(f"{found[1]}T{found[2] or '00:00'}") if found else None
    except ValueError:
        return None
