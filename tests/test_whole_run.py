"""The five agents from the command line, on the scripted endpoint in a process of its own."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

TOOLLOOM = [sys.executable, "-c", "from toolloom.cli import main; main()"]
RECIPE = """
name: whole
model: {base_url: "%s", model: fake, concurrency: 16}
apis: {domains: 4, per_domain: 3}
queries: {count: 60}
shard_size: 4
"""
KILLS = 30
IN_FLIGHT = 0.3  # seconds in which what the server has under way comes to its end


@dataclass(frozen=True)
class Server:
    """A fake in its own process, its log and the recipe that asks it."""

    recipe: Path
    log: Path

    def answered(self) -> list[str]:
        """The hash of each request's body, for every answer the server has sent. The last line may
        be half written."""
        whole = self.log.read_text().rpartition("\n")[0] if self.log.exists() else ""
        lines = whole.splitlines()
        return [json.loads(line)["key"] for line in lines]

    def start(self, outputs: Path) -> subprocess.Popen[bytes]:
        command = [*TOOLLOOM, "run", self.recipe, "--engine", "local", "-o", outputs]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def run(self, outputs: Path) -> None:
        assert self.start(outputs).wait() == 0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    log, recipe = tmp_path / "log.jsonl", tmp_path / "whole.yaml"
    command = [
        sys.executable,
        "-m",
        "toolloom.llm.fake",
        "--port=0",
        "--latency=0.05",
        "--log",
        log,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        recipe.write_text(RECIPE % process.stdout.readline().split()[-1])
        yield Server(recipe, log)
        process.terminate()


def committed(outputs: Path) -> set[str]:
    """Answers in the response cache, by the beginning of their request's hash (in their id)."""
    if not (outputs / "cache.sqlite").exists():
        return set()
    with sqlite3.connect(outputs / "cache.sqlite") as cache:
        raws = cache.execute("SELECT body FROM responses WHERE kind = 'chat'").fetchall()
    return {json.loads(raw)["id"].removeprefix("chatcmpl-") for (raw,) in raws}


def hashes(outputs: Path) -> dict[str, str]:
    """SHA-256 of every file of runs and datasets."""
    found = [p for part in ("runs", "datasets") for p in (outputs / part).rglob("*") if p.is_file()]
    return {str(p.relative_to(outputs)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


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


def test_a_run_killed_again_and_again_ends_like_an_unbroken_one(
    server: Server, tmp_path: Path
) -> None:
    """After kill -9 at 30 random moments no answered request is repeated, no record is lost, and
    all bytes are equal.

    A request counts as answered when its answer is in the response cache at the moment of the
    kill. Answers the server sent that were still on their way then were never used; those alone
    may be asked for again. Requests are the same when their bodies are.
    """
    broken, whole, kills, repeated = tmp_path / "broken", tmp_path / "whole", 0, 0
    dice = random.Random(0)
    while kills < KILLS:
        known, before = committed(broken), len(server.answered())
        assert known <= {key[:12] for key in server.answered()}
        process, more = server.start(broken), dice.randrange(14)
        while process.poll() is None and len(server.answered()) < before + more:
            time.sleep(0.002)
        time.sleep(dice.uniform(0, 0.03 if more else 2))
        process.kill()
        assert process.wait() == -signal.SIGKILL, "the run is too short for so many kills"
        kills += 1
        time.sleep(IN_FLIGHT)
        repeated += sum(key[:12] in known for key in server.answered()[before:])
    known, before = committed(broken), len(server.answered())
    server.run(broken)
    repeated += sum(key[:12] in known for key in server.answered()[before:])
    assert repeated == 0
    once = len(server.answered())
    server.run(whole)
    assert hashes(broken) == hashes(whole)
    unbroken = len(server.answered()) - once
    assert len(committed(broken)) == len(committed(whole)) == unbroken
    assert len(set(ends(broken))) == len(list(ends(broken))) == 60


def test_two_datasets_are_two_to_the_loader(server: Server, tmp_path: Path) -> None:
    """The loader caches by folder name: another dataset's `1.0.0` must not be loaded in its place."""
    import datasets

    loaded = []
    for number, name in enumerate(("whole", "other")):
        text = server.recipe.read_text().replace("name: whole", f"name: {name}")
        server.recipe.write_text(text.replace("count: 60", f"count: {60 - 20 * number}"))
        server.run(tmp_path / "out")
        path = tmp_path / "out" / "datasets" / name / "1.0.0"
        loaded.append(len(datasets.load_dataset(str(path), "sft", split="train")))
    assert loaded[0] > loaded[1] > 0
