"""How a mirror and its store are made alike, on `memory://`, also when machines die or meet."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support import s3_server, toys
from support.waiting import wait_for

from toolloom.pipeline.run import Made, make_dataset
from toolloom.pipeline.store import mirror, mirror_unit
from toolloom.pipeline.store import outputs as mirrors
from toolloom.pipeline.store.files import write_lines
from toolloom.pipeline.store.locks import hold_folder
from toolloom.pipeline.store.remote import RemoteFile
from toolloom.pipeline.store.run import RunFolder, StageFolder, find_run
from toolloom.pipeline.store.version import find_version, numbers
from toolloom.schemas import StoreError, Usage

MEMORY = MemoryFileSystem()


class OtherMemory(MemoryFileSystem):
    """A store in memory with a protocol, a `store` and habits of its own."""

    pseudo_dirs: ClassVar[list[str]] = [""]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace(f"{cls.protocol}://", "memory://")))


def run(outputs: Path, **changes: Any) -> Made:
    return asyncio.run(make_dataset(toys.recipe(**changes), outputs=outputs, stages=toys.STAGES))


def put(url: str, name: str, body: bytes = b"{}\n") -> None:
    MEMORY.pipe_file(f"{url.removeprefix('memory://')}/{name}", body)


def there(url: str) -> set[str]:
    root = "/" + url.removeprefix("memory://")
    return {name.removeprefix(f"{root}/") for name in MEMORY.find(root)}


def drop(url: str, name: str) -> None:
    MEMORY.rm(f"{url.removeprefix('memory://')}/{name}", recursive=True)


def test_what_lacks_its_marker_is_not_there() -> None:
    """A shard, a stage and a version count from their marker on."""
    half = ("s/shards/00000.accepted.jsonl", "s/accepted.jsonl", "1.0.0/sft/a.parquet")
    marks = ("s/shards/00000.done", "s/done.json", "1.0.0/manifest.json")
    one = RemoteFile(1)
    assert mirror_unit.whole(dict.fromkeys(half, one)) == {}
    assert mirror_unit.whole(dict.fromkeys(half + marks, one)).keys() == {*half, *marks}
    assert mirror_unit.whole({"recipe.yaml": one}).keys() == {"recipe.yaml"}


def test_shards_are_pushed_while_the_run_is_held(url: str, machine: Any) -> None:
    """The store has each finished shard soon, and none of a stage that is finished."""
    folder = RunFolder(machine("a", url) / "runs" / "toy-1")
    stage = folder.stage("queries")
    with folder.locked():
        stage.write_shard(0, [b"{}\n"], [], Usage())
        wait_for(lambda: "runs/toy-1/queries/shards/00000.done" in there(url), "it is pushed")
        stage.write_shard(1, [], [], Usage())
    assert len([name for name in there(url) if "/shards/" in name]) == 6


def test_a_half_pushed_version_is_ignored_and_pushed_again(url: str, machine: Any) -> None:
    """Without its manifest a version is not there; its number is free, its files are replaced or
    go: readers of `train-*.parquet` get no more rows than the manifest tells of."""
    put(url, "datasets/toy/1.0.0/sft/train-00000-of-00001.parquet", b"half")
    put(url, "datasets/toy/1.0.0/sft/train-00001-of-00002.parquet", b"half")
    outputs = machine("a", url)
    assert numbers(outputs / "datasets" / "toy") == []
    made = run(outputs)
    assert made.published and made.published.label == "toy/1.0.0"
    path = made.published.path / "sft/train-00000-of-00001.parquet"
    name = f"{url.removeprefix('memory://')}/datasets/toy/1.0.0/sft/{path.name}"
    assert MEMORY.cat_file(name) == path.read_bytes() != b"half"
    assert not any(name.endswith("00001-of-00002.parquet") for name in there(url))


def test_what_was_not_pushed_is_at_the_next_start(url: str, machine: Any) -> None:
    """A machine that died before its version was in the store brings it when it goes on."""
    run(outputs := machine("a", url))
    before = there(url)
    for name in ("datasets/toy", "runs"):  # as if nothing of them had come there
        drop(url, name)
    for journal in outputs.glob("*/*/.store.jsonl"):
        journal.unlink()
    run(machine("a", url))
    assert there(url) == before


def test_a_number_that_another_machine_took_is_not_taken_again(url: str, machine: Any) -> None:
    """Versions never change: who comes second is told, and makes the version that follows."""
    first, second = machine("a", url), machine("b", url)
    late = run(second, seed=5)
    with pytest.raises(StoreError, match="published by another machine meanwhile. Run the same"):
        mirror.claim(first / "datasets" / "toy" / "1.0.0")
    assert late.published
    made = run(machine("a", url))
    assert made.published and made.published.label == "toy/1.0.1"
    assert find_version(machine("b", url), "toy/latest").number == "1.0.1"


def test_of_two_versions_of_one_number_the_stores_counts(url: str, machine: Any) -> None:
    """One that never came to the store goes aside when the store has another of its number."""
    first = machine("a", url)
    mine = run(first)
    drop(url, "datasets")
    (first / "datasets" / "toy" / ".store.jsonl").unlink()
    other = run(machine("b", url), seed=5)
    assert mine.published and other.published
    assert mine.published.label == other.published.label
    again = machine("a", url)
    found = find_version(again, "toy")
    assert found.manifest["content"] == other.published.manifest["content"]
    assert (again / ".gone" / "datasets" / "toy" / "1.0.0" / "manifest.json").exists()
    assert list(found.rows("sft", "train"))


def test_what_is_removed_in_the_store_is_made_again(url: str, machine: Any) -> None:
    """A stage's folder that somebody removes there is no more here either, and is done anew."""
    outputs = machine("a", url)
    made = run(outputs)
    (tested,) = {n.rpartition("/")[0] for n in there(url) if n.endswith("tested/done.json")}
    kept = (outputs / tested / "done.json").read_bytes()
    drop(url, tested)
    assert StageFolder(find_run(machine("a", url), "latest").path / "tested").mark is None
    run(machine("a", url))
    assert (outputs / tested / "done.json").read_bytes() == kept
    assert made.published and f"{tested}/done.json" in there(url)


