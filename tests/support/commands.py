"""`toolloom` called as a command, in this process, and a dataset to call it on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from typer.testing import CliRunner, Result

from support import toys
from toolloom.cli import app
from toolloom.pipeline.dataset.configs import APIS, SAMPLES
from toolloom.pipeline.dataset.figures import describe
from toolloom.pipeline.store.parquet import VersionWriter
from toolloom.schemas import Sample
from toolloom.schemas.base import LAYOUT


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def shop(outputs: Path, samples: Iterable[tuple[str, Sample]]) -> Path:
    """The version shop/1.0.0 of samples by split and two APIs; the folder of outputs."""
    folder = outputs / "datasets" / "shop" / "1.0.0"
    with VersionWriter(folder) as tables:
        for split, sample in samples:
            for row in SAMPLES.row.of(sample.model_dump(mode="json")):
                tables.add(SAMPLES, split, row)
        for name in ("current", "forecast"):
            (row,) = APIS.row.of(toys.api(name=name).model_dump(mode="json"))
            tables.add(APIS, "train", row)
        tables.finish()
    manifest = {"layout": LAYOUT, "name": "shop", "version": "1.0.0", "content": "0" * 64}
    manifest |= {"toolloom": "0", "code": "0", "plan": {}, "runs": {}, "files": {}}
    manifest |= {"parent": None, "regenerated": None}
    (folder / "manifest.json").write_text(json.dumps({**manifest, **describe(folder)}))
    return outputs
