"""A dataset is made by one process at a time, on one machine and on several."""

from __future__ import annotations

import fcntl
import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from toolloom.pipeline.store.locks import hold_dataset
from toolloom.schemas import Busy, StoreError

HOLD = """
import sys
from pathlib import Path
from toolloom.pipeline.store.locks import hold_dataset

with hold_dataset(Path(sys.argv[1]), "weather", sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(outputs: Path, cache: object, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that holds the dataset `weather`, and runs something before that."""
    command = [sys.executable, "-c", f"{before}\n{HOLD}", str(outputs), str(cache)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def is_free(outputs: Path, cache: object, seconds: float = 30) -> bool:
    """Whether the dataset can be held within some time."""
    until = time.monotonic() + seconds
    while True:
        try:
            with hold_dataset(outputs, "weather", str(cache)):
                return True
        except Busy:
            if time.monotonic() > until:
                return False
        time.sleep(0.02)


def test_a_second_process_is_told_who_holds_a_dataset(tmp_path: Path) -> None:
    """At once, with its number; another dataset is free, and this one once it was killed."""
    with holder(tmp_path, "cache.sqlite") as process:
        with pytest.raises(Busy, match=rf"dataset weather: another process \({process.pid} on "):
            hold_dataset(tmp_path, "weather", "cache.sqlite").__enter__()
        with hold_dataset(tmp_path, "traffic", "cache.sqlite"):
            pass
    assert is_free(tmp_path, "cache.sqlite")


def test_a_file_that_tells_nothing_locks_all_the_same(tmp_path: Path) -> None:
    """What stands in it may be anybody's: it is not shown as it is, and stops nobody."""
    path = tmp_path / "datasets" / "weather" / ".held"
    path.parent.mkdir(parents=True)
    for text in ("[" * 1000, '{"process": 1e999, "machine": "m"}', '{"process": 1}', "\udcff"):
        path.write_text(text, errors="surrogateescape")
        with path.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(Busy, match="another process is at work"):
                hold_dataset(tmp_path, "weather", "").__enter__()
            path.write_text('{"process": 7, "machine": "m\\u001b[2J"}')
            with pytest.raises(Busy, match=r"another process \(7 on m\\x1b\[2J\)"):
                hold_dataset(tmp_path, "weather", "").__enter__()


def test_a_full_disk_holds_a_dataset_too(tmp_path: Path) -> None:
    """Only the word of who holds it is missing."""
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    with (
        holder(tmp_path, "cache.sqlite", full),
        pytest.raises(Busy, match="another process is at work"),
    ):
        hold_dataset(tmp_path, "weather", "cache.sqlite").__enter__()


def test_one_process_cannot_hold_a_dataset_twice(tmp_path: Path) -> None:
    """Two flows in one process keep from each other too, and errors let go."""
    with ThreadPoolExecutor() as other:
        with hold_dataset(tmp_path, "weather", ""):
            assert not other.submit(is_free, tmp_path, "", 0).result()
        with pytest.raises(KeyError), hold_dataset(tmp_path, "weather", ""):
            raise KeyError
        assert other.submit(is_free, tmp_path, "", 0).result()


def test_who_holds_a_dataset_may_ask_for_it_again(tmp_path: Path, postgres_url: str) -> None:
    """As a command that starts a flow does: it is held until the outer one lets go."""
    with ThreadPoolExecutor() as other:
        with hold_dataset(tmp_path, "weather", postgres_url):
            with hold_dataset(tmp_path, "weather", postgres_url):
                pass
            assert not other.submit(is_free, tmp_path, postgres_url, 0).result()
        assert other.submit(is_free, tmp_path, postgres_url).result()


def test_machines_that_share_a_database_keep_from_each_other(
    tmp_path: Path, postgres_url: str
) -> None:
    """Their folders are different, and the name alone is held; after kill -9 it is free."""
    here, there = tmp_path / "here", tmp_path / "there"
    with holder(there, postgres_url) as process:
        with pytest.raises(Busy, match="as the response cache") as told:
            hold_dataset(here, "weather", postgres_url).__enter__()
        assert "open-sesame" not in str(told.value)
        with hold_dataset(here, "traffic", postgres_url):
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert is_free(here, postgres_url)


def cut_off(url: str) -> None:
    """End the session that holds a lock, as a restart of the server does."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )


def test_a_lock_that_was_lost_is_told(
    tmp_path: Path, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """In the log if nobody holds it by the end, and as an error if somebody does."""
    with hold_dataset(tmp_path, "weather", postgres_url):
        cut_off(postgres_url)
    [line] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "broke off meanwhile; nobody holds it now" in line.getMessage()
    with (
        pytest.raises(StoreError, match="another process holds it now"),
        hold_dataset(tmp_path / "here", "weather", postgres_url),
    ):
        cut_off(postgres_url)
        other = hold_dataset(tmp_path / "there", "weather", postgres_url)
        other.__enter__()
    other.__exit__(None, None, None)


def test_a_database_that_is_not_there_is_named_without_its_password(tmp_path: Path) -> None:
    """And the folder is let go."""
    nowhere = "postgresql://me:open-sesame@127.0.0.1:9/db"
    with pytest.raises(StoreError, match=r"me:\*\*\*@127.0.0.1:9/db") as told:
        hold_dataset(tmp_path, "weather", nowhere).__enter__()
    assert "open-sesame" not in str(told.value)
    assert is_free(tmp_path, "", 0)
