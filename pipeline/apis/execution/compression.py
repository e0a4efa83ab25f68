"""Long observations made short, without a model (after ToolLLM, appendix A.2).

Tokens are estimated: UTF-8 bytes of the compact JSON, divided by 4 and rounded up.
"""

from __future__ import annotations

import json
import math
from typing import Any

from toolloom.pipeline.checks.schema import as_dict, fits
from toolloom.schemas import JsonObject

# First items of a list that stay, and characters of a text, step by step.
STEPS = ((50, 800), (20, 400), (10, 200), (5, 200), (3, 100), (1, 100), (1, 50))
DEEPEST = 60
CUT = "…"


def tokens(value: Any) -> int:
    """How many tokens a value's JSON is, about."""
    return _tokens(_compact(value))


def compress(response: Any, schema: JsonObject | None, limit: int) -> tuple[Any, int | None]:
    """A response of at most `limit` tokens, and how many the whole one had if it was longer.

    Lists keep their first items, and long texts are cut, further step by step. What is left fits
    its schema if the whole one did. If all that is not enough, the beginning of the JSON is kept,
    as text.
    """
    text = _compact(response)
    whole = _tokens(text)
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
    return beginning(text, limit), whole


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


def _tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (RecursionError, TypeError, ValueError):  # too deep, or no JSON: only a copy is
        return _compact(_short(value, 10**9, 10**9))
