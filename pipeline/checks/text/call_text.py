"""API-Bank's call text, `[Name(key='value', …)]` (Figure 4), written and read.

What `write` writes, `parse` reads back exactly. `parse` also reads the annotated calls as people
wrote them, with bare quotes, lists and commas inside values: where a value is no literal it ends
only before the next `, key=` or the closing bracket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from toolloom.schemas import FunctionCall

T = TypeVar("T")

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
    written = []
    for call in calls:
        if isinstance(call.arguments, str):
            raise CallTextError(f"the arguments of {call.name} are unread text", 0)
        pairs = [
            f"{key if _PLAIN_KEY.fullmatch(key) else _literal(key)}={_literal(value)}"
            for key, value in call.arguments.items()
        ]
        written.append(f"{call.name}({', '.join(pairs)})")
    return f"[{', '.join(written)}]"


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
    reader = _Reader(text)
    start = reader.match(_START)
    assert start  # it also matches nothing
    bracketed, calls = start["open"] is not None, list[FunctionCall]()
    while not (bracketed and not calls and reader.mark == "]"):
        calls.append(reader.call())
        if not reader.passes(","):
            break
    if bracketed:
        reader.need("]")
    if text[reader.at :].strip():
        raise CallTextError("text after the last call", reader.at)
    return tuple(calls)


class _Reader:
    """A place in a text, which moves past what is read there."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def mark(self) -> str:
        """The next letter; empty at the end."""
        return self.text[self.at : self.at + 1]

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def passes(self, mark: str) -> bool:
        """Whether this is the next letter, which is read then."""
        there = self.mark == mark
        self.at += there
        return there

    def need(self, mark: str) -> None:
        if not self.passes(mark):
            raise CallTextError(f"`{mark}` expected", self.at)

    def skip(self) -> None:
        while self.mark.isspace():
            self.at += 1

    def call(self) -> FunctionCall:
        """A call and the space that follows."""
        name = self.match(_NAME)
        if not name:
            raise CallTextError("a function name and `(` expected", self.at)
        arguments: dict[str, Any] = {}
        closed = self.passes(")")
        while not closed:
            key = self.match(_KEY)
            if not key:
                raise CallTextError("`key=` expected", self.at)
            named = _Reader(key[1]).string() if key[1].startswith("'") else key[1]
            arguments[named], closed = self.argument()
        self.skip()
        return FunctionCall(name=name[1], arguments=arguments)

    def argument(self) -> tuple[Any, bool]:
        """A value with its end mark, and whether that mark closes the call."""
        begin = self.at
        with suppress(CallTextError):
            value = self.value(0)
            if end := self.match(_VALUE_END):
                return value, ")" in end.group()
        # It is no literal: up to the next `, key=` or the closing bracket.
        ends = [m for p in (_NEXT_KEY, _LAST_END) if (m := p.search(self.text, begin))]
        if not ends:
            raise CallTextError("a value without an end", begin)
        end = min(ends, key=lambda m: m.start())
        raw = self.text[begin : end.start()].strip()
        if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "'\"":
            raw = raw[1:-1]
        self.at = end.end()
        return raw, ")" in end.group()

    def value(self, depth: int) -> Any:
        """A literal."""
        if depth > _DEPTH:
            raise CallTextError(f"nested deeper than {_DEPTH} levels", self.at)
        if self.mark in {"'", '"'}:
            return self.string()
        if self.passes("["):
            return list(self.items("]", lambda: self.value(depth + 1)))
        if self.passes("{"):
            return dict(self.items("}", lambda: self.pair(depth + 1)))
        if constant := self.match(_CONSTANT):
            return _CONSTANTS[constant[1].lower()]
        if number := self.match(_NUMBER):
            digits = number.group()
            return int(digits) if digits.lstrip("+-").isdigit() else float(digits)
        raise CallTextError("a value expected", self.at)

    def items(self, close: str, read: Callable[[], T]) -> Iterator[T]:
        """What stands between brackets, up to the closing one and past it."""
        self.skip()
        while not self.passes(close):
            yield read()
            self.skip()
            if self.passes(","):
                self.skip()
            elif self.mark != close:
                raise CallTextError(f"`,` or `{close}` expected", self.at)

    def pair(self, depth: int) -> tuple[str, Any]:
        if self.mark not in {"'", '"'}:
            raise CallTextError("a quoted key expected", self.at)
        key = self.string()
        self.skip()
        self.need(":")
        self.skip()
        return key, self.value(depth)

    def string(self) -> str:
        quote, letters = self.mark, list[str]()
        self.at += 1
        while letter := self.mark:
            self.at += 1
            if letter == quote:
                return "".join(letters)
            letters.append(self.escape() if letter == "\\" else letter)
        raise CallTextError("a string without an end", self.at)

    def escape(self) -> str:
        """What an escape stands for; an unknown one stands for itself."""
        kind = self.mark
        self.at += 1
        digits = self.text[self.at : self.at + _CODES.get(kind, 0)]
        whole = bool(digits) and len(digits) == _CODES[kind]
        if whole and re.fullmatch(r"[0-9a-fA-F]+", digits) and int(digits, 16) <= 0x10FFFF:
            self.at += len(digits)
            return chr(int(digits, 16))
        if kind and kind in "\\'\"":
            return kind
        return _UNESCAPES.get(kind, "\\" + kind)
