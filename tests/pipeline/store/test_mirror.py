"""Outputs in a store: whole runs, other machines, readers."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import processes, s3_server, toys
from support.processes import TOOLLOOM, Endpoint, committed, kill, whole_recipe
from typer.testing import CliRunner

from toolloom.cli import app
from toolloom.pipeline.dataset.verify import place_of, verify
from toolloom.pipeline.run import Made, make_dataset
from toolloom.pipeline.stage import Context
from toolloom.pipeline.store import mirror
from toolloom.pipeline.store import outputs as mirrors
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import Outcome, Query, StoreError

Machine = Callable[[str, str], Path]


@pytest.fixture
def bucket(store: s3_server.Store, reachable: None) -> str:
    """A new bucket, which this process can reach."""
    return store.bucket()


def run(outputs: str | Path, **changes: Any) -> Made:
    """A toy run with its outputs there."""
    recipe = toys.recipe(queries={"count": 40}, splits={"unseen": ["c1"]}, **changes)
    stages = toys.SPLIT_STAGES
    return asyncio.run(make_dataset(recipe, outputs=mirrors.opened(outputs), stages=stages))


def files(outputs: Path) -> dict[str, bytes]:
    """What is kept of a folder of outputs: runs and datasets, without what is this machine's."""
    paths = [p for kind in ("runs", "datasets") for p in (outputs / kind).rglob("*")]
    kept = [p for p in paths if p.is_file() and not p.name.startswith(".")]
    names = [p.relative_to(outputs).as_posix() for p in kept]
    return {n: (outputs / n).read_bytes() for n in names if "/latest/" not in n}


def stored(store: s3_server.Store, bucket: str) -> dict[str, bytes]:
    return {name.removeprefix("my/data/"): body for name, body in store.keys(bucket).items()}


def test_a_run_in_a_store_is_the_bytes_of_a_local_one(
    store: s3_server.Store, bucket: str, tmp_path: Path
) -> None:
    """The store holds the files of runs and datasets, no more: no cache, no lock, no shard."""
    made, local = run(f"s3://{bucket}/my/data/"), run(tmp_path / "local")
    assert made.published and local.published
    assert stored(store, bucket) == files(tmp_path / "local")
    assert made.published.version.manifest == local.published.version.manifest


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[tuple[Path, Endpoint]]:
    """A scripted endpoint in a process of its own, and the recipe that asks it."""
    recipe = tmp_path / "whole.yaml"
    with processes.endpoint(tmp_path) as endpoint:
        recipe.write_text(whole_recipe(endpoint.base_url, count=24))
        yield recipe, endpoint


@pytest.mark.slow
def test_a_killed_run_goes_on_on_another_machine(
    store: s3_server.Store,
    bucket: str,
    fake: tuple[Path, Endpoint],
    machine: Machine,
    tmp_path: Path,
) -> None:
    """After kill -9 again and again, each time on a machine that has only the store and the shared
    cache, no answered request is repeated, and the bytes are those of an unbroken local run."""
    (recipe, endpoint), cache = fake, tmp_path / "shared.sqlite"

    def start(outputs: str | Path, home: str, *more: Any) -> subprocess.Popen[bytes]:
        words = ["run", recipe, "--engine", "local", "-o", outputs, *more]
        env = {**os.environ, **store.environment, "TOOLLOOM_MIRROR": str(tmp_path / home)}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([*TOOLLOOM, *words], env=env, **quiet)  # type: ignore[call-overload]

    url, dice, kills, repeated, halfway = f"s3://{bucket}/my/data", random.Random(1), 0, 0, 0
    for number in range(6):
        known, before = committed(cache), len(endpoint.answered())
        process = start(url, f"m{number}", "--cache", cache)
        kills += kill(process, endpoint, 18, dice.uniform(0, 0.2))
        repeated += sum(key in known for key in endpoint.answered()[before:])
        halfway += any(name.endswith(".done") for name in stored(store, bucket))
    assert kills > 3, "the run is too short for so many kills"
    known, before = committed(cache), len(endpoint.answered())
    assert start(url, "last", "--cache", cache).wait() == 0
    repeated += sum(key in known for key in endpoint.answered()[before:])
    assert repeated == 0
    assert halfway
    assert start(tmp_path / "local", "none").wait() == 0
    assert stored(store, bucket) == files(tmp_path / "local")
    machine("reader", url)
    assert "whole/1.0.0" in call("verify", "whole", "-o", url)  # which fails if it finds any fault


