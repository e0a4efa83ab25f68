from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.batches import rows

from toolloom.llm.cache import Cache, Entry, address
from toolloom.schemas import StoreError, Usage

SCRIPT = """
import asyncio, itertools, random, sys
from toolloom.llm.cache import Cache, Entry

async def fill(where, name):
    cache = Cache(where)
    keys = [f"{name}{number}" for number in range(300)] + [f"both{number}" for number in range(300)]
    random.Random(name).shuffle(keys)
    for start in range(0, 600, 20):
        await cache.write_all([Entry(key, name) for key in keys[start:start + 20]])
    await cache.close()

async def tell(where):
    cache = Cache(where)
    for number in itertools.count():
        await cache.write(Entry(str(number), "body"))
        print(number, flush=True)

asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
"""


@asynccontextmanager
async def cache_at(where: str | Path, **options: Any) -> AsyncIterator[Cache]:
    cache = Cache(where, **options)
    yield cache
    await cache.close()


@pytest.fixture
async def opened(cache: Path) -> AsyncIterator[Cache]:
    async with cache_at(cache) as open_:
        yield open_


async def test_many_responses_are_read_at_once(opened):
    """Of any number of keys those that have a response get it."""
    await opened.write_all([Entry(f"key{number}", str(number)) for number in range(0, 1200, 2)])
    found = await opened.read_all([f"key{number}" for number in range(1200)])
    assert found == {f"key{number}": str(number) for number in range(0, 1200, 2)}
    assert await opened.read_all([]) == {}
    assert await opened.write_all([]) == []


async def test_one_turn_is_one_transaction(opened):
    """What is written and read in one turn of the loop takes one transaction, not forty."""
    told = []
    opened._connection.set_trace_callback(told.append)
    writes = [opened.write(Entry(f"key{number}", str(number))) for number in range(20)]
    reads = [opened.read(f"key{number}") for number in range(20)]
    bodies = await asyncio.gather(*writes, *reads)
    assert bodies == [str(number) for number in range(20)] * 2
    assert told.count("BEGIN IMMEDIATE") == told.count("COMMIT") == 1


async def test_the_first_response_stands(cache):
    """If another process was faster, its response counts, also for one of many."""
    async with cache_at(cache) as one, cache_at(cache) as two:
        assert await one.write(Entry("key", "first")) == "first"
        assert await two.write_all([Entry("a", "new"), Entry("key", "second")]) == ["new", "first"]
        bodies = await asyncio.gather(*(one.write(Entry("same", str(n))) for n in range(3)))
    assert bodies == ["0", "0", "0"]


async def test_what_a_response_took_is_kept(cache, opened):
    """Each response is booked with what it took, tries without an answer beside them: a run's sums
    are of both."""
    entry = Entry("a", "1", "chat", "http://e", "m", "r1", "queries", "query", 3, 10, 4, 5, 0.25)
    await opened.write_all([entry, Entry("b", "2", run="r1", prompt_tokens=1, cost=0.5)])
    await opened.write_all([Entry("c", "3", "execution", run="r1", requests=0), Entry("d", "4")])
    assert await opened.spent("r1") == Usage(
        requests=2, prompt_tokens=11, completion_tokens=5, cost=0.75
    )
    for _ in range(2):
        await opened.lose("r1", Usage(requests=1, prompt_tokens=5, cost=0.25))
    assert await opened.spent("r1") == Usage(
        requests=4, prompt_tokens=21, completion_tokens=5, cost=1.25
    )
    assert await opened.spent("r2") == Usage()
    assert rows(cache, "responses")[0]["at"] > 1_700_000_000
    assert (await opened.entries())[0] == entry
    assert [one.key for one in await opened.entries("execution")] == ["c"]


async def test_odd_characters_come_back_as_the_same_json(opened):
    """NUL and halves of characters, which no database takes, are kept as JSON escapes."""
    body = '{"a": "\ud800 \0 \U0001f600"}'
    kept = await opened.write(Entry("key", body))
    assert kept == '{"a": "\\ud800 \\u0000 \U0001f600"}'
    assert await opened.read("key") == kept


async def test_closing_commits_what_is_under_way(cache):
    """A cache that is closed at once keeps what was just given to it, also by who no longer waits
    for it; the next one of the same place has it."""
    async with cache_at(cache) as opened:
        writers = [asyncio.create_task(opened.write(Entry(key, "bödy"))) for key in "ab"]
        await asyncio.sleep(0)
        writers[0].cancel()
    assert await writers[1] == "bödy"
    async with cache_at(cache) as opened:
        assert await opened.read_all("abc") == {"a": "bödy", "b": "bödy"}


