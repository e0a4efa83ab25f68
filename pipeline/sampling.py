"""Draws needs: abilities, scenarios, APIs, distractors and argument values."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from toolloom.pipeline.values import NoValue, draw_object
from toolloom.schemas import (
    Ability,
    Api,
    Fault,
    Intention,
    JsonObject,
    Need,
    Recipe,
    Reference,
    Scenario,
    canonical,
    digest,
)

T = TypeVar("T")

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

FAULTS: tuple[tuple[str, bool], ...] = (
    ("503 Service Unavailable: the service is overloaded, try again", True),
    ("504 Gateway Timeout: the service did not answer in time, try again", True),
    ("429 Too Many Requests: try again in a second", True),
    ("404 Not Found: no entry matches the request", False),
    ("403 Forbidden: this account may not do that", False),
    ("409 Conflict: the entry is locked and cannot be used", False),
)
"""Errors an execution reports, in the words of the HTTP status codes; True: a retry works."""


def rng_for(*parts: Any) -> random.Random:
    """The generator of (recipe seed, stage, record id): never shared, never in arrival order."""
    return random.Random(digest(list(parts), 32))


@dataclass(frozen=True)
class Link:
    """`field` of the first API's response is argument `name` of the second."""

    first: Api
    second: Api
    field: str


class Pool:
    """The APIs of a run with what drawing needs to know of them, in a fixed order."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.apis = [a.bare() for a in apis]
        self.by_category: dict[str, list[Api]] = {}
        for api in self.apis:
            self.by_category.setdefault(api.category, []).append(api)
        self.links = [
            Link(a, b, name)
            for group in self.by_category.values()
            for a in group
            for b in group
            if a is not b
            for name in _shared(a, b)
        ]

    def feasible(self, scenario: Scenario, ability: Ability) -> bool:
        if scenario is Scenario.SEQUENTIAL:
            return bool(self.links)
        if scenario is Scenario.IRRELEVANCE:
            return len(self.by_category) > 1
        if ability is Ability.PLAN_RETRIEVE_CALL:
            return any(len(group) > 1 for group in self.by_category.values())
        return bool(self.apis)


def _shared(first: Api, second: Api) -> list[str]:
    """Arguments of `second` that a field of `first`'s response gives; not asked of both."""
    return [
        name
        for name, schema in second.properties.items()
        if name in first.fields
        and name not in first.properties
        and first.fields[name].get("type") == schema.get("type") != "boolean"
    ]


def draw_needs(recipe: Recipe, apis: Iterable[Api]) -> Iterator[Need]:
    """Yield the recipe's needs. Proportions are exact, every API has its turn.

    ToolLLM (section 2.2) samples single tools and several of one category; so is it here.
    """
    pool = Pool(apis)
    kinds = _kinds(recipe, pool)
    for number in range(recipe.queries.count if kinds else 0):
        ability, scenario = kinds[number]
        # A kind that no API of the pool can serve after all gives way to one of its ability.
        others = sorted(set(kinds), key=lambda k: (k[0] is not ability, kinds.index(k)))
        for kind in [(ability, scenario), *others]:
            need = _draw_need(recipe, pool, number, *kind)
            if need is not None:
                yield need
                break


def _kinds(recipe: Recipe, pool: Pool) -> list[tuple[Ability, Scenario]]:
    """An (ability, scenario) for every query, in a shuffled order."""
    kinds = [kind for kind, n in counted(recipe, pool.feasible).items() for _ in range(n)]
    rng_for(recipe.seed, "queries", "kinds").shuffle(kinds)
    return kinds


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
    recipe: Recipe, pool: Pool, number: int, ability: Ability, scenario: Scenario
) -> Need | None:
    """One need, or None where no API of the pool can serve the scenario."""
    rng = rng_for(recipe.seed, "queries", number)
    now = _moment(rng)
    language = recipe.languages[number % len(recipe.languages)]
    for apis, link in _choices(pool, number, ability, scenario, rng):
        try:
            intent = _intend(apis, link, scenario, rng, now, language)
        except NoValue:
            continue
        if scenario is Scenario.CLARIFICATION and not _withholdable(apis[0], intent[0]):
            continue
        irrelevant = scenario is Scenario.IRRELEVANCE
        return Need(
            id=f"q{number:06d}",
            ability=ability,
            scenario=scenario,
            language=language,
            now=now,
            pool=_offer(pool, apis, recipe.queries.distractors, rng, without=irrelevant),
            outside=apis[0] if irrelevant else None,
            intent=tuple(intent),
            withheld=_withhold(apis[0], intent[0], rng, scenario),
            fault=_fault(rng) if scenario is Scenario.ERROR_RECOVERY else None,
        )
    return None


