"""Where a text says a value of a world, and in which form: for scripts that are made of dialogues.

    slots("It's $27, due tomorrow.", [price, due], voice) → price at 5 as |money, due at 14 as |day

What several values could have been said is settled by the name that stands nearest to it in its
sentence, then by their order; the values that were passed over are told, so that a condition can
hold them equal.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolloom.pipeline.checks.text.words import sentences
from toolloom.pipeline.checks.world.grammar import NUMBERS, Kind
from toolloom.pipeline.checks.world.interpreter import Json, shown
from toolloom.pipeline.checks.world.wording import FORMS, Voice

LONG = 48  # characters of a text that nobody says whole
BESIDE = 8  # characters between a day and its time
NAMED_DAYS = ("today", "at(today")  # terms of days that no row has
_NAMED = ("text", "ref")


@dataclass(frozen=True)
class Sayable:
    """A value that texts may say: a field of a row that was found, or of a result."""

    term: str
    kind: Kind
    value: Json
    holder: str = ""  # the name of the row, or of the part of a result, that it stands in
    row: str = ""  # the key of that row: a field of it is the same wherever it stands

    @property
    def field(self) -> str:
        return self.term.rpartition(".")[2]

    def same(self, other: Sayable) -> bool:
        """Whether two are one value in every state."""
        return self.term == other.term or (self.row, self.field) == (other.row, other.field)


@dataclass(frozen=True)
class ValueSlot:
    """A place in a text that says a value; `others` would be said alike."""

    start: int
    end: int
    source: Sayable
    form: str
    others: tuple[Sayable, ...] = ()

    @property
    def text(self) -> str:
        return "{%s}" % (f"{self.source.term}|{self.form}" if self.form else self.source.term)


def renderings(source: Sayable, voice: Voice) -> Iterator[tuple[str, str]]:
    """How a value may be said: form and text, those that other states say otherwise first."""
    form, value = source.kind["type"], source.value
    if value in (None, "", []):
        return
    for name in ("when", "on", "weekday", "date", "day", "month", "nth", "time", "clock", "money"):
        counts = name == "money" and form == "integer" and source.kind.get("role") != "money"
        if form in FORMS[name][0] and not counts:
            yield name, FORMS[name][1](value, voice)
    if form in (*NUMBERS, *_NAMED) and value not in (0, 1):  # «one» is many another thing
        yield "", shown(value)
    if form == "integer" and value not in (0, 1):
        yield "number", FORMS["number"][1](value, voice)
    if form == "list":
        yield "list", FORMS["list"][1](value, voice)
    if form == "text" and len(value) <= LONG:
        yield "a", FORMS["a"][1](value, voice)
        if len(parts := value.split()) > 1 and len(parts[0]) > 2 and value.istitle():
            yield "first", parts[0]
        yield "lower", FORMS["lower"][1](value, voice)
        yield "upper", FORMS["upper"][1](value, voice)


def slots(text: str, sources: Sequence[Sayable], voice: Voice) -> list[ValueSlot]:
    """The values that a text says, in order of place; longer ones before their parts."""
    found: dict[tuple[int, int], list[tuple[Sayable, str]]] = defaultdict(list)
    for source in sources:
        for form, said in renderings(source, voice):
            for start, end in places(said, text):
                if not any(each.term == source.term for each, _ in found[start, end]):
                    found[start, end].append((source, form))
    spans: list[tuple[int, int]] = []
    for span in sorted((s for s in found if found[s]), key=lambda s: (s[0] - s[1], s)):
        if all(span[1] <= start or end <= span[0] for start, end in spans):
            spans.append(span)
    bounds = _bounds(text)
    return [_settled(span, found, spans, bounds) for span in sorted(spans)]


def _settled(
    span: tuple[int, int],
    found: dict[tuple[int, int], list[tuple[Sayable, str]]],
    spans: list[tuple[int, int]],
    bounds: list[int],
) -> ValueSlot:
    """A place with the likeliest of the values that it may say: of which another part stands beside
    it, as a day beside its time; then that whose name is near."""

    def rank(source: Sayable) -> tuple[int, float]:
        beside, gaps = 0, [10_000.0]
        for start, end in spans:
            gap = span[0] - end if end <= span[0] else start - span[1]
            if (start, end) == span or any(
                start < bound <= span[0] or span[0] < bound <= start for bound in bounds
            ):
                continue
            own = [other for other, _ in found[start, end] if other.holder == source.holder]
            beside += gap <= BESIDE and any(other.term == source.term for other in own)
            if any(other.kind["type"] in _NAMED for other in own):
                # A name before its value is nearer than one after it.
                gaps.append(gap if end <= span[0] else 2 * gap)
        return -beside, min(gaps)

    ranks = [rank(source) for source, _ in found[span]]
    place = ranks.index(min(ranks))
    source, form = found[span][place]
    others = tuple(
        other
        for (other, _), its in zip(found[span], ranks, strict=True)
        # A day that the user names for a call has to be said by one word or another.
        if not other.same(source) and (its == ranks[place] or other.term.startswith(NAMED_DAYS))
    )
    return ValueSlot(*span, source, form, others)


def _bounds(text: str) -> list[int]:
    """Where sentences begin."""
    found, at = [], 0
    for sentence in sentences(text):
        at = max(at, text.find(sentence, at))
        found.append(at)
    return found


def places(said: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a value stands whole: «$5» not in «$50», «two» not in «two-day»; a name also in the
    plural. At the beginning of a text a slot has a capital letter."""
    if not said:
        return
    before = r"(?<![\w$€£¥-])(?<!\d[.,:])" if said[0].isalnum() else ""
    after = r"(?:(?=s\b)|(?![\w-]))(?![.,:]\d)" if said[-1].isalpha() else r"(?![\w-])(?![.,:]\d)"
    for found in re.finditer(f"{before}{re.escape(said)}{after}", text):
        yield found.span()
    capital = said[:1].upper() + said[1:]
    if capital != said and re.match(f"{re.escape(capital)}{after}", text):
        yield 0, len(said)
