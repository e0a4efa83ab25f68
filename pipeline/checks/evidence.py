"""What a reply may draw on, and the words by which it admits that something did not work."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from toolloom.pipeline.checks.grounding import leaves
from toolloom.pipeline.checks.text.dates import dates
from toolloom.pipeline.checks.text.numbers import quantities
from toolloom.pipeline.checks.text.times import spans_of_time, times
from toolloom.pipeline.checks.text.words import plain, spaced, stems_of
from toolloom.pipeline.checks.transcript import made, said_before
from toolloom.schemas import Api, Dialogue

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
        told = (r for text in self.texts for q in quantities(text) for r in q.readings())
        plain_numbers = (v for v in self.values if isinstance(v, int | float))
        years = (d.year for d in self.days)
        return frozenset([*told, *plain_numbers, *years])

    @cached_property
    def seconds(self) -> frozenset[float]:
        return frozenset(s for text in self.texts for s in spans_of_time(text))

    @cached_property
    def days(self) -> frozenset[dt.date]:
        today = self.now.date()
        return frozenset(d for text in self.texts for d in dates(text, today)) | {today}

    @cached_property
    def times(self) -> frozenset[dt.time]:
        return frozenset(t for text in self.texts for t in times(text))

    @cached_property
    def all_text(self) -> str:
        return "\n".join((*self.texts, *self.names, *self.told))

    @cached_property
    def told(self) -> tuple[str, ...]:
        """What the APIs' documentation tells."""
        return tuple([w for api in self.pool for w in _words_of(api)])

    def holds_any(self, stems: set[str]) -> bool:
        """Is one of these the stem of a word? What was said and observed is looked at first."""
        for text in chain(self.texts, self.names):
            if not stems.isdisjoint(stems_of(text)):
                return True
        return any(not stems.isdisjoint(stems_of(text)) for text in self.told)


def evidence_at(dialogue: Dialogue, place: int) -> Evidence:
    """What a reply at this message may draw on."""
    calls = [c for c in made(dialogue) if c.back is not None and c.back < place]
    seen = [c.response for c in calls if not c.is_search]
    errors = [c.observation.error for c in calls if c.observation and c.observation.error]
    found = [leaf for response in seen for leaf in leaves(response)]
    sizes = [len(part) for response in seen for part in _lists(response)]
    texts = [*said_before(dialogue, place), *errors, *(v for v in found if isinstance(v, str))]
    numbers = [v for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
    names = [w for response in seen for w in _keys(response)]
    values = (*numbers, *sizes, len(calls))
    query = dialogue.query
    return Evidence(tuple(texts), values, tuple(names), query.now, query.pool)


def _lists(value: Any) -> Iterator[list[Any]]:
    for part in _parts(value):
        if isinstance(part, list):
            yield part


def _keys(value: Any) -> Iterator[str]:
    for part in _parts(value):
        if isinstance(part, dict):
            yield from (spaced(key) for key in part)


def _parts(value: Any) -> Iterator[Any]:
    stack = [value]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, dict | list):
            stack.extend(part.values() if isinstance(part, dict) else part)


def _words_of(api: Api) -> tuple[str, ...]:
    schemas = [s for s in (*api.properties.values(), *api.fields.values()) if isinstance(s, dict)]
    told = [s["description"] for s in schemas if isinstance(s.get("description"), str)]
    return (
        api.category,
        spaced(api.tool),
        spaced(api.name),
        api.description,
        *map(spaced, (*api.properties, *api.fields)),
        *told,
    )
