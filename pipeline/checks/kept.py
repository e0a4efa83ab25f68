"""Certain contradictions: a value stands where the user said another one of its kind.

The audit's variant of `grounded_arguments`, for data whose intent is unknown. People infer much
that no words hold: a currency from a city, a constant of physics, a default. So a value nobody
said is not yet wrong. It is called wrong only where three things come together: it is a number, a
date, a time, a code or an address; nobody said it, nothing observed holds it, and neither the
schema nor arithmetic gives it; and the user said one of the same kind that no call takes up.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

from toolloom.pipeline.checks.derived import combined, computed, converted, figures, sequences
from toolloom.pipeline.checks.grounding import close, fixed
from toolloom.pipeline.checks.heard import NO_DATE, Heard, Used, heard_before, is_number
from toolloom.pipeline.checks.text.dates import dated, dates, only_date
from toolloom.pipeline.checks.text.numbers import Quantity, quantities
from toolloom.pipeline.checks.text.phrases import said
from toolloom.pipeline.checks.text.times import only_time, spans_of_time, timed, times
from toolloom.pipeline.checks.text.words import STOP, exact, fold, spaced, stem, words
from toolloom.pipeline.checks.transcript import CallMade, Fault, made, shown
from toolloom.schemas import Dialogue, JsonObject, Reason

_STAMP = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?(?:Z|[+-][\d:]+)?")
_NAME = re.compile(r"(?:Dr\. |Mrs?\. |Ms\. )?[A-Z][a-z]+ [A-Z][a-z]+")
_DEFAULT = re.compile(
    r"\bdefaults?(?: value)?(?:\s(?:is|to|as|of|will be)|\s?[:=])*\s?['\"`]?(-?[\w.+/%-]+)", re.I
)
_COMMON = frozenset(map(stem, ["number", "value", "x", "y", "a", "b", "c", "list", "data", "id"]))


def kept_values(dialogue: Dialogue) -> Iterator[Fault]:
    """No number, date, time, code or address stands in place of one that the user said."""
    calls = [c for c in made(dialogue) if c.api is not None and not c.is_search]
    used = Used(calls)
    for call in calls:
        heard = heard_before(dialogue, call.place)
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
        known = known if isinstance(known, dict) else {}
        if isinstance(item, dict):
            inner = known.get("properties")
            inner = inner if isinstance(inner, dict) else {}
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
    if stamp := _STAMP.fullmatch(leaf.strip()):
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
        return _code(leaf, name, kind, heard, used)
    return _name(leaf, heard, used)


def _name(value: str, heard: Heard, used: Used) -> str | None:
    """A person nobody named, though a number or code was said that no call takes."""
    if not _NAME.fullmatch(value.strip()) or said(value, heard.text):
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
    return any(
        fold(found[1].rstrip(".,")) == fold(str(leaf)) for found in _DEFAULT.finditer(description)
    )


def _number(
    value: float, name: str, call: CallMade, schema: JsonObject, heard: Heard, used: Used
) -> str | None:
    """A number nobody said, though another was said that is not used, or stands by its name."""
    if _is_said(value, heard) or (_in_cents(schema) and _is_said(value / 100, heard)):
        return None
    needed = call.api is not None and name in call.api.required
    # What may be left out may also be filled in as one likes, whatever was said long before.
    unused = used.unused_numbers(heard.user if needed else heard.last)
    if any(combined(value, one, heard.apart) for one in unused):
        return None
    beside = [q for q in _beside(name, heard) if not used.elsewhere(q, name, call)]
    if beside and not any(combined(value, one, heard.apart) for one in beside):
        return f"nobody said {shown(value)}; {shown(beside[0].value)} was said for it"
    if unused:
        return f"nobody said {shown(value)}; {shown(unused[0].value)}, which was said, is not used"
    if needed and (given := used.unused_result(name, heard)) is not None:
        return f"nobody said {shown(value)}; {shown(given)}, which was observed, is not used"
    return None


def _altered_list(value: Any, heard: Heard) -> list[float] | None:
    """What the text lists, where a list of numbers repeats it but for one that nobody said."""
    if not isinstance(value, list) or not 3 <= len(value) <= 200:
        return None
    if not all(is_number(v) for v in value):
        return None
    row, size = sequences(heard.user), len(value)
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


def _in_cents(schema: JsonObject) -> bool:
    about = str(schema.get("description", ""))
    return bool(re.search(r"\bcents?\b|\bpence\b|\b(?:smallest|minor) (?:currency )?unit", about))


def _is_said(value: float, heard: Heard) -> bool:
    told_so = not value or any(close(abs(value), abs(n)) for n in heard.numbers)
    return told_so or any(converted(value, q) for q in heard.quantities)


def _beside(name: str, heard: Heard) -> list[Quantity]:
    """Numbers that stand by the words of a parameter's name: `mass` in «a mass of 15 kg»."""
    own = {stem(w.folded) for w in words(spaced(name)) if w.folded not in STOP} - _COMMON
    found = []
    for quantity in heard.apart if own else ():
        around = words(heard.user[max(0, quantity.start - 40) : quantity.start])[-3:]
        if own & {stem(w.folded) for w in around} or stem(quantity.unit) in own:
            found.append(quantity)
    return found


