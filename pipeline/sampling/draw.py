"""Draws needs: abilities, scenarios, APIs, distractors and argument values, split by split.

`SplitDraw` draws the kinds of a split and finds APIs for each; `NeedBuilder` makes a need of them:
calls with all their values, what fails, what is withheld, and the APIs it is shown with. From which
APIs a split's needs are drawn and with which they may be shown is `SplitPools`; whose turn it is
and with whom, what was drawn least first, `ApiRotation`. How APIs stand together is a `Group`:
ToolLLM's levels, and links, which say which API's response gives which other's arguments.
"""

from __future__ import annotations

import datetime as dt
import math
import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice, pairwise, product
from typing import Any, NamedTuple, TypeAlias, TypeVar

from toolloom.pipeline.checks.schema import fits, kind_of
from toolloom.pipeline.checks.text.words import listed, name_words, table
from toolloom.pipeline.environments.executed import find_place
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
    ToolloomError,
    canonical,
    grouped,
)
from toolloom.schemas.splits import SEEN, split_of, zone

T = TypeVar("T")
OFTEN = 10  # times a combination may come before other levels take over its level's turns
TRIES = 8  # values drawn for one combination until its calls fall into the split
PROBED = 200  # APIs looked at to tell whether a pool of one tool allows for irrelevance
TRIED = 24  # partners of one API, before the next API has its turn
NAMED = 10  # categories in an error
SEVERAL = (Scenario.PARALLEL, Scenario.SEQUENTIAL, Scenario.MULTI_TURN)
"""Scenarios that take two APIs."""

_USUAL = tuple(scenario for scenario in Scenario if not scenario.of_worlds)
_PLANNED = (Scenario.SEQUENTIAL, Scenario.PARALLEL)
FITS: Mapping[Ability, tuple[Scenario, ...]] = {
    Ability.CALL: _USUAL,
    Ability.RETRIEVE_CALL: tuple(scenario for scenario in _USUAL if scenario not in _PLANNED),
    Ability.PLAN_RETRIEVE_CALL: _PLANNED,
}
"""Which scenarios an ability can have: several calls in one turn need a plan (API-Bank 2.1)."""

FAULTS = tuple((words, how == "passing") for words, how in table("faults"))
"""Errors an execution reports, in the words of the HTTP status codes; True: a retry works."""

REAL = PlannedFault(call=0, error="", transient=False, real=True)
"""The execution itself says what is wrong with the first call."""


class NeedKind(NamedTuple):
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
        kinds = [NeedKind(*pair, Level.SINGLE_TOOL) for pair, n in counts.items() for _ in range(n)]
        rng.shuffle(kinds)
        for scenarios in ((Scenario.PARALLEL, Scenario.MULTI_TURN), (Scenario.SEQUENTIAL,)):
            places = [i for i, kind in enumerate(kinds) if kind.scenario in scenarios]
            found = _levels(self._recipe, self._group, scenarios[0], len(places)) if places else []
            rng.shuffle(found)
            for place, level in zip(places, found, strict=False):
                kinds[place] = kinds[place]._replace(level=level)
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
            for apis, link in self._turns.combinations(api, kind, rng):
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
    for key in sorted(exact, key=lambda k: parts[k] - exact[k])[: count - sum(parts.values())]:
        parts[key] += 1
    return parts


# --- one need in the making --------------------------------------------------------------------


class NeedBuilder(NamedTuple):
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


# --- what a split is drawn from ----------------------------------------------------------------


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
        self, api: Api, kind: NeedKind, rng: random.Random
    ) -> Iterator[tuple[list[Api], Link | None]]:
        """What can be drawn with this API as the first one, least used combinations first."""
        if kind.scenario not in SEVERAL:
            yield [api], None
        elif kind.scenario is Scenario.SEQUENTIAL:
            links = [v for v in self._group.links.get(api.id, ()) if kind.level in v.levels]
            rng.shuffle(links)
            links.sort(key=lambda link: self._mates[api.id][link.second.id])
            yield from (([link.first, link.second], link) for link in links[:TRIED])
        else:
            partners = self._partners(api, kind.level, rng)
            yield from (([api, other], None) for other in islice(partners, TRIED))
            if kind.ability is Ability.CALL and kind.level is Level.SINGLE_TOOL:
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


