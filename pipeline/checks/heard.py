"""What was said before a call, and what of it the calls take up: for audits (`kept.py`)."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import Any

from toolloom.pipeline.checks.derived import converted, figures, implied, told
from toolloom.pipeline.checks.grounding import close, leaves
from toolloom.pipeline.checks.text.dates import dated
from toolloom.pipeline.checks.text.numbers import Quantity
from toolloom.pipeline.checks.text.spans import ADDRESS, CODE
from toolloom.pipeline.checks.text.times import spans_of_time, timed
from toolloom.pipeline.checks.text.words import exact, fold, plain
from toolloom.pipeline.checks.transcript import CallMade, observed_before
from toolloom.schemas import Dialogue

NO_DATE = dt.datetime(2000, 1, 1)  # stands for a present that is not told
_COMPACT = re.compile(r"\b(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])\b")
_MOST = 200  # numbers of a text that are compared with each other


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Heard:
    """What may stand in the arguments of a call: said, told or observed before it."""

    user: str
    last: str  # the user's last message
    text: str
    numbers: frozenset[float]
    quantities: tuple[Quantity, ...]
    apart: tuple[Quantity, ...]
    codes: str
    results: dict[str, list[str | float]]  # what was observed, by the name of its field
    now: dt.date | None


def heard_before(dialogue: Dialogue, place: int) -> Heard:
    before = dialogue.messages[:place]
    user = "\n".join(m.content or "" for m in before if m.role == "user")
    observed = observed_before(dialogue, place)
    seen = list(leaves(observed))
    words_before = [m.content or "" for m in before if m.role in {"system", "assistant"}]
    text = "\n".join((user, *words_before, *(v for v in seen if isinstance(v, str))))
    numbers = [v for v in seen if is_number(v)]
    return Heard(
        user=user,
        last=next((m.content or "" for m in reversed(before) if m.role == "user"), ""),
        text=text,
        numbers=frozenset((*figures(text), *implied(text), *numbers, *_lengths(text))),
        quantities=told(user)[:_MOST],
        apart=tuple(islice(apart(user), _MOST)),
        codes="\n".join((text, *map(str, numbers))),
        results=_by_field(observed),
        now=None if dialogue.query.now == NO_DATE else dialogue.query.now.date(),
    )


def _by_field(observed: Any) -> dict[str, list[str | float]]:
    found: dict[str, list[str | float]] = {}
    stack = [observed]
    while stack:
        part = stack.pop()
        if isinstance(part, list):
            stack += part
        elif isinstance(part, dict):
            stack += part.values()
            for name, value in part.items():
                if isinstance(value, str) or is_number(value):
                    found.setdefault(name, []).append(value)
    return found


def _lengths(text: str) -> Iterator[float]:
    """Lengths of time in seconds, minutes and hours: «an hour and a half» is 90 minutes."""
    for seconds in spans_of_time(text):
        yield from (seconds, seconds / 60, seconds / 3600)


def apart(text: str) -> Iterator[Quantity]:
    """The numbers of a text that are no part of a calendar date or a clock time."""
    taken = [(d.start, d.end) for d in dated(text, NO_DATE.date()) if d.absolute]
    taken += [(t.start, t.end) for t in timed(text) if t.sure]
    taken += [m.span() for m in _COMPACT.finditer(text)]
    for quantity in told(text):
        if not any(a <= quantity.start < b for a, b in taken):
            yield quantity


class Used:
    """What all calls of a dialogue take up of what was said."""

    def __init__(self, calls: list[CallMade]) -> None:
        self.calls = calls
        self._unused: dict[str, list[Quantity]] = {}
        found = [leaf for call in calls for leaf in leaves(call.arguments)]
        self.strings = [v for v in found if isinstance(v, str)]
        self.text = "\n".join((*self.strings, *(str(v) for v in found)))
        numbers = [v for v in found if is_number(v)]
        self.numbers = frozenset((*numbers, *figures(self.text), *implied(self.text)))

    @cached_property
    def pairs(self) -> list[tuple[float, float]]:
        """Two numbers of one call: «a family of four» may be two adults and two children."""
        rows = [[v for v in leaves(c.arguments) if is_number(v)][:20] for c in self.calls]
        return [pair for row in rows for pair in combinations(row, 2)]

    def unused_numbers(self, text: str) -> list[Quantity]:
        """Numbers of a text that no argument is, nor is made of by another unit."""
        if text not in self._unused:
            self._unused[text] = self._left(text)
        return self._unused[text]

    def _left(self, text: str) -> list[Quantity]:
        return [
            q
            for q in islice(apart(text), _MOST)
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
