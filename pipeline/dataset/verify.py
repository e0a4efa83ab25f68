"""Verifies a version of a dataset without a model or a network.

Its bytes against its hashes, its tables against the layout, every row against all certain checks,
its splits against their plan, its figures and its card against the data, its parent's hash.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from toolloom.pipeline.checks import CHECKS
from toolloom.pipeline.dataset.card import card
from toolloom.pipeline.dataset.figures import BEFORE_QUERIES, RowCounts, example
from toolloom.pipeline.dataset.publish import code_hash
from toolloom.pipeline.dataset.report import Counts
from toolloom.pipeline.dataset.rows import INSTRUCTIONS, REJECTED, SAMPLES
from toolloom.pipeline.dataset.verify_files import (
    CARD,
    MANIFEST,
    SUMS,
    FaultKind,
    Manifest,
    VerifyReport,
    VersionFiles,
    look,
    look_at_tables,
    verify_lineage,
)
from toolloom.pipeline.dataset.verify_instructions import Instructions, Solutions
from toolloom.pipeline.dataset.verify_rows import (
    VersionRows,
    read_sample,
    verify_apis,
    verify_rejected,
    verify_splits,
    verify_table,
)
from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.version import dotted, find_version, numbers
from toolloom.schemas import NothingFound, Split, canonical

# What a manifest that was tampered with raises: anything may be missing or of another type.
_UNFIT = (
    *(LookupError, TypeError, ValueError, AttributeError),
    *(ArithmeticError, RecursionError, yaml.YAMLError),
)
Progress = Callable[[int, int], None]
"""Rows read, rows in all; called often."""


def place_of(outputs: Path, name: str) -> Path:
    """The folder of a version: a path, `name`, `name/1.2.0` or `name/latest`.

    Damaged ones are found too. Raises NothingFound.
    """
    whole, place = Path(name) if "\0" not in name else outputs / "datasets", None
    for path in (whole, outputs / "datasets" / name.strip("/") if "\0" not in name else whole):
        if (path / MANIFEST).is_file() or (path / SUMS).is_file():
            place = path.resolve()
        elif path.is_dir() and (known := numbers(path)):
            place = path / dotted(known[-1])
        if place:
            break
    if place is None and whole.is_dir():
        raise NothingFound(f"{whole}: is no version of a dataset (it holds no {MANIFEST}).")
    place = place or find_version(outputs, name).path
    mirror.fetch(place)
    return place


def verify(path: Path, progress: Progress | None = None) -> VerifyReport:
    """Everything that can be known of a version from its folder. Raises StoreError."""
    started = time.monotonic()
    files = look(path)
    rows, told, findings = None, files.manifest, files.findings
    if told is not None:
        look_at_tables(files)
        rows = _read(files, told, progress)
        _figures(rows)
        _runs(files, told)
        _makers(rows)
        _card(files)
        verify_lineage(files, told)
    return VerifyReport(
        path=str(path),
        version=f"{told.name}/{told.version}" if told else path.name,
        files=len(files.sizes),
        size=sum(files.sizes.values()),
        rows=rows.counts() if rows else {},
        inspected=rows.inspected if rows else 0,
        checks=sum(map(len, CHECKS)),
        counts={kind: findings.counts[kind] for kind in FaultKind if findings.counts[kind]},
        faults=findings.kept,
        notes=tuple(findings.notes),
        seconds=time.monotonic() - started,
    )


def _read(files: VersionFiles, told: Manifest, progress: Progress | None) -> VersionRows:
    total = sum(table.rows for config in told.configs.values() for table in config.values())
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress and done % 64 == 0:
            progress(done, total)

    rows = VersionRows(files, told, step)
    with Solutions(rows) as solutions:
        verify_apis(rows)
        for split in rows.splits(SAMPLES):
            for _, sample in verify_table(rows, SAMPLES, split, partial(read_sample, rows)):
                solutions.keep(split, sample)
        Instructions(rows, solutions).verify()
    verify_rejected(rows)
    verify_splits(rows)
    return rows


def _figures(rows: VersionRows) -> None:
    """The manifest's figures are those of the rows."""
    if rows.broken:
        rows.files.findings.notes.append("Figures were not compared: not all tables could be read.")
        return
    told, counted = rows.manifest, rows.figures
    for split in sorted({*told.splits, *counted.dialogues}):
        if split not in (*Split, BEFORE_QUERIES):
            rows.fault(FaultKind.FIGURE, MANIFEST, f"there is no split {split}")
            continue
        figures = {k: v for k, v in told.splits.get(split, {}).items() if k != "runs"}
        found = counted.dialogues.get(split, RowCounts()).told()
        for name in {**found, **figures}:
            _compare(rows, f"splits.{split}.{name}", figures.get(name), found.get(name))
    for config, splits in told.configs.items():
        for split, table in splits.items():
            left = rows.left_out[config, split]
            _compare(rows, f"configs.{config}.{split}.left_out", table.left_out, left)
    _expansion(rows)
    _instructions(rows)