class SplitPools:
    """A recipe's APIs, parted by what their splits may need and show.

    All splits of seen APIs share a group. Unseen tools are of categories that have a seen one,
    and are shown with seen APIs; unseen categories are shown with all.
    """

    def __init__(self, recipe: Recipe, apis: Iterable[Api]) -> None:
        self._recipe = recipe
        self._all = in_order(apis)
        parts = grouped((zone(recipe.splits, a.category, a.tool), a) for a in self._all)
        seen = parts[Split.TRAIN]
        known = {api.category for api in seen}
        tools = [api for api in parts[Split.TEST_TOOL] if api.category in known]
        shown = {
            Split.TRAIN: (seen, seen),
            Split.TEST_TOOL: (tools, [*seen, *tools]),
            Split.TEST_CATEGORY: (parts[Split.TEST_CATEGORY], self._all),
        }
        self._groups: dict[Split, tuple[Group, Group]] = {}
        for place, (needed, offered) in shown.items():
            rng = rng_for(recipe.seed, "queries", "group", place)
            self._groups[place] = Group(needed, rng, self._servable), Group(offered)

    def groups(self, split: Split) -> tuple[Group, Group]:
        """What needs of a split are drawn from, and what they may be shown with."""
        return self._groups[split if split.unseen else Split.TRAIN]

    def serves(self, split: Split) -> bool:
        """Whether any need of a split can be drawn."""
        group, _ = self.groups(split)
        return any(map(group.servable, group.apis))

    def check_seen(self) -> None:
        """Raises ToolloomError if something can be drawn, but nothing to train on."""
        if self.serves(Split.TRAIN) or not any(map(self._servable, self._all)):
            return
        names = sorted({api.category for api in self._all})
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        raise ToolloomError(
            "queries: there is nothing to train on: every API that can be drawn is held out for "
            "a test, by the hash of its category or tool, or by `splits.unseen`. Put a category "
            f"under `splits.seen`; there are: {', '.join(names[:NAMED])}{more}."
        )

    def _servable(self, api: Api) -> bool:
        """Whether values for what an API requires can be drawn."""
        rng, now = rng_for(self._recipe.seed, "queries", api.id), dt.datetime(2025, 6, 2, 9)
        required = {n: api.properties[n] for n in api.required if n in api.properties}
        schema = {**api.parameters, "properties": required}
        try:
            draw_object(schema, rng, now, self._recipe.languages[0], identities(api))
        except NoValue:
            return False
        return True


def identities(api: Api) -> frozenset[str]:
    """Parameters that name one thing among many: `invoice` of `GET /invoices/{invoice}`."""
    return frozenset(re.findall(r"\{([^{}]+)\}", api.source.operation))


# --- how APIs stand together -------------------------------------------------------------------

GENERIC = listed("names of many things")
"""Names that many APIs give to different things: alone they link only within one tool."""

IDENTITIES = frozenset({"id", "ids", "key", "token", "uuid", "guid", "ref", "slug", "sha", "hash"})
"""What a name ends in that tells one thing of a service from another."""

EMPTY = listed("words of acts")
"""Words of names that say what is done, not to what."""

MOST = 500  # links of a group of givers with one of takers; of more a sample


class Link(NamedTuple):
    """`field` of the first API's response is argument `field` of the second."""

    first: Api
    second: Api
    field: str
    levels: frozenset[Level]


def levels_of(first: Api, second: Api) -> frozenset[Level]:
    """The levels at which two different APIs stand together (ToolLLM, section 2.2)."""
    if (first.category, first.tool) == (second.category, second.tool):
        return frozenset({Level.SINGLE_TOOL})
    found = {Level.CATEGORY} if first.category == second.category else set()
    if set(first.collections) & set(second.collections):
        found.add(Level.COLLECTION)
    return frozenset(found)


