"""The ledger of an import: names are given out and every loss is booked here.

Beside it, what makes texts of API descriptions fit for it: without markup, on one line, bounded.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, TypeAlias

from toolloom.schemas import API_SEARCH
from toolloom.schemas.api import Cut, ImportReport, Renamed, Skipped, Unresolved

Why: TypeAlias = Literal["depth", "bytes", "cycle", "enum", "text", "invalid"]
Obstacle: TypeAlias = Literal["remote", "missing", "outside", "unreadable"]
LONGEST = 64  # characters of a function name, for OpenAI


class ImportLog:
    """What an importer reports while it works. One for each source."""

    def __init__(self, source: str, form: str = "", taken: Iterable[str] = ()) -> None:
        """`taken`: function names the pool has already."""
        self.source = source
        self.format = form
        self.version = ""
        self.read = 0
        self.bytes = 0
        self._taken = {API_SEARCH.function, *taken}
        self._next: dict[str, int] = {}
        self._renamed: list[Renamed] = []
        self._cut: list[Cut] = []
        self._unresolved: dict[tuple[str, str], Unresolved] = {}
        self._skipped: list[Skipped] = []
        self._notes: list[str] = []

    def function(self, wanted: str, api: str) -> str:
        """A legal name nobody has, as near to `wanted` as can be. `api`: id, for the report."""
        name = legal(wanted)
        taken = name in self._taken
        number, found = self._next.get(name, 2), name
        while found in self._taken:
            found = f"{name[: LONGEST - len(str(number)) - 1]}_{number}"
            number += 1
        self._next[name] = number  # thousands of equal names would be tried again and again
        name = found
        self._taken.add(name)
        if name != wanted:
            only_taken = taken and legal(wanted) == wanted
            why: Literal["illegal", "taken"] = "taken" if only_taken else "illegal"
            self._renamed.append(
                Renamed(api=writable(api), old=writable(wanted), new=name, why=why)
            )
        return name

    def cut(self, api: str, place: str, why: Why, size: int = 0) -> None:
        self._cut.append(Cut(api=writable(api), place=writable(place), why=why, bytes=size))

    def shortened(self, text: str, limit: int, api: str, place: str = "description") -> str:
        """A text of at most `limit` characters; what is cut of it is booked."""
        short = shortened(text, limit)
        if short != text:
            self.cut(api, place, "text", len(text) - len(short))
        return short

    def unresolved(self, reference: str, place: str, why: Obstacle) -> None:
        """Booked once for each reference and reason, with the first place it stands."""
        key = (reference, why)
        if key not in self._unresolved:
            self._unresolved[key] = Unresolved(
                reference=writable(reference), place=writable(place), why=why
            )

    def skip(self, what: str, why: str) -> None:
        self._skipped.append(Skipped(what=writable(what[:200]), why=writable(why)))

    def refuse(self, what: str, why: str) -> None:
        """Book something that was found and becomes no API."""
        self.read += 1
        self.skip(what, why)

    def note(self, text: str) -> None:
        self._notes.append(writable(text))

    def report(self, *, imported: int, replaced: int = 0, seconds: float = 0) -> ImportReport:
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
            notes=tuple(self._notes),
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


def writable(text: str) -> str:
    """`text` with `?` for what UTF-8 cannot hold: half a character of a damaged file."""
    return text.encode("utf-8", "replace").decode()


_READ = 20_000  # characters that are looked at
_KEPT = 1_000  # characters of a text that may be kept to be met again
_TAGS = (
    "a abbr b blockquote br center code dd del details div dl dt em font h1 h2 h3 h4 h5 h6 hr i img"
    " kbd li ol p pre q s small span strong sub summary sup table tbody td th thead tr tt u ul var"
)
_TAG = re.compile(rf"</?(?:{'|'.join(_TAGS.split())})(?:\s[^<>]{{0,500}})?\s?/?>|<!--", re.I)
_LINK = re.compile(r"!?\[([^\[\]]{0,300})\]\([^()\s]{0,500}(?:\s\"[^\"]{0,200}\")?\)")
_LINE = re.compile(
    r"^[ \t]{0,9}(?:#{1,6}[ \t]+|>[ \t]|```.*$|\|?[ \t]{0,9}:?-{3,}[-:| \t]*$)", re.M
)
_BOLD = re.compile(r"\*\*([^*\n]{1,300})\*\*|(?<!\w)__([^_\n]{1,300})__(?!\w)")
_SPACED = re.compile(r" ([,.;:)])")  # what a tag before a comma leaves
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SPACES = re.compile(r"\s+")


def legible(text: str) -> str:
    """Characters that JSON and UTF-8 can hold, without control characters."""
    if text.isascii() and text.isprintable():
        return text
    text = text.encode("utf-8", "replace").decode()
    return _CONTROL.sub(" ", text)


def sentence(text: object) -> str:
    """A text without HTML and Markdown, on one line. Anything else than text is empty."""
    if not isinstance(text, str):
        return ""
    return _bare(text) if len(text) < _KEPT else _bare.__wrapped__(text[:_READ])


@lru_cache(maxsize=4_096)  # what is referred to is read again and again
def _bare(text: str) -> str:
    if "<" in text:
        text = _SPACED.sub(r"\1", _TAG.sub(" ", text))
    if "&" in text:
        text = html.unescape(text)
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    if "\n" in text or text[:1] in "#>`|":
        text = _LINE.sub("", text)
    if "**" in text or "__" in text:
        text = _BOLD.sub(lambda found: found[1] or found[2], text)
    return _SPACES.sub(" ", legible(text)).strip()


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut after a word or, if one ends late enough, a sentence."""
    if len(text) <= limit:
        return text
    if limit < 2:
        return ""
    head = text[: limit - 1]
    end = head.rfind(". ")
    if end > limit // 2:
        return head[: end + 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head).rstrip(" ,;:") + "…"
