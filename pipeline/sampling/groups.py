"""APIs that needs are drawn from, and how they stand together: ToolLLM's levels, and links."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from toolloom.pipeline.sampling.links import Link, find_links, levels_of
from toolloom.schemas import Api, Level, Scenario


class Group:
    """APIs of which any may be needed together with any other.

    `servable` tells whether an API can be drawn at all, asked once for each API, when needed.
    """

    def __init__(
        self,
        apis: Iterable[Api],
        rng: random.Random | None = None,
        servable: Callable[[Api], bool] = lambda _: True,
    ) -> None:
        self._rng = rng or random.Random(0)
        self._asked = servable
        self._known: dict[str, bool] = {}
        self.apis = in_order(apis)
        self.places = {a.id: number for number, a in enumerate(self.apis)}
        self._tools = [tool_of(a) for a in self.apis]
        self._categories = [a.category for a in self.apis]
        self._collections = by_collection(self.apis)

    @cached_property
    def links(self) -> list[Link]:
        return find_links(self.apis, self._rng)

    @cached_property
    def links_of(self) -> dict[str, list[Link]]:
        """Links by the id of their first API."""
        found: dict[str, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.first.id, []).append(link)
        return found

    @cached_property
    def _mixed(self) -> dict[str, list[int]]:
        """Collections of several tools; in others nothing stands together that a tool has not."""
        return {
            name: found
            for name, found in self._collections.items()
            if len({self._tools[i] for i in found}) > 1
        }

    def servable(self, api: Api) -> bool:
        if api.id not in self._known:
            self._known[api.id] = self._asked(api)
        return self._known[api.id]

    def serves(self) -> bool:
        """Whether any of its APIs can be drawn."""
        return any(map(self.servable, self.apis))

    def count(self, level: Level, scenario: Scenario) -> int:
        """How many pairs of APIs there are at a level; of linked ones for a sequential need."""
        if scenario is Scenario.SEQUENTIAL:
            return len({(v.first.id, v.second.id) for v in self.links if level in v.levels})
        if level is Level.SINGLE_TOOL:
            return sum(map(_pairs, Counter(self._tools).values()))
        groups: Iterable[Sequence[int]] = self._mixed.values()
        if level is Level.CATEGORY:
            groups = (span(self._categories, name) for name in set(self._categories))
        tools = [Counter(self._tools[i] for i in group) for group in groups]
        return sum(_pairs(found.total()) - sum(map(_pairs, found.values())) for found in tools)

    def around(self, api: Api, level: Level) -> list[Sequence[int]]:
        """Places among which the partners of an API at a level are."""
        tool = span(self._tools, tool_of(api))
        if level is Level.SINGLE_TOOL:
            return [tool]
        if level is Level.CATEGORY:
            category = span(self._categories, api.category)
            return [category] if len(category) > len(tool) else []
        return [self._mixed[name] for name in api.collections if name in self._mixed]

    def fit(self, api: Api, other: Api, level: Level) -> bool:
        return other.id != api.id and level in levels_of(api, other) and self.servable(other)


def in_order(apis: Iterable[Api]) -> list[Api]:
    """APIs by category, tool and name, whatever order they came in; without provenance."""
    return sorted((a.bare() for a in apis), key=lambda a: (a.category, a.tool, a.name))


def by_collection(apis: Sequence[Api]) -> dict[str, list[int]]:
    """The places of each collection's APIs."""
    found: dict[str, list[int]] = {}
    for number, api in enumerate(apis):
        for name in api.collections:
            found.setdefault(name, []).append(number)
    return found


def span(keys: list[str] | list[tuple[str, str]], key: str | tuple[str, str]) -> range:
    """The places of a key in a sorted list."""
    return range(bisect_left(keys, key), bisect_right(keys, key))


def tool_of(api: Api) -> tuple[str, str]:
    return api.category, api.tool


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
