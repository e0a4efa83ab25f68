"""Tags and values as people say them, and where a text says them.

Tags are written for programs (`hotel_details_v2`, `/v4/sports`, `getHotels`); ToolPlanner, section
B.3.1, finds that such names make requests that no user would write.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.schema import as_dict, as_strings
from toolloom.pipeline.checks.text.dates import dates, only_date
from toolloom.pipeline.checks.text.numbers import SMALL, quantities
from toolloom.pipeline.checks.text.times import only_time, times
from toolloom.pipeline.checks.text.words import STOP, exact, fold, stem, words
from toolloom.schemas import Api, Granularity, JsonObject, Seed

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
    "a an and at by for from in of on or per the to with".split()  # noqa: SIM905 - a table of words
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
    brands = kind in (Granularity.TOOL, Granularity.CATEGORY)
    names = (_cut(word, not (brands and word[:1].isupper())) for word in text.split())
    parts = _of_path(text) if path else list(chain.from_iterable(names))
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


class NamePart(NamedTuple):
    """A word of a text, or of an identifier in it: its letters, its stem, and where it stands."""

    letters: str
    stem: str
    start: int
    end: int


@lru_cache(maxsize=2048)
def parts(text: str) -> tuple[NamePart, ...]:
    """The words of a text; identifiers are taken apart, so that all ways to write a name agree."""
    found = (m for m in _PART.finditer(text) if not m["own"])
    folded = ((fold(m[0]), m) for m in found)
    return tuple(NamePart(letters, _root(letters), *m.span()) for letters, m in folded)


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


def _joined(letters: str, found: Sequence[NamePart]) -> int:
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
class KnownNames:
    """The names around a seed, in each form: as people say them, as written, as called."""

    names: tuple[tuple[Granularity, str, str, bool], ...]  # kind, tag, form, whether on the path

    @classmethod
    def of(cls, seed: Seed) -> KnownNames:
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


LONGEST = 300  # letters of a value that is looked for
MOST = 60  # values of a seed
# Any day: a value that is a date counts as said by whatever tells a day, as no present is known.
_DAY = dt.date(2024, 1, 1)
_NATURAL = re.compile(r"[^\W\d_]+(?:[ '’.-]+[^\W\d_]+|,? \d{1,2}(?!\w))*\.?")
_CODED = re.compile(r"[A-Z]{2,}|[a-z]{1,3}|.*[a-z][A-Z].*|[^A-Z -]*-[^A-Z]*")
_NUMBER = re.compile(r"[-+]?[$€£]?\d+(?:[.,]\d+)*%?")
_HARD_PIECE = re.compile(r"(?=.*\d)(?=.*[^\W\d_]).{5,}")  # of an address: «12 Main Street»
_ISO_DAY = re.compile(r"(?:1\d|20)\d\d-(?:0\d|1[0-2])(?:-\d\d)?(?:[T ].*)?")


def texts_of(arguments: JsonObject) -> Iterator[str]:
    """The leaves of arguments as text; flags and nulls, which no one says, are left out."""
    for leaf in leaves(arguments):
        if isinstance(leaf, str) and leaf.strip():
            yield leaf[:LONGEST]
        elif isinstance(leaf, int | float) and not isinstance(leaf, bool):
            yield str(leaf)


def values_of(calls: Iterable[Any]) -> tuple[str, ...]:
    """The values in the arguments of calls, as text, each once, in order."""
    found = (v for given in calls if isinstance(given, dict) for v in texts_of(given))
    return tuple(dict.fromkeys(islice(found, 10 * MOST)))[:MOST]


def choices(apis: tuple[Api, ...]) -> frozenset[str]:
    """The values that schemas of arguments enumerate, folded."""
    schemas = [as_dict(schema) for api in apis for schema in api.properties.values()]
    schemas += [as_dict(schema.get("items")) for schema in schemas]
    return frozenset(fold(v) for schema in schemas for v in as_strings(schema.get("enum")))


@lru_cache(maxsize=8192)
def natural(value: str) -> bool:
    """Is a value made of words, as a place or a person is: no number, date, code or address?"""
    text = value.strip()
    if not _NATURAL.fullmatch(text) or only_date(text, _DAY) or only_time(text):
        return False
    return " " in text or not _CODED.fullmatch(text)


def said_values(seed: Seed, text: str) -> list[str]:
    """The argument values of a seed that a text says."""
    return [value for value in seed.values[:MOST] if says(text, value)]


def hard_values(seed: Seed, text: str) -> list[str]:
    """Those that belong to no situation: anything but words, and choices of a schema."""
    path = {step.function for step in seed.steps}
    chosen = choices(tuple(api for api in seed.pool if api.function in path))
    return [v for v in said_values(seed, text) if not natural(v) or fold(v) in chosen]


@lru_cache(maxsize=8192)
def says(text: str, value: str) -> bool:
    """Does a text say a value: word for word, or as another form of the number or the date?"""
    known = value.strip()[:LONGEST]
    if not known or all(word.folded in STOP for word in words(known)):
        return bool(known) and not words(known) and known in text
    if _NUMBER.fullmatch(known):
        wanted = {q.value for q in quantities(known)} - {0, 1}  # «one of my friends»
        return any(q.value in wanted for q in quantities(text)) or exact(known, text)
    if _ISO_DAY.fullmatch(known) or only_date(known, _DAY):
        return bool(dates(text, _DAY)) or exact(known, text)
    if only_time(known):
        return bool(times(text)) or exact(known, text)
    if natural(known):
        return any(True for _ in places(text, known))
    if len(known) <= 3:
        return re.search(rf"(?<!\w){re.escape(known)}(?!\w)", text) is not None
    pieces = (known, *(p for p in known.split(",") if _HARD_PIECE.fullmatch(p.strip())))
    return any(exact(piece, text) for piece in pieces)
