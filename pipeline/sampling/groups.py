"""APIs that needs are drawn from, and how they stand together: ToolLLM's levels, and links.

A link says which API's response gives which other's arguments: sequential needs are made of them.
From which APIs a split's needs are drawn and with which they may be shown is `SplitPools`; whose
turn it is and with whom, what was drawn least first, `ApiRotation`.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, product
from math import comb
from typing import TypeAlias

from toolloom.pipeline.checks.schema import kind_of
from toolloom.pipeline.checks.text.words import name_words
from toolloom.pipeline.sampling.values import NoValue, draw_object, rng_for
from toolloom.schemas import Ability, Api, Level, Recipe, Scenario, Split, ToolloomError
from toolloom.schemas.splits import zone

GENERIC = frozenset({
    "id", "name", "type", "url", "uri", "status", "code", "key", "page", "limit", "offset", "date",
    "description", "title", "state", "value", "count", "total", "size", "message", "text", "data",
    "number", "time", "timestamp", "created_at", "updated_at", "content", "label", "tag", "version",
    "format", "kind", "slug", "email", "user", "username", "owner", "body", "path", "node_id",
    "order", "sort", "lang", "language", "category", "color", "note", "notes", "index", "level",
})  # fmt: skip
"""Names that many APIs give to different things: alone they link only within one tool."""

IDENTITIES = frozenset({"id", "ids", "key", "token", "uuid", "guid", "ref", "slug", "sha", "hash"})
"""What a name ends in that tells one thing of a service from another."""

EMPTY = frozenset({
    "get", "list", "create", "update", "delete", "post", "put", "patch", "head", "options", "find",
    "search", "read", "fetch", "add", "set", "remove", "all", "for", "the", "from", "with", "and",
    "new", "one", "any", "api", "rest", "http", "https", "www", "v1", "v2", "v3", "v4", "of", "by",
    "a", "an", "in", "on", "to", "or", "is", "as", "at", "id", "ids", "show", "retrieve", "query",
})  # fmt: skip
"""Words of names that say what is done, not to what."""

MOST = 500  # links of a group of givers with one of takers; of more a sample
TRIED = 24  # partners of one API, before the next API has its turn
NAMED = 10  # categories in an error
SEVERAL = (Scenario.PARALLEL, Scenario.SEQUENTIAL, Scenario.MULTI_TURN)
"""Scenarios that take two APIs."""


@dataclass(frozen=True)
class Link:
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
    takers = defaultdict[str, list[int]](list)  # of a name: which APIs ask for it
    givers = defaultdict[str, list[int]](list)  # and which others' responses have it
    for number, api in enumerate(apis):
        for name in api.properties:
            takers[name].append(number)
        for name in api.fields.keys() - api.properties.keys():
            givers[name].append(number)
    subjects = _subjects(apis)
    found: list[Link] = []
    for name in (name for name in takers if name in givers):
        ours, theirs = (
            _by_key(name, numbers, apis, subjects) for numbers in (givers[name], takers[name])
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


def _by_key(
    name: str, numbers: Iterable[int], apis: Sequence[Api], subjects: Sequence[Sequence[str]]
) -> dict[tuple[str, ...], list[int]]:
    """Those that give or take a name, by what has to be the same on both sides."""
    found = defaultdict[tuple[str, ...], list[int]](list)
    generic = name.lower() in GENERIC
    for number in numbers:
        api = apis[number]
        invented = api.source.kind == "generated"  # one domain's APIs are designed together
        if generic and not invented:
            for word in subjects[number]:
                found["word", api.category, api.tool, word].append(number)
            continue
        found["tool", api.category, api.tool].append(number)
        # One service's ids mean nothing to another; invented services agree on theirs.
        if not generic and (invented or not _is_identity(name)):
            found["category", api.category].append(number)
            for each in api.collections:
                found["collection", each].append(number)
    return found


def _is_identity(name: str) -> bool:
    return not IDENTITIES.isdisjoint(name_words(name)[-1:])


def _gives(first: Api, second: Api, name: str) -> bool:
    """Whether a field of the first is the second's argument, by its type and its choices.

    Real APIs take back all they give as options of an update; only what they need makes a link.
    """
    field, argument = first.fields[name], second.properties[name]
    kind = kind_of(field)
    needed = name in second.required or _is_identity(name) or second.source.kind == "generated"
    return (
        first is not second
        and needed
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
        self._collections = defaultdict[str, list[int]](list)
        for number, api in enumerate(self.apis):
            for name in api.collections:
                self._collections[name].append(number)

    @cached_property
    def links(self) -> list[Link]:
        return find_links(self.apis, self._rng)

    @cached_property
    def links_of(self) -> dict[str, list[Link]]:
        """Links by the id of their first API."""
        found = defaultdict[str, list[Link]](list)
        for link in self.links:
            found[link.first.id].append(link)
        return found

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
            return len({(v.first.id, v.second.id) for v in self.links if level in v.levels})
        if level is Level.SINGLE_TOOL:
            return sum(comb(tool, 2) for tool in Counter(self._tools).values())
        groups: Iterable[Sequence[int]] = self._mixed.values()
        if level is Level.CATEGORY:
            groups = (span(self._categories, name) for name in set(self._categories))
        tools = [Counter(self._tools[i] for i in group).values() for group in groups]
        return sum(comb(sum(sizes), 2) - sum(comb(n, 2) for n in sizes) for sizes in tools)

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


# --- what a split is drawn from ----------------------------------------------------------------


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
