"""Good dialogues stay good when they are exported, and read again as data of others."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from toolloom.pipeline.dataset.export.formats import FORMATS
from toolloom.pipeline.formats.audit import audited
from toolloom.pipeline.formats.base import NotRepresentable
from toolloom.schemas import Dialogue, Sample, Verdict

# Format of the export → format of the audit.
READ_AS = {
    "trl": "trl",
    "openai": "openai",
    "hermes": "hermes",
    "llamafactory": "sharegpt",
    "xlam": "xlam",
    "bfcl": "bfcl",
    "api-bank": "api-bank",
    "toolllama": "toolbench",
}


def exported(name: str, dialogues: list[Dialogue], folder: Path) -> list[Path]:
    """The files of an export as JSON lines, but for those of gold answers."""
    form = next(form for form in FORMATS if form.name == name)
    arguments = form.arguments[0] if form.arguments else "object"
    rows: dict[Path, list[str]] = {}
    for number, dialogue in enumerate(dialogues):
        query = dialogue.query.model_copy(update={"id": f"train-7-{number:06}"})
        sample = Sample(dialogue=dialogue.model_copy(update={"query": query}), verdict=Verdict())
        with contextlib.suppress(NotRepresentable):
            for file, row in form.rows(sample, arguments).rows:
                path = folder / form.files[file].path.format(split="train")
                rows.setdefault(path.with_suffix(".jsonl"), []).append(json.dumps(row))
    for path, lines in rows.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return [path for path in rows if path.parent.name != "possible_answer"]


@pytest.mark.parametrize("name", READ_AS)
def test_an_export_of_good_dialogues_passes_its_audit(
    name: str, all_good: list[Dialogue], tmp_path: Path
) -> None:
    """No check of an audit calls wrong what the checks of a dialogue call right."""
    faults = [
        (row.reading.place, finding.detail)
        for path in exported(name, all_good, tmp_path)
        for row in audited(path, READ_AS[name])
        for finding in row.findings
    ]
    assert faults == []
