"""What is in a pool, counted from its files."""

from __future__ import annotations

from collections import Counter
from statistics import median

from pydantic import Field

from toolloom.pipeline.apis.pool.folder import PoolFolder
from toolloom.schemas import Api, Record


class Spread(Record):
    """The middle and the most of something."""

    median: float = 0
    most: int = 0


class SourceCount(Record):
    """APIs of one source."""

    kind: str
    reference: str
    licence: str
    apis: int


class PoolCounts(Record):
    """What is in a pool. Equal for equal pools."""

    apis: int
    examples: int
    kinds: dict[str, int] = Field(description="APIs by kind of source, most first.")
    categories: dict[str, int]
    tools: dict[str, int] = Field(description="APIs by `category/tool`, most first.")
    collections: dict[str, int]
    parameters: Spread = Field(description="Parameters of an API.")
    descriptions: Spread = Field(description="Characters of an API's description.")
    returns: int = Field(description="APIs that say what they return.")
    deprecated: int
    sources: tuple[SourceCount, ...]
    imports: int = Field(description="Imports so far, repeated ones included.")


def count_pool(pool: PoolFolder) -> PoolCounts:
    """Read a pool once, an API at a time."""
    seen = _Seen()
    for api in pool.apis():
        seen.add(api)
    return PoolCounts(
        apis=len(seen.parameters),
        examples=sum(1 for _ in pool.examples()),
        kinds=dict(seen.kinds.most_common()),
        categories=dict(seen.categories.most_common()),
        tools=dict(seen.tools.most_common()),
        collections=dict(seen.collections.most_common()),
        parameters=_spread(seen.parameters),
        descriptions=_spread(seen.descriptions),
        returns=seen.returns,
        deprecated=seen.deprecated,
        sources=tuple(
            SourceCount(kind=kind, reference=reference, licence=licence, apis=number)
            for (kind, reference, licence), number in seen.sources.items()
        ),
        imports=sum(1 for _ in pool.reports()),
    )


class _Seen:
    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.collections: Counter[str] = Counter()
        self.sources: Counter[tuple[str, str, str]] = Counter()
        self.parameters: list[int] = []
        self.descriptions: list[int] = []
        self.returns = 0
        self.deprecated = 0

    def add(self, api: Api) -> None:
        source = api.source
        self.kinds[source.kind] += 1
        self.categories[api.category] += 1
        self.tools[f"{api.category}/{api.tool}"] += 1
        self.collections.update(api.collections)
        self.sources[source.kind, source.reference, source.licence] += 1
        self.parameters.append(len(api.properties))
        self.descriptions.append(len(api.description))
        self.returns += bool(api.returns)
        self.deprecated += api.deprecated


def _spread(numbers: list[int]) -> Spread:
    return Spread(median=median(numbers), most=max(numbers)) if numbers else Spread()
