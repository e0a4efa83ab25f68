"""Certain contradictions: a value stands where the user said another one of its kind.

The audit's variant of `grounded_arguments`, for data whose intent is unknown. People infer much
that no words hold: a currency from a city, a constant of physics, a default. So a value nobody
said is not yet wrong. It is called wrong only where three things come together: it is a number, a
date, a time, a code or an address; nobody said it, nothing observed holds it, and neither the
schema nor arithmetic gives it; and the user said one of the same kind that no call takes up.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import combinations, pairwise
from typing import Any

from toolloom.pipeline.checks.grounding import ADDRESS, CODE, STAMP, close, fixed, said
from toolloom.pipeline.checks.schema import as_dict, is_number, leaves, parts_of
from toolloom.pipeline.checks.text.quantities import (
    Quantity,
    dated,
    dates,
    numbers_outside,
    only_date,
    only_time,
    quantities,
    spans_of_time,
    timed,
    times,
)
from toolloom.pipeline.checks.text.words import (
    STOP,
    exact,
    fold,
    plain,
    spaced,
    stem,
    stems,
    table,
    words,
)
from toolloom.pipeline.checks.transcript import (
    CallMade,
    Fault,
    made,
    observed_before,
    said_before,
    shown,
)
from toolloom.schemas import Dialogue, JsonObject, Reason

NO_DATE = dt.datetime(2000, 1, 1)  # stands for a present that is not told
_COMPACT = re.compile(r"\b(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\b")
_MOST = 200  # numbers of a text that are compared with each other


class Heard:
    """What may stand in the arguments of a call: said, told or observed before it."""

    def __init__(self, dialogue: Dialogue, place: int) -> None:
        said, observed = said_before(dialogue, place), observed_before(dialogue, place)
        self.user, self.last = "\n".join(said), said[-1] if said else ""
        others = [m for m in dialogue.messages[:place] if m.role in {"system", "assistant"}]
        seen = list(leaves(observed))
        strings = [v for v in seen if isinstance(v, str)]
        self.text = "\n".join((self.user, *(m.content or "" for m in others), *strings))
        numbers = [v for v in seen if is_number(v)]
        self.codes = fold("\n".join((self.text, *map(str, numbers))))
        # «an hour and a half» is 90 minutes, and 5,400 seconds.
        lengths = [s / unit for s in spans_of_time(self.text) for unit in (1, 60, 3600)]
        self.numbers = {*figures(self.text), *implied(self.text), *numbers, *lengths}
        self.quantities = told(self.user, quantities(self.user))[:_MOST]
        self.apart = apart(self.user)
        self.results: dict[str, list[str | float]] = {}  # what was observed, by its field's name
        for part in parts_of(observed):
            for name, value in part.items() if isinstance(part, dict) else ():
                if isinstance(value, str) or is_number(value):
                    self.results.setdefault(name, []).append(value)
        self.now = None if dialogue.query.now == NO_DATE else dialogue.query.now.date()


def apart(text: str) -> list[Quantity]:
    """The first numbers of a text that are no part of a calendar date or a clock time."""
    compact = [m.span() for m in _COMPACT.finditer(text)]
    found = told(text, numbers_outside(text, NO_DATE.date()))
    return [q for q in found if not any(a <= q.start < b for a, b in compact)][:_MOST]


class Used:
    """What all calls of a dialogue take up of what was said."""

    def __init__(self, calls: list[CallMade]) -> None:
        self.calls = calls
        found = [leaf for call in calls for leaf in leaves(call.arguments)]
        self.strings = [v for v in found if isinstance(v, str)]
        self.text = "\n".join((*self.strings, *(str(v) for v in found)))
        numbers = [v for v in found if is_number(v)]
        self.numbers = frozenset((*numbers, *figures(self.text), *implied(self.text)))

        # Two numbers of one call: «a family of four» may be two adults and two children.
        rows = [[v for v in leaves(c.arguments) if is_number(v)][:20] for c in calls]
        self.pairs = [pair for row in rows for pair in combinations(row, 2)]

    def unused_numbers(self, text: str) -> list[Quantity]:
        """Numbers of a text that no argument is, nor is made of by another unit."""
        return [
            q
            for q in apart(text)
            if q.stated
            and not any(converted(u, q) for u in self.numbers)
            and not any(close(q.value, a + b) for a, b in self.pairs)
        ]

    def elsewhere(self, number: Quantity, name: str, call: CallMade) -> bool:
        """Does another argument of the call use a number, or the same optional one of another?"""
        optional = call.api is not None and name not in call.api.required
        return any(
            converted(leaf, number)
            for other in self.calls
            for key, value in other.arguments.items()
            if (key != name if other is call else key == name and optional)
            for leaf in leaves(value)
            if isinstance(leaf, int | float)
        )

    def unused_result(self, name: str, heard: Heard) -> str | float | None:
        """What an observation gave under the name of an argument, if no call takes any of it."""
        given = heard.results.get(name, [])
        taken = any(fold(str(value)) in fold(self.text) for value in given)
        return None if taken or not given else given[0]

    def unused_codes(self, text: str) -> list[str]:
        found = [m.group().rstrip(".,;:!?)") for m in ADDRESS.finditer(plain(text))]
        found += [m.group() for m in CODE.finditer(plain(text)) if not _COMPACT.match(m.group())]
        found = [c for c in found if not set("{}<>") & set(c)]  # templates of a link
        return [c for c in found if not exact(c, self.text) and fold(c) not in fold(self.text)]


_NAME = re.compile(r"(?:Dr\. |Mrs?\. |Ms\. )?[A-Z][a-z]+ [A-Z][a-z]+")
_DEFAULT = re.compile(
    r"\bdefaults?(?: value)?(?:\s(?:is|to|as|of|will be)|\s?[:=])*\s?['\"`]?(-?[\w.+/%-]+)", re.I
)
_COMMON = stems("number value x y a b c list data id")


def kept_values(dialogue: Dialogue) -> Iterator[Fault]:
    """No number, date, time, code or address stands in place of one that the user said."""
    calls = [c for c in made(dialogue) if c.api is not None and not c.is_search]
    used = Used(calls)
    for call in calls:
        heard = Heard(dialogue, call.place)
        assert call.api
        for name, value in call.arguments.items():
            schema = call.api.properties.get(name)
            if other := _altered_list(value, heard):
                detail = f"{call.name}: {name}={shown(value)}: {shown(other)} was said"
                yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)
                continue
            for leaf, known in _leaves(value, schema, heard.user):
                if fault := _replaces(leaf, name, call, known, heard, used):
                    detail = f"{call.name}: {name}={shown(value)}: {fault}"
                    yield Fault(Reason.UNGROUNDED_ARGUMENT, call.place, detail)
                    break


def _leaves(value: Any, schema: Any, text: str) -> Iterator[tuple[Any, JsonObject]]:
    """Every leaf of an argument with its schema, but for lists of numbers that were worked out."""
    stack = [(value, schema)]
    while stack:
        item, known = stack.pop()
        known = as_dict(known)
        if isinstance(item, dict):
            inner = as_dict(known.get("properties"))
            stack += [(part, inner.get(key)) for key, part in reversed(item.items())]
        elif isinstance(item, list):
            if all(map(is_number, item)) and computed(item, text):
                continue
            stack += [(part, known.get("items")) for part in reversed(item)]
        else:
            yield item, known


def _replaces(
    leaf: Any, name: str, call: CallMade, schema: JsonObject, heard: Heard, used: Used
) -> str | None:
    """What the user said that this value stands in place of; None where that is not certain."""
    if leaf is None or isinstance(leaf, bool) or fixed(leaf, schema) or _described(leaf, schema):
        return None
    if isinstance(leaf, int | float):
        return _number(leaf, name, call, schema, heard, used)
    if not isinstance(leaf, str) or not leaf.strip() or exact(leaf, heard.text):
        return None
    if stamp := STAMP.fullmatch(leaf.strip()):
        return _date(stamp[1], heard, used) or _time(stamp[2], heard, used)
    if only_date(leaf, NO_DATE.date()):
        return _date(leaf, heard, used)
    if only_time(leaf):
        return _time(leaf, heard, used)
    if re.fullmatch(r"[-+$€£]?\d[\d,. ]*%?", leaf.strip()):
        found = [q.value for q in quantities(leaf)]
        return _number(found[0], name, call, schema, heard, used) if found else None
    if other := _altered(leaf, heard):
        return f"nobody said this; {shown(other)} was said"
    if kind := _kind(leaf):
        if fold(leaf) in heard.codes:
            return None
        if (given := used.unused_result(name, heard)) is not None:
            return f"nobody said this {kind}; {shown(given)}, which was observed, is not used"
        return _instead(kind, [c for c in used.unused_codes(heard.user) if _kind(c) == kind])
    # A person nobody named, though a number or code was said that no call takes.
    if not _NAME.fullmatch(leaf.strip()) or said(leaf, heard.text):
        return None
    unused = [c for c in used.unused_codes(heard.user) if re.fullmatch(r"(?=.*\d)[\w-]{5,}", c)]
    return f"nobody named it; {shown(unused[0])}, which was said, is not used" if unused else None


def _altered(value: str, heard: Heard) -> str | None:
    """What the text says in the same words with another number: «Windows 10» for `Windows 11`."""
    flat = _formula(value)
    numbers = re.findall(r"\d+", flat)
    if not numbers or len(flat) > 200 or not re.search(r"[^\W\d_]|\$", flat):
        return None
    if all(_is_said(float(n[:40]), heard) for n in numbers):
        return None
    parts = re.findall(r"\d+|[^\W\d_]+|[^\w\s]|_", flat)
    pattern = r"\s*".join(r"\d+" if p[0].isdigit() else re.escape(p) for p in parts)
    same = re.search(rf"(?<![\w.]){pattern}(?![\w.]\w|\w)", _formula(heard.text))
    return same.group() if same else None


def _formula(text: str) -> str:
    """A text folded, with powers written `^` and no stars: people and programs differ in these."""
    return fold(text).replace("**", "^").replace("*", "")


def _described(leaf: Any, schema: JsonObject) -> bool:
    """The description tells the value: «Default is 10», «1 for Bangkok, 2 for Chiang Mai»."""
    description = schema.get("description")
    if not isinstance(description, str):
        return False
    if is_number(leaf):
        return any(close(abs(leaf), n) for n in figures(description))
    return fold(str(leaf)) in [fold(m[1].rstrip(".,")) for m in _DEFAULT.finditer(description)]


def _number(
    value: float, name: str, call: CallMade, schema: JsonObject, heard: Heard, used: Used
) -> str | None:
    """A number nobody said, though another was said that is not used, or stands by its name."""
    about = str(schema.get("description", ""))
    cents = re.search(r"\bcents?\b|\bpence\b|\b(?:smallest|minor) (?:currency )?unit", about)
    if _is_said(value, heard) or (cents and _is_said(value / 100, heard)):
        return None
    needed = call.api is not None and name in call.api.required
    # What may be left out may also be filled in as one likes, whatever was said long before.
    unused = used.unused_numbers(heard.user if needed else heard.last)
    if any(combined(value, one, heard.apart) for one in unused):
        return None
    # Numbers that stand by the words of the parameter's name: `mass` in «a mass of 15 kg».
    own = {stem(w.folded) for w in words(spaced(name)) if w.folded not in STOP} - _COMMON
    found = []
    for quantity in heard.apart if own else ():
        around = words(heard.user[max(0, quantity.start - 40) : quantity.start])[-3:]
        if own & {stem(w.folded) for w in around} or stem(quantity.unit) in own:
            found.append(quantity)
    beside = [q for q in found if not used.elsewhere(q, name, call)]
    if beside and not any(combined(value, one, heard.apart) for one in beside):
        return f"nobody said {shown(value)}; {shown(beside[0].value)} was said for it"
    if unused:
        return f"nobody said {shown(value)}; {shown(unused[0].value)}, which was said, is not used"
    if needed and (given := used.unused_result(name, heard)) is not None:
        return f"nobody said {shown(value)}; {shown(given)}, which was observed, is not used"
    return None


def _altered_list(value: Any, heard: Heard) -> list[float] | None:
    """What the text lists, where a list of numbers repeats it but for one that nobody said."""
    if not isinstance(value, list) or not 3 <= len(value) <= 200 or not all(map(is_number, value)):
        return None
    flat, size = unicodedata.normalize("NFKC", heard.user), len(value)
    row = [float(f.group()) for f in _FIGURE.finditer(flat) if len(f.group()) <= _LONGEST]
    off = [v for v in value if v and v not in row and not _is_said(v, heard)]
    if not off and size < 5:
        return None
    found = None
    for start in range(len(row) - size + 1):
        part = row[start : start + size]
        wrong = [a for a, b in zip(value, part, strict=True) if not close(abs(a), b)]
        if not wrong:
            return None
        if len(wrong) == 1 and (wrong == off or size >= 5):
            found = part
    return found


def _is_said(value: float, heard: Heard) -> bool:
    told_so = not value or any(close(abs(value), abs(n)) for n in heard.numbers)
    return told_so or any(converted(value, q) for q in heard.quantities)


def _date(value: str, heard: Heard, used: Used) -> str | None:
    """Without a present, words without a year may mean any year, and «tomorrow» any day."""
    for day in only_date(value, heard.now or NO_DATE.date()):
        today = heard.now or day
        loose = heard.now is None and _leaves_open(heard.text, today)
        if loose or day in dates(heard.text, today):
            return None
    today = heard.now or NO_DATE.date()
    taken = {d for s in used.strings for place in dated(s, today) for d in place.days}
    unused = []
    for place in dated(heard.user, today):
        words_of_it = heard.user[place.start : place.end]
        # Without a present, a day of the arguments stands for it.
        meant = any(d in p.days for d in taken for p in dated(words_of_it, heard.now or d))
        if (place.absolute or heard.now) and not meant:
            unused.append(words_of_it)
    return _instead("date", unused)


def _leaves_open(text: str, today: dt.date) -> bool:
    """Does the text say a day that only its present tells? Not «next Friday, June 30th»."""
    places = dated(text, today)
    certain = [p for p in places if p.absolute]
    return any(
        not place.absolute
        and not text[place.start : place.end].lower().startswith("the ")
        and not any(-1 <= c.start - place.end <= 3 for c in certain)
        for place in places
    )


def _time(value: str, heard: Heard, used: Used) -> str | None:
    moments, lengths = times(heard.text), spans_of_time(heard.text)
    for moment in only_time(value):
        seconds = moment.hour * 3600 + moment.minute * 60
        reached: set[float] = {t.hour * 3600 + t.minute * 60 for t in moments}
        reached |= {(t + sign * s) % 86400 for t in reached for s in lengths for sign in (1, -1)}
        if seconds in reached or moment.minute == moment.hour == 0:
            return None
    taken = {t for s in used.strings for t in times(s)}
    unused = (p for p in timed(heard.user) if p.sure and not p.times & taken)
    return _instead("time", [heard.user[p.start : p.end] for p in unused])


def _instead(kind: str, unused: list[str]) -> str | None:
    """The fault where something of a kind was said that no call takes."""
    if not unused:
        return None
    return f"nobody said this {kind}; {shown(unused[0])}, which was said, is not used"


def _kind(value: str) -> str | None:
    """address, link or code; None for a text that is none of these."""
    whole = value.strip()
    if re.fullmatch(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", whole):
        return "address"
    if re.fullmatch(r"\w+://\S+", whole):
        return "link"
    mixed = re.search(r"\d", whole) and re.search(r"[A-Za-z]", whole)
    return "code" if mixed and re.fullmatch(r"[\w-]{4,}", whole) else None


# Numbers that follow from what was said: another unit, a scale, one step of arithmetic. A text is
# read as loosely as can be.

_FIGURE = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\.\d+")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_POWER = re.compile(r"(\d+(?:\.\d+)?)\s?[x×*]\s?10\s?(?:\^|\*\*)?\s?\(?([-−]?\d+)\)?")
_LONGEST = 40


def _numbers_of(title: str) -> dict[str, list[float]]:
    """The numbers of a table of words, by word."""
    rows = table(title)
    return {word: [*map(float, values.split())] for words, values in rows for word in words.split()}


# Words that stand for a number where none stands before them: «monthly» is twelve times a year.
_IMPLIED = _numbers_of("implied numbers")
_MONTHS = [month.lower() for month in calendar.month_name]

# What one of a unit is in others. A said number with such a unit may stand in another one.
_RATIOS = _numbers_of("conversions")
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


def told(text: str, numbers: Iterable[Quantity]) -> list[Quantity]:
    """These numbers of a text, `(3,4)` as two of them: audits read English."""
    found = list[Quantity]()
    for quantity in numbers:
        pair = re.fullmatch(r"(\d+),(\d{1,2})", text[quantity.start : quantity.end].strip())
        values = pair.groups() if pair else ()
        found += [quantity._replace(value=int(v), decimals=0) for v in values] or [quantity]
    return found


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
            yield _MONTHS.index(word)
        before = word
    for bound in _BOUND.finditer(text.lower()):
        for quantity in quantities(text[bound.end() : bound.end() + 20])[:1]:
            yield from (quantity.value - 1, quantity.value + 1)
    for feet, inches in _FEET.findall(text):
        whole = int(feet[:4]) * 12 + int(inches[:4])
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
