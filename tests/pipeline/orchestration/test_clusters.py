"""What Prefect is told by a cluster's worker."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from support import toys
from support.local_cluster import Here

from toolloom.pipeline.cluster.order import Done, Order
from toolloom.pipeline.orchestration.clusters import work_without_secrets
from toolloom.pipeline.runner import run
from toolloom.pipeline.stage import Context
from toolloom.schemas import Brief, Outcome

KEY = "a-key-of-a-worker-0123456789"


class Hiding(Here):
    async def work(self, order: Order) -> Done:
        return await work_without_secrets(order)


async def show_a_key(brief: Brief, context: Context) -> Outcome:
    raise ValueError(f"{os.environ['THE_WORKERS_OWN']} and {context.gateway.cache.url.password}")


async def test_what_fails_on_a_worker_holds_no_secret(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key that the recipe names, and the password of the cache, are struck out of an error
    before it becomes the state of a task run."""
    monkeypatch.setenv("THE_WORKERS_OWN", KEY)
    model = {"base_url": "http://127.0.0.1:9/v1", "key_env": "THE_WORKERS_OWN"}
    domains, *others = toys.STAGES
    stages = [dataclasses.replace(domains, work=show_a_key), *others]
    with pytest.raises(RuntimeError, match=r"ValueError: \[key\] and \[key\]") as told:
        await run(
            toys.recipe(model=model),
            outputs=tmp_path,
            cache=postgres_url,
            engine=Hiding().engine,
            stages=stages,
        )
    assert KEY not in str(told.value)
