"""`toolloom` called as a command, in this process, and a dataset to call it on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from typer.testing import CliRunner, Result

from support import toys
from toolloom.cli import app
from toolloom.pipeline.dataset.rows import APIS, CONFIGS, SAMPLES, samples_row
from toolloom.pipeline.store.tables import VersionWriter
from toolloom.pipeline.store.version import LAYOUT
from toolloom.schemas import Sample


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def shop(outputs: Path, samples: Iterable[tuple[str, Sample]]) -> Path:
    """The version shop/1.0.0 of samples by split and two APIs; the folder of outputs."""
    folder = outputs / "datasets" / "shop" / "1.0.0"
    with VersionWriter(folder, CONFIGS) as tables:
        for split, sample in samples:
            tables.add(SAMPLES, split, samples_row(sample.model_dump(mode="json")))
        for name in ("current", "forecast"):
            (row,) = APIS.row.of(toys.api(name=name).model_dump(mode="json"))
            tables.add(APIS, "train", row)
        configs = tables.finish()
    manifest = {"layout": LAYOUT, "name": "shop", "version": "1.0.0", "content": "x"}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "configs": configs}))
    return outputs