def call(*arguments: Any) -> str:
    ran = CliRunner().invoke(app, list(map(str, arguments)))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


READERS = (
    (("versions", "toy"), "1.0.0 (latest)"),
    (("show", "toy"), "Dataset toy/1.0.0"),
    (("show", "toy-"), "Run toy-"),
    (("rejected", "latest"), "ungrounded_argument"),
    (("diff", "toy", "1.0.0", "1.0.0"), "From toy/1.0.0 to toy/1.0.0"),
    (("complexity", "toy"), "toy/1.0.0"),
    (("export", "toy", "--format", "openai"), "toy/1.0.0 as openai"),
)


def test_readers_find_what_the_store_has(
    store: s3_server.Store, bucket: str, machine: Machine
) -> None:
    """Each command that reads works from an empty mirror, and verifying is of all that the store
    has; what an export writes is in the store."""
    url = f"s3://{bucket}/my/data"
    run(url)
    for number, (command, told) in enumerate(READERS):
        machine(f"reader{number}", url)
        assert told in call(*command, "-o", url)
    made = sum(len(body) for n, body in stored(store, bucket).items() if n.startswith("datasets/"))
    assert verify(place_of(machine("last", url), "toy")).size == made
    new = [name for name in stored(store, bucket) if not name.startswith(("runs/", "datasets/"))]
    assert new
    assert all(name.startswith("exports/toy/1.0.0/openai/") for name in new)


def test_a_pool_is_shared(
    store: s3_server.Store, bucket: str, machine: Machine, tmp_path: Path
) -> None:
    """APIs imported on one machine are in the store, and found and added to on another."""
    url, tools = f"s3://{bucket}/my/data", tmp_path / "tools.json"
    for name in ("tide_times", "ferry_times"):
        machine(name, url)
        about = {"name": name, "description": "Tell when.", "parameters": {"type": "object"}}
        tools.write_text(json.dumps([{"type": "function", "function": about}]))
        call("apis", "import", tools, "--into", "sea", "-o", url)
    machine("reader", url)
    told = call("apis", "list", "sea", "-o", url)
    assert "tide_times" in told
    assert "ferry_times" in told
    assert len(stored(store, bucket)["pools/sea/imports.jsonl"].splitlines()) == 2


@pytest.mark.slow
def test_a_version_loads_from_the_store_and_from_the_mirror(
    store: s3_server.Store, bucket: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`datasets` reads the Parquet files at their URL, the same rows as from the mirror."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)  # it counts stores as the Hub
    url = f"s3://{bucket}/my/data"
    run(url)
    version = find_version(machine("reader", url), "toy")
    here = datasets.load_dataset(str(version.path), "sft", split="train")
    there = datasets.load_dataset(
        "parquet",
        data_files={"train": f"{mirror.shown(version.path)}/sft/train-*.parquet"},
        split="train",
        storage_options={"endpoint_url": store.endpoint},
    )
    assert here.to_list() == there.to_list()


@pytest.mark.slow
def test_a_store_that_fails_stops_the_run(
    store: s3_server.Store, bucket: str, tmp_path: Path
) -> None:
    """The error says where and what to do; the next start brings what is missing."""
    url, recipe = f"s3://{bucket}/my/data", toys.recipe()
    outputs = mirrors.opened(url)

    async def lose(query: Query, context: Context) -> Outcome:
        if query.id == "q9":
            store.drop(bucket)
        return await toys.ask_queries(query, context)

    queries = toys.Stage("queries", "query", Query, Query, lose, feed=toys.feed_queries)
    stages = (toys.DOMAINS, queries, toys.TESTED)
    with pytest.raises(StoreError, match=rf"{url}/runs/.* cannot be written .*run the same"):
        asyncio.run(make_dataset(recipe, outputs=outputs, stages=stages))
    store.client().create_bucket(Bucket=bucket)
    asyncio.run(make_dataset(recipe, outputs=outputs, stages=toys.STAGES))
    local = tmp_path / "local"
    asyncio.run(make_dataset(recipe, outputs=local, stages=toys.STAGES))
    assert stored(store, bucket) == files(local)