@pytest.mark.parametrize(
    "name", ["../evil", "runs/../../evil", "runs/r/../../../evil", "/etc/evil"]
)
def test_names_of_the_store_stay_in_the_mirror(
    name: str, url: str, machine: Any, tmp_path: Path
) -> None:
    """Whoever can write to the store writes nowhere but into the mirror."""
    root = url.removeprefix("memory://")
    MEMORY.pipe_file("/scratch", b"evil")
    file = MEMORY.store["/scratch"]
    MEMORY.store[f"/{root}/runs/r/{name}"] = MEMORY.store[f"/{root}/{name}"] = file
    put(url, "runs/r/recipe.yaml")
    put(url, "runs/r/plan.json")
    before = set(tmp_path.parent.rglob("*evil*"))
    outputs = machine("a", url)
    find_run(outputs, "r")
    inside = set(outputs.rglob("*"))
    assert set(tmp_path.parent.rglob("*evil*")) - before <= inside
    for link in ("datasets/d/latest", "datasets/d/.lock", "runs/r/.store.lock"):
        put(url, link, b"evil")
    assert not (machine("a", url) / "datasets" / "d" / "latest").exists()


def test_a_mirror_stands_for_its_store(url: str, machine: Any, tmp_path: Path) -> None:
    """Its path opens the store, too; folders and file:// are what they are."""
    outputs = machine("a", url)
    assert mirrors.opened(outputs) == mirrors.opened(str(outputs)) == outputs
    assert mirrors.opened(Path(url)) == outputs  # pathlib takes one of the slashes
    assert mirror.shown(outputs / "runs") == f"{url}/runs"
    assert mirrors.opened(tmp_path) == tmp_path == mirrors.opened(f"file://{tmp_path}")
    assert mirror.shown(tmp_path) == str(tmp_path)


def test_a_file_beside_the_versions_is_shared(url: str, machine: Any) -> None:
    """What is written without a lock is in the store at once, also at the size it had, by which
    another machine takes a growth over; what is removed is gone."""
    first, name = machine("a", url), Path("datasets", "toy", "judgements.jsonl")
    write_lines(first / name, [b"1\n"])
    second = machine("b", url)
    write_lines(second / name, [b"2\n"])
    mirror.fetch(first / name)
    assert (first / name).read_bytes() == b"2\n"
    mirror.remove(first / name)
    assert str(name) not in there(url)
    assert not (machine("b", url) / name).exists()


