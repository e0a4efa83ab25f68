"""Draws needs: abilities, scenarios, APIs, distractors and argument values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from toolloom.pipeline.sampling.combinations import Pool
from toolloom.pipeline.sampling.executed import executed_by
from toolloom.pipeline.sampling.needs import Draft, Kind, moment, servable
from toolloom.pipeline.sampling.values import NoValue
from toolloom.schemas import Ability, Api, ApiSource, Level, Need, Recipe, Scenario, digest

T = TypeVar("T")

OFTEN = 10  # times a combination may come before other levels take over its level's turns

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


def rng_for(*parts: Any) -> random.Random:
    """The generator of (recipe seed, stage, record id): never shared, never in arrival order."""
    return random.Random(digest(list(parts), 32))


def draw_needs(recipe: Recipe, apis: Iterable[Api]) -> Iterator[Need]:
    """Yield the recipe's needs. Proportions are exact, every API has its turn.

    What a need holds depends on the recipe, its number and what was drawn before it, in order.
    """
    seed = recipe.seed
    pool = Pool(
        apis,
        rng_for(seed, "queries", "pool"),
        lambda api: servable(recipe, api, rng_for(seed, "queries", api.id)),
    )
    executed = {api.id: found for api in pool.apis if (found := executed_by(recipe, api))}
    kinds = _kinds(recipe, pool)
    known = list(dict.fromkeys(kinds))
    hopeless: set[Kind] = set()
    for number, kind in enumerate(kinds):
        for each in _likest(kind, known):
            if each in hopeless:
                continue
            need = _draw_need(recipe, pool, executed, number, each)
            if need is not None:
                yield need
                break
            hopeless.add(each)


def _kinds(recipe: Recipe, pool: Pool) -> list[Kind]:
    """The kind of every query, in a shuffled order."""
    counts = counted(recipe, pool.feasible)
    single = Level.SINGLE_TOOL
    kinds = [Kind(*pair, single) for pair, n in counts.items() for _ in range(n)]
    rng = rng_for(recipe.seed, "queries", "kinds")
    rng.shuffle(kinds)
    for scenarios in ((Scenario.PARALLEL, Scenario.MULTI_TURN), (Scenario.SEQUENTIAL,)):
        places = [i for i, kind in enumerate(kinds) if kind.scenario in scenarios]
        levels = _levels(recipe, pool, scenarios[0], len(places)) if places else []
        rng.shuffle(levels)
        for place, level in zip(places, levels, strict=False):
            kinds[place] = replace(kinds[place], level=level)
    return kinds


def _levels(recipe: Recipe, pool: Pool, scenario: Scenario, count: int) -> list[Level]:
    """The level of each of `count` needs, by weight; what a level cannot serve goes to others."""
    room = {level: OFTEN * n for level in Level if (n := pool.combinations_at(level, scenario))}
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


def _likest(kind: Kind, kinds: Iterable[Kind]) -> list[Kind]:
    """The kind, then those it gives way to, if no API can serve it: the most alike first."""
    return sorted(
        kinds,
        key=lambda k: (k != kind, k.ability is not kind.ability, k.scenario is not kind.scenario),
    )


def counted(
    recipe: Recipe, feasible: Callable[[Scenario, Ability], bool] = lambda _s, _a: True
) -> dict[tuple[Ability, Scenario], int]:
    """How many queries of each kind the recipe's weights make, where a kind is feasible."""
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
    return {
        (ability, scenario): n
        for ability, count in shares(weights, plan.count).items()
        for scenario, n in shares(options[ability], count).items()
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


def _draw_need(
    recipe: Recipe, pool: Pool, executed: Mapping[str, ApiSource], number: int, kind: Kind
) -> Need | None:
    """One need, or None where no API of the pool can serve the kind."""
    rng = rng_for(recipe.seed, "queries", number)
    language = recipe.languages[number % len(recipe.languages)]
    draft = Draft(recipe, kind, rng, moment(rng), language, executed)
    for api in pool.waiting():
        if not draft.suits(api):
            continue
        for apis, link in pool.combinations(api, kind.scenario, kind.ability, kind.level, rng):
            try:
                need = draft.need(f"q{number:06d}", pool, apis, link)
            except NoValue:
                continue
            pool.took(apis)
            return need
    return None
