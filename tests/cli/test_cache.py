from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from functools import partial
from pathlib import Path

import pytest
from support.commands import call

from toolloom.llm.cache import Cache, Entry
from toolloom.llm.cache_admin import Stock
from toolloom.llm.database import RESPONSES

cache = partial(call, "cache")
ENTRIES = [
    Entry("a", '"ä"', model="big", endpoint="http://e/v1", run="r1", prompt_tokens=7, cost=0.5),
    Entry("b", "2", model="big", endpoint="http://e/v1", run="r2", requests=3, cost=0.25),
    Entry("c", "3", "embedding", model="small", endpoint="http://e/v1", run="r2"),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A cache with three responses in each kind of database, known by the environment."""
    monkeypatch.chdir(tmp_path)
    place = "outputs/cache.sqlite"
    if request.param == "postgresql":
        place = request.getfixturevalue("postgres_url")
        monkeypatch.setenv("TOOLLOOM_CACHE", place)
    asyncio.run(fill(place))
    return place


async def fill(place: str) -> None:
    filled = Cache(place)
    await filled.write_all(ENTRIES)
    filled.learn("http://e/v1", "big", "mode", "text")
    await filled.close()


def keys(place: str) -> list[str]:
    with Stock(place) as stock:
        return [row["key"] for row in stock.rows()]


def cells(printed: str, first: str) -> list[str]:
    """The cells of the line that begins with that one."""
    return next(line.split() for line in printed.splitlines() if line.startswith(first))


def test_stats_count_by_model_and_run(where: str) -> None:
    """Each model and each run has its responses, bytes, requests, tokens and cost."""
    printed = cache("stats").stdout
    assert "3 responses, 6 B, from 20" in printed
    model = ["http://e/v1", "chat", "2", "5", "B", "4", "7", "0", "0", "$0.750"]
    assert cells(printed, "big") == ["big", *model]
    assert cells(printed, "r2") == ["r2", "2", "2", "B", "4", "0", "0", "0", "$0.250"]
    assert "open-sesame" not in printed


def test_stats_without_a_cache(tmp_path: Path) -> None:
    """Where no run has been there is no cache, and looking makes none."""
    looked = cache("stats", "--outputs", str(tmp_path))
    assert looked.exit_code == 2
    assert "There is no response cache" in looked.stderr
    assert list(tmp_path.iterdir()) == []


def test_prune_removes_what_all_options_name(where: str) -> None:
    """A dry run removes nothing; then those responses go, and no others."""
    asked, told = (
        ["prune", "--model", "big", "--run", "r2"],
        "1 responses (1 B), which cost $0.250, ",
    )
    assert f"{told}would be removed" in cache(*asked, "--dry-run").stdout
    assert keys(where) == ["a", "b", "c"]
    assert f"{told}removed; the disk" in cache(*asked).stdout
    assert keys(where) == ["a", "c"]
    assert "nothing was removed" in cache(*asked).stdout


def test_prune_by_age(where: str) -> None:
    """Only responses that are older go."""
    with Stock(where) as stock:
        stock.add(RESPONSES, [{"key": "old", "body": "0", "at": time.time() - 40 * 86_400}])
    cache("prune", "--older-than", "30d")
    assert keys(where) == ["a", "b", "c"]


def test_prune_asks_for_what_it_needs() -> None:
    """Nothing goes by mistake: what to remove must be named, and readably."""
    for asked, says in (([], "Name what to remove"), (["--older-than", "soon"], "like 30d")):
        pruned = cache("prune", *asked)
        assert (pruned.exit_code, says in pruned.stderr) == (2, True)


def test_prune_gives_the_room_back(tmp_path: Path) -> None:
    """The file is smaller afterwards, also while another process has it open."""
    place = tmp_path / "cache.sqlite"
    with Stock(place, new=True) as stock:
        stock.add(RESPONSES, [{"key": str(n), "body": "x" * 9000, "run": "r"} for n in range(200)])
    before = place.stat().st_size
    with sqlite3.connect(place) as other:
        other.execute("SELECT count(*) FROM responses").fetchone()
        assert cache("prune", "--run", "r", "--cache", str(place)).exit_code == 0
    other.close()
    assert place.stat().st_size < before / 10


def test_export_to_json_lines(where: str) -> None:
    """A file has each response whole, with all that is known of it."""
    assert "3 responses written to all.jsonl" in cache("export", "all.jsonl").stdout
    rows = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == ["a", "b", "c"]
    assert all(rows[0][name] == getattr(ENTRIES[0], name) for name in Entry.__slots__)
    assert rows[0]["at"] == pytest.approx(time.time(), abs=600)


def test_export_to_another_cache(where: str, postgres_url: str) -> None:
    """Responses and traits are copied between databases, once, with their age."""
    for target in ("copy.sqlite", postgres_url):
        if target == where:
            continue
        assert "3 responses copied" in (copied := cache("export", target).stdout)
        assert "3 were new there" in copied and "open-sesame" not in copied
        assert "0 were new there" in cache("export", target).stdout
        with Stock(where) as one, Stock(target) as other:
            assert list(one.rows()) == list(other.rows())
        copy = Cache(target)
        assert copy.traits("http://e/v1", "big") == {"mode": "text"}
        asyncio.run(copy.close())


@pytest.mark.parametrize("target", ["copy.txt", "outputs/../outputs/cache.sqlite"])
def test_export_needs_a_place_of_its_own(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another kind and the cache itself are no targets."""
    monkeypatch.chdir(tmp_path)
    asyncio.run(fill("outputs/cache.sqlite"))
    exported = cache("export", target)
    assert exported.exit_code == 2
    assert "name" in exported.stderr


def test_a_page_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies come in pages; none is lost between them."""
    monkeypatch.setattr("toolloom.llm.cache_admin.COPIED_AT_ONCE", 7)
    with Stock(tmp_path / "a.sqlite", new=True) as one:
        one.add(RESPONSES, [{"key": str(n), "body": "x"} for n in range(20)])
        with Stock(tmp_path / "b.sqlite", new=True) as other:
            assert one.copy(other) == (20, 20)
            assert list(one.rows()) == list(other.rows())
