"""The types of values in a world, and what is said where one does not fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, TypeAlias

Kind: TypeAlias = dict[str, Any]
"""A type: {"type": text, integer, number, boolean, date, time, datetime, choice, ref, row,
list, object, null or any, …}, with `entity`, `choices`, `of` or `fields` where it has them."""
Tree: TypeAlias = list[Any]

TEXT: Kind = {"type": "text"}
NUMBER: Kind = {"type": "number"}
INTEGER: Kind = {"type": "integer"}
BOOLEAN: Kind = {"type": "boolean"}
DATE: Kind = {"type": "date"}
TIME: Kind = {"type": "time"}
DATETIME: Kind = {"type": "datetime"}
NOTHING: Kind = {"type": "null"}
ANY: Kind = {"type": "any"}

NUMBERS = ("integer", "number")
MOMENTS = ("date", "time", "datetime")


class Mistake(Exception):
    """A text that cannot be read: what is wrong, and what can stand there."""


def row_of(entity: str) -> Kind:
    return {"type": "row", "entity": entity}


def list_of(kind: Kind) -> Kind:
    return {"type": "list", "of": kind}


def said(kind: Kind) -> str:
    """A type as a finding says it."""
    form = kind["type"]
    if form == "choice":
        return f"one of {', '.join(kind['choices'])}"
    if form == "ref":
        return f"a key of {kind['entity']}"
    if form == "row":
        return f"a row of {kind['entity']}"
    if form == "list":
        return f"a list of {said(kind['of'])}"
    return {"null": "nothing", "integer": "a number", "any": "any value"}.get(form, f"a {form}")


def near(name: str, names: Iterable[str]) -> str:
    """The names that can stand for one that is not known: the likest, or all if they are few."""
    every = sorted(set(names))
    like = difflib.get_close_matches(name, every, 3, 0.6)
    chosen = like or every[:12]
    return f"; {', '.join(chosen)} can stand here" if chosen else ""


def fits(kind: Kind, other: Kind) -> bool:
    """Whether values of two types can be compared or set."""
    one, two = kind["type"], other["type"]
    if "null" in (one, two) or "any" in (one, two):
        return True
    if one in NUMBERS and two in NUMBERS:
        return True
    if one == "ref" and two == "ref":
        return bool(kind["entity"] == other["entity"])
    if {one, two} <= {"text", "choice", "ref"}:
        return "ref" not in (one, two)
    if one == "list" and two == "list":
        return fits(kind["of"], other["of"])
    return bool(one == two)
