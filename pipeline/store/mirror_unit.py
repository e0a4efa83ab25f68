"""One folder of a mirror – a run, a dataset, a pool – and its like in the store: which of its files
count, the journal of what is in both places, and what travels between them.

The store is the truth. What was made here and is not in the store yet is brought there; what the
store has and this folder lacks, or has otherwise, comes from there; what is gone from the store is
set aside here. A journal tells these apart: it holds, for each file that is in both places, how the
store named it and how it was here. A file whose marker is not in the store yet counts as not being
there, so that what was half pushed is never taken for finished.

Two machines that publish at once are kept by a claim from bringing files of one version. While the
work goes on, what is written is brought in a thread, markers last (`Pushes`). Names of files are
those in a run's, dataset's or pool's folder.
"""

from __future__ import annotations

import filecmp
import json
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import astuple, dataclass
from enum import Enum
from itertools import chain, count
from pathlib import Path

from toolloom.pipeline.store.files import explain
from toolloom.pipeline.store.locks import LOCK as FOLDER
from toolloom.pipeline.store.locks import hold, is_held
from toolloom.pipeline.store.remote import Remote, RemoteFile, each
from toolloom.schemas import StoreError

VERSION = re.compile(r"(\d+\.\d+\.\d+)/.+")
SHARD = re.compile(r"(.+)/shards/(\d+)\.(?:accepted\.jsonl|rejected\.jsonl|done)")


def marker_of(name: str) -> str:
    """The file without which this one does not count; empty if there is none."""
    if found := VERSION.fullmatch(name):
        return f"{found[1]}/manifest.json"
    if found := SHARD.fullmatch(name):
        return f"{found[1]}/shards/{found[2]}.done"
    folder, _, last = name.rpartition("/")
    return f"{folder}/done.json" if folder and last in ("accepted.jsonl", "rejected.jsonl") else ""


def is_marker(name: str) -> bool:
    return marker_of(name) == name or is_stage_marker(name)


def is_stage_marker(name: str) -> bool:
    return name.endswith("/done.json")


def is_manifest(name: str) -> bool:
    return bool(VERSION.fullmatch(name)) and is_marker(name)


