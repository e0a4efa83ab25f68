"""The figures of a version: one fold over the rows of its tables.

Publishing folds the rows as it writes them and keeps what comes out in the manifest; verification
folds what it reads and compares; card, `diff`, screens and pages show what the manifest has. What
no table can tell, such as what a run was refused or paid, is counted from the run's stage files
(`report.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain, groupby
from operator import itemgetter
from typing import TypeAlias

from toolloom.pipeline.dataset.plays import PlayCounts, world_json
from toolloom.pipeline.dataset.rows import (
    APIS,
    INSTRUCTIONS,
    PLANNING,
    REJECTED,
    SAMPLES,
    WORLDS,
)
from toolloom.pipeline.store.tables import Config
from toolloom.schemas import Granularity, JsonObject, Level, Metric, Scenario, Split, SplitPlan
from toolloom.schemas.splits import api_id, need_of, needed, split_of

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
ORDER = (*(split.value for split in Split), BEFORE_QUERIES)  # of splits, as they are told
LEVELS = tuple(level.value for level in Granularity)
COUNTED = ("abilities", "scenarios", "categories", "calls", "observations", "reasons")
MOST_SOURCES = 1_000  # of APIs, that a manifest lists
LONGEST = 600  # letters of an example's instruction
VOTES = "votes"
TOOLBENCH = "toolbench"  # a source whose requests are not in the dataset
EXPANDED = "expanded"  # the stage that makes rows of templates and of scripts
REWRITTEN = "rewritten"  # the stage whose rejected records are instructions

Maker: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Stage, agent, model and the hashes of the prompts."""


DIMENSIONS = ("abilities", "scenarios", "categories", "calls", "reasons")
"""What of a split's figures a diff shows."""

Pair: TypeAlias = tuple[int, int]
"""A count before and after."""


class Figures:
    """What is in tables, by split, in memory that grows with the APIs and not with the rows."""

    def __init__(self) -> None:
        self.dialogues: dict[str, RowCounts] = {}  # with the reasons of rejected records
        self.instructions: dict[str, InstructionCounts] = {}
        self.plays: dict[str, PlayCounts] = {}  # dialogues in worlds
        self.worlds: list[JsonObject] = []
        self.expanded = Counter[str]()  # rows of templates
        self.sources = Counter[tuple[str, str, str]]()  # of APIs: kind, reference, licence
        self.makers: set[Maker] = set()  # who made samples and instructions

    def add(
        self,
        config: Config,
        split: str,
        row: JsonObject,
        record: JsonObject | None = None,
        times: int = 1,
    ) -> None:
        """Count a row of a table; of a config without figures nothing.

        `record`: what the row holds, if it was read already. `times`: as many rows differ from it
        in nothing but values.
        """
        if config is PLANNING:
            self.of_instructions(split).train(row)
        if config not in (SAMPLES, INSTRUCTIONS, REJECTED, APIS, WORLDS):
            return
        record = config.row.record_of(row) if record is None else record
        if config is APIS:
            source = record["source"]
            self.sources[source["kind"], source["reference"], source["licence"]] += 1
            return
        if config is WORLDS:
            self.worlds.append(world_json(record))
            return
        dialogues = self.dialogues.setdefault(split, RowCounts())  # told, also if it has none
        if config is SAMPLES:
            dialogues.add(record, times)
            if record["dialogue"]["query"].get("setting"):
                self.plays.setdefault(split, PlayCounts()).add(record["dialogue"], times)
            parts = (record, record["dialogue"], record["dialogue"]["query"])
            self.makers |= set(map(maker, chain(*(part["provenance"] for part in parts))))
            if any(share["stage"] == EXPANDED for share in record["provenance"]):
                self.expanded[split] += times
        elif config is INSTRUCTIONS:
            self.of_instructions(split).add(record)
            self.makers |= set(map(maker, record["provenance"]))
        else:
            dialogues.reject(record["reason"])
            self.of_instructions(split).reject(record)

    def of_instructions(self, split: str) -> InstructionCounts:
        return self.instructions.setdefault(split, InstructionCounts())

    def worlds_json(self) -> list[JsonObject]:
        """The worlds by name, with what they hold."""
        return sorted(self.worlds, key=lambda told: (told["name"], told["hash"]))

    def apis_json(self) -> JsonObject:
        """How many APIs, and where they come from: kind, reference, licence, most first."""
        ranked = sorted(self.sources.items(), key=lambda item: (-item[1], item[0]))
        names = ("kind", "reference", "licence", "apis")
        listed = [dict(zip(names, (*key, n), strict=True)) for key, n in ranked[:MOST_SOURCES]]
        return {"count": self.sources.total(), "sources": listed}


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


def _ordered(counts: Counter[str], name: str) -> dict[str, int]:
    if name == "calls":
        return {key: counts[key] for key in sorted(counts, key=int)}
    return ranked(counts) if name == "reasons" else dict(sorted(counts.items()))


def ranked(counts: Mapping[str, int]) -> dict[str, int]:
    """Most first; of equal counts by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def added(told: Iterable[JsonObject], name: str) -> dict[str, int]:
    """One of `COUNTED`, summed over splits."""
    return _ordered(sum((Counter(each[name]) for each in told), Counter[str]()), name)


def with_rejects(told: JsonObject, reasons: Counter[str]) -> JsonObject:
    """A split's figures with these rejected records instead of its own, without the runs."""
    others = {name: value for name, value in told.items() if name != "runs"}
    return {**others, "rejected": reasons.total(), "reasons": ranked(reasons)}


