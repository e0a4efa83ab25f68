"""A version that a run added to: rows of templates, instructions, rows of new queries.

Splits that get rows are written again, the parent's rows first; all other files are copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from toolloom.pipeline.dataset.contents import check_split, merged, pairs_of, write_pairs
from toolloom.pipeline.dataset.contents_continued import Continued
from toolloom.pipeline.dataset.contents_rows import Rows, in_order, told_run
from toolloom.pipeline.dataset.curation_report import contamination
from toolloom.pipeline.dataset.grown_figures import told_expansion, told_instructions
from toolloom.pipeline.dataset.instruction_counts import InstructionCounts
from toolloom.pipeline.dataset.tallies import RowCounts, with_rejects
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.version import Version
from toolloom.schemas import JsonObject, SplitPlan


@dataclass(frozen=True)
class Grown:
    """A version and what a run made for it."""

    run: RunFolder
    parent: Version

    def fill(self, folder: Path) -> JsonObject:
        """Write the splits that get rows, copy the others; what the manifest tells of them."""
        run, before = self.run, self.parent.manifest
        sheets = Continued(folder, self.parent)
        with sheets:
            rows = Rows(sheets, SplitPlan.model_validate(before["plan"]))
            rows.take(run)
            made = sheets.finish()
        if run.recipe.regenerate:
            check_split(run, self.parent, run.recipe.regenerate.split, made)
        new = sum(rows.counted.values(), RowCounts())
        stay = {
            config: {s: told for s, told in found.items() if s not in made.get(config, {})}
            for config, found in before["configs"].items()
        }
        configs = merged(self.parent, stay, made, folder)
        return {
            "regenerated": None,
            "extended": self._told(made),
            "plan": before["plan"],
            "runs": {run.id: told_run(run, new, rows.makers), **before["runs"]},
            "splits": self._splits(rows, sheets.counted),
            "expansion": self._expansion(rows),
            "instructions": told_instructions(self._instructions(rows), configs, folder),
            "apis": before["apis"],
            "contamination": write_pairs(folder, chain(pairs_of(self.parent), contamination(run))),
            "configs": configs,
        }

    def _told(self, made: JsonObject) -> JsonObject:
        """What was added: rows by config and split."""
        before = self.parent.manifest["configs"]
        added = {
            config: {
                split: told["rows"] - before.get(config, {}).get(split, {"rows": 0})["rows"]
                for split, told in sheets.items()
            }
            for config, sheets in made.items()
        }
        return {"run": self.run.id, "rows": added}

    def _splits(self, rows: Rows, kept: dict[str, RowCounts]) -> JsonObject:
        """The figures of the splits; those that got rows name the run too."""
        found: JsonObject = {**self.parent.manifest["splits"]}
        for split, counted in rows.counted.items():
            before = found.get(split, {"runs": [], **RowCounts().told()})
            runs = [name for name in before["runs"] if name != self.run.id]
            told = with_rejects(before, counted.told()["reasons"])
            if counted.rows:
                both = kept.get(split, RowCounts()) + counted
                told = with_rejects(both.told(), before["reasons"])
            found[split] = {"runs": [*runs, self.run.id], **told}
        return in_order(found)

    def _expansion(self, rows: Rows) -> JsonObject | None:
        told = told_expansion(self.run, rows.expanded)
        before: JsonObject = self.parent.manifest.get("expansion") or {}
        return {**({self.run.id: told} if told else {}), **before} or None

    def _instructions(self, rows: Rows) -> JsonObject:
        """The figures of instructions by split."""
        before = (self.parent.manifest.get("instructions") or {"splits": {}})["splits"]
        counted = {split: InstructionCounts(told) for split, told in before.items()}
        for split, found in rows.instructions.items():
            counted[split] = counted.get(split, InstructionCounts()) + found
        return in_order({split: found.told() for split, found in counted.items() if found})
