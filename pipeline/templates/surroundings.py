"""What stands around the slots of a skeleton: constants, flags, and slots that stand together."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from toolloom.pipeline.checks.text.words import first_word, spaced, stems_of
from toolloom.pipeline.dataset.unfold import MARK
from toolloom.pipeline.templates.marks import is_unit, units
from toolloom.schemas import JsonObject
from toolloom.schemas.splits import needed

_GLUE = re.compile(r"[^\w\s]*_?")
_WORD = re.compile(r"[^\W\d_]+")
# Between two numbers, days or times these may make one of them.
_JOINING = frozenset(
    """
    to and through thru until till or of in the at past after before by x this tomorrow tonight a
    an half quarter hour hours minute minutes min mins h hr hrs second seconds day days night
    nights week weeks month months year years o clock
    """.split()  # noqa: SIM905 - a table of words
)


def texts(skeleton: JsonObject) -> Iterator[str]:
    """Every text that the checks compare with another, and the names of observed fields."""
    dialogue = skeleton["dialogue"]
    for message in dialogue["messages"]:
        content = message["content"] or ""
        if message["role"] == "tool":
            yield from _strings(_read(content))
        elif message["role"] != "system":
            yield content
        yield from (s for c in message["tool_calls"] for s in _strings(c["function"]["arguments"]))
    yield from (s for i in dialogue["query"]["intent"] for s in _strings(i["arguments"]))


def _read(content: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return content


def _strings(value: Any) -> Iterator[str]:
    """Strings, keys and numbers, as texts."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
            yield from map(spaced, part)
        elif isinstance(part, list):
            stack += part
            yield str(len(part))
        elif isinstance(part, str):
            yield part
        elif isinstance(part, int | float) and not isinstance(part, bool):
            yield json.dumps(part)


def constants(skeleton: JsonObject, now: dt.datetime) -> list[str]:
    """The words and phrases around the slots, each once, with those by which flags are said and
    the options of choices."""
    query = skeleton["dialogue"]["query"]
    found = {
        unit
        for text in texts(skeleton)
        for part in MARK.split(text)[::2]
        for unit in units(part, now)
    }
    for _, schema in _fields(query):
        options = schema.get("enum")
        found |= {o for o in options if isinstance(o, str)} if isinstance(options, list) else set()
    return sorted(found | _flag_words(query))


def flags(query: JsonObject) -> frozenset[str]:
    """The stems of the words by which a yes or no may be said."""
    return frozenset(stem for word in _flag_words(query) for stem in stems_of(word))


def _flag_words(query: JsonObject) -> set[str]:
    told = (
        f"{spaced(name)} {schema.get('description') or ''} {schema.get('title') or ''}"
        for name, schema in _fields(query)
        if "boolean" in str(schema.get("type"))
    )
    return {word for text in told for word in _WORD.findall(text)}


def _fields(query: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """The fields of the APIs that are called, at every depth, with their names."""
    stack: list[tuple[str, Any]] = [
        ("", schema) for api in needed(query) for schema in (api["parameters"], api["returns"])
    ]
    while stack:
        name, schema = stack.pop()
        if not isinstance(schema, dict):
            continue
        yield name, schema
        inner = schema.get("properties")
        stack += inner.items() if isinstance(inner, dict) else ()
        stack.append((name, schema.get("items")))


def scaled_slots(skeleton: JsonObject) -> Iterator[str]:
    """Slots with a unit, a share or a scale after them."""
    for text in texts(skeleton):
        parts = MARK.split(text)
        for slot, after in zip(parts[1::2], parts[2::2], strict=True):
            if after.lstrip(" -").startswith("%") or is_unit(first_word(after)):
                yield slot


def neighbours(skeleton: JsonObject) -> Iterator[tuple[str, str, bool]]:
    """Slots that stand together in a text, and whether they do whatever their values are.

    What nothing parts is one word; numbers, days and times may be one also over such words as
    «to».
    """
    for text in texts(skeleton):
        parts = MARK.split(text)
        slots = list(zip(parts[1::2], parts[2::2], strict=True))
        for (one, between), (other, _) in pairwise(slots):
            if _GLUE.fullmatch(between):
                yield one, other, True
            elif all(w.lower() in _JOINING for w in _WORD.findall(between)):
                yield one, other, False
