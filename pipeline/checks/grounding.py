"""Does a text, or an observation, say a value? The certain half of «no invented arguments»."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote_plus

from rapidfuzz import fuzz

from toolloom.pipeline.checks.schema import as_dict, is_number, leaves, oddity, parts_of
from toolloom.pipeline.checks.text.quantities import (
    dates,
    day_of,
    moments,
    numbers_outside,
    only_date,
    only_time,
    quantities,
    seconds_in,
    shift,
    spans_of_time,
    sums,
    times,
)
from toolloom.pipeline.checks.text.words import (
    STOP,
    Word,
    alias_said,
    content,
    exact,
    fold,
    forms,
    letters,
    listed,
    literal,
    plain,
    sentences,
    spaced,
    stem,
    stems,
    unit_forms,
    words,
)
from toolloom.schemas import JsonObject

STAMP = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?\s?(?:Z|[+-]\d{2}:?\d{2})?"
)
_SPOKEN = re.compile(r"(.+?),?(?: at)? (\d[\d:.]*(?: ?[ap]\.?m\.?)?|noon|midnight)", re.IGNORECASE)
_LONGEST = 32  # characters of a day with its time
_ENCODED = re.compile(r"[^\W\d_]+(?:(?:\+|%20)[^\W\d_]+)+")  # palo+alto, as in addresses
_LENGTH = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?")
_CALENDAR = frozenset(["year", "month", "day", "date", "hour", "minute", "number", "id", "code"])
_NO = listed("denials")
_GENERIC = frozenset(map(stem, listed("words of flags")))
_STOPPED = frozenset(map(stem, STOP)) | _GENERIC


def named(name: str, schema: JsonObject | None) -> JsonObject:
    """A parameter's schema with its name as title, whose words help to ground booleans."""
    return {"title": name, **as_dict(schema)}


def mentions(text: str, value: Any, schema: JsonObject | None, now: dt.datetime) -> bool:
    """As `says`, for a value and a schema that need not be plain JSON."""
    if oddity(value) or oddity(schema):
        return False
    return says(text, value, schema, now)


def says(text: str, value: Any, schema: JsonObject | None, now: dt.datetime) -> bool:
    """Does the text say this value? Lists and objects: every item and leaf.

    A number that stands in a calendar date or a clock time does not count, unless the schema's
    words ask for such a part. True must be named by a word of the schema's title or description;
    False may also go unsaid, and does not count where the word stands without a negation.
    """
    schema = as_dict(schema)
    if isinstance(value, dict):
        known = as_dict(schema.get("properties"))
        return all(says(text, v, named(k, known.get(k)), now) for k, v in value.items())
    if isinstance(value, list):
        each = named(str(schema.get("title", "")), schema.get("items"))
        return all(says(text, item, each, now) for item in value)
    if value is None:
        return True
    if isinstance(value, bool):
        wanted = stems(" ".join(_texts(schema))) - STOP - _GENERIC
        found = words(text)
        places = [i for i, w in enumerate(found) if stem(w.folded) in wanted]
        denied = [any(w.folded in _NO for w in found[max(0, i - 4) : i]) for i in places]
        if value:
            return not all(denied)
        return not places or any(denied)
    if isinstance(value, int | float):
        return _number_said(text, value, schema, now.date())
    told = _told(text, value, now)
    if told is None:
        return isinstance(schema.get("enum"), list) and _abbreviated(value, text, schema)
    return told


def _texts(schema: JsonObject) -> Iterator[str]:
    """A schema's title and its description, with identifiers as words."""
    for text in (schema.get("title"), schema.get("description")):
        yield spaced(text) if isinstance(text, str) else ""


def about(schema: JsonObject) -> tuple[frozenset[str], frozenset[str]]:
    """The stems of the words that carry meaning in a schema's title, and in its description."""
    title, others = map(stems, _texts(schema))
    return title - _STOPPED or title, others - _STOPPED - title


def _number_said(text: str, value: float, schema: JsonObject, today: dt.date) -> bool:
    described = " ".join(_texts(schema))
    about, units = stems(described), {seconds_in(w.folded) for w in words(described)} - {0}
    told = quantities(text) if about & _CALENDAR else numbers_outside(text, today)
    said_numbers = [reading for quantity in told for reading in quantity.readings()]
    lengths = [s / unit for s in spans_of_time(text) for unit in units] if units else []
    if value == 1 and re.search(r"\ban? ", text.lower()) and _counted(text, about):
        return True
    return any(close(value, n) for n in (*said_numbers, *lengths, *sums(text)))


def _counted(text: str, about: frozenset[str]) -> bool:
    """«a ticket» is one ticket, where tickets are what the schema counts."""
    found = words(text)
    return any(
        a.folded in {"a", "an"} and stem(b.folded) in about
        for i, a in enumerate(found)
        for b in found[i + 1 : i + 4]
    )


def close(a: float, b: float) -> bool:
    """Equal but for the binary form of decimals; never for numbers beyond a float."""
    try:
        return a == b or math.isclose(a, b, rel_tol=1e-9)
    except OverflowError:
        return False


