"""The account of an import: names are given out, repeats are told, and every loss is booked here.

Beside it, what makes texts of API descriptions fit for it: without markup, on one line, bounded.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from toolloom.pipeline.checks.text.words import listed
from toolloom.schemas import API_SEARCH
from toolloom.schemas.api import Cut, ImportReport, Renamed, Skipped, Unresolved

Why: TypeAlias = Literal["depth", "bytes", "cycle", "enum", "text", "invalid"]
Obstacle: TypeAlias = Literal["remote", "missing", "outside", "unreadable"]
LONGEST = 64  # characters of a function name, for OpenAI
LONGEST_NAME = 200


class ImportLog:
    """What an importer reports while it works. One for each source."""

    def __init__(self, source: str, form: str = "") -> None:
        self.source = source
        self.format = form
        self.version = ""
        self.read = 0
        self.bytes = 0
        self._taken = {API_SEARCH.function}
        self._next: dict[str, int] = {}
        self._described: dict[str, set[bytes]] = {}  # hashes of what was described under an id
        self._repeats: Counter[str] = Counter()
        self._renamed: list[Renamed] = []
        self._cut: list[Cut] = []
        self._unresolved: dict[tuple[str, str], Unresolved] = {}
        self._skipped: list[Skipped] = []
        self._notes: list[str] = []

    def function(self, wanted: str, api: str) -> str:
        """A legal name nobody has, as near to `wanted` as can be. `api`: id, for the report."""
        name = first = legal(wanted)
        number = self._next.get(first, 2)
        while name in self._taken:
            name = f"{first[: LONGEST - len(str(number)) - 1]}_{number}"
            number += 1
        self._next[first] = number  # thousands of equal names would be tried again and again
        self._taken.add(name)
        if name != wanted:
            why: Literal["illegal", "taken"] = "taken" if first == wanted else "illegal"
            self._renamed.append(Renamed(api=text(api), old=text(wanted), new=name, why=why))
        return name

    def unrepeated(self, id: str, described: Any, where: str) -> str:
        """The id to use for a description: with a number where the id has another one; none if it
        has this one, which is told of `where` it stands again."""
        mark = sha256(json.dumps(described, sort_keys=True, default=str).encode()).digest()[:12]
        known = self._described.setdefault(id, set())
        if mark in known:
            self._repeats[where] += 1
            return ""
        known.add(mark)
        if (number := len(known)) == 1:
            return id
        while f"{id} ({number})" in self._described:
            number += 1
        self._described[f"{id} ({number})"] = {mark}
        return f"{id} ({number})"

    def cut(self, api: str, place: str, why: Why, size: int = 0) -> None:
        self._cut.append(Cut(api=text(api), place=text(place), why=why, bytes=size))

    def shortened(self, text: str, limit: int, api: str, place: str = "description") -> str:
        """A text of at most `limit` characters; what is cut of it is booked."""
        short = shortened(text, limit)
        if short != text:
            self.cut(api, place, "text", len(text) - len(short))
        return short

    def unresolved(self, reference: str, place: str, why: Obstacle) -> None:
        """Booked once for each reference and reason, with the first place it stands."""
        found = Unresolved(reference=text(reference), place=text(place), why=why)
        self._unresolved.setdefault((reference, why), found)

    def skip(self, what: str, why: str) -> None:
        self._skipped.append(Skipped(what=text(what[:200]), why=text(why)))

    def refuse(self, what: str, why: str) -> None:
        """Book something that was found and becomes no API."""
        self.read += 1
        self.skip(what, why)

    def note(self, what: str) -> None:
        self._notes.append(text(what))

    def report(self, *, imported: int, replaced: int = 0, seconds: float = 0) -> ImportReport:
        again = "descriptions that stand again and count once"
        return ImportReport(
            source=self.source,
            format=self.format,
            version=self.version,
            read=self.read,
            imported=imported,
            replaced=replaced,
            renamed=tuple(self._renamed),
            cut=tuple(self._cut),
            unresolved=tuple(self._unresolved.values()),
            skipped=tuple(self._skipped),
            notes=(*self._notes, *(f"{at}: {again}: {n}." for at, n in self._repeats.items())),
            bytes=self.bytes,
            seconds=seconds,
        )


def legal(name: str) -> str:
    """`name` with what OpenAI does not allow in a function name as underscores.

    `GET /pets/{id}` becomes `GET_pets_id`. Never empty, at most 64 characters.
    """
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
        return name
    cleaned = re.sub(r"_{2,}", "_", re.sub(r"[^a-zA-Z0-9_-]+", "_", name)).strip("_")
    return cleaned[:LONGEST].strip("_") or "unnamed"


def reference(path: Path) -> str:
    """How a record names the file it comes from: without the folders of this machine.

    A file below the current folder has one name, however its path is given.
    """
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.name


# Texts

_READ = 20_000  # characters that are looked at
_TAG = re.compile(
    rf"</?(?:{'|'.join(sorted(listed('tags of HTML')))})(?:\s[^<>]{{0,500}})?\s?/?>|<!--", re.I
)
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,500}(?:\s\"[^\"]{0,200}\")?\)")
_LINE = re.compile(
    r"^[ \t]{0,9}(?:#{1,6}[ \t]+|>[ \t]|```.*$|\|?[ \t]{0,9}:?-{3,}[-:| \t]*$)", re.M
)
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*|(?<!\w)__([^_\n]{1,300})__(?!\w)")
_SPACED = re.compile(r" ([,.;:)])")  # what a tag before a comma leaves
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def text(value: Any) -> str:
    """Text that UTF-8 can hold, with `?` for half a character; of anything else, nothing."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def legible(value: str) -> str:
    """Characters that JSON and UTF-8 can hold, without control characters."""
    return value if value.isascii() and value.isprintable() else _CONTROL.sub(" ", text(value))


def line(value: Any) -> str:
    """A name as one line of text, at most 200 characters."""
    name = str(value)[: 4 * LONGEST_NAME] if isinstance(value, str | int | float) else ""
    return re.sub(r"\s+", " ", legible(name)).strip()[:LONGEST_NAME]


def words(name: str) -> str:
    """`weather_tools.daily` as `weather tools daily`."""
    return re.sub(r"[._\-\s]+", " ", name).strip()


def sentence(value: object) -> str:
    """A text without HTML and Markdown, on one line. Anything else than text is empty."""
    bare = value[:_READ] if isinstance(value, str) else ""
    if "<" in bare:
        bare = _SPACED.sub(r"\1", _TAG.sub(" ", bare))
    bare = html.unescape(bare)
    if "](" in bare:
        bare = _LINK.sub(r"\1", bare)
    if "\n" in bare or bare[:1] in "#>`|":
        bare = _LINE.sub("", bare)
    if "**" in bare or "__" in bare:
        bare = _BOLD.sub(lambda found: found[1] or found[2], bare)
    return re.sub(r"\s+", " ", legible(bare)).strip()


def shortened(value: str, limit: int) -> str:
    """At most `limit` characters, cut after a word or, if one ends late enough, a sentence."""
    if len(value) <= limit:
        return value
    if limit < 2:
        return ""
    head = value[: limit - 1]
    end = head.rfind(". ")
    if end > limit // 2:
        return head[: end + 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head).rstrip(" ,;:") + "…"
