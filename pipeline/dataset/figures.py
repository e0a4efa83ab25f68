"""The figures of a version: one fold over its finished tables, `describe`.

Publishing keeps what comes of it in the manifest, verification makes it again and compares; card,
`diff`, screens and pages show what the manifest has. What no table can tell, such as what a run was
refused or paid, is counted from the run's stage files (`run_report.py`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import TypeAlias

from toolloom.pipeline.dataset.configs import (
    APIS,
    CONFIGS,
    INSTRUCTIONS,
    PLANNING,
    REJECTED,
    SAMPLES,
    WORLDS,
)
from toolloom.pipeline.store.files import read_objects
from toolloom.pipeline.store.parquet import Config, read_rows
from toolloom.schemas import (
    Granularity,
    JsonObject,
    Level,
    Metric,
    Scenario,
    Split,
    SplitPlan,
    digest,
)
from toolloom.schemas.splits import api_id, need_of, needed, split_of

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
ORDER = (*(split.value for split in Split), BEFORE_QUERIES)  # of splits, as they are told
LEVELS = tuple(level.value for level in Granularity)
TOLD = (SAMPLES, INSTRUCTIONS, PLANNING, REJECTED, APIS, WORLDS)  # the configs with figures
COUNTED = ("abilities", "scenarios", "categories", "calls", "observations", "reasons")
MOST_SOURCES = 1_000  # of APIs, that a manifest lists
LONGEST = 600  # letters of an example's instruction
VOTES = "votes"
TOOLBENCH = "toolbench"  # a source whose requests are not in the dataset
EXPANDED = "expanded"  # the stage that makes rows of templates and of scripts
REWRITTEN = "rewritten"  # the stage whose rejected records are instructions
PAIRS = "contamination.jsonl"
PAIRS_SHOWN = 20  # of rows and benchmarks, on the card
PER_SCRIPT = 4  # rows of a script, whose words are compared with each other
SCRIPTS = 24  # of a world, whose first rows are compared
_WORD = re.compile(r"\w+")

Place: TypeAlias = tuple[str, str]
"""Hash of a world, name of a script."""


def describe(folder: Path) -> JsonObject:
    """What the manifest tells of the tables in a folder: rows and hashes of their files, and the
    figures of what is in them. In memory that grows with the APIs and scripts, not the rows. Raises
    StoreError for a damaged table, and whatever comes of a row that holds no record."""
    import pyarrow.parquet as pq

    figures, configs = Figures(), dict[str, dict[str, JsonObject]]()
    for config in CONFIGS:
        for split in ORDER:
            files: dict[str, JsonObject] = {}
            for path in sorted((folder / config.name).glob(f"{split}-*.parquet")):
                rows = pq.read_metadata(path).num_rows
                for row in read_rows(path, stored=True) if config in TOLD else ():
                    figures.add(config, split, row)
                told = {"rows": rows, "sha256": sha256(path), "bytes": path.stat().st_size}
                files[path.relative_to(folder).as_posix()] = told
            if files:
                rows = sum(told["rows"] for told in files.values())
                configs.setdefault(config.name, {})[split] = {"rows": rows, "files": files}
    return {**figures.told(), "contamination": _contamination(folder / PAIRS), "configs": configs}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _contamination(path: Path) -> JsonObject | None:
    """What is told of the pairs of rows and benchmarks, if there are any."""
    if not path.is_file():
        return None
    counted, benchmarks, shown = Counter[str](), Counter[str](), list[JsonObject]()
    for pair in read_objects(path):
        counted["dropped" if pair["dropped"] else "flagged"] += 1
        benchmarks[pair["benchmark"]] += 1
        if len(shown) < PAIRS_SHOWN:
            shown.append(pair)
    totals = {name: counted[name] for name in ("dropped", "flagged")}
    return {**totals, "benchmarks": dict(sorted(benchmarks.items())), "examples": shown}


class Figures:
    """What is in tables, by split."""

    def __init__(self) -> None:
        self.dialogues: dict[str, RowCounts] = {}  # with the reasons of rejected records
        self.instructions: defaultdict[str, InstructionCounts] = defaultdict(InstructionCounts)
        self.plays: defaultdict[str, PlayCounts] = defaultdict(PlayCounts)  # dialogues in worlds
        self.worlds: list[JsonObject] = []
        self.sources = Counter[tuple[str, str, str]]()  # of APIs: kind, reference, licence
        # The levels of one request, to be shown: of the first one with the most of them. Rows come
        # split by split, those of one request together.
        self.example: JsonObject = {"sample": None, "levels": {}}
        self._request = self.example

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        """Count a row of a table of `TOLD`, as it is stored."""
        if config in (SAMPLES, INSTRUCTIONS, REJECTED):  # each tells of its split, also of no rows
            counts = self.dialogues.setdefault(split, RowCounts())
        if config is SAMPLES:
            record = config.row.record_of(row)
            counts.add(record)
            if record["dialogue"]["query"].get("setting"):
                self.plays[split].add(record["dialogue"])
        elif config is INSTRUCTIONS:
            self.instructions[split].add(config.row.record_of(row))
            if row["sample"] != self._request["sample"]:
                self._request = {"sample": row["sample"], "levels": {}}
            self._request["levels"][row["level"]] = str(row["instruction"])[:LONGEST]
            self.example = max(self.example, self._request, key=lambda each: len(each["levels"]))
        elif config is PLANNING:
            self.instructions[split].planning[row["task"]] += 1
        elif config is REJECTED:
            record = config.row.record_of(row)
            counts.counts["reasons"][record["reason"]] += 1
            if record["stage"] == REWRITTEN:
                self.instructions[split].reject(record)
        elif config is APIS:
            source = config.row.record_of(row)["source"]
            self.sources[source["kind"], source["reference"], source["licence"]] += 1
        elif config is WORLDS:
            record = config.row.record_of(row)
            told = {name: len(record["spec"][name]) for name in ("operations", "policies")}
            # As those who read scripts name them: one without a name has its number.
            named = [str(each.get("name", n)) for n, each in enumerate(record["scripts"], 1)]
            made = {"name": record["name"], "hash": digest(record["spec"])}
            self.worlds.append({**made, **told, "scripts": named})

    def told(self) -> JsonObject:
        ranked_sources = sorted(self.sources.items(), key=lambda item: (-item[1], item[0]))
        names = ("kind", "reference", "licence", "apis")
        sources = [dict(zip(names, (*k, n), strict=True)) for k, n in ranked_sources]
        instructions = {split: self.instructions[split].told() for split in self.instructions}
        plays = {split: self.plays[split].told() for split in self.plays}
        known = sorted(self.worlds, key=lambda told: (told["name"], told["hash"]))
        said = self.example["levels"]
        example = {**self.example, "levels": {name: said[name] for name in LEVELS if name in said}}
        return {
            "splits": in_order({split: each.told() for split, each in self.dialogues.items()}),
            "instructions": {"splits": in_order(instructions), "example": example}
            if instructions
            else None,
            "apis": {"count": self.sources.total(), "sources": sources[:MOST_SOURCES]},
            "worlds": {"known": known, "splits": in_order(plays)} if known or plays else None,
        }


class RowCounts:
    """Counts over rows, in memory that grows with the APIs, not the rows."""

    def __init__(self) -> None:
        self.rows = 0
        self.several_turns = 0
        self.apis: set[str] = set()  # that calls go to
        # Of several APIs, by level (ToolLLM).
        self.combinations = defaultdict[str, set[frozenset[str]]](set)
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}

    def add(self, row: JsonObject) -> None:
        """Count an accepted row, as JSON; of a run under way it may be any record."""
        need, counts = need_of(row), self.counts
        self.rows += 1
        for kind, name in (("ability", "abilities"), ("scenario", "scenarios")):
            if kind in need:
                counts[name][need[kind]] += 1
        apis = [api for api in needed(need) if api != need.get("outside")]
        if need.get("scenario") != Scenario.IRRELEVANCE:  # its API is not there to call
            ids = frozenset(map(api_id, apis))
            self.apis |= ids
            if len(ids) > 1:
                self.combinations[need.get("level", str(Level.SINGLE_TOOL))].add(ids)
        counts["categories"].update({api["category"] for api in apis})
        messages = row.get("dialogue", row).get("messages", ())
        self.several_turns += sum([m["role"] == "user" for m in messages]) > 1
        counts["calls"][str(sum([len(m.get("tool_calls", ())) for m in messages]))] += 1
        for message in messages:
            if message.get("execution"):
                counts["observations"][message["execution"]["kind"]] += 1

    def told(self) -> JsonObject:
        """The figures, in an order that does not depend on the order of the rows."""
        return {
            "rows": self.rows,
            "rejected": self.counts["reasons"].total(),
            "several_turns": self.several_turns,
            "apis": len(self.apis),
            **{name: _ordered(self.counts[name], name) for name in COUNTED},
        }


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


class InstructionCounts:
    """Instructions of a split, by level."""

    def __init__(self) -> None:
        self.levels = Counter[str]()
        self.sources = Counter[str]()
        self.planning = Counter[str]()  # training rows by task
        self.rejected = defaultdict[str, Counter[str]](Counter)  # reasons by level
        self.ratings = defaultdict[str, Counter[str]](Counter)  # votes and points by level

    def add(self, instruction: JsonObject) -> None:
        """Count an accepted one, as JSON."""
        level = instruction["level"]
        self.levels[level] += 1
        self.sources[instruction["source"]] += 1
        for vote in instruction["ratings"]:
            points = {metric.value: vote[metric.value] for metric in Metric}
            self.ratings[level].update({VOTES: 1, **points})

    def reject(self, record: JsonObject) -> None:
        """Count a rejected one, as JSON."""
        self.rejected[str(record["record"].get("level", ""))][record["reason"]] += 1

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

    def mean(self, level: str, metric: str) -> float | None:
        """Mean of a metric over the votes, from 1 to 3; None if there was none."""
        points = self.ratings.get(level)
        return points[metric] / points[VOTES] if points else None


def instructions_of(manifest: JsonObject) -> InstructionCounts | None:
    """The figures of all splits' instructions; None of a version without any."""
    if not (told := manifest.get("instructions")):
        return None
    total = InstructionCounts()
    for split in told["splits"].values():
        for name in ("levels", "sources", "planning"):
            getattr(total, name).update(split[name])
        for name in ("rejected", "ratings"):
            for level, counts in split[name].items():
                getattr(total, name)[level].update(counts)
    return total


