"""YAML files that people write by hand: their mistakes are gathered and told by their lines.

Plain values alone: no tags, no anchors, no aliases, each key once. Dates and `yes` stay text; a
reader may ask that every scalar does.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolloom.pipeline.render.section import counted, first_lines
from toolloom.pipeline.store.files import file_text
from toolloom.schemas import ToolloomError
from toolloom.schemas.yaml_reader import Place as Place
from toolloom.schemas.yaml_reader import UnreadableYaml, line_of, read_yaml

LARGEST = 1_000_000  # bytes of a file
DEEPEST = 20
MOST_VALUES = 100_000
MOST_TOLD = 50  # mistakes of a file
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
    error: type[ToolloomError] = ToolloomError  # what is raised for a file that cannot be read

    def fault(self, place: Sequence[str | int], what: str, where: str | None = None) -> None:
        """A mistake at a place, or at the nearest one around it that the file has."""
        line = line_of(self.lines, tuple(place)) or self.lines.get((), 1)
        found = WrittenFault(line, dotted(place) if where is None else where, what)
        self.found += 1
        if found not in self.faults:
            self.faults.append(found)

    def mistakes(self) -> list[str]:
        """Lines that tell the first mistakes in the order of the file; none if there is none."""
        faults = sorted(self.faults, key=lambda fault: fault.line)
        return listed(self.path, faults)

    def refuse(self) -> None:
        """Raise the document's error with all its mistakes, if it has any."""
        if mistakes := self.mistakes():
            raise self.error("\n".join(mistakes))


def listed(path: Path, faults: Sequence[object]) -> list[str]:
    """Lines that tell the first mistakes in a file; none if there is none."""
    told = [f"{path} has {counted(len(faults), 'mistake')}:"] if faults else []
    return [*told, *(f"  {line}" for line in first_lines([*map(str, faults)], most=MOST_TOLD))]


def dotted(place: Iterable[str | int]) -> str:
    """A place as people write it: `calls[0].arguments.city`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return "".join(parts).removeprefix(".")


def read(path: Path, error: type[ToolloomError], plain: bool = True) -> WrittenDocument:
    """The one YAML document of a file; every scalar as text if not `plain`. Raises `error` if it
    cannot be read at all."""
    return read_text(file_text(path, LARGEST, error), path, error, plain)


def read_text(
    text: str, path: Path, error: type[ToolloomError], plain: bool = True
) -> WrittenDocument:
    """The one YAML document of a text; mistakes call it `path`. Raises `error`."""
    try:
        found = read_yaml(text, deepest=DEEPEST, most=MOST_VALUES, plain=plain, shared=False)
    except UnreadableYaml as problem:
        raise error(f"{path}: {problem}") from problem
    document = WrittenDocument(path, found.value, found.lines, error=error)
    for place in found.repeated:
        document.fault(place, "stands twice; give each key once.")
    for place, written in found.texts:
        if unseen := _unseen(written):
            document.fault(place, f"holds the character {unseen}, which nobody can see.")
    return document


def _unseen(text: str) -> str:
    """The first character that is neither shown nor a line's end, such as U+E000; or nothing."""
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