def _date(value: str, heard: Heard, used: Used) -> str | None:
    """Without a present, words without a year may mean any year, and «tomorrow» any day."""
    for day in only_date(value, heard.now or NO_DATE.date()):
        today = heard.now or day
        loose = heard.now is None and _leaves_open(heard.text, today)
        if loose or day in dates(heard.text, today):
            return None
    unused = [
        heard.user[place.start : place.end]
        for place in dated(heard.user, heard.now or NO_DATE.date())
        if (place.absolute or heard.now)
        and not any(_is_day(heard.user[place.start : place.end], s, heard) for s in used.strings)
    ]
    if not unused:
        return None
    return f"nobody said this date; {shown(unused[0])}, which was said, is not used"


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


def _is_day(words_of_it: str, value: str, heard: Heard) -> bool:
    """Does a date in the arguments mean these words?"""
    today = heard.now or NO_DATE.date()
    days = {d for place in dated(value, today) for d in place.days}
    return any(d in place.days for d in days for place in dated(words_of_it, heard.now or d))


def _time(value: str, heard: Heard, used: Used) -> str | None:
    moments, lengths = times(heard.text), spans_of_time(heard.text)
    for moment in only_time(value):
        seconds = moment.hour * 3600 + moment.minute * 60
        reached: set[float] = {t.hour * 3600 + t.minute * 60 for t in moments}
        reached |= {(t + sign * s) % 86400 for t in reached for s in lengths for sign in (1, -1)}
        if seconds in reached or moment.minute == moment.hour == 0:
            return None
    taken = {t for s in used.strings for t in times(s)}
    unused = [
        heard.user[place.start : place.end]
        for place in timed(heard.user)
        if place.sure and not place.times & taken
    ]
    if not unused:
        return None
    return f"nobody said this time; {shown(unused[0])}, which was said, is not used"


def _kind(value: str) -> str | None:
    """address, link or code; None for a text that is none of these."""
    whole = value.strip()
    if re.fullmatch(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", whole):
        return "address"
    if re.fullmatch(r"\w+://\S+", whole):
        return "link"
    mixed = re.search(r"\d", whole) and re.search(r"[A-Za-z]", whole)
    return "code" if mixed and re.fullmatch(r"[\w-]{4,}", whole) else None


def _code(value: str, name: str, kind: str, heard: Heard, used: Used) -> str | None:
    if fold(value) in fold(heard.codes):
        return None
    if (given := used.unused_result(name, heard)) is not None:
        return f"nobody said this {kind}; {shown(given)}, which was observed, is not used"
    unused = [c for c in used.unused_codes(heard.user) if _kind(c) == kind]
    if not unused:
        return None
    return f"nobody said this {kind}; {shown(unused[0])}, which was said, is not used"
