"""Verifies a version of a dataset without a model or a network.

Its bytes against its hashes, its tables against the layout, every row against all certain checks,
its splits against their plan, its figures and its card against the data, its parent's hash.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from toolloom.pipeline.card import card
from toolloom.pipeline.checks import CHECKS
from toolloom.pipeline.configs import APIS, SAMPLES, SFT
from toolloom.pipeline.publish import code_hash
from toolloom.pipeline.report import Counts
from toolloom.pipeline.tallies import RowCounts
from toolloom.pipeline.verify_files import CARD, MANIFEST, SUMS, Files, Told, look, look_at_tables
from toolloom.pipeline.verify_report import Findings, Kind, Report
from toolloom.pipeline.verify_rows import (
    BEFORE_QUERIES,
    Rows,
    verify_apis,
    verify_rejected,
    verify_samples,
)
from toolloom.pipeline.versions import LAYOUT, change, dotted, find_version, numbered, numbers
from toolloom.schemas import JsonObject, NothingFound, Split, canonical

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
    whole = Path(name) if "\0" not in name else outputs / "datasets"
    for path in (whole, outputs / "datasets" / name.strip("/") if "\0" not in name else whole):
        if (path / MANIFEST).is_file() or (path / SUMS).is_file():
            return path.resolve()
        if path.is_dir() and (known := numbers(path)):
            return path / dotted(known[-1])
    if whole.is_dir():
        raise NothingFound(f"{whole}: is no version of a dataset (it holds no {MANIFEST}).")
    return find_version(outputs, name).path


def verify(path: Path, progress: Progress | None = None) -> Report:
    """Everything that can be known of a version from its folder. Raises StoreError."""
    started, findings = time.monotonic(), Findings()
    files = look(path, findings)
    rows = None
    if files.told is not None and files.manifest is not None:
        look_at_tables(files, findings)
        rows = _read(files, files.told, findings, progress)
        _figures(files.told, rows, findings)
        _runs(files.told, findings)
        _makers(files.told, rows, findings)
        _card(files, files.manifest, findings)
        _lineage(files, files.told, files.manifest, findings)
    told = files.told
    return Report(
        path=str(path),
        version=f"{told.name}/{told.version}" if told else path.name,
        files=len(files.sizes),
        size=sum(files.sizes.values()),
        rows=rows.read if rows else {},
        inspected=rows.inspected if rows else 0,
        checks=sum(map(len, CHECKS)),
        counts={kind: findings.counts[kind] for kind in Kind if findings.counts[kind]},
        faults=findings.ordered(),
        notes=tuple(findings.notes),
        seconds=time.monotonic() - started,
    )


def _read(files: Files, told: Told, findings: Findings, progress: Progress | None) -> Rows:
    total = sum(sheet.rows for config in told.configs.values() for sheet in config.values())
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress and done % 64 == 0:
            progress(done, total)

    rows = Rows(files, told, findings, step)
    verify_apis(rows)
    for split in told.configs.get(SAMPLES.name, {}):
        verify_samples(rows, split)
    for split in told.configs.get(SFT.name, {}):
        if split not in told.configs.get(SAMPLES.name, {}):
            findings.add(Kind.TRAINING, MANIFEST, f"`sft` has {split}, `samples` has not")
    verify_rejected(rows)
    return rows


def _figures(told: Told, rows: Rows, findings: Findings) -> None:
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
            left = rows.left_out.get(split, 0) if config == SFT.name else 0
            _compare(f"configs.{config}.{split}.left_out", sheet.left_out, left, findings)


def _compare(name: str, told: Any, counted: Any, findings: Findings) -> None:
    if told == counted:
        return
    if isinstance(told, dict) and isinstance(counted, dict):
        keys = [k for k in {**counted, **told} if counted.get(k) != told.get(k)] or ["order"]
        name, told, counted = f"{name}.{keys[0]}", told.get(keys[0]), counted.get(keys[0])
    detail = f"{name} is {told}, the data have {counted}"
    findings.add(Kind.FIGURE, MANIFEST, detail)


def _runs(told: Told, findings: Findings) -> None:
    """Each split comes from runs that are told, and has what its run accepted and rejected."""
    for split, figures in told.splits.items():
        names = figures.get("runs")
        if not isinstance(names, list) or not names or set(map(str, names)) - set(told.runs):
            findings.add(Kind.FIGURE, MANIFEST, f"splits.{split}.runs are not among the runs")
    for name, run in told.runs.items():
        try:
            counts = Counts.model_validate(run.get("counts"))
        except ValueError:
            findings.add(Kind.FIGURE, MANIFEST, f"runs.{name}.counts cannot be read")
            continue
        whole = told.regenerated is None
        mine = {split: f for split, f in told.splits.items() if f.get("runs") == [name]}
        if not whole:  # of the runs before it only a part is left
            mine = {split: f for split, f in mine.items() if split == told.regenerated}
        if mine:
            for what, figure in (("rows", counts.accepted), ("rejected", counts.rejected)):
                found = sum(f.get(what, 0) for f in mine.values())
                if found != figure:
                    detail = f"run {name} made {figure} {what}, its splits have {found}"
                    findings.add(Kind.FIGURE, MANIFEST, detail)


def _makers(told: Told, rows: Rows, findings: Findings) -> None:
    """The agents, models and prompts that rows name are those of the runs."""
    listed = (run.get("agents") for run in told.runs.values())
    agents = [a for each in listed if isinstance(each, list) for a in each if isinstance(a, dict)]
    names = ("stage", "agent", "model", "prompts")
    known = {canonical([agent.get(name) for name in names]) for agent in agents}
    for maker in sorted(rows.makers):
        if canonical(list(maker)) not in known:
            stage, agent, model, _ = maker
            detail = f"rows name {agent} of {stage} with the model {model!r}, and no run does"
            findings.add(Kind.FIGURE, MANIFEST, detail)


def _card(files: Files, manifest: JsonObject, findings: Findings) -> None:
    """README.md is what is made of the manifest."""
    if CARD not in files.hashes:
        return
    try:
        made = card(manifest).encode("utf-8", "replace")
    except _UNFIT as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        findings.add(Kind.FIGURE, MANIFEST, f"no card can be made of it ({why})")
        return
    if hashlib.sha256(made).hexdigest() == files.hashes[CARD]:
        return
    if manifest["code"] != code_hash():
        findings.notes.append(
            f"The words of {CARD} were not compared: toolloom {manifest['toolloom']} wrote it."
        )
        return
    lines = zip(made.splitlines(), (files.root / CARD).read_bytes().splitlines(), strict=False)
    place, told = next(
        ((n, found) for n, (line, found) in enumerate(lines, 1) if line != found), (0, b"")
    )
    line = told.decode("utf-8", "replace")[:200]
    findings.add(Kind.FIGURE, CARD, f"line {place} is not what the manifest makes of it: {line}")


def _lineage(files: Files, told: Told, manifest: JsonObject, findings: Findings) -> None:
    """The parent is the one recorded, and what was not made anew is as it was there."""
    number = numbered(Path(told.version))
    if number is None or told.layout != LAYOUT:
        findings.add(Kind.LINEAGE, MANIFEST, f"{told.version} is no number of a version")
        return
    if told.parent is None:
        if told.regenerated or number[1:] != (0, 0):
            findings.add(Kind.LINEAGE, MANIFEST, f"{told.version} needs a parent, and has none")
        return
    before = numbered(Path(told.parent.version))
    if before is None or before >= number:
        detail = f"{told.version} does not come after its parent {told.parent.version}"
        findings.add(Kind.LINEAGE, MANIFEST, detail)
        return
    path = files.root.parent / dotted(before) / MANIFEST
    if not path.is_file():
        findings.notes.append(f"The parent version {told.parent.version} is not here.")
        return
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != told.parent.sha256:
        detail = f"the manifest of {told.parent.version} is not the one this version follows"
        findings.add(Kind.LINEAGE, MANIFEST, detail)
        return
    try:
        parent = json.loads(raw)
        kind = change(parent, manifest)
        kept = _kept(parent, told.regenerated)
    except (ValueError, KeyError, TypeError, AttributeError):
        findings.add(Kind.LINEAGE, MANIFEST, f"the manifest of {dotted(before)} is damaged")
        return
    if not _follows(before, number, kind):
        detail = f"{told.version} after {told.parent.version}, but the change is {kind}"
        findings.add(Kind.LINEAGE, MANIFEST, detail)
    mine = {name: found.sha256 for _, _, name, found in told.tables()}
    for name, sha256 in kept.items() if told.regenerated else ():
        if mine.get(name) != sha256:
            detail = f"is not the file of {told.parent.version}, but only {told.regenerated} is new"
            findings.add(Kind.LINEAGE, name, detail)


def _kept(parent: JsonObject, regenerated: Split | None) -> dict[str, str]:
    """The hashes of the parent's tables that a regeneration leaves as they are."""
    return {
        name: told["sha256"]
        for config, splits in parent["configs"].items()
        for split, sheet in splits.items()
        if split != regenerated or config == APIS.name
        for name, told in sheet["files"].items()
    }


def _follows(before: tuple[int, int, int], number: tuple[int, int, int], kind: str) -> bool:
    if kind == "major":
        return number[0] > before[0] and number[1:] == (0, 0)
    if kind == "minor":
        return number[0] == before[0] and number[1] > before[1] and number[2] == 0
    return number[:2] == before[:2]
