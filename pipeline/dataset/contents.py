"""What a version is made of: all of a run, or one split of a run and the rest of a version.

A version that a run adds to is in `contents_grown.py`.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from toolloom.pipeline.dataset.configs import APIS, CONFIGS, REJECTED, api_row
from toolloom.pipeline.dataset.contents_continued import Continued
from toolloom.pipeline.dataset.contents_rows import Rows, apis_of, in_order, told_run
from toolloom.pipeline.dataset.curation_report import contamination
from toolloom.pipeline.dataset.grown_figures import told_expansion, told_instructions
from toolloom.pipeline.dataset.instruction_counts import TOOLBENCH, InstructionCounts
from toolloom.pipeline.dataset.tallies import BEFORE_QUERIES, RowCounts, sources, with_rejects
from toolloom.pipeline.store.files import read_objects, to_line, write_lines
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.tables import Tables
from toolloom.pipeline.store.version import PARTS, Version
from toolloom.schemas import JsonObject, PublishError, Regeneration, SplitPlan
from toolloom.schemas.splits import zone

TRIED_AGAIN = ("queries", "dialogues", "tested")  # stages whose rejects --only-rejected asks again
PAIRS = "contamination.jsonl"
PAIRS_SHOWN = 20  # of rows and benchmarks, on the card


@dataclass(frozen=True)
class Whole:
    """A version of all that a run made."""

    run: RunFolder

    def fill(self, folder: Path) -> JsonObject:
        """Write the tables; what the manifest tells of them."""
        run, plan = self.run, self.run.recipe.splits
        with Tables(folder) as sheets:
            rows = Rows(sheets, plan)
            rows.take(run)
            made = [*apis_of(run)]
            for api in made:
                split = zone(plan, api["category"], api["tool"]).value
                sheets.add(APIS, split, api_row(api))
            configs = sheets.finish()
        expansion = told_expansion(run, rows.expanded)
        return {
            "regenerated": None,
            "extended": None,
            "plan": plan.model_dump(mode="json"),
            "runs": {run.id: told_run(run, sum(rows.counted.values(), RowCounts()), rows.makers)},
            "splits": rows.told([run.id]),
            "expansion": {run.id: expansion} if expansion else None,
            "instructions": told_instructions(rows.told_instructions(), configs, folder),
            "apis": {"run": run.id, "count": len(made), "sources": sources(made)},
            "contamination": write_pairs(folder, contamination(run)),
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
        # APIs of which no template can be asked are rejected for all splits: theirs are added to.
        with Continued(folder, self.parent, {(REJECTED.name, BEFORE_QUERIES)}) as sheets:
            rows, fresh = (Rows(sheets, SplitPlan.model_validate(before["plan"])) for _ in "12")
            self._keep(rows, split)
            fresh.take(run)
            made = sheets.finish()
        check_split(run, self.parent, split, made)
        new = sum(fresh.counted.values(), RowCounts())
        told = (rows.counts(split) + fresh.counts(split)).told()
        splits = {**before["splits"], split: {"runs": [*self._kept(rows, split), run.id], **told}}
        splits = in_order({**splits, **self._before_queries(fresh)})
        runs = {run.id: told_run(run, new, fresh.makers), **before["runs"]}
        used = {before["apis"]["run"], *(r for told in splits.values() for r in told["runs"])}
        configs = self._merged(made, split, folder)
        return {
            "regenerated": split,
            "extended": None,
            "plan": before["plan"],
            "runs": {name: told for name, told in runs.items() if name in used},
            "splits": splits,
            "expansion": self._expansion(fresh, used),
            "instructions": told_instructions(self._instructions(rows, fresh), configs, folder),
            "apis": before["apis"],
            "contamination": write_pairs(folder, chain(self._old_pairs(), contamination(run))),
            "configs": configs,
        }

    def _kept(self, rows: Rows, split: str) -> list[str]:
        """The runs before it whose rows are left in the split."""
        runs: list[str] = self.parent.manifest["splits"].get(split, {"runs": []})["runs"]
        others = [name for name in runs if name != self.run.id]
        if self._wanted.only_rejected:
            return others
        told = self.parent.manifest["runs"]
        left = rows.instructions.get(split)  # of ToolBench's queries
        return [name for name in others if left and told[name]["recipe"].get("rewrite")]

    def _before_queries(self, fresh: Rows) -> JsonObject:
        """The figures of what fell before there were queries, if anything did."""
        if BEFORE_QUERIES not in fresh.counted:
            return {}
        told = self.parent.manifest["splits"]
        before = told.get(BEFORE_QUERIES, {"runs": [], **RowCounts().told()})
        others = [name for name in before["runs"] if name != self.run.id]
        more = fresh.counted[BEFORE_QUERIES].told()["reasons"]
        return {BEFORE_QUERIES: {"runs": [*others, self.run.id], **with_rejects(before, more)}}

    def _keep(self, rows: Rows, split: str) -> None:
        """Add the parent's rows that stay in the split.

        Instructions go with their samples; those of ToolBench's queries have none.
        """
        again = self._wanted.only_rejected
        if again:
            for row in self.parent.rows("samples", split):
                rows.accept({key: json.loads(row[key]) for key in PARTS})
        instructions = self.parent.rows("instructions", split)
        kept = (row for row in instructions if again or row["source"] == TOOLBENCH)
        trained = rows.keep_instructions(kept)
        for row in self.parent.rows("planning", split):
            if row["id"] in trained:
                rows.train(split, row)
        for record in self._old_rejects(split):
            rows.reject(record)

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
        for pair in pairs_of(self.parent):
            if wanted.only_rejected or pair["split"] != wanted.split:
                yield pair

    def _expansion(self, fresh: Rows, used: set[str]) -> JsonObject | None:
        """What is told of templates: of the parent's runs as far as their rows stay."""
        told = told_expansion(self.run, fresh.expanded)
        found = {self.run.id: told} if told else {}
        gone = set() if self._wanted.only_rejected else {self._wanted.split.value}
        for name, before in (self.parent.manifest.get("expansion") or {}).items():
            rows = {split: n for split, n in before["rows"].items() if split not in gone}
            if name in used and rows:
                found[name] = {**before, "rows": rows}
        return found or None

    def _instructions(self, rows: Rows, fresh: Rows) -> JsonObject:
        """The figures of instructions by split: of this one anew, else the parent's."""
        split = self._wanted.split.value
        before = (self.parent.manifest.get("instructions") or {"splits": {}})["splits"]
        found = rows.instructions.get(split, InstructionCounts())
        found += fresh.instructions.get(split, InstructionCounts())
        others = {name: told for name, told in before.items() if name != split}
        return in_order({**others, **({split: found.told()} if found else {})})

    def _merged(self, made: JsonObject, split: str, folder: Path) -> JsonObject:
        """The new split's files beside those of the parent, which are copied byte for byte."""
        before = self.parent.manifest["configs"]
        stay = {
            config: {
                s: told
                for s, told in sheets.items()
                if config == APIS.name or s not in (split, *made.get(config, ()))
            }
            for config, sheets in before.items()
        }
        return merged(self.parent, stay, made, folder)


def check_split(run: RunFolder, parent: Version, split: str, made: JsonObject) -> None:
    """Raises PublishError if a run has rows of another split than the one it was for."""
    for config in made.values():
        if others := sorted(set(config) - {split, BEFORE_QUERIES}):
            raise PublishError(
                f"{run.id}: has rows of the split {others[0]}, but was to draw queries of {split} "
                f"of {parent.label}."
            )


def merged(parent: Version, stay: JsonObject, made: JsonObject, folder: Path) -> JsonObject:
    """Copy a parent's sheets that stay, byte for byte; all sheets, in their order."""
    for name in (n for sheets in stay.values() for told in sheets.values() for n in told["files"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(parent.path / name, folder / name)
    both = {c.name: {**stay.get(c.name, {}), **made.get(c.name, {})} for c in CONFIGS}
    return {config: in_order(sheets) for config, sheets in both.items() if sheets}


def pairs_of(version: Version) -> Iterator[JsonObject]:
    """The pairs of rows and benchmarks that a version tells of."""
    if version.manifest.get("contamination"):
        yield from read_objects(version.path / PAIRS)


def write_pairs(folder: Path, pairs: Iterable[JsonObject]) -> JsonObject | None:
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