def whole(there: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
    """Without the files whose marker is lacking."""
    return {n: seen for n, seen in there.items() if (marker_of(n) or n) in there}


def with_files(names: Iterable[str], among: Iterable[str]) -> list[str]:
    """Names, and for each marker in them the files that it makes count."""
    names = set(names)
    markers = set(filter(is_marker, names))
    return sorted(names | {name for name in among if marker_of(name) in markers})


@dataclass(frozen=True)
class Both:
    """A file that is in both places: in the store, and here."""

    size: int
    tag: str  # empty: not told yet, as stores do not when a file is given to them
    changed: int  # st_mtime_ns

    def is_there(self, seen: RemoteFile) -> bool:
        return self.size == seen.size and self.tag in ("", seen.tag)


class Journal:
    """A line for each change, so that a kill costs one at most; safe among threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        self._both: dict[str, Both] = {}

    def __getitem__(self, name: str) -> Both | None:
        return self._both.get(name)

    def names(self) -> list[str]:
        with self._writing:
            return list(self._both)

    def note(self, name: str, both: Both | None) -> None:
        """Write down what is in both places; None: nothing."""
        with self._writing:
            if both is None:
                self._both.pop(name, None)
            else:
                self._both[name] = both
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(name, both))

    def read(self, shorten: bool) -> None:
        """Take in what processes have noted; `shorten`: nobody else writes now."""
        count = 0
        self._both = {}
        with suppress(FileNotFoundError), self.path.open(encoding="utf-8") as file:
            for line in file:
                count += 1
                with suppress(ValueError, TypeError):  # a line that a kill has cut
                    name, fields = json.loads(line)
                    self._both.pop(name, None)
                    if fields:
                        self._both[name] = Both(*fields)
        if shorten and count > 2 * len(self._both) + 100:
            temporary = self.path.with_name(f"{self.path.name}.tmp")
            lines = (_line(name, both) for name, both in self._both.items())
            temporary.write_text("".join(lines), encoding="utf-8")
            temporary.replace(self.path)


def _line(name: str, both: Both | None) -> str:
    return json.dumps([name, both and astuple(both)]) + "\n"


CLAIM = ".claim"  # in the version's folder in the store


@contextmanager
def claimed(remote: Remote, dataset: str, manifest: Path, mine: Collection[str]) -> Iterator[None]:
    """Hold a version's number in the store, while its files (`mine`) are brought there.

    The claim is the manifest under another name, so who goes on with a publication that was killed
    finds its own. What others have left under the number is removed. Raises StoreError.
    """
    version = f"{dataset}/{manifest.parent.name}"
    claim = f"{version}/{CLAIM}"
    if not remote.give(manifest, claim, new=True) and not _is_like(remote, claim, manifest):
        raise StoreError(
            f"{remote.url}/{version}: another machine is publishing it. Wait for it to end and run "
            "the same command again. If it was killed, run its recipe again, on any machine, or "
            f"remove {CLAIM} there."
        )
    if remote.seen(f"{version}/manifest.json"):  # it came before the claim did
        remote.remove([claim])
        raise taken(remote, f"{version}/manifest.json")
    there = {f"{manifest.parent.name}/{name}" for name in remote.files(version)}
    if left := there - set(mine):
        remote.remove(f"{dataset}/{name}" for name in left)
    yield
    remote.remove([claim])  # after an error it stays, for who goes on


def taken(remote: Remote, name: str) -> StoreError:
    return StoreError(
        f"{remote.url}/{name}: is there already: another machine was quicker. Run the same command "
        "again to go on from what is there."
    )


def _is_like(remote: Remote, name: str, path: Path) -> bool:
    copy = path.with_name(f"{CLAIM}.tmp")
    try:
        remote.take(name, copy)
        return filecmp.cmp(path, copy, shallow=False)
    finally:
        copy.unlink(missing_ok=True)


JOURNAL, LOCK, ASIDE = ".store.jsonl", ".store.lock", ".gone"
Tell = Callable[[str], None]
EVERY = 10.0  # seconds between lines about a long fetch; the first comes after a third of them


class Role(Enum):
    """How a process stands to a folder that it brings up to date."""

    HOLDER = "holder"  # it holds the folder's lock: what is here may be new
    READER = "reader"  # nobody does
    GUEST = "guest"  # another process does: only what is lacking is brought


class Unit:
    """A folder of the mirror that is kept like its folder in the store."""

    def __init__(self, path: Path, name: str, remote: Remote) -> None:
        self.path = path
        self.name = name
        self.kind = name.partition("/")[0]
        self._remote = remote
        self._journal = Journal(path / JOURNAL)

    @contextmanager
    def alone(self, role: Role | None = None) -> Iterator[None]:
        """Wait for another process that brings the folder up to date; what it noted is known."""
        with hold(self.path / LOCK):
            self._journal.read(shorten=role is Role.HOLDER or not self.held)
            yield

    def files(self, inner: str = "") -> dict[str, RemoteFile]:
        """What the store has in this folder, or in a folder in it, or of a file in it."""
        below = f"{self.name}/{inner}".rstrip("/")
        start = f"{inner}/" if inner else ""
        found = {f"{start}{name}": seen for name, seen in self._remote.files(below).items()}
        if not found and inner and (one := self._remote.seen(below)):
            return {inner: one}
        return found

    def looked(self) -> dict[str, RemoteFile]:
        """What of `files` is to be seen at once; asks as little as it can. Within `alone`."""
        names = self._remote.names(self.name)
        found = {name: seen for name, seen in names.items() if seen and self.is_seen_at_once(name)}
        folders = [name for name, seen in names.items() if seen is None]
        if self.kind == "datasets":
            manifests = [f"{name}/manifest.json" for name in folders]
            told = each(self._manifest, [name for name in manifests if is_manifest(name)])
            found |= {name: seen for name, seen in told if seen}
        return found

    def is_seen_at_once(self, name: str) -> bool:
        """Whether a file is brought before anybody asks for it: what tells what there is."""
        if self.kind == "runs":
            return name in ("recipe.yaml", "plan.json")
        # `latest` is a link, which each machine makes itself.
        return is_manifest(name) or ("/" not in name and name != "latest")

    def _manifest(self, name: str) -> tuple[str, RemoteFile | None]:
        """One that is known is not asked for again: versions do not change."""
        if (both := self._journal[name]) and (self.path / name).exists():
            return name, RemoteFile(both.size, both.tag)
        return name, self._remote.seen(f"{self.name}/{name}")

    def inner_names(self, inner: str) -> list[str]:
        """The files of a folder in this one."""
        return [f"{inner}/{name}" for name, _ in _files(self.path / inner)]

    @property
    def held(self) -> bool:
        """Whether the folder is held (locks.py), by this process or another."""
        return is_held(self.path / FOLDER)

    def update(
        self, there: Mapping[str, RemoteFile], within: Callable[[str], bool], role: Role, tell: Tell
    ) -> None:
        """Make both sides alike, as far as names are `within`; `there`: what the store has."""
        there = {name: seen for name, seen in whole(there).items() if within(name)}
        if role is not Role.GUEST:
            for name, seen in there.items():  # versions whose number has gone to another meanwhile
                both = self._journal[name]
                if is_manifest(name) and (both is None or not both.is_there(seen)):
                    self._set_aside(name.partition("/")[0])
        here = {name: stat for name, stat in _files(self.path) if within(name)}
        takes, gives, gone = self._compare(there, here, set(filter(within, self._journal.names())))
        # Markers travel with all of their files: others may have come half the way.
        takes = with_files(takes, there)
        gives = with_files(gives, (name for name, _ in _files(self.path)))
        gone = [name for name in gone if name not in set(gives)]
        if role is Role.GUEST:
            takes, gone = [name for name in takes if name not in here], []
        sure = each(self._is_gone, gone)
        forgotten = [name for name, is_gone in zip(gone, sure, strict=True) if is_gone]
        for manifest in filter(is_manifest, forgotten):
            self._set_aside(manifest.partition("/")[0])  # a version is there as a whole, or not
        for name in forgotten:
            self._set_aside(name)
            self._journal.note(name, None)
        self._take({name: there[name] for name in takes}, tell)
        if role is Role.HOLDER:
            self.give(gives)

    def _compare(
        self, there: Mapping[str, RemoteFile], here: Mapping[str, os.stat_result], known: set[str]
    ) -> tuple[list[str], list[str], list[str]]:
        """What to take from the store, what to give to it, and what is gone from it."""
        takes: list[str] = []
        gives: list[str] = []
        gone: list[str] = []
        finished = {n.removesuffix("done.json") for n in (*there, *here) if is_stage_marker(n)}
        for name in sorted(there.keys() | here.keys() | known):
            seen, stat, both = there.get(name), here.get(name), self._journal[name]
            new = stat is not None and (both is None or both.changed != stat.st_mtime_ns)
            superseded = name.partition("shards/")[0] in finished and "shards/" in name
            if seen is None:
                (gives if new and not superseded else gone if both else []).append(name)
            elif (both is None or not both.is_there(seen) or stat is None) and not superseded:
                takes.append(name)
            elif new and not superseded:
                gives.append(name)
            elif both is None or both.tag != seen.tag:  # also what is only to be cleared away
                changed = both.changed if both else 0
                self._journal.note(name, Both(seen.size, seen.tag, changed))
        return takes, gives, gone

    def give(self, names: Iterable[str]) -> None:
        """Bring files to the store, markers last. What is not here any more is left out."""
        names = set(names)
        with ExitStack() as claims:
            for name in filter(is_manifest, names):
                mine = self.inner_names(name.partition("/")[0])
                claims.enter_context(claimed(self._remote, self.name, self.path / name, mine))
            each(self._give, sorted(name for name in names if not is_marker(name)))
            each(self._give, sorted(name for name in names if is_marker(name)))

    def clear(self, folder: str) -> None:
        """Remove from the store what was brought there of a folder that is not here any more."""
        names = [name for name in self._journal.names() if name.startswith(f"{folder}/")]
        if names:
            self._remote.remove(f"{self.name}/{name}" for name in names)
        for name in names:
            self._journal.note(name, None)

    def _give(self, name: str) -> None:
        path = self.path / name
        try:
            stat = path.stat()
            given = self._remote.give(path, f"{self.name}/{name}", new=is_manifest(name))
        except FileNotFoundError:
            return  # its stage was finished meanwhile: what it held comes in another file
        if not given:
            raise taken(self._remote, f"{self.name}/{name}")
        tag = ""
        if self.kind != "runs" and not marker_of(name):  # others may change it, at the same size
            tag = seen.tag if (seen := self._remote.seen(f"{self.name}/{name}")) else ""
        self._journal.note(name, Both(stat.st_size, tag, stat.st_mtime_ns))

    def _take(self, files: Mapping[str, RemoteFile], tell: Tell) -> None:
        """Bring files from the store; markers go before their files change, and come last."""
        progress = Fetched(f"{self._remote.url}/{self.name}", files.values(), tell)
        markers = [name for name in files if is_marker(name)]
        for name in markers:
            (self.path / name).unlink(missing_ok=True)

        def take(name: str) -> None:
            seen, path = files[name], self.path / name
            temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._remote.take(f"{self.name}/{name}", temporary)
                if temporary.stat().st_size != seen.size:
                    raise StoreError(
                        f"{self._remote.url}/{self.name}/{name}: came in another size than "
                        "the store tells. Run the same command again."
                    )
                if seen.time:  # the latest run is the one whose recipe is youngest
                    os.utime(temporary, (seen.time, seen.time))
                both = self._journal[name]
                new = path.exists() and (both is None or both.changed != path.stat().st_mtime_ns)
                if new and not filecmp.cmp(temporary, path, shallow=False):
                    self._set_aside(name)  # what was made here since both places were alike
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            self._journal.note(name, Both(seen.size, seen.tag, path.stat().st_mtime_ns))
            progress.add(seen.size)

        each(take, [name for name in files if not is_marker(name)])
        each(take, markers)

    def _is_gone(self, name: str) -> bool:
        """Asked once more for each file: some stores leave out of a list what failed."""
        asked = {name, marker_of(name) or name}
        return any(self._remote.seen(f"{self.name}/{one}") is None for one in asked)

    def _set_aside(self, name: str) -> None:
        """Move a file or folder to where nobody looks: it may have gone by a mistake."""
        path, first = self.path / name, self.path.parents[1] / ASIDE / self.name / name
        if not path.exists():
            return
        if SHARD.fullmatch(name):  # its stage was finished elsewhere
            path.unlink(missing_ok=True)
            return
        numbered = (first.with_name(f"{first.name}.{number}") for number in count(2))
        place = next(p for p in chain([first], numbered) if not p.exists())
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)


def _files(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files below a folder, by name; hidden ones are this machine's own."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if not name.startswith(".") and not path.is_symlink():
                with suppress(FileNotFoundError):
                    yield path.relative_to(root).as_posix(), path.stat()


class Fetched:
    """Tells how far a fetch has come, if it takes long."""

    def __init__(self, where: str, files: Iterable[RemoteFile], tell: Tell) -> None:
        sizes = [seen.size for seen in files]
        self._where, self._tell = where, tell
        self._files, self._bytes = len(sizes), sum(sizes)
        self._done_files = self._done_bytes = 0
        self._next = time.monotonic() + EVERY / 3
        self._counting = threading.Lock()

    def add(self, size: int) -> None:
        with self._counting:
            self._done_files += 1
            self._done_bytes += size
            if time.monotonic() < self._next:
                return
            self._next = time.monotonic() + EVERY
        self._tell(
            f"Fetching {self._where}: {self._done_files:,} of {self._files:,} files, "
            f"{self._done_bytes / 1e6:,.0f} of {self._bytes / 1e6:,.0f} MB."
        )


class Pushes:
    """What is on its way to the store from one folder. It ends with the lock on the folder.

    What waits is taken together: files first, then markers, then what is not needed any more is
    removed. An error ends it; it is raised at the next file, and at the end.
    """

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._changed = threading.Condition()
        self._files: list[str] = []
        self._cleared: list[str] = []
        self._busy = self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="pushes", daemon=True)
        self._thread.start()

    def add(self, names: Iterable[str]) -> None:
        """Bring files to the store soon."""
        with self._changed:
            self._raise()
            self._files.extend(names)
            self._changed.notify_all()

    def clear(self, folder: str) -> None:
        """Remove a folder from the store when all that came before is there."""
        with self._changed:
            self._cleared.append(folder)
            self._changed.notify_all()

    def end(self, patience: float | None = None) -> None:
        """Wait until all is in the store, or so many seconds. Raises StoreError."""
        until = None if patience is None else time.monotonic() + patience
        with self._changed:
            while (self._files or self._cleared or self._busy) and not self._error:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
            self._closed = True
            self._changed.notify_all()
            self._raise()

    def _raise(self) -> None:
        if isinstance(self._error, StoreError):
            raise StoreError(str(self._error)) from self._error
        if isinstance(self._error, OSError):  # of the disk here
            raise explain(self.unit.path, self._error, "written") from self._error
        if self._error:
            raise self._error

    def _work(self) -> None:
        while batch := self._next():
            try:
                self.unit.give(batch[0])
                for folder in batch[1]:
                    self.unit.clear(folder)
            except BaseException as error:  # noqa: BLE001 – raised where it is waited for
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return

    def _next(self) -> tuple[list[str], list[str]] | None:
        """All that waits; None when nobody wants more."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            while not (self._files or self._cleared or self._closed):
                self._changed.wait()
            if self._closed:
                return None
            batch = self._files, self._cleared
            self._files, self._cleared, self._busy = [], [], True
            return batch
