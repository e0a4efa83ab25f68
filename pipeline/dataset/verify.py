"""Verifies a version of a dataset without a model or a network.

Its bytes against its hashes, its tables against the layout, every row against all certain checks,
its splits against their plan, its figures and its card against the data, its parent's hash.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from toolloom.pipeline.checks import CHECKS
from toolloom.pipeline.dataset.card import card
from toolloom.pipeline.dataset.configs import SAMPLES, SFT
from toolloom.pipeline.dataset.publish import code_hash
from toolloom.pipeline.dataset.verify_figures import verify_figures, verify_runs
from toolloom.pipeline.dataset.verify_files import (
    CARD,
    MANIFEST,
    SUMS,
    Files,
    Told,
    look,
    look_at_tables,
)
from toolloom.pipeline.dataset.verify_instructions import Solutions, verify_instructions
from toolloom.pipeline.dataset.verify_lineage import verify_lineage
from toolloom.pipeline.dataset.verify_reading import Rows
from toolloom.pipeline.dataset.verify_report import Findings, Kind, Report
from toolloom.pipeline.dataset.verify_rows import verify_apis, verify_rejected, verify_samples
from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.version import dotted, find_version, numbers
from toolloom.schemas import JsonObject, NothingFound, canonical

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
    place = _place_of(outputs, name)
    mirror.fetch(place)
    return place


def _place_of(outputs: Path, name: str) -> Path:
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
        verify_figures(files, files.told, rows, findings)
        verify_runs(files.told, findings)
        _makers(files.told, rows, findings)
        _card(files, files.manifest, findings)
        verify_lineage(files, files.told, files.manifest, findings)
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
    with Solutions(rows) as solutions:
        verify_apis(rows)
        for split in told.configs.get(SAMPLES.name, {}):
            verify_samples(rows, split, solutions.keep)
        for split in told.configs.get(SFT.name, {}):
            if split not in told.configs.get(SAMPLES.name, {}):
                findings.add(Kind.TRAINING, MANIFEST, f"`sft` has {split}, `samples` has not")
        verify_instructions(rows, solutions)
    verify_rejected(rows)
    return rows


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
