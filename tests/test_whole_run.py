"""The five agents from the command line, on the scripted endpoint in a process of its own."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import processes, toys
from support.finished_runs import finished_run
from support.processes import Endpoint, committed, hashes, kill, start, whole_recipe

from toolloom.pipeline.dataset.publish import publish


@dataclass(frozen=True)
class Server:
    """A scripted endpoint and the recipe that asks it."""

    endpoint: Endpoint
    recipe: Path

    def answered(self) -> list[str]:
        return self.endpoint.answered()

    def start(self, outputs: Path) -> subprocess.Popen[bytes]:
        return start("run", self.recipe, "--engine", "local", outputs=outputs)

    def run(self, outputs: Path) -> None:
        assert self.start(outputs).wait() == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    recipe = tmp_path / "whole.yaml"
    with processes.endpoint(tmp_path) as endpoint:
        recipe.write_text(whole_recipe(endpoint.base_url))
        yield Server(endpoint, recipe)


def rows(outputs: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    (path,) = outputs.glob(f"runs/*/{stage}/{kind}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def ends(outputs: Path) -> list[str]:
    """The id of each query where it ended: in a stage's rejects, or as a sample."""
    stages = ("queries", "dialogues", "tested", "deduplicated")
    lost = [r for s in stages for r in rows(outputs, s, "rejected")]
    kept = rows(outputs, "deduplicated", "accepted")
    return [r["id"] for r in lost] + [r["dialogue"]["query"]["id"] for r in kept]


def test_five_agents_make_a_dataset(server: Server, tmp_path: Path) -> None:
    """Samples of all three abilities; running the finished run again sends no request."""
    server.run(tmp_path / "out")
    kept = rows(tmp_path / "out", "tested", "accepted")
    kinds = {row["dialogue"]["query"]["ability"] for row in kept}
    assert kinds == {"call", "retrieve_call", "plan_retrieve_call"}
    answered, before = server.answered(), hashes(tmp_path / "out")
    assert len(answered) == len(set(answered)) > 100
    server.run(tmp_path / "out")
    assert server.answered() == answered
    assert hashes(tmp_path / "out") == before


@pytest.mark.parametrize("times", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_run_killed_again_and_again_ends_like_an_unbroken_one(
    server: Server, tmp_path: Path, times: int
) -> None:
    """After kill -9 at random moments no answered request is repeated, no record is lost, and
    all bytes are equal.

    A request counts as answered when its answer is in the response cache at the moment of the
    kill. Answers the server sent that were still on their way then were never used; those alone
    may be asked for again. Requests are the same when their bodies are.
    """
    broken, whole, kills, repeated = tmp_path / "broken", tmp_path / "whole", 0, 0
    dice = random.Random(0)
    for _ in range(times):
        known, before = committed(broken / "cache.sqlite"), len(server.answered())
        assert known <= set(server.answered())
        more = dice.randrange(14)
        pause = dice.uniform(0, 0.03 if more else 2)
        kills += kill(server.start(broken), server.endpoint, more, pause)
        repeated += sum(key in known for key in server.answered()[before:])
    assert kills > times / 2, "the run is too short for so many kills"
    known, before = committed(broken / "cache.sqlite"), len(server.answered())
    server.run(broken)
    repeated += sum(key in known for key in server.answered()[before:])
    assert repeated == 0
    once = len(server.answered())
    server.run(whole)
    assert hashes(broken) == hashes(whole)
    unbroken = len(server.answered()) - once
    kept = [len(committed(outputs / "cache.sqlite")) for outputs in (broken, whole)]
    assert kept == [unbroken, unbroken]
    assert len(set(ends(broken))) == len(list(ends(broken))) == 60


def test_two_datasets_are_two_to_the_loader(tmp_path: Path) -> None:
    """The loader caches by folder name: another dataset's `1.0.0` must not be loaded in its place."""
    import datasets

    for name, count in (("whole", 3), ("other", 1)):
        samples = [toys.sample(toys.query(number)) for number in range(count)]
        made = publish(finished_run(tmp_path, samples, name=name), tmp_path)
        assert len(datasets.load_dataset(str(made.path), "sft", split="train")) == count
