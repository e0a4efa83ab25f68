"""What a reply claims: every number, date, time, address, code, quotation and name in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from toolloom.pipeline.checks.evidence import Evidence
from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.text.aliases import forms
from toolloom.pipeline.checks.text.dates import MONTHS, WEEKDAYS, dated
from toolloom.pipeline.checks.text.numbers import Quantity, quantities
from toolloom.pipeline.checks.text.phrases import said
from toolloom.pipeline.checks.text.spans import ADDRESS, CODE, QUOTED
from toolloom.pipeline.checks.text.times import seconds_in, timed
from toolloom.pipeline.checks.text.words import STOP, exact, literal, plain, sentences, stem, words

_LISTED = re.compile(r"^\s*(?:#+\s*)?\d{1,2}[.)]\s", re.MULTILINE)
_LABEL = re.compile(r"^[\s*#•-]*[^:.\n]{1,40}:", re.MULTILINE)
_MARKUP = re.compile(r"(?<!\w)[*_`#]+(?=\w)|(?<=[\w.:])[*_`]+(?!\w)")
# Without one of these the expressions for them match nothing, and take long to find that out.
_ADDRESS_SIGN, _QUOTATION = re.compile(r"[@#]|://"), re.compile(r"[\"'«]")
_SIZED = re.compile(r"\d+(?:[.,]\d+)*-?[a-z]+(?:-[a-z]+)*", re.IGNORECASE)
_HEDGE = re.compile(
    r"(?:about|around|approximately|roughly|nearly|almost|over|under|some|~)\s*[$€£]?$",
    re.IGNORECASE,
)
_COMMON = frozenset(
    """
    ok okay am pm api id url i'm i've i'll i'd i celsius fahrenheit utc gmt faq mr mrs
    ms dr god internet monday english
    """.split()  # noqa: SIM905 - a table of words
)


_METRIC = frozenset(
    """
    m meter meters metre metres km kilometers kilometres cm g gram grams kg kilograms mg
    ml l liters litres mb gb tb
    """.split()  # noqa: SIM905 - a table of words
)


_RANGE = re.compile(r"\d{1,2} to \d{1,2}")


class UnfoundedClaim(NamedTuple):
    """A claim in a reply that nothing bears out."""

    kind: str
    text: str


def unfounded(reply: str, evidence: Evidence, names: bool = True) -> Iterator[UnfoundedClaim]:
    """Claims in the reply that nothing said or observed bears out, in no special order."""
    text = _MARKUP.sub(lambda m: " " * len(m.group()), plain(reply))
    taken: list[tuple[int, int]] = []
    for kind, start, end, held in (*_literals(text, evidence), *_calendar(text, evidence)):
        taken.append((start, end))
        if not held:
            yield UnfoundedClaim(kind, text[start:end])
    taken += [m.span() for m in _LISTED.finditer(text)]
    for quantity in quantities(text):
        inside = any(a <= quantity.start < b for a, b in taken)
        if quantity.stated and not inside and not number_held(quantity, text, evidence):
            yield UnfoundedClaim("number", text[quantity.start : quantity.end])
    if names:
        yield from (UnfoundedClaim("name", name) for name in _names(text, evidence, taken))


def _literals(text: str, evidence: Evidence) -> Iterator[tuple[str, int, int, bool]]:
    """Addresses, codes and quotations, with whether the evidence has them."""
    days = [(d.start, d.end) for d in dated(text, evidence.now.date())]
    addresses: list[tuple[int, int]] = []
    for found in ADDRESS.finditer(text) if _ADDRESS_SIGN.search(text) else ():
        address = found.group().rstrip(".,;:!?)")
        addresses.append(found.span())
        yield "address", found.start(), found.end(), address.lower() in evidence.all_text.lower()
    for found in CODE.finditer(text):
        code, start = found.group(), found.start()
        sized = _SIZED.fullmatch(code) or not re.search(r"[^\W\d]", code)
        # A code inside a day or an address is judged with it.
        if not sized and not any(a <= start < b for a, b in (*days, *addresses)):
            held = any(exact(code, text) for text in evidence.texts)  # to be quick
            held = held or exact(code, evidence.all_text) or said(code, evidence.all_text)
            yield "code", start, found.end(), held
    for found in QUOTED.finditer(text) if _QUOTATION.search(text) else ():
        quoted = next(g for g in found.groups() if g)
        yield (
            "quotation",
            found.start(),
            found.end(),
            said(quoted.strip(" .,!?"), evidence.all_text),
        )


def _calendar(text: str, evidence: Evidence) -> Iterator[tuple[str, int, int, bool]]:
    """Dates and times; relative ones also hold where the number in them was told."""
    reach, marks = 0, dated(text, evidence.now.date())
    for place in marks:
        if place.end <= reach:
            continue
        reach, phrase = place.end, text[place.start : place.end]
        held = bool(place.days & evidence.days) or literal(phrase, evidence.all_text)
        inside = [q for q in quantities(phrase) if q.stated]
        named = [d for d in marks if 0 < d.start - place.end < 7 and d.absolute]
        if named and phrase.split()[-1].lower() in WEEKDAYS:  # «Wednesday, 3 March»
            held = any(f"{d:%A}".lower() == phrase.split()[-1].lower() for d in named[0].days)
        elif not held and not place.absolute:
            period = re.search(r"week|month|year|today|tonight|now|this", phrase, re.IGNORECASE)
            told = [number_held(q, phrase, evidence) for q in inside]
            root = {stem(phrase.lower())}
            held = all(told) if inside else bool(period) or evidence.holds_any(root)
        yield "date", place.start, place.end, held
    for moment in timed(text):
        held = bool(moment.times & evidence.times)
        if not held and _RANGE.fullmatch(text[moment.start : moment.end]):
            continue  # «10 to 19 degrees»: two numbers, judged as such
        if moment.sure or held:
            yield "time", moment.start, moment.end, held


def number_held(quantity: Quantity, text: str, evidence: Evidence) -> bool:
    """Told as it is, rounded, scaled, as a percentage, or in another unit of time."""
    hedged = bool(_HEDGE.search(text[max(0, quantity.start - 20) : quantity.start]))
    told = evidence.numbers
    if any(_rounds(reading, quantity, n, hedged) for n in told for reading in quantity.readings()):
        return True
    if quantity.unit in _METRIC:
        return any(close(quantity.value * f, n) for n in told for f in (1000, 0.001, 100, 0.01))
    unit = seconds_in(quantity.unit)
    if not unit:
        return False
    lengths = evidence.seconds | {n * u for n in told for u in (1, 60, 3600)}
    whole = _joined(quantity, text)
    return any(close(s, n) for s in (quantity.value * unit, *whole) for n in lengths)


def _joined(quantity: Quantity, text: str) -> list[float]:
    """The whole of «2 hours and 30 minutes» that the quantity is a part of, in seconds."""
    found = [q for q in quantities(text) if seconds_in(q.unit)]
    return [
        a.value * seconds_in(a.unit) + b.value * seconds_in(b.unit)
        for a, b in pairwise(found)
        if quantity in (a, b) and b.start - a.end < 14
    ]


def _rounds(reading: float, quantity: Quantity, told: float, hedged: bool) -> bool:
    """Is the reading what a told number is when rounded as finely as the reply writes it?"""
    if close(reading, told) or close(abs(reading), abs(told)):
        return True
    try:
        scale = quantity.scale if reading == quantity.value else 1
        size = scale / 10**quantity.decimals
        if quantity.percent and close(reading, quantity.value / 100):
            size /= 100
        zeros = len(str(int(abs(reading)))) - len(str(int(abs(reading))).rstrip("0"))
        if hedged and scale == 1 and zeros and not quantity.decimals:
            size = 10**zeros
        exactly = float(told).is_integer() and scale == 1 and not hedged
        return not exactly and abs(reading - told) <= size * 0.5 + abs(told) * 1e-9
    except OverflowError:
        return False


def _names(text: str, evidence: Evidence, taken: list[tuple[int, int]]) -> Iterator[str]:
    """Capitalised words inside a sentence that nothing said or observed holds."""
    skipped = [*taken, *(m.span() for m in _LABEL.finditer(text))]
    starts = {s.lstrip("\"'([-•* ")[:12] for s in sentences(text)}
    for word in words(text):
        before = text[: word.start].rstrip(" \"'([-•*")
        first = not before or before[-1] in ".!?:\n" or before.endswith("…")
        if not word.capital or first or any(a <= word.start < b for a, b in skipped):
            continue
        if text[word.end : word.end + 1] == "$":  # a currency such as CA$
            continue
        if text[word.start : word.start + 12] in starts or len(word.folded) < 2:
            continue
        if not _name_held(word.folded, word.raw, evidence):
            yield word.raw


def _name_held(folded: str, raw: str, evidence: Evidence) -> bool:
    if folded in STOP or folded in _COMMON or folded in WEEKDAYS:
        return True
    parts = {stem(folded), stem(folded.removesuffix("s"))}
    if evidence.holds_any(parts) or any(d.month == MONTHS.get(folded) for d in evidence.days):
        return True
    return (bool(forms(folded)) and said(raw, evidence.all_text)) or _is_initials(raw, evidence)


def _is_initials(raw: str, evidence: Evidence) -> bool:
    return raw.isupper() and len(raw) > 1 and said(raw, evidence.all_text)
