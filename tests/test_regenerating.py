"""A split made anew from the command line, on the scripted endpoint in a process of its own."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import processes
from support.processes import TOOLLOOM, Endpoint, committed, kill, start

RECIPE = """
name: parts
model: {base_url: "%s", model: fake, concurrency: 8}
apis: {categories: [Finance, Health, Weather], domains: 9, per_domain: 2}
queries: {count: 60}
splits: {test_category: 0.5, unseen: [Weather]}
tester: {votes: 3}
shard_size: 4
"""
KILLS = 4


@dataclass(frozen=True)
class Server:
    """A scripted endpoint and the recipe that asks it."""

    endpoint: Endpoint
    recipe: Path

    def answered(self) -> int:
        return len(self.endpoint.answered())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    recipe = folder / "parts.yaml"
    with processes.endpoint(folder) as endpoint:
        recipe.write_text(RECIPE % endpoint.base_url)
        yield Server(endpoint, recipe)


@pytest.fixture(scope="module")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with version 1.0.0."""
    outputs = tmp_path_factory.mktemp("made") / "out"
    toolloom("run", server.recipe, "--engine", "local", outputs=outputs)
    return outputs


@pytest.fixture
def outputs(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "out", symlinks=True)
    return tmp_path / "out"


def toolloom(*arguments: Any, outputs: Path) -> str:
    command = [*TOOLLOOM, *arguments, "-o", outputs]
    return subprocess.run(command, stdout=-1, stderr=-1, text=True, check=True).stdout


REGENERATE = ("regenerate", "test_category", "--dataset", "parts", "--engine", "local")


def hashes(outputs: Path, version: str, pattern: str = "*") -> dict[str, str]:
    folder = outputs / "datasets" / "parts" / version
    found = [path for path in folder.rglob(pattern) if path.is_file()]
    assert found
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in found
    }


def requests(outputs: Path, version: str) -> dict[str, int]:
    """What the run that made a version asked, by stage."""
    path = outputs / "datasets" / "parts" / version / "manifest.json"
    manifest = json.loads(path.read_bytes())
    run = manifest["splits"]["test_category"]["runs"][-1]
    return {s["name"]: s["use"]["requests"] for s in manifest["runs"][run]["counts"]["stages"]}


@pytest.mark.slow
def test_only_the_split_is_paid_for(server: Server, outputs: Path) -> None:
    """No domain and no API is asked for again, all other splits keep their bytes; a plan that is
    carried out already costs nothing."""
    before, whole = server.answered(), requests(outputs, "1.0.0")
    told = toolloom(*REGENERATE, outputs=outputs)
    assert "New version: parts/2.0.0" in told
    asked = requests(outputs, "2.0.0")
    assert asked["domains"] == asked["apis"] == 0 < whole["apis"]
    assert server.answered() - before == sum(asked.values()) < sum(whole.values()) * 0.7
    for pattern in ("*/train-*", "*/validation-*", "*/test_instruction-*", "apis/*"):
        assert hashes(outputs, "2.0.0", pattern) == hashes(outputs, "1.0.0", pattern)
    split = [hashes(outputs, v, "sft/test_category-*") for v in ("1.0.0", "2.0.0")]
    assert split[0] != split[1]
    before = server.answered()
    same = toolloom(*REGENERATE, "--from", "1.0.0", "--seed", "1", outputs=outputs)
    assert "Published before, unchanged: parts/2.0.0" in same
    assert server.answered() == before


def test_a_growth_killed_again_and_again_repeats_nothing(
    server: Server, outputs: Path, tmp_path: Path
) -> None:
    """After kill -9 the same command goes on with the same run, asks nothing that is in the cache,
    and ends with the bytes of an unbroken growth, which holds in every respect."""
    whole, dice, kills, repeated = tmp_path / "whole", random.Random(1), 0, 0
    shutil.copytree(outputs, whole, symlinks=True)
    grow = ("regenerate", "train", "--dataset", "parts", "--keep", "--engine", "local")
    for _ in range(KILLS):
        known, before = committed(outputs / "cache.sqlite"), server.answered()
        kills += kill(start(*grow, outputs=outputs), server.endpoint, dice.randrange(12))
        repeated += sum(key in known for key in server.endpoint.answered()[before:])
    assert kills > KILLS / 2, "the split is too small for so many kills"
    known, before = committed(outputs / "cache.sqlite"), server.answered()
    toolloom(*grow, outputs=outputs)
    repeated += sum(key in known for key in server.endpoint.answered()[before:])
    assert repeated == 0
    assert len([*(outputs / "runs").iterdir()]) == 2
    toolloom(*grow, outputs=whole)
    assert hashes(outputs, "1.1.0") == hashes(whole, "1.1.0")
    told = toolloom("verify", "parts/1.1.0", outputs=outputs)
    assert "All is as it was published, and all of it holds." in told


@pytest.mark.slow
def test_versions_and_what_differs_are_told(outputs: Path, tmp_path: Path) -> None:
    """Each version with its parent and its run; the rows of a split that were exchanged."""
    toolloom(*REGENERATE, outputs=outputs)
    listed = toolloom("versions", "parts", outputs=outputs).splitlines()
    assert listed[1].split()[0] == "1.0.0"
    assert listed[2].startswith("2.0.0 (latest)")
    assert "test_category anew" in listed[2]
    figures = tmp_path / "diff.json"
    told = toolloom("diff", "parts", "1.0.0", "latest", "--json", figures, outputs=outputs)
    assert "added in test_category: test_category-1-" in told
    assert "removed in test_category: test_category-0-" in told
    rows = {row["split"]: row for row in json.loads(figures.read_text())["rows"]}
    assert rows["train"]["same"] == rows["train"]["before"] == rows["train"]["after"] > 0
    changed = rows["test_category"]
    assert changed["same"] == 0 < changed["added"] == changed["after"]