def _moment(rng: random.Random) -> dt.datetime:
    start = dt.datetime(2025, 1, 1)
    return start + dt.timedelta(days=rng.randrange(1000), minutes=rng.randrange(7 * 60, 21 * 60))


def _choices(
    pool: Pool, number: int, ability: Ability, scenario: Scenario, rng: random.Random
) -> Iterator[tuple[list[Api], Link | None]]:
    """API choices to try, the one whose turn it is first."""
    if scenario is Scenario.SEQUENTIAL:
        start = rng.randrange(len(pool.links))
        for i in range(len(pool.links)):
            link = pool.links[(start + i) % len(pool.links)]
            yield [link.first, link.second], link
        return
    several = scenario in (Scenario.PARALLEL, Scenario.MULTI_TURN)
    for i in range(len(pool.apis)):
        api = pool.apis[(number + i) % len(pool.apis)]
        others = [a for a in pool.by_category[api.category] if a is not api]
        if not several:
            yield [api], None
        elif others:
            yield [api, rng.choice(others)], None
        elif ability is Ability.CALL:
            yield [api, api], None


def _intend(
    apis: Sequence[Api],
    link: Link | None,
    scenario: Scenario,
    rng: random.Random,
    now: dt.datetime,
    language: str,
) -> list[Intention]:
    intent: list[Intention] = []
    for index, api in enumerate(apis):
        references = {link.field: Reference(call=0, field=link.field)} if link and index else {}
        known = _distinct(api, [i.arguments for i in intent], rng, now, language)
        intent.append(
            Intention(
                api=api.id,
                turn=index if scenario is Scenario.MULTI_TURN else 0,
                arguments={k: v for k, v in known.items() if k not in references},
                references=references,
            )
        )
    return intent


def _distinct(
    api: Api, taken: Sequence[JsonObject], rng: random.Random, now: dt.datetime, language: str
) -> JsonObject:
    """Arguments in which no value stands twice, so that words say which is which."""
    seen = {canonical(v) for values in taken for v in values.values() if v is not True}
    for _ in range(20):
        drawn = draw_object(api.parameters, rng, now, language)
        values = [canonical(v) for v in drawn.values() if v is not True]
        if len(set(values)) == len(values) and not seen & set(values):
            return drawn
    raise NoValue(api.id)


def _withholdable(api: Api, intention: Intention) -> list[str]:
    return [n for n in api.required if intention.arguments.get(n) not in (None, True)]


def _withhold(
    api: Api, intention: Intention, rng: random.Random, scenario: Scenario
) -> tuple[str, ...]:
    if scenario is not Scenario.CLARIFICATION:
        return ()
    return (rng.choice(_withholdable(api, intention)),)


def _fault(rng: random.Random) -> Fault:
    error, transient = rng.choice(FAULTS)
    return Fault(call=0, error=error, transient=transient)


def _offer(
    pool: Pool, needed: Sequence[Api], count: int, rng: random.Random, *, without: bool
) -> tuple[Api, ...]:
    """The pool a query is shown with, shuffled; `without` the needed APIs and their category."""
    categories = {a.category for a in needed}
    others = [
        a
        for a in pool.apis
        if a.id not in {n.id for n in needed} and not (without and a.category in categories)
    ]
    wanted = max(count, 1) if without else count
    offered = rng.sample(others, min(wanted, len(others)))
    if not without:
        offered += list({a.id: a for a in needed}.values())
    rng.shuffle(offered)
    return tuple(offered)
