"""Rows of templates and instructions from the command line, on the scripted endpoint in a process
of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import processes
from support.processes import TOOLLOOM, Endpoint, hashes

from toolloom.pipeline.store.version import find_version
from toolloom.schemas.splits import signature

RECIPE = """
name: more
model: {base_url: "%s", model: fake, concurrency: 8}
apis: {domains: 4, per_domain: 3}
queries: {count: 40}
tester: {votes: 1}
shard_size: 4
"""
BOTH = "expand: {rows: 60}\nrewrite: {}\n"


@dataclass(frozen=True)
class Server:
    """A scripted endpoint, and recipes that ask it: plain, and for all there is."""

    endpoint: Endpoint
    recipe: Path
    both: Path

    def answered(self) -> int:
        return len(self.endpoint.answered())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    recipe, both = folder / "more.yaml", folder / "both.yaml"
    with processes.endpoint(folder) as endpoint:
        text = RECIPE % endpoint.base_url
        recipe.write_text(text)
        both.write_text(text + BOTH)
        yield Server(endpoint, recipe, both)


@pytest.fixture(scope="module")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with version 1.0.0."""
    outputs = tmp_path_factory.mktemp("made") / "out"
    toolloom("run", server.recipe, *LOCAL, outputs=outputs)
    return outputs


@pytest.fixture
def outputs(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(made, tmp_path / "out", symlinks=True)
    return tmp_path / "out"


LOCAL = ("--engine", "local")
EXPAND, REWRITE = ("expand", "more", "--rows", "80", *LOCAL), ("rewrite", "more", *LOCAL)


def toolloom(*arguments: Any, outputs: Path) -> str:
    command = [*TOOLLOOM, *arguments, "-o", outputs]
    return subprocess.run(command, stdout=-1, stderr=-1, text=True, check=True).stdout


@pytest.mark.slow
def test_a_dataset_grows_by_rows_and_instructions(server: Server, outputs: Path) -> None:
    """Each addition is a version that holds; what was published is not asked about again, and
    once more nothing is asked at all."""
    before = server.answered()
    told = toolloom(*EXPAND, outputs=outputs)
    assert "80 of them are rows of" in told
    assert "New version: more/1.1.0" in told
    expanded = server.answered() - before
    told = toolloom(*REWRITE, outputs=outputs)
    assert "New version: more/1.2.0" in told
    assert expanded < server.answered() - before
    for number in ("1.1.0", "1.2.0"):
        held = toolloom("verify", f"more/{number}", outputs=outputs)
        assert "All is as it was published, and all of it holds." in held
    known, before = hashes(outputs), server.answered()
    for command, number in ((EXPAND, "1.1.0"), (REWRITE, "1.2.0")):
        told = toolloom(*command, outputs=outputs)
        assert f"Published before, unchanged: more/{number}" in told
    assert (hashes(outputs), server.answered()) == (known, before)


@pytest.mark.slow
def test_rows_of_two_expansions_differ(outputs: Path) -> None:
    """Another seed adds rows with other calls, under ids of their own."""
    for seed in ("0", "1"):
        toolloom(*EXPAND, "--seed", seed, outputs=outputs)
    version = find_version(outputs, "more")
    assert version.number == "1.2.0"
    rows = list(version.rows("samples", "train"))
    new = [row for row in rows if "-x" in row["id"]]
    assert len({row["id"] for row in rows}) == len(rows)
    calls = [signature(json.loads(row["dialogue"])["query"]["intent"]) for row in new]
    assert len(set(calls)) == len(calls) == 160


@pytest.mark.slow
def test_one_run_makes_all_that_its_recipe_asks(server: Server, tmp_path: Path) -> None:
    """Samples, rows and instructions are in one version that holds; done again it asks nothing."""
    command = ("run", server.both, *LOCAL)
    told = toolloom(*command, outputs=tmp_path)
    assert "60 of them are rows of" in told
    assert "instructions of" in told
    held = toolloom("verify", "more", outputs=tmp_path)
    assert "All is as it was published, and all of it holds." in held
    known, before = hashes(tmp_path), server.answered()
    assert "Published before, unchanged: more/1.0.0" in toolloom(*command, outputs=tmp_path)
    assert (hashes(tmp_path), server.answered()) == (known, before)
