"""What a person sees of pools and APIs. Text of documents is shown as data, whatever it holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType

from toolloom.pipeline.apis.pool.counts import PoolCounts
from toolloom.pipeline.apis.pool.importing import Failed
from toolloom.pipeline.apis.pool.quality import Filtered, Rule
from toolloom.pipeline.render.terminal import UNSAFE, grid, indented, text
from toolloom.schemas import Api, ImportReport, JsonObject

SHOWN = 10  # lines of a kind; the file has all
WIDEST = 72  # characters of a description in a table
KINDS = ("renamed", "cut", "unresolved", "skipped", "notes")
WORDS = ("source", "format", "version")
COLUMNS = (*WORDS, "read", "imported", "replaced", "examples", *KINDS[:4], "seconds")
ALWAYS = ("source", "format", "read", "imported", "seconds")


def safe_json(value: Any) -> str:
    """JSON as text that a terminal obeys nothing of, and that still is the same JSON."""
    shown = json.dumps(value, indent=2, ensure_ascii=False)
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", shown)


def short(value: str, widest: int = WIDEST) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(value[: 4 * widest].split())
    return line if len(line) <= widest else line[: widest - 1] + "…"


def imports_view(reports: Sequence[ImportReport], where: str) -> RenderableType:
    """A table of imports, and below it what was lost or changed. `where`: the file with all."""
    rows = [_row(report) for report in reports]
    # A table of all columns is too wide for most terminals, and most would hold zeros.
    head = [n for n in COLUMNS if n in ALWAYS or any(row[n] for row in rows)]
    table = grid(head, [[row[name] for name in head] for row in rows])
    for column, name in zip(table.columns, head, strict=True):
        column.min_width = 0 if name in WORDS else len(name)
    return Group(table, *_losses(reports, where))


def _row(report: ImportReport) -> dict[str, object]:
    """The values of all columns."""
    kinds = {kind: len(getattr(report, kind)) for kind in KINDS}
    return {**dict(report), **kinds, "seconds": f"{report.seconds:.1f}"}


def _losses(reports: Sequence[ImportReport], where: str) -> Iterator[RenderableType]:
    for kind in KINDS:
        lines = [_line(kind, one) for report in reports for one in getattr(report, kind)]
        if lines:
            yield text("")
            yield text(f"{kind}:", "bold")
            yield from (indented(line) for line in lines[:SHOWN])
        if len(lines) > SHOWN:
            yield indented(f"… and {len(lines) - SHOWN:,} more, all in {where}")


def _line(kind: str, one: Any) -> str:
    if kind == "renamed":
        return f"{short(one.api)}: {short(one.old)} is now {one.new} ({one.why})"
    if kind == "cut":
        size = f", {one.bytes:,} bytes" if one.bytes else ""
        return f"{short(one.api)}: {short(one.place)} ({one.why}{size})"
    if kind == "unresolved":
        return f"{short(one.place)}: {short(one.reference)} ({one.why})"
    if kind == "skipped":
        return f"{short(one.what)}: {short(one.why, 200)}"
    return short(str(one), 300)


def failures_text(failed: Iterable[Failed]) -> str:
    return "\n".join(f"{one.source}: not imported. {one.error}" for one in failed)


def imports_json(pool: str, outcomes: Iterable[ImportReport | Failed]) -> JsonObject:
    """All of an import, as `--report` writes it."""
    made: JsonObject = {"pool": pool, "imports": [], "failed": []}
    for one in outcomes:
        if isinstance(one, Failed):
            made["failed"].append({"source": one.source, "error": one.error})
        else:
            made["imports"].append(one.model_dump(mode="json"))
    return made


def list_view(apis: Iterable[Api]) -> RenderableType:
    rows = [(a.function, short(f"{a.category}/{a.tool}", 40), short(a.description)) for a in apis]
    return grid(("function", "category/tool", "description"), rows)


def api_view(api: Api) -> RenderableType:
    """An API as a person reads it."""
    source = api.source
    origin = [source.kind, source.reference, source.operation, source.licence]
    marks = [f"collections: {', '.join(api.collections)}"] if api.collections else []
    marks += ["deprecated"] if api.deprecated else []
    marks += [] if api.repeatable else ["not repeatable"]
    parts: list[RenderableType] = [
        text(api.function, "bold"),
        text(api.id),
        text(" · ".join(filter(None, [*origin, *marks])), "dim"),
        text(""),
        text(api.description or "(no description)"),
        text(""),
        grid(("parameter", "type", "required", "description"), _parameters(api)),
    ]
    if api.returns is not None:
        parts += [text(""), text("returns", "dim"), indented(safe_json(api.returns))]
    return Group(*parts)


def _parameters(api: Api) -> list[tuple[str, str, str, str]]:
    return [
        (
            name,
            type_of(schema),
            "yes" if name in api.required else "",
            str(schema.get("description", "")) if isinstance(schema, dict) else "",
        )
        for name, schema in api.properties.items()
    ]


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


def pool_view(counts: PoolCounts) -> RenderableType:
    """The tables of a pool's counts."""
    tables = {
        "kind of source": counts.kinds,
        "category": counts.categories,
        "category/tool": counts.tools,
        "collection": counts.collections,
    }
    parts: list[RenderableType] = []
    for title, numbers in tables.items():
        if numbers:
            parts += [grid((title, "APIs"), _first(numbers)), text("")]
    sources = [(s.kind, s.reference, s.licence or "not known", s.apis) for s in counts.sources]
    if sources:
        parts.append(grid(("source", "reference", "licence", "APIs"), sources[:SHOWN]))
        parts += [text(f"… and {len(sources) - SHOWN:,} more")] if len(sources) > SHOWN else []
        parts.append(text(""))
    return Group(*parts, *map(text, _in_words(counts)))


def _first(numbers: dict[str, int]) -> list[tuple[str, int]]:
    """The first of many, and a line for the sum of the others."""
    rows = list(numbers.items())
    rest = rows[SHOWN:]
    more = [(f"… and {len(rest):,} more", sum(number for _, number in rest))] if rest else []
    return [*rows[:SHOWN], *more]


def _in_words(counts: PoolCounts) -> list[str]:
    share = f"{counts.returns / counts.apis:.0%}" if counts.apis else "none"
    of_a_kind = (
        f"{counts.apis:,} APIs of {len(counts.tools):,} tools in {len(counts.categories):,} "
        f"categories and {len(counts.collections):,} collections, from {len(counts.sources):,} "
        f"sources in {counts.imports:,} imports; {counts.examples:,} public APIs as examples."
    )
    parameters, described = counts.parameters, counts.descriptions
    each = (
        f"Parameters of an API: median {parameters.median:g}, at most {parameters.most:,}. "
        f"Characters of a description: median {described.median:g}, at most {described.most:,}. "
        f"{share} say what they return, {counts.deprecated:,} are deprecated."
    )
    return [of_a_kind, each]


def rules_view(rules: Iterable[Rule], counted: Filtered) -> RenderableType:
    rows = [(rule.name, counted.broken[rule.name], rule.description) for rule in rules]
    return grid(("rule", "APIs", "what it leaves out"), rows)


class Count:
    """How many APIs of which source an import has seen."""

    def __init__(self) -> None:
        self._now = ("", 0)

    def seen(self, source: str, number: int) -> None:
        """Told by the import, for each API."""
        self._now = (source, number)

    def line(self, seconds: float) -> str:
        source, number = self._now
        return f"{source}: {number:,} APIs so far, {seconds:.0f} s"
