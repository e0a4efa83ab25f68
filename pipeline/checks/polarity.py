"""Words that affirm or deny: does a reply say the opposite of what was observed?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from toolloom.pipeline.checks.text.words import STOP, clauses, plain, sentences, spaced, stem, words
from toolloom.schemas import JsonObject

_PAIRS = """
success successful successfully succeeded ok okay|failed failure unsuccessful fail failing error
available stock|unavailable
open|closed shut
confirmed|cancelled canceled unconfirmed
approved accepted|declined denied rejected disapproved
active enabled|inactive disabled expired
valid|invalid
paid|unpaid
completed complete finished done|incomplete pending unfinished
online|offline
eligible|ineligible
safe|unsafe dangerous
locked|unlocked
correct|incorrect
verified|unverified
booked reserved scheduled|unbooked
"""
POLES = tuple(
    (frozenset(map(stem, yes.split())), frozenset(map(stem, no.split())))
    for yes, no in (line.split("|") for line in _PAIRS.strip().splitlines())
)
# The first pair that a stem is in, and its side.
_SIDES = {
    name: (place, side)
    for place, pair in reversed(list(enumerate(POLES)))
    for side, names in reversed(list(enumerate(pair)))
    for name in names
}
_DENIAL = frozenset(
    """
    no not never without neither nor cannot out isn't aren't wasn't weren't
    """.split()  # noqa: SIM905 - a table of words
)
_NO_STOCK = re.compile(r"\b(?:out of stock|sold out|fully booked)\b", re.IGNORECASE)
_HYPOTHESIS = frozenset(["if", "unless", "whether", "once", "should"])
_GENERIC = frozenset(["is", "has", "was", "are", "status", "state", "flag", "result"])


class Stated(NamedTuple):
    """An observed field with a yes or no in it: words that say yes, words that say no."""

    field: str
    holds: bool
    yes: frozenset[str]
    no: frozenset[str]


def stated(response: Any, field: str = "") -> Iterator[Stated]:
    """Booleans and status words of a response, with the words that affirm and deny them."""
    stack = [(field, response)]
    while stack:
        name, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.items())
        elif isinstance(value, list):
            stack.extend((name, item) for item in value)
        elif isinstance(value, bool):
            yield _flag(name, value)
        elif isinstance(value, str) and (pole := _pole(value)):
            yield Stated(name, pole[0], *pole[1])


def _flag(name: str, value: bool) -> Stated:
    key = [stem(w.folded) for w in words(spaced(name)) if w.folded not in STOP | _GENERIC]
    yes, no = frozenset(key if len(key) == 1 else ()), frozenset[str]()
    for affirms, denies in POLES:
        if yes & affirms:
            return Stated(name, value, affirms | yes, denies)
        if yes & denies:  # a field such as `expired`: its own words say yes
            return Stated(name, value, denies | yes, affirms)
    return Stated(name, value, yes, no)


@lru_cache(maxsize=8192)
def _pole(value: str) -> tuple[bool, tuple[frozenset[str], frozenset[str]]] | None:
    """Which side of a pair a short status text is on, and the pair; None if on neither."""
    found = words(spaced(value))
    if not 0 < len(found) <= 2:
        return None
    negated = any(w.folded in _DENIAL for w in found)
    known = [_SIDES[root] for w in found if (root := stem(w.folded)) in _SIDES]
    if not known:
        return None
    place, side = min(known)
    return (side == 0) != negated, POLES[place]


def is_status(leaf: Any) -> bool:
    """A leaf that tells only whether something worked."""
    return isinstance(leaf, bool) or (isinstance(leaf, str) and _pole(leaf) is not None)


def negative(response: Any) -> bool:
    """Does the response itself report that it did not work?"""
    said_no = [s for s in stated(response) if not s.holds]
    return bool(said_no) and all(not s.holds for s in stated(response))


def claimed(reply: str, fact: Stated, known: frozenset[str]) -> set[bool]:
    """Yes and no as the reply says it. Questions and conditions claim nothing.

    `known` are stems of what the user said or was observed: the opposite word does not count
    where it is one of them («cancel my booking»).
    """
    found = set()
    for sentence in _assertions(reply):
        for clause in clauses(sentence):
            names = [w.folded for w in clause]
            for place, name in enumerate(names):
                root = _root(name)
                if root in fact.yes or (root in fact.no and root not in known):
                    found.add((root in fact.yes) != _denied(names[:place]))
    return found


def _assertions(reply: str) -> Iterator[str]:
    text = _NO_STOCK.sub("unavailable", plain(reply))
    for match in re.finditer(r"[^.!?\n]+[.!?\n]*", text):
        sentence = match.group()
        hypothetical = _HYPOTHESIS & {w.folded for w in words(sentence)}
        if not sentence.rstrip().endswith("?") and not hypothetical:
            yield sentence


def _root(word: str) -> str:
    """A word's stem, but for nouns such as «confirmation», which assert nothing."""
    return word if word.endswith(("ation", "ations")) else stem(word)


def _denied(before: list[str]) -> bool:
    return any(name in _DENIAL or name.endswith("n't") for name in before[-4:])


def other_choices(
    response: Any, schema: JsonObject | None, reply: str, known: str
) -> Iterator[tuple[str, str, str]]:
    """Field, observed and claimed value where the reply tells another choice of a field's enum."""
    for name, value, choices in _choices(response, schema):
        if _tells(reply, value):
            continue
        for choice in choices:
            if choice != value and _tells(reply, choice) and not _tells(known, choice):
                yield name, value, choice


def _tells(text: str, value: str) -> bool:
    wanted = [stem(w.folded) for w in words(spaced(value))]
    for sentence in sentences(text):
        found = [w.folded for w in words(sentence)]
        roots = [_root(w) for w in found]
        for place in range(len(roots) - len(wanted) + 1):
            here = roots[place : place + len(wanted)] == wanted
            if wanted and here and not _denied(found[:place]):
                return True
    return False


def _choices(response: Any, schema: Any) -> Iterator[tuple[str, str, list[str]]]:
    stack = [("", response, schema)]
    while stack:
        name, value, known = stack.pop()
        if not isinstance(known, dict):
            continue
        options = known.get("enum")
        if isinstance(value, str) and isinstance(options, list):
            yield name, value, [o for o in options if isinstance(o, str)]
        properties = known.get("properties")
        if isinstance(value, dict) and isinstance(properties, dict):
            stack.extend((k, v, properties.get(k)) for k, v in value.items())
        if isinstance(value, list):
            stack.extend((name, item, known.get("items")) for item in value)