@lru_cache(maxsize=4096)
def _told(text: str, value: str, now: dt.datetime) -> bool | None:
    """Does the text say this string? None: it does not, unless as a choice cut short."""
    if not value.strip():
        return False
    if exact(value, text) or (_ENCODED.fullmatch(value) and exact(unquote_plus(value), text)):
        return True
    today = now.date()
    stamp, days, hours = STAMP.fullmatch(value.strip()), only_date(value, today), only_time(value)
    if stamp:
        return _stamp_said(text, stamp, now)
    if days:
        return bool(days & dates(text, today))
    if hours:
        return bool(hours & (times(text) | {m.time() for m in _minutes(text, now)}))
    if re.fullmatch(r"\d{4}-\d{2}", value):
        return any(value == f"{d:%Y-%m}" for d in dates(text, today)) or any(
            re.search(rf"\b{month:{style}}\b\.?,?\s(?:of\s)?{month.year}", text, re.IGNORECASE)
            for month in day_of(int(value[:4]), int(value[5:]), 1)
            for style in ("%B", "%b")
        )
    length = _LENGTH.fullmatch(value)
    if length and any(length.groups()):
        sizes = (604800, 86400, 3600, 60, 1)
        total = sum(int(n or 0) * s for n, s in zip(length.groups(), sizes, strict=True))
        return any(close(total, s) for s in spans_of_time(text))
    if re.fullmatch(r"[$€£]?\d{1,4}(?:[.,]\d+)?\s?%?", value) and not value.startswith("0"):
        wanted = {r for q in quantities(value) for r in q.readings()}
        told = [reading for q in numbers_outside(text, today) for reading in q.readings()]
        return any(close(a, b) for b in told for a in wanted)
    return said(value, text) or None


def _minutes(text: str, now: dt.datetime) -> set[dt.datetime]:
    return {m.replace(second=0, microsecond=0) for m in moments(text, now)}


def _stamp_said(text: str, stamp: re.Match[str], now: dt.datetime) -> bool:
    """Both the day and the time; midnight may go unsaid, and so may the day where it is today."""
    try:
        value = dt.datetime.fromisoformat(f"{stamp[1]} {stamp[2]}")
    except ValueError:
        return False
    if value in _minutes(text, now):
        return True
    days, hours = dates(text, now.date()), times(text)
    day_said = value.date() in days or (not days and value.date() == now.date())
    return day_said and (value.time() in hours or (not hours and value.time() == dt.time()))


def _abbreviated(value: str, text: str, schema: JsonObject) -> bool:
    """An enum's value cut short or written out: `desc` for «descending», no other fits."""
    if len(value) < 3:
        return False
    options = [fold(v) for v in schema["enum"] if isinstance(v, str)]
    for word in {w.folded for w in words(text)}:
        fits = [o for o in options if len(word) > 2 and (o.startswith(word) or word.startswith(o))]
        if fits == [fold(value)]:
            return True
    return False


def fixed(value: Any, schema: JsonObject | None) -> bool:
    """The schema itself gives the value: its default, its constant, or the only choice."""
    known = as_dict(schema)
    choices = known.get("enum")
    if isinstance(choices, list) and len(choices) == 1 and same(choices[0], value):
        return True
    return any(key in known and same(known[key], value) for key in ("default", "const"))


