"""Numbers a text says: digits, words, scales, percent, fractions and ordinals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from toolloom.pipeline.checks.text.words import Word, plain, words

_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen"""
_TENS_NAMES = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh
twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
SMALL = {name: number for number, name in enumerate(_SMALL.split())}
_TENS = {name: 10 * number for number, name in enumerate(_TENS_NAMES.split(), start=2)}
ORDINALS = {name: n for n, name in enumerate(_ORDINALS.split(), start=1)} | {"thirtieth": 30}
_SCALES = {
    "hundred": 100, "thousand": 1000, "k": 1000, "grand": 1000, "million": 10**6, "mio": 10**6,
    "mn": 10**6, "m": 10**6, "billion": 10**9, "bn": 10**9, "b": 10**9, "trillion": 10**12,
    "dozen": 12,
}  # fmt: skip
_BARE_SCALES = frozenset({"hundred", "thousand", "million", "billion", "trillion", "dozen"})
_CARDINALS = frozenset([*SMALL, *_TENS])
_FRACTIONS = {
    "three quarters": 0.75, "a quarter": 0.25, "one quarter": 0.25, "a half": 0.5, "one half": 0.5,
}  # fmt: skip
# Words that imply a number without stating one; a reply may use them freely.
_IMPLIED = {
    "single": 1, "once": 1, "alone": 1, "solo": 1, "myself": 1, "double": 2, "twice": 2,
    "both": 2, "couple": 2, "pair": 2, "triple": 3, "thrice": 3,
}  # fmt: skip

_DIGITS = re.compile(
    r"(?=[-+$€£¥₹₩#~\d.])(?<![\w.,])(?<![^\W\d_]-)(?P<sign>(?<![\d)])[-+])?(?:[$€£¥₹₩#~]\s?)?"
    r"(?P<num>\d{1,3}(?:[,' \u00a0\u202f]\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+,\d+|\d+,\d{1,2}"
    r"|\d+(?:\.\d+)?|\.\d+)(?!\d)"
    r"(?:\s?(?P<percent>%|percent\b|per cent\b)|(?:st|nd|rd|th)\b(?P<ordinal>)"
    r"|(?P<letter>[kmb])\b|\s?(?P<scale>mn|mio|bn|hundred|thousand|million|billion|trillion|dozen)\b"
    r"|/(?P<under>\d{1,3})(?![\d/])|(?=\s?[^\W\d_]{1,4}\b)|(?![\w]))",
    re.IGNORECASE,
)
_STARTS = frozenset([*SMALL, *_TENS, *ORDINALS, *_IMPLIED, "half", "a", "an"])
_HALF = re.compile(r"\s(?:and|&)\sa\shalf\b", re.IGNORECASE)
_LONGEST = 40  # digits of a number worth reading; longer ones are codes or bombs


class Quantity(NamedTuple):
    """A number in a text. `scale` is what its mantissa was multiplied by, for rounding."""

    value: float
    start: int
    end: int
    decimals: int = 0
    scale: float = 1
    percent: bool = False
    stated: bool = True
    unit: str = ""

    def readings(self) -> tuple[float, ...]:
        """The values it may stand for: «25%» is 25 and 0.25, «5m» five metres or millions."""
        found = [self.value]
        if self.percent:
            found.append(self.value / 100)
        if self.scale == 10**6 and self.unit == "m":
            found.append(self.value / self.scale)
        return tuple(found)


@lru_cache(maxsize=4096)
def quantities(text: str) -> tuple[Quantity, ...]:
    """Every number a text says, in order of place."""
    flat = plain(text)
    digits = list(_from_digits(flat))
    taken = {i for q in digits for i in range(q.start, q.end)}
    spelled = [q for q in _from_words(flat) if q.start not in taken]
    return tuple(sorted([*digits, *spelled], key=lambda q: q.start))


def sums(text: str) -> Iterator[float]:
    """What numbers come to that a text adds up: «two mugs, a lamp and one more mug» are three."""
    flat, found = plain(text), quantities(text)
    for place, more in enumerate(found):
        if more.unit == "more" and re.search(r"\b(?:and|plus)\s$", flat[: more.start]):
            yield from (one.value + more.value for one in found[max(0, place - 3) : place])


