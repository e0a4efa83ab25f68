"""Calls as they are compared with a benchmark's: the same, however they are written.

A call counts alone only if its values say enough to be no chance: two that are neither empty, true,
false nor a number below 10, or one of four words. Calls that say less count together, if they are
the whole of a gold answer and say enough together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.curation.rows import folded
from toolloom.schemas import JsonObject, canonical

ENOUGH = 2  # values that say something
_LONG = 4  # words of a value that says enough alone
_DEPTH = 20
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")
_CONSTANTS = {"true", "false", "none", "null", ""}


def plain_name(name: str) -> str:
    """«spotify.play», «spotify_play» and «SpotifyPlay» are one."""
    return re.sub(r"[\W_]+", "", name).casefold() or name


def plain(value: Any, depth: int = 0) -> Any:
    """A value as it is compared: 5, 5.0 and "5" are one, and so is text that differs in case."""
    if isinstance(value, dict) and depth < _DEPTH:
        return {plain_name(k): plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list) and depth < _DEPTH:
        return [plain(inner, depth + 1) for inner in value]
    if value is None or isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        return folded(value)
    if isinstance(value, str | int | float):
        return _number(value)
    return folded(repr(value))


def _number(value: str | int | float) -> str:
    if isinstance(value, int):
        return str(value)
    found = float(value)
    return str(int(found)) if found.is_integer() and abs(found) < 2**53 else repr(found)


def plain_call(name: str, arguments: JsonObject) -> str:
    """A call as text: equal for equal calls. Empty arguments are as none."""
    given = {plain_name(k): plain(v) for k, v in arguments.items() if v not in ("", None)}
    return f"{plain_name(name)} {canonical(given)}"


def says(value: Any, depth: int = 0) -> int:
    """How many of the values in a value say something."""
    if isinstance(value, dict | list) and depth < _DEPTH:
        inner = value.values() if isinstance(value, dict) else value
        return sum(says(each, depth + 1) for each in inner)
    text = plain(value)
    if not isinstance(text, str) or text in _CONSTANTS or re.fullmatch(r"-?\d", text):
        return 0
    return ENOUGH if len(text.split()) >= _LONG else 1


def fits(arguments: JsonObject, right: JsonObject) -> bool:
    """Whether arguments are among BFCL's right ones; what may be left out has `""` in its list."""
    given = {plain_name(k): v for k, v in arguments.items() if v not in ("", None)}
    allowed = {plain_name(k): v if isinstance(v, list) else [v] for k, v in right.items()}
    if not set(given) <= set(allowed):
        return False
    if any("" not in allowed[key] for key in set(allowed) - set(given)):
        return False
    return all(any(_same(value, one) for one in allowed[key]) for key, value in given.items())


def _same(value: Any, right: Any) -> bool:
    """Whether a value is a right one; objects inside it are of lists of right values again."""
    if isinstance(value, dict) and isinstance(right, dict):
        return fits(value, right)
    if isinstance(value, list) and isinstance(right, list):
        return len(value) == len(right) and all(map(_same, value, right))
    return bool(plain(value) == plain(right))


def written(name: str, arguments: JsonObject) -> str:
    """A call for people."""
    return f"{name}({', '.join(_arguments(arguments))})"


def _arguments(arguments: JsonObject) -> Iterator[str]:
    yield from (f"{key}={canonical(value)}" for key, value in arguments.items())
