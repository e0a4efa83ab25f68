"""What is in a split, counted from its rows: the figures of the manifest and of the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from toolloom.pipeline.splits import api_id, needed
from toolloom.schemas import JsonObject

MOST_SOURCES = 1_000  # of APIs, that a manifest lists


class Tally:
    """Counts over the rows of a split, in memory that grows with the APIs, not the rows."""

    def __init__(self) -> None:
        self._rows = 0
        self._several_turns = 0
        self._apis: set[str] = set()
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}

    def add(self, sample: JsonObject) -> None:
        """Count an accepted sample, as JSON."""
        dialogue = sample["dialogue"]
        query, messages = dialogue["query"], dialogue["messages"]
        apis, counts = needed(query), self._counts
        self._rows += 1
        self._several_turns += sum(m["role"] == "user" for m in messages) > 1
        self._apis.update(map(api_id, apis))
        counts["abilities"][query["ability"]] += 1
        counts["scenarios"][query["scenario"]] += 1
        counts["categories"].update({api["category"] for api in apis})
        counts["calls"][str(sum(len(m.get("tool_calls", ())) for m in messages))] += 1
        counts["observations"].update(m["execution"]["kind"] for m in messages if m["execution"])

    def reject(self, reason: str) -> None:
        self._counts["reasons"][reason] += 1

    def told(self) -> JsonObject:
        """The figures, in an order that does not depend on the order of the rows."""
        counts = {name: _ordered(self._counts[name], name) for name in COUNTED}
        rejected = self._counts["reasons"].total()
        return {
            "rows": self._rows,
            "rejected": rejected,
            "several_turns": self._several_turns,
            "apis": len(self._apis),
            **counts,
        }


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


def sources(apis: Iterable[JsonObject]) -> list[JsonObject]:
    """Where APIs come from: kind, reference, licence and number of APIs, most first."""
    found: Counter[tuple[str, str, str]] = Counter()
    for api in apis:
        source = api["source"]
        found[source["kind"], source["reference"], source["licence"]] += 1
    ranked = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    names = ("kind", "reference", "licence", "apis")
    return [dict(zip(names, (*key, n), strict=True)) for key, n in ranked[:MOST_SOURCES]]
