"""The one reader of YAML: recipes, templates, worlds, API documents, with the line of each value.

    found = read_yaml("name: shop\\nseed: 3")
    found.value, found.lines[("seed",)]          # {"name": "shop", "seed": 3}, 2

It builds from the parser's events, without recursion: PyYAML's own composer ends the process on
a document that is nested a hundred thousand levels deep. Dates, `yes` and the like stay text, all
keys are text, nothing is constructed, and depth and number of values are bounded, also of what
aliases multiply.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

Place: TypeAlias = tuple[str | int, ...]
"""Keys and numbers from the top of a document to a value."""

_CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]{0,30})?\.[0-9]{1,40}|(?:0|[1-9][0-9]{0,30})\.?)(?:[eE][-+]?[0-9]{1,2})?"
)
_HINTS = {
    "cannot start any token": " Indent with spaces, not tabs; quote text that begins with a sign.",
    "mapping values are not allowed": " Quote text that holds a colon and a space.",
    "did not find expected": " Look at how far the lines are indented.",
}


class UnreadableYaml(ValueError):
    """A text that is no YAML, or of a kind that is not read. Lines begin at 1; 0: not known."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}" if line else what)


@dataclass
class YamlDocument:
    """What a text holds. `repeated`: keys that stand twice in a mapping; the last one counts."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    repeated: list[Place] = field(default_factory=list)
    texts: list[tuple[Place, str]] = field(default_factory=list)  # those not of visible ASCII


def line_of(lines: Mapping[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest one around it that is known; 0 if none is."""
    while place and place not in lines:
        place = place[:-1]
    return lines[place] if place else 0


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not come."""

    value: Any
    place: Place
    line: int
    anchor: str | None
    before: int  # values that were counted before it
    key: Any = None  # of a mapping, read and waiting for its value
    merged: list[Any] | None = None  # what stands under `<<`


_MERGE: Any = object()


def read_yaml(
    text: str,
    *,
    deepest: int = 20,
    most: int = 100_000,
    plain: bool = True,
    shared: bool = True,
    located: bool = True,
    loader: Any = yaml.CSafeLoader,
) -> YamlDocument:
    """The one document of a text. Raises UnreadableYaml.

    `plain`: `3` is a number and `true` a truth; else every scalar is text. `shared`: anchors,
    aliases, merge keys and tags are read, and only the first of several documents; else they are
    refused, and a block of text has no last line's end. `located`: places are remembered.
    """
    try:
        return _built(yaml.parse(text, Loader=loader), deepest, most, plain, shared, located)
    except yaml.YAMLError as problem:
        raise _unreadable(problem) from problem


def _built(
    events: Any, deepest: int, most: int, plain: bool, shared: bool, located: bool
) -> YamlDocument:
    found = YamlDocument()
    lines, texts = found.lines, found.texts
    anchors: dict[str, tuple[Any, int]] = {}
    stack: list[_Open] = []
    parent: _Open | None = None
    count = documents = 0
    value: Any
    for event in events:
        kind = type(event)
        line = event.start_mark.line + 1
        anchor = getattr(event, "anchor", None)
        if anchor is not None and not shared:
            sign = "*" if kind is yaml.AliasEvent else "&"
            raise UnreadableYaml(
                line,
                f"`{sign}{anchor}`: anchors and aliases are not read. Write the values out, or "
                "quote the text.",
            )
        if kind is yaml.ScalarEvent:
            count += 1
            tag, style = event.tag, event.style
            if tag and not shared and not (tag == "!" and style):
                raise UnreadableYaml(line, f"the tag `{tag}` is not read. Leave it out.")
            value = event.value
            if parent is not None and parent.key is None and type(parent.value) is dict:
                parent.key = _MERGE if value == "<<" and not style and shared else value
                if located:
                    lines[(*parent.place, value)] = line
                if not (value.isascii() and value.isprintable()):
                    texts.append((parent.place, value))
                if value in parent.value:
                    found.repeated.append((*parent.place, value))
                continue
            if not (value.isascii() and value.isprintable()):
                texts.append((_place(parent), value))
            if style or not plain or (tag or "").endswith(":str"):
                if style and style in "|>" and not shared:
                    value = value.removesuffix("\n")
            elif value in _CONSTANTS:
                value = _CONSTANTS[value]
            elif value[0] in "+-.0123456789":
                if _INTEGER.fullmatch(value):
                    value = int(value)
                elif _FLOAT.fullmatch(value):
                    value = float(value)
            if anchor is not None:
                anchors[anchor] = value, 1
            if located:
                lines.setdefault(_place(parent), line)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            count += 1
            if event.tag and not shared:
                raise UnreadableYaml(line, f"the tag `{event.tag}` is not read. Leave it out.")
            if len(stack) >= deepest:
                raise UnreadableYaml(line, f"nested too deeply: {deepest} levels are read.")
            if not shared and parent and parent.key is None and type(parent.value) is dict:
                raise UnreadableYaml(line, "a key must be plain text.")
            place = _place(parent) if located else ()
            if located:
                lines.setdefault(place, line)
            value = {} if kind is yaml.MappingStartEvent else []
            parent = _Open(value, place, line, anchor, count)
            stack.append(parent)
            if anchor is not None:
                anchors[anchor] = _MERGE, 0  # until its end
            continue
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            ended = stack.pop()
            value = ended.value
            for each in ended.merged or ():  # what is merged fills gaps
                for key, inner in each.items():
                    value.setdefault(key, inner)
            if ended.anchor is not None:
                anchors[ended.anchor] = value, count - ended.before + 1
            parent = stack[-1] if stack else None
        elif kind is yaml.AliasEvent:
            if anchor not in anchors or anchors[anchor][0] is _MERGE:
                why = "refers to itself" if anchor in anchors else "has no anchor"
                raise UnreadableYaml(line, f"the alias `*{anchor}` {why}.")
            value, size = anchors[anchor]
            count += size
        elif kind is yaml.DocumentStartEvent:
            documents += 1
            if documents > 1 and not shared:
                raise UnreadableYaml(line, "a second document begins; one is read.")
            continue
        elif kind is yaml.DocumentEndEvent and shared:
            break
        else:
            continue
        if count > most:
            raise UnreadableYaml(line, f"more than {most:,} values. Split the file.")
        if parent is None:
            found.value = value
        elif type(parent.value) is list:
            parent.value.append(value)
        elif parent.key is None:  # a list, a mapping or an alias as a key
            parent.key = value if isinstance(value, str) else "?"
        else:
            key, parent.key = parent.key, None
            if key is not _MERGE:
                parent.value[key] = value
            else:
                parts = value if isinstance(value, list) else [value]
                parent.merged = (parent.merged or []) + [p for p in parts if isinstance(p, dict)]
    return found


def _place(parent: _Open | None) -> Place:
    """Where the value that comes next stands."""
    if parent is None:
        return ()
    if type(parent.value) is list:
        return (*parent.place, len(parent.value))
    key = "<<" if parent.key is _MERGE else "?" if parent.key is None else parent.key
    return (*parent.place, key)


def _unreadable(error: yaml.YAMLError) -> UnreadableYaml:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        position, why = getattr(error, "position", None), getattr(error, "reason", None)
        if position is not None and why:
            return UnreadableYaml(0, f"is not valid YAML: {why} (character {position:,}).")
        return UnreadableYaml(0, f"is not valid YAML: {' '.join(str(error).split())[:200]}.")
    hint = next((told for sign, told in _HINTS.items() if sign in str(problem)), "")
    return UnreadableYaml(mark.line + 1, f"is not valid YAML: {problem}.{hint}")
