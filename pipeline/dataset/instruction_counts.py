"""What is in instructions and their training rows, counted: figures of manifests and cards.

All of them are sums, so that a split's figures can be told again from those of its parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from toolloom.schemas import Granularity, JsonObject, Metric

LEVELS = tuple(level.value for level in Granularity)
VOTES = "votes"
TOOLBENCH = "toolbench"  # a source whose requests are not in the dataset
STAGE = "rewritten"  # whose rejected records are instructions


class InstructionCounts:
    """Instructions of a split, by level."""

    def __init__(self, told: JsonObject | None = None) -> None:
        """`told`: what `told()` gave, to count on from."""
        told = told or {}
        self.levels = Counter[str](told.get("levels", {}))
        self.sources = Counter[str](told.get("sources", {}))
        self.planning = Counter[str](told.get("planning", {}))
        self.rejected = _nested(told.get("rejected", {}))
        self.ratings = _nested(told.get("ratings", {}))

    def add(self, instruction: JsonObject) -> None:
        """Count an accepted one, as JSON."""
        level = instruction["level"]
        self.levels[level] += 1
        self.sources[instruction["source"]] += 1
        for vote in instruction["ratings"]:
            points = self.ratings.setdefault(level, Counter())
            points[VOTES] += 1
            for metric in Metric:
                points[metric.value] += vote[metric.value]

    def train(self, row: JsonObject) -> None:
        """Count a row of `planning`."""
        self.planning[row["task"]] += 1

    def reject(self, record: JsonObject) -> None:
        """Count a rejected record, as JSON, if it is of an instruction."""
        if record["stage"] == STAGE:
            level = str(record["record"].get("level", ""))
            self.rejected.setdefault(level, Counter())[record["reason"]] += 1

    def told(self) -> JsonObject:
        """The figures, in an order that does not depend on that of the rows."""
        return {
            "levels": {level: self.levels[level] for level in LEVELS if self.levels[level]},
            "sources": dict(sorted(self.sources.items())),
            "planning": dict(sorted(self.planning.items())),
            "rejected": {
                level: dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
                for level, found in _by_level(self.rejected)
            },
            "ratings": {
                level: {name: found[name] for name in (VOTES, *map(str, Metric))}
                for level, found in _by_level(self.ratings)
            },
        }

    def __bool__(self) -> bool:
        return bool(self.levels or self.rejected)

    def __add__(self, other: InstructionCounts) -> InstructionCounts:
        both = InstructionCounts()
        both.levels = self.levels + other.levels
        both.sources = self.sources + other.sources
        both.planning = self.planning + other.planning
        both.rejected = _sum(self.rejected, other.rejected)
        both.ratings = _sum(self.ratings, other.ratings)
        return both

    @classmethod
    def of_all(cls, splits: Iterable[JsonObject]) -> InstructionCounts:
        """All splits' told figures in one."""
        return sum(map(cls, splits), cls())

    def mean(self, level: str, metric: str) -> float | None:
        """Mean of a metric over the votes, from 1 to 3; None if there was none."""
        points = self.ratings.get(level)
        return points[metric] / points[VOTES] if points else None


def instructions_of(manifest: JsonObject) -> InstructionCounts | None:
    """The figures of all splits' instructions; None of a version without any."""
    told = manifest.get("instructions")
    return InstructionCounts.of_all(told["splits"].values()) if told else None


def _nested(told: JsonObject) -> dict[str, Counter[str]]:
    return {level: Counter(found) for level, found in told.items()}


def _sum(one: dict[str, Counter[str]], other: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    levels = dict.fromkeys((*one, *other))
    return {level: one.get(level, Counter()) + other.get(level, Counter()) for level in levels}


def _by_level(found: dict[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """In the order of the levels; what has none is first."""
    known = {level: place for place, level in enumerate(LEVELS)}
    return sorted(found.items(), key=lambda item: (known.get(item[0], -1), item[0]))
