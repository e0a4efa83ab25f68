"""Whose turn it is to be needed, and with whom: what was drawn least comes first."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TypeAlias

from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.links import Link
from toolloom.pipeline.sampling.offers import scattered
from toolloom.schemas import Ability, Api, Level, Scenario

SEVERAL = (Scenario.PARALLEL, Scenario.SEQUENTIAL, Scenario.MULTI_TURN)
"""Scenarios that take two APIs."""

TRIED = 24  # partners of one API, before the next API has its turn

Combination: TypeAlias = tuple[list[Api], Link | None]


class ApiRotation:
    """What was drawn of a group so far, for one split."""

    def __init__(self, group: Group, rng: random.Random) -> None:
        self._group = group
        count = len(group.apis)
        self._turns = deque(rng.sample(range(count), count))
        self._pairs: Counter[frozenset[str]] = Counter()
        self._mates: dict[str, set[str]] = {}

    def waiting(self) -> Iterator[Api]:
        """APIs that can be drawn, the one whose turn it is first."""
        for number in list(self._turns):
            if self._group.servable(self._group.apis[number]):
                yield self._group.apis[number]
            else:
                self._turns.remove(number)

    def took(self, apis: Sequence[Api]) -> None:
        """Count what was drawn: the first API had its turn, the combination was used."""
        number = self._group.places[apis[0].id]
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
        links = [link for link in self._group.links_of.get(api.id, ()) if level in link.levels]
        rng.shuffle(links)
        links.sort(key=lambda link: self._pairs[frozenset((api.id, link.second.id))])
        yield from (([link.first, link.second], link) for link in links)

    def _partners(self, api: Api, level: Level, rng: random.Random) -> Iterator[Api]:
        """APIs that stand with this one at a level; those it was least often with come first."""
        used = self._mates.get(api.id, set())
        groups = self._group.around(api, level)
        seen: set[int] = set()
        for group in groups:
            for place in scattered(len(group), rng):
                other = self._group.apis[group[place]]
                if (
                    group[place] not in seen
                    and other.id not in used
                    and self._group.fit(api, other, level)
                ):
                    seen.add(group[place])
                    yield other
        again = [self._group.apis[self._group.places[other]] for other in sorted(used)]
        again = [other for other in again if self._group.fit(api, other, level)]
        rng.shuffle(again)
        yield from sorted(again, key=lambda a: self._pairs[frozenset((api.id, a.id))])

    def _is_alone(self, api: Api) -> bool:
        """Whether it has no partner at any level."""
        rng = random.Random(0)
        return all(next(self._partners(api, level, rng), None) is None for level in Level)
