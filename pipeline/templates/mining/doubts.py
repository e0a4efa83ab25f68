"""Which values must stay as they are: what stands twice with two meanings, or follows from others.

A slot that is wrong makes wrong data by the thousand; a value too many that stays costs little.
Totals, ends of stays and what is found within bounds follow from other values (`follow`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from itertools import combinations

from toolloom.pipeline.checks.evidence import is_status
from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.text.times import seconds_in
from toolloom.pipeline.checks.text.words import content, exact, plain, spaced, stem, words
from toolloom.pipeline.templates.mining.occurrences import (
    TextPlaces,
    in_longer_name,
    is_common,
    left_over,
    parted,
)
from toolloom.pipeline.templates.mining.survey import Role, SampleText, SampleValue, SampleValues
from toolloom.pipeline.templates.mining.variables import (
    Variable,
    day_of,
    distinctive,
    is_alike,
    is_number,
)

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


def follow(found: SampleValues, all_: Sequence[Variable]) -> None:
    """Put in doubt what something that stays follows from, or may follow from."""
    for one in all_:
        if one.is_argument:
            _bears_on_response(one, found)
        else:
            _is_compared(one, found)
    numbers = [leaf for leaf in (*found.called, *found.observed) if is_number(leaf.value)]
    for one in all_:
        if is_number(one.value) and (why := _computed(one, numbers)):
            one.refuse(why)


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
    if any(close(p * q, r) for p, q, r in orders):
        return True
    return abs(a) > _SUMS and any(close(p + q, r) for p, q, r in orders)


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
    follow(found, all_)


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
