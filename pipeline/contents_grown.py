"""A version that a run added to: rows of templates, instructions.

Splits that get rows are written again, the parent's rows first; all other files are copied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, cast

from toolloom.pipeline.configs import INSTRUCTIONS, SAMPLES, Config
from toolloom.pipeline.contents import merged, pairs_of, write_pairs
from toolloom.pipeline.contents_rows import Rows, in_order, told_run
from toolloom.pipeline.curation.report import contamination
from toolloom.pipeline.grown_figures import told_expansion, told_instructions
from toolloom.pipeline.instruction_counts import InstructionCounts
from toolloom.pipeline.jsonl import explain
from toolloom.pipeline.store import RunFolder
from toolloom.pipeline.tables import Tables
from toolloom.pipeline.tallies import RowCounts, with_rejects
from toolloom.pipeline.versions import PARTS, Version
from toolloom.schemas import JsonObject, PublishError, SplitPlan, StoreError


@dataclass(frozen=True)
class Grown:
    """A version and what a run made for it."""

    run: RunFolder
    parent: Version

    def fill(self, folder: Path) -> JsonObject:
        """Write the splits that get rows, copy the others; what the manifest tells of them."""
        run, before = self.run, self.parent.manifest
        sheets = _Continued(folder, self.parent)
        with sheets:
            rows = Rows(sheets, SplitPlan.model_validate(before["plan"]))
            rows.take(run)
            made = sheets.finish()
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


class _Continued(Tables):
    """Tables that begin with the rows of a version, where they get any."""

    def __init__(self, folder: Path, before: Version) -> None:
        super().__init__(folder)
        self._before = before
        self._ids: dict[str, set[str]] = {}  # of the version's rows that others may not have
        self.counted: dict[str, RowCounts] = {}  # the version's dialogues, by split

    def add(self, config: Config, split: str, row: JsonObject) -> None:
        self._check(config, split, [row["id"]])
        super().add(config, split, row)

    def add_many(self, config: Config, split: str, columns: dict[str, list[Any]]) -> None:
        self._check(config, split, columns["id"])
        super().add_many(config, split, columns)

    def _check(self, config: Config, split: str, ids: list[str]) -> None:
        self._sheet(config, split)  # before the ids are compared
        known = self._ids.get(config.name, set())
        if known and (there := next((name for name in ids if name in known), None)):
            raise PublishError(
                f"{there}: is in `{config.name}` of {self._before.label} already, so it cannot "
                "be added. Add to that version with another seed."
            )

    def _sheet(self, config: Config, split: str) -> Any:
        known = (config.name, split) in self._sheets
        sheet = super()._sheet(config, split)
        if not known:
            before = self._before.manifest["configs"].get(config.name, {}).get(split)
            sheet.left_out = before["left_out"] if before else 0
            for path in self._before.files(config.name, split):
                for row in stored_rows(path):
                    self._look_at(config, split, row)
                    sheet.add(row)
        return sheet

    def _look_at(self, config: Config, split: str, row: JsonObject) -> None:
        if config.name in (SAMPLES.name, INSTRUCTIONS.name):
            self._ids.setdefault(config.name, set()).add(row["id"])
        if config.name == SAMPLES.name:
            counted = self.counted.setdefault(split, RowCounts())
            counted.add({key: json.loads(row[key]) for key in PARTS})


def stored_rows(path: Path, size: int = 64) -> Iterator[JsonObject]:
    """The rows of a Parquet file as they are stored: objects as their JSON. Raises StoreError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, arrow_extensions_enabled=False, pre_buffer=False) as file:
            for batch in file.iter_batches(size):
                yield from cast(list[JsonObject], batch.to_pylist())
    except FileNotFoundError as error:
        raise explain(path, error, "read") from error
    except (OSError, pa.ArrowException, ValueError) as error:
        why = str(error).partition("\n")[0][:200]
        raise StoreError(f"{path}: is damaged ({why}).") from error
