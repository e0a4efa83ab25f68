"""What a Python file shows of its classes and constants, read as text and never run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolloom.schemas.base import JsonObject

_LONGEST = 4000  # letters of an expression
_RECORDS = {"TypedDict", "BaseModel", "NamedTuple"}
_ENUMS = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}


@dataclass(frozen=True)
class Member:
    """A field of a class, as it is written."""

    annotation: str = ""
    value: str | None = None


@dataclass(frozen=True)
class ClassShape:
    """A class of the same file, as far as it tells what its values look like."""

    bases: tuple[str, ...] = ()
    members: Mapping[str, Member] = field(default_factory=dict)
    dataclass: bool = False
    total: bool = True

    @property
    def is_enum(self) -> bool:
        return bool(_ENUMS & {*self.bases})

    @property
    def is_record(self) -> bool:
        return self.dataclass or bool(_RECORDS & {*self.bases})


def literal(node: ast.expr | None) -> tuple[bool, Any]:
    """(whether it is a literal that JSON can hold, its value)."""
    if node is None:
        return False, None
    try:
        return _plain(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False, None


def _plain(value: Any) -> tuple[bool, Any]:
    if value is None or isinstance(value, str | bool | int):
        return True, value
    if isinstance(value, float):
        return value == value and abs(value) != float("inf"), value
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_plain(part) for part in value]
        return all(known for known, _ in parts), [part for _, part in parts]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        made = {key: _plain(part) for key, part in value.items()}
        return all(known for known, _ in made.values()), {k: part for k, (_, part) in made.items()}
    return False, None


def parsed(written: str) -> ast.expr | None:
    if len(written) > _LONGEST:
        return None
    try:
        return ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def choices(values: list[Any]) -> JsonObject:
    kinds = {type(value) for value in values}
    names = {str: "string", bool: "boolean", int: "integer", float: "number"}
    kind = names.get(next(iter(kinds))) if len(kinds) == 1 else None
    return {**({"type": kind} if kind else {}), "enum": values}


def enumerated(shape: ClassShape) -> dict[str, Any]:
    """The values of an enum's members by name; `auto()` counts, or is the name in a StrEnum."""
    found: dict[str, Any] = {}
    for name, member in shape.members.items():
        if name.startswith("_") or member.value is None:
            continue
        node = parsed(member.value)
        known, value = literal(node)
        if isinstance(node, ast.Call):
            known, value = True, name.lower() if "StrEnum" in shape.bases else len(found) + 1
        if known and not isinstance(value, list | dict):
            found[name] = value
    return found
