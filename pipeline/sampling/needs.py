"""One need in the making: calls with all their values, what fails, what is withheld.

With it the APIs it is shown with: the needed ones, and others that distract.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from toolloom.pipeline.checks.schema import fits, kind_of
from toolloom.pipeline.sampling.groups import Group, Link, distinct
from toolloom.pipeline.sampling.values import NoValue, draw_object, draw_value
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
    canonical,
)

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


def moment(rng: random.Random) -> dt.datetime:
    start = dt.datetime(2025, 1, 1)
    return start + dt.timedelta(days=rng.randrange(1000), minutes=rng.randrange(7 * 60, 21 * 60))


def servable(recipe: Recipe, api: Api, rng: random.Random) -> bool:
    """Whether values for what an API requires can be drawn."""
    now = dt.datetime(2025, 6, 2, 9)
    required = {n: api.properties[n] for n in api.required if n in api.properties}
    schema = {**api.parameters, "properties": required}
    try:
        draw_object(schema, rng, now, recipe.languages[0], _identities(api))
    except NoValue:
        return False
    return True


def _identities(api: Api) -> frozenset[str]:
    """Parameters that name one thing among many: `invoice` of `GET /invoices/{invoice}`."""
    return frozenset(re.findall(r"\{([^{}]+)\}", api.source.operation))


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
            drawn = draw_object(schema, self.rng, self.now, self.language, _identities(api))
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
