"""The recipe of the embedded model, on the real model that ships with the `local` extra."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.run import run_recipe
from toolloom.schemas import load_recipe

pytest.importorskip("xllamacpp", reason="the embedded model is the extra `local`")

RECIPE = Path(__file__).parents[1] / "recipes" / "embedded.yaml"
ASKED = ("domains", "apis", "queries", "dialogues", "tested")  # by the five agents
STAGES = (*ASKED, "deduplicated")


def rows(run: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (run / stage / f"{kind}.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_five_agents_work_and_what_is_rejected_is_kept(tmp_path: Path) -> None:
    """All five ask the model. Each record is accepted, or rejected with a reason and with what the
    model said. A version is published if any row is accepted."""
    made = run_recipe(load_recipe(RECIPE), tmp_path)
    run = Path(made.summary.path)
    kept = {stage: rows(run, stage, "accepted") for stage in STAGES}
    lost = {stage: rows(run, stage, "rejected") for stage in STAGES}
    assert all(row["reason"] and row["detail"] for part in lost.values() for row in part)
    for stage in ASKED:
        booked = [p for row in kept[stage] for p in row["provenance"] if p["stage"] == stage]
        assert any(p["requests"] for p in booked) or any(row["raw"] for row in lost[stage]), stage
    queries = sorted(row["id"] for row in (*kept["queries"], *lost["queries"]))
    ends = [
        *(row["id"] for stage in STAGES[2:] for row in lost[stage]),
        *(row["dialogue"]["query"]["id"] for row in kept["deduplicated"]),
    ]
    assert queries == sorted(ends)
    assert len(queries) == 3
    assert bool(made.published) == bool(kept["deduplicated"])
