"""Numbers that follow from what was said: another unit, a scale, one step of arithmetic.

Only for audits of data whose intent is unknown (`contradictions.py`): it reads a text as loosely as
can be.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.text.numbers import Quantity, quantities

_FIGURE = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_POWER = re.compile(r"(\d+(?:\.\d+)?)\s?[x×*]\s?10\s?(?:\^|\*\*)?\s?\(?([-−]?\d+)\)?")
_LONGEST = 40

# Words that stand for a number where none stands before them: «monthly» is twelve times a year.
_IMPLIED = {
    "daily": (1, 365), "weekly": (7, 52), "monthly": (12, 30), "quarterly": (4, 3),
    "hourly": (24,), "annually": (1,), "annual": (1,), "yearly": (1,), "day": (1,), "week": (7,),
    "month": (30, 31, 1), "year": (365, 12, 1), "fortnight": (14,), "weekend": (2, 3),
    "decade": (10,), "century": (100,), "half": (0.5, 30), "quarter": (0.25, 15, 3),
    "double": (2,), "doubling": (2,), "doubles": (2,), "twice": (2,), "square": (2,),
    "squared": (2,), "cube": (3,), "cubed": (3,), "triple": (3,), "dozen": (12,), "couple": (2,),
    "pair": (2,), "both": (2,), "zero": (0,), "no": (0,), "not": (0,), "without": (0,),
    "rest": (0,), "dropped": (0,), "noon": (12,), "midnight": (0,), "a": (1,), "an": (1,),
    "single": (1,), "me": (1,), "i": (1,), "we": (2,), "pi": (3.14159265,),
}  # fmt: skip
_MONTHS = """january february march april may june july august september october november
december""".split()  # noqa: SIM905 - a table of words

# What one of a unit is in others. A said number with such a unit may stand in another one.
_RATIOS: dict[str, tuple[float, ...]] = {}
for _names, _ratios in {
    "year years yr yrs": (12, 52, 365, 365.25, 8760),
    "month months": (30, 31, 1 / 12, 4),
    "week weeks": (7, 168),
    "day days": (24, 1440, 86400, 1 / 7, 1 / 365),
    "hour hours hr hrs h": (60, 3600, 1 / 24),
    "minute minutes min mins": (60, 1 / 60, 60_000),
    "second seconds sec secs s": (1000, 1 / 60),
    "inch inches in": (2.54, 1 / 12, 0.0254),
    "foot feet ft": (12, 0.3048, 30.48),
    "yard yards": (3, 0.9144),
    "mile miles mi mph": (1.609344, 1609.344, 5280, 0.44704),
    "km kms kilometer kilometers kilometre kilometres": (1000, 0.621371),
    "m meter meters metre metres": (100, 1000, 0.001, 3.28084),
    "cm centimeter centimeters centimetre centimetres": (0.01, 10, 1 / 2.54, 1e-4, 1e-6),
    "mm millimeter millimeters": (0.1, 0.001),
    "cubic cc": (1e-3, 1e-6, 1e-9, 1000, 35.3147, 0.0283168),
    "square sq": (1e-4, 1e-6, 1e6, 10.7639, 0.092903),
    "kg kgs kilogram kilograms kilo kilos": (1000, 2.20462),
    "g gram grams": (0.001,),
    "mg milligram milligrams": (0.001,),
    "lb lbs pound pounds": (0.45359237, 16),
    "oz ounce ounces": (28.349523, 1 / 16),
    "l liter liters litre litres": (1000, 0.264172),
    "ml milliliter milliliters": (0.001,),
    "gallon gallons": (3.785412,),
    "cup cups": (16, 236.588, 240),
    "degree degrees °": (0.0174532925,),
    "percent %": (0.01,),
    "cents cent": (0.01,),
    "dozen dozens": (12,),
    "pi π": (math.pi,),
    "hz khz mhz ghz": (1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9),
    "kb mb gb tb": (1000, 1024, 1e6, 1024**2, 1e9, 1024**3),
}.items():
    _RATIOS.update(dict.fromkeys(_names.split(), _ratios))
_PREFIXED = re.compile(r"(?P<prefix>[kmgtnpµμu])(?:[hfvwjan]|ohm|pa|ev|hz|mol|bar|cal|watt)s?")
_PREFIXES = {"k": 1e3, "m": 1e-3, "g": 1e9, "t": 1e12, "n": 1e-9, "p": 1e-12}
_PREFIXES |= dict.fromkeys("µμu", 1e-6)
_DEGREES = frozenset(["degree", "degrees", "celsius", "fahrenheit", "c", "f", "k", "kelvin"])
_FEET = re.compile(r"(\d+)\s?(?:ft|feet|foot|')\s?(?:and\s)?(\d+)", re.IGNORECASE)
_BOUND = re.compile(r"\b(?:less|fewer|more|greater|over|under|above|below|after|before)(?: than)? ")
_AND_SO_ON = re.compile(r"\band so (?:on|forth)\b|\betc\b|\.\.\.|…", re.IGNORECASE)
_NEAR = 0.006  # relative: people round what they convert


def figures(text: str) -> Iterator[float]:
    """Every number of a text, whatever it stands in: `x^2`, `(4,5)`, `1e-9` and `µ0=4·10^-7`."""
    flat = unicodedata.normalize("NFKC", text)
    for form in {flat, _THOUSANDS.sub("", flat)}:
        yield from (float(f.group()) for f in _FIGURE.finditer(form) if len(f.group()) <= _LONGEST)
    for found in _POWER.finditer(flat):
        yield float(f"{found[1][:_LONGEST]}e{found[2][-3:].replace('−', '-')}")
    for quantity in quantities(text):
        yield from quantity.readings()


def told(text: str) -> tuple[Quantity, ...]:
    """The numbers of a text, `(3,4)` as two of them: audits read English."""
    found = list[Quantity]()
    for quantity in quantities(text):
        pair = re.fullmatch(r"(\d+),(\d{1,2})", text[quantity.start : quantity.end].strip())
        values = pair.groups() if pair else ()
        found += [quantity._replace(value=int(v), decimals=0) for v in values] or [quantity]
    return tuple(found)


def sequences(text: str) -> list[float]:
    """The figures of a text one after the other, to find a list of them in it."""
    flat = unicodedata.normalize("NFKC", text)
    return [float(f.group()) for f in _FIGURE.finditer(flat) if len(f.group()) <= _LONGEST]


def computed(values: list[Any], text: str) -> bool:
    """Are these numbers a series that a person would work out, not copy from the text?"""
    if len(values) < 3:
        return False
    steps = [b - a for a, b in pairwise(values)]
    ratios = [b / a for a, b in pairwise(values) if a]
    even = all(close(step, steps[0]) for step in steps) and bool(steps[0])
    growing = len(ratios) == len(steps) and all(close(r, ratios[0]) for r in ratios)
    return even or (growing and ratios[0] != 1) or bool(_AND_SO_ON.search(text))


def implied(text: str) -> Iterator[float]:
    """Numbers that words stand for, but for units of a number («5 years»)."""
    before = ""
    for word in re.findall(r"\d[\d.,]*|[^\W\d_]+", text.lower()):
        counted = before[:1].isdigit() or before in {"two", "three", "four", "five", "six", "ten"}
        if not counted:
            yield from _IMPLIED.get(word, ())
        if word in _MONTHS:
            yield _MONTHS.index(word) + 1
        before = word
    for bound in _BOUND.finditer(text.lower()):
        for quantity in quantities(text[bound.end() : bound.end() + 20])[:1]:
            yield from (quantity.value - 1, quantity.value + 1)
    for feet, inches in _FEET.findall(text):
        for whole in (int(feet[:4]) * 12 + int(inches[:4]),):
            yield from (whole, round(whole * 2.54), whole * 2.54, round(whole * 0.0254, 2))


def converted(value: float, told: Quantity) -> bool:
    """Is a value what was told, but for the sign, the share of a hundred, or the unit?"""
    readings = told.readings()
    if any(close(abs(value), abs(r)) for r in readings):
        return True
    if any(close(value, told.value + century) for century in (1900, 2000)):
        return told.value < 100  # «songs from '19»
    unit = told.unit.lower()
    ratios = list(_RATIOS.get(unit, ()))
    if found := _PREFIXED.fullmatch(unit):
        ratios += [_PREFIXES[found["prefix"]], 1e6 if found["prefix"] == "m" else 1]
    if unit in _DEGREES and (_temperature(value, told.value) or _temperature(told.value, value)):
        return True
    reached = [abs(r) * ratio for r in readings for ratio in ratios]
    return any(abs(abs(value) - r) <= _NEAR * max(abs(value), r) for r in reached)


def _temperature(a: float, b: float) -> bool:
    """Celsius as Fahrenheit or Kelvin."""
    return abs(a - (b * 9 / 5 + 32)) < 0.6 or abs(a - (b + 273.15)) < 0.6


def combined(value: float, told: Quantity, others: Iterable[Quantity]) -> bool:
    """Do a told number and another one make the value by one step of arithmetic?"""
    a = told.value
    for other in others:
        b = other.value
        if other == told:
            continue
        made = [a + b, a - b, b - a, a * b, *([a / b] if b else []), *([b / a] if a else [])]
        if any(close(value, m) for m in made):
            return True
    return False