def _by_level(counts: dict[str, Counter[str]]) -> list[tuple[str, Counter[str]]]:
    """In the order of the levels; what has none is first."""
    known = {level: place for place, level in enumerate(LEVELS)}
    return sorted(counts.items(), key=lambda item: (known.get(item[0], -1), item[0]))


class PlayCounts:
    """The dialogues in worlds of a split, in memory that grows with the scripts, not the rows."""

    def __init__(self) -> None:
        self.rows = Counter[Place]()
        # The words of the rows of each script whose ids have the smallest hashes: the same rows in
        # any order.
        self.words = defaultdict[Place, dict[str, frozenset[str]]](dict)

    def add(self, dialogue: JsonObject) -> None:
        """Count a dialogue, as JSON, that plays in a world."""
        query = dialogue["query"]
        place = str(query["setting"]["hash"]), str(query["setting"].get("script", ""))
        self.rows[place] += 1
        kept, name = self.words[place], _rank(query["id"])
        if len(kept) < PER_SCRIPT or name < max(kept):
            talk = (m for m in dialogue["messages"] if m["role"] in ("user", "assistant"))
            said = ((m.get("content") or "").lower() for m in talk)
            kept[name] = frozenset(word for text in said for word in _WORD.findall(text))
            if len(kept) > PER_SCRIPT:
                del kept[max(kept)]

    def told(self) -> JsonObject:
        """By the hash of a world: the rows of its scripts, and how alike they are (`shared`: the
        sum of the shares of words that two rows have in common; `pairs`: of how many)."""
        told: JsonObject = {}
        for hash in sorted({hash for hash, _ in self.rows}):
            places = sorted(place for place in self.rows if place[0] == hash)
            rows = {place: [w for _, w in sorted(self.words[place].items())] for place in places}
            same = (pair for place in places if place[1] for pair in combinations(rows[place], 2))
            chosen = nsmallest(SCRIPTS, places, key=lambda place: _rank(place[1]))
            told[hash] = {
                "scripts": {script: self.rows[hash, script] for _, script in places},
                "same": _alike(same),
                "other": _alike(combinations([rows[place][0] for place in chosen], 2)),
            }
        return told


