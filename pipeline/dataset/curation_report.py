"""The pairs that decontamination found, as a published version shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from toolloom.pipeline.curation.contamination import read
from toolloom.pipeline.curation.rows import query
from toolloom.pipeline.store.run import RunFolder
from toolloom.schemas import JsonObject, Reason, SplitPlan
from toolloom.schemas.splits import split_of

STAGE = "decontaminated"
EXPANDED = "expanded"  # rows of templates are held against benchmarks there


def contamination(run: RunFolder) -> Iterator[JsonObject]:
    """Each pair of a run's row and a benchmark's: rows that were dropped, then rows that stay.

    `id`, `split`, `dropped`, `check` (words, text or calls), `benchmark`, `place`, `match`, and
    both texts as `row` and `theirs`.
    """
    recipe = run.recipe
    stages = {stage.name for stage in run.plan if not stage.given}
    for name in (STAGE, EXPANDED):
        if name in stages:
            yield from pairs(run.stage(name).objects("rejected"), recipe.splits)
    if STAGE in stages and recipe.curation.contaminated == "flag":
        yield from pairs(run.samples(), recipe.splits)


def pairs(rows: Iterable[JsonObject], plan: SplitPlan) -> Iterator[JsonObject]:
    """The pairs in rejected records, or in the flags of samples."""
    for row in rows:
        dropped = "record" in row
        sample = row["record"] if dropped else row
        for found in row["findings"] if dropped else row["flags"]:
            if found["reason"] != Reason.CONTAMINATED:
                continue
            match, need = read(found["check"], found["detail"]), query(sample)
            yield {
                "id": need["id"],
                "split": split_of(plan, need).value,
                "dropped": dropped,
                "check": match.check,
                "benchmark": match.benchmark,
                "place": match.place,
                "match": match.match,
                "row": match.row,
                "theirs": match.theirs,
            }
