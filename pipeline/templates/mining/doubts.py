"""Where values stand in words, and which must stay as they are.

A place is a whole word or number, no part of something else (`parted`). A value stays if it stands
twice with two meanings (`settle`), or if others follow from it (`weigh`): totals, ends of stays,
what is found within bounds. A slot that is wrong makes wrong data by the thousand; a value too many
that stays costs little.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from operator import attrgetter
from typing import NamedTuple

from toolloom.pipeline.checks.evidence import is_status
from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.text.dates import dated
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import seconds_in, timed
from toolloom.pipeline.checks.text.words import (
    STOP,
    alone,
    content,
    exact,
    fold,
    forms,
    plain,
    runs,
    spaced,
    stem,
    words,
)
from toolloom.pipeline.templates.mining.survey import Role, SampleText, SampleValue, SampleValues
from toolloom.pipeline.templates.mining.variables import (
    ROUNDED,
    Variable,
    clock_of,
    day_of,
    distinctive,
    is_alike,
    is_number,
    texts,
)

_UNIT = re.compile(r"(?!(?:st|nd|rd|th)\b)[^\W\d_]{1,4}\b")
_POSSESSIVE = re.compile(r"['’]s\Z", re.IGNORECASE)
_FACTORS = (1000, 0.001, 100, 0.01, 60, 1 / 60, 3600, 1 / 3600, 24, 1 / 24)  # of units
_LARGE = 1e15
_MOST = 200  # places of one form in one text


class Span(NamedTuple):
    """A place in a text that a form of a value takes."""

    start: int
    end: int
    form: str


@dataclass(frozen=True)
class TextPlaces:
    """The places of all values in one text."""

    text: SampleText
    spans: tuple[tuple[Span, Variable], ...]

    def of(self, one: Variable) -> list[Span]:
        return [span for span, owner in self.spans if owner is one]


def parted(text: SampleText, found: Sequence[Variable], now: dt.datetime) -> TextPlaces:
    """Give each place to the value that takes most of it.

    Two that claim the same letters are in doubt, unless one stands inside the other.
    """
    claims = [(s, v) for v in found if not v.doubt for s in spans(text, v, now)]
    claims.sort(key=lambda c: (c[0].start - c[0].end, c[0].form in ROUNDED, c[0].start))
    taken: list[tuple[Span, Variable]] = []
    owners: list[int] = [-1] * len(text.text)  # of each letter, by number in `taken`
    for span, one in claims:
        letters = range(span.start, span.end)
        number = next((owners[i] for i in letters if owners[i] >= 0), -1)
        if number < 0:
            for i in letters:
                owners[i] = len(taken)
            taken.append((span, one))
            continue
        other, owner = taken[number]
        smaller = (span.end - span.start, span.form not in ROUNDED) < (
            other.end - other.start,
            other.form not in ROUNDED,
        )
        inside = smaller and other.start <= span.start and span.end <= other.end
        if not (owner is one or inside):
            words_of_it = text.text[span.start : span.end]
            one.refuse(f"«{words_of_it}» might be `{owner.first.name}` as well")
            owner.refuse(f"«{words_of_it}» might be `{one.first.name}` as well")
    return TextPlaces(text, tuple(sorted(taken, key=lambda c: c[0].start)))


def spans(text: SampleText, one: Variable, now: dt.datetime) -> Iterator[Span]:
    """Where any form of a value stands on its own."""
    seen: set[tuple[int, int]] = set()
    for form, said in texts(one.value):
        if form in ROUNDED and text.role != "reply":
            continue
        start = -1
        for _ in range(_MOST):
            start = text.text.find(said, start + 1)
            if start < 0:
                break
            end = start + len(said)
            if (start, end) not in seen and _stands(text.text, start, end, one, form, now):
                seen.add((start, end))
                yield Span(start, end, form)


def _stands(text: str, start: int, end: int, one: Variable, form: str, now: dt.datetime) -> bool:
    """Is this place no part of a word, code, date or longer number? A unit may follow a number."""
    number = is_number(one.value)
    unit = _UNIT.match(text, end) if number else None
    if not alone(text, start, end) and not (unit and alone(text, start, unit.end())):
        return False
    if not number:
        return True
    if re.search(r"(?:[-+−]|\d[,:.])\Z", text[max(0, start - 2) : start]):
        return False
    if re.match(r"[,:.]\d", text[end : end + 2]) or _in_calendar(text, start, now.date()):
        return False
    place = start + text[start:end].startswith("-")
    found = quantities(text)
    at = bisect_right(found, place, key=attrgetter("start")) - 1
    q = found[at] if at >= 0 and place < found[at].end else None
    if q is None or q.scale != 1:
        return False
    return form in ROUNDED or any(close(r, one.value) for r in q.readings())


@lru_cache(maxsize=256)
def _calendar(text: str, today: dt.date) -> tuple[tuple[int, int], ...]:
    days = [(d.start, d.end) for d in dated(text, today)]
    return tuple(days + [(t.start, t.end) for t in timed(text) if t.sure])


def _in_calendar(text: str, start: int, today: dt.date) -> bool:
    return any(a <= start < b for a, b in _calendar(text, today))


def left_over(places: TextPlaces, one: Variable, now: dt.datetime, common: frozenset[str]) -> str:
    """Words that say a value, or a part of it, in a way that no slot takes; empty if none do.

    `common`: stems of words that belong to the APIs, whatever the values.
    """
    text = places.text.text
    told = _tellings(text, one, now, common)
    nearly = _nearly(text, one.value, now) if places.text.role == "reply" else ()
    for start, end in (*told, *nearly):
        rest = list(_POSSESSIVE.sub("", text[start:end]))
        for span, owner in places.spans:
            if not owner.doubt:
                for i in range(max(span.start, start), min(span.end, start + len(rest))):
                    rest[i - start] = " "
        left = "".join(rest)  # what no slot takes: nothing, or small words
        small = all(w.folded in STOP for w in words(left))
        if not small or (left.strip() and not words(text[start:end])):
            return text[start:end]
    return ""


def _tellings(
    text: str, one: Variable, now: dt.datetime, common: frozenset[str]
) -> Iterator[tuple[int, int]]:
    value = one.value
    if is_number(value):
        yield from (
            (q.start, q.end)
            for q in quantities(text)
            if any(close(abs(r), abs(value)) for r in q.readings())
            and not _in_calendar(text, q.start, now.date())
        )
    elif day := day_of(value):
        yield from ((d.start, d.end) for d in dated(text, now.date()) if day in d.days)
    elif time := clock_of(value):
        yield from ((t.start, t.end) for t in timed(text) if time in t.times)
    else:
        yield from runs(value, text)
        inside = [w for w in words(spaced(value)) if w.folded not in STOP and len(w.folded) > 2]
        wanted = {stem(w.folded) for w in inside} - common
        single = len(words(value)) == 1
        for word in words(text) if wanted else ():
            if stem(word.folded) in wanted and (single or len(word.folded) > 3):
                yield word.start, word.end
        for alias in forms(value) - {fold(value)}:
            if any(c.isalnum() for c in alias):
                yield from runs(alias, text) if len(alias) > 2 else ()
            elif (start := text.find(alias)) >= 0:
                yield start, start + len(alias)


def _nearly(text: str, value: object, now: dt.datetime) -> Iterator[tuple[int, int]]:
    """What a reply may have worked out: a number rounded or in another unit, another day or time.

    The end of a stay follows from its start.
    """
    if isinstance(value, int | float) and value:
        for q in quantities(text) if abs(value) < _LARGE else ():
            told = abs(q.value)
            near = isinstance(value, float) and close(told, round(abs(value), q.decimals))
            if q.stated and (near or any(close(told, abs(value) * f) for f in _FACTORS)):
                yield q.start, q.end
    elif day_of(value):
        yield from ((d.start, d.end) for d in dated(text, now.date()) if d.absolute)
    elif clock_of(value):
        yield from ((t.start, t.end) for t in timed(text) if t.sure)


_NEXT = re.compile(r",? [A-Z]\w")
_BEFORE = re.compile(r"[^.!?:]\s[A-Z]\w*\s\Z")


def in_longer_name(places: TextPlaces, one: Variable) -> str:
    """A longer name that a capitalised value is a part of: «Boston Consulting»; else empty."""
    text, role = places.text.text, places.text.role
    for span in places.of(one) if str(one.value)[:1].isupper() else ():
        after = _NEXT.match(text, span.end)
        comma = after and after.group().startswith(",")
        before = _BEFORE.search(text[max(0, span.start - 40) : span.start])
        if role == "user" and ((after and not comma) or before):
            return text[max(0, span.start - 20) : span.end + 20].strip()
        if role == "observed" and comma:
            return text[span.start : span.end + 20].strip()
    return ""


def is_common(one: Variable, common: Iterable[str]) -> str:
    """Why a value may stand in words without being meant; empty if it hardly can."""
    value = one.value
    if is_number(value) or distinctive(value):
        return ""
    found = [w.folded for w in words(spaced(value))]
    if not found or fold(value) in STOP or len(value) < 2:
        return f"«{value}» may stand for anything"
    if all(stem(w) in common or w in STOP for w in found):
        return f"«{value}» is a word of the API's own description"
    return ""


_WORKED_OUT = frozenset(
    stem(w)
    for w in """
    translation translated definition summary converted conversion encoded decoded encrypted
    decrypted hash reversed sum total difference product average mean median result factorial
    calculation calculated answer output
    """.split()  # noqa: SIM905 - a table of words
)
_BOUNDS = frozenset(
    """
    max min maximum minimum limit top budget radius below above within under over least most count
    per_page page_size
    """.split()  # noqa: SIM905 - a table of words
)
_STATES = frozenset(map(stem, ("status", "state", "condition", "availability")))
_COMPARED = re.compile(
    r"\b(?:than|most|least|only|enough|exceeds?|compared?)\b"
    r"|\b(?:cheap|high|low|fast|near|clos|long|short|warm|cold|larg|small|great|old|new|late|earli"
    r"|hott|bigg|quick|slow|strong|weak)e(?:r|st)\b",
    re.IGNORECASE,
)
_NEAR = 40  # numbers of a call that are looked at for one step of arithmetic
_SUMS = 50  # smaller numbers add up by chance


def sizes_in(found: SampleValues) -> list[int]:
    """How many items the lists of the responses have, where there are several."""
    sizes: list[int] = []
    for place in found.contents:
        stack = [found.tree["dialogue"]["messages"][place]["content"].get("response")]
        while stack:
            item = stack.pop()
            if isinstance(item, list):
                sizes += [len(item)] if len(item) > 1 else []
                stack += item
            elif isinstance(item, dict):
                stack += item.values()
    return sizes


def _bears_on_response(one: Variable, found: SampleValues) -> None:
    """Does a response of its calls follow from it: a total, an end, what is within its bounds?"""
    calls = {leaf.number for leaf, _ in one.leaves if leaf.side == "call"}
    own = {leaf.path for leaf, _ in one.leaves}
    seen = [leaf for leaf in found.observed if leaf.number in calls and leaf.path not in own]
    for leaf in seen:
        if frozenset(content(spaced(leaf.name))) & _WORKED_OUT and not is_status(leaf.value):
            one.refuse(f"`{leaf.name}` of the response follows from it")
        if leaf.name == one.first.name and not (
            isinstance(leaf.value, str) and str(one.value).lower() in leaf.value.lower()
        ):
            one.refuse("the response has another value of that name")
        if (day_of(leaf.value) or _counts_days(leaf)) and (
            bool(day_of(one.value)) or _counts_days(one.first)
        ):
            one.refuse(f"`{leaf.name}` of the response may be counted from it")
    parts = {one.first.name, *(w.folded for w in words(spaced(one.first.name)))}
    if is_number(one.value) and parts & _BOUNDS and seen:
        one.refuse("it bounds what the response holds")
    for leaf in seen if is_number(one.value) and _compares(found) else ():
        if is_number(leaf.value):
            one.refuse(f"the words compare: perhaps with `{leaf.name}` of the response")


def _counts_days(leaf: SampleValue) -> bool:
    lengths = any(seconds_in(w.folded) for w in words(spaced(leaf.name)))
    return is_number(leaf.value) and (lengths or "night" in leaf.name.lower())


def _computed(one: Variable, numbers: Sequence[SampleValue]) -> str:
    """A number that makes another of the same call by one step of arithmetic with a third."""
    own = {leaf.path for leaf, _ in one.leaves}
    calls = {leaf.number for leaf, _ in one.leaves if leaf.side != "intent"}
    near = [x for x in numbers if x.number in calls and x.path not in own][:_NEAR]
    for y in near if abs(one.value) not in (0, 1) else ():
        for z in near:
            mixed = "response" in (y.side, z.side, one.first.side)
            if y.path < z.path and mixed and _follows(one.value, y.value, z.value):
                return f"`{y.name}` and `{z.name}` are worked out with it"
    return ""


def _follows(a: float, b: float, c: float) -> bool:
    if {abs(b), abs(c)} & {0, 1} or close(b, c):
        return False
    orders = ((a, b, c), (a, c, b), (b, c, a))
    sums = abs(a) > _SUMS
    return any(close(p * q, r) or (sums and close(p + q, r)) for p, q, r in orders)


def _is_compared(one: Variable, found: SampleValues) -> None:
    """States that responses report; their numbers and days where words compare, where several
    items stand side by side, or where the call itself is about days."""
    leaf = one.first
    names = {stem(w.folded) for w in words(spaced(leaf.name))}
    if isinstance(leaf.schema.get("enum"), list) or names & _STATES:
        one.refuse("it is a state: what words tell of it depends on which it is")
    asked = [x for x in found.called if x.number == leaf.number and day_of(x.value)]
    apart = any(not is_alike(x.value, one.value) for x in asked)
    if (day_of(one.value) or _counts_days(leaf)) and apart:
        one.refuse("it may be counted from a day of the call")
    if not (is_number(one.value) or re.match(r"\d", one.value)):
        return
    if "[]" in leaf.names and sizes_in(found):
        one.refuse("it stands beside the same field of other items, with which it may compare")
    elif _compares(found):
        one.refuse("the words compare")


def _compares(found: SampleValues) -> bool:
    return any(_COMPARED.search(t.text) for t in found.texts if t.role in ("user", "reply"))


def weigh(found: SampleValues, all_: Sequence[Variable], loose: Iterable[SampleValue]) -> None:
    """Put values in doubt for what they are; `settle` tells what the words say against others."""
    _alone(found, all_, list(loose))
    sizes = sizes_in(found)
    for one in all_:
        if distinctive(one.value, one.first.schema):
            continue
        for text in found.texts:
            said = len(parted(text, [one], found.now).spans)
            if said > 1 and (text.role == "user" or is_number(one.value)):
                one.refuse(f"it stands {said} times in one message, with two meanings perhaps")
        if is_number(one.value) and one.value in sizes and one.is_argument:
            one.refuse("it is also how many there are in the response")
        elif is_number(one.value) and one.value in sizes:
            one.refuse("it is also how many items there are")
    for one in all_:
        if one.is_argument:
            _bears_on_response(one, found)
        else:
            _is_compared(one, found)
    numbers = [leaf for leaf in (*found.called, *found.observed) if is_number(leaf.value)]
    for one in all_:
        if is_number(one.value) and (why := _computed(one, numbers)):
            one.refuse(why)


def settle(found: SampleValues, all_: Sequence[Variable]) -> list[TextPlaces]:
    """Part the words among the values that are in no doubt, until none raises another."""
    common = _common(found)
    kinds: tuple[tuple[Role, list[SampleValue]], ...] = (
        ("given", [*found.intended, *found.called]),
        ("observed", found.observed),
    )
    while True:
        certain = [v for v in all_ if not v.doubt]
        own = {leaf.path for one in certain for leaf, _ in one.leaves}
        whole = [
            SampleText(role, leaf.path, leaf.value, leaf.place)
            for role, leaves in kinds
            for leaf in leaves
            if isinstance(leaf.value, str) and leaf.path not in own
        ]
        places = [parted(text, certain, found.now) for text in (*found.texts, *whole)]
        for one in certain:
            _judge(one, places, found.now, common)
        if not any(v.doubt for v in certain):
            return places


def _common(found: SampleValues) -> frozenset[str]:
    """Stems of the words in which the APIs on offer are described."""
    told = [
        text
        for api in found.apis.values()
        for text in (api["name"], api["tool"], api["category"], api["description"][:1000])
    ]
    names = [n for a in found.apis.values() for n in (a["parameters"].get("properties") or {})]
    return frozenset(stem(w.folded) for text in (*told, *names) for w in words(spaced(text)))


def _alone(found: SampleValues, all_: Sequence[Variable], loose: Sequence[SampleValue]) -> None:
    """Values that something else has too, which stays as it is."""
    common = _common(found)
    for one in all_:
        if why := is_common(one, common):
            one.refuse(why)
        for leaf in loose:
            if is_alike(one.value, leaf.value) and leaf.path not in {p.path for p, _ in one.leaves}:
                one.refuse(f"the call is given the same value for `{leaf.name}`")
        for text in found.fixed:
            if exact(str(one.value), plain(text)):
                one.refuse("it stands in a text that stays as it is")
    for one, other in combinations(all_, 2):
        if not is_alike(one.value, other.value):
            continue
        if _is_linked(one, other, found):
            one.leaves += other.leaves
            other.leaves = []
            other.doubt = MERGED
        else:
            detail = "have the same value, and words do not tell which is meant"
            for each in (one, other):
                each.refuse(f"`{one.first.name}` and `{other.first.name}` {detail}")


def _is_linked(one: Variable, other: Variable, found: SampleValues) -> bool:
    """Two arguments for which the user says a distinctive text once."""
    if not (one.is_argument and other.is_argument and distinctive(one.value, one.first.schema)):
        return False
    said = [parted(t, [one], found.now).spans for t in found.texts if t.role == "user"]
    return sum(map(len, said)) == 1 and one.value == other.value


MERGED = "merged"
"""The doubt of a value that is another's: nothing to tell a person."""


