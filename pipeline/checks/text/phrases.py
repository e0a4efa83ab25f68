"""Does a text say a string: word for word, inflected, abbreviated or paraphrased?"""

from __future__ import annotations

import re

from rapidfuzz import fuzz

from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.words import (
    STOP,
    Word,
    alias_said,
    content,
    exact,
    forms,
    literal,
    plain,
    sentences,
    spaced,
    stem,
    unit_forms,
    words,
)

_CODE = re.compile(r"(?=\S*\d)(?=\S*[^\W\d_])\S+|\S+@\S+|\S*://\S+|\S*[/\\#]\S+|[\d\s().+/:-]{5,}")
_LONG = 5  # content words from which a value is prose, that a call may shorten or rephrase
_COVERAGE = 0.8


def is_code(value: str) -> bool:
    """An id, address or long number: it is said letter by letter or not at all."""
    return bool(_CODE.fullmatch(value.strip()))


def said(value: str, text: str) -> bool:
    """Does the text say this value, in these words or in words that mean the same?

    Codes must stand letter by letter. Names must stand together. Other phrases may be inflected
    («lasagnas»), turned («lasagna that is vegan»), abbreviated (NYC) or named by an alias ($).
    """
    if is_code(value):
        return exact(value, text) or alias_said(value, text)
    phrase = spaced(value)
    return (
        literal(phrase, text)
        or literal(value, text)
        or alias_said(value, text)
        or _initials(phrase, text)
        or any(_gathered(phrase, sentence) for sentence in sentences(text))
        or _covered(phrase, text)
    )


def _initials(value: str, text: str) -> bool:
    """NYC for New York City, either way round; only capitals stand for words."""
    short, long = re.compile(r"[A-Z]{2,6}"), [w for w in words(value) if w.folded not in STOP]
    if short.fullmatch(value):
        names = [w for w in words(text) if w.folded not in STOP]
        letters = "".join(w.folded[0] if w.capital else "·" for w in names)
        return value.lower() in letters
    if len(long) < 2 or not all(w.capital for w in long):
        return False
    initials = "".join(w.raw[0] for w in long).upper()
    return any(w.raw == initials for w in words(text))


def _is_slip(value: str, word: str) -> bool:
    """A slip of the pen in a long word."""
    alike = len(value) > 7 and len(word) > 7 and value[0] == word[0]
    return alike and fuzz.ratio(value, word) >= 93


def _gathered(value: str, sentence: str) -> bool:
    """All content words of the value within a few words of each other, in any order."""
    needed = [w for w in words(value) if w.folded not in STOP]
    found = words(plain(sentence))
    places = []
    for word in needed:
        if not (at := _places(word, found, sentence)):
            return False
        places.append(at)
    if not needed:
        return False
    if len(needed) == 1:
        return len(needed[0].folded) > 1
    reach = len(needed) + 5
    near = [p for p in places[0] if all(any(abs(p - q) <= reach for q in qs) for qs in places)]
    if all(w.capital for w in words(value) if w.folded not in STOP) and all(
        any(found[p].capital for p in ps) for ps in places
    ):
        return any(_together(p, places, found) for p in near)
    return bool(near)


def _places(wanted: Word, found: tuple[Word, ...], sentence: str) -> list[int]:
    """Where the wanted word stands, but for inflection, an alias or a slip of the pen."""
    if wanted.raw[0].isdigit():
        values = {r for q in quantities(wanted.raw) for r in q.readings()}
        starts = {q.start for q in quantities(sentence) if values & set(q.readings())}
        return [i for i, w in enumerate(found) if w.start in starts or w.folded == wanted.folded]
    value = wanted.folded
    root, units, others, long = stem(value), unit_forms(value), forms(value), len(value) > 7
    return [
        place
        for place, (_, word, _, _) in enumerate(found)
        if word == value
        or stem(word) == root
        or word in units
        or (word in others and len(word) > 3)
        or (long and _is_slip(value, word))
    ]


def _together(first: int, places: list[list[int]], found: tuple[Word, ...]) -> bool:
    """The words of a name in order, with nothing but small words or initials between them."""
    at = first
    for options in places[1:]:
        later = [p for p in options if p > at]
        if not later:
            return False
        between = found[at + 1 : min(later)]
        if any(w.folded not in STOP and len(w.folded) > 1 for w in between):
            return False
        at = min(later)
    return True


def _covered(value: str, text: str) -> bool:
    """Prose is said where nearly all its content words and every number in it are."""
    wanted = content(value)
    if len(wanted) < _LONG:
        return False
    there = {stem(w.folded) for w in words(text)}
    numbers = {r for q in quantities(text) for r in q.readings()}
    if any(q.stated and not set(q.readings()) & numbers for q in quantities(value)):
        return False
    return sum(w in there for w in wanted) >= _COVERAGE * len(wanted)


QUOTED = re.compile(r"\"([^\"\n]{1,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|«([^»\n]{1,200})»")
ADDRESS = re.compile(
    r"https?://[^\s<>\"')]+|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|(?<!\w)[@#]\w+"
)
CODE = re.compile(r"(?<![\w@./-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[\w-]{3,}|\+?\d[\d ().-]{5,}\d")
