"""A version's parent, and what it has of it: files that stay, rows that others were added to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from toolloom.pipeline.dataset.configs import APIS, REJECTED
from toolloom.pipeline.dataset.tallies import BEFORE_QUERIES
from toolloom.pipeline.dataset.verify_files import MANIFEST, Files, Told, read_table
from toolloom.pipeline.dataset.verify_report import Findings, Kind
from toolloom.pipeline.store.version import LAYOUT, change, dotted, numbered
from toolloom.schemas import JsonObject


def verify_lineage(files: Files, told: Told, manifest: JsonObject, findings: Findings) -> None:
    """The parent is the one recorded, and what was not made anew is as it was there."""
    number = numbered(Path(told.version))
    if number is None or told.layout != LAYOUT:
        findings.add(Kind.LINEAGE, MANIFEST, f"{told.version} is no number of a version")
        return
    if told.parent is None:
        if told.regenerated or told.extended or number[1:] != (0, 0):
            findings.add(Kind.LINEAGE, MANIFEST, f"{told.version} needs a parent, and has none")
        return
    if told.regenerated and told.extended:
        findings.add(Kind.LINEAGE, MANIFEST, "is a split made anew and an extension at once")
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
        kept = dict(_kept(parent, told))
        rows = list(_grown(parent, told))
    except (ValueError, KeyError, TypeError, AttributeError):
        findings.add(Kind.LINEAGE, MANIFEST, f"the manifest of {dotted(before)} is damaged")
        return
    if not _follows(before, number, kind):
        detail = f"{told.version} after {told.parent.version}, but the change is {kind}"
        findings.add(Kind.LINEAGE, MANIFEST, detail)
    _files_stay(kept, told, findings)
    for config, split in rows:
        _rows_stay(files, told, parent, config, split, findings)


def _kept(parent: JsonObject, told: Told) -> Iterator[tuple[str, str]]:
    """The parent's tables that stay as they are, with their hashes."""
    if not told.regenerated and not told.extended:
        return
    for config, splits in parent["configs"].items():
        for split, sheet in splits.items():
            anew = split == told.regenerated and config != APIS.name
            if not anew and not _added(told, config, split):
                yield from ((name, file["sha256"]) for name, file in sheet["files"].items())


def _added(told: Told, config: str, split: str) -> bool:
    """Whether a split of a config got rows, or may have."""
    if told.extended is None:
        return (config, split) == (REJECTED.name, BEFORE_QUERIES)
    return split in told.extended.rows.get(config, {})


def _grown(parent: JsonObject, told: Told) -> Iterator[tuple[str, str]]:
    """Config and split of the parent's tables that got rows, or may have."""
    if not told.regenerated and not told.extended:
        return
    for config, splits in parent["configs"].items():
        for split, sheet in splits.items():
            if _added(told, config, split) and sheet["files"]:
                yield config, split


def _files_stay(kept: dict[str, str], told: Told, findings: Findings) -> None:
    assert told.parent
    mine = {name: found.sha256 for _, _, name, found in told.tables()}
    what = f"only {told.regenerated} is new" if told.regenerated else "no rows were added to it"
    for name, sha256 in kept.items():
        if mine.get(name) != sha256:
            detail = f"is not the file of {told.parent.version}, but {what}"
            findings.add(Kind.LINEAGE, name, detail)


def _rows_stay(
    files: Files, told: Told, parent: JsonObject, config: str, split: str, findings: Findings
) -> None:
    """The parent's rows are the first ones, and as many were added as the manifest says."""
    assert told.parent
    there = Files(files.root.parent / Path(told.parent.version).name)
    sheet = parent["configs"][config][split]
    sheets = told.configs.get(config, {})
    now = sheets[split].rows if split in sheets else 0
    added = told.extended.rows[config][split] if told.extended else now - sheet["rows"]
    if now != sheet["rows"] + added:
        detail = f"extended.rows.{config}.{split} is {added}, but it has {now - sheet['rows']} more"
        findings.add(Kind.FIGURE, MANIFEST, detail)
    for name, file in sheet["files"].items():
        path = there.root / name
        if not path.is_file() or _sha256(path) != file["sha256"]:
            findings.notes.append(f"{name} of {told.parent.version} is damaged: not compared.")
            return
    mine = (row for n in files.readable(config, split) for row in read_table(files, n, findings))
    for name in sheet["files"]:
        for row in read_table(there, name, findings):
            if next(mine, None) != row:
                detail = f"has no longer the rows of {told.parent.version} in their order"
                findings.add(Kind.LINEAGE, next(iter(sheet["files"])), detail, row.get("id"))
                return


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _follows(before: tuple[int, int, int], number: tuple[int, int, int], kind: str) -> bool:
    if kind == "major":
        return number[0] > before[0] and number[1:] == (0, 0)
    if kind == "minor":
        return number[0] == before[0] and number[1] > before[1] and number[2] == 0
    return number[:2] == before[:2]