def same(a: Any, b: Any) -> bool:
    """Equal as a value: case, accents, punctuation and the form of numbers and dates aside."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return close(a, b)
    if isinstance(a, str) and isinstance(b, str):
        return a == b or (letters(a) == letters(b) and bool(letters(a)))
    if isinstance(a, str) and isinstance(b, int | float):
        found = quantities(a)
        whole = bool(found) and found[0].start == 0 and found[0].end == len(a)
        return whole and close(found[0].value, b)
    return same(b, a) if isinstance(a, int | float) and isinstance(b, str) else a is b


def founded(
    value: Any,
    texts: Sequence[str],
    observed: Sequence[Any],
    schema: JsonObject | None,
    now: dt.datetime,
) -> bool:
    """Is every leaf of the value said in one of the texts or found in an observation?"""
    if fixed(value, schema):
        return True
    schema = as_dict(schema)
    if isinstance(value, dict):
        known = as_dict(schema.get("properties"))
        return all(
            founded(v, texts, observed, named(k, known.get(k)), now) for k, v in value.items()
        )
    if isinstance(value, list):
        each = named(str(schema.get("title", "")), schema.get("items"))
        return all(founded(item, texts, observed, each, now) for item in value)
    text, seen = "\n".join(texts), list(leaves(list(observed)))
    return (
        says(text, value, schema, now)
        or any(same(leaf, value) or _told_in(leaf, value) for leaf in seen)
        or (isinstance(value, str) and _composed(value, text, observed, now))
        or (isinstance(value, str) and _a_day_on(value, text, now.date()))
    )


_DAY_ON = re.compile(
    r"\b(?:day (after|before)(?! (?:tomorrow|yesterday))|(?:next|following) day)\b"
)


def _a_day_on(value: str, text: str, today: dt.date) -> bool:
    """A day beside one that was said: «can you do it the day before?»"""
    ways = {-1 if found[1] == "before" else 1 for found in _DAY_ON.finditer(text.lower())}
    days, known = only_date(value, today) if ways else (), dates(text, today)
    return any(not known.isdisjoint(shift(day, "day", -way)) for day in days for way in ways)


def _composed(value: str, text: str, observed: Sequence[Any], now: dt.datetime) -> bool:
    """A day with a time that a result has together, or of which it has one and a text the other."""
    found = STAMP.fullmatch(value.strip()) or _SPOKEN.fullmatch(value.strip())
    if not found:
        return False
    today = now.date()
    days, hours = only_date(found[1], today), only_time(found[2])
    said_day, said_hour = days & dates(text, today), hours & times(text)
    for part in parts_of(list(observed)):
        values = part.values() if isinstance(part, dict) else [part]
        shown = [v for v in values if isinstance(v, str) and len(v) <= _LONGEST]
        stamps = [m for v in shown if (m := STAMP.fullmatch(v))]
        if any(only_date(m[1], today) & days and only_time(m[2]) & hours for m in stamps):
            return True
        shown_day = any(only_date(v, today) & days for v in (*shown, *(m[1] for m in stamps)))
        if shown_day and (said_hour or any(only_time(v) & hours for v in shown)):
            return True
        if said_day and any(only_time(v) & hours for v in (*shown, *(m[2] for m in stamps))):
            return True
    return False


def _told_in(leaf: Any, value: Any) -> bool:
    if not isinstance(leaf, str):
        return False
    if isinstance(value, str) and value.strip():
        shorter = len(content(value)) < len(content(leaf))
        return exact(value, leaf) if is_code(value) else shorter and said(value, leaf)
    return is_number(value) and any(close(value, r) for q in quantities(leaf) for r in q.readings())


# Strings: word for word, inflected, abbreviated or paraphrased

QUOTED = re.compile(r"\"([^\"\n]{1,200})\"|(?<!\w)'([^'\n]{2,200})'(?!\w)|«([^»\n]{1,200})»")
ADDRESS = re.compile(
    r"https?://[^\s<>\"')]+|[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}|(?<!\w)[@#]\w+"
)
CODE = re.compile(r"(?<![\w@./-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z_])[\w-]{3,}|\+?\d[\d ().-]{5,}\d")
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


def _gathered(value: str, sentence: str) -> bool:
    """All content words of the value within a few words of each other, in any order."""
    needed = [w for w in words(value) if w.folded not in STOP]
    found = words(plain(sentence))
    places = [_places(word, found, sentence) for word in needed]
    if not needed or not all(places):
        return False
    if len(needed) == 1:
        return len(needed[0].folded) > 1
    reach = len(needed) + 5
    near = [p for p in places[0] if all(any(abs(p - q) <= reach for q in qs) for qs in places)]
    capital = all(w.capital for w in needed)
    if capital and all(any(found[p].capital for p in ps) for ps in places):
        return any(_together(p, places, found) for p in near)
    return bool(near)


def _places(wanted: Word, found: tuple[Word, ...], sentence: str) -> list[int]:
    """Where the wanted word stands, but for inflection, an alias or a slip of the pen."""
    if wanted.raw[0].isdigit():
        values = {r for q in quantities(wanted.raw) for r in q.readings()}
        starts = {q.start for q in quantities(sentence) if values & set(q.readings())}
        return [i for i, w in enumerate(found) if w.start in starts or w.folded == wanted.folded]
    value = wanted.folded
    root, units, others = stem(value), unit_forms(value), forms(value)
    return [
        place
        for place, (_, word, _, _) in enumerate(found)
        if word == value
        or stem(word) == root
        or word in units
        or (word in others and len(word) > 3)
        # A slip of the pen in a long word.
        or (
            min(len(value), len(word)) > 7 and value[0] == word[0] and fuzz.ratio(value, word) >= 93
        )
    ]


def _together(first: int, places: list[list[int]], found: tuple[Word, ...]) -> bool:
    """The words of a name in order, with nothing but small words or initials between them."""
    at = first
    for options in places[1:]:
        later = [p for p in options if p > at]
        if not later:
            return False
        if any(w.folded not in STOP and len(w.folded) > 1 for w in found[at + 1 : min(later)]):
            return False
        at = min(later)
    return True


def _covered(value: str, text: str) -> bool:
    """Prose is said where nearly all its content words and every number in it are."""
    wanted = content(value)
    if len(wanted) < _LONG:
        return False
    numbers = {r for q in quantities(text) for r in q.readings()}
    if any(q.stated and not set(q.readings()) & numbers for q in quantities(value)):
        return False
    return sum(w in stems(text) for w in wanted) >= _COVERAGE * len(wanted)
