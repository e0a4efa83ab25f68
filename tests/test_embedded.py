"""A run on the real model that ships with the `local` extra, asked as any other model is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolloom.pipeline.run import run_recipe
from toolloom.schemas import parse_recipe

pytest.importorskip("xllamacpp", reason="the embedded model is the extra `local`")

# Nothing has to be said word for word, so that such a model's requests come as far as a dialogue.
SHOP = '''
def opening_hours() -> dict[str, str]:
    """Tell when the shop opens and closes today."""


def open_orders() -> list[str]:
    """List the orders of the shop that are still open."""
'''
ONE_CALL = {"abilities": {"call": 1}, "scenarios": {"single": 1}}
STAGES = ("queries", "dialogues", "tested", "deduplicated")


def rows(run: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (run / stage / f"{kind}.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_whatever_the_embedded_model_writes_is_accepted_or_rejected(tmp_path: Path) -> None:
    """Whole questions to a model this small come to an end: each record is accepted, or rejected
    with a reason and with what the model said; a version is published if any row is accepted."""
    (tmp_path / "shop.py").write_text(SHOP)
    fields = {
        "name": "tiny",
        "model": {"base_url": "local", "candidates": 1},
        "apis": {"domains": 1, "per_domain": 1, "sources": [{"path": str(tmp_path / "shop.py")}]},
        "queries": {"count": 2, "distractors": 1, **ONE_CALL},
        "splits": {"seen": ["shop"]},
        "tester": {"votes": 0},
    }
    made = run_recipe(parse_recipe(fields, "tiny"), tmp_path)
    run = Path(made.summary.path)
    lost = {stage: rows(run, stage, "rejected") for stage in ("domains", "apis", *STAGES)}
    kept = [row["dialogue"]["query"]["id"] for row in rows(run, "deduplicated", "accepted")]
    queries = [row["id"] for kind in ("accepted", "rejected") for row in rows(run, "queries", kind)]
    ends = [*kept, *(row["id"] for stage in STAGES for row in lost[stage])]
    assert len(queries) == 2
    assert sorted(ends) == sorted(queries)
    assert all(row["reason"] and row["detail"] for part in lost.values() for row in part)
    assert all(row["raw"] for stage in ("domains", "apis", "queries") for row in lost[stage])
    assert bool(made.published) == bool(kept)
