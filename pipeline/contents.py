"""What a version is made of: all of a run, or one split of a run and the rest of a version."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from toolloom.pipeline.configs import (
    APIS,
    REJECTED,
    SAMPLES,
    SFT,
    api_row,
    encoded,
    rejected_row,
    samples_row,
    sft_row,
)
from toolloom.pipeline.curation.report import contamination
from toolloom.pipeline.jsonl import read_objects, to_line, write_lines
from toolloom.pipeline.report import count
from toolloom.pipeline.splits import api_id, shown, split_of, stray, zone
from toolloom.pipeline.store import RunFolder
from toolloom.pipeline.tables import Tables, delicate, reads_back
from toolloom.pipeline.tallies import RowCounts, need_of, sources
from toolloom.pipeline.versions import PARTS, Version
from toolloom.schemas import JsonObject, PublishError, Regeneration, Split, SplitPlan
from toolloom.schemas.recipe import public_recipe

BEFORE_QUERIES = "apis"  # the split of `rejected` for what fell before there were queries
TRIED_AGAIN = ("queries", "dialogues", "tested")  # stages whose rejects --only-rejected asks again
PAIRS = "contamination.jsonl"
PAIRS_SHOWN = 20  # of rows and benchmarks, on the card


class Rows:
    """Rows on their way into tables, with the figures of their splits."""

    def __init__(self, sheets: Tables, plan: SplitPlan) -> None:
        self._tables = sheets
        self._plan = plan
        self.counted: dict[str, RowCounts] = {}
        self.makers: set[Maker] = set()

    def _counts(self, split: str) -> RowCounts:
        return self.counted.setdefault(split, RowCounts())

    def accept(self, sample: JsonObject) -> None:
        """A sample, as JSON. Raises PublishError if it shows an API that its split must not."""
        need = sample["dialogue"]["query"]
        split = split_of(self._plan, need).value
        if api := stray(self._plan, need, Split(split)):
            raise PublishError(
                f"{need['id']}: is of the split {split} and shows {api}, whose tool or category "
                "is held out of it. Queries were not drawn by the recipe's `splits`."
            )
        row, whole = encoded(SFT, sft_row(sample)), samples_row(sample)
        if not delicate(whole["dialogue"]) or reads_back(row):
            self._tables.add(SFT, split, row)
        else:
            self._tables.leave_out(SFT, split)
        self._tables.add(SAMPLES, split, whole)
        self._counts(split).add(sample)
        self.makers |= makers(sample)

    def reject(self, record: JsonObject) -> None:
        need = need_of(record["record"])
        split = split_of(self._plan, need).value if "intent" in need else BEFORE_QUERIES
        self._tables.add(REJECTED, split, rejected_row(record))
        self._counts(split).reject(record["reason"])

    def told(self, runs: Iterable[str]) -> JsonObject:
        """The figures by split; those of rejects without a split are last."""
        order = [*(split.value for split in Split), BEFORE_QUERIES]
        ids = list(runs)
        return {
            split: {"runs": ids, **self.counted[split].told()}
            for split in order
            if split in self.counted
        }


@dataclass(frozen=True)
class Whole:
    """A version of all that a run made."""

    run: RunFolder

    def fill(self, folder: Path) -> JsonObject:
        """Write the tables; what the manifest tells of them."""
        run, plan = self.run, self.run.recipe.splits
        with Tables(folder) as sheets:
            rows = Rows(sheets, plan)
            for sample in run.accepted():
                rows.accept(sample)
            for record in run.rejected():
                rows.reject(record)
            made = [*_apis(run)]
            for api in made:
                split = zone(plan, api["category"], api["tool"]).value
                sheets.add(APIS, split, api_row(api))
            configs = sheets.finish()
        return {
            "regenerated": None,
            "plan": plan.model_dump(mode="json"),
            "runs": {run.id: _told_run(run, sum(rows.counted.values(), RowCounts()), rows.makers)},
            "splits": rows.told([run.id]),
            "apis": {"run": run.id, "count": len(made), "sources": sources(made)},
            "contamination": _write_pairs(folder, contamination(run)),
            "configs": configs,
        }


@dataclass(frozen=True)
class Part:
    """A version in which one split is new."""

    run: RunFolder
    parent: Version

    @property
    def _wanted(self) -> Regeneration:
        wanted = self.run.recipe.regenerate
        if wanted is None:
            raise PublishError(f"{self.run.id}: its recipe does not say which split it is for.")
        return wanted

    def fill(self, folder: Path) -> JsonObject:
        """Copy the other splits, write the new one; what the manifest tells of them."""
        run, before, split = self.run, self.parent.manifest, self._wanted.split.value
        kept = [*self._kept(split)] if self._wanted.only_rejected else []
        with Tables(folder) as sheets:
            rows = Rows(sheets, SplitPlan.model_validate(before["plan"]))
            for sample in chain(self._old(split), run.accepted()):
                rows.accept(sample)
            for record in chain(self._old_rejects(split), run.rejected()):
                rows.reject(record)
            made = sheets.finish()
        self._only(split, made)
        fresh = rows.told([*kept, run.id])[split]
        made_by = set[Maker]().union(*map(makers, run.accepted()))
        told = _told_run(run, RowCounts.of(run.accepted()), made_by)
        runs = {run.id: told, **before["runs"]}
        splits = _replaced(before["splits"], split, fresh)
        used = {before["apis"]["run"], *(r for told in splits.values() for r in told["runs"])}
        return {
            "regenerated": split,
            "plan": before["plan"],
            "runs": {name: told for name, told in runs.items() if name in used},
            "splits": splits,
            "apis": before["apis"],
            "contamination": _write_pairs(folder, chain(self._old_pairs(), contamination(run))),
            "configs": self._merged(made, split, folder),
        }

    def _kept(self, split: str) -> list[str]:
        runs: list[str] = self.parent.manifest["splits"].get(split, {"runs": []})["runs"]
        return [name for name in runs if name != self.run.id]

    def _old(self, split: str) -> Iterator[JsonObject]:
        """The parent's rows that stay in the split."""
        if self._wanted.only_rejected:
            for row in self.parent.rows("samples", split):
                yield {key: json.loads(row[key]) for key in PARTS}

    def _old_rejects(self, split: str) -> Iterator[JsonObject]:
        """The parent's rejects of the split that were not tried again."""
        if self._wanted.only_rejected:
            for row in self.parent.rows("rejected", split):
                if row["stage"] not in TRIED_AGAIN:
                    parts = ("findings", "record", "provenance")
                    yield {**row, **{key: json.loads(row[key]) for key in parts}}

    def _old_pairs(self) -> Iterator[JsonObject]:
        """The parent's pairs of rows and benchmarks, but for those of rows that go."""
        wanted = self._wanted
        if self.parent.manifest.get("contamination"):
            for pair in read_objects(self.parent.path / PAIRS):
                if wanted.only_rejected or pair["split"] != wanted.split:
                    yield pair

    def _only(self, split: str, made: JsonObject) -> None:
        for config in made.values():
            if others := sorted(set(config) - {split}):
                raise PublishError(
                    f"{self.run.id}: has rows of the split {others[0]}, but was to make {split} "
                    f"of {self.parent.label} anew."
                )

    def _merged(self, made: JsonObject, split: str, folder: Path) -> JsonObject:
        """The new split's files beside those of the parent, which are copied byte for byte."""
        merged: JsonObject = {}
        for config, before in self.parent.manifest["configs"].items():
            stay = {s: told for s, told in before.items() if s != split or config == APIS.name}
            for name in (name for told in stay.values() for name in told["files"]):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.parent.path / name, folder / name)
            fresh = made.get(config, {}).get(split)
            found = _replaced(stay, split, fresh) if fresh else stay
            if found:
                merged[config] = found
        for config in made:
            merged.setdefault(config, made[config])
        return merged


