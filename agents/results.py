"""What a response tells, as facts a small model can put into one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from toolloom.agents.wording import Fact
from toolloom.schemas import Api, JsonObject

MOST = 4  # facts told of one response
LONGEST = 80  # characters of a value that is told


def told_by(api: Api, response: Any) -> list[Fact]:
    """The first few facts of a response: scalars at any depth, of a list its first item.

    A text is read as lines; `Author: Ada` names its fact, another line is a «result».
    """
    if isinstance(response, str):
        found = list(_lines(response))
    else:
        found = list(_leaves("", response, api.returns or {}))
    told = [f for f in found if f.value not in (None, "") and len(f.shown) <= LONGEST]
    return told[:MOST]


def _leaves(name: str, value: Any, schema: JsonObject) -> Iterator[Fact]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(_joined(name, key), part, _property(schema, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        yield from _leaves(name, value[0], _items(schema))
    elif value not in ([], {}):
        known = {"title": name, **schema} if name else schema
        yield Fact(name or "result", str(schema.get("description", "")), value, known)


def _joined(outer: str, inner: str) -> str:
    """`source` and `timezone` make `source_timezone`."""
    return f"{outer}_{inner}" if outer else inner


def _property(schema: JsonObject, name: str) -> JsonObject:
    found = schema.get("properties", {}).get(name, {})
    return found if isinstance(found, dict) else {}


def _items(schema: JsonObject) -> JsonObject:
    found = schema.get("items", {})
    return found if isinstance(found, dict) else {}


def _lines(text: str) -> Iterator[Fact]:
    for line in text.splitlines():
        name, colon, value = line.partition(": ")
        if colon and re.fullmatch(r"[A-Za-z][A-Za-z ]{0,24}", name) and value.strip():
            yield Fact(name.lower().replace(" ", "_"), "", value.strip(), {"type": "string"})
        elif line.strip() and not line.rstrip().endswith(":"):
            yield Fact("result", "", line.strip(), {"type": "string"})
