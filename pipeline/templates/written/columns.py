"""The values of a template's slots: drawn, looked up or derived, and what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from toolloom.pipeline.templates.written.derived import Family, circle, in_order
from toolloom.pipeline.templates.written.forms import TableForm, nearest
from toolloom.pipeline.templates.written.pools import (
    DRAWN,
    Argument,
    DerivedPool,
    Pool,
    PoolMistake,
    SchemaPool,
    Written,
    WrittenSetting,
    from_schema,
)
from toolloom.pipeline.templates.written.positions import Place, WrittenDocument
from toolloom.schemas import Choice


class Columns:
    """Slots with their values. What is wrong goes to the document."""

    def __init__(
        self, setting_for: Callable[[str], WrittenSetting], document: WrittenDocument
    ) -> None:
        self._setting_for, self._document = setting_for, document
        self._written: dict[str, tuple[Written, Place]] = {}
        self._families: list[Family] = []
        self._of: dict[str, Family] = {}
        self._places: dict[str, Place] = {}
        self._fills: dict[str, Argument] = {}

    @property
    def declared(self) -> Collection[str]:
        """Slots that somebody wrote a pool for."""
        return self._places.keys()

    @property
    def known(self) -> Collection[str]:
        """Slots that have values."""
        return self._of.keys()

    def describe(self, slot: str, argument: Argument) -> None:
        """Tell what a slot fills; the first counts."""
        self._fills.setdefault(slot, argument)

    def add_tables(
        self, tables: Sequence[TableForm], place: Place, wanted: Collection[str] | None = None
    ) -> None:
        """Slots whose values belong together; with `wanted`, only tables with one of these."""
        for number, table in enumerate(tables):
            if wanted is not None and not set(table.slots) & set(wanted):
                continue
            where = (*place, number, "slots")
            again = [s for s in table.slots if s in self._places]
            if again or len(set(table.slots)) < len(table.slots):
                if wanted is None:
                    names = ", ".join(f"`{s}`" for s in again or table.slots)
                    self._document.fault(where, f"{names}: each slot has its values once.")
                continue
            self._places |= dict.fromkeys(table.slots, (*place, number, "rows"))
            about = f"values of {', '.join(table.slots)} that belong together"
            self._add(Family([*table.slots], [list(row) for row in table.rows], about, "literal"))

    def add_pools(
        self, pools: Mapping[str, Written], place: Place, wanted: Collection[str] | None = None
    ) -> None:
        """Pools by slot; with `wanted`, only these and what they are derived from."""
        if wanted is not None:
            pools = {s: p for s, p in pools.items() if s not in self._places}
            pools = _with_parents(pools, {*wanted, *self._parents()})
        for slot, pool in pools.items():
            if slot in self._places:
                self._document.fault((*place, slot), "has values in `together` already.")
                continue
            self._places[slot] = (*place, slot)
            self._written[slot] = pool, (*place, slot)

    def _parents(self) -> set[str]:
        return {p.of for p, _ in self._written.values() if isinstance(p, DerivedPool)}

    def add_schema(self, slot: str, argument: Argument, place: Place) -> None:
        """Values of what the slot fills."""
        try:
            pool = from_schema(argument, DRAWN, self._setting_for(slot))
        except PoolMistake as error:
            self._document.fault(place, f"`{{{slot}}}`: {error}.")
            return
        self.add(slot, pool, argument.about)

    def add(self, slot: str, pool: Pool, about: str) -> None:
        """A slot of its own with values that are known."""
        self._add(Family([slot], [[value] for value in pool.values], about, pool.source))

    def _add(self, family: Family) -> None:
        self._families.append(family)
        self._of |= dict.fromkeys(family.slots, family)

    def fill(self) -> None:
        """Draw the values of the pools, then what is derived from them."""
        derived: dict[str, DerivedPool] = {}
        for slot, (written, place) in self._written.items():
            if isinstance(written, DerivedPool):
                derived[slot] = written
                continue
            try:
                pool = self._pool(slot, written)
            except PoolMistake as error:
                self._document.fault(place, f"{error}.")
                continue
            fills = self._fills.get(slot)
            self.add(slot, pool, fills.about if fills else f"slot {slot}")
        self._derive(derived)

    def _pool(self, slot: str, written: Written) -> Pool:
        if isinstance(written, list):
            return Pool(tuple(written), "literal")
        setting = self._setting_for(slot)
        if isinstance(written, SchemaPool):
            argument = self._fills.get(slot)
            if argument is None:
                raise PoolMistake("`schema`: the slot is no argument and no field of a response")
            return from_schema(argument, written.count, setting)
        if isinstance(written, DerivedPool):
            raise TypeError("derived slots come later")
        return written.values(setting)

    def _derive(self, derived: Mapping[str, DerivedPool]) -> None:
        for slot in in_order(derived):
            form, place = derived[slot], self._written[slot][1]
            family = self._of.get(form.of)
            if family is None:
                if form.of not in self._places:
                    hint = nearest(form.of, {*self._places} - {slot})
                    self._document.fault((*place, "of"), f"there is no slot `{form.of}`; {hint}")
                continue
            try:
                family.derive(slot, form)
            except PoolMistake as error:
                self._document.fault(place, f"{error}.")
                continue
            self._of[slot] = family
        for slot in derived:
            if way := circle(derived, slot):
                what = f"is derived from itself: {' → '.join(way)}."
                self._document.fault((*self._written[slot][1], "of"), what)

    def values(self, slot: str) -> list[Any]:
        """The values of a slot, row by row of its choice."""
        return self._of[slot].column(slot)

    def place(self, slot: str, index: int) -> Place | None:
        """Where a value was written, or its pool."""
        place = self._places.get(slot)
        return None if place is None else (*place, index)

    def first(self) -> dict[str, Any]:
        """The original value of each slot."""
        return {slot: family.column(slot)[0] for slot, family in self._of.items()}

    def family_of(self, slots: Iterable[str]) -> set[str]:
        """The slots, and those that are drawn with them."""
        return {each for s in slots if s in self._of for each in self._of[s].slots}

    def used(self, standing: Collection[str]) -> set[str]:
        """The slots that stand somewhere, and those that they are derived from."""
        found, waiting = set[str](), list(standing)
        while waiting:
            slot = waiting.pop()
            if slot in found:
                continue
            found.add(slot)
            written = self._written.get(slot)
            if written is not None and isinstance(written[0], DerivedPool):
                waiting.append(written[0].of)
        return found

    def choices(self, standing: Collection[str]) -> tuple[Choice, ...]:
        """The choices of all slots that stand somewhere."""
        return tuple(f.choice([*standing]) for f in self._families if set(f.slots) & set(standing))


def _with_parents(pools: Mapping[str, Written], wanted: set[str]) -> dict[str, Written]:
    """The pools that are wanted, and those they are derived from."""
    found = set[str]()
    waiting = [slot for slot in pools if slot in wanted]
    while waiting:
        slot = waiting.pop()
        found.add(slot)
        pool = pools[slot]
        if isinstance(pool, DerivedPool) and pool.of in pools and pool.of not in found:
            waiting.append(pool.of)
    return {slot: pool for slot, pool in pools.items() if slot in found}