def _replaced(splits: JsonObject, split: str, told: Any) -> JsonObject:
    """The splits with one of them exchanged or added, in their order."""
    found = {**splits, split: told}
    order = [*(each.value for each in Split), BEFORE_QUERIES]
    return {name: found[name] for name in sorted(found, key=order.index)}


def _write_pairs(folder: Path, pairs: Iterable[JsonObject]) -> JsonObject | None:
    """Write the pairs of rows and benchmarks, if there are any; what the manifest tells of them."""
    counted: Counter[str] = Counter()
    benchmarks: Counter[str] = Counter()
    shown: list[JsonObject] = []

    def lines() -> Iterator[bytes]:
        for pair in pairs:
            counted["dropped" if pair["dropped"] else "flagged"] += 1
            benchmarks[pair["benchmark"]] += 1
            if len(shown) < PAIRS_SHOWN:
                shown.append(pair)
            yield to_line(pair)

    write_lines(folder / PAIRS, lines())
    if not shown:
        (folder / PAIRS).unlink()
        return None
    told = {name: counted[name] for name in ("dropped", "flagged")}
    return {**told, "benchmarks": dict(sorted(benchmarks.items())), "examples": shown}


def _apis(run: RunFolder) -> Iterator[JsonObject]:
    """The APIs of a run; of one that did not make any, those its rows show."""
    if "apis" in {stage.name for stage in run.plan}:
        yield from run.stage("apis").objects("accepted")
        return
    seen: set[str] = set()
    for sample in run.accepted():
        for api in shown(sample["dialogue"]["query"]):
            if api_id(api) not in seen:
                seen.add(api_id(api))
                yield api


def _told_run(run: RunFolder, counted: RowCounts, made_by: set[Maker]) -> JsonObject:
    """What the manifest tells of a run. `counted` and `made_by`: of its accepted rows."""
    return {
        "seed": run.recipe.seed,
        "recipe": public_recipe(run.recipe),
        "counts": count(run, counted).model_dump(mode="json"),
        "agents": _agents(run, made_by),
    }


Maker: TypeAlias = tuple[str, str, str, tuple[str, ...]]
"""Stage, agent, model and the hashes of the prompts."""


def makers(sample: JsonObject) -> set[Maker]:
    """Who made a sample, its dialogue and its query."""
    dialogue = sample["dialogue"]
    return set(
        map(_maker, chain(*(r["provenance"] for r in (sample, dialogue, dialogue["query"]))))
    )


def _maker(share: JsonObject) -> Maker:
    return share["stage"], share["agent"], share["model"], tuple(share["prompts"])


def _agents(run: RunFolder, made_by: set[Maker]) -> list[JsonObject]:
    """Who made the accepted rows and the APIs they call."""
    order = [stage.name for stage in run.plan]
    found = set(made_by)
    for stage in {"domains", "apis"} & set(order):
        for row in run.stage(stage).objects("accepted"):
            found |= set(map(_maker, row["provenance"]))
    ranked = sorted(found, key=lambda f: (order.index(f[0]) if f[0] in order else -1, *f[1:]))
    names = ("stage", "agent", "model", "prompts")
    return [dict(zip(names, one, strict=True)) for one in ranked]
