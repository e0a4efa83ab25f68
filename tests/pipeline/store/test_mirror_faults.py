"""What becomes of a mirror and its store when machines die, meet or fail half the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import s3_server
from support.memory_store import MEMORY, drop, put, run, there

from toolloom.pipeline.store import mirror
from toolloom.pipeline.store.files import write_lines
from toolloom.pipeline.store.locks import hold_folder
from toolloom.pipeline.store.stage_files import StageFolder
from toolloom.pipeline.store.version import find_version
from toolloom.schemas import StoreError, Usage

RUN, SHARD = Path("runs", "toy-1"), "runs/toy-1/queries/shards/00000"
TABLE = "sft/train-00000-of-00001.parquet"


def forget(outputs: Path, *names: str) -> None:
    """Undo the push of these files, as if a kill had come before it."""
    url = mirror.shown(outputs)
    for name in names:
        unit = outputs.joinpath(*Path(name).parts[:2])
        inner = Path(name).relative_to(unit.relative_to(outputs)).as_posix()
        drop(url, name)
        with (unit / ".store.jsonl").open("a") as journal:
            journal.write(f'["{inner}", null]\n')


def test_a_shard_whose_marker_was_not_pushed_stays(url: str, machine: Any) -> None:
    """A kill between a shard's files and its marker costs nothing on the same machine."""
    outputs = machine("a", url)
    stage = StageFolder(outputs / RUN / "queries")
    with hold_folder(outputs / RUN):
        stage.write_shard(0, [b"{}\n"], [], Usage())
    forget(outputs, f"{SHARD}.done")
    with hold_folder(machine("a", url) / RUN):
        assert list((outputs / f"{SHARD}.accepted.jsonl").read_bytes()) == list(b"{}\n")
    assert {f"{SHARD}.{end}" for end in ("accepted.jsonl", "rejected.jsonl", "done")} <= there(url)


def test_a_version_whose_manifest_was_not_pushed_can_be_read(url: str, machine: Any) -> None:
    """Nor does a kill between the tables of a version and its manifest, whoever comes next."""
    made = run(outputs := machine("a", url))
    assert made.published
    before = there(url)
    forget(outputs, "datasets/toy/1.0.0/manifest.json")
    version = find_version(machine("a", url), "toy")
    assert list(version.rows("sft", "train"))
    assert not (outputs / ".gone").exists()
    run(machine("a", url))
    assert there(url) == before


def test_files_of_another_machine_are_not_taken_for_those_of_the_marker(
    url: str, machine: Any
) -> None:
    """If the marker comes from the store all its files do, also those of the same size."""
    first, second = machine("a", url), machine("b", url)
    for outputs, text in ((first, b'"mine"\n'), (second, b'"hers"\n')):
        with hold_folder(outputs / RUN):
            StageFolder(outputs / RUN / "queries").write_shard(0, [text], [], Usage())
            if outputs == first:
                mirror.push(outputs / RUN)
        if outputs == first:
            for ending in ("accepted.jsonl", "rejected.jsonl", "done"):
                drop(url, f"{SHARD}.{ending}")
            forget_here = outputs / f"{SHARD}.done"
            forget_here.unlink()
    with hold_folder(machine("a", url) / RUN):
        assert (first / f"{SHARD}.accepted.jsonl").read_bytes() == b'"hers"\n'


class Crossed(MemoryFileSystem):
    """A store in which something happens just before a manifest arrives."""

    protocol = "crossed"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    between: ClassVar[list[Callable[[], None]]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("crossed://", "memory://")))

    def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
        if rpath.endswith("/manifest.json") and self.between:
            self.between.pop()()
        super().put_file(lpath, rpath, *args, **kwargs)


@pytest.mark.slow
def test_two_machines_that_publish_at_once_do_not_mix(machine: Any, tmp_path: Path) -> None:
    """The one that claimed the number first makes the version, of its own files alone."""
    fsspec.register_implementation("crossed", Crossed, clobber=True)
    first, second = machine("a", "crossed://s"), machine("b", "crossed://s")
    refused: list[str] = []

    def cross() -> None:
        with pytest.raises(StoreError, match="another machine is publishing it") as raised:
            run(second, seed=5)
        refused.append(str(raised.value))

    Crossed.between.append(cross)
    made = run(first)
    assert made.published and refused
    found = find_version(machine("c", "crossed://s"), "toy")
    for path in made.published.path.rglob("*.*"):
        if path.is_file():
            assert (found.path / path.relative_to(made.published.path)).read_bytes() == (
                path.read_bytes()
            )
    assert not [name for name in Crossed().find("/s") if "/." in name]  # nor is a claim left
    late = run(machine("b", "crossed://s"), seed=5)
    assert late.published and late.published.label == "toy/1.0.1"


