"""Names as people say them, and where a text says them.

Tags are written for programs (`hotel_details_v2`, `/v4/sports`, `getHotels`); ToolPlanner, section
B.3.1, finds that such names make requests that no user would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from toolloom.pipeline.checks.text.numbers import SMALL
from toolloom.pipeline.checks.text.words import fold, stem
from toolloom.schemas import Granularity, Seed

LONGEST_NAME = 120  # letters of a name that are said
_LONGEST_TAG = 4 * LONGEST_NAME  # of a tag that is looked for

_ACRONYMS = frozenset(
    """
    ai api apis atp bmi cpi crm csv dns ean eta eu faq fifa gdp gps html http https iata iban id
    ids iex imdb ip isbn json mlb nba ncaa nfl nft nhl ocr pdf pga qr rss seo sha sms sql ssl swot
    tv ufc uk un upc uri url urls usa usd utc vat vin vpn xml
    """.split()  # noqa: SIM905 - a table of words
)
_SMALL = frozenset(
    [
        "a",
        "an",
        "and",
        "at",
        "by",
        "for",
        "from",
        "in",
        "of",
        "on",
        "or",
        "per",
        "the",
        "to",
        "with",
    ]
)
_METHOD = re.compile(r"(get|post|put|patch|delete|head|options)\s+(?=/)", re.IGNORECASE)
_SLOT = re.compile(r"\{([^{}]{1,60})\}|(?<=/):(\w{1,60})|<(\w{1,60})>")
_ASIDE = re.compile(r"[(\[]\s*(?:deprecated|deprecation|beta|alpha|legacy|old|new)\s*[)\]]", re.I)
_VERSION = re.compile(r"v\d{1,3}(?:[._]\d{1,3}){0,2}", re.IGNORECASE)
_NUMBERED = re.compile(r"\d{5,}|(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}", re.IGNORECASE)
_CUTS = (
    re.compile(r"(?<=[a-z0-9][a-z0-9])(?=[A-Z])"),  # but eCommerce and iPhone
    re.compile(r"(?<=[A-Z])(?=[A-Z][a-z]{2})"),
)
_DIGITS = re.compile(r"(?<![^\W_])(\d+)(?=[A-Z][a-z]|[a-z]{3})")  # 16Day, but not 3rd, and not mp3
_BREAK = re.compile(r"[.!?;:…]\s|\n")
_PART = re.compile(r"(?P<own>['’][sS]\b)|[A-Z]+(?=[A-Z][a-z]{2})|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_]+")


@lru_cache(maxsize=8192)
def spoken(tag: str, kind: Granularity = Granularity.API) -> str:
    """How people say a tag: `hotel_details_v2` is Hotel Details, `GET /pets/{id}` Get Pets by ID.

    Versions, ids and remarks are left out where anything else is left; acronyms and the numbers
    that tell something stay. Names of tools and categories that begin with a capital may be
    brands (YouTube), so they are not taken apart.
    """
    shown = "".join(c if c.isprintable() else " " for c in tag)
    text = _ASIDE.sub(" ", " ".join(shown.split()))[:_LONGEST_TAG]
    path = "/" in text and " " not in _METHOD.sub("", text)
    parts = _of_path(text) if path else _of_name(text, kind)
    kept = [p for p in parts if not _VERSION.fullmatch(p) and not _NUMBERED.fullmatch(p)] or parts
    said = " ".join(_said(p, n == 0, any(q != q.lower() for q in kept)) for n, p in enumerate(kept))
    return said[:LONGEST_NAME].strip() or text[:LONGEST_NAME].strip() or tag[:LONGEST_NAME]


def _of_path(text: str) -> list[str]:
    """The words of an address: its method, its steps, and its last slot as what it goes by."""
    method = _METHOD.match(text)
    slots = [next(filter(None, found.groups())) for found in _SLOT.finditer(text)]
    bare = _SLOT.sub(" ", _METHOD.sub("", text))
    words = [w for step in bare.split("/") for w in _cut(step, apart=True)]
    last = text.rstrip("/ ").rsplit("/", 1)[-1]
    by = ["by", *_cut(slots[-1], apart=True)] if slots and _SLOT.search(f"/{last}") else []
    return [*([method[1].lower()] if method else []), *words, *by]


def _of_name(text: str, kind: Granularity) -> list[str]:
    brands = kind in (Granularity.TOOL, Granularity.CATEGORY)
    return [p for word in text.split() for p in _cut(word, not (brands and word[:1].isupper()))]


def _cut(word: str, apart: bool) -> list[str]:
    """An identifier's words. `apart`: also where its letters change their case."""
    version = _VERSION.fullmatch(word.strip("._-()[]"))
    text = word if version else re.sub(r"[_\-./:\\]+", _between, word)
    for cut in _CUTS if apart else ():
        text = cut.sub(" ", text)
    return _DIGITS.sub(r"\1 ", text).translate(_EDGES).split()


