from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from support import toys
from support.local_cluster import Here, files

from toolloom.pipeline.runner import run
from toolloom.pipeline.stage import Context
from toolloom.schemas import Outcome, Query, Reason, Sample

COSTS = (0.1, 0.7, 0.2, 0.0003, 0.019)  # their sums depend on how they are grouped


async def ask_thrice(query: Query, context: Context) -> Outcome:
    """Some queries become three, others none."""
    number = int(query.id[1:])
    if number in range(4, 8):  # a whole shard
        return Outcome((), (toys.rejected(query, "queries", Reason.VALUE_NOT_MENTIONED),))
    copies = (query.model_copy(update={"id": f"q{number}{n}"}) for n in range(number % 4))
    return Outcome(tuple(copies))


async def verdict_dearly(query: Query, context: Context) -> Outcome:
    cost = COSTS[int(query.id[1:]) % len(COSTS)]
    paid = toys.share("tested", query.id).model_copy(update={"cost": cost})
    sample: Sample = toys.sample(query).model_copy(update={"provenance": (paid,)})
    return Outcome((sample,))


async def test_costs_are_the_same_wherever_they_are_added_up(
    tmp_path: Path, postgres_url: str
) -> None:
    """A record may become several, whose costs are no round numbers, and a shard may come to
    nothing: markers are the same on a cluster, and where a run went on."""
    domains, queries, tested = toys.STAGES
    stages = (
        domains,
        dataclasses.replace(queries, work=ask_thrice),
        dataclasses.replace(tested, work=verdict_dearly),
    )

    async def made(name: str, **more: Any) -> dict[str, bytes]:
        await run(toys.recipe(), outputs=tmp_path / name, stages=stages, **more)
        return files(tmp_path / name)

    here = await made("here")
    assert await made("there", cache=postgres_url, engine=Here().engine) == here
    (folder,) = (tmp_path / "here" / "runs").iterdir()
    for path in (folder / "tested").iterdir():
        path.unlink()
    assert await made("here") == here