class Slow(OtherMemory):
    """A store that takes its time."""

    protocol = "slow"
    store: ClassVar[dict[str, Any]] = {}

    def get_file(self, *args: Any, **kwargs: Any) -> None:
        time.sleep(0.25)
        super().get_file(*args, **kwargs)


class Awaiting(Slow):
    """A store in which each file takes until the event loop has gone on for a while."""

    turns: ClassVar[int] = 0  # of the loop

    def put_file(self, *args: Any, **kwargs: Any) -> None:
        enough = Awaiting.turns + 10
        wait_for(lambda: Awaiting.turns >= enough, "the loop goes on", patience=30)
        super().put_file(*args, **kwargs)


def test_a_slow_store_does_not_hold_up_the_work(machine: Any) -> None:
    """While files are on their way the event loop goes on, and the run ends when all are there."""
    fsspec.register_implementation("slow", Awaiting, clobber=True)
    outputs = machine("a", "slow://store")

    async def work() -> None:
        async def turn() -> None:
            while True:
                Awaiting.turns += 1
                await asyncio.sleep(0.01)

        turning = asyncio.create_task(turn())
        folder = RunFolder(outputs / "runs" / "toy-1")
        async with folder.held():
            for index in range(3):
                folder.stage("queries").write_shard(index, [b"{}\n"], [], Usage())
                await asyncio.sleep(0.05)
        turning.cancel()

    asyncio.run(work())
    assert len(Slow().find("/store/runs")) == 9


def test_a_long_fetch_is_told(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits learns how many files and bytes have come."""
    fsspec.register_implementation("slow", Slow, clobber=True)
    told: list[str] = []
    monkeypatch.setattr(mirror_unit, "EVERY", 0.5)
    with hold_folder(machine("a", "slow://long") / "runs" / "toy-1"):
        for number in range(12):
            write_lines(machine("a", "slow://long") / f"runs/toy-1/{number}.jsonl", [b"x" * 99_999])
    token = mirrors.TELL.set(told.append)
    mirror.fetch(machine("b", "slow://long") / "runs" / "toy-1")
    mirrors.TELL.reset(token)
    assert told
    assert told[0].startswith("Fetching slow://long/runs/toy-1: ")
    assert "of 12 files" in told[0]


def test_a_mirror_that_is_open_asks_the_store_no_more(
    url: str, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was told once is known to all who are given its path; a URL is looked up anew,
    unless nobody needs that."""
    machine("a", url)
    refreshed: list[Path] = []
    refresh = mirrors.Mirror.refresh

    def counted(self: mirrors.Mirror) -> None:
        refreshed.append(self.root)
        refresh(self)

    monkeypatch.setattr(mirrors.Mirror, "refresh", counted)
    root = mirrors.opened(url)
    assert refreshed == [root]
    assert mirrors.opened(root) == mirrors.opened(url, refresh=False) == root
    assert refreshed == [root]


RUN, SHARD = Path("runs", "toy-1"), "runs/toy-1/queries/shards/00000"


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
            (outputs / f"{SHARD}.done").unlink()
    with hold_folder(machine("a", url) / RUN):
        assert (first / f"{SHARD}.accepted.jsonl").read_bytes() == b'"hers"\n'


class Crossed(OtherMemory):
    """A store in which something happens just before a manifest arrives."""

    protocol = "crossed"
    store: ClassVar[dict[str, Any]] = {}
    between: ClassVar[list[Callable[[], None]]] = []

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


def test_an_emptied_store_takes_nothing_from_the_disk(url: str, machine: Any) -> None:
    """What was finished is not seen any more, and is all in `.gone`."""
    outputs = machine("a", url)
    run(outputs)
    kept = {path.name for path in outputs.rglob("*.jsonl") if not path.name.startswith(".")}
    MEMORY.rm("/" + url.removeprefix("memory://"), recursive=True)
    with hold_folder(next((machine("a", url) / "runs").iterdir())):
        pass
    assert {path.name for path in (outputs / ".gone").rglob("*.jsonl")} == kept


def test_a_full_disk_is_told_as_one(store: s3_server.Store, tmp_path: Path) -> None:
    """While a run is fetched: not as a store that fails, and the next start goes on."""
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