class InstructionCounts:
    """Instructions of a split, by level."""

    def __init__(self, told: JsonObject | None = None) -> None:
        """`told`: what `told()` gave, to count on from."""
        told = told or {}
        self.levels = Counter[str](told.get("levels", {}))
        self.sources = Counter[str](told.get("sources", {}))
        self.planning = Counter[str](told.get("planning", {}))
        self.rejected, self.ratings = (
            {level: Counter[str](counts) for level, counts in told.get(name, {}).items()}
            for name in ("rejected", "ratings")
        )

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
        if record["stage"] == REWRITTEN:
            level = str(record["record"].get("level", ""))
            self.rejected.setdefault(level, Counter())[record["reason"]] += 1

    def told(self) -> JsonObject:
        """The figures, in an order that does not depend on that of the rows."""
        return {
            "levels": {level: self.levels[level] for level in LEVELS if self.levels[level]},
            "sources": dict(sorted(self.sources.items())),
            "planning": dict(sorted(self.planning.items())),
            "rejected": {level: ranked(reasons) for level, reasons in _by_level(self.rejected)},
            "ratings": {
                level: {name: points[name] for name in (VOTES, *map(str, Metric))}
                for level, points in _by_level(self.ratings)
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

    def mean(self, level: str, metric: str) -> float | None:
        """Mean of a metric over the votes, from 1 to 3; None if there was none."""
        points = self.ratings.get(level)
        return points[metric] / points[VOTES] if points else None


def instructions_of(manifest: JsonObject) -> InstructionCounts | None:
    """The figures of all splits' instructions; None of a version without any."""
    told = manifest.get("instructions")
    splits = map(InstructionCounts, told["splits"].values()) if told else ()
    return sum(splits, InstructionCounts()) if told else None


def _sum(one: dict[str, Counter[str]], other: dict[str, Counter[str]]) -> dict[str, Counter[str]]:
    levels = dict.fromkeys((*one, *other))
    return {level: one.get(level, Counter()) + other.get(level, Counter()) for level in levels}


def _by_level(counts: dict[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """In the order of the levels; what has none is first."""
    known = {level: place for place, level in enumerate(LEVELS)}
    return sorted(counts.items(), key=lambda item: (known.get(item[0], -1), item[0]))


class Covered:
    """What needs cover: APIs, and combinations of several of them (ToolLLM, section 2.2); in memory
    that grows with these."""

    def __init__(self) -> None:
        self.apis: set[str] = set()
        self.combinations: dict[str, set[frozenset[str]]] = {}

    def add(self, need: JsonObject) -> None:
        """Count a need, as JSON. An irrelevant one covers nothing: its API is not there to call."""
        if not need or need["scenario"] == Scenario.IRRELEVANCE:
            return
        wanted = frozenset(intention["api"] for intention in need["intent"])
        self.apis |= wanted
        if len(wanted) > 1:
            level = need.get("level", str(Level.SINGLE_TOOL))
            self.combinations.setdefault(level, set()).add(wanted)

    def __add__(self, other: Covered) -> Covered:
        both = Covered()
        both.apis = self.apis | other.apis
        for level in {**self.combinations, **other.combinations}:
            parts = (covered.combinations.get(level, set()) for covered in (self, other))
            both.combinations[level] = set[frozenset[str]]().union(*parts)
        return both


def split_of_rejected(plan: SplitPlan, record: JsonObject) -> str:
    """The split of `rejected` that a rejected record's own record belongs into.

    That of its calls; of an instruction that fell the one it says; else `BEFORE_QUERIES`.
    """
    need = need_of(record)
    if "intent" in need:
        return split_of(plan, need).value
    split = record.get("split")
    return split if split in tuple(Split) else BEFORE_QUERIES


def in_order(splits: JsonObject) -> JsonObject:
    """Figures by split, in the order in which splits are told."""
    return {split: splits[split] for split in sorted(splits, key=ORDER.index)}


def maker(share: JsonObject) -> Maker:
    return share["stage"], share["agent"], share["model"], tuple(share["prompts"])


def example(rows: Iterable[JsonObject]) -> JsonObject | None:
    """The levels of a request: the first one that has all, else the first with the most.

    `rows`: of the config `instructions`, split by split.
    """
    best: JsonObject | None = None
    for name, group in groupby(rows, key=itemgetter("sample")):
        texts = {row["level"]: str(row["instruction"])[:LONGEST] for row in group}
        levels = {level: texts[level] for level in LEVELS if level in texts}
        if best is None or len(levels) > len(best["levels"]):
            best = {"sample": name, "levels": levels}
        if len(levels) == len(LEVELS):
            break
    return best


# --- what differs between the figures of two versions


def subtracted(
    old: Mapping[str, JsonObject], new: Mapping[str, JsonObject]
) -> dict[str, dict[str, dict[str, Pair]]]:
    """The stored figures of two versions by split, dimension and value: each count of both."""
    return {
        split: {
            name: _beside(name, old.get(split, {}).get(name, {}), new.get(split, {}).get(name, {}))
            for name in DIMENSIONS
        }
        for split in dict.fromkeys(chain(old, new))
    }


def _beside(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, Pair]:
    values = [*dict.fromkeys((*old, *new))]
    if name == "calls":  # numbers, as text
        values.sort(key=lambda value: (len(value), value))
    return {value: (old.get(value, 0), new.get(value, 0)) for value in values}


def summed(figures: Mapping[str, Mapping[str, Mapping[str, Pair]]], name: str) -> dict[str, Pair]:
    """A dimension's counts over all splits."""
    sums: tuple[Counter[str], Counter[str]] = Counter(), Counter()
    for dimensions in figures.values():
        for value, pair in dimensions.get(name, {}).items():
            for total, count in zip(sums, pair, strict=True):
                total[value] += count
    return _beside(name, *sums)
