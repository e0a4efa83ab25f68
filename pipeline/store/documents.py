"""YAML that people write by hand, read with the line of every value: mistakes are told by it.

Plain values alone: no tags, no anchors, no aliases, each key once. Dates and `yes` stay text; a
reader may ask that every scalar does.
"""

from __future__ import annotations

import difflib
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from toolloom.schemas import ToolloomError

Place: TypeAlias = tuple[str | int, ...]
"""Keys and numbers from the top of a document to a value."""

LARGEST = 1_000_000  # bytes of a file
DEEPEST = 20
MOST_VALUES = 100_000
MOST_TOLD = 50  # mistakes of a file
_CONSTANTS = {"": None, "~": None, "null": None, "true": True, "false": False}
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
    plain: bool = True  # whether `3` is a number and `true` a truth, or every scalar is text
    error: type[ToolloomError] = ToolloomError  # what is raised for a file that cannot be read

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

    def mistakes(self) -> list[str]:
        """Lines that tell the first mistakes in the order of the file; none if there is none."""
        faults = sorted(self.faults, key=lambda fault: fault.line)
        if not faults:
            return []
        head = f"{self.path} has {len(faults):,} mistake{'s' if len(faults) > 1 else ''}:"
        more = len(faults) - MOST_TOLD
        last = [f"  and {more:,} more."] if more > 0 else []
        return [head, *(f"  {fault}" for fault in faults[:MOST_TOLD]), *last]

    def refuse(self) -> None:
        """Raise the document's error with all its mistakes, if it has any."""
        if mistakes := self.mistakes():
            raise self.error("\n".join(mistakes))


def dotted(place: Iterable[str | int]) -> str:
    """A place as people write it: `calls[0].arguments.city`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".")


def read(path: Path, error: type[ToolloomError], plain: bool = True) -> WrittenDocument:
    """The one YAML document of a file; every scalar as text if not `plain`.

    Raises `error` if it cannot be read at all.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{path}: is not a file.")
        if status.st_size > LARGEST:
            raise error(
                f"{path}: has {status.st_size:,} bytes; at most {LARGEST:,} are read. Split it."
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise error(f"{path}: cannot be read ({problem.strerror}).") from problem
    except ValueError as problem:  # UnicodeDecodeError is one
        raise error(f"{path}: is not UTF-8 text. Save it as UTF-8.") from problem
    return read_text(text, path, error, plain)


def read_text(
    text: str, path: Path, error: type[ToolloomError], plain: bool = True
) -> WrittenDocument:
    """The one YAML document of a text; mistakes call it `path`. Raises `error`."""
    document = WrittenDocument(path, plain=plain, error=error)
    events = _events(text, document)
    try:
        for event in events:
            document.value = _value(event, (), 0, events, document)
    except yaml.YAMLError as problem:
        raise error(f"{path}: {_told(problem)}") from problem
    return document


def _told(error: yaml.YAMLError) -> str:
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    if mark is None:
        place, why = getattr(error, "position", None), getattr(error, "reason", None)
        if place is not None and why:
            return f"is not valid YAML: {why} (character {place:,})."
        return f"is not valid YAML: {' '.join(str(error).split())[:200]}."
    hint = next((told for sign, told in _HINTS.items() if sign in str(problem)), "")
    return f"line {mark.line + 1}: is not valid YAML: {problem}.{hint}"


def _events(text: str, document: WrittenDocument) -> Iterator[Any]:
    """Where values begin and end. Raises the document's error for what plain YAML does without."""
    documents = 0
    event: Any
    for number, event in enumerate(yaml.parse(text, Loader=yaml.CSafeLoader)):
        at = f"{document.path}: line {event.start_mark.line + 1}:"
        if number > MOST_VALUES:
            raise document.error(f"{at} more than {MOST_VALUES:,} values. Split the file.")
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise document.error(f"{at} a second document begins; one is read.")
        if getattr(event, "anchor", None):
            sign = "*" if isinstance(event, yaml.AliasEvent) else "&"
            raise document.error(
                f"{at} `{sign}{event.anchor}`: anchors and aliases are not read. Write the values "
                "out, or quote the text."
            )
        tag = getattr(event, "tag", None)
        if tag and not (tag == "!" and event.style):
            raise document.error(f"{at} the tag `{tag}` is not read. Leave it out.")
        if isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
            yield event


def _value(
    event: Any, place: Place, depth: int, events: Iterator[Any], document: WrittenDocument
) -> Any:
    """The value that begins with an event; the lines of all places in it go to the document."""
    line = event.start_mark.line + 1
    document.lines.setdefault(place, line)  # of a key its own: the one that people look for
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event, place, document)
    if depth >= DEEPEST:
        raise document.error(f"{document.path}: line {line}: nested too deeply.")
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while isinstance(item := next(events), yaml.NodeEvent):
            items.append(_value(item, (*place, len(items)), depth + 1, events, document))
        return items
    mapping: dict[str, Any] = {}
    while isinstance(key := next(events), yaml.NodeEvent):
        line = key.start_mark.line + 1  # type: ignore[union-attr]  # of a text there is always one
        if not isinstance(key, yaml.ScalarEvent):
            raise document.error(f"{document.path}: line {line}: a key must be plain text.")
        inside = (*place, key.value)
        document.lines[inside] = line
        if key.value in mapping:
            document.fault(inside, "stands twice; give each key once.")
        if unseen := _unseen(key.value):
            document.fault(place, f"a key holds the character {unseen}, which nobody can see.")
        mapping[key.value] = _value(next(events), inside, depth + 1, events, document)
    return mapping


def _scalar(event: Any, place: Place, document: WrittenDocument) -> Any:
    text: str = event.value
    if unseen := _unseen(text):
        document.fault(place, f"holds the character {unseen}, which nobody can see.")
    if event.style or not document.plain:
        return text.removesuffix("\n") if event.style and event.style in "|>" else text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
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


def nearest(name: str, known: Iterable[str], say: str = "known are") -> str:
    """A hint: the known name that was meant, or some of all."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{near[0]}`?"
    more = ", …" if len(names) > 12 else ""
    return f"{say}: {', '.join(names[:12])}{more}." if names else "there is none."
