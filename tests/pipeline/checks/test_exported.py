"""Good dialogues stay good when they are exported, and read again as data of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.shop import Shop, changed

from toolloom.pipeline.dataset.exporting import FORMATS, export
from toolloom.pipeline.formats.audit import audited
from toolloom.schemas import Dialogue, Sample, Verdict

READ = {
    "trl": "train.parquet",
    "openai": "train.jsonl",
    "hermes": "train.jsonl",
    "llamafactory": "train.jsonl",
    "api-bank": "train.json",
}
"""The file of an export that `audit` reads."""


@pytest.mark.parametrize("name", READ)
def test_an_export_of_good_dialogues_passes_its_audit(
    name: str, all_good: list[Dialogue], tmp_path: Path
) -> None:
    """No check of an audit calls wrong what the checks of a dialogue call right."""
    samples = [
        changed(Sample(dialogue=good, verdict=Verdict()), id=f"train-7-{number:06}")
        for number, good in enumerate(all_good)
    ]
    export(Shop({"train": samples}), FORMATS[name], tmp_path)
    rows = list(audited(tmp_path / READ[name]))
    assert [(row.reading.place, f.detail) for row in rows for f in row.findings] == []
