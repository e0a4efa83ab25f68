"""Which values must stay as they are: what stands twice with two meanings, or follows from others.

A slot that is wrong makes wrong data by the thousand; a value too many that stays costs little.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from toolloom.pipeline.checks.text.words import exact, plain, spaced, stem, words
from toolloom.pipeline.templates.mining.following import follow, sizes_in
from toolloom.pipeline.templates.mining.forms import is_number
from toolloom.pipeline.templates.mining.occurrences import (
    TextPlaces,
    in_longer_name,
    is_common,
    left_over,
    parted,
)
from toolloom.pipeline.templates.mining.survey import SampleText, SampleValue, SampleValues
from toolloom.pipeline.templates.mining.variables import Variable, distinctive, is_alike, pairs


def weigh(found: SampleValues, all_: Sequence[Variable], loose: Iterable[SampleValue]) -> None:
    """Put values in doubt for what they are; `settle` tells what the words say against others."""
    now = dt.datetime.fromisoformat(found.query["now"])
    _alone(found, all_, list(loose), _common(found))
    _apart(found, all_, now)
    follow(found, all_)


def settle(found: SampleValues, all_: Sequence[Variable]) -> list[TextPlaces]:
    """Part the words among the values that are in no doubt, until none raises another."""
    now = dt.datetime.fromisoformat(found.query["now"])
    common = _common(found)
    while True:
        certain = [v for v in all_ if not v.doubt]
        places = [parted(text, certain, now) for text in _texts(found, certain)]
        for one in certain:
            _judge(one, places, found, now, common)
        if not any(v.doubt for v in certain):
            return places


def _texts(found: SampleValues, certain: Iterable[Variable]) -> list[SampleText]:
    """The words of the sample, and its texts that are no value themselves."""
    own = {leaf.path for one in certain for leaf, _ in one.leaves}
    whole = [
        SampleText(
            "observed" if leaf.side == "response" else "given", leaf.path, leaf.value, leaf.place
        )
        for leaf in (*found.intended, *found.called, *found.observed)
        if isinstance(leaf.value, str) and leaf.path not in own
    ]
    return [*found.texts, *whole]


def _common(found: SampleValues) -> frozenset[str]:
    """Stems of the words in which the APIs on offer are described."""
    told = [
        text
        for api in found.apis.values()
        for text in (api["name"], api["tool"], api["category"], api["description"][:1000])
    ]
    names = [n for a in found.apis.values() for n in (a["parameters"].get("properties") or {})]
    return frozenset(stem(w.folded) for text in (*told, *names) for w in words(spaced(text)))


def _alone(
    found: SampleValues,
    all_: Sequence[Variable],
    loose: Sequence[SampleValue],
    common: frozenset[str],
) -> None:
    """Values that something else has too, which stays as it is."""
    for one in all_:
        if why := is_common(one, common):
            one.refuse(why)
        for leaf in loose:
            if is_alike(one.value, leaf.value) and leaf.path not in {p.path for p, _ in one.leaves}:
                one.refuse(f"the call is given the same value for `{leaf.name}`")
        for text in found.fixed:
            if exact(str(one.value), plain(text)):
                one.refuse("it stands in a text that stays as it is")
    for one, other in pairs(all_):
        if not is_alike(one.value, other.value):
            continue
        if _is_linked(one, other, found):
            _merge(one, other)
        else:
            detail = "have the same value, and words do not tell which is meant"
            for each in (one, other):
                each.refuse(f"`{one.first.name}` and `{other.first.name}` {detail}")


def _is_linked(one: Variable, other: Variable, found: SampleValues) -> bool:
    """Two arguments for which the user says a distinctive text once."""
    if not (one.is_argument and other.is_argument and distinctive(one.value, one.first.schema)):
        return False
    now = dt.datetime.fromisoformat(found.query["now"])
    said = [parted(t, [one], now).spans for t in found.texts if t.role == "user"]
    return sum(map(len, said)) == 1 and one.value == other.value


def _merge(one: Variable, other: Variable) -> None:
    one.leaves += other.leaves
    other.leaves = []
    other.doubt = MERGED


MERGED = "merged"
"""The doubt of a value that is another's: nothing to tell a person."""


def _apart(found: SampleValues, all_: Sequence[Variable], now: dt.datetime) -> None:
    """Numbers and common words that the user says twice, and numbers that count something."""
    sizes = sizes_in(found)
    for one in all_:
        if distinctive(one.value, one.first.schema):
            continue
        for text in found.texts:
            said = len(parted(text, [one], now).spans)
            if said > 1 and (text.role == "user" or is_number(one.value)):
                one.refuse(f"it stands {said} times in one message, with two meanings perhaps")
        if is_number(one.value) and one.value in sizes and one.is_argument:
            one.refuse("it is also how many there are in the response")
        elif is_number(one.value) and one.value in sizes:
            one.refuse("it is also how many items there are")


def _judge(
    one: Variable,
    places: Sequence[TextPlaces],
    found: SampleValues,
    now: dt.datetime,
    common: frozenset[str],
) -> None:
    """What the words themselves tell against a value."""
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
    _held(one, places, found)


def _held(one: Variable, places: Sequence[TextPlaces], found: SampleValues) -> None:
    """Is the value said where it has to be?"""
    if one.doubt:
        return
    if one.is_argument:
        if not any(at.of(one) for at in places if at.text.role in ("goal", "user")):
            one.refuse("the user says it in no form that is known", unsaid=True)
    elif not one.referred and not any(at.of(one) for at in places if at.text.role == "reply"):
        one.refuse(UNTOLD)


UNTOLD = "untold"
"""The doubt of a response's value that no reply repeats: it need not vary."""


def is_told(doubt: str) -> bool:
    """Is this doubt one that people are told?"""
    return bool(doubt) and doubt not in (UNTOLD, MERGED)


__all__ = ["MERGED", "UNTOLD", "is_told", "settle", "weigh"]
