from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from toolloom.llm.cache import Cache
from toolloom.schemas import StoreError

WRITER = """
import sys
from toolloom.llm.cache import Cache
cache = Cache(sys.argv[1])
for number in range(300):
    cache.write(f"{sys.argv[2]}{number}", "body")
cache.close()
"""


def test_responses_are_kept(cache):
    """What was written is read again, in this cache and in the next one of the same file."""
    first = Cache(cache)
    assert first.read("key") is None
    first.write("key", "bödy")
    assert first.read("key") == "bödy"
    first.close()
    second = Cache(f"sqlite:///{cache}")
    assert second.read("key") == "bödy"
    second.close()


def test_many_responses_are_read_at_once(cache):
    """Of any number of keys those that have a response get it."""
    opened = Cache(cache)
    for number in range(0, 1200, 2):
        opened.write(f"key{number}", str(number))
    found = opened.read_all([f"key{number}" for number in range(1200)])
    assert found == {f"key{number}": str(number) for number in range(0, 1200, 2)}
    assert opened.read_all([]) == {}
    opened.close()


def test_the_first_response_stands(cache):
    """If another process was faster, its response is the one that counts."""
    one, two = Cache(cache), Cache(cache)
    assert one.write("key", "first") == "first"
    assert two.write("key", "second") == "first"
    one.close()
    two.close()


def test_traits_are_kept(cache):
    """What was learnt first about a model stays."""
    opened = Cache(cache)
    opened.learn("http://a", "m", "mode", "text")
    opened.learn("http://a", "m", "mode", "json_object")
    assert opened.traits("http://a", "m") == {"mode": "text"}
    assert opened.traits("http://b", "m") == {}
    opened.close()


def test_processes_share_a_cache(cache):
    """Several processes may open a new cache and write to it at once."""

    def write(name: str) -> int:
        command = [sys.executable, "-c", WRITER, str(cache), name]
        return subprocess.run(command, check=False).returncode

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(write, "ab")) == [0, 0]
    opened = Cache(cache)
    assert opened.read("a299") == opened.read("b299") == "body"
    opened.close()


def test_unusable_files_are_named(tmp_path):
    """A file that is no database is an error that names it."""
    (tmp_path / "cache.sqlite").write_text("not a database, but long enough to be one" * 100)
    with pytest.raises(StoreError, match=r"cache\.sqlite.*not a database"):
        Cache(tmp_path / "cache.sqlite")
