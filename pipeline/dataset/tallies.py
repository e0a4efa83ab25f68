"""What is in rows, counted: the figures of runs, manifests and cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from toolloom.pipeline.dataset.coverage import Covered
from toolloom.schemas import JsonObject, Split, SplitPlan
from toolloom.schemas.splits import api_id, needed, split_of

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
MOST_SOURCES = 1_000  # of APIs, that a manifest lists


class RowCounts:
    """Counts over rows, in memory that grows with the APIs, not the rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.several_turns = 0
        self.apis: set[str] = set()
        self.covered = Covered()
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}

    @classmethod
    def of(cls, rows: Iterable[JsonObject]) -> RowCounts:
        counted = cls()
        for row in rows:
            counted.add(row)
        return counted

    def add(self, row: JsonObject, times: int = 1) -> None:
        """Count an accepted row, as JSON; of a run under way it may be any record.

        `times`: as many rows differ from it in nothing but values.
        """
        need, counts = need_of(row), self.counts
        self.rows += times
        for kind, name in (("ability", "abilities"), ("scenario", "scenarios")):
            if kind in need:
                counts[name][need[kind]] += times
        self.covered.add(need)
        apis = [api for api in needed(need) if api != need.get("outside")]
        self.apis.update(map(api_id, apis))
        for category in {api["category"] for api in apis}:
            counts["categories"][category] += times
        messages = row.get("dialogue", row).get("messages", ())
        self.several_turns += times * (sum([m["role"] == "user" for m in messages]) > 1)
        counts["calls"][str(sum([len(m.get("tool_calls", ())) for m in messages]))] += times
        for message in messages:
            if message.get("execution"):
                counts["observations"][message["execution"]["kind"]] += times

    def reject(self, reason: str) -> None:
        self.counts["reasons"][reason] += 1

    def told(self) -> JsonObject:
        """The figures, in an order that does not depend on the order of the rows."""
        return {
            "rows": self.rows,
            "rejected": self.counts["reasons"].total(),
            "several_turns": self.several_turns,
            "apis": len(self.apis),
            **{name: _ordered(self.counts[name], name) for name in COUNTED},
        }

    def __add__(self, other: RowCounts) -> RowCounts:
        both = RowCounts()
        both.rows = self.rows + other.rows
        both.several_turns = self.several_turns + other.several_turns
        both.apis = self.apis | other.apis
        both.covered = self.covered + other.covered
        both.counts = {name: self.counts[name] + other.counts[name] for name in COUNTED}
        return both


COUNTED = ("abilities", "scenarios", "categories", "calls", "observations", "reasons")


def _ordered(counts: Counter[str], name: str) -> dict[str, int]:
    if name == "calls":
        return {key: counts[key] for key in sorted(counts, key=int)}
    if name == "reasons":
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return dict(sorted(counts.items()))


def added(told: Iterable[JsonObject], name: str) -> dict[str, int]:
    """One of `COUNTED`, summed over splits."""
    total: Counter[str] = Counter()
    for each in told:
        total.update(each[name])
    return _ordered(total, name)


def with_rejects(told: JsonObject, reasons: Mapping[str, int]) -> JsonObject:
    """A split's figures with more rejected records, without the runs."""
    both = Counter(told["reasons"]) + Counter(reasons)
    found = {name: value for name, value in told.items() if name != "runs"}
    return {**found, "rejected": both.total(), "reasons": _ordered(both, "reasons")}


def sources(apis: Iterable[JsonObject]) -> list[JsonObject]:
    """Where APIs come from: kind, reference, licence and number of APIs, most first."""
    found: Counter[tuple[str, str, str]] = Counter()
    for api in apis:
        source = api["source"]
        found[source["kind"], source["reference"], source["licence"]] += 1
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    names = ("kind", "reference", "licence", "apis")
    return [dict(zip(names, (*key, n), strict=True)) for key, n in ranked[:MOST_SOURCES]]


def need_of(row: JsonObject) -> JsonObject:
    """The need or query inside a record of any stage, as JSON; empty where there is none."""
    inner: Any = row
    while isinstance(inner, dict) and "ability" not in inner:
        inner = inner.get("query", inner.get("dialogue"))
    return inner if isinstance(inner, dict) else {}


def place_of_rejected(plan: SplitPlan, record: JsonObject) -> str:
    """The split of `rejected` that a rejected record's own record belongs into.

    That of its calls; of an instruction that fell the one it says; else `BEFORE_QUERIES`.
    """
    need = need_of(record)
    if "intent" in need:
        return split_of(plan, need).value
    split = record.get("split")
    return split if split in tuple(Split) else BEFORE_QUERIES