def _expansion(rows: VersionRows) -> None:
    """As many rows of templates are told of as there are."""
    found: Counter[str] = Counter()
    for name, each in (rows.manifest.expansion or {}).items():
        if name not in rows.manifest.runs:
            rows.fault(FaultKind.FIGURE, MANIFEST, f"expansion.{name} is not among the runs")
        counts = each.get("rows")
        if isinstance(counts, dict):
            found.update({k: n for k, n in counts.items() if isinstance(n, int)})
    for split in {**found, **rows.figures.expanded}:
        counted = rows.figures.expanded[split]
        _compare(rows, f"expansion rows of {split}", found[split], counted)


def _instructions(rows: VersionRows) -> None:
    """What is told of instructions is what there is, by split and level; and so is the example."""
    told = rows.manifest.instructions or {}
    splits = told.get("splits")
    figures = splits if isinstance(splits, dict) else {}
    counts = rows.figures.instructions.items()
    counted = {split: found.told() for split, found in counts if found}
    for split in {**counted, **figures}:
        _compare(rows, f"instructions.{split}", figures.get(split), counted.get(split))
    files, made = rows.files, rows.splits(INSTRUCTIONS)
    names = chain.from_iterable(files.readable(INSTRUCTIONS.name, split) for split in made)
    shown = example(chain.from_iterable(map(files.rows, names)))
    _compare(rows, "instructions.example", told.get("example"), shown)


def _compare(rows: VersionRows, name: str, told: Any, counted: Any) -> None:
    if told == counted:
        return
    if isinstance(told, dict) and isinstance(counted, dict):
        keys = [k for k in {**counted, **told} if counted.get(k) != told.get(k)] or ["order"]
        name, told, counted = f"{name}.{keys[0]}", told.get(keys[0]), counted.get(keys[0])
    rows.fault(FaultKind.FIGURE, MANIFEST, f"{name} is {told}, the data have {counted}")


def _runs(files: VersionFiles, told: Manifest) -> None:
    """Each split comes from runs that are told, and has what its run accepted and rejected."""
    for split, figures in told.splits.items():
        names = figures.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            files.fault(FaultKind.FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    if told.extended and told.extended.run not in told.runs:
        files.fault(FaultKind.FIGURE, MANIFEST, "extended.run is not among the runs")
    for name, run in told.runs.items():
        try:
            counts = Counts.model_validate(run.get("counts"))
        except ValueError:
            files.fault(FaultKind.FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        _run_figures(files, name, counts, told)


def _run_figures(files: VersionFiles, name: str, counts: Counts, told: Manifest) -> None:
    """What a run accepted and rejected is there; of runs before the last only a part is left."""
    if told.extended:
        if name != told.extended.run:
            return
        configs = {"rows": SAMPLES, "rejected": REJECTED, "instructions": INSTRUCTIONS}
        rows = told.extended.rows
        found = {what: sum(rows.get(c.name, {}).values()) for what, c in configs.items()}
    else:
        last = told.splits if told.regenerated is None else [told.regenerated.value]
        splits = [told.splits[split] for split in last if split in told.splits]
        mine = [figures for figures in splits if figures.get("runs") == [name]]
        if not mine:
            return
        found = {what: sum(f.get(what, 0) for f in mine) for what in ("rows", "rejected")}
    made = counts.accepted, counts.rejected, counts.instructions
    figures = dict(zip(("rows", "rejected", "instructions"), made, strict=True))
    # A run for one split may have rejected records that belong to no split, among other runs'.
    runs = told.splits.get(BEFORE_QUERIES, {}).get("runs") if told.regenerated else None
    fell_before = isinstance(runs, list) and name in runs
    for what, number in found.items():
        fewer = what == "rejected" and number < figures[what] and fell_before
        if number != figures[what] and not fewer:
            detail = f"run {name} made {figures[what]} {what}, its splits have {number}"
            files.fault(FaultKind.FIGURE, MANIFEST, detail)


def _makers(rows: VersionRows) -> None:
    """The agents, models and prompts that rows name are those of the runs."""
    listed = (run.get("agents") for run in rows.manifest.runs.values())
    agents = [a for each in listed if isinstance(each, list) for a in each if isinstance(a, dict)]
    names = ("stage", "agent", "model", "prompts")
    known = {canonical([agent.get(name) for name in names]) for agent in agents}
    for maker in sorted(rows.figures.makers):
        if canonical(list(maker)) not in known:
            stage, agent, model, _ = maker
            detail = f"rows name {agent} of {stage} with the model {model!r}, and no run does"
            rows.fault(FaultKind.FIGURE, MANIFEST, detail)


def _card(files: VersionFiles) -> None:
    """README.md is what is made of the manifest."""
    if CARD not in files.hashes:
        return
    try:
        made = card(files.raw).encode("utf-8", "replace")
    except _UNFIT as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        files.fault(FaultKind.FIGURE, MANIFEST, f"no card can be made of it ({why})")
        return
    if hashlib.sha256(made).hexdigest() == files.hashes[CARD]:
        return
    if files.raw["code"] != code_hash():
        files.findings.notes.append(
            f"The words of {CARD} were not compared: toolloom {files.raw['toolloom']} wrote it."
        )
        return
    lines = zip(made.splitlines(), (files.root / CARD).read_bytes().splitlines(), strict=False)
    place, told = next(
        ((n, found) for n, (line, found) in enumerate(lines, 1) if line != found), (0, b"")
    )
    line = told.decode("utf-8", "replace")[:200]
    files.fault(
        FaultKind.FIGURE, CARD, f"line {place} is not what the manifest makes of it: {line}"
    )
