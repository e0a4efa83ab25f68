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
AGENTS = {
    "domains": "domain",
    "apis": "api",
    "queries": "query",
    "dialogues": "simulator",
    "tested": "tester",
}


def rows(run: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (run / stage / f"{kind}.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_all_five_agents_are_asked_and_what_is_rejected_is_kept(tmp_path: Path) -> None:
    """Each record is accepted, or rejected with a reason and with what the model said; a version
    is published if any row is accepted."""
    made = run_recipe(load_recipe(RECIPE), tmp_path)
    run = Path(made.summary.path)
    lost = {stage: rows(run, stage, "rejected") for stage in AGENTS}
    for stage, agent in AGENTS.items():
        booked = [p for row in rows(run, stage, "accepted") for p in row["provenance"]]
        answered = any(p["agent"] == agent and p["requests"] for p in booked)
        assert answered or any(row["raw"] for row in lost[stage]), stage
    kept = [row["dialogue"]["query"]["id"] for row in rows(run, "deduplicated", "accepted")]
    queries = [row["id"] for kind in ("accepted", "rejected") for row in rows(run, "queries", kind)]
    ends = [
        *kept,
        *(row["id"] for stage in ("queries", "dialogues", "tested") for row in lost[stage]),
    ]
    assert sorted([*ends, *(row["id"] for row in rows(run, "deduplicated", "rejected"))]) == sorted(
        queries
    )
    assert all(row["reason"] and row["detail"] for part in lost.values() for row in part)
    assert bool(made.published) == bool(kept)
