"""Whole runs from the command line, on the scripted endpoint in a process of its own.

What `run`, `regenerate`, `expand` and `rewrite` make, say and ask is pinned in `test_golden.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import processes, toys
from support.finished_runs import finished_run
from support.processes import committed, hashes, kill, start, whole_recipe

from toolloom.pipeline.dataset.publish import publish


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_like_an_unbroken_one(tmp_path: Path) -> None:
    """After kill -9 at random moments no answered request is repeated, and all bytes are equal.

    A request counts as answered when its answer is in the response cache at the moment of the
    kill. Answers the server sent that were still on their way then were never used; those alone
    may be asked for again. Requests are the same when their bodies are.
    """
    broken, whole, kills, repeated = tmp_path / "broken", tmp_path / "whole", 0, 0
    dice, times = random.Random(0), 15
    with processes.endpoint(tmp_path) as endpoint:
        (tmp_path / "whole.yaml").write_text(whole_recipe(endpoint.base_url))
        command = ("run", tmp_path / "whole.yaml", "--engine", "local")
        for _ in range(times):
            known, before = committed(broken / "cache.sqlite"), len(endpoint.answered())
            assert known <= set(endpoint.answered())
            more = dice.randrange(14)
            pause = dice.uniform(0, 0.03 if more else 2)
            kills += kill(start(*command, outputs=broken), endpoint, more, pause)
            repeated += sum(key in known for key in endpoint.answered()[before:])
        assert kills > times / 2, "the run is too short for so many kills"
        known, before = committed(broken / "cache.sqlite"), len(endpoint.answered())
        assert start(*command, outputs=broken).wait() == 0
        repeated += sum(key in known for key in endpoint.answered()[before:])
        assert repeated == 0
        once = len(endpoint.answered())
        assert start(*command, outputs=whole).wait() == 0
        unbroken = len(endpoint.answered()) - once
    assert hashes(broken) == hashes(whole)
    kept = [len(committed(outputs / "cache.sqlite")) for outputs in (broken, whole)]
    assert kept == [unbroken, unbroken]


def test_two_datasets_are_two_to_the_loader(tmp_path: Path) -> None:
    """The loader caches by folder name: another dataset's `1.0.0` must not be loaded in its place."""
    import datasets

    for name, count in (("whole", 3), ("other", 1)):
        samples = [toys.sample(toys.query(number)) for number in range(count)]
        version = publish(finished_run(tmp_path, samples, name=name), tmp_path)
        assert len(datasets.load_dataset(str(version.path), "sft", split="train")) == count
