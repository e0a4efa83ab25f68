"""What an instruction says and its full request does not: numbers, quoted words, names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolloom.pipeline.checks.instructions.mentions import GENERIC, Known
from toolloom.pipeline.checks.instructions.names import parts, tags_of
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.words import Word, exact, letters, stem, words
from toolloom.schemas import Granularity, Seed

_QUOTED = re.compile(
    r"\"([^\"\n]{1,200})\"|[“«]([^”»\n]{1,200})[”»]|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_FIGURE = re.compile(r"(?<![\w.,])[$€£#]?\w*\d[\w.,:/%-]*\w|\d+")
_IDENTIFIER = re.compile(r"(?<![\w/])(?:\w+_\w+|[a-z]{2,}[A-Z]\w*|/?\w+(?:/[\w{}:-]+){2,}|/\w{2,})")
_SENTENCE = re.compile(r"(?:\A|[.!?…:\n])[\s\"'“‘«(*-]*\Z")
_CALLED = re.compile(
    r"[\"'”’»`]?\s+(?:apis?|tools?|categor(?:y|ies)|endpoints?|functions?)\b", re.I
)
# Capitals that name nothing.
_COMMON = frozenset(
    """
    i i'm i'd i've i'll api apis tool tools category categories ai id ids ok okay tv url urls faq
    asap fyi pdf app apps hi hello thanks thank mr mrs ms dr vs dj diy
    """.split()  # noqa: SIM905 - a table of words
)


def invented(seed: Seed, level: Granularity, text: str) -> list[str]:
    """Figures, quoted words and proper names that neither the full request nor the level's tags
    hold. `text`: the request without the statement and the tags."""
    found = [*_figures(seed, text), *_quotes(seed, level, text), *_names(seed, level, text)]
    return list(dict.fromkeys(found))


def _figures(seed: Seed, text: str) -> Iterator[str]:
    known = {q.value for q in quantities(seed.hybrid)}
    for found in _FIGURE.finditer(text):
        figure = found[0].strip("$€£#%")
        if not any(c.isdigit() for c in figure) or exact(figure, seed.hybrid):
            continue
        amounts = quantities(figure) if figure[0] in "123456789" else ()
        if not any(q.value in known for q in amounts):  # but 4200 of «4,200 dollars»
            yield found[0]


def _quotes(seed: Seed, level: Granularity, text: str) -> Iterator[str]:
    known = letters(seed.hybrid) + "".join(map(letters, tags_of(seed, level)))
    for found in _QUOTED.finditer(text):
        quoted = next(filter(None, found.groups()))
        if (wanted := letters(quoted)) and wanted not in known:
            yield quoted.strip()


def _names(seed: Seed, level: Granularity, text: str) -> Iterator[str]:
    known = _words_of(seed, level)
    for word in _capitals(text):
        if word.folded not in known and stem(word.folded) not in GENERIC:
            yield word.raw


def _words_of(seed: Seed, level: Granularity) -> frozenset[str]:
    tags = (part.letters for tag in tags_of(seed, level) for part in parts(tag))
    return _COMMON | {word.folded for word in words(seed.hybrid)} | frozenset(tags)


def _capitals(text: str) -> Iterator[Word]:
    """Words with a capital that begin no sentence."""
    for word in words(text):
        before = text[max(0, word.start - 40) : word.start]
        inner = any(letter.isupper() for letter in word.raw[1:])
        starts = _SENTENCE.search(before) is not None or not before.strip()
        if (word.capital and not starts) or (inner and len(word.raw) > 1):
            yield word


def strangers(seed: Seed, level: Granularity, text: str, known: Known) -> list[str]:
    """What is written like an API or called one, and is none of those around the seed."""
    spots = [(m.start, m.end) for m in known.mentions(text)]
    found = [
        m[0]
        for m in _IDENTIFIER.finditer(text)
        if not _covered(m.span(), spots)
        and letters(m[0]) not in letters(seed.hybrid)
        and not letters(m[0]).isdigit()  # 11/10/2025
    ]
    allowed = _words_of(seed, level)
    for word in _capitals(text):
        called = _CALLED.match(text[word.end : word.end + 40])
        if called and word.folded not in allowed and not _covered((word.start, word.end), spots):
            found.append(word.raw)
    return list(dict.fromkeys(found))


def _covered(span: tuple[int, int], spots: list[tuple[int, int]]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in spots)
