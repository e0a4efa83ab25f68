"""The law of kill -9, where it is held: by the runner, which writes files, and by the cache.

Every feature runs on these two; none of them needs a kill of its own. What is beside them has its
own test: `llm/test_batch.py` batches, `pipeline/orchestration/test_killed.py` servers that
schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.killable import Runs
from support.processes import Endpoint, committed, hashes

from toolloom import FakeServer

POINTS = (
    ("feed", 2),
    ("asked", 4),
    ("answered", 3),
    ("replace", 1),
    ("settle", 1),
    ("replace", 6),
    ("fsync", 9),
    ("answered", 7),
    ("feed", 9),
    ("fsync", 21),
    ("sift", 3),
    ("fsync", 5),
    ("replace", 3),
    ("replace", 9),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    log = tmp_path_factory.mktemp("server") / "log.jsonl"
    with FakeServer(latency=0.01, log=log).serve_in_thread() as serving:
        yield Endpoint(serving.base_url, log)


@pytest.fixture(scope="module")
def runs(server: Endpoint) -> Iterator[Runs]:
    with Runs(server.base_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def unbroken(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The outputs of a run that nothing happened to."""
    outputs = tmp_path_factory.mktemp("whole")
    assert runs.end(outputs)
    return outputs


def test_a_run_killed_anywhere_goes_on_and_ends_with_equal_bytes(
    server: Endpoint, runs: Runs, unbroken: Path, tmp_path: Path
) -> None:
    """Killed in a draw, before a question, after an answer, before a file is on the disk or has its
    name, while a stage settles or sifts: no answer that was committed is asked for again, and all
    files of the run and of the version are equal."""
    kills, repeated = 0, 0
    for point, times in (*POINTS, ("", 0)):
        known, before = committed(tmp_path / "cache.sqlite"), len(server.answered())
        kills += not runs.end(tmp_path, point, times)
        repeated += sum(key in known for key in server.answered()[before:])
    assert kills == len(POINTS)
    assert repeated == 0
    assert hashes(tmp_path) == hashes(unbroken)


@pytest.mark.parametrize("times", range(1, 64, 20))
def test_a_file_is_there_whole_or_not_at_all(
    runs: Runs, unbroken: Path, tmp_path: Path, times: int
) -> None:
    """A kill before any of the files gets its name: one more run, and all is as if nothing was."""
    assert not runs.end(tmp_path, "replace", times)
    assert runs.end(tmp_path)
    assert hashes(tmp_path) == hashes(unbroken)
    assert len(committed(tmp_path / "cache.sqlite")) == len(committed(unbroken / "cache.sqlite"))
