"""One folder of a mirror – a run, a dataset, a pool – and its like in the store.

The store is the truth. What was made here and is not in the store yet is brought there; what the
store has and this folder lacks, or has otherwise, comes from there; what is gone from the store is
set aside here. A journal tells these apart: it holds, for each file that is in both places, how the
store named it and how it was here. A file whose marker is not in the store yet counts as not being
there, so that what was half pushed is never taken for finished.
"""

from __future__ import annotations

import filecmp
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from itertools import chain, count
from pathlib import Path

from toolloom.pipeline.store.locks import LOCK as FOLDER
from toolloom.pipeline.store.locks import hold, is_held
from toolloom.pipeline.store.mirror_claims import claimed, taken
from toolloom.pipeline.store.mirror_journal import Both, Journal
from toolloom.pipeline.store.mirror_names import (
    SHARD,
    is_manifest,
    is_marker,
    is_stage_marker,
    marker_of,
    whole,
    with_files,
)
from toolloom.pipeline.store.remote import Remote, RemoteFile, each
from toolloom.schemas import StoreError

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
            self._drop_other_versions(there)
        here = {name: stat for name, stat in _files(self.path) if within(name)}
        takes, gives, gone = self._compare(there, here, set(filter(within, self._journal.names())))
        # Markers travel with all of their files: others may have come half the way.
        takes = with_files(takes, there)
        gives = with_files(gives, (name for name, _ in _files(self.path)))
        gone = [name for name in gone if name not in set(gives)]
        if role is Role.GUEST:
            takes, gone = [name for name in takes if name not in here], []
        sure = each(self._is_gone, gone)
        self._forget(name for name, is_gone in zip(gone, sure, strict=True) if is_gone)
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

    def _drop_other_versions(self, there: Mapping[str, RemoteFile]) -> None:
        """Remove versions whose number has gone to another in the store meanwhile."""
        for name, seen in there.items():
            both = self._journal[name]
            if is_manifest(name) and (both is None or not both.is_there(seen)):
                self._set_aside(name.partition("/")[0])

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
            self._take_one(name, files[name])
            progress.add(files[name].size)

        each(take, [name for name in files if not is_marker(name)])
        each(take, markers)

    def _take_one(self, name: str, seen: RemoteFile) -> None:
        path = self.path / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._remote.take(f"{self.name}/{name}", temporary)
            if temporary.stat().st_size != seen.size:
                raise StoreError(
                    f"{self._remote.url}/{self.name}/{name}: came in another size than the store "
                    "tells. Run the same command again."
                )
            if seen.time:  # the latest run is the one whose recipe is youngest
                os.utime(temporary, (seen.time, seen.time))
            if self._is_new(name) and not filecmp.cmp(temporary, path, shallow=False):
                self._set_aside(name)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        self._journal.note(name, Both(seen.size, seen.tag, path.stat().st_mtime_ns))

    def _is_gone(self, name: str) -> bool:
        """Asked once more for each file: some stores leave out of a list what failed."""
        asked = {name, marker_of(name) or name}
        return any(self._remote.seen(f"{self.name}/{one}") is None for one in asked)

    def _forget(self, names: Iterable[str]) -> None:
        names = list(names)
        # A version is there as a whole, or not at all.
        for manifest in filter(is_manifest, names):
            self._set_aside(manifest.partition("/")[0])
        for name in names:
            self._set_aside(name)
            self._journal.note(name, None)

    def _is_new(self, name: str) -> bool:
        """Whether a file was made or changed here since it was last alike in both places."""
        path, both = self.path / name, self._journal[name]
        return path.exists() and (both is None or both.changed != path.stat().st_mtime_ns)

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
