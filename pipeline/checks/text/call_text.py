"""API-Bank's call text, `[Name(key='value', …)]` (Figure 4), written and read.

What `write` writes, `parse` reads back exactly: values are literals of Python. `parse` also reads
the annotated calls as people wrote them, with bare quotes, lists and commas inside values: where a
value is no literal it ends only before the next `, key=` or the closing bracket.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from itertools import islice
from typing import Any

from toolloom.schemas import FunctionCall

_START = re.compile(r"\s*(?:API-Request\s*:)?\s*(?P<open>\[)?\s*", re.IGNORECASE)
_NAME = re.compile(r"\s*([A-Za-z_][\w.-]*|\d[\w.-]*[A-Za-z_-][\w.-]*)\s*\(\s*")
_QUOTED = r"'(?:[^'\\]|\\.)*'"
_KEY = re.compile(rf"([A-Za-z_][\w.\[\]-]*|{_QUOTED})\s*=\s*")
_COMMA, _END = re.compile(r"\s*,"), re.compile(r"\s*\]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w.\[\]-]*")
# Where a literal may end, and where text that is none ends.
_VALUE_END = re.compile(rf"\s*(?:,\s*(?=(?:[A-Za-z_][\w.\[\]-]*|{_QUOTED})\s*=)|\)\s*(?=[,\]]|$))")
_LAST_END = re.compile(r"\s*\)\s*(?=\]\s*$|,\s*[A-Za-z_][\w.-]*\s*\(|$)")
_NEXT_KEY = re.compile(r"\s*,\s*(?=[A-Za-z_][\w.\[\]-]*\s*=)")
_MOST_ENDS = 50  # places at which a value may end that are tried
_LONGEST = 100_000  # letters of a literal
_DEPTH = 60
_CONSTANTS = {"true": True, "false": False, "null": None}  # as JSON writes them
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


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
            f"{key if _PLAIN_KEY.fullmatch(key) else _written(key)}={_written(value)}"
            for key, value in call.arguments.items()
        ]
        written.append(f"{call.name}({', '.join(pairs)})")
    return f"[{', '.join(written)}]"


def _written(value: Any) -> str:
    if isinstance(value, str):
        letters = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\U{ord(c):08x}") for c in value)
        return f"'{''.join(letters)}'"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_written(k)}: {_written(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)


def parse(text: str) -> tuple[FunctionCall, ...]:
    """Read calls from text; a missing outer bracket is allowed. Raises CallTextError."""
    start = _START.match(text)
    assert start  # it also matches nothing
    at, calls = start.end(), list[FunctionCall]()
    while not (start["open"] and not calls and text[at : at + 1] == "]"):
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
            named = literal(key[1]) if key[1].startswith("'") else key[1]
            value, at, closed = _value(text, key.end())
            arguments[str(named)] = value
        calls.append(FunctionCall(name=name[1], arguments=arguments))
        more = _COMMA.match(text, at)
        if not more:
            break
        at = more.end()
    if start["open"]:
        end = _END.match(text, at)
        if not end:
            raise CallTextError("`]` expected", at)
        at = end.end()
    if text[at:].strip():
        raise CallTextError("text after the last call", at)
    return tuple(calls)


def _value(text: str, begin: int) -> tuple[Any, int, bool]:
    """The value that begins here, the place after its end mark, and whether that ends the call."""
    for end in islice(_VALUE_END.finditer(text, begin), _MOST_ENDS):
        try:
            return literal(text[begin : end.start()]), end.end(), ")" in end.group()
        except ValueError:
            continue
    ends = [m for p in (_NEXT_KEY, _LAST_END) if (m := p.search(text, begin))]
    if not ends:
        raise CallTextError("a value without an end", begin)
    end = min(ends, key=lambda m: m.start())
    raw = text[begin : end.start()].strip()
    if len(raw) > 1 and raw[0] == raw[-1] and raw[0] in "'\"":
        raw = raw[1:-1]
    return raw, end.end(), ")" in end.group()


def literal(text: str) -> Any:
    """The value that Python writes so: text, numbers, constants, lists and dicts of text keys.

    JSON's constants count too. It is parsed, never evaluated. Raises ValueError for anything else.
    """
    if len(text) > _LONGEST:
        raise ValueError("it is too long")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return _read(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError("it is no literal") from error


def _read(node: ast.AST, depth: int) -> Any:
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(
            op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as n)
        ) if not isinstance(n, bool):
            return -n if isinstance(sign, ast.USub) else n
        case ast.List(elts=items) if depth < _DEPTH:
            return [_read(item, depth + 1) for item in items]
        case ast.Dict(keys=keys, values=values) if depth < _DEPTH:
            named = [key.value for key in keys if isinstance(key, ast.Constant)]
            if len(named) == len(keys) and all(isinstance(name, str) for name in named):
                return {str(k): _read(v, depth + 1) for k, v in zip(named, values, strict=True)}
    raise ValueError("it is no literal")
