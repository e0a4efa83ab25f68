"""Who drives a run: one process at a time, also one that is busy with something long."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from support import toys
from support.local_cluster import Here, files, recipe

from toolloom.llm import FakeServer
from toolloom.llm.advisory import Hold
from toolloom.llm.cache import Cache
from toolloom.llm.orders import ORDERS
from toolloom.pipeline.run import run
from toolloom.schemas import Busy, Outcome


async def test_a_run_has_one_driver(tmp_path: Path, postgres_url: str) -> None:
    """Another process that makes the same run elsewhere, with the same cache, is refused as long as
    the first one lives, which goes on; the table is empty afterwards."""
    refused: list[str] = []

    async def begin_again(order: Any) -> None:
        if not refused:
            refused.append("")
            with pytest.raises(Busy) as busy:
                there = Here()
                await run(
                    wanted,
                    outputs=tmp_path / "two",
                    cache=postgres_url,
                    engine=there.engine,
                    stages=toys.STAGES,
                )
            refused[0] = str(busy.value)

    wanted = toys.recipe()
    await run(wanted, outputs=tmp_path / "alone", stages=toys.STAGES)
    there = Here(before=begin_again)
    await run(
        wanted,
        outputs=tmp_path / "one",
        cache=postgres_url,
        engine=there.engine,
        stages=toys.STAGES,
    )
    assert refused[0].startswith(f"{wanted.run_id} is being made on a cluster already")
    assert files(tmp_path / "one") == files(tmp_path / "alone")
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT * FROM run_orders").fetchall() == []


DRIVE = """
import asyncio, sys
from toolloom.llm.cache import Cache
from toolloom.llm.orders import begin_order, end_orders
from toolloom.pipeline.cluster import Driver

async def main():
    cache, driver = Cache(sys.argv[1]), Driver(sys.argv[1], sys.argv[2])
    assert await driver.drives()
    await end_orders(cache, sys.argv[2])
    assert await begin_order(cache, "an order", sys.argv[2], driver.id)
    print("drives", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.slow
async def test_a_driver_that_was_killed_has_a_successor(tmp_path: Path, postgres_url: str) -> None:
    """At once after kill -9: only its workers are waited for, and their orders are nobody's."""
    wanted, cache = toys.recipe(), Cache(postgres_url)
    command = [sys.executable, "-c", DRIVE, postgres_url, wanted.run_id]
    with subprocess.Popen(command, stdout=-1, text=True) as killed:  # noqa: ASYNC220 - it is killed
        assert killed.stdout
        assert killed.stdout.readline() == "drives\n"
        with pytest.raises(Busy, match="is being made on a cluster already"):
            await run(
                wanted,
                outputs=tmp_path,
                cache=postgres_url,
                engine=Here().engine,
                stages=toys.STAGES,
            )
        assert await cache.within(lambda c: c.execute(sa.select(ORDERS.c.id)).scalar())
        killed.kill()
    made = await run(
        wanted, outputs=tmp_path, cache=postgres_url, engine=Here().engine, stages=toys.STAGES
    )
    assert made.counts.accepted == 17
    assert not await cache.within(lambda c: c.execute(sa.select(ORDERS.c.id)).scalar())
    await cache.close()


def end_connections(url: str) -> int:
    """The database ends every connection; how many there were."""
    with psycopg.connect(url, autocommit=True) as connection:
        asked = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        (ended,) = connection.execute(asked).fetchone() or (0,)
    return int(ended)


@pytest.mark.slow
async def test_lost_connections_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    """The database ends every connection while shards are under way: it is connected to again, and
    no answer that it has is asked for twice."""
    ended: list[int] = []

    async def end_all() -> None:
        await asyncio.sleep(0.3)
        ended.append(end_connections(postgres_url))

    async def begin(order: Any) -> None:
        if order.stage.name == "dialogues" and not ending:
            ending.append(asyncio.create_task(end_all()))

    ending: list[asyncio.Task[None]] = []
    async with FakeServer(latency=0.05) as server:
        there, wanted = Here(before=begin), recipe(server)
        await run(wanted, outputs=tmp_path / "one")
        await run(wanted, outputs=tmp_path / "two", cache=postgres_url, engine=there.engine)
        assert server.repeats == server.received / 2
    await asyncio.gather(*ending)
    assert ended[0] > 1
    assert files(tmp_path / "one") == files(tmp_path / "two")


@dataclass(frozen=True)
class Replaced:
    """Settles domains while the driver loses its connection and another process begins."""

    database: str
    run: str

    def __call__(self, records: Sequence[Any]) -> Outcome:
        end_connections(self.database)
        until = time.monotonic() + 60
        while not (other := Hold(self.database, (f"run {self.run}",))).take():
            end_connections(self.database)  # the driver was quicker
            assert time.monotonic() < until
        OTHERS.append(other)
        return toys.drop_the_first(records)


OTHERS: list[Hold] = []


async def test_a_driver_that_was_replaced_says_so(tmp_path: Path, postgres_url: str) -> None:
    """It was cut off for so long that another process has begun: its own run ends, with the
    reason."""
    wanted = toys.recipe()
    domains, *others = toys.STAGES
    replaced = Replaced(postgres_url, wanted.run_id)
    stages = [dataclasses.replace(domains, settle=replaced), *others]
    try:
        with pytest.raises(Busy, match=f"{wanted.run_id} is being made on a cluster already"):
            await run(
                wanted, outputs=tmp_path, cache=postgres_url, engine=Here().engine, stages=stages
            )
    finally:
        OTHERS.pop().close()
