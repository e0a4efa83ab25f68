"""Finished runs of records made by hand, and the versions that are published of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import toys

from toolloom.pipeline.dataset.publish import Published, publish
from toolloom.pipeline.store.files import record_line
from toolloom.pipeline.store.run import RunFolder
from toolloom.pipeline.store.stage_files import Use
from toolloom.schemas import Rejected, Sample


def finished_run(
    outputs: Path, samples: list[Sample], rejected: list[Rejected] | None = None, **changes: Any
) -> RunFolder:
    """A run of one stage with the records given."""
    recipe = toys.recipe(**changes)
    folder = RunFolder(outputs / "runs" / recipe.run_id)
    folder.open(recipe, [toys.TESTED.line()])
    folder.stage("tested").write_shard(
        0, map(record_line, samples), map(record_line, rejected or []), Use()
    )
    folder.stage("tested").finish(1, Sample, None)
    return folder


def published(tmp_path: Path, *samples: Sample) -> Published:
    return publish(finished_run(tmp_path, list(samples)), tmp_path)
