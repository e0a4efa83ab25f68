"""A toy dataset that grows: stages that note what they work on, and what is read of a version."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import beside
import toys

from toolloom.pipeline.curation import duplicates
from toolloom.pipeline.dataset.verify import verify
from toolloom.pipeline.growth import plan_growth
from toolloom.pipeline.run import Made, make_dataset
from toolloom.pipeline.stage import Context, Outcome, Stage
from toolloom.pipeline.store.version import Version
from toolloom.schemas import EndpointDown, Need, Query, Reason, Recipe, Sample

PLAN = {"unseen": ["c1", "c2/t0"], "seen": ["c2", "c3", "c4", "c5"]}


TOYISH = {"check", "record"}


class Maker:
    """The toy stages with the real search for duplicates; notes what is worded, and may stop."""

    def __init__(
        self,
        dies_after: int = 10**6,
        accepts: bool = True,
        says: Callable[[Need], str] = lambda need: need.id,
    ) -> None:
        self.asked: list[str] = []
        self._says = says
        self._left, self._accepts = dies_after, accepts
        domains, apis, queries, tested = toys.SPLIT_STAGES
        sifted = Stage("deduplicated", "", Sample, Sample, sift=duplicates.deduplicate)
        word = dataclasses.replace(queries, work=self._word)
        test = dataclasses.replace(tested, work=self._test)
        self.stages = (domains, apis, word, test, sifted, *beside.BESIDE)

    async def _word(self, need: Need, context: Context) -> Outcome:
        if not self._left:
            raise EndpointDown("nobody answers")
        self._left -= 1
        self.asked.append(need.id)
        said = self._says(need)
        text = " ".join(hashlib.sha256(f"{said} {n}".encode()).hexdigest() for n in range(3))
        return Outcome((Query(**dict(need), text=text),))

    async def _test(self, query: Query, context: Context) -> Outcome:
        if self._accepts:
            outcome: Outcome = await toys.test_needs(query, context)
            return outcome
        return Outcome((), (toys.rejected(query, "tested", Reason.UNHELPFUL_ANSWER),))


def recipe(**changes: Any) -> Recipe:
    queries = {"count": 60, "distractors": 1}
    fields = {"apis": {"domains": 6}, "queries": queries, "splits": PLAN, "shard_size": 4}
    made: Recipe = toys.recipe(**{**fields, **changes})
    return made


async def make(outputs: Path, planned: Recipe, maker: Maker | None = None) -> Made:
    return await make_dataset(planned, outputs=outputs, stages=(maker or Maker()).stages)


async def grow(outputs: Path, maker: Maker | None = None, **changes: Any) -> Version:
    made = await make(outputs, plan_growth(outputs, recipe(**changes)), maker)
    assert made.published
    return made.published.version


def rows(version: Version, config: str, split: str = "train") -> list[Any]:
    return list(version.rows(config, split))


def files(version: Version, but: str) -> dict[str, str]:
    """Hashes of the tables of all splits but one, as they are on the disk."""
    return {
        path.relative_to(version.path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in version.path.rglob("*.parquet")
        if not path.name.startswith(f"{but}-") or path.parent.name == "apis"
    }


def faults(version: Version) -> list[Any]:
    """What verification finds, but for the toy dialogues, which the checks object to."""
    return [fault for fault in verify(version.path).faults if fault.kind.value not in TOYISH]
