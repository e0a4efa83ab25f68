"""What is told in figures: of a version, and of a run.

`describe` is the one fold over the finished tables of a version. Publishing keeps what comes of it
in the manifest, verification makes it again and compares; card, `diff`, screens and pages show what
the manifest has. What no table can tell is counted from the files of a run's stages (`count`):
records that fell and why, requests, tokens and cost by stage, how much of a pool of APIs queries
and templates cover, what curation found of benchmarks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import chain, combinations
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from pydantic import Field

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
from toolloom.pipeline.store.run_folder import RunFolder, begun_with
from toolloom.pipeline.store.version import Config, read_rows
from toolloom.schemas import (
    AgentName,
    ExpansionPlan,
    Granularity,
    Instruction,
    JsonObject,
    Level,
    Metric,
    Reason,
    Recipe,
    Record,
    Scenario,
    Split,
    SplitPlan,
    Template,
    Usage,
)
from toolloom.schemas.splits import api_id, need_of, needed, split_of, tool_of, zone

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

K = TypeVar("K", str, tuple[str, str, str])
Place: TypeAlias = tuple[str, str]
"""Hash of a world, name of a script."""


def describe(folder: Path, counted: Figures | None = None) -> JsonObject:
    """What the manifest tells of the tables in a folder: rows and hashes of their files, and the
    figures of what is in them, `counted` by who has read them. In memory that grows with the APIs
    and scripts, not the rows. Raises StoreError for a damaged table, and whatever comes of a row
    that holds no record."""
    import pyarrow.parquet as pq

    figures, configs = counted or Figures(), dict[str, dict[str, JsonObject]]()
    for config in CONFIGS:
        for split in ORDER:
            files: dict[str, JsonObject] = {}
            for path in sorted((folder / config.name).glob(f"{split}-*.parquet")):
                rows = pq.read_metadata(path).num_rows
                if config in TOLD and counted is None:
                    for row in read_rows(path, stored=True):
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
    found = [*read_objects(path)]
    dropped = sum(bool(pair["dropped"]) for pair in found)
    totals = {"dropped": dropped, "flagged": len(found) - dropped}
    by_name = sorted(Counter(pair["benchmark"] for pair in found).items())
    return {**totals, "benchmarks": dict(by_name), "examples": found[:PAIRS_SHOWN]}


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

    def add(
        self, config: Config, split: str, row: JsonObject, record: JsonObject | None = None
    ) -> None:
        """Count a row of a table of `TOLD`, as it is stored; `record`: its own, once it is read."""
        if config in (SAMPLES, INSTRUCTIONS, REJECTED):  # each tells of its split, also of no rows
            counts = self.dialogues.setdefault(split, RowCounts())
        record = record or ({} if config is PLANNING else config.row.record_of(row))
        if config is SAMPLES:
            counts.add(record)
            if record["dialogue"]["query"].get("setting"):
                self.plays[split].add(record["dialogue"])
        elif config is INSTRUCTIONS:
            self.instructions[split].add(record)
            if row["sample"] != self._request["sample"]:
                self._request = {"sample": row["sample"], "levels": {}}
            self._request["levels"][row["level"]] = str(row["instruction"])[:LONGEST]
            self.example = max(self.example, self._request, key=lambda each: len(each["levels"]))
        elif config is PLANNING:
            self.instructions[split].planning[row["task"]] += 1
        elif config is REJECTED:
            counts.counts["reasons"][record["reason"]] += 1
            if record["stage"] == REWRITTEN:
                level = str(record["record"].get("level", ""))
                self.instructions[split].rejected[level][record["reason"]] += 1
        elif config is APIS:
            source = record["source"]
            self.sources[source["kind"], source["reference"], source["licence"]] += 1
        elif config is WORLDS:
            told = {name: len(record["spec"][name]) for name in ("operations", "policies")}
            # As those who read scripts name them: one without a name has its number.
            named = [str(each.get("name", n)) for n, each in enumerate(record["scripts"], 1)]
            made = {"name": record["name"], "hash": str(row["hash"])}
            self.worlds.append({**made, **told, "scripts": named})

    def told(self) -> JsonObject:
        names = ("kind", "reference", "licence", "apis")
        sources = [dict(zip(names, (*k, n), strict=True)) for k, n in ranked(self.sources).items()]
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

    def __init__(self, rows: Iterable[JsonObject] = ()) -> None:
        self.rows = 0
        self.several_turns = 0
        self.apis: set[str] = set()  # that calls go to
        # Of several APIs, by level (ToolLLM).
        self.combinations = defaultdict[str, set[frozenset[str]]](set)
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTED}
        for row in rows:
            self.add(row)

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


def ranked(counts: Mapping[K, int]) -> dict[K, int]:
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


class WorldTold(NamedTuple):
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
        parts = [s[world["hash"]] for s in told["splits"].values() if world["hash"] in s]
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


def _mean(parts: Sequence[JsonObject]) -> float | None:
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


# Of a run

API_BANK = 0.1  # US dollars for a dialogue of API-Bank's five agents, as its authors report
DECONTAMINATED = "decontaminated"  # a stage
KINDS = ("mined", "written")  # of templates
SHOWN = 10  # APIs without a template that a screen names
MOST = 1000  # that a manifest names


class Combinations(Record):
    """Different combinations of several APIs at one level (ToolLLM, section 2.2)."""

    drawn: int = Field(default=0, description="That queries were drawn for.")
    accepted: int = Field(default=0, description="In accepted dialogues.")


class Coverage(Record):
    """How many of a run's APIs its queries and its accepted dialogues need."""

    pool: int = Field(description="APIs of the run.")
    drawn: int = Field(description="APIs that queries were drawn for.")
    accepted: int = Field(description="APIs that accepted dialogues need.")
    combinations: dict[str, Combinations] = Field(default={}, description="By level.")


