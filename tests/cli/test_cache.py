from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from functools import partial
from pathlib import Path

import pytest
from support.commands import call

from toolloom.llm.cache import Cache, Entry

cache = partial(call, "cache")
ENTRIES = [
    Entry("a", '"ä"', model="big", endpoint="http://e/v1", run="r1", prompt_tokens=7, cost=0.5),
    Entry("b", "2", model="big", endpoint="http://e/v1", run="r2", requests=3, cost=0.25),
    Entry("c", "3", "embedding", model="small", endpoint="http://e/v1", run="r2"),
]


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A cache with three responses, in the folder of outputs."""
    monkeypatch.chdir(tmp_path)
    asyncio.run(fill("outputs/cache.sqlite", ENTRIES))
    return "outputs/cache.sqlite"


async def fill(place: str | Path, entries: list[Entry]) -> None:
    filled = Cache(place)
    await filled.write_all(entries)
    await filled.close()


def keys(place: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(place)) as opened:
        return [key for (key,) in opened.execute("SELECT key FROM responses ORDER BY id")]


def cells(printed: str, first: str) -> list[str]:
    """The cells of the line that begins with that one."""
    return next(line.split() for line in printed.splitlines() if line.startswith(first))


def test_stats_count_by_model_and_run(where: str) -> None:
    """Each model and each run has its responses, bytes, requests, tokens and cost."""
    printed = cache("stats").stdout
    assert "3 responses, 6 bytes, from 20" in printed
    model = ["http://e/v1", "chat", "2", "5", "bytes", "4", "7", "0", "0", "$0.750"]
    assert cells(printed, "big") == ["big", *model]
    assert cells(printed, "r2") == ["r2", "2", "2", "bytes", "4", "0", "0", "0", "$0.250"]


def test_prune_removes_what_all_options_name(where: str) -> None:
    """A dry run removes nothing; then those responses go, and no others."""
    asked, told = (
        ["prune", "--model", "big", "--run", "r2"],
        "1 responses (1 byte), which cost $0.250, ",
    )
    assert f"{told}would be removed" in cache(*asked, "--dry-run").stdout
    assert keys(where) == ["a", "b", "c"]
    assert f"{told}removed; the disk" in cache(*asked).stdout
    assert keys(where) == ["a", "c"]
    assert "nothing was removed" in cache(*asked).stdout


def test_prune_by_age(where: str) -> None:
    """Only responses that are older go."""
    with contextlib.closing(sqlite3.connect(where, isolation_level=None)) as opened:
        opened.execute("UPDATE responses SET at = ? WHERE key = 'b'", [time.time() - 40 * 86_400])
    cache("prune", "--older-than", "30d")
    assert keys(where) == ["a", "c"]


def test_prune_asks_for_what_it_needs() -> None:
    """Nothing goes by mistake: what to remove must be named, and readably."""
    for asked, says in (([], "Name what to remove"), (["--older-than", "soon"], "like 30d")):
        pruned = cache("prune", *asked)
        assert (pruned.exit_code, says in pruned.stderr) == (2, True)


def test_prune_gives_the_room_back(tmp_path: Path) -> None:
    """The file is smaller afterwards, also while another process has it open."""
    place = tmp_path / "cache.sqlite"
    asyncio.run(fill(place, [Entry(str(n), "x" * 9000, run="r") for n in range(200)]))
    before = place.stat().st_size
    with sqlite3.connect(place) as other:
        other.execute("SELECT count(*) FROM responses").fetchone()
        assert cache("prune", "--run", "r", "--cache", str(place)).exit_code == 0
    other.close()
    assert place.stat().st_size < before / 10
