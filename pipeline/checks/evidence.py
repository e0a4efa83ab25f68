"""What a reply may draw on, the words by which it admits that something did not work, and those by
which it affirms or denies what was observed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from toolloom.pipeline.checks.schema import parts_of
from toolloom.pipeline.checks.text.dates import dates
from toolloom.pipeline.checks.text.numbers import quantities, sums
from toolloom.pipeline.checks.text.times import spans_of_time, times
from toolloom.pipeline.checks.text.words import (
    STOP,
    clauses,
    literal,
    plain,
    sentences,
    spaced,
    stem,
    stems_of,
    words,
)
from toolloom.pipeline.checks.transcript import made, said_before
from toolloom.schemas import Api, Dialogue, JsonObject, canonical

_NO = re.compile(
    r"n't\b|\bcannot\b|\b(?:un|not )able\b|\bno(?:t|ne|thing|body)?\b|\bfail\w*\b|\berrors?\b"
    r"|\bunfortunate(?:ly)?\b|\bsorry\b|\bapologi[sz]e\b|\bafraid\b|\bproblems?\b|\bissues?\b"
    r"|\bunavailable\b|\bunsuccessful\b|\bwithout success\b|\bregret\b|\bimpossible\b"
    r"|\b(?:beyond|outside) (?:of )?(?:my|the|what)\b|\black\b|\bwent wrong\b|\btimed out\b"
    r"|\bdown\b|\bzero\b|\bempty\b|\binvalid\b|\bdenied\b|\brejected\b|\bneither\b",
    re.IGNORECASE,
)
_GAVE_UP = re.compile(
    r"\b(?:i|we)(?:'m| am| was| were|'re| are)? (?:sorry|afraid|unable|not able|could not|couldn't"
    r"|cannot|can't|failed|wasn't able|was not able|weren't able)\b|\bfailed to\b"
    r"|\bsomething went wrong\b",
    re.IGNORECASE,
)


def says_no(text: str) -> bool:
    """Lexical evidence that something did not work or was not found."""
    return bool(_NO.search(plain(text)))


def gives_up(text: str) -> bool:
    """The assistant says that it could not do what was asked."""
    return bool(_GAVE_UP.search(plain(text)))


@dataclass(frozen=True)
class Evidence:
    """Everything a reply may repeat: what was said and observed, and names of the APIs."""

    texts: tuple[str, ...]
    values: tuple[Any, ...]
    names: tuple[str, ...]
    now: dt.datetime
    pool: tuple[Api, ...] = ()

    @cached_property
    def numbers(self) -> frozenset[float]:
        """Numbers said or observed, sizes of observed lists, years of the dates."""
        plain_numbers = [v for v in self.values if isinstance(v, int | float)]
        years = [d.year for d in self.days]
        return frozenset(plain_numbers).union(years, *map(_numbers_of, self.texts))

    @cached_property
    def seconds(self) -> frozenset[float]:
        return frozenset(s for text in self.texts for s in spans_of_time(text))

    @cached_property
    def days(self) -> frozenset[dt.date]:
        today = self.now.date()
        return frozenset(d for text in self.texts for d in dates(text, today)) | {today}

    @cached_property
    def clocks(self) -> frozenset[dt.time]:
        return frozenset(t for text in self.texts for t in times(text))

    def has_day(self, days: frozenset[dt.date]) -> bool:
        """Is one of them among `days`? Not all texts need be read to know."""
        today = self.now.date()
        return today in days or any(not days.isdisjoint(dates(t, today)) for t in self.texts)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """All texts and names, then what the APIs' documentation tells."""
        told: list[str] = []
        for api in self.pool:
            told += [api.category, spaced(api.tool), spaced(api.name), api.description]
            told += map(spaced, (*api.properties, *api.fields))
            for schema in (*api.properties.values(), *api.fields.values()):
                if isinstance(schema, dict) and isinstance(schema.get("description"), str):
                    told.append(schema["description"])
        return (*self.texts, *self.names, *told)

    @cached_property
    def all_text(self) -> str:
        return "\n".join(self.parts)

    def has_words(self, value: str) -> bool:
        """As `literal`, of all there is: the words of one text, which may be known, come first."""
        return any(literal(value, text) for text in self.parts) or literal(value, self.all_text)

    def has_stem(self, stems: set[str]) -> bool:
        """Is one of these the stem of a word?"""
        return any(not stems.isdisjoint(stems_of(text)) for text in self.parts)


@lru_cache(maxsize=4096)
def _numbers_of(text: str) -> frozenset[float]:
    """Numbers that a text says, and what it adds them up to."""
    told = frozenset([reading for q in quantities(text) for reading in q.readings()])
    return told.union(sums(text)) if told else told


def evidence_at(dialogue: Dialogue, place: int) -> Evidence:
    """What a reply at this message may draw on.

    In a world its rules are told, and what follows from results was computed from them.
    """
    query = dialogue.query
    calls = [c for c in made(dialogue) if c.back is not None and c.back < place]
    texts = said_before(dialogue, place)
    texts += [c.observation.error for c in calls if c.observation and c.observation.error]
    parts = [p for c in calls if not c.is_search for p in parts_of(c.response)]
    texts += [v for v in parts if isinstance(v, str)]
    numbers = [v for v in parts if isinstance(v, int | float) and not isinstance(v, bool)]
    sizes = [len(v) for v in parts if isinstance(v, list)]
    names = [spaced(key) for v in parts if isinstance(v, dict) for key in v]
    if query.setting:
        rules = [api.description for api in query.pool if api.source.kind == "world"]
        facts = [f.said for f in query.setting.goal.facts if re.search(r"\d", canonical(f.value))]
        texts += [*query.setting.told, *rules, *facts]
    values = (*numbers, *sizes, len(calls))
    return Evidence(tuple(texts), values, tuple(names), query.now, query.pool)


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
    claims = set()
    for sentence in re.findall(r"[^.!?\n]+[.!?\n]*", _NO_STOCK.sub("unavailable", plain(reply))):
        if sentence.rstrip().endswith("?") or _HYPOTHESIS & {w.folded for w in words(sentence)}:
            continue
        for clause in clauses(sentence):
            names = [w.folded for w in clause]
            for place, name in enumerate(names):
                root = _root(name)
                if root in fact.yes or (root in fact.no and root not in known):
                    claims.add((root in fact.yes) != _denied(names[:place]))
    return claims


def _root(word: str) -> str:
    """A word's stem, but for nouns such as «confirmation», which assert nothing."""
    return word if word.endswith(("ation", "ations")) else stem(word)


def _denied(before: list[str]) -> bool:
    return any(name in _DENIAL or name.endswith("n't") for name in before[-4:])


def other_choices(
    response: Any, schema: JsonObject | None, reply: str, known: str
) -> Iterator[tuple[str, str, str]]:
    """Field, observed and claimed value where the reply tells another choice of a field's enum."""
    stack: list[tuple[str, Any, Any]] = [("", response, schema)]
    while stack:
        name, value, its = stack.pop()
        if not isinstance(its, dict):
            continue
        options = its.get("enum")
        if isinstance(value, str) and isinstance(options, list) and not _tells(reply, value):
            for choice in options:
                other = isinstance(choice, str) and choice != value
                if other and _tells(reply, choice) and not _tells(known, choice):
                    yield name, value, choice
        properties = its.get("properties")
        if isinstance(value, dict) and isinstance(properties, dict):
            stack.extend((k, v, properties.get(k)) for k, v in value.items())
        if isinstance(value, list):
            stack.extend((name, item, its.get("items")) for item in value)


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
