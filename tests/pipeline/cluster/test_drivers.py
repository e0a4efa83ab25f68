"""Who drives a run: one process at a time, also one that is busy with something long."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from support import toys
from support.local_cluster import Here, files, recipe

from toolloom.llm import FakeServer
from toolloom.llm.cache import Cache
from toolloom.llm.lease import Lease
from toolloom.pipeline.cluster import foreman
from toolloom.pipeline.runner import run
from toolloom.schemas import Busy, Outcome


async def test_a_run_has_one_driver(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process that makes the same run elsewhere, with the same cache, is refused as long as
    the first one lives, which goes on; the tables are empty afterwards."""
    monkeypatch.setattr(foreman, "BEAT", 0.1)
    monkeypatch.setattr(foreman, "LATE", 5.0)
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
        for table in ("run_drivers", "run_orders"):
            assert connection.execute(f"SELECT * FROM {table}".encode()).fetchall() == []


@pytest.mark.slow
async def test_a_driver_that_was_killed_has_a_successor(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that tells nothing any more is waited for shortly, and taken for dead."""
    monkeypatch.setattr(foreman, "BEAT", 0.1)
    wanted, cache = toys.recipe(), Cache(postgres_url)
    killed = Lease(cache, wanted.run_id, "killed")
    assert await killed.other() is None
    await killed.take()
    await run(
        wanted, outputs=tmp_path, cache=postgres_url, engine=Here().engine, stages=toys.STAGES
    )
    assert not await killed.held()
    await cache.close()


@dataclass(frozen=True)
class Settling:
    """Settles domains while something happens to what the database knows of drivers."""

    database: str
    happens: str

    def __call__(self, records: Sequence[Any]) -> Outcome:
        with psycopg.connect(self.database) as connection:
            moved = connection.execute(f"UPDATE run_drivers SET {self.happens}".encode()).rowcount
        assert moved == 1
        return toys.drop_the_first(records)


async def test_a_driver_that_was_busy_still_drives(tmp_path: Path, postgres_url: str) -> None:
    """Settling may take longer than a driver may be silent: its workers go on after it."""
    domains, *others = toys.STAGES
    two_minutes_later = Settling(postgres_url, "at = at - 120")
    stages = [dataclasses.replace(domains, settle=two_minutes_later), *others]
    made = await run(
        toys.recipe(), outputs=tmp_path, cache=postgres_url, engine=Here().engine, stages=stages
    )
    assert made.counts.accepted == 17


@pytest.mark.slow
async def test_lost_connections_lose_nothing(tmp_path: Path, postgres_url: str) -> None:
    """The database ends every connection while shards are under way: it is connected to again, and
    no answer that it has is asked for twice."""
    ended: list[int] = []

    async def end_all() -> None:
        await asyncio.sleep(0.3)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            asked = (
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            ended.extend(connection.execute(asked).fetchone() or ())

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


async def test_a_driver_that_was_replaced_says_so(tmp_path: Path, postgres_url: str) -> None:
    """It stood still for so long that another process has begun: its own run ends, with the
    reason."""
    wanted = toys.recipe()
    domains, *others = toys.STAGES
    replaced = Settling(postgres_url, "driver = 'another'")
    stages = [dataclasses.replace(domains, settle=replaced), *others]
    with pytest.raises(Busy, match=f"{wanted.run_id} is being made on a cluster already"):
        await run(wanted, outputs=tmp_path, cache=postgres_url, engine=Here().engine, stages=stages)
