"""APIs that needs are drawn from, and how they stand together: ToolLLM's levels, and links.

A link says which API's response gives which other's arguments: sequential needs are made of them.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from toolloom.pipeline.checks.schema import kind_of
from toolloom.pipeline.checks.text.words import name_words
from toolloom.schemas import Api, Level, Scenario

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

PER_NAME = 500  # links of one name, about; its groups have equal shares
FEWEST = 5  # that a group may have, however many there are
MOST = 20_000  # links of a pool, about; its names have equal shares


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
    takers: dict[str, list[int]] = {}  # of a name: which APIs ask for it
    for number, api in enumerate(apis):
        for name in api.properties:
            takers.setdefault(name, []).append(number)
    givers: dict[str, list[int]] = {}  # and which others' responses have it
    for number, api in enumerate(apis):
        for name in takers.keys() & (api.fields.keys() - api.properties.keys()):
            givers.setdefault(name, []).append(number)
    takers = {name: numbers for name, numbers in takers.items() if name in givers}
    subjects = _Subjects(apis)
    found: list[Link] = []
    most = min(PER_NAME, MOST // max(1, len(takers)) + 1)
    for name in takers:
        pairs: dict[tuple[int, int], Link] = {}
        groups = list(_groups(name, givers[name], takers[name], apis, subjects))
        rng.shuffle(groups)
        share = max(FEWEST, most // max(1, len(groups)))
        for ours, theirs in groups:
            for i, j in _pairs(ours, theirs, share, rng):
                if (i, j) not in pairs and _gives(apis[i], apis[j], name):
                    pairs[i, j] = Link(apis[i], apis[j], name, levels_of(apis[i], apis[j]))
            if len(pairs) >= most:
                break
        found += pairs.values()
    return found


class _Subjects:
    """What each API is about, by its name and path, without what most of its tool is about."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = apis
        self._tools: dict[tuple[str, str], Counter[str]] = {}
        self._sizes = Counter((api.category, api.tool) for api in apis)
        # The path of the operation `GET /pets/{id}` is `/pets/{id}`.
        paths = [a.source.operation.partition(" ")[2] for a in apis]
        self._found = [content_words(f"{a.name} {p}") for a, p in zip(apis, paths, strict=True)]
        for api, found in zip(apis, self._found, strict=True):
            self._tools.setdefault((api.category, api.tool), Counter()).update(found)

    def of(self, number: int) -> Iterator[str]:
        tool = (self._apis[number].category, self._apis[number].tool)
        common = max(5, self._sizes[tool] // 3)
        for word in sorted(self._found[number]):
            if self._tools[tool][word] <= common:
                yield word


def _groups(
    name: str,
    givers: Iterable[int],
    takers: Iterable[int],
    apis: Sequence[Api],
    subjects: _Subjects,
) -> Iterator[tuple[list[int], list[int]]]:
    """Givers and takers of a name that belong together."""
    ours: dict[tuple[str, ...], list[int]] = {}
    theirs: dict[tuple[str, ...], list[int]] = {}
    for side, numbers in ((ours, givers), (theirs, takers)):
        for number in numbers:
            for key in _keys(name, number, apis[number], subjects):
                side.setdefault(key, []).append(number)
    yield from ((found, theirs[key]) for key, found in ours.items() if key in theirs)


def _keys(name: str, number: int, api: Api, subjects: _Subjects) -> Iterator[tuple[str, ...]]:
    invented = api.source.kind == "generated"  # one domain's APIs are designed together
    generic = name.lower() in GENERIC
    if generic and not invented:
        yield from (("word", api.category, api.tool, word) for word in subjects.of(number))
        return
    yield "tool", api.category, api.tool
    # One service's ids mean nothing to another; invented services agree on theirs.
    if not generic and (invented or not _is_identity(name)):
        yield "category", api.category
        yield from (("collection", each) for each in api.collections)


def _is_identity(name: str) -> bool:
    return not IDENTITIES.isdisjoint(name_words(name)[-1:])


def _pairs(
    ours: Sequence[int], theirs: Sequence[int], most: int, rng: random.Random
) -> Iterator[tuple[int, int]]:
    if len(ours) * len(theirs) <= most:
        yield from product(ours, theirs)
        return
    for _ in range(most):
        yield rng.choice(ours), rng.choice(theirs)


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


class Group:
    """APIs of which any may be needed together with any other.

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
        self._collections = by_collection(self.apis)

    @cached_property
    def links(self) -> list[Link]:
        return find_links(self.apis, self._rng)

    @cached_property
    def links_of(self) -> dict[str, list[Link]]:
        """Links by the id of their first API."""
        found: dict[str, list[Link]] = {}
        for link in self.links:
            found.setdefault(link.first.id, []).append(link)
        return found

    @cached_property
    def _mixed(self) -> dict[str, list[int]]:
        """Collections of several tools; in others nothing stands together that a tool has not."""
        return {
            name: found
            for name, found in self._collections.items()
            if len({self._tools[i] for i in found}) > 1
        }

    def servable(self, api: Api) -> bool:
        if api.id not in self._known:
            self._known[api.id] = self._asked(api)
        return self._known[api.id]

    def serves(self) -> bool:
        """Whether any of its APIs can be drawn."""
        return any(map(self.servable, self.apis))

    def count(self, level: Level, scenario: Scenario) -> int:
        """How many pairs of APIs there are at a level; of linked ones for a sequential need."""
        if scenario is Scenario.SEQUENTIAL:
            return len({(v.first.id, v.second.id) for v in self.links if level in v.levels})
        if level is Level.SINGLE_TOOL:
            return sum(map(_pair_count, Counter(self._tools).values()))
        groups: Iterable[Sequence[int]] = self._mixed.values()
        if level is Level.CATEGORY:
            groups = (span(self._categories, name) for name in set(self._categories))
        tools = [Counter(self._tools[i] for i in group) for group in groups]
        return sum(
            _pair_count(found.total()) - sum(map(_pair_count, found.values())) for found in tools
        )

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


def in_order(apis: Iterable[Api]) -> list[Api]:
    """APIs by category, tool and name, whatever order they came in; without provenance."""
    return sorted((a.bare() for a in apis), key=lambda a: (a.category, a.tool, a.name))


def by_collection(apis: Sequence[Api]) -> dict[str, list[int]]:
    """The places of each collection's APIs."""
    found: dict[str, list[int]] = {}
    for number, api in enumerate(apis):
        for name in api.collections:
            found.setdefault(name, []).append(number)
    return found


def span(keys: list[str] | list[tuple[str, str]], key: str | tuple[str, str]) -> range:
    """The places of a key in a sorted list."""
    return range(bisect_left(keys, key), bisect_right(keys, key))


def tool_of(api: Api) -> tuple[str, str]:
    return api.category, api.tool


def _pair_count(count: int) -> int:
    return count * (count - 1) // 2
