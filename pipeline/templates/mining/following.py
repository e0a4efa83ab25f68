"""Values that others follow from: totals, ends of stays, what is found within bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from toolloom.pipeline.checks.grounding import close
from toolloom.pipeline.checks.polarity import is_status
from toolloom.pipeline.checks.text.times import seconds_in
from toolloom.pipeline.checks.text.words import content, spaced, stem, words
from toolloom.pipeline.templates.mining.forms import day_of, is_number
from toolloom.pipeline.templates.mining.survey import SampleValue, SampleValues
from toolloom.pipeline.templates.mining.variables import Variable, is_alike

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
    return [len(items) for items in _lists(found)]


def _lists(found: SampleValues) -> Iterator[list[object]]:
    for place in found.contents:
        stack = [found.tree["dialogue"]["messages"][place]["content"].get("response")]
        while stack:
            item = stack.pop()
            if isinstance(item, list):
                if len(item) > 1:
                    yield item
                stack += item
            elif isinstance(item, dict):
                stack += item.values()


def _bears_on_response(one: Variable, found: SampleValues) -> None:
    """Does a response of its calls follow from it: a total, an end, what is within its bounds?"""
    calls = {leaf.number for leaf, _ in one.leaves if leaf.side == "call"}
    own = {leaf.path for leaf, _ in one.leaves}
    seen = [leaf for leaf in found.observed if leaf.number in calls and leaf.path not in own]
    for leaf in seen:
        if frozenset(content(spaced(leaf.name))) & _WORKED_OUT and not is_status(leaf.value):
            one.refuse(f"`{leaf.name}` of the response follows from it")
        if leaf.name == one.first.name and not _holds(leaf, one):
            one.refuse("the response has another value of that name")
        if (day_of(leaf.value) or _counts_days(leaf)) and _moves_days(one):
            one.refuse(f"`{leaf.name}` of the response may be counted from it")
    parts = {one.first.name, *(w.folded for w in words(spaced(one.first.name)))}
    if is_number(one.value) and parts & _BOUNDS and seen:
        one.refuse("it bounds what the response holds")
    compared = is_number(one.value) and any(_COMPARED.search(text) for text in _spoken(found))
    for leaf in seen if compared else ():
        if is_number(leaf.value):
            one.refuse(f"the words compare: perhaps with `{leaf.name}` of the response")


def _holds(leaf: SampleValue, one: Variable) -> bool:
    """Is the value told inside a longer text?"""
    return isinstance(leaf.value, str) and str(one.value).lower() in leaf.value.lower()


def _moves_days(one: Variable) -> bool:
    """A day, or a length of time in days or less."""
    return bool(day_of(one.value)) or _counts_days(one.first)


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
    elif any(_COMPARED.search(text) for text in _spoken(found)):
        one.refuse("the words compare")


def _spoken(found: SampleValues) -> Iterable[str]:
    return (t.text for t in found.texts if t.role in ("user", "reply"))
