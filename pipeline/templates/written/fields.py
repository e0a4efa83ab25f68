"""Responses of written templates that nobody wrote: drawn, and their values made slots."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from toolloom.pipeline.checks.keywords import as_dict, fits
from toolloom.pipeline.templates.written.columns import Columns
from toolloom.pipeline.templates.written.pools import (
    Argument,
    Pool,
    PoolMistake,
    WrittenSetting,
    from_schema,
)
from toolloom.pipeline.templates.written.responses import respond
from toolloom.pipeline.templates.written.slots import NAME, filled, whole_slot, with_markers
from toolloom.schemas import Api, JsonObject, canonical, marker

DRAWN = 12  # values of a field
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
    schema = argument.schema if isinstance(argument.schema, dict) else {}
    return Argument(name, as_dict(schema.get("properties")).get(name, True), argument.about)


def _item(argument: Argument) -> Argument:
    """An item of a list."""
    schema = argument.schema if isinstance(argument.schema, dict) else {}
    return Argument(argument.name, schema.get("items", True), argument.about)


def field_names(api: Api) -> list[str]:
    """The fields of a response, or of each item where it is a list."""
    returns = as_dict(api.returns)
    properties = returns.get("properties") or as_dict(returns.get("items")).get("properties")
    return [*as_dict(properties)]


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
        first = self._columns.first()
        plain = filled(arguments, first)
        named = {n: first[n] for n in field_names(api) if self._takes(n, api)}
        made = respond(api, {**named, **plain}, setting.rng, setting.now, setting.language)
        if not api.returns:
            return made
        whole = Argument("result", api.returns, f"the response of {api.id}")
        echoed = {
            name: with_markers(value)
            for name, value in arguments.items()
            if whole_slot(value) and name in field_names(api)
        }
        return self._slotted(whole, made, echoed, setting, named)

    def _takes(self, name: str, api: Api) -> bool:
        """Whether a field is the slot of its name. One that the goal or a call has may mean
        something else, if its values do not fit; a pool that is for no other place is for it."""
        if name not in self._declared - self._taken:
            return False
        at = Argument("", api.returns or True, "")
        at = at if name in as_dict(as_dict(api.returns).get("properties")) else _item(at)
        schema = _part(at, name).schema
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
            return {
                name: echoed[name]
                if name in echoed
                else self._bound(self._inner(at, name))
                if name in named
                else self._slotted(self._inner(at, name), part, {}, setting)
                for name, part in value.items()
            }
        if isinstance(value, list) and value and isinstance(value[0], dict):
            first = self._slotted(_item(at), value[0], echoed, setting, named)
            return [first, *value[1:]]
        if isinstance(value, bool | list) or value is None or len(str(value)) > LONGEST:
            return value
        return self._slot(at, value, setting) if len(self.used) < MOST_SLOTS else value

    def _inner(self, at: Argument, name: str) -> Argument:
        part = _part(at, name)
        return Argument(part.name, part.schema, f"field {name} of {at.about}")

    def _bound(self, at: Argument) -> str:
        """The declared slot of a field's name."""
        self._taken.add(at.name)
        self.used.add(at.name)
        self.bound.append((at, at.name))
        return marker(at.name)

    def _slot(self, at: Argument, value: Any, setting: WrittenSetting) -> str:
        """A new slot with the drawn value and others like it."""
        slot = self._free_name(at.name)
        if at.name in self._taken:  # another field of that name: its values are like those
            pool = Pool(tuple(self._columns.values(at.name)), "literal")
        else:
            pool = _like(at, value, setting)
        self._columns.add(slot, pool, at.about)
        self.used.add(slot)
        return marker(slot)

    def _free_name(self, name: str) -> str:
        base = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:32]
        base = base if NAME.fullmatch(base) else "field"
        number, found = 2, base
        while found in self._columns.known:
            found, number = f"{base}_{number}", number + 1
        return found


def _like(at: Argument, value: Any, setting: WrittenSetting) -> Pool:
    """A value, and others that its schema gives."""
    try:
        pool = from_schema(at, DRAWN, setting)
    except PoolMistake:
        return Pool((value,), "schema")
    others = [v for v in pool.values if canonical(v) != canonical(value)]
    return Pool((value, *others)[:DRAWN], pool.source)
