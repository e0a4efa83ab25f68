"""The pieces of a skeleton's texts: constants, and slots with how their values are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

from toolloom.pipeline.store.files import to_text
from toolloom.schemas import JsonObject, marker
from toolloom.schemas.template import CLOSE, OPEN

MARK = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
STRAY = re.compile(f"[{OPEN}{CLOSE}]")
OURS = "#"  # begins names of ours, which no slot has
NAME = f"{OURS}name"


class TemplateMisfit(ValueError):
    """A template that no row can be made of: its slots and choices do not fit each other."""


class Slot(NamedTuple):
    """A slot in a text: what is written of its value, and how often that is escaped."""

    name: str
    kind: str  # "json", "inner" (inside a string of JSON) or "raw" (a text's own letters)
    depth: int = 0


Piece: TypeAlias = str | Slot
Indices: TypeAlias = Sequence[Sequence[int]]
"""For each choice the places of its rows, one for each row of data."""


def text_of(value: Any) -> str:
    """A value as a longer text holds it: strings as they are, all else as JSON."""
    return value if isinstance(value, str) else to_text(value)


def escaped(text: str) -> str:
    """A text as it stands inside a string of JSON."""
    return to_text(text)[1:-1]


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """A part of a skeleton with its slots filled. Of tool messages only their own JSON is."""
    if isinstance(value, str):
        if (whole := MARK.fullmatch(value)) is not None:
            return values[whole[1]]
        return MARK.sub(lambda found: text_of(values[found[1]]), value)
    if isinstance(value, list):
        return [filled(part, values) for part in value]
    if isinstance(value, dict):
        return {key: filled(part, values) for key, part in value.items()}
    return value


class Text:
    """A text with slots, as pieces: constants, and for each slot the texts of its values."""

    def __init__(self, pieces: Iterable[Piece], table: Callable[[Slot], tuple[int, list[str]]]):
        self.constants: list[str] = [""]
        self.slots: list[tuple[int, list[str]]] = []  # choice, the texts of its rows
        for piece in pieces:
            if isinstance(piece, str):
                self.constants[-1] += piece
            else:
                self.slots.append(table(piece))
                self.constants.append("")

    def fill(self, row: Sequence[int], name: str = "") -> str:
        """The text of one row; `name` goes where the id belongs."""
        parts = [self.constants[0]]
        for (choice, texts), constant in zip(self.slots, self.constants[1:], strict=True):
            parts += (texts[row[choice]] if choice >= 0 else name, constant)
        return "".join(parts)

    def fill_many(self, places: Indices, names: Sequence[str], count: int) -> list[str]:
        """The texts of rows; `names` are escaped already."""
        if not self.slots:
            return [self.constants[0]] * count
        parts: list[Iterable[str]] = []
        for constant, (choice, texts) in zip(self.constants, self.slots, strict=False):
            if constant:
                parts.append(repeat(constant))
            parts.append(names if choice < 0 else map(texts.__getitem__, places[choice]))
        if self.constants[-1]:
            parts.append(repeat(self.constants[-1]))
        return list(map("".join, zip(*parts, strict=False)))


def grouped(skeleton: JsonObject) -> tuple[JsonObject, dict[str, list[Piece]]]:
    """The skeleton with a mark in place of each text that follows rules of its own.

    Those are what people and assistants say, which is text whatever fills it, and the content of
    tool messages, which is JSON in JSON.
    """
    groups: dict[str, list[Piece]] = {}

    def put(text: str, pieces: list[Piece]) -> str:
        if not MARK.search(text):
            return text
        name = f"{OURS}{len(groups)}"
        groups[name] = pieces
        return marker(name)

    dialogue = skeleton["dialogue"]
    messages = []
    for message in dialogue["messages"]:
        text = message["content"]
        if text and STRAY.search(text):
            pieces = _observed(text) if message["role"] == "tool" else raw(text)
            message = {**message, "content": put(text, pieces)}
        messages.append(message)
    said = dialogue["query"]["text"]
    query = {**dialogue["query"], "text": put(said, raw(said))}
    return {**skeleton, "dialogue": {**dialogue, "query": query, "messages": messages}}, groups


def unescaped(content: str) -> str:
    """An observation's JSON with its slots as they are, also if it was written in ASCII."""
    if "\\ue000" not in content:
        return content
    try:
        return to_text(json.loads(content))
    except (ValueError, RecursionError):
        return content


def _observed(content: str) -> list[Piece]:
    """The pieces of a tool message's content, whose JSON is written anew."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TemplateMisfit("an observation with slots is no JSON") from error
    if odd_keys(value):
        raise TemplateMisfit("a slot stands in the name of a field of an observation")
    return pieces_of(to_text(value))


def odd_keys(value: Any) -> bool:
    """Whether a slot stands in a key, which is always written as it is."""
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, dict):
            stack += part.values()
            if any(STRAY.search(key) for key in part):
                return True
        elif isinstance(part, list):
            stack += part
    return False


def raw(text: str) -> list[Piece]:
    return [Slot(part, "raw") if odd else part for part, odd in _parted(text)]


def _parted(text: str) -> Iterator[tuple[str, bool]]:
    """Constant parts and slots of a text in turn."""
    for place, part in enumerate(MARK.split(text)):
        if place % 2 == 0 and STRAY.search(part):
            raise TemplateMisfit("half a slot stands in the sample")
        yield part, place % 2 == 1


def pieces_of(text: str) -> list[Piece]:
    """The pieces of JSON whose strings hold slots. One that is all of a string takes its quotes."""
    pieces: list[Piece] = [Slot(part, "inner") if odd else part for part, odd in _parted(text)]
    for place in range(1, len(pieces), 2):
        before, slot, after = pieces[place - 1 : place + 2]
        assert isinstance(before, str) and isinstance(slot, Slot) and isinstance(after, str)
        # A quote that is escaped belongs to the words: one that opens a string never is.
        if before.endswith('"') and not before.endswith('\\"') and after.startswith('"'):
            pieces[place - 1 : place + 2] = before[:-1], slot._replace(kind="json"), after[1:]
    return pieces


def spread(pieces: Iterable[Piece], groups: Mapping[str, list[Piece]]) -> Iterator[Piece]:
    """Pieces with those of the groups in their places, as text of a string of JSON."""
    for piece in pieces:
        if isinstance(piece, str) or piece.name not in groups:
            if isinstance(piece, Slot) and piece.name == NAME:
                yield '"'
                yield piece
                yield '"'
            else:
                yield piece
            continue
        yield '"'
        for inner in groups[piece.name]:
            yield escaped(inner) if isinstance(inner, str) else inner._replace(depth=1)
        yield '"'


def written(value: Any, slot: Slot, dump: Callable[[Any], str]) -> str:
    if slot.kind == "json":
        text = dump(value)
    else:
        text = text_of(value) if slot.kind == "raw" else escaped(text_of(value))
    return escaped(text) if slot.depth else text
