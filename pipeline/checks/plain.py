"""Is a value plain JSON of a size worth checking? Model output and API documents are hostile."""

from __future__ import annotations

import math
from typing import Any

_DEPTH = 24
_NODES = 20_000
_LETTERS = 100_000
_DIGITS = 300  # more make no float; from 4,300 Python refuses to print an integer


def oddity(value: Any) -> str | None:
    """What makes a value no plain JSON of bearable depth and size, or None. Never recurses."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    nodes = letters = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > _DEPTH:
            return f"nested deeper than {_DEPTH} levels"
        if isinstance(item, dict):
            stack.extend((part, depth + 1) for part in (*item.keys(), *item.values()))
            if not all(isinstance(key, str) for key in item):
                return "a key that is no string"
        elif isinstance(item, list):
            stack.extend((part, depth + 1) for part in item)
        elif isinstance(item, str):
            letters += len(item)
            if any("\ud800" <= c <= "\udfff" for c in item):
                return "half a surrogate pair"
        elif (fault := _odd_leaf(item)) is not None:
            return fault
        if nodes + len(stack) > _NODES or letters > _LETTERS:
            return f"larger than {_NODES} parts or {_LETTERS} letters"
    return None


def _odd_leaf(item: Any) -> str | None:
    if item is None or isinstance(item, bool):
        return None
    if isinstance(item, float):
        return None if math.isfinite(item) else f"{item} is no number of JSON"
    if isinstance(item, int):
        return None if item.bit_length() < _DIGITS * 3.32 else f"more than {_DIGITS} digits"
    return f"a {type(item).__name__}, which JSON does not have"
