"""Draws needs: abilities, scenarios, APIs, distractors and argument values, split by split.

`SplitDraw` draws the kinds of a split and finds APIs for each; `NeedBuilder` makes a need of them:
calls with all their values, what fails, what is withheld, and the APIs it is shown with.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from toolloom.pipeline.checks.schema import fits, kind_of
from toolloom.pipeline.environments.executed import find_place
from toolloom.pipeline.sampling.groups import (
    ApiRotation,
    Group,
    Link,
    SplitPools,
    distinct,
    identities,
)
from toolloom.pipeline.sampling.values import NoValue, draw_object, draw_value, moment, rng_for
from toolloom.schemas import (
    Ability,
    Api,
    ApiSource,
    Intention,
    JsonObject,
    Level,
    Need,
    PlannedFault,
    Recipe,
    Reference,
    Scenario,
    Split,
    canonical,
)
from toolloom.schemas.splits import SEEN, split_of

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

FAULTS: tuple[tuple[str, bool], ...] = (
    ("503 Service Unavailable: the service is overloaded, try again", True),
    ("504 Gateway Timeout: the service did not answer in time, try again", True),
    ("429 Too Many Requests: try again in a second", True),
    ("404 Not Found: no entry matches the request", False),
    ("403 Forbidden: this account may not do that", False),
    ("409 Conflict: the entry is locked and cannot be used", False),
)
"""Errors an execution reports, in the words of the HTTP status codes; True: a retry works."""

REAL = PlannedFault(call=0, error="", transient=False, real=True)
"""The execution itself says what is wrong with the first call."""


@dataclass(frozen=True)
class NeedKind:
    """What is drawn for one query before any API is."""

    ability: Ability
    scenario: Scenario
    level: Level


Calls: TypeAlias = tuple[list[Intention], PlannedFault | None]
"""What a need amounts to, and what of it fails."""


def draw_needs(recipe: Recipe, apis: Iterable[Api]) -> Iterator[Need]:
    """Yield the recipe's needs, split by split; of a regeneration those of its split alone.

    Proportions are exact in each split, and every API has its turn. What a need holds depends on
    the recipe, its split and number, and what was drawn for this split before it, in order.
    Raises ToolloomError if all that could be drawn is held out of training.
    """
    zones = SplitPools(recipe, apis)
    zones.check_seen()
    anew = recipe.regenerate
    for split, count in split_counts(recipe, zones.serves).items():
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
        self._group, self._offers = zones.groups(split)
        self._turns = ApiRotation(self._group, self._rng("turns"))
        places = ((api.id, find_place(api, recipe.apis.sources)) for api in self._group.apis)
        self._executed = {api_id: place.source for api_id, place in places if place}

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


# --- one need in the making --------------------------------------------------------------------


@dataclass(frozen=True)
class NeedBuilder:
    """A need in the making: all that is settled before its APIs are."""

    recipe: Recipe
    kind: NeedKind
    rng: random.Random
    now: dt.datetime
    language: str
    executed: Mapping[str, ApiSource]  # by the ids of the APIs that really run

    def suits(self, api: Api) -> bool:
        """Whether the scenario can be played with this API, as far as can be told cheaply."""
        if self.kind.scenario is Scenario.CLARIFICATION:
            return any(kind_of(api.properties.get(n)) != "boolean" for n in api.required)
        source = self.executed.get(api.id)
        if self.kind.scenario is Scenario.ERROR_RECOVERY and source is not None:
            return any(name in api.properties for name in source.wrong_values)
        return True

    def calls(self, apis: Sequence[Api], link: Link | None) -> Calls:
        """The calls, and what fails. Raises NoValue."""
        source = self.executed.get(apis[0].id)
        if self.kind.scenario is Scenario.ERROR_RECOVERY and source is not None:
            return self._fail_really(apis[0], source), REAL
        intent: list[Intention] = []
        for index, api in enumerate(apis):
            field = link.field if link and index else None
            drawn = self._distinct(api, intent, field)
            references = {field: Reference(call=0, field=field)} if field else {}
            turn = index if self.kind.scenario is Scenario.MULTI_TURN else 0
            intent.append(Intention(api=api.id, turn=turn, arguments=drawn, references=references))
        if self.kind.scenario is Scenario.CLARIFICATION and not _withholdable(apis[0], intent[0]):
            raise NoValue(apis[0].id)
        if self.kind.scenario is not Scenario.ERROR_RECOVERY:
            return intent, None
        error, transient = self.rng.choice(FAULTS)
        return intent, PlannedFault(call=0, error=error, transient=transient)

    def _distinct(
        self, api: Api, earlier: Sequence[Intention], field: str | None = None
    ) -> JsonObject:
        """Arguments in which no value stands twice, so that words say which is which.

        An argument may repeat its value in calls of two real APIs if it knows no other: the
        folder that both work on.
        """
        schema = api.parameters
        if field:  # its value comes from elsewhere
            properties = {n: part for n, part in api.properties.items() if n != field}
            required = [n for n in api.required if n != field]
            schema = {**schema, "properties": properties, "required": required}
        taken = {(n, canonical(v)) for i in earlier for n, v in i.arguments.items()}
        again = api.source.kind == "generated" or any(i.api == api.id for i in earlier)
        for attempt in range(20):
            drawn = draw_object(schema, self.rng, self.now, self.language, identities(api))
            values = [(n, canonical(v)) for n, v in drawn.items() if v is not True]
            others = {v for n, v in taken if attempt < 15 or again or (n, v) not in values}
            texts = [v for _, v in values]
            if len(set(texts)) == len(texts) and not others & set(texts):
                return drawn
        raise NoValue(api.id)

    def _fail_really(self, api: Api, source: ApiSource) -> list[Intention]:
        """A call that its execution refuses; then, where there is one, with the right value."""
        wrong = [
            (name, value)
            for name, values in source.wrong_values.items()
            for value in values
            if name in api.properties and fits(api.properties[name], value)
        ]
        self.rng.shuffle(wrong)
        for name, value in wrong:
            drawn = self._distinct(api, [], name)
            if canonical(value) in _values(drawn):
                continue
            bad = Intention(api=api.id, arguments={**drawn, name: value})
            # The right one is no other argument's, and not among the wrong ones.
            refused = {*_values(bad.arguments), *(canonical(v) for n, v in wrong if n == name)}
            schema = api.properties[name]
            with suppress(NoValue):
                for _ in range(20):
                    right = draw_value(name, schema, self.rng, self.now, self.language)
                    if canonical(right) not in refused:
                        mended = {**drawn, name: right}
                        return [bad, Intention(api=api.id, turn=1, arguments=mended)]
            return [bad]
        raise NoValue(api.id)

    def need(self, id: str, offers: Group, apis: Sequence[Api], calls: Calls) -> Need:
        """The need, with the APIs it is shown with. Raises NoValue where there is none to show."""
        count, rng, (intent, fault) = self.recipe.queries.distractors, self.rng, calls
        irrelevant = self.kind.scenario is Scenario.IRRELEVANCE
        clarified = self.kind.scenario is Scenario.CLARIFICATION
        if irrelevant:  # at least one API, and none that could serve it
            offered = tuple(islice(offers.outside(apis[0], rng), max(count, 1)))
        else:
            offered = offers.offer(apis, count, rng)
        if not offered:
            raise NoValue(apis[0].id)
        return Need(
            id=id,
            ability=self.kind.ability,
            scenario=self.kind.scenario,
            level=self.kind.level,
            language=self.language,
            now=self.now,
            pool=distinct(offered),
            outside=apis[0] if irrelevant else None,
            intent=tuple(intent),
            withheld=(rng.choice(_withholdable(apis[0], intent[0])),) if clarified else (),
            fault=fault,
        )


def _values(arguments: JsonObject) -> list[str]:
    """The values that words must tell apart."""
    return [canonical(v) for v in arguments.values() if v is not True]


def _withholdable(api: Api, intention: Intention) -> list[str]:
    return [n for n in api.required if intention.arguments.get(n) not in (None, True)]