class StageCount(Record):
    """How many records a stage accepted and rejected; of templates their rows."""

    name: str
    agent: str = ""
    accepted: int
    rejected: int
    finished: bool
    sifts: bool = Field(default=False, description="It only compares rows with each other.")
    beside: bool = Field(default=False, description="Its records stand beside the rows.")
    given: bool = Field(default=False, description="Its records were published before the run.")
    reasons: dict[str, int] = Field(description="Rejected records by reason, most first.")
    use: Usage


class Tally(Record):
    """Dialogues of one kind."""

    accepted: int = 0
    rejected: int = 0


class Counts(Record):
    """What is in a run's files. Equal for equal runs."""

    stages: tuple[StageCount, ...]
    abilities: dict[str, Tally]
    scenarios: dict[str, Tally]
    categories: dict[str, int] = Field(description="Accepted dialogues by category of their APIs.")
    apis: int = Field(description="APIs that accepted dialogues need, each counted once.")
    several_turns: int = Field(description="Accepted dialogues with more than one user turn.")
    expanded: int = Field(default=0, description="Accepted dialogues that are rows of templates.")
    templates: int = Field(default=0, description="Templates that have rows.")
    instructions: int = Field(default=0, description="Accepted instructions.")
    rewritten: int = Field(default=0, description="Requests that have accepted instructions.")
    levels: dict[str, Tally] = Field(default={}, description="Instructions by granularity.")
    use: Usage
    priced: bool = Field(default=False, description="Whether the recipe has prices.")
    unpriced: tuple[str, ...] = Field(default=(), description="Models asked, but without a price.")
    coverage: Coverage | None = Field(default=None, description="Of the run's pool of APIs.")

    @property
    def samples(self) -> int:
        """What the last stage accepted, of those whose records do not stand beside the rows.

        Before the end, of the stages that sift the last that is finished counts. Of a run that
        adds to a version there are none.
        """
        rows = [s for s in self.stages if not s.beside and (s.finished or not s.sifts)]
        return rows[-1].accepted if rows and not rows[-1].given else 0

    @property
    def accepted(self) -> int:
        """The rows that the run makes: samples, and rows of templates."""
        return self.samples + self.expanded

    @property
    def made(self) -> int:
        """All that the run adds to its dataset: dialogues and instructions."""
        return self.accepted + self.instructions

    @property
    def rejected(self) -> int:
        return sum(stage.rejected for stage in self.stages)

    @property
    def cost_of_one(self) -> float | None:
        """US dollars for each accepted row, all that was rejected on the way included. None without
        prices or rows."""
        return self.use.cost / self.accepted if self.priced and self.accepted else None

    @property
    def reasons(self) -> dict[str, int]:
        """All stages' rejected records by reason, most first."""
        return dict(sum((Counter(s.reasons) for s in self.stages), Counter[str]()).most_common())


class Summary(Record):
    """A run's counts, and what this process did for them."""

    run: str
    path: str
    counts: Counts
    asked: int = Field(default=0, description="Requests this process sent to models.")
    cached: int = Field(default=0, description="Requests the cache answered.")
    tokens: int = Field(default=0, description="Tokens this process sent and received.")
    cost: float = Field(default=0.0, description="US dollars this process spent, where known.")
    seconds: float = Field(default=0.0, description="Wall time of this process's part.")