def content_words(name: str) -> frozenset[str]:
    """What a name is about, in the singular: `listPetOwners` is about pet and owner."""
    found = name_words(re.sub(r"\{[^}]*\}", " ", name))
    telling = [w for w in found if w not in EMPTY and not w.isdigit()]
    return frozenset(w[:-1] if w.endswith("s") and len(w) > 3 else w for w in telling or found)


def find_links(apis: Sequence[Api], rng: random.Random) -> list[Link]:
    """Links within categories, tools and collections: all of them, or a sample of too many."""
    # Of a name: which APIs ask for it, and which others' responses have it.
    takers = grouped((name, n) for n, a in enumerate(apis) for name in a.properties)
    given = (a.fields.keys() - a.properties.keys() for a in apis)
    givers = grouped((name, n) for n, names in enumerate(given) for name in names)
    subjects = _subjects(apis)
    found: list[Link] = []
    for name in (name for name in takers if name in givers):
        ours, theirs = (
            grouped((key, n) for n in side for key in _keys(name, apis[n], subjects[n]))
            for side in (givers[name], takers[name])
        )
        groups = [(numbers, theirs[key]) for key, numbers in ours.items() if key in theirs]
        rng.shuffle(groups)
        pairs: dict[tuple[int, int], None] = {}
        for giving, taking in groups:
            if len(giving) * len(taking) <= MOST:
                pairs |= dict.fromkeys(product(giving, taking))
            else:
                drawn = ((rng.choice(giving), rng.choice(taking)) for _ in range(MOST))
                pairs |= dict.fromkeys(drawn)
        found += (
            Link(apis[i], apis[j], name, levels_of(apis[i], apis[j]))
            for i, j in pairs
            if _gives(apis[i], apis[j], name)
        )
    return found


