"""The figures of a manifest held against the data."""

from __future__ import annotations

from collections import Counter
from typing import Any

from toolloom.pipeline.dataset.configs import INSTRUCTIONS, REJECTED, SAMPLES
from toolloom.pipeline.dataset.grown_figures import example
from toolloom.pipeline.dataset.report import Counts
from toolloom.pipeline.dataset.tallies import BEFORE_QUERIES, RowCounts
from toolloom.pipeline.dataset.verify_files import MANIFEST, Files, Told, read_table
from toolloom.pipeline.dataset.verify_reading import Rows
from toolloom.pipeline.dataset.verify_report import Findings, Kind
from toolloom.schemas import Split


def verify_figures(files: Files, told: Told, rows: Rows, findings: Findings) -> None:
    """The manifest's figures of each split are those of the rows."""
    if not rows.whole:
        findings.notes.append("Figures were not compared: not all tables could be read.")
        return
    for split in sorted({*told.splits, *rows.counted}):
        if split not in (*Split, BEFORE_QUERIES):
            findings.add(Kind.FIGURE, MANIFEST, f"there is no split {split}")
            continue
        figures = {k: v for k, v in told.splits.get(split, {}).items() if k != "runs"}
        counted = rows.counted.get(split, RowCounts()).told()
        for name in {**counted, **figures}:
            _compare(f"splits.{split}.{name}", figures.get(name), counted.get(name), findings)
    for config, splits in told.configs.items():
        for split, sheet in splits.items():
            left = rows.left_out.get((config, split), 0)
            _compare(f"configs.{config}.{split}.left_out", sheet.left_out, left, findings)
    _expansion(told, rows, findings)
    _instructions(files, told, rows, findings)


def _expansion(told: Told, rows: Rows, findings: Findings) -> None:
    """As many rows of templates are told of as there are."""
    found: Counter[str] = Counter()
    for name, each in (told.expansion or {}).items():
        if name not in told.runs:
            findings.add(Kind.FIGURE, MANIFEST, f"expansion.{name} is not among the runs")
        counts = each.get("rows")
        if isinstance(counts, dict):
            found.update({k: n for k, n in counts.items() if isinstance(n, int)})
    for split in {**found, **rows.expanded}:
        _compare(f"expansion rows of {split}", found[split], rows.expanded[split], findings)


def _instructions(files: Files, told: Told, rows: Rows, findings: Findings) -> None:
    """What is told of instructions is what there is, by split and level; and so is the example."""
    there = told.instructions or {}
    splits = there.get("splits")
    figures = splits if isinstance(splits, dict) else {}
    counted = {split: found.told() for split, found in rows.instructions.items() if found}
    for split in {**counted, **figures}:
        name = f"instructions.{split}"
        _compare(name, figures.get(split), counted.get(split), findings)
    made = told.configs.get(INSTRUCTIONS.name, {})
    names = [n for split in made for n in files.readable(INSTRUCTIONS.name, split)]
    shown = example(row for name in names for row in read_table(files, name, findings))
    _compare("instructions.example", there.get("example"), shown, findings)


def _compare(name: str, told: Any, counted: Any, findings: Findings) -> None:
    if told == counted:
        return
    if isinstance(told, dict) and isinstance(counted, dict):
        keys = [k for k in {**counted, **told} if counted.get(k) != told.get(k)] or ["order"]
        name, told, counted = f"{name}.{keys[0]}", told.get(keys[0]), counted.get(keys[0])
    detail = f"{name} is {told}, the data have {counted}"
    findings.add(Kind.FIGURE, MANIFEST, detail)


def verify_runs(told: Told, findings: Findings) -> None:
    """Each split comes from runs that are told, and has what its run accepted and rejected."""
    for split, figures in told.splits.items():
        names = figures.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            findings.add(Kind.FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    if told.extended and told.extended.run not in told.runs:
        findings.add(Kind.FIGURE, MANIFEST, "extended.run is not among the runs")
    for name, run in told.runs.items():
        try:
            counts = Counts.model_validate(run.get("counts"))
        except ValueError:
            findings.add(Kind.FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        _run_figures(name, counts, told, findings)


def _run_figures(name: str, counts: Counts, told: Told, findings: Findings) -> None:
    """What a run accepted and rejected is there; of runs before the last only a part is left."""
    if told.extended:
        if name != told.extended.run:
            return
        found = {what: sum(told.extended.rows.get(config, {}).values()) for what, config in _ADDED}
    else:
        mine = [f for s, f in told.splits.items() if f.get("runs") == [name] and _is_of(told, s)]
        if not mine:
            return
        found = {what: sum(f.get(what, 0) for f in mine) for what in ("rows", "rejected")}
    figures = {
        "rows": counts.accepted,
        "rejected": counts.rejected,
        "instructions": counts.instructions,
    }
    for what, number in found.items():
        fewer = what == "rejected" and number < figures[what] and _fell_before(told, name)
        if number != figures[what] and not fewer:
            detail = f"run {name} made {figures[what]} {what}, its splits have {number}"
            findings.add(Kind.FIGURE, MANIFEST, detail)


def _fell_before(told: Told, name: str) -> bool:
    """Whether a run for one split rejected records that belong to no split, among other runs'."""
    runs = told.splits.get(BEFORE_QUERIES, {}).get("runs")
    return told.regenerated is not None and isinstance(runs, list) and name in runs


_ADDED = (
    ("rows", SAMPLES.name),
    ("rejected", REJECTED.name),
    ("instructions", INSTRUCTIONS.name),
)


def _is_of(told: Told, split: str) -> bool:
    """Whether a split was made by the last run."""
    return told.regenerated is None or split == told.regenerated
