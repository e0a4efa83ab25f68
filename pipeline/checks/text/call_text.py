"""API-Bank's call text, `[Name(key='value', …)]` (Figure 4), written and read.

What `write` writes, `parse` reads back exactly. `parse` also reads the annotated calls as people
wrote them, with bare quotes, lists and commas inside values: where a value is no literal it ends
only before the next `, key=` or the closing bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from toolloom.schemas import FunctionCall

_DEPTH = 60
_START = re.compile(r"\s*(?:API-Request\s*:)?\s*(?P<open>\[)?\s*", re.IGNORECASE)
_NAME = re.compile(r"\s*([A-Za-z_][\w.-]*|\d[\w.-]*[A-Za-z_-][\w.-]*)\s*\(\s*")
_KEY = re.compile(r"([A-Za-z_][\w.\[\]-]*|'(?:[^'\\]|\\.)*')\s*=\s*")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.\[\]-]*")
_NUMBER = re.compile(r"[+-]?(?:\d{1,4000}\.?\d{0,400}|\.\d{1,400})(?:[eE][+-]?\d{1,4})?(?![\w.])")
_CONSTANT = re.compile(r"(True|true|False|false|None|null)(?!\w)")
_CONSTANTS = {"true": True, "false": False, "none": None, "null": None}
_VALUE_END = re.compile(
    r"\s*(?:,\s*(?=(?:[A-Za-z_][\w.\[\]-]*|'(?:[^'\\]|\\.)*')\s*=)|\)\s*(?=[,\]]|$))"
)
_LAST_END = re.compile(r"\s*\)\s*(?=\]\s*$|,\s*[A-Za-z_][\w.-]*\s*\(|$)")
_NEXT_KEY = re.compile(r"\s*,\s*(?=[A-Za-z_][\w.\[\]-]*\s*=)")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_UNESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_CODES = {"x": 2, "u": 4, "U": 8}


class CallTextError(ValueError):
    """Text that is no call. `position` is the index of the first letter that does not fit."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at character {position}")
        self.position = position


def write(calls: Iterable[FunctionCall]) -> str:
    """Calls as API-Bank writes them. Raises CallTextError for arguments that were never read."""
    return f"[{', '.join(_call(call) for call in calls)}]"


def _call(call: FunctionCall) -> str:
    if isinstance(call.arguments, str):
        raise CallTextError(f"the arguments of {call.name} are unread text", 0)
    pairs = (f"{_key(key)}={_literal(value)}" for key, value in call.arguments.items())
    return f"{call.name}({', '.join(pairs)})"


def _key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _literal(key)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return f"'{''.join(_ESCAPES.get(c) or _printable(c) for c in value)}'"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_literal(k)}: {_literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return repr(value)


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def parse(text: str) -> tuple[FunctionCall, ...]:
    """Read calls from text; a missing outer bracket is allowed. Raises CallTextError."""
    start = _START.match(text)
    assert start  # it also matches nothing
    at, bracketed = start.end(), start["open"] is not None
    calls: list[FunctionCall] = []
    while not (bracketed and not calls and text[at : at + 1] == "]"):
        call, at = _read_call(text, at)
        calls.append(call)
        if text[at : at + 1] != ",":
            break
        at += 1
    if bracketed:
        at = _past(text, at, "]")
    if text[at:].strip():
        raise CallTextError("text after the last call", at)
    return tuple(calls)


def _past(text: str, at: int, mark: str) -> int:
    if text[at : at + 1] != mark:
        raise CallTextError(f"`{mark}` expected", at)
    return at + 1


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _read_call(text: str, at: int) -> tuple[FunctionCall, int]:
    """A call and the place after it and the space that follows."""
    name = _NAME.match(text, at)
    if not name:
        raise CallTextError("a function name and `(` expected", at)
    at, arguments = name.end(), dict[str, Any]()
    closed = text[at : at + 1] == ")"
    at += closed
    while not closed:
        key = _KEY.match(text, at)
        if not key:
            raise CallTextError("`key=` expected", at)
        named = _string(key[1], 0)[0] if key[1].startswith("'") else key[1]
        arguments[named], at, closed = _read_value(text, key.end())
    return FunctionCall(name=name[1], arguments=arguments), _skip(text, at)


def _read_value(text: str, at: int) -> tuple[Any, int, bool]:
    """A value, the place after its end mark, and whether that mark closes the call."""
    try:
        value, after = _value(text, at, 0)
        end = _VALUE_END.match(text, after)
    except CallTextError:
        end = None
    if end:
        return value, end.end(), ")" in end.group()
    return _sloppy(text, at)


def _sloppy(text: str, at: int) -> tuple[Any, int, bool]:
    """A value that is no literal: up to the next `, key=` or the closing bracket."""
    ends = [m for m in (_NEXT_KEY.search(text, at), _LAST_END.search(text, at)) if m]
    if not ends:
        raise CallTextError("a value without an end", at)
    end = min(ends, key=lambda m: m.start())
    raw = text[at : end.start()].strip()
    if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "'\"":
        raw = raw[1:-1]
    return raw, end.end(), ")" in end.group()


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    """A literal at a place and the place after it."""
    if depth > _DEPTH:
        raise CallTextError(f"nested deeper than {_DEPTH} levels", at)
    first = text[at : at + 1]
    if first and first in "'\"":
        return _string(text, at)
    if first == "[":
        return _list(text, at + 1, depth)
    if first == "{":
        return _object(text, at + 1, depth)
    if constant := _CONSTANT.match(text, at):
        return _CONSTANTS[constant[1].lower()], constant.end()
    if number := _NUMBER.match(text, at):
        digits = number.group()
        whole = digits.lstrip("+-").isdigit()
        return int(digits) if whole else float(digits), number.end()
    raise CallTextError("a value expected", at)


def _string(text: str, at: int) -> tuple[str, int]:
    quote, letters, at = text[at], list[str](), at + 1
    while at < len(text):
        letter = text[at]
        if letter == quote:
            return "".join(letters), at + 1
        if letter == "\\":
            letter, at = _escape(text, at + 1)
        else:
            at += 1
        letters.append(letter)
    raise CallTextError("a string without an end", at)


def _escape(text: str, at: int) -> tuple[str, int]:
    """What an escape stands for and the place after it; an unknown one stands for itself."""
    kind = text[at : at + 1]
    digits = text[at + 1 : at + 1 + _CODES.get(kind, 0)]
    whole = bool(digits) and len(digits) == _CODES[kind]
    if whole and re.fullmatch(r"[0-9a-fA-F]+", digits) and int(digits, 16) <= 0x10FFFF:
        return chr(int(digits, 16)), at + 1 + len(digits)
    if kind and kind in "\\'\"":
        return kind, at + 1
    return _UNESCAPES.get(kind, "\\" + kind), at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _skip(text, at)
    while text[at : at + 1] != "]":
        item, at = _value(text, at, depth + 1)
        items.append(item)
        at = _separator(text, at, "]")
    return items, at + 1


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    items: dict[str, Any] = {}
    at = _skip(text, at)
    while text[at : at + 1] != "}":
        if text[at : at + 1] not in {"'", '"'}:
            raise CallTextError("a quoted key expected", at)
        key, at = _string(text, at)
        at = _skip(text, _past(text, _skip(text, at), ":"))
        items[key], at = _value(text, at, depth + 1)
        at = _separator(text, at, "}")
    return items, at + 1


def _separator(text: str, at: int, close: str) -> int:
    """The place of the next item, or of the closing mark."""
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != close:
        raise CallTextError(f"`,` or `{close}` expected", at)
    return at
