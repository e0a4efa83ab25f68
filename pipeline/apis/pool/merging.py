"""Which place and which names each API of an import takes in a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from toolloom.pipeline.formats.importers.ledger import ImportLog
from toolloom.schemas import Api
from toolloom.schemas.api import Renamed

Origin: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Known:
    """An API of the pool: its line, names and origin."""

    place: int
    function: str
    origin: Origin
    touched: bool = False


class Merge:
    """One import into a pool.

    An API whose id the pool has from the same source takes its place and keeps its function
    name. An id that another source has is told apart by the tool's name: `Pets (2)`.
    """

    def __init__(self, pool: Iterable[Api]) -> None:
        self._known: dict[str, _Known] = {}
        origins: dict[Origin, Origin] = {}
        for place, api in enumerate(pool):
            origin = origins.setdefault(_origin(api), _origin(api))
            self._known[api.id] = _Known(place, api.function, origin)
        self._names = ImportLog("", taken=(known.function for known in self._known.values()))
        self._size = self._before = len(self._known)
        self._tried: dict[tuple[str, Origin], int] = {}
        self._moved: dict[str, Renamed] = {}
        self._notes: list[str] = []
        self.replaced = 0

    @property
    def added(self) -> int:
        return self._size - self._before

    def settle(self, api: Api) -> tuple[Api, int]:
        """The API as the pool keeps it, and its line there."""
        settled, known = self._place(api)
        if known is None:
            function = self._names.function(api.function, settled.id)
            known = self._known[settled.id] = _Known(self._size, function, _origin(api))
            self._size += 1
        else:
            self.replaced += 1
        known.touched = True
        if known.function != api.function:
            self._moved[api.function] = Renamed(
                api=settled.id, old=api.function, new=known.function, why="taken"
            )
        return settled.model_copy(update={"function": known.function}), known.place

    def _place(self, api: Api) -> tuple[Api, _Known | None]:
        """The API under an id that is free, or its own from an earlier import."""
        origin = _origin(api)
        # Numbers that an earlier API of this id did not get are not tried again.
        for number in count(self._tried.get((api.id, origin), 0) + 1):
            tool = api.tool if number == 1 else f"{api.tool} ({number})"
            known = self._known.get(f"{api.category}/{tool}/{api.name}")
            if known is None or (known.origin == origin and not known.touched):
                break
        self._tried[api.id, origin] = number
        if number == 1:
            return api, known
        self._notes.append(f"{api.id}: the pool has an API of this id; here its tool is «{tool}».")
        return api.model_copy(update={"tool": tool}), known

    def renamed(self, booked: Iterable[Renamed]) -> tuple[Renamed, ...]:
        """What the importer booked, with the names that the pool gave in their place."""
        return tuple(self._corrected(booked))

    def _corrected(self, booked: Iterable[Renamed]) -> Iterator[Renamed]:
        moved = dict(self._moved)
        for line in booked:
            last = moved.pop(line.new, None)
            if last is None:
                yield line
            elif last.new != line.old:
                yield line.model_copy(update={"new": last.new})
        yield from moved.values()

    def close(self, ledger: ImportLog) -> None:
        """Note what is worth knowing of the import as a whole."""
        for text in self._notes:
            ledger.note(text)
        here = {known.origin for known in self._known.values() if known.touched}
        left: Counter[str] = Counter(
            known.origin[1]
            for known in self._known.values()
            if known.origin in here and not known.touched
        )
        for reference, number in left.items():
            ledger.note(
                f"{number:,} APIs that the pool has from {reference or 'here'} "
                "were not in it this time; they stay."
            )


def _origin(api: Api) -> Origin:
    return (api.source.kind, api.source.reference)