def _rank(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def _alike(pairs: Iterable[tuple[frozenset[str], frozenset[str]]]) -> JsonObject:
    shares = [len(a & b) / (len(a | b) or 1) for a, b in pairs]
    return {"pairs": len(shares), "shared": round(sum(shares), 3)}


@dataclass(frozen=True)
class WorldTold:
    """A world and what came of it, over all splits."""

    name: str
    operations: int
    policies: int
    rows: int
    scripts: dict[str, int]  # rows of each script that gave any
    dry: tuple[str, ...]  # scripts that gave no row
    same: float | None  # mean share of words that two rows of a script have in common
    other: float | None  # the same of rows of different scripts

    @property
    def median(self) -> float:
        """Rows of a script."""
        return median(self.scripts.values()) if self.scripts else 0

    @property
    def most(self) -> int:
        return max(self.scripts.values(), default=0)


def worlds_told(manifest: JsonObject) -> list[WorldTold]:
    """The worlds of a version, by name; none of one without any."""
    told = manifest.get("worlds") or {"known": [], "splits": {}}
    found = []
    for world in told["known"]:
        parts = [
            split[world["hash"]] for split in told["splits"].values() if world["hash"] in split
        ]
        rows = sum((Counter[str](part["scripts"]) for part in parts), Counter[str]())
        found.append(
            WorldTold(
                name=world["name"],
                operations=world["operations"],
                policies=world["policies"],
                rows=rows.total(),
                scripts={script: count for script, count in rows.items() if script},
                dry=tuple(script for script in world["scripts"] if script not in rows),
                same=_mean([part["same"] for part in parts]),
                other=_mean([part["other"] for part in parts]),
            )
        )
    return found


def _mean(parts: Iterable[JsonObject]) -> float | None:
    parts = list(parts)
    pairs = sum(part["pairs"] for part in parts)
    return sum(part["shared"] for part in parts) / pairs if pairs else None


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
