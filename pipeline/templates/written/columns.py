"""The values of a template's slots: drawn, looked up or derived, and what belongs together.

Responses that nobody wrote are drawn, and their values made slots (`Fields`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from toolloom.pipeline.checks.schema import as_dict, fits
from toolloom.pipeline.store.documents import Place, WrittenDocument, nearest
from toolloom.pipeline.templates.written.forms import TableForm
from toolloom.pipeline.templates.written.pools import (
    DRAWN,
    NAME,
    Argument,
    DerivedPool,
    Drawn,
    Family,
    Pool,
    PoolMistake,
    SchemaPool,
    Written,
    WrittenSetting,
    circle,
    from_schema,
    in_order,
    whole_slot,
    with_markers,
    with_values,
)
from toolloom.pipeline.templates.written.sample import respond
from toolloom.schemas import Api, Choice, JsonObject, canonical, marker


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
            parents = {p.of for p, _ in self._written.values() if isinstance(p, DerivedPool)}
            needed = _with_origins({*wanted, *parents}, pools)
            pools = {slot: pool for slot, pool in pools.items() if slot in needed}
        for slot, pool in pools.items():
            if slot in self._places:
                self._document.fault((*place, slot), "has values in `together` already.")
                continue
            self._places[slot] = (*place, slot)
            self._written[slot] = pool, (*place, slot)

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
        for slot in in_order(derived):
            form, place = derived[slot], self._written[slot][1]
            if family := self._of.get(form.of):
                try:
                    family.derive(slot, form)
                    self._of[slot] = family
                except PoolMistake as error:
                    self._document.fault(place, f"{error}.")
            elif form.of not in self._places:
                hint = nearest(form.of, {*self._places} - {slot})
                self._document.fault((*place, "of"), f"there is no slot `{form.of}`; {hint}")
        for slot in derived:
            if way := circle(derived, slot):
                what = f"is derived from itself: {' → '.join(way)}."
                self._document.fault((*self._written[slot][1], "of"), what)

    def _pool(self, slot: str, written: list[Any] | Drawn | SchemaPool) -> Pool:
        if isinstance(written, list):
            return Pool(tuple(written), "literal")
        setting = self._setting_for(slot)
        if isinstance(written, SchemaPool):
            argument = self._fills.get(slot)
            if argument is None:
                raise PoolMistake("`schema`: the slot is no argument and no field of a response")
            return from_schema(argument, written.count, setting)
        return written.values(setting)

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
        return _with_origins(standing, {slot: pool for slot, (pool, _) in self._written.items()})

    def choices(self, standing: Collection[str]) -> tuple[Choice, ...]:
        """The choices of all slots that stand somewhere."""
        return tuple(f.choice([*standing]) for f in self._families if set(f.slots) & set(standing))


def _with_origins(slots: Iterable[str], pools: Mapping[str, Written]) -> set[str]:
    """The slots, and those that they are derived from."""
    found, waiting = set[str](), list(slots)
    while waiting:
        slot = waiting.pop()
        if slot not in found:
            found.add(slot)
            pool = pools.get(slot)
            waiting += [pool.of] if isinstance(pool, DerivedPool) else []
    return found


FIELD_VALUES = 12  # values of a field
MOST_SLOTS = 24
LONGEST = 200  # letters of a value that is a slot


def places(argument: Argument, value: Any) -> Iterator[tuple[Argument, str]]:
    """What is nothing but a slot in an argument or response, with its schema."""
    if slot := whole_slot(value):
        yield argument, slot
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from places(_part(argument, name), part)
    elif isinstance(value, list):
        for part in value:
            yield from places(_item(argument), part)


def _part(argument: Argument, name: str) -> Argument:
    """A property of an object."""
    properties = as_dict(as_dict(argument.schema).get("properties"))
    return Argument(name, properties.get(name, True), argument.about)


def _item(argument: Argument) -> Argument:
    """An item of a list."""
    items = as_dict(argument.schema).get("items", True)
    return Argument(argument.name, items, argument.about)


def fields_of(api: Api) -> JsonObject:
    """The fields of a response, or of each item where it is a list, with their schemas."""
    returns = as_dict(api.returns)
    return as_dict(returns.get("properties") or as_dict(returns.get("items")).get("properties"))


class Fields:
    """Draws responses. A field takes the slot of its name, or becomes one."""

    def __init__(self, columns: Columns, said: Collection[str]) -> None:
        self._columns, self._said = columns, said
        self._declared = set(columns.known)
        self._taken: set[str] = set()  # declared slots that a field has taken
        self.used: set[str] = set()  # slots that stand in the responses
        self.bound: list[tuple[Argument, str]] = []  # declared slots, and what they fill

    def drawn(self, api: Api, arguments: JsonObject, setting: WrittenSetting) -> Any:
        """The response of an API with slots. Raises NoValue."""
        first, fields = self._columns.first(), fields_of(api)
        plain = with_values(arguments, first)
        named = {n: first[n] for n, schema in fields.items() if self._takes(n, schema)}
        made = respond(api, {**named, **plain}, setting.rng, setting.now, setting.language)
        if not api.returns:
            return made
        whole = Argument("result", api.returns, f"the response of {api.id}")
        echoed = {
            name: with_markers(value)
            for name, value in arguments.items()
            if whole_slot(value) and name in fields
        }
        return self._slotted(whole, made, echoed, setting, named)

    def _takes(self, name: str, schema: JsonObject | bool) -> bool:
        """Whether a field is the slot of its name. One that the goal or a call has may mean
        something else, if its values do not fit; a pool that is for no other place is for it."""
        if name not in self._declared - self._taken:
            return False
        return name not in self._said or all(fits(schema, v) for v in self._columns.values(name))

    def _slotted(
        self,
        at: Argument,
        value: Any,
        echoed: JsonObject,
        setting: WrittenSetting,
        named: Collection[str] = (),
    ) -> Any:
        if isinstance(value, dict):
            slotted = {}
            for name, part in value.items():
                inner = _part(at, name)
                inner = replace(inner, about=f"field {name} of {at.about}")
                if name in echoed:
                    slotted[name] = echoed[name]
                elif name in named:  # the declared slot of its name
                    slotted[name] = marker(name)
                    self._taken.add(name)
                    self.used.add(name)
                    self.bound.append((inner, name))
                else:
                    slotted[name] = self._slotted(inner, part, {}, setting)
            return slotted
        if isinstance(value, list) and value and isinstance(value[0], dict):
            first = self._slotted(_item(at), value[0], echoed, setting, named)
            return [first, *value[1:]]
        if isinstance(value, bool | list) or value is None or len(str(value)) > LONGEST:
            return value
        return self._slot(at, value, setting) if len(self.used) < MOST_SLOTS else value

    def _slot(self, at: Argument, value: Any, setting: WrittenSetting) -> str:
        """A new slot with the drawn value and others like it."""
        base = re.sub(r"[^a-z0-9]+", "_", at.name.lower()).strip("_")[:32]
        base = base if NAME.fullmatch(base) else "field"
        number, slot = 2, base
        while slot in self._columns.known:
            slot, number = f"{base}_{number}", number + 1
        if at.name in self._taken:  # another field of that name: its values are like those
            pool = Pool(tuple(self._columns.values(at.name)), "literal")
        else:
            pool = Pool((value,), "schema")
            with suppress(PoolMistake):
                drawn = from_schema(at, FIELD_VALUES, setting)
                others = [v for v in drawn.values if canonical(v) != canonical(value)]
                pool = Pool((value, *others)[:FIELD_VALUES], drawn.source)
        self._columns.add(slot, pool, at.about)
        self.used.add(slot)
        return marker(slot)