def count(folder: RunFolder) -> Counts:
    """Read a run's files once, a record at a time; also of a run that is still going."""
    plan, recipe = folder.plan, folder.recipe
    given = begun_with(recipe.regenerate is not None, [stage.name for stage in plan])
    # What fell on its way to a row: a sample of which no template is made is a row all the same.
    fallen = {kind: Counter[str]() for kind in ("ability", "scenario", "level")}
    stages = list[StageCount]()
    for stage in plan:
        files, reasons = folder.stage(stage.name), Counter[str]()
        rewrites = stage.writes == Instruction.__name__
        for row in files.objects("rejected"):
            reasons[row["reason"]] += 1
            need = row["record"] if rewrites else {} if stage.beside else need_of(row["record"])
            for kind in ("level",) if rewrites else ("ability", "scenario"):
                if kind in need:
                    fallen[kind][need[kind]] += 1
        mark = files.mark
        stages.append(
            StageCount(
                **stage.model_dump(include={"name", "agent", "sifts", "beside"}),
                given=stage.given or stage.name in given,
                accepted=mark.accepted if mark else sum(1 for _ in files.objects("accepted")),
                rejected=reasons.total(),
                finished=mark is not None,
                reasons=ranked(reasons),
                use=mark.use if mark else Usage(),
            )
        )
    seen = RowCounts(folder.rows())
    templates = of_templates(folder)
    requests, levels = Counter[str](), Counter[str]()
    for instruction in folder.instructions():
        requests[instruction.sample] += 1
        levels[instruction.level] += 1
    return Counts(
        stages=tuple(stages),
        abilities=_tallies(seen.counts["abilities"], fallen["ability"]),
        scenarios=_tallies(seen.counts["scenarios"], fallen["scenario"]),
        categories=dict(sorted(seen.counts["categories"].items())),
        apis=len(seen.apis),
        several_turns=seen.several_turns,
        expanded=templates.total(),
        templates=len(templates),
        instructions=requests.total(),
        rewritten=len(requests),
        levels=_tallies(levels, fallen["level"], LEVELS),
        use=sum((stage.use for stage in stages), Usage()),
        priced=bool(recipe.identity["prices"]),
        unpriced=_unpriced(recipe, stages),
        coverage=_cover(folder, seen),
    )


def _tallies(
    accepted: Counter[str], rejected: Counter[str], order: Sequence[str] = ()
) -> dict[str, Tally]:
    """By value, as far as there are any: in the order of the alphabet, or in another."""
    return {
        value: Tally(accepted=accepted[value], rejected=rejected[value])
        for value in order or sorted({*accepted, *rejected})
        if accepted[value] or rejected[value]
    }


def _unpriced(recipe: Recipe, stages: Sequence[StageCount]) -> tuple[str, ...]:
    """Models that were asked without a price. The embedded one costs nothing."""
    agents = {s.agent for s in stages if s.use.requests}
    if "rewriter" in agents:  # the tester rates what it makes
        agents.add("tester")
    asked = (recipe.endpoint(cast(AgentName, agent)) for agent in agents)
    return tuple(sorted({e.model for e in asked if not e.local} - set(recipe.prices)))


def _cover(folder: RunFolder, accepted: RowCounts) -> Coverage | None:
    """None of a run whose queries were not drawn from a pool of APIs."""
    if not {"apis", "queries"} <= {stage.name for stage in folder.plan}:
        return None
    queries = folder.stage("queries")
    fallen = (row["record"] for row in queries.objects("rejected"))
    drawn = RowCounts(chain(queries.objects("accepted"), fallen))
    wanted, made = drawn.combinations, accepted.combinations
    return Coverage(
        pool=sum(1 for _ in folder.stage("apis").objects("accepted")),
        drawn=len(drawn.apis),
        accepted=len(accepted.apis),
        combinations={
            str(level): Combinations(drawn=len(wanted[level]), accepted=len(made[level]))
            for level in Level
            if wanted[level]
        },
    )


def of_templates(run: RunFolder) -> Counter[str]:
    """The rows of each template, or script of a world, by what their ids begin with."""
    ids = (row["dialogue"]["query"]["id"] for row in run.expanded())
    return Counter(name.rpartition("-x")[0] for name in ids)


def expansion_json(run: RunFolder) -> JsonObject | None:
    """What the manifest tells of a run's templates; None without."""
    coverage = coverage_of(run)
    if coverage is None:
        return None
    fallen = Counter(row["reason"] for row in run.stage(EXPANDED).objects("rejected"))
    plan = run.recipe.splits
    rows = Counter(split_of(plan, row["dialogue"]["query"]).value for row in run.expanded())
    told = coverage.model_dump(mode="json")
    return {
        "templates": {kind: n for kind, n in sorted(coverage.templates.items()) if n},
        "used": len(of_templates(run)),
        "rows": dict(rows),
        "refused": coverage.refused,
        "values": coverage.kept,
        "rejected": ranked(fallen),
        "coverage": {name: told[name] for name in ("apis", "covered", "kinds", "without")},
    }


