"""Values derived from others, and the choices that slots are drawn by."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from toolloom.pipeline.templates.written.pools import DerivedPool, PoolMistake
from toolloom.schemas import Choice, canonical

LONGEST_FORMAT = 40


def _plain(text: str) -> str:
    """Without accents, as addresses are written: `zurich`."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _joined(text: str, sign: str) -> str:
    return sign.join(re.findall(r"[^\W_]+", _plain(text).lower()))


_WAYS: Mapping[str, Callable[[str], Any]] = MappingProxyType({
    "plus": lambda text: "+".join(text.lower().split()),
    "slug": lambda text: _joined(text, "-"),
    "snake": lambda text: _joined(text, "_"),
    "lower": str.lower,
    "upper": str.upper,
    "title": lambda text: " ".join(w[:1].upper() + w[1:] for w in text.split()),
    "compact": lambda text: "".join(text.split()),
    "digits": lambda text: "".join(c for c in text if c in "0123456789"),
    "text": lambda text: text,
    "initial": lambda text: text[:1].upper(),
    "length": len,
})  # fmt: skip

# What a date may be written with; `%-d` is a day without its zero, on any system.
_PARTS: Mapping[str, Callable[[dt.date], str]] = MappingProxyType({
    "%d": lambda day: f"{day.day:02d}",
    "%-d": lambda day: str(day.day),
    "%m": lambda day: f"{day.month:02d}",
    "%-m": lambda day: str(day.month),
    "%B": lambda day: day.strftime("%B"),
    "%b": lambda day: day.strftime("%b"),
    "%Y": lambda day: f"{day.year:04d}",
    "%y": lambda day: f"{day.year % 100:02d}",
    "%A": lambda day: day.strftime("%A"),
    "%a": lambda day: day.strftime("%a"),
    "%%": lambda day: "%",
})  # fmt: skip
_PART = re.compile(r"%-?.?", re.DOTALL)


def derive(form: DerivedPool, value: Any) -> Any:
    """The value that follows from another. Raises PoolMistake."""
    if form.map is not None:
        if (key := _as_key(value)) not in form.map:
            raise PoolMistake(f"`map` has no entry for {canonical(value)}")
        return form.map[key]
    if form.later is not None:
        return _later(_day(value, "later"), form.later)
    if form.format is not None:
        return _written(_day(value, "format"), form.format)
    made = _WAYS[form.way or "text"](str(value))
    if made == "":
        raise PoolMistake(f"`as: {form.way}` leaves nothing of {canonical(value)}")
    return made


def _as_key(value: Any) -> str:
    """As the value stands in YAML as a key."""
    return value if isinstance(value, str) else canonical(value)


def _day(value: Any, way: str) -> dt.date:
    """A date such as 2026-03-02."""
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise PoolMistake(
            f"`{way}` takes dates, and {canonical(value)} is none such as 2026-03-02"
        ) from error


def _later(day: dt.date, count: int) -> str:
    try:
        return (day + dt.timedelta(days=count)).isoformat()
    except OverflowError as error:
        raise PoolMistake(f"no calendar has the day {count:,} days after {day}") from error


def _written(day: dt.date, form: str) -> str:
    if len(form) > LONGEST_FORMAT:
        raise PoolMistake(f"`format` is longer than {LONGEST_FORMAT} letters")
    for part in _PART.findall(form):
        if part not in _PARTS:
            raise PoolMistake(f"`format` does not know `{part}`; it knows {' '.join(_PARTS)}")
    return _PART.sub(lambda part: _PARTS[part[0]](day), form)


@dataclass
class Family:
    """Slots that are drawn together, with their values row by row, the original first."""

    slots: list[str]
    rows: list[list[Any]]
    about: str
    source: str

    def column(self, slot: str) -> list[Any]:
        place = self.slots.index(slot)
        return [row[place] for row in self.rows]

    def derive(self, slot: str, form: DerivedPool) -> None:
        """Add a slot whose values follow from another's. Raises PoolMistake."""
        found = [derive(form, value) for value in self.column(form.of)]
        self.slots.append(slot)
        for row, value in zip(self.rows, found, strict=True):
            row.append(value)

    def choice(self, wanted: Sequence[str]) -> Choice:
        """The choice of the slots that stand somewhere; rows that no longer differ are one."""
        places = [i for i, slot in enumerate(self.slots) if slot in wanted]
        rows = {canonical(row): row for row in ([r[i] for i in places] for r in self.rows)}
        return Choice(
            slots=tuple(self.slots[i] for i in places),
            rows=tuple(map(tuple, rows.values())),
            about=self.about,
            sources={self.source: len(rows)},
        )


def in_order(derived: Mapping[str, DerivedPool]) -> Iterator[str]:
    """The derived slots, each after the one it is derived from; none that goes in circles."""
    done: set[str] = set()
    waiting = dict(derived)
    while ready := [s for s, form in waiting.items() if form.of in done or form.of not in derived]:
        for slot in ready:
            done.add(slot)
            del waiting[slot]
            yield slot


def circle(derived: Mapping[str, DerivedPool], slot: str) -> list[str]:
    """The way from a slot back to itself; empty if there is none."""
    way = [slot]
    while way[-1] in derived and len(way) <= len(derived):
        way.append(derived[way[-1]].of)
        if way[-1] == slot:
            return way
    return []
