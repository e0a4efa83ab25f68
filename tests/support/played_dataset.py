"""A dataset to verify, played by the scripted endpoint, and the kinds of what is found."""

from __future__ import annotations

import asyncio
from pathlib import Path

from toolloom.llm.fake import FakeServer
from toolloom.pipeline.dataset.verify_files import FaultKind, VerifyReport
from toolloom.pipeline.growth import plan_regeneration
from toolloom.pipeline.run import make_dataset
from toolloom.schemas import parse_recipe

FIELDS = {
    "name": "toy",
    "seed": 7,
    "apis": {"domains": 6, "per_domain": 3},
    "queries": {"count": 60, "distractors": 2},
    "tester": {"votes": 1},
    "splits": {"train": 4, "validation": 2, "test_instruction": 2, "test_tool": 2},
}


def play(outputs: Path) -> None:
    """A dataset that the scripted endpoint plays, and its next version with a new split."""
    with FakeServer().serve_in_thread() as server:
        model = {"base_url": server.base_url, "model": "fake", "concurrency": 16}
        asyncio.run(
            make_dataset(parse_recipe({**FIELDS, "model": model}, "a recipe"), outputs=outputs)
        )
        again = plan_regeneration(outputs, "toy", "train", seed=9)
        asyncio.run(make_dataset(again, outputs=outputs))


def only(report: VerifyReport) -> set[FaultKind]:
    return set(report.counts)
