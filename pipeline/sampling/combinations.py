"""Which APIs stand together in a need: ToolLLM's levels, and the APIs a need is shown with."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice, pairwise
from typing import TypeAlias

from toolloom.pipeline.sampling.links import Link, content_words, find_links, levels_of
from toolloom.schemas import Ability, Api, Level, Scenario

SEVERAL = (Scenario.PARALLEL, Scenario.SEQUENTIAL, Scenario.MULTI_TURN)
"""Scenarios that take two APIs."""

TRIED = 24  # partners of one API, before the next API has its turn
PROBED = 200  # APIs looked at to tell whether a pool of one tool allows for irrelevance

Combination: TypeAlias = tuple[list[Api], Link | None]


def scattered(count: int, rng: random.Random) -> Iterator[int]:
    """The numbers below `count` in a random order, at a cost only for those that are taken."""
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        place = rng.randrange(left)
        yield moved.get(place, place)
        moved[place] = moved.get(left - 1, left - 1)


class Pool:
    """The APIs of a run and what was drawn of them so far.

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
        self.apis = sorted((a.bare() for a in apis), key=_tool)
        self._tools = [_tool(a) for a in self.apis]
        self._categories = [a.category for a in self.apis]
        self._spread = len(set(self._categories)), len(set(self._tools))
        self._places = {a.id: number for number, a in enumerate(self.apis)}
        self._collections: dict[str, list[int]] = {}
        for number, api in enumerate(self.apis):
            for name in api.collections:
                self._collections.setdefault(name, []).append(number)
        self._turns = deque(self._rng.sample(range(len(self.apis)), len(self.apis)))
        self._pairs: Counter[frozenset[str]] = Counter()
        self._mates: dict[str, set[str]] = {}

    @cached_property
    def links(self) -> list[Link]:
        return find_links(self.apis, self._rng)

    @cached_property
    def _mixed(self) -> dict[str, list[int]]:
        """Collections of several tools; in others nothing stands together that a tool has not."""
        return {
            name: found
            for name, found in self._collections.items()
            if len({self._tools[i] for i in found}) > 1
        }

    @cached_property
    def _subjects(self) -> list[frozenset[str]]:
        return [content_words(a.name) for a in self.apis]

    @cached_property
    def _links_of(self) -> dict[str, list[Link]]:
        found: dict[str, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.first.id, []).append(link)
        return found

    def servable(self, api: Api) -> bool:
        if api.id not in self._known:
            self._known[api.id] = self._asked(api)
        return self._known[api.id]

    def feasible(self, scenario: Scenario, ability: Ability) -> bool:
        """Whether the pool can serve a scenario, as far as can be told without drawing."""
        if scenario is Scenario.SEQUENTIAL:
            return bool(self.links)
        if scenario is Scenario.IRRELEVANCE:
            return any(
                next(self._outside(api, self._rng), None) is not None for api in self.apis[:PROBED]
            )
        if ability is Ability.PLAN_RETRIEVE_CALL:
            return any(self.combinations_at(level, scenario) for level in Level)
        return bool(self.apis)

    def combinations_at(self, level: Level, scenario: Scenario) -> int:
        """How many pairs of APIs there are at a level; of linked ones for a sequential need."""
        if scenario is Scenario.SEQUENTIAL:
            return len({(v.first.id, v.second.id) for v in self.links if level in v.levels})
        if level is Level.SINGLE_TOOL:
            return sum(map(_pairs, Counter(self._tools).values()))
        groups: Iterable[Sequence[int]] = self._mixed.values()
        if level is Level.CATEGORY:
            groups = (self._range(self._categories, name) for name in set(self._categories))
        tools = [Counter(self._tools[i] for i in group) for group in groups]
        return sum(_pairs(found.total()) - sum(map(_pairs, found.values())) for found in tools)

    # Turns: whoever waited longest comes first.

    def waiting(self) -> Iterator[Api]:
        """APIs that can be drawn, the one whose turn it is first."""
        for number in list(self._turns):
            if self.servable(self.apis[number]):
                yield self.apis[number]
            else:
                self._turns.remove(number)

    def took(self, apis: Sequence[Api]) -> None:
        """Count what was drawn: the first API had its turn, the combination was used."""
        number = self._places[apis[0].id]
        self._turns.remove(number)
        self._turns.append(number)
        for one, other in pairwise(apis):
            self._pairs[frozenset((one.id, other.id))] += 1
            self._mates.setdefault(one.id, set()).add(other.id)
            self._mates.setdefault(other.id, set()).add(one.id)

    def combinations(
        self, api: Api, scenario: Scenario, ability: Ability, level: Level, rng: random.Random
    ) -> Iterator[Combination]:
        """What can be drawn with this API as the first one, least used combinations first."""
        if scenario not in SEVERAL:
            yield [api], None
        elif scenario is Scenario.SEQUENTIAL:
            yield from islice(self._linked(api, level, rng), TRIED)
        else:
            partners = self._partners(api, level, rng)
            yield from (([api, other], None) for other in islice(partners, TRIED))
            if ability is Ability.CALL and level is Level.SINGLE_TOOL and self._is_alone(api):
                yield [api, api], None

    def _linked(self, api: Api, level: Level, rng: random.Random) -> Iterator[Combination]:
        links = [link for link in self._links_of.get(api.id, ()) if level in link.levels]
        rng.shuffle(links)
        links.sort(key=lambda link: self._pairs[frozenset((api.id, link.second.id))])
        yield from (([link.first, link.second], link) for link in links)

    def _partners(self, api: Api, level: Level, rng: random.Random) -> Iterator[Api]:
        """APIs that stand with this one at a level; those it was least often with come first."""
        used = self._mates.get(api.id, set())
        groups = self._groups(api, level)
        seen: set[int] = set()
        for group in groups:
            for place in scattered(len(group), rng):
                other = self.apis[group[place]]
                if (
                    group[place] not in seen
                    and other.id not in used
                    and self._fit(api, other, level)
                ):
                    seen.add(group[place])
                    yield other
        again = [self.apis[self._places[other]] for other in sorted(used)]
        again = [other for other in again if self._fit(api, other, level)]
        rng.shuffle(again)
        yield from sorted(again, key=lambda a: self._pairs[frozenset((api.id, a.id))])

    def _groups(self, api: Api, level: Level) -> list[Sequence[int]]:
        tool = self._range(self._tools, _tool(api))
        if level is Level.SINGLE_TOOL:
            return [tool]
        if level is Level.CATEGORY:
            category = self._range(self._categories, api.category)
            return [category] if len(category) > len(tool) else []
        return [self._mixed[name] for name in api.collections if name in self._mixed]

    def _fit(self, api: Api, other: Api, level: Level) -> bool:
        return other.id != api.id and level in levels_of(api, other) and self.servable(other)

    def _is_alone(self, api: Api) -> bool:
        """Whether it has no partner at any level."""
        rng = random.Random(0)
        return all(next(self._partners(api, level, rng), None) is None for level in Level)

    @staticmethod
    def _range(keys: list[str] | list[tuple[str, str]], key: str | tuple[str, str]) -> range:
        return range(bisect_left(keys, key), bisect_right(keys, key))

    # What a need is shown with.

    def offer(self, needed: Sequence[Api], count: int, rng: random.Random) -> tuple[Api, ...]:
        """The needed APIs and `count` others, half of them near by: of the same tool, category or
        collection, where a model may mistake one for another. Shuffled."""
        offered = {a.id: a for a in needed}
        near: list[Sequence[int]] = []
        for api in needed:
            near += [self._range(self._tools, _tool(api))]
            near += [self._range(self._categories, api.category)]
            near += [self._collections[name] for name in api.collections]
        wanted = len(offered) + count
        for _ in range((count + 1) // 2):
            rng.shuffle(near)
            places = (group[i] for group in near for i in scattered(len(group), rng))
            other = next((a for i in places if (a := self.apis[i]).id not in offered), None)
            if other is not None:
                offered[other.id] = other
        for place in scattered(len(self.apis), rng):
            if len(offered) >= wanted:
                break
            offered[self.apis[place].id] = self.apis[place]
        shown = list(offered.values())
        rng.shuffle(shown)
        return tuple(shown)

    def offer_without(self, api: Api, count: int, rng: random.Random) -> tuple[Api, ...]:
        """At least one API, and none that could serve a need of this one."""
        return tuple(islice(self._outside(api, rng), max(count, 1)))

    def _outside(self, api: Api, rng: random.Random) -> Iterator[Api]:
        """APIs that surely cannot stand in for one: of other categories; in a pool of one
        category, of other tools; in a pool of one tool, those whose names share no word with it."""
        categories, tools = self._spread
        if categories > 1:
            kept = self._range(self._categories, api.category)
        elif tools > 1:
            kept = self._range(self._tools, _tool(api))
        else:
            subject = self._subjects[self._places[api.id]]
            for place in scattered(len(self.apis), rng):
                if not subject & self._subjects[place] and self.apis[place].id != api.id:
                    yield self.apis[place]
            return
        for place in scattered(len(self.apis) - len(kept), rng):
            yield self.apis[place if place < kept.start else place + len(kept)]


def _tool(api: Api) -> tuple[str, str]:
    return api.category, api.tool


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
