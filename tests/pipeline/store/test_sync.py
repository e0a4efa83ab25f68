"""Outputs are copied to an address and back: what is missing, and nothing that leads astray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import fsspec
import pytest

from toolloom.pipeline.store.sync import local_outputs, sync
from toolloom.schemas import StoreError

NUMBERS = count()
FILES = ("runs/a/plan.json", "datasets/x/1.0.0/manifest.json", "datasets/x/1.0.0/sft/train.parquet")


@pytest.fixture
def address() -> str:
    """An empty store of its own."""
    return f"memory://store{next(NUMBERS)}/out"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """A folder of outputs, with what belongs to this machine alone."""
    for name in (*FILES, "cache.sqlite", "cache.sqlite-wal", "runs/a/.lock"):
        path = tmp_path / "here" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "here/datasets/x/latest").symlink_to("1.0.0")
    return tmp_path / "here"


def files(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("scheme", ["memory", "path"])
def test_a_folder_comes_back_as_it_went(
    outputs: Path, address: str, tmp_path: Path, scheme: str
) -> None:
    """Without cache, locks and links; a second time there is nothing to copy, either way."""
    there = address if scheme == "memory" else str(tmp_path / "there")
    assert sync(str(outputs), there).copied == len(FILES)
    assert sync(str(outputs), there).copied == 0
    assert sync(there, str(tmp_path / "back")).same == 0
    assert files(tmp_path / "back") == {name: name for name in FILES}
    assert sync(there, str(tmp_path / "back")).copied == 0


def test_what_is_newer_or_longer_is_copied_and_nothing_removed(outputs: Path, address: str) -> None:
    """As a run goes on, its files change; what is gone here stays there."""
    sync(str(outputs), address)
    (outputs / FILES[0]).write_text("more than before")
    os.utime(outputs / FILES[1], (4e9, 4e9))
    (outputs / FILES[2]).unlink()
    assert sync(str(outputs), address).copied == 2
    assert len(fsspec.filesystem("memory").find(address)) == len(FILES)


def test_a_manifest_comes_after_its_tables(
    outputs: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that is killed leaves no version that looks whole."""
    put, seen = fsspec.get_filesystem_class("memory").put, list[str]()

    def noted(self: Any, sources: list[str], targets: list[str]) -> None:
        seen.extend(sources)
        put(self, sources, targets)

    monkeypatch.setattr(fsspec.get_filesystem_class("memory"), "put", noted)
    sync(str(outputs), address)
    assert [name.endswith("manifest.json") for name in seen] == [False, False, True]


def test_names_that_lead_out_of_the_folder_are_left_alone(address: str, tmp_path: Path) -> None:
    """Whoever may write to a store may be hostile."""
    store = fsspec.filesystem("memory")
    for name in ("runs/../../../evil", ".ssh/keys", "runs/.hidden", "runs/good"):
        store.pipe(f"{address.removeprefix('memory:/')}/{name}", b"x")
    sync(address, str(tmp_path / "deep" / "er" / "back"))
    assert files(tmp_path) == {"deep/er/back/runs/good": "x"}


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("memory://a", "memory://b", "One of the two"),
        ("nowhere", "memory://b", "no such folder"),
        (".", "s3://me:secret@host/b", "environment"),
        (".", "s3://host/b?sig=secret", "environment"),
        (".", "nonsense://b", "Check the address"),
        (".", "gs://b/c", "pip"),
    ],
)
def test_mistakes_say_what_to_do(
    source: str, target: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence each, and no secret."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match=said) as told:
        sync(source, target)
    assert "secret" not in str(told.value)


def test_commands_write_to_folders_alone() -> None:
    """An address is told how to get the files there."""
    for text in ("s3://bucket/x", Path("s3://bucket/x"), "memory://x"):
        with pytest.raises(StoreError, match="toolloom sync"):
            local_outputs(text)
    assert local_outputs("out") == Path("out")


SCRIPT = """
import asyncio, json, os, sys
import fsspec
from prefect.testing.utilities import prefect_test_harness
from support import toys
from toolloom import flows
from toolloom.pipeline import run as runner

FIELDS = {"name": "afar", "shard_size": 4, "queries": {"count": 9}, "apis": {"domains": 6}}
places = []
with prefect_test_harness(server_startup_timeout=120):
    for seed in range(2):
        os.environ["XDG_CACHE_HOME"] = os.path.join(sys.argv[1], str(seed))
        runner.BESIDE.set({"stages": toys.STAGES})
        made = asyncio.run(flows.make_dataset(FIELDS, "memory://b/out", seed))
        places.append(str(made.published.path))
store = fsspec.filesystem("memory")
print(json.dumps([places, store.glob("b/out/datasets/afar/*/manifest.json")]))
"""


@pytest.mark.slow
def test_a_flow_with_an_address_syncs_as_its_last_task(tmp_path: Path) -> None:
    """What it made is there, and a run on a machine with an empty disk makes the next version."""
    run = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run(run, env=environment, cwd=tmp_path, capture_output=True, text=True)
    places, published = json.loads((ended.stdout or ended.stderr).splitlines()[-1])
    assert [place.startswith(f"{tmp_path}/{n}/") for n, place in enumerate(places)] == [True, True]
    assert [name.split("/")[-2] for name in published] == ["1.0.0", "1.0.1"]