def _judge(
    one: Variable, places: Sequence[TextPlaces], now: dt.datetime, common: frozenset[str]
) -> None:
    """What the words themselves tell against a value, and whether it is said where it has to be."""
    firm = distinctive(one.value, one.first.schema)
    own = {leaf.path for leaf, _ in one.leaves}
    for at in places:
        mine = at.of(one)
        if at.text.path in own:
            continue
        if mine and at.text.role == "error" and not firm:
            one.refuse("it stands in an error's text as well")
        if mine and (longer := in_longer_name(at, one)):
            one.refuse(f"«{longer[:60]}» is a longer name")
        if mine and at.text.role == "observed" and not firm:
            one.refuse(f"it stands in the response's «{at.text.text[:60]}» as well")
        if mine and at.text.role == "given":
            one.refuse("it stands in another argument, which stays as it is")
        early = not one.is_argument and at.text.place < one.first.place
        if mine and early and at.text.role in ("goal", "user", "reply", "search"):
            one.refuse("it is said before it is observed")
        if rest := left_over(at, one, now, common):
            one.refuse(f"«{rest[:60]}» says it, or a part of it, in a form that is not known")
    said = {at.text.role for at in places if at.of(one)}
    if one.is_argument and not said & {"goal", "user"}:
        one.refuse("the user says it in no form that is known", unsaid=True)
    elif not one.is_argument and not one.referred and "reply" not in said:
        one.refuse(UNTOLD)


UNTOLD = "untold"
"""The doubt of a response's value that no reply repeats: it need not vary."""


def is_told(doubt: str) -> bool:
    """Is this doubt one that people are told?"""
    return bool(doubt) and doubt not in (UNTOLD, MERGED)