def test_a_version_is_nothing_but_its_own_files(url: str, machine: Any) -> None:
    """What a killed machine left under its number goes: readers of `train-*.parquet` get no more
    rows than the manifest tells of."""
    put(url, "datasets/toy/1.0.0/sft/train-00001-of-00002.parquet", b"half")
    made = run(machine("a", url))
    assert made.published
    names = {name.partition("/1.0.0/")[2] for name in there(url) if "/1.0.0/" in name}
    assert TABLE in names
    assert "sft/train-00001-of-00002.parquet" not in names


def test_a_version_that_is_gone_is_set_aside_whole(url: str, machine: Any) -> None:
    """Each of its files is to be found in the mirror's `.gone`, of each version of its number."""
    outputs = machine("a", url)
    path = run(outputs).published.path  # type: ignore[union-attr]
    kept = {p.relative_to(path): p.read_bytes() for p in path.rglob("*") if p.is_file()}
    for name in ("1.0.0", "1.0.0.2"):
        run(machine("a", url))
        drop(url, "datasets/toy/1.0.0/manifest.json")  # its other files are still there
        mirror.fetch(path)
        aside = outputs / ".gone" / "datasets" / "toy" / name
        assert {p.relative_to(aside) for p in aside.rglob("*") if p.is_file()} == kept.keys()
        assert not path.exists()


def test_what_was_not_pushed_is_not_overwritten(url: str, machine: Any) -> None:
    """If another machine has changed the same file, this machine's goes aside."""
    name = "datasets/toy/notes.jsonl"
    outputs = machine("a", url)
    write_lines(outputs / name, [b"1\n"])
    machine("a", url)
    (outputs / name).write_bytes(b"1\nmine\n")
    put(url, name, b"1\nhers\n")
    machine("a", url)
    assert (outputs / name).read_bytes() == b"1\nhers\n"
    assert (outputs / ".gone" / name).read_bytes() == b"1\nmine\n"


def test_a_file_that_changes_at_its_size_is_seen(url: str, machine: Any) -> None:
    """Who holds a growth is told by a file that is as long for everybody."""
    name = "datasets/toy/growing.json"
    write_lines(machine("a", url) / name, [b"a\n"])
    write_lines(machine("b", url) / name, [b"b\n"])
    assert (machine("a", url) / name).read_bytes() == b"b\n"


def test_an_emptied_store_takes_nothing_from_the_disk(url: str, machine: Any) -> None:
    """What was finished is not seen any more, and is all in `.gone`."""
    outputs = machine("a", url)
    run(outputs)
    kept = {path.name for path in outputs.rglob("*.jsonl") if not path.name.startswith(".")}
    MEMORY.rm("/" + url.removeprefix("memory://"), recursive=True)
    with hold_folder(find_folder(machine("a", url))):
        pass
    assert {path.name for path in (outputs / ".gone").rglob("*.jsonl")} == kept


def find_folder(outputs: Path) -> Path:
    return next((outputs / "runs").iterdir())


def test_a_full_disk_is_told_as_one(url: str, machine: Any, tmp_path: Path) -> None:
    """While a run is fetched: not as a store that fails, and the next start goes on."""
    with s3_server.server() as store:
        bucket, home = store.bucket(), tmp_path / "m"
        store.client().put_object(Bucket=bucket, Key="o/runs/r/recipe.yaml", Body=b"{}\n")
        store.client().put_object(Bucket=bucket, Key="o/runs/r/known.jsonl", Body=b"x" * 99_999)
        code = f"""
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from toolloom.pipeline.store import mirror
from toolloom.pipeline.store import outputs as mirrors
outputs = mirrors.opened("s3://{bucket}/o")
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
mirror.fetch(outputs / "runs" / "r")
"""
        env = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "TOOLLOOM_MIRROR": str(home)}
        ran = subprocess.run(
            [sys.executable, "-c", code],
            env={**env, **store.environment},
            capture_output=True,
            text=True,
        )
    assert "StoreError" in ran.stderr.splitlines()[-1]
    assert "Make room and run the same command again" in ran.stderr
    assert not list(home.rglob("*known*"))
