"""Draws needs: abilities, scenarios, APIs, distractors and argument values, split by split.

From which APIs a split's needs are drawn and with which they may be shown (`SplitPools`), whose
turn it is and with whom, what was drawn least first (`ApiRotation`), and the needs themselves.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, TypeAlias, TypeVar

from toolloom.pipeline.environments.commands import ExecutionSource
from toolloom.pipeline.environments.executed import find_place, place_of
from toolloom.pipeline.sampling.groups import Group, Link, in_order, scattered
from toolloom.pipeline.sampling.needs import NeedBuilder, NeedKind, moment, servable
from toolloom.pipeline.sampling.values import NoValue, rng_for
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Level,
    Need,
    Recipe,
    Scenario,
    Split,
    ToolloomError,
)
from toolloom.schemas.splits import SEEN, split_of, zone


def executed_by(recipe: Recipe, api: Api) -> ApiSource | None:
    """The source that really executes an API, by the very rule that execution goes by.

    Raises ToolloomError if a source names it and there is no telling where it is.
    """
    place = find_place(api, recipe.apis.sources)
    return place.source if place else None


def check_executed(recipe: Recipe, apis: Sequence[Api]) -> None:
    """Raises ToolloomError for a source whose `execute` lets nothing run: all would be played."""
    for source in recipe.apis.sources:
        if source.execute and not any(place_of(api, source) for api in apis):
            shown = source.path or ExecutionSource(source).name
            raise ToolloomError(
                f"apis.sources: {shown}: `execute` names {', '.join(source.execute)}, of which "
                "nothing can be executed. Only Python functions, named by their file, folder or "
                "module, and tools of MCP servers can: take `execute` out, or move it to such a "
                "source."
            )


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
        self._mates = defaultdict[str, Counter[str]](Counter)  # of each API, and how often

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
            self._mates[one.id][other.id] += 1
            self._mates[other.id][one.id] += 1

    def combinations(
        self, api: Api, scenario: Scenario, ability: Ability, level: Level, rng: random.Random
    ) -> Iterator[Combination]:
        """What can be drawn with this API as the first one, least used combinations first."""
        if scenario not in SEVERAL:
            yield [api], None
        elif scenario is Scenario.SEQUENTIAL:
            links = [link for link in self._group.links_of.get(api.id, ()) if level in link.levels]
            rng.shuffle(links)
            links.sort(key=lambda link: self._mates[api.id][link.second.id])
            yield from (([link.first, link.second], link) for link in links[:TRIED])
        else:
            partners = self._partners(api, level, rng)
            yield from (([api, other], None) for other in islice(partners, TRIED))
            if ability is Ability.CALL and level is Level.SINGLE_TOOL:
                near = (self._partners(api, each, random.Random(0)) for each in Level)
                if all(next(others, None) is None for others in near):  # it is alone
                    yield [api, api], None

    def _partners(self, api: Api, level: Level, rng: random.Random) -> Iterator[Api]:
        """APIs that stand with this one at a level; those it was least often with come first."""
        used = self._mates[api.id]
        seen: set[int] = set()
        for group in self._group.around(api, level):
            for place in (group[number] for number in scattered(len(group), rng)):
                other = self._group.apis[place]
                fits = other.id not in used and self._group.fit(api, other, level)
                if fits and place not in seen:
                    seen.add(place)
                    yield other
        again = [self._group.apis[self._group.places[other]] for other in sorted(used)]
        again = [other for other in again if self._group.fit(api, other, level)]
        rng.shuffle(again)
        yield from sorted(again, key=lambda other: used[other.id])


NAMED = 10  # categories in an error


class SplitPools:
    """A recipe's APIs, parted by what their splits may need and show.

    All splits of seen APIs share a group. Unseen tools are of categories that have a seen one,
    and are shown with seen APIs; unseen categories are shown with all.
    """

    def __init__(self, recipe: Recipe, apis: Iterable[Api]) -> None:
        self._recipe = recipe
        self._all = in_order(apis)
        parts: dict[Split, list[Api]] = {split: [] for split in Split}
        for api in self._all:
            parts[zone(recipe.splits, api.category, api.tool)].append(api)
        seen = parts[Split.TRAIN]
        known = {api.category for api in seen}
        tools = [api for api in parts[Split.TEST_TOOL] if api.category in known]
        shown = {
            Split.TRAIN: (seen, seen),
            Split.TEST_TOOL: (tools, [*seen, *tools]),
            Split.TEST_CATEGORY: (parts[Split.TEST_CATEGORY], self._all),
        }
        self._offers = {place: Group(offered) for place, (_, offered) in shown.items()}
        self._groups = {
            place: Group(needed, rng_for(recipe.seed, "queries", "group", place), self._servable)
            for place, (needed, _) in shown.items()
        }

    def group(self, split: Split) -> Group:
        """What needs of a split are drawn from."""
        return self._groups[split if split.unseen else Split.TRAIN]

    def offers(self, split: Split) -> Group:
        """What needs of a split may be shown with."""
        return self._offers[split if split.unseen else Split.TRAIN]

    def check_seen(self) -> None:
        """Raises ToolloomError if something can be drawn, but nothing to train on."""
        if self.group(Split.TRAIN).serves() or not any(map(self._servable, self._all)):
            return
        names = sorted({api.category for api in self._all})
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise ToolloomError(
            "queries: there is nothing to train on: every API that can be drawn is held out for "
            "a test, by the hash of its category or tool, or by `splits.unseen`. Put a category "
            f"under `splits.seen`; there are: {', '.join(names[:NAMED])}{more}."
        )

    def _servable(self, api: Api) -> bool:
        return servable(self._recipe, api, rng_for(self._recipe.seed, "queries", api.id))


T = TypeVar("T")

OFTEN = 10  # times a combination may come before other levels take over its level's turns
TRIES = 8  # values drawn for one combination until its calls fall into the split
PROBED = 200  # APIs looked at to tell whether a pool of one tool allows for irrelevance

FITS: Mapping[Ability, tuple[Scenario, ...]] = {
    Ability.CALL: tuple(scenario for scenario in Scenario if not scenario.of_worlds),
    Ability.RETRIEVE_CALL: (
        Scenario.SINGLE,
        Scenario.MULTI_TURN,
        Scenario.CLARIFICATION,
        Scenario.IRRELEVANCE,
        Scenario.ERROR_RECOVERY,
    ),
    Ability.PLAN_RETRIEVE_CALL: (Scenario.SEQUENTIAL, Scenario.PARALLEL),
}
"""Which scenarios an ability can have: several calls in one turn need a plan (API-Bank 2.1)."""


def draw_needs(recipe: Recipe, apis: Iterable[Api]) -> Iterator[Need]:
    """Yield the recipe's needs, split by split; of a regeneration those of its split alone.

    Proportions are exact in each split, and every API has its turn. What a need holds depends on
    the recipe, its split and number, and what was drawn for this split before it, in order.
    Raises ToolloomError if all that could be drawn is held out of training.
    """
    zones = SplitPools(recipe, apis)
    zones.check_seen()
    anew = recipe.regenerate
    for split, count in split_counts(recipe, lambda s: zones.group(s).serves()).items():
        if anew is None or split is anew.split:
            yield from SplitDraw(recipe, zones, split).needs(count)


def split_counts(recipe: Recipe, serves: Callable[[Split], bool]) -> dict[Split, int]:
    """How many needs each split has. What an unseen one cannot serve goes to the seen ones."""
    plan = recipe.splits
    counts = shares({split: plan.weight(split) for split in Split}, recipe.queries.count)
    lost = [split for split in Split if split.unseen and counts[split] and not serves(split)]
    given = shares({split: plan.weight(split) for split in SEEN}, sum(counts[s] for s in lost))
    return {s: n + given.get(s, 0) for s, n in counts.items() if s not in lost}


class SplitDraw:
    """The needs of one split, and what was drawn so far."""

    def __init__(self, recipe: Recipe, zones: SplitPools, split: Split) -> None:
        self._recipe, self._split = recipe, split
        self._group, self._offers = zones.group(split), zones.offers(split)
        self._turns = ApiRotation(self._group, self._rng("turns"))
        found = ((api.id, executed_by(recipe, api)) for api in self._group.apis)
        self._executed = {api_id: source for api_id, source in found if source}

    def needs(self, count: int) -> Iterator[Need]:
        """`count` needs, or fewer if the APIs serve no more kinds in this split."""
        rng = self._rng("kinds")
        counts = counted(self._recipe, self._feasible, count, rng)
        single = Level.SINGLE_TOOL
        kinds = [NeedKind(*pair, single) for pair, n in counts.items() for _ in range(n)]
        rng.shuffle(kinds)
        for scenarios in ((Scenario.PARALLEL, Scenario.MULTI_TURN), (Scenario.SEQUENTIAL,)):
            places = [i for i, kind in enumerate(kinds) if kind.scenario in scenarios]
            found = _levels(self._recipe, self._group, scenarios[0], len(places)) if places else []
            rng.shuffle(found)
            for place, level in zip(places, found, strict=False):
                kinds[place] = replace(kinds[place], level=level)
        known = list(dict.fromkeys(kinds))
        hopeless: set[NeedKind] = set()
        for number, kind in enumerate(kinds):
            # A kind that no API can serve gives way to the most alike.
            unlike = {
                k: (k != kind, k.ability is not kind.ability, k.scenario is not kind.scenario)
                for k in known
                if k not in hopeless
            }
            for each in sorted(unlike, key=unlike.__getitem__):
                if need := self._need(number, each):
                    yield need
                    break
                hopeless.add(each)

    def _rng(self, *parts: Any) -> random.Random:
        return rng_for(self._recipe.seed, "queries", self._split, *parts)

    def _feasible(self, scenario: Scenario, ability: Ability) -> bool:
        """Whether the APIs can serve a scenario, as far as can be told without drawing."""
        group = self._group
        if scenario is Scenario.SEQUENTIAL:
            return bool(group.links)
        if scenario is Scenario.IRRELEVANCE:
            rng = random.Random(0)
            return any(any(True for _ in self._offers.outside(a, rng)) for a in group.apis[:PROBED])
        if ability is Ability.PLAN_RETRIEVE_CALL:
            return any(group.count(level, scenario) for level in Level)
        return bool(group.apis)

    def _need(self, number: int, kind: NeedKind) -> Need | None:
        """One need, or None where no API can serve the kind in this split."""
        rng, languages = self._rng(number), self._recipe.languages
        language = languages[number % len(languages)]
        draft = NeedBuilder(self._recipe, kind, rng, moment(rng), language, self._executed)
        name = f"{self._split}-{self._recipe.seed}-{number:06d}"
        for api in filter(draft.suits, self._turns.waiting()):
            found = self._turns.combinations(api, kind.scenario, kind.ability, kind.level, rng)
            for apis, link in found:
                pool = [each.model_dump(include={"category", "tool", "name"}) for each in apis]
                # Until its calls fall into the split.
                for _ in range(1 if self._split.unseen else TRIES):
                    try:
                        calls = draft.calls(apis, link)
                        intent = [intention.model_dump(mode="json") for intention in calls[0]]
                        split = split_of(self._recipe.splits, {"intent": intent, "pool": pool})
                        if split is self._split:
                            need = draft.need(name, self._offers, apis, calls)
                            self._turns.took(apis)
                            return need
                    except NoValue:
                        break
        return None


def _levels(recipe: Recipe, group: Group, scenario: Scenario, count: int) -> list[Level]:
    """The level of each of `count` needs, by weight; what a level cannot serve goes to others."""
    room = {level: OFTEN * n for level in Level if (n := group.count(level, scenario))}
    weights = {v: w for v, w in recipe.queries.levels.items() if w > 0 and v in room}
    weights = weights or dict.fromkeys(room, 1.0)  # none that the recipe asks for is there
    parts: dict[Level, int] = {}
    while weights:
        drawn = shares(weights, count - sum(parts.values()))
        full = [level for level in weights if drawn[level] > room[level]]
        if not full or len(full) == len(weights):
            parts |= drawn
            break
        parts |= {level: room[level] for level in full}
        weights = {level: w for level, w in weights.items() if level not in full}
    return [level for level, n in parts.items() for _ in range(n)]


def counted(
    recipe: Recipe,
    feasible: Callable[[Scenario, Ability], bool] = lambda _s, _a: True,
    count: int | None = None,
    rng: random.Random | None = None,
) -> dict[tuple[Ability, Scenario], int]:
    """How many of `count` queries are of each kind, by weight, where a kind is feasible.

    Without `count` all of the recipe's. `rng` decides who gets what rounding leaves among equal
    weights; without it the first.
    """
    plan = recipe.queries
    options = {
        ability: {
            s: plan.scenarios.get(s, 0)
            for s in FITS[ability]
            if plan.scenarios.get(s, 0) > 0 and feasible(s, ability)
        }
        for ability in plan.abilities
    }
    weights = {a: plan.abilities[a] for a in options if options[a] and plan.abilities[a] > 0}

    def mixed(given: dict[T, float]) -> dict[T, float]:
        return dict(rng.sample([*given.items()], len(given))) if rng else given

    return {
        (ability, scenario): n
        for ability, part in shares(mixed(weights), plan.count if count is None else count).items()
        for scenario, n in shares(mixed(options[ability]), part).items()
    }


def shares(weights: Mapping[T, float], count: int) -> dict[T, int]:
    """Part `count` by weight, exactly: the largest remainders get what rounding leaves."""
    total = sum(weights.values())
    if not total:
        return {}
    exact = {k: count * w / total for k, w in weights.items()}
    parts = {k: math.floor(v) for k, v in exact.items()}
    rest = sorted(exact, key=lambda k: (parts[k] - exact[k], list(exact).index(k)))
    for key in rest[: count - sum(parts.values())]:
        parts[key] += 1
    return parts
