"""Is a value plain JSON of a size worth checking? Model output and API documents are hostile."""

from __future__ import annotations

import math
import re
from typing import Any

_DEPTH = 24
_NODES = 20_000
_LETTERS = 100_000
_HALF = re.compile(r"[\ud800-\udfff]")  # of a surrogate pair
_SMALL = 2**53
_LEAVES = (bool, int, float)
_DIGITS = 300  # more make no float; from 4,300 Python refuses to print an integer


def oddity(value: Any) -> str | None:
    """What makes a value no plain JSON of bearable depth and size, or None. Never recurses."""
    if type(value) is str and value.isascii() and len(value) <= _LETTERS:
        return None
    return None if _is_plain(value) else _fault(value)


def _is_plain(value: Any) -> bool:
    """The same as yes or no, a level at a time: nearly all values are, so this has to be quick."""
    level, nodes, letters = [value], 1, 0
    for _ in range(_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                letters += len(item)
                if not item.isascii() and _HALF.search(item):
                    return False
            elif kind is dict:
                try:
                    keys = "".join(item)
                except TypeError:
                    return False
                letters += len(keys)
                nodes += len(item)
                if not keys.isascii() and _HALF.search(keys):
                    return False
                below += item.values()
            elif kind is list:
                below += item
            elif kind is int and -_SMALL < item < _SMALL:
                continue
            elif item is not None and (kind not in _LEAVES or _odd_leaf(item)):
                return False
        nodes += len(below)
        if nodes > _NODES or letters > _LETTERS:
            return False
        if not below:
            return True
        level = below
    return False


def _fault(value: Any) -> str | None:
    stack: list[tuple[Any, int]] = [(value, 0)]
    nodes = letters = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if depth > _DEPTH:
            return f"nested deeper than {_DEPTH} levels"
        if isinstance(item, str):
            letters += len(item)
            if not item.isascii() and _HALF.search(item):
                return "half a surrogate pair"
        elif isinstance(item, dict):
            depth += 1
            stack += [(key, depth) for key in item]
            stack += [(part, depth) for part in item.values()]
            if not all(isinstance(key, str) for key in item):
                return "a key that is no string"
        elif isinstance(item, list):
            depth += 1
            stack += [(part, depth) for part in item]
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
