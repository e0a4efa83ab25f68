"""Words of a text as they are compared: folded, stemmed, with their place in the text; and names
that mean the same: currencies, countries, languages, units.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from itertools import chain, groupby
from typing import NamedTuple

_TABLES = {
    lines[0].strip("# "): lines[1:]
    for table in (files(__package__) / "tables.txt").read_text("utf-8").split("\n\n")[1:]
    if (lines := table.splitlines())
}


def table(title: str) -> list[list[str]]:
    """The lines of one of the tables in `tables.txt`, each in its columns."""
    return [line.split("|") for line in _TABLES[title]]


def listed(title: str) -> frozenset[str]:
    """The words of one of the lists in `tables.txt`."""
    return frozenset(" ".join(_TABLES[title]).split())


STOP = listed("stop words")

_WORD = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’][^\W\d_]+)*[+#]{0,2}")
_SENTENCE_END = re.compile(
    r"(?<![A-Z][a-z])(?<!\b[A-Za-z])[.!?…]+[\"')\]]*(?=\s|$)|[\n;]+|[。！？]"
)
_CLAUSE_END = re.compile(r"[.,!?;:()\[\]{}\"“”\n]+(?=\s|$|[\"“(])|[(\"“]|\s[-–—]\s")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-"})


class Word(NamedTuple):
    """A word: as written, folded for comparison, and where it stands."""

    raw: str
    folded: str
    start: int
    end: int

    @property
    def capital(self) -> bool:
        return self.raw[:1].isupper()


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Typographic quotes and dashes as ASCII; the length stays, so that offsets do too."""
    return text if text.isascii() else text.translate(_PLAIN)


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """Case, accents and compatibility forms removed: «Ångström» and «angstrom» are one."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", plain(text)).casefold()
    return spread.translate({ord(c): None for c in set(spread) if unicodedata.combining(c)})


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[Word, ...]:
    """The words of a text in order; digits and letters part («10km» is two words)."""
    found = ((m[0], _folded(m[0]), *m.span()) for m in _WORD.finditer(text))
    return tuple(map(Word._make, found))


@lru_cache(maxsize=65536)
def _folded(word: str) -> str:
    return fold(word).removesuffix("'s")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Snowball's English stem of a folded word. A new stemmer each time: they hold state."""
    import snowballstemmer  # 0.1 s

    return str(snowballstemmer.stemmer("english").stemWord(word))


@lru_cache(maxsize=4096)
def stems(text: str) -> frozenset[str]:
    """The stems of all words of a text."""
    return frozenset([stem(_folded(word)) for word in _WORD.findall(text)])


@lru_cache(maxsize=8192)
def spaced(value: str) -> str:
    """An identifier as words: `round_trip`, `roundTrip` and `round-trip` as «round trip»."""
    return _CAMEL.sub(" ", value.replace("_", " "))


def content(text: str) -> list[str]:
    """Stems of the words that carry meaning, in order; of all words if none does."""
    found = [w.folded for w in words(text)]
    return [stem(w) for w in found if w not in STOP] or [stem(w) for w in found]


@lru_cache(maxsize=1024)
def sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, without empty ones."""
    return tuple([s.strip() for s in _SENTENCE_END.split(text) if s and s.strip()])


def clauses(text: str) -> list[tuple[Word, ...]]:
    """Words between punctuation, with offsets into the whole text."""
    cuts = [m.end() for m in _CLAUSE_END.finditer(text)]
    parts = groupby(words(text), key=lambda w: bisect_right(cuts, w.start))
    return [tuple(part) for _, part in parts]


def runs(value: str, text: str) -> Iterator[tuple[int, int]]:
    """Where the letters and digits of `value` stand as whole words, however spaced or joined."""
    needle = letters(value)
    if needle not in letters(text):
        return
    found = words(text)
    capitals = value.isupper() and needle in STOP  # US and IT are not «us» and «it»
    for first, start in enumerate(found):
        if not needle.startswith(start.folded):
            continue
        joined = ""
        for last in found[first:]:
            joined += last.folded
            if joined == needle and (not capitals or last.raw.isupper()):
                yield start.start, last.end
            if not needle.startswith(joined) or len(joined) >= len(needle):
                break


@lru_cache(maxsize=1024)
def letters(text: str) -> str:
    """The letters and digits of a text's words, folded, and nothing between them."""
    return "".join(map(_folded, _WORD.findall(text)))


def literal(value: str, text: str) -> bool:
    """Does the text hold the words of `value` in a row, whatever the case and punctuation?"""
    if not words(value) or _NO_SPACES.search(value):
        return bool(value.strip()) and fold(value) in fold(text)
    return any(True for _ in runs(value, text))


def alone(text: str, start: int, end: int) -> bool:
    """Is this part of a text no part of a longer code or address?"""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    glued = re.search(r"\w[-_.@/]\Z|[\w@]\Z", before) or re.match(r"[-_@/.]\w|\w", after)
    return not glued


def exact(value: str, text: str) -> bool:
    """Like `literal`, but for codes: not as a part of a longer code («A12» in «A12-9»)."""
    if not words(value):
        return bool(value.strip()) and value in text
    return any(alone(text, start, end) for start, end in runs(value, text))


_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def name_words(name: str) -> list[str]:
    """The words of a name, however it joins them: `phoneNumber`, `phone-number`, `Phone.Number`."""
    return [w for w in re.split(r"[^a-z0-9]+", _HUMP.sub("_", name[:200]).lower()) if w]


_GROUPS = {
    title: [frozenset(map(fold, forms)) for forms in table(title)]
    for title in ("currencies", "countries", "languages", "units", "cities")
}
_BY_FORM: dict[str, list[frozenset[str]]] = {}
for _group in chain.from_iterable(_GROUPS.values()):
    for _form in _group:
        _BY_FORM.setdefault(_form, []).append(_group)


@lru_cache(maxsize=8192)
def forms(value: str) -> frozenset[str]:
    """Every other way to write a value that one of the tables knows; empty if none does."""
    folded = fold(value.strip())
    if len(folded) == 5 and folded[2] in "-_":  # a locale such as en-US names its language
        folded = folded[:2]
    return frozenset().union(*_BY_FORM.get(folded, ()))


@lru_cache(maxsize=8192)
def unit_forms(value: str) -> frozenset[str]:
    """Every way to write a unit, short ones included; empty if the value is no unit."""
    return frozenset().union(*(g for g in _GROUPS["units"] if value in g)) - STOP


def alias_said(value: str, text: str) -> bool:
    """Does the text name the value by another of its forms?"""
    return any(_form_said(form, text) for form in forms(value))


def _form_said(form: str, text: str) -> bool:
    if not any(c.isalnum() for c in form) or form[0] == "°" or form[-1] == "$":
        return form in text.casefold()
    if len(form) > 3 or form in {"yen"}:
        return literal(form, text)
    # A code is also a common word («in», «it», «us»): it counts in capitals or after a number.
    return any(text[a:b].isupper() or re.search(r"\d\s?\Z", text[:a]) for a, b in runs(form, text))
