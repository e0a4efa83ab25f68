"""What a manifest tells of rows of templates and of instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from toolloom.pipeline.dataset.configs import INSTRUCTIONS
from toolloom.pipeline.dataset.instruction_counts import LEVELS
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.tables import read_rows
from toolloom.schemas import JsonObject

TEMPLATES, EXPANDED = "templates", "expanded"  # stages
LONGEST = 600  # letters of an example's instruction


def told_expansion(run: RunFolder, rows: Mapping[str, int]) -> JsonObject | None:
    """What a run made of templates; None if it was not to. `rows`: by split."""
    if EXPANDED not in {stage.name for stage in run.plan}:
        return None
    kinds, values, used = Counter[str](), Counter[str](), set[str]()
    for template in run.stage(TEMPLATES).objects("accepted"):
        kinds[template["kind"]] += 1
        values.update(finding["reason"] for finding in template["refused"])
    inspected = 0
    for expansion in run.expansions():
        used.add(expansion.template.id)
        inspected += expansion.inspected
    return {
        "templates": dict(sorted(kinds.items())),
        "used": len(used),
        "rows": dict(rows),
        "inspected": inspected,
        "refused": _reasons(run, TEMPLATES),
        "values": _ranked(values),
        "rejected": _reasons(run, EXPANDED),
        "coverage": _coverage(run),
    }


def _coverage(run: RunFolder) -> JsonObject | None:
    """How far its templates reach over the APIs; None of a run without a plan for it."""
    from toolloom.pipeline.dataset.expansion_coverage import coverage_of

    found = coverage_of(run)
    told = found.told() if found else {}
    return {name: told[name] for name in ("apis", "covered", "kinds", "without")} if told else None


def _reasons(run: RunFolder, stage: str) -> dict[str, int]:
    return _ranked(Counter(row["reason"] for row in run.stage(stage).objects("rejected")))


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def told_instructions(splits: JsonObject, configs: JsonObject, folder: Path) -> JsonObject | None:
    """What is told of the instructions in a folder's tables; None if there are none.

    `splits`: their figures by split.
    """
    if not splits:
        return None
    made = configs.get(INSTRUCTIONS.name, {})
    rows = (
        row for sheet in made.values() for name in sheet["files"] for row in _rows(folder, name)
    )
    return {"splits": splits, "example": example(rows)}


def _rows(folder: Path, name: str) -> Iterator[JsonObject]:
    return read_rows(folder / name)


def example(rows: Iterable[JsonObject]) -> JsonObject | None:
    """The first request that has an instruction at every level, else the first with the most."""
    best: JsonObject | None = None
    for name, group in groupby(rows, key=_sample):
        found = {row["level"]: str(row["instruction"])[:LONGEST] for row in group}
        levels = {level: found[level] for level in LEVELS if level in found}
        if best is None or len(levels) > len(best["levels"]):
            best = {"sample": name, "levels": levels}
        if len(levels) == len(LEVELS):
            break
    return best


def _sample(row: JsonObject) -> Any:
    return row["sample"]
