"""The APIs a need is shown with: the needed ones, and others that distract."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from toolloom.pipeline.sampling.groups import by_collection, in_order, span, tool_of
from toolloom.pipeline.sampling.links import content_words
from toolloom.schemas import Api


def scattered(count: int, rng: random.Random) -> Iterator[int]:
    """The numbers below `count` in a random order, at a cost only for those that are taken."""
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        place = rng.randrange(left)
        yield moved.get(place, place)
        moved[place] = moved.get(left - 1, left - 1)


class Distractors:
    """The APIs that may be shown; those that are needed are among them."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.apis = in_order(apis)
        self._tools = [tool_of(a) for a in self.apis]
        self._categories = [a.category for a in self.apis]
        self._spread = len(set(self._categories)), len(set(self._tools))
        self._places = {a.id: number for number, a in enumerate(self.apis)}
        self._collections = by_collection(self.apis)

    @cached_property
    def _subjects(self) -> list[frozenset[str]]:
        return [content_words(a.name) for a in self.apis]

    def offer(self, needed: Sequence[Api], count: int, rng: random.Random) -> tuple[Api, ...]:
        """The needed APIs and `count` others, half of them near by: of the same tool, category or
        collection, where a model may mistake one for another. Shuffled."""
        offered = {a.id: a for a in needed}
        near: list[Sequence[int]] = []
        for api in needed:
            near += [span(self._tools, tool_of(api))]
            near += [span(self._categories, api.category)]
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
        return tuple(islice(self.outside(api, rng), max(count, 1)))

    def outside(self, api: Api, rng: random.Random) -> Iterator[Api]:
        """APIs that surely cannot stand in for one: of other categories; in a pool of one
        category, of other tools; in a pool of one tool, those whose names share no word with it."""
        categories, tools = self._spread
        if categories > 1:
            kept = span(self._categories, api.category)
        elif tools > 1:
            kept = span(self._tools, tool_of(api))
        else:
            subject = self._subjects[self._places[api.id]]
            for place in scattered(len(self.apis), rng):
                if not subject & self._subjects[place] and self.apis[place].id != api.id:
                    yield self.apis[place]
            return
        for place in scattered(len(self.apis) - len(kept), rng):
            yield self.apis[place if place < kept.start else place + len(kept)]
