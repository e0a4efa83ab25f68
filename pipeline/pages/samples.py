"""The samples that a report shows: of each kind some, each as HTML."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from toolloom.pipeline.dataset.figures import LEVELS
from toolloom.pipeline.pages.dialogue import dialogue_html
from toolloom.pipeline.pages.reading import ReadRows, Row, readable
from toolloom.pipeline.render.html import render
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject
from toolloom.schemas.splits import need_of

REASONS = 16  # of which rejected records are shown, the most frequent ones
LONGEST = 20_000  # characters of a text that are shown
RAW = 12  # raw responses of a record that are shown
RAW_LONGEST = 2_000  # and characters of each
RAW_NOTE = "… (cut here: the config `rejected` has it whole)"
_JSON = ("findings", "record", "provenance")


@dataclass(frozen=True)
class Shown:
    """A sample on the page, and what it can be found by."""

    group: str
    html: str
    facets: dict[str, str] = field(default_factory=dict)


def samples(version: Version, seen: ReadRows) -> Iterator[Shown]:
    """Of each ability, of rows of templates, of each reason, and of requests with instructions.

    Raises StoreError for a row that is damaged.
    """
    for show, row in _drawn(seen):
        with readable(version, row[1]):
            yield show(row)
    yield from map(_instructed, seen.instructed.items())


def _drawn(seen: ReadRows) -> Iterator[tuple[Callable[[Row], Shown], Row]]:
    for ability in sorted(seen.accepted.seen()):
        yield from ((_accepted, row) for row in seen.accepted.items(ability))
    for reason in [*seen.rejected.seen()][:REASONS]:
        yield from ((_rejected, row) for row in seen.rejected.items(reason))
    yield from ((_expanded, row) for row in seen.templates.items())


def _expanded(row: Row) -> Shown:
    return _accepted(row, "templates")


def _accepted(row: Row, group: str = "accepted") -> Shown:
    split, stored = row
    record = {part: json.loads(stored[part]) for part in PARTS}
    html = dialogue_html({"id": stored["id"], **record}, longest=LONGEST)
    return _shown(group, html, split, record)


def _rejected(row: Row) -> Shown:
    split, stored = row
    record = {**stored, **{name: json.loads(stored[name]) for name in _JSON}}
    record["raw"] = [_cut(raw) for raw in stored["raw"][:RAW]]
    html = dialogue_html(record, raw=True, longest=LONGEST)
    return _shown("rejected", html, split, record["record"], stored)


def _cut(raw: str) -> str:
    return raw if len(raw) <= RAW_LONGEST else raw[:RAW_LONGEST] + RAW_NOTE


def _shown(
    group: str, html: str, split: str, record: JsonObject, row: JsonObject | None = None
) -> Shown:
    need, fallen = need_of(record), row or {}
    facets = {
        "reason": fallen.get("reason"),
        "stage": fallen.get("stage"),
        "ability": need.get("ability"),
        "scenario": need.get("scenario"),
        "split": split,
    }
    return Shown(group, html, {k: str(v) for k, v in facets.items() if v})


def _instructed(rows: list[Row]) -> Shown:
    """A request as it is said at each level, from little to all."""
    split, first = rows[0]
    levels = sorted((row for _, row in rows), key=lambda row: _depth(row["level"]))
    said = [(row["level"], row["instruction"][:LONGEST]) for row in levels]
    html = render("instructions.html.j2", id=first["sample"], said=said, path=first["path"] or ())
    return Shown("instructions", html, {"split": split, "source": first["source"]})


def _depth(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else len(LEVELS)
