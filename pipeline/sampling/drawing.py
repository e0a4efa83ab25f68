"""Draws needs: abilities, scenarios, APIs, distractors and argument values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from toolloom.pipeline.sampling.chance import rng_for
from toolloom.pipeline.sampling.combinations import ApiRotation
from toolloom.pipeline.sampling.executed import executed_by
from toolloom.pipeline.sampling.groups import Group
from toolloom.pipeline.sampling.links import Link
from toolloom.pipeline.sampling.needs import Calls, NeedBuilder, NeedKind, moment
from toolloom.pipeline.sampling.values import NoValue
from toolloom.pipeline.sampling.zones import SplitPools
from toolloom.schemas import Ability, Api, Level, Need, Recipe, Scenario, Split
from toolloom.schemas.splits import SEEN, split_of

T = TypeVar("T")

OFTEN = 10  # times a combination may come before other levels take over its level's turns
TRIES = 8  # values drawn for one combination until its calls fall into the split
PROBED = 200  # APIs looked at to tell whether a pool of one tool allows for irrelevance

FITS: Mapping[Ability, tuple[Scenario, ...]] = {
    Ability.CALL: tuple(Scenario),
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
        kinds = self._kinds(count)
        known = list(dict.fromkeys(kinds))
        hopeless: set[NeedKind] = set()
        for number, kind in enumerate(kinds):
            for each in _likest(kind, known):
                if each in hopeless:
                    continue
                need = self._need(number, each)
                if need is not None:
                    yield need
                    break
                hopeless.add(each)

    def _rng(self, *parts: Any) -> random.Random:
        return rng_for(self._recipe.seed, "queries", self._split, *parts)

    def _kinds(self, count: int) -> list[NeedKind]:
        """The kind of every query, in a shuffled order."""
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
        return kinds

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
        for api in self._turns.waiting():
            if not draft.suits(api):
                continue
            found = self._turns.combinations(api, kind.scenario, kind.ability, kind.level, rng)
            for apis, link in found:
                need = self._try(draft, name, apis, link)
                if need is not None:
                    self._turns.took(apis)
                    return need
        return None

    def _try(
        self, draft: NeedBuilder, name: str, apis: Sequence[Api], link: Link | None
    ) -> Need | None:
        """A need of these APIs, drawn until its calls fall into the split; or None."""
        try:
            for _ in range(1 if self._split.unseen else TRIES):
                calls = draft.calls(apis, link)
                if self._is_mine(calls, apis):
                    return draft.need(name, self._offers, apis, calls)
        except NoValue:
            pass
        return None

    def _is_mine(self, calls: Calls, apis: Sequence[Api]) -> bool:
        """Whether a need with these calls is in the split; told before there is a need."""
        pool = [api.model_dump(include={"category", "tool", "name"}) for api in apis]
        intent = [intention.model_dump(mode="json") for intention in calls.intent]
        return split_of(self._recipe.splits, {"intent": intent, "pool": pool}) is self._split


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


def _likest(kind: NeedKind, kinds: Iterable[NeedKind]) -> list[NeedKind]:
    """The kind, then those it gives way to, if no API can serve it: the most alike first."""
    return sorted(
        kinds,
        key=lambda k: (k != kind, k.ability is not kind.ability, k.scenario is not kind.scenario),
    )


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