def _from_digits(text: str) -> Iterator[Quantity]:
    for found in _DIGITS.finditer(text):
        digits = _canonical(found["num"])
        if len(digits) > _LONGEST:
            continue
        number = float(digits) if "." in digits else int(digits)
        suffix = (found["letter"] or found["scale"] or "").lower()
        scale = _SCALES.get(suffix, 1)
        if found["under"] and int(found["under"]):
            number = number / int(found["under"])
        half = _HALF.match(text, found.end())
        number = (number + (0.5 if half else 0)) * scale
        negated = found["sign"] == "-" or _negated(text[: found.start()])
        after = words(text[found.end() : found.end() + 24])
        yield Quantity(
            value=_whole(-number if negated else number),
            start=found.start("num"),
            end=found.end() + (half.end() if half else 0),
            decimals=len(digits.partition(".")[2]),
            scale=scale,
            percent=bool(found["percent"]),
            stated=found["ordinal"] is None,
            unit=suffix or (after[0].folded if after else ""),
        )


def _canonical(digits: str) -> str:
    """Digits with a point, whatever separators they came with."""
    if digits.replace(".", "").isdecimal():
        return digits
    if re.fullmatch(r"\d+,\d{1,2}|\d{1,3}(?:\.\d{3})+,\d+", digits):
        return digits.replace(".", "").replace(",", ".")
    return re.sub(r"[,' \u00a0\u202f]", "", digits)


def _negated(before: str) -> bool:
    return bool(re.search(r"\b(?:minus|negative)\s$", before[-12:], re.IGNORECASE))


def _whole(number: float) -> float:
    return int(number) if math.isfinite(number) and number == int(number) else number


def _from_words(text: str) -> Iterator[Quantity]:
    found = words(text)
    place = 0
    while place < len(found):
        starts = found[place].folded in _STARTS
        value, used = _spelled(found[place : place + 12]) if starts else (0.0, 0)
        if not used:
            place += 1
            continue
        last = found[place + used - 1]
        after = found[place + used : place + used + 1]
        yield Quantity(
            value=_whole(-value if _negated(text[: found[place].start]) else value),
            start=found[place].start,
            end=last.end,
            decimals=1 if value != int(value) else 0,
            percent=bool(after) and after[0].folded in {"percent", "per"},
            stated=value != 1 and last.folded not in ORDINALS and last.folded not in _IMPLIED,
            unit=after[0].folded if after else "",
        )
        place += used


def _spelled(found: tuple[Word, ...]) -> tuple[float, int]:
    """The number at the start of these words, and how many of them it takes (0: none)."""
    names = [w.folded for w in found]
    beginning = " ".join(names[:2])
    if beginning in _FRACTIONS:
        return _FRACTIONS[beginning], 2
    if beginning in {"half a", "half an", "half the"}:
        return (6, 3) if names[2:3] == ["dozen"] else (0.5, 1)
    total, current, used, last = 0, 0, 0, ""
    for place, name in enumerate(names):
        if name in {"a", "an"} and not used and names[1:2] and names[1] in _BARE_SCALES:
            current = 1
        elif name in SMALL and (
            last in {"", "scale"} or (last == "tens" and current % 10 == 0 and 0 < SMALL[name] < 10)
        ):
            current, last = current + SMALL[name], "small"
        elif name in _TENS and last in {"", "scale"}:
            current, last = current + _TENS[name], "tens"
        elif name in ORDINALS and last in {"", "tens", "scale"}:
            return total + current + ORDINALS[name], place + 1
        elif name in _BARE_SCALES and (used or name != "dozen") and current:
            current, last = current * _SCALES[name], "scale"
            if name not in {"hundred", "dozen"}:
                current, total = 0, total + current
        elif name == "and" and last == "scale" and _CARDINALS & {*names[place + 1 : place + 2]}:
            continue
        else:
            break
        used = place + 1
    if not used:
        return (_IMPLIED[names[0]], 1) if names and names[0] in _IMPLIED else (0, 0)
    if names[used : used + 3] == ["and", "a", "half"]:
        return total + current + 0.5, used + 3
    return total + current, used
