"""One whole run on the real model that ships with the `local` extra."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasets
import pytest

from toolloom.pipeline.run import run_recipe
from toolloom.schemas import load_recipe, parse_recipe

pytest.importorskip("xllamacpp", reason="the embedded model is the extra `local`")
QUICKSTART = Path(__file__).parents[1] / "recipes" / "quickstart.yaml"


def rows(run: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    return [json.loads(x) for x in (run / stage / f"{kind}.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_the_embedded_model_makes_a_dataset(tmp_path: Path) -> None:
    """Whatever the model writes, each record is accepted or rejected with a reason, and what is
    accepted can be loaded."""
    small = load_recipe(QUICKSTART).model_dump(mode="json")
    small |= {"name": "tiny", "shard_size": 2}
    small["apis"] |= {"domains": 3, "per_domain": 2}
    small["queries"] |= {"count": 6, "scenarios": {"single": 2, "irrelevance": 1}}
    made = run_recipe(parse_recipe(small, "tiny"), tmp_path)
    run = Path(made.summary.path)
    queries = {r["id"] for k in ("accepted", "rejected") for r in rows(run, "queries", k)}
    stages = ("queries", "dialogues", "tested", "deduplicated")
    lost = [r for s in stages for r in rows(run, s, "rejected")]
    kept = [r["dialogue"]["query"]["id"] for r in rows(run, "deduplicated", "accepted")]
    assert sorted([*kept, *(r["id"] for r in lost)]) == sorted(queries)
    assert all(r["reason"] and r["detail"] for r in lost)
    assert kept
    assert made.published
    loaded = datasets.load_dataset(str(made.published.path), "sft")
    assert sum(map(len, loaded.values())) == len(kept)
    assert all({"messages", "tools"} <= set(split.column_names) for split in loaded.values())