def _between(found: re.Match[str]) -> str:
    """A space, but decimal points and the hyphens of API-Ninjas and e-mail stay."""
    text, start, end = found.string, found.start(), found.end()
    before, after = text[:start], text[end:]
    if found[0] == "." and before[-1:].isdigit() and after[:1].isdigit():
        return "."
    hyphened = found[0] == "-" and before[-1:].isalpha() and after[:1].isalpha()
    return "-" if hyphened and (before[0].isupper() or len(before) == 1) else " "


_EDGES = str.maketrans(dict.fromkeys('"`{}<>|*#?!;,', " "))


def _said(word: str, first: bool, cased: bool) -> str:
    """A word of a name with its capitals. `cased`: the name has capitals of its own."""
    small = word.lower()
    if word != small:
        return word
    if small in _ACRONYMS:
        return small[:-1].upper() + "s" if small in {"ids", "urls", "apis"} else small.upper()
    if small in _SMALL and (not first or cased):
        return word
    return word[:1].upper() + word[1:]


def tags_of(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """A level's tags, one for each call; none for the levels that name none."""
    lists = {
        Granularity.CATEGORY: seed.tags.categories,
        Granularity.TOOL: seed.tags.tools,
        Granularity.API: seed.tags.apis,
    }
    return lists.get(level, ())


def spoken_tags(seed: Seed, level: Granularity) -> tuple[str, ...]:
    """The names of a level's tags as people say them, each once, in order."""
    return tuple(dict.fromkeys(spoken(tag, level) for tag in tags_of(seed, level)))


class Part(NamedTuple):
    """A word of a text, or of an identifier in it: its letters, its stem, and where it stands."""

    letters: str
    stem: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def parts(text: str) -> tuple[Part, ...]:
    """The words of a text; identifiers are taken apart, so that all ways to write a name agree."""
    found = (m for m in _PART.finditer(text) if not m["own"])
    folded = ((fold(m[0]), m) for m in found)
    return tuple(Part(letters, _root(letters), *m.span()) for letters, m in folded)


def _root(letters: str) -> str:
    """The stem of a word; numbers in words are figures: a sixteen day forecast."""
    number = SMALL.get(letters, 0)
    return str(number) if number > 1 else stem(letters)


@lru_cache(maxsize=8192)
def stems(name: str) -> tuple[str, ...]:
    return tuple(part.stem for part in parts(name))


def places(text: str, name: str) -> Iterator[tuple[int, int]]:
    """Where a text says a name: whatever its case, hyphens, plural, or spaces between its words.

    Never over the end of a sentence, but where the name has such a mark itself (St. Moritz).
    """
    wanted = stems(name) if len(name) <= _LONGEST_TAG else ()
    letters = "".join(part.letters for part in parts(name)) if wanted else ""
    if not wanted:
        return
    apart = None if _BREAK.search(name) else _BREAK
    found = parts(text)
    for first, part in enumerate(found):
        if part.stem != wanted[0] and not letters.startswith(part.letters):
            continue
        last = first + len(wanted)
        if tuple(p.stem for p in found[first:last]) == wanted:
            end = found[last - 1].end
        else:
            end = _joined(letters, found[first : first + len(letters)])
        if end and not (apart and apart.search(text, part.start, end)):
            yield part.start, end


def _joined(letters: str, found: Sequence[Part]) -> int:
    """Where the words whose letters are these end; 0 if the next words are others."""
    at = 0
    for part in found:
        if not letters.startswith(part.letters, at):
            return 0
        at += len(part.letters)
        if at == len(letters):
            return part.end
    return 0


def said(text: str, tag: str, kind: Granularity = Granularity.API) -> bool:
    """Does a text name a tag, as people say it or exactly?"""
    return any(True for name in (spoken(tag, kind), tag) for _ in places(text, name))