class TemplateCoverage(Record):
    """How far templates reach over the APIs that may be called in the splits that get rows."""

    apis: int = Field(description="APIs that may be called there.")
    kinds: dict[str, int] = Field(description="APIs with a template of a kind.")
    covered: int = Field(description="APIs with a template of any kind.")
    without: tuple[str, ...] = Field(description="Ids of the APIs without any, the first 1,000.")
    templates: dict[str, int] = Field(description="Templates by kind.")
    samples: int = Field(description="Samples that were looked at: made templates, or refused.")
    refused: dict[str, int] = Field(description="What became no template, by reason.")
    kept: dict[str, int] = Field(description="Values of templates that are no slots, by reason.")
    rows: int = Field(description="Rows that were made of templates.")


def coverage_of(run: RunFolder) -> TemplateCoverage | None:
    """The coverage of a run, as far as it came; None if it makes no templates."""
    if EXPANDED not in {stage.name for stage in run.plan}:
        return None
    plan, wanted = run.recipe.splits, {*(run.recipe.expand or ExpansionPlan()).splits}
    zones = {split if split.unseen else Split.TRAIN for split in wanted}
    offered = run.stage("apis").objects("accepted")
    apis = {api_id(api) for api in offered if zone(plan, *tool_of(api)) in zones}
    called = {kind: set[str]() for kind in KINDS}
    made, kept, refused, samples = Counter[str](), Counter[str](), Counter[str](), 0
    for template in map(Template.model_validate, run.stage("templates").objects("accepted")):
        called[template.kind].update(template.apis)
        made[template.kind] += 1
        kept.update(finding.reason.value for finding in template.refused)
    for rejected in run.stage("templates").objects("rejected"):
        refused[rejected["reason"]] += 1
        samples += not rejected["agent"] and "dialogue" in rejected["record"]
    covered = set[str]().union(*called.values()) & apis
    return TemplateCoverage(
        apis=len(apis),
        kinds={kind: len(called[kind] & apis) for kind in KINDS},
        covered=len(covered),
        without=tuple(sorted(apis - covered)[:MOST]),
        templates={kind: made[kind] for kind in KINDS},
        samples=made["mined"] + samples,
        refused=ranked(refused),
        kept=ranked(kept),
        rows=sum(1 for _ in run.expanded()),
    )


def contamination(run: RunFolder) -> Iterator[JsonObject]:
    """Each pair of a run's row and a benchmark's: rows that were dropped, then rows that stay.

    `id`, `split`, `dropped`, `check` (words, text or calls), `benchmark`, `place`, `match`, and
    both texts as `row` and `theirs`.
    """
    recipe = run.recipe
    stages = {stage.name for stage in run.plan if not stage.given}
    for name in (DECONTAMINATED, EXPANDED):
        if name in stages:
            yield from pairs(run.stage(name).objects("rejected"), recipe.splits)
    if DECONTAMINATED in stages and recipe.curation.contaminated == "flag":
        yield from pairs(run.samples(), recipe.splits)


def pairs(rows: Iterable[JsonObject], plan: SplitPlan) -> Iterator[JsonObject]:
    """The pairs in rejected records, or in the flags of samples."""
    for row in rows:
        dropped = "record" in row
        for finding in row["findings"] if dropped else row["flags"]:
            if finding["reason"] == Reason.CONTAMINATED:
                need = (row["record"] if dropped else row)["dialogue"]["query"]
                where = {"id": need["id"], "split": split_of(plan, need).value, "dropped": dropped}
                yield {**where, **overlap(finding["check"], finding["detail"])}


def overlap(check: str, detail: str) -> JsonObject:
    """What a finding of `curation.contamination` tells of the two texts. Raises ValueError if it
    tells nothing: the detail holds all of it as JSON strings, in this order."""
    decoder, texts, at = json.JSONDecoder(), list[Any](), 0
    while (at := detail.find('"', at)) >= 0:
        text, at = decoder.raw_decode(detail, at)
        texts.append(text)
    names = ("benchmark", "place", "match", "row", "theirs")
    if len(texts) != len(names):
        raise ValueError(f"not the detail of an overlap: {detail[:200]}")
    return {"check": check.removeprefix("overlap_"), **dict(zip(names, texts, strict=True))}