async def test_work_is_one_transaction(opened):
    """A function's changes come to be all or not at all, and its error is its caller's."""

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM responses")
        raise LookupError("mine")

    await opened.write(Entry("key", "body"))
    with pytest.raises(LookupError, match="mine"):
        await opened.within(fail)
    assert await opened.read("key") == "body"


async def test_traits_are_kept(opened):
    """What was learnt first about a model stays."""
    await opened.learn("http://a", "m", "mode", "text")
    await opened.learn("http://a", "m", "mode", "json_object")
    assert await opened.traits("http://a", "m") == {"mode": "text"}
    assert await opened.traits("http://b", "m") == {}


@pytest.mark.slow
async def test_processes_share_a_cache(cache):
    """Several processes may open a new cache and write to it at once, the same keys too."""

    def write(name: str) -> int:
        command = [sys.executable, "-c", SCRIPT, "fill", str(cache), name]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write, "ab")) == [0, 0]
    kept = {row["key"]: row["body"] for row in rows(cache, "responses")}
    assert len(kept) == 900
    assert kept["a299"] == "a" and kept["b299"] == "b" and kept["both299"] in {"a", "b"}


def test_what_was_told_survives_a_kill(cache):
    """A process that is killed after a write came back has lost nothing of it."""
    command = [sys.executable, "-c", SCRIPT, "tell", str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(50)]
        process.kill()
        lines += process.stdout.readlines()
    keys = {line.strip() for line in lines if line.endswith("\n")}
    assert len(keys) >= 50
    assert keys <= {row["key"] for row in rows(cache, "responses")}


async def test_a_full_disk_reaches_every_waiter(cache):
    """Every response that finds no room is an error that says how to go on; reading still works."""
    async with cache_at(cache) as opened:
        await opened.write(Entry("key", "body"))
        await opened.within(lambda c: c.execute("PRAGMA max_page_count=20").fetchall())
        writes = [opened.write(Entry(str(number), "x" * 50_000)) for number in range(3)]
        failed = await asyncio.gather(*writes, return_exceptions=True)
        for error in failed:
            assert isinstance(error, StoreError)
            assert "full" in str(error) and "run the same command again" in str(error)
        assert await opened.read("key") == "body"
        await opened.within(lambda c: c.execute("PRAGMA max_page_count=9999").fetchall())
        assert await opened.write(Entry("later", "body")) == "body"


async def test_a_locked_file_is_waited_for(cache):
    """While another process holds the file the loop goes on, and then so does the writer. Whose
    patience is at its end is told the file, why, and what to do."""
    async with cache_at(cache) as patient, cache_at(cache, patience=0.2) as hasty:
        other = sqlite3.connect(cache, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        writers = [asyncio.create_task(patient.write(Entry(str(n), "body"))) for n in range(2)]
        with pytest.raises(StoreError, match=r"cache\.sqlite.*locked.*end that process.*again"):
            await hasty.write(Entry("key", "body"))
        assert not any(writer.done() for writer in writers)
        writers.append(asyncio.create_task(patient.write(Entry("late", "body"))))
        other.execute("COMMIT")
        assert await asyncio.gather(*writers, hasty.write(Entry("key", "body"))) == ["body"] * 4
        other.close()


def test_unusable_files_are_named(tmp_path):
    """A file that is no database is an error that names it."""
    (tmp_path / "cache.sqlite").write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match=r"cache\.sqlite.*not a database"):
        Cache(tmp_path / "cache.sqlite")


def test_caches_of_another_kind_are_refused(tmp_path):
    """Addresses, whose password is not told, and files that other versions made."""
    with pytest.raises(StoreError, match="name a file's path") as told:
        Cache("postgresql://me:secret@host/db")
    assert "secret" not in str(told.value)
    with sqlite3.connect(tmp_path / "old.sqlite") as old:
        old.execute("CREATE TABLE responses (id INTEGER, key TEXT, run TEXT, body TEXT)")
    old.close()
    with pytest.raises(StoreError, match=r"no such column.* is a toolloom cache"):
        Cache(tmp_path / "old.sqlite")


def test_the_address_is_resolved_in_one_place(monkeypatch):
    """What is given comes first, then the environment, then the folder of outputs."""
    monkeypatch.delenv("TOOLLOOM_CACHE", raising=False)
    assert address(Path("outputs")) == Path("outputs/cache.sqlite")
    monkeypatch.setenv("TOOLLOOM_CACHE", "elsewhere.sqlite")
    assert address(Path("outputs")) == "elsewhere.sqlite"
    assert address(Path("outputs"), "mine.sqlite") == "mine.sqlite"
