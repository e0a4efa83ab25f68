"""What is in a pool: counted from its files, listed, and API by API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Any

from pydantic import Field

from toolloom.pipeline.apis.pool.folder import PoolFolder
from toolloom.pipeline.render.section import FIRST, Section, first, safe_json, short
from toolloom.schemas import Api, Record


class MedianAndMost(Record):
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
    parameters: MedianAndMost = Field(description="Parameters of an API.")
    descriptions: MedianAndMost = Field(description="Characters of an API's description.")
    returns: int = Field(description="APIs that say what they return.")
    deprecated: int
    sources: tuple[SourceCount, ...]
    imports: int = Field(description="Imports so far, repeated ones included.")


def count_pool(pool: PoolFolder) -> PoolCounts:
    """Read a pool once, an API at a time."""
    seen = _SeenApis()
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


class _SeenApis:
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


def _spread(numbers: list[int]) -> MedianAndMost:
    return MedianAndMost(median=median(numbers), most=max(numbers)) if numbers else MedianAndMost()


def sections(counts: PoolCounts) -> list[Section]:
    """The tables of a pool's counts, and two sentences."""
    kinds = {
        "kind of source": counts.kinds,
        "category": counts.categories,
        "category/tool": counts.tools,
        "collection": counts.collections,
    }
    tables = [
        Section(head=(title, "APIs"), rows=[*first(numbers).items()])
        for title, numbers in kinds.items()
        if numbers
    ]
    sources = [(s.kind, s.reference, s.licence or "not known", s.apis) for s in counts.sources]
    if sources:
        more = f"… and {len(sources) - FIRST:,} more" if len(sources) > FIRST else ""
        head = ("source", "reference", "licence", "APIs")
        tables.append(Section(head=head, rows=sources[:FIRST], note=more))
    return [*tables, Section(note=_in_words(counts))]


def _in_words(counts: PoolCounts) -> str:
    share = f"{counts.returns / counts.apis:.0%}" if counts.apis else "none"
    parameters, described = counts.parameters, counts.descriptions
    return (
        f"{counts.apis:,} APIs of {len(counts.tools):,} tools in {len(counts.categories):,} "
        f"categories and {len(counts.collections):,} collections, from {len(counts.sources):,} "
        f"sources in {counts.imports:,} imports; {counts.examples:,} public APIs as examples.\n"
        f"Parameters of an API: median {parameters.median:g}, at most {parameters.most:,}. "
        f"Characters of a description: median {described.median:g}, at most {described.most:,}. "
        f"{share} say what they return, {counts.deprecated:,} are deprecated."
    )


def list_section(apis: Iterable[Api]) -> Section:
    """A line for each API."""
    rows = [(a.function, short(f"{a.category}/{a.tool}", 40), short(a.description)) for a in apis]
    return Section(head=("function", "category/tool", "description"), rows=rows)


def api_sections(api: Api) -> list[Section]:
    """An API as a person reads it."""
    source = api.source
    marks = [
        *(source.kind, source.reference, source.operation, source.licence),
        f"collections: {', '.join(api.collections)}" if api.collections else "",
        "deprecated" if api.deprecated else "",
        "" if api.repeatable else "not repeatable",
    ]
    parameters = [
        (
            name,
            type_of(schema),
            "yes" if name in api.required else "",
            str(schema.get("description", "")) if isinstance(schema, dict) else "",
        )
        for name, schema in api.properties.items()
    ]
    shown = [
        Section(api.function, note=f"{api.id}\n{' · '.join(filter(None, marks))}"),
        Section(note=api.description or "(no description)"),
        Section(head=("parameter", "type", "required", "description"), rows=parameters),
    ]
    if api.returns is not None:
        shown.append(Section(note="returns", items=[safe_json(api.returns)]))
    return shown


def type_of(schema: Any) -> str:
    """A schema's type in a word or two, such as `array of string`."""
    if not isinstance(schema, dict):
        return "any"
    kinds = schema.get("type", "any")
    named = " or ".join(map(str, kinds)) if isinstance(kinds, list) else str(kinds)
    if isinstance(schema.get("enum"), list):
        return f"{named}: " + short(" | ".join(map(str, schema["enum"])), 40)
    if named == "array" and isinstance(schema.get("items"), dict):
        return f"array of {type_of(schema['items'])}"
    return named
