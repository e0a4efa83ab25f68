"""Datasets from the command line, on the scripted endpoint in a process of its own: made, killed,
made anew in a split, and added to."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import processes, toys
from support.finished_runs import finished_run
from support.processes import TOOLLOOM, Endpoint, committed, hashes, kill, start, whole_recipe

from toolloom.pipeline.dataset.publish import publish
from toolloom.pipeline.store.version import find_version
from toolloom.schemas.splits import signature

PARTS = """
name: parts
model: {base_url: "%s", model: fake, concurrency: 8}
apis: {categories: [Finance, Health, Weather], domains: 9, per_domain: 2}
queries: {count: 60}
splits: {test_category: 0.5, unseen: [Weather]}
tester: {votes: 3}
shard_size: 4
"""
BOTH = "expand: {rows: 60}\nrewrite: {}\n"
LOCAL = ("--engine", "local")
REGENERATE = ("regenerate", "test_category", "--dataset", "parts", *LOCAL)
EXPAND, REWRITE = ("expand", "parts", "--rows", "80", *LOCAL), ("rewrite", "parts", *LOCAL)
HOLDS = "All is as it was published, and all of it holds."


@dataclass(frozen=True)
class Server:
    """A scripted endpoint and the recipes that ask it, by name: `whole`, `parts` and `both`."""

    endpoint: Endpoint
    folder: Path

    def answered(self) -> list[str]:
        return self.endpoint.answered()

    def recipe(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with processes.endpoint(folder) as endpoint:
        serving = Server(endpoint, folder)
        serving.recipe("whole").write_text(whole_recipe(endpoint.base_url))
        serving.recipe("parts").write_text(PARTS % endpoint.base_url)
        serving.recipe("both").write_text(PARTS % endpoint.base_url + BOTH)
        yield serving


@pytest.fixture(scope="module")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of outputs with parts/1.0.0."""
    outputs = tmp_path_factory.mktemp("made") / "out"
    toolloom("run", server.recipe("parts"), *LOCAL, outputs=outputs)
    return outputs


@pytest.fixture
def outputs(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "out", symlinks=True))


def toolloom(*arguments: Any, outputs: Path) -> str:
    command = [*TOOLLOOM, *arguments, "-o", outputs]
    return subprocess.run(command, stdout=-1, stderr=-1, text=True, check=True).stdout


