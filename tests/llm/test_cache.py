from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.batch_server import rows

from toolloom.llm.cache import Cache, Entry, address
from toolloom.schemas import StoreError, Usage


@asynccontextmanager
async def cache_at(where: str | Path, **options: Any) -> AsyncIterator[Cache]:
    cache = Cache(where, **options)
    yield cache
    await cache.close()


@pytest.fixture
async def opened(cache: Path) -> AsyncIterator[Cache]:
    async with cache_at(cache) as open_:
        yield open_


async def test_what_is_written_is_read(opened):
    """Of any number of keys those that have a response get it. NUL and halves of characters, which
    no database takes, are kept as JSON escapes. Work that fails changes nothing."""

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM responses")
        raise LookupError("mine")

    kept = await opened.write(Entry("odd", '{"a": "\ud800 \0 \U0001f600"}'))
    assert kept == '{"a": "\\ud800 \\u0000 \U0001f600"}'
    await opened.write_all([Entry(str(number), "body") for number in range(0, 1200, 2)])
    with pytest.raises(LookupError, match="mine"):
        await opened.within(fail)
    found = await opened.read_all(["odd", *map(str, range(1200))])
    assert found == {"odd": kept, **{str(number): "body" for number in range(0, 1200, 2)}}


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


FILL = """
import asyncio, sys
from toolloom.llm.cache import Cache, Entry

async def fill(where, name):
    cache = Cache(where)
    for start in range(0, 300, 20):
        keys = [f"{who}{n}" for n in range(start, start + 20) for who in (name, "both")]
        await cache.write_all([Entry(key, name) for key in keys])
    await cache.close()

asyncio.run(fill(*sys.argv[1:]))
"""


def test_processes_share_a_cache(cache):
    """Several processes may open a new cache and write to it at once, the same keys too."""
    commands = ([sys.executable, "-c", FILL, cache, name] for name in "ab")
    started = [subprocess.Popen(command) for command in commands]
    assert [process.wait() for process in started] == [0, 0]
    kept = {row["key"]: row["body"] for row in rows(cache, "responses")}
    assert len(kept) == 900
    assert kept["a299"] == "a" and kept["b299"] == "b" and kept["both299"] in {"a", "b"}


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


def test_what_is_no_cache_is_named(tmp_path):
    """Files that are no database, or that other versions made, and addresses, whose password is not
    told."""
    (tmp_path / "text.sqlite").write_text("not a database, but long enough to be one" * 100)
    with contextlib.closing(sqlite3.connect(tmp_path / "old.sqlite")) as old:
        old.execute("CREATE TABLE responses (id INTEGER, key TEXT, run TEXT, body TEXT)")
    for where, words in (
        (tmp_path / "text.sqlite", r"text\.sqlite.*not a database"),
        (tmp_path / "old.sqlite", r"no such column.* is a toolloom cache"),
        ("postgresql://me:secret@host/db", "name a file's path"),
    ):
        with pytest.raises(StoreError, match=words) as told:
            Cache(where)
        assert "secret" not in str(told.value)


def test_the_address_is_resolved_in_one_place(monkeypatch):
    """What is given comes first, then the environment, then the folder of outputs."""
    monkeypatch.delenv("TOOLLOOM_CACHE", raising=False)
    assert address(Path("outputs")) == Path("outputs/cache.sqlite")
    monkeypatch.setenv("TOOLLOOM_CACHE", "elsewhere.sqlite")
    assert address(Path("outputs")) == "elsewhere.sqlite"
    assert address(Path("outputs"), "mine.sqlite") == "mine.sqlite"
