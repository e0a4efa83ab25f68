"""Where an instruction names an API, a tool or a category: those of its path, and others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from toolloom.pipeline.checks.instructions.names import parts, places, spoken, stems, tags_of
from toolloom.pipeline.checks.text.words import STOP
from toolloom.schemas import Granularity, Seed

NAMING = (Granularity.CATEGORY, Granularity.TOOL, Granularity.API)  # coarse to fine

GENERIC = frozenset(
    """
    api check creat data delet fetch find get info inform list look other post put read retriev
    search servic show tool updat
    """.split()  # noqa: SIM905 - a table of stems
)
"""Stems that tell no name from plain words."""
_CALLED = r"(?:apis?|tools?|categor(?:y|ies)|services?|endpoints?|functions?|apps?)"
_AFTER = re.compile(rf"[\"'”’»`)*]*,?\s+{_CALLED}\b", re.IGNORECASE)
_BEFORE = re.compile(
    rf"\b(?:using|uses?|via|through|{_CALLED}(?: of| called| named)?:?)(?: the)?\s+[\"'“‘«`*]*\Z",
    re.IGNORECASE,
)
_OPENED, _CLOSED = "\"“«`'‘", "\"”»`'’"
_STARTS = re.compile(r"(?:\A|[.!?…:\n])[\s\"'“‘«(*-]*\Z")
_WRITTEN = re.compile(r"[_/]|\d|[a-z][A-Z]")


class Mention(NamedTuple):
    """A name a text says."""

    start: int
    end: int
    kind: Granularity
    tag: str
    on_path: bool


@dataclass(frozen=True)
class Known:
    """The names around a seed, in each form: as people say them, as written, as called."""

    names: tuple[tuple[Granularity, str, str, bool], ...]  # kind, tag, form, whether on the path

    @classmethod
    def of(cls, seed: Seed) -> Known:
        path = [(s.category, s.tool, s.api, s.function) for s in seed.steps]
        pool = [(a.category, a.tool, a.name, a.function) for a in seed.pool]
        found: dict[tuple[Granularity, str, str], bool] = {}
        for rows, on_path in ((path, True), (pool, False)):
            for category, tool, api, function in rows:
                for kind, tag in zip(NAMING, (category, tool, api), strict=True):
                    for form in (spoken(tag, kind), tag):
                        found.setdefault((kind, tag, form), on_path)
                found.setdefault((Granularity.API, api, function), on_path)
        return cls(tuple((*key, on_path) for key, on_path in found.items()))

    def mentions(self, text: str, only: Granularity | None = None) -> list[Mention]:
        """The names a text says, of all kinds or one: of those that overlap the longest, of equal
        ones the path's own and then the coarsest."""
        found = [
            Mention(start, end, kind, tag, on_path)
            for kind, tag, form, on_path in self.names
            if only is None or kind is only
            for start, end in places(text, form)
        ]
        found.sort(key=lambda m: (m.start - m.end, not m.on_path, NAMING.index(m.kind), m.start))
        return list(_apart(found))

    def named(self, text: str, level: Granularity) -> frozenset[str]:
        """The tags of a level that a text says, and not only as a part of another's name. One of
        common words alone (Data, Search) must be written as a name."""
        return frozenset(
            m.tag
            for m in self.mentions(text, level)
            if weight(text[m.start : m.end]) or is_named(text, m)
        )

    def finer(self, text: str) -> list[str]:
        """The tools and APIs a statement names, on the path or not."""
        return [m.tag for m in self.mentions(text) if m.kind is not NAMING[0] and is_named(text, m)]

    def leaks(self, text: str, level: Granularity, seed: Seed) -> list[Mention]:
        """What a level may not name: tags of finer levels, and what is not on the path.

        A name says nothing more if its words are all part of a tag that the level must name: the
        tool Weather of the category Weather, or Get Hotels of the tool Hotels.
        """
        own = tags_of(seed, level)
        limit = NAMING.index(level)
        return [
            m
            for m in self.mentions(text)
            if (NAMING.index(m.kind) > limit or not m.on_path)
            and is_named(text, m)
            and not within(m.tag, m.kind, own)
        ]


def _apart(found: Iterable[Mention]) -> Iterator[Mention]:
    taken: list[Mention] = []
    for each in found:
        if all(each.end <= other.start or other.end <= each.start for other in taken):
            taken.append(each)
            yield each


def within(tag: str, kind: Granularity, others: Iterable[str]) -> bool:
    """Are the words of a name, but for verbs such as get, all words of one of these tags?"""
    said = weight(spoken(tag, kind)) or frozenset(stems(spoken(tag, kind)))
    return any(said <= frozenset(stems(other)) for other in others)


@lru_cache(maxsize=8192)
def weight(name: str) -> frozenset[str]:
    """The stems of a name that tell it from plain words."""
    return frozenset(p.stem for p in parts(name) if p.letters not in STOP) - GENERIC


def is_named(text: str, mention: Mention) -> bool:
    """Is it the name, and not a plain word? Several words of weight together are a name however
    they are written, as one («hotelfinder») too; a single one («weather») is if a capital, a quote
    or «the … API» says so."""
    said = text[mention.start : mention.end]
    if len(weight(said)) > 1:
        return True
    if len(parts(said)) == 1 and len(weight(spoken(mention.tag, mention.kind))) > 1:
        return True
    before, after = text[: mention.start], text[mention.end :]
    return marked(said, before[-80:], after[:80], within_quotes=True)


def marked(said: str, before: str, after: str, within_quotes: bool = False) -> bool:
    """Is a text written as names are? `before` and `after`: what stands around it."""
    if _WRITTEN.search(said) or _AFTER.match(after) or _BEFORE.search(before):
        return True
    if within_quotes and before[-1:] in _OPENED and after[:1] in _CLOSED and before and after:
        return True
    capitals = [p for p in parts(said) if p.letters not in STOP and said[p.start].isupper()]
    heavy = [p for p in parts(said) if p.letters not in STOP]
    if len(capitals) < len(heavy) or not heavy:
        return False
    return len(heavy) > 1 or not _STARTS.search(before)