def rows(outputs: Path, stage: str, kind: str) -> list[dict[str, Any]]:
    (path,) = outputs.glob(f"runs/*/{stage}/{kind}.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_five_agents_make_a_dataset(server: Server, tmp_path: Path) -> None:
    """Samples of all three abilities; running the finished run again sends no request."""
    command, before = ("run", server.recipe("whole"), *LOCAL), len(server.answered())
    toolloom(*command, outputs=tmp_path)
    kinds = {row["dialogue"]["query"]["ability"] for row in rows(tmp_path, "tested", "accepted")}
    assert kinds == {"call", "retrieve_call", "plan_retrieve_call"}
    answered, files = server.answered()[before:], hashes(tmp_path)
    assert len(answered) == len(set(answered)) > 100
    toolloom(*command, outputs=tmp_path)
    assert (server.answered()[before:], hashes(tmp_path)) == (answered, files)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_like_an_unbroken_one(
    server: Server, tmp_path: Path
) -> None:
    """After kill -9 at random moments no answered request is repeated, no record is lost, and
    all bytes are equal.

    A request counts as answered when its answer is in the response cache at the moment of the
    kill. Answers the server sent that were still on their way then were never used; those alone
    may be asked for again. Requests are the same when their bodies are.
    """
    broken, whole, kills, repeated = tmp_path / "broken", tmp_path / "whole", 0, 0
    command, dice, times = ("run", server.recipe("whole"), *LOCAL), random.Random(0), 30
    for _ in range(times):
        known, before = committed(broken / "cache.sqlite"), len(server.answered())
        assert known <= set(server.answered())
        more = dice.randrange(14)
        pause = dice.uniform(0, 0.03 if more else 2)
        kills += kill(start(*command, outputs=broken), server.endpoint, more, pause)
        repeated += sum(key in known for key in server.answered()[before:])
    assert kills > times / 2, "the run is too short for so many kills"
    known, before = committed(broken / "cache.sqlite"), len(server.answered())
    toolloom(*command, outputs=broken)
    repeated += sum(key in known for key in server.answered()[before:])
    assert repeated == 0
    once = len(server.answered())
    toolloom(*command, outputs=whole)
    assert hashes(broken) == hashes(whole)
    unbroken = len(server.answered()) - once
    kept = [len(committed(outputs / "cache.sqlite")) for outputs in (broken, whole)]
    assert kept == [unbroken, unbroken]
    stages = ("queries", "dialogues", "tested", "deduplicated")
    ends = [row["id"] for stage in stages for row in rows(broken, stage, "rejected")]
    ends += [r["dialogue"]["query"]["id"] for r in rows(broken, "deduplicated", "accepted")]
    assert len(set(ends)) == len(ends) == 60


def test_two_datasets_are_two_to_the_loader(tmp_path: Path) -> None:
    """The loader caches by folder name: another dataset's `1.0.0` must not be loaded in its place."""
    import datasets

    for name, count in (("whole", 3), ("other", 1)):
        samples = [toys.sample(toys.query(number)) for number in range(count)]
        version = publish(finished_run(tmp_path, samples, name=name), tmp_path)
        assert len(datasets.load_dataset(str(version.path), "sft", split="train")) == count


def asked(outputs: Path, version: str) -> dict[str, int]:
    """The requests of the run that made a version, by stage."""
    manifest = find_version(outputs, f"parts/{version}").manifest
    run = manifest["splits"]["test_category"]["runs"][-1]
    return {s["name"]: s["use"]["requests"] for s in manifest["runs"][run]["counts"]["stages"]}


@pytest.mark.slow
def test_only_the_split_is_paid_for(server: Server, outputs: Path) -> None:
    """No domain and no API is asked for again, all other splits keep their bytes; a plan that is
    carried out already costs nothing."""
    before, whole = len(server.answered()), asked(outputs, "1.0.0")
    assert "New version: parts/2.0.0" in toolloom(*REGENERATE, outputs=outputs)
    split = asked(outputs, "2.0.0")
    assert split["domains"] == split["apis"] == 0 < whole["apis"]
    assert len(server.answered()) - before == sum(split.values()) < sum(whole.values()) * 0.7
    one, two = (find_version(outputs, f"parts/{number}").path for number in ("1.0.0", "2.0.0"))
    for pattern in ("*/train-*", "*/validation-*", "*/test_instruction-*", "apis/*"):
        assert {p.relative_to(one): p.read_bytes() for p in one.glob(pattern)} == {
            p.relative_to(two): p.read_bytes() for p in two.glob(pattern)
        }
    changed = "sft/test_category-*"
    assert [p.read_bytes() for p in one.glob(changed)] != [
        p.read_bytes() for p in two.glob(changed)
    ]
    before = len(server.answered())
    same = toolloom(*REGENERATE, "--from", "1.0.0", "--seed", "1", outputs=outputs)
    assert "Published before, unchanged: parts/2.0.0" in same
    assert len(server.answered()) == before


@pytest.mark.slow
def test_versions_and_what_differs_are_told(outputs: Path, tmp_path: Path) -> None:
    """Each version with its parent and its run; the rows of a split that were exchanged."""
    toolloom(*REGENERATE, outputs=outputs)
    listed = toolloom("versions", "parts", outputs=outputs).splitlines()
    assert listed[1].split()[0] == "1.0.0"
    assert listed[2].startswith("2.0.0 (latest)")
    assert "test_category anew" in listed[2]
    figures = tmp_path / "diff.json"
    said = toolloom("diff", "parts", "1.0.0", "latest", "--json", figures, outputs=outputs)
    assert "added in test_category: test_category-1-" in said
    assert "removed in test_category: test_category-0-" in said
    differing = {row["split"]: row for row in json.loads(figures.read_text())["rows"]}
    train, changed = differing["train"], differing["test_category"]
    assert train["same"] == train["before"] == train["after"] > 0
    assert changed["same"] == 0 < changed["added"] == changed["after"]


@pytest.mark.slow
def test_a_dataset_grows_by_rows_and_instructions(server: Server, outputs: Path) -> None:
    """Each addition is a version that holds; what was published is not asked about again, and
    once more nothing is asked at all."""
    before = len(server.answered())
    said = toolloom(*EXPAND, outputs=outputs)
    assert "80 of them are rows of" in said
    assert "New version: parts/1.1.0" in said
    expanded = len(server.answered()) - before
    assert "New version: parts/1.2.0" in toolloom(*REWRITE, outputs=outputs)
    assert expanded < len(server.answered()) - before
    for number in ("1.1.0", "1.2.0"):
        assert HOLDS in toolloom("verify", f"parts/{number}", outputs=outputs)
    known, before = hashes(outputs), len(server.answered())
    for command, number in ((EXPAND, "1.1.0"), (REWRITE, "1.2.0")):
        said = toolloom(*command, outputs=outputs)
        assert f"Published before, unchanged: parts/{number}" in said
    assert (hashes(outputs), len(server.answered())) == (known, before)


@pytest.mark.slow
def test_rows_of_two_expansions_differ(outputs: Path) -> None:
    """Another seed adds rows with other calls, under ids of their own."""
    for seed in ("0", "1"):
        toolloom(*EXPAND, "--seed", seed, outputs=outputs)
    version = find_version(outputs, "parts")
    assert version.number == "1.2.0"
    train = list(version.rows("samples", "train"))
    new = [row for row in train if "-x" in row["id"]]
    assert len({row["id"] for row in train}) == len(train)
    calls = [signature(json.loads(row["dialogue"])["query"]["intent"]) for row in new]
    assert len(set(calls)) == len(calls) == 160


@pytest.mark.slow
def test_one_run_makes_all_that_its_recipe_asks(server: Server, tmp_path: Path) -> None:
    """Samples, rows and instructions are in one version that holds; done again it asks nothing."""
    command = ("run", server.recipe("both"), *LOCAL)
    said = toolloom(*command, outputs=tmp_path)
    assert "60 of them are rows of" in said
    assert "instructions of" in said
    assert HOLDS in toolloom("verify", "parts", outputs=tmp_path)
    known, before = hashes(tmp_path), len(server.answered())
    assert "Published before, unchanged: parts/1.0.0" in toolloom(*command, outputs=tmp_path)
    assert (hashes(tmp_path), len(server.answered())) == (known, before)
