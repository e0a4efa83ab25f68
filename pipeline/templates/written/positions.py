"""YAML with the line of every value: what people write by hand is told back by its lines.

Plain values alone: no tags, no anchors, no aliases, each key once. Dates and `yes` stay text.
"""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from toolloom.schemas import TemplateFileError

Place: TypeAlias = tuple[str | int, ...]
"""Keys and numbers from the top of a document to a value."""

LARGEST = 1_000_000  # bytes of a file
DEEPEST = 20
MOST_VALUES = 100_000
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,18}\.[0-9]{0,18}(?:[eE][-+]?[0-9]{1,3})?")
_HINTS = {
    "cannot start any token": " Indent with spaces, not tabs; quote text that begins with a sign.",
    "mapping values are not allowed": " Quote text that holds a colon and a space.",
    "did not find expected": " Look at how far the lines are indented.",
}
_UNSEEN = frozenset(["Cc", "Cf", "Co", "Cs", "Zl", "Zp"])  # Unicode's categories
_ALLOWED = "\n\t\u200c\u200d"  # the last two join letters, and parts of emoji


@dataclass(frozen=True)
class WrittenFault:
    """A mistake in a file."""

    line: int
    where: str
    what: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}{': ' if self.where else ''}{self.what}"


@dataclass
class WrittenDocument:
    """What a file holds, the line of each place in it, and the mistakes found so far."""

    path: Path
    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    faults: list[WrittenFault] = field(default_factory=list)
    found: int = 0  # mistakes, those that were found again included

    def fault(self, place: Sequence[str | int], what: str, where: str | None = None) -> None:
        """A mistake at a place, or at the nearest one around it that the file has."""
        there = tuple(place)
        while there and there not in self.lines:
            there = there[:-1]
        shown = dotted(place) if where is None else where
        found = WrittenFault(self.lines.get(there, 1), shown, what)
        self.found += 1
        if found not in self.faults:
            self.faults.append(found)


def dotted(place: Iterable[str | int]) -> str:
    """A place as people write it: `calls[0].arguments.city`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".")


def read(path: Path) -> WrittenDocument:
    """The one YAML document of a file. Raises TemplateFileError if it cannot be read at all."""
    text = _text(path)
    document = WrittenDocument(path)
    try:
        _build(yaml.parse(text, Loader=yaml.CSafeLoader), document)
    except yaml.YAMLError as error:
        raise TemplateFileError(f"{path}: {_told(error)}") from error
    return document


def _text(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise TemplateFileError(f"{path}: is not a file.")
        if found.st_size > LARGEST:
            raise TemplateFileError(
                f"{path}: has {found.st_size:,} bytes; at most {LARGEST:,} are read. Split it."
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TemplateFileError(f"{path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:  # UnicodeDecodeError is one
        raise TemplateFileError(f"{path}: is not UTF-8 text. Save it as UTF-8.") from error


def _told(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        place, why = getattr(error, "position", None), getattr(error, "reason", None)
        if place is not None and why:
            return f"is not valid YAML: {why} (character {place:,})."
        return f"is not valid YAML: {' '.join(str(error).split())[:200]}."
    hint = next((told for sign, told in _HINTS.items() if sign in str(problem)), "")
    return f"line {mark.line + 1}: is not valid YAML: {problem}.{hint}"


class _OpenKey:
    """A mapping or sequence whose end has not come."""

    def __init__(self, value: dict[str, Any] | list[Any], place: Place) -> None:
        self.value, self.place = value, place
        self.key: str | None = None

    def next_place(self) -> Place:
        """Where the value that comes next will be."""
        if isinstance(self.value, list):
            return (*self.place, len(self.value))
        return (*self.place, self.key or "")

    def add(self, value: Any) -> None:
        if isinstance(self.value, list):
            self.value.append(value)
        else:
            self.value[self.key or ""] = value
            self.key = None


def _build(events: Iterator[Any], document: WrittenDocument) -> None:
    """Fill the document from a stream of events, without recursion."""
    stack: list[_OpenKey] = []
    done = 0
    for seen, event in enumerate(events):
        line = event.start_mark.line + 1
        if seen > MOST_VALUES:
            raise TemplateFileError(
                f"{document.path}: line {line}: more than {MOST_VALUES:,} values. Split the file."
            )
        if isinstance(event, yaml.DocumentStartEvent):
            done += 1
            if done > 1:
                raise TemplateFileError(
                    f"{document.path}: line {line}: a second document begins; one is read."
                )
        elif isinstance(event, yaml.NodeEvent):
            _refuse(event, document, line)
            _node(event, stack, document, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            _put(stack.pop().value, stack, document)


def _refuse(event: Any, document: WrittenDocument, line: int) -> None:
    """Raises TemplateFileError for what plain YAML does without."""
    if isinstance(event, yaml.AliasEvent) or event.anchor:
        raise TemplateFileError(
            f"{document.path}: line {line}: `{'*' if isinstance(event, yaml.AliasEvent) else '&'}"
            f"{event.anchor}`: anchors and aliases are not read. Write the values out, or quote "
            "the text."
        )
    if event.tag and not (event.tag == "!" and event.style):
        raise TemplateFileError(
            f"{document.path}: line {line}: the tag `{event.tag}` is not read. Leave it out."
        )


def _node(event: Any, stack: list[_OpenKey], document: WrittenDocument, line: int) -> None:
    top = stack[-1] if stack else None
    if top is not None and isinstance(top.value, dict) and top.key is None:
        _take_key(event, top, document, line)
        return
    place = top.next_place() if top else ()
    if isinstance(event, yaml.ScalarEvent):
        # The line of a key is the one that people look for.
        document.lines.setdefault(place, line)
        _put(_scalar(event, place, document), stack, document)
        return
    document.lines.setdefault(place, line)
    if len(stack) >= DEEPEST:
        raise TemplateFileError(f"{document.path}: line {line}: nested too deeply.")
    stack.append(_OpenKey({} if isinstance(event, yaml.MappingStartEvent) else [], place))


def _take_key(event: Any, top: _OpenKey, document: WrittenDocument, line: int) -> None:
    if not isinstance(event, yaml.ScalarEvent):
        raise TemplateFileError(f"{document.path}: line {line}: a key must be plain text.")
    key = event.value
    place = (*top.place, key)
    if key in top.value:
        document.lines[place] = line
        document.fault(place, "stands twice; give each key once.")
    if unseen := _unseen(key):
        document.fault(top.place, f"a key holds the character {unseen}, which nobody can see.")
    document.lines[place] = line
    top.key = key


def _put(value: Any, stack: list[_OpenKey], document: WrittenDocument) -> None:
    if stack:
        stack[-1].add(value)
    else:
        document.value = value


def _scalar(event: Any, place: Place, document: WrittenDocument) -> Any:
    text: str = event.value
    if unseen := _unseen(text):
        document.fault(place, f"holds the character {unseen}, which nobody can see.")
    if event.style:
        return text.removesuffix("\n") if event.style in "|>" else text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _unseen(text: str) -> str:
    """The first character that is neither shown nor a line's end, such as U+E000; or nothing."""
    if text.isascii() and text.isprintable():
        return ""
    for char in text:
        if char not in _ALLOWED and unicodedata.category(char) in _UNSEEN:
            return f"U+{ord(char):04X}"
    return ""