def _subjects(apis: Sequence[Api]) -> list[list[str]]:
    """What each API is about, by its name and path, without what most of its tool is about."""
    # The path of the operation `GET /pets/{id}` is `/pets/{id}`.
    found = [content_words(f"{a.name} {a.source.operation.partition(' ')[2]}") for a in apis]
    sizes, said = Counter(map(tool_of, apis)), Counter[tuple[tuple[str, str], str]]()
    for api, about in zip(apis, found, strict=True):
        said.update((tool_of(api), word) for word in about)
    return [
        [word for word in sorted(about) if said[tool_of(a), word] <= max(5, sizes[tool_of(a)] // 3)]
        for a, about in zip(apis, found, strict=True)
    ]


def _keys(name: str, api: Api, subjects: Iterable[str]) -> Iterator[tuple[str, ...]]:
    """What an API that gives or takes a name may have in common with one on the other side."""
    generic = name.lower() in GENERIC
    invented = api.source.kind == "generated"  # one domain's APIs are designed together
    if generic and not invented:
        yield from (("word", api.category, api.tool, word) for word in subjects)
        return
    yield "tool", api.category, api.tool
    # One service's ids mean nothing to another; invented services agree on theirs.
    if not generic and (invented or not _is_identity(name)):
        yield "category", api.category
        yield from (("collection", each) for each in api.collections)


def _is_identity(name: str) -> bool:
    return not IDENTITIES.isdisjoint(name_words(name)[-1:])


def _gives(first: Api, second: Api, name: str) -> bool:
    """Whether a field of the first is the second's argument, by its type and its choices.

    Real APIs take back all they give as options of an update; only what they need makes a link.
    """
    field, argument = first.fields[name], second.properties[name]
    kind = kind_of(field)
    return (
        first is not second
        and (name in second.required or _is_identity(name) or second.source.kind == "generated")
        and kind not in (None, "boolean", "object")
        and kind == kind_of(argument)
        and (not argument.get("enum") or argument.get("enum") == field.get("enum"))
        and argument.get("format") in (None, field.get("format"))
    )


def scattered(count: int, rng: random.Random) -> Iterator[int]:
    """The numbers below `count` in a random order, at a cost only for those that are taken."""
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        place = rng.randrange(left)
        yield moved.get(place, place)
        moved[place] = moved.get(left - 1, left - 1)


class Group:
    """APIs in order, of which any may be needed, or shown, together with any other.

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
        numbered = enumerate(self.apis)
        self._collections = grouped((name, n) for n, a in numbered for name in a.collections)

    @cached_property
    def links(self) -> dict[str, list[Link]]:
        """Those between its APIs, by the id of the first."""
        return grouped((link.first.id, link) for link in find_links(self.apis, self._rng))

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

    def servable(self, api: Api) -> bool:
        if api.id not in self._known:
            self._known[api.id] = self._asked(api)
        return self._known[api.id]

    def count(self, level: Level, scenario: Scenario) -> int:
        """How many pairs of APIs there are at a level; of linked ones for a sequential need."""
        if scenario is Scenario.SEQUENTIAL:
            linked = (link for links in self.links.values() for link in links)
            return len({(v.first.id, v.second.id) for v in linked if level in v.levels})
        if level is Level.SINGLE_TOOL:
            return sum(math.comb(tool, 2) for tool in Counter(self._tools).values())
        groups: Iterable[Sequence[int]] = self._mixed.values()
        if level is Level.CATEGORY:
            groups = (span(self._categories, name) for name in set(self._categories))
        sizes = [Counter(self._tools[i] for i in group).values() for group in groups]
        return sum(math.comb(sum(s), 2) - sum(math.comb(n, 2) for n in s) for s in sizes)

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

    def offer(self, needed: Sequence[Api], count: int, rng: random.Random) -> tuple[Api, ...]:
        """The needed APIs and `count` others, half of them near by: of the same tool, category or
        collection, where a model may mistake one for another. Shuffled.

        Of APIs whose functions have the same name only one is among the others.
        """
        offered = {a.id: a for a in needed}
        taken = {a.function for a in needed}
        near: list[Sequence[int]] = []
        for api in needed:
            near += [span(self._tools, tool_of(api)), span(self._categories, api.category)]
            near += [self._collections[n] for n in api.collections if n in self._collections]
        wanted = len(offered) + count
        for _ in range((count + 1) // 2):
            rng.shuffle(near)
            places = (group[i] for group in near for i in scattered(len(group), rng))
            free = (self.apis[i] for i in places if self.apis[i].function not in taken)
            if other := next(free, None):
                offered[other.id] = other
                taken.add(other.function)
        for other in (self.apis[place] for place in scattered(len(self.apis), rng)):
            if len(offered) >= wanted:
                break
            if other.function not in taken:
                offered[other.id] = other
                taken.add(other.function)
        shown = list(offered.values())
        rng.shuffle(shown)
        return tuple(shown)

    def outside(self, api: Api, rng: random.Random) -> Iterator[Api]:
        """APIs that surely cannot stand in for one: of other categories; in a pool of one
        category, of other tools; in a pool of one tool, those whose names share no word with it."""
        if len(set(self._categories)) > 1:
            kept = span(self._categories, api.category)
        elif len(set(self._tools)) > 1:
            kept = span(self._tools, tool_of(api))
        else:
            subject = self._subjects[self.places[api.id]]
            for place in scattered(len(self.apis), rng):
                if not subject & self._subjects[place] and self.apis[place].id != api.id:
                    yield self.apis[place]
            return
        for place in scattered(len(self.apis) - len(kept), rng):
            yield self.apis[place if place < kept.start else place + len(kept)]


def distinct(apis: Iterable[Api]) -> tuple[Api, ...]:
    """The same, where two functions of one name are told apart by a number."""
    taken: set[str] = set()
    found = []
    for api in apis:
        name, number = api.function, 2
        while name in taken:
            name, number = f"{api.function[:60]}_{number}", number + 1
        taken.add(name)
        found.append(api if name == api.function else api.model_copy(update={"function": name}))
    return tuple(found)


def in_order(apis: Iterable[Api]) -> list[Api]:
    """APIs by category, tool and name, whatever order they came in; without provenance."""
    return sorted((a.bare() for a in apis), key=lambda a: (a.category, a.tool, a.name))


def span(keys: list[str] | list[tuple[str, str]], key: str | tuple[str, str]) -> range:
    """The places of a key in a sorted list."""
    return range(bisect_left(keys, key), bisect_right(keys, key))


def tool_of(api: Api) -> tuple[str, str]:
    return api.category, api.tool
